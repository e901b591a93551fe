"""`ullage replay`: a session turn by turn, as if live, through every level."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ullage.cli.output import Output, share, tokens
from ullage.policy import Policy
from ullage.replay import Run, Script, Turn, replay, script_of
from ullage.sessions import Session, open_session

__all__ = ["replay_command"]

CELLS = 24
LETTERS = {
    "system": "s",
    "tools": "s",
    "user": "u",
    "assistant": "a",
    "thinking": "h",
    "tool calls": "c",
    "tool results": "r",
    "shortened results": "-",
    "media": "m",
    "summaries": "Σ",
}
"""How the window's bar shows a category; what is left is free."""


def replay_command(
    file: Annotated[Path, Parameter(help="a transcript of any known format")],
    *,
    model: Annotated[
        str | None, Parameter(help="whose window; default: the model in the file")
    ] = None,
    ladder: Annotated[
        bool, Parameter(negative="", help="the preset by shares of the window")
    ] = False,
    policy: Annotated[Path | None, Parameter(help="a TOML file with settings")] = None,
    conversation: Annotated[
        int, Parameter(help="which one, from 0, where a file holds several")
    ] = 0,
    all: Annotated[
        bool, Parameter(negative="", help="every request, not only those where a level acted")
    ] = False,
    json: Annotated[bool, Parameter(negative="", help="print JSON")] = False,
) -> int:
    """Run a session through every level, request by request, and compare. Nothing is written, no model is asked."""
    out = Output(as_json=json)
    opened = open_session(file, number=conversation)
    script = script_of(opened)
    chosen = Policy.load(policy) if policy else (Policy.ladder() if ladder else Policy.buffered())
    others = [None, Policy.buffered(), Policy.ladder()]
    policies = [chosen, *(each for each in others if each != chosen)]
    with out.progress("replaying", len(policies)) as step:
        runs = []
        for each in policies:
            runs.append(replay(script, each, model=model or ""))
            step(1)
    if json:
        out.json(_document(opened, script, runs))
    else:
        _show(out, opened, script, runs, whole=all)
    return 1 if runs[0].error else 0


# ---- as data ---------------------------------------------------------------------------------


def _document(opened: Session, script: Script, runs: list[Run]) -> dict[str, Any]:
    main = runs[0]
    unmanaged = next(run for run in runs if run.name == "unmanaged")
    return {
        "file": str(opened.path),
        "model": script.model,
        "window_tokens": main.window_tokens,
        "preset": main.name,
        "overhead_tokens": script.overhead_tokens,
        "messages": len(script.messages),
        "own_compactions": list(script.compactions),
        "requests": [_turn(turn) for turn in main.turns],
        "rewrites": main.rewrites,
        "largest_request_tokens": max((turn.tokens for turn in main.turns), default=0),
        "largest_unmanaged_tokens": max((turn.tokens for turn in unmanaged.turns), default=0),
        "runs": [_run(run) for run in runs],
        "error": main.error or None,
    }


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "number": turn.number,
        "message": turn.message,
        "tokens": turn.tokens,
        "unmanaged_tokens": turn.unmanaged_tokens,
        "own_tokens": turn.own_tokens,
        "by_category": dict(turn.by_category),
        "acted": [stage for stage, _, _ in turn.acted],
        "reasons": [why for _, why, _ in turn.acted],
        "freed_tokens": sum(freed for _, _, freed in turn.acted),
        "rewritten_from": turn.rewritten_from,
        "cache_read_tokens": turn.read_tokens,
        "cache_write_tokens": turn.written_tokens,
        "rewritten_tokens": turn.rewritten_tokens,
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "requests": len(run.turns),
        "over_window": run.refused,
        "largest_tokens": max((turn.tokens for turn in run.turns), default=0),
        "rewrites": run.rewrites,
        "cache_read_tokens": run.total("read_tokens"),
        "cache_write_tokens": run.total("written_tokens"),
        "rewritten_tokens": run.total("rewritten_tokens"),
        "prompt_nanousd": run.nanousd,
        "error": run.error or None,
    }


# ---- for a person ----------------------------------------------------------------------------


def _show(out: Output, opened: Session, script: Script, runs: list[Run], *, whole: bool) -> None:
    main = runs[0]
    out.heading(
        f"{opened.path.name}  ({script.model or 'no model named'}, window {tokens(main.window_tokens)} tokens, "
        f"Policy.{main.name}())"
    )
    _show_turns(out, script, main, whole=whole)
    out.heading("compared")
    out.table(
        (
            "",
            "requests",
            "over window",
            "largest",
            "rewrites",
            "written",
            "of it again",
            "read",
            "prompts",
        ),
        [_row(run, script) for run in runs],
        right=range(1, 9),
    )
    _show_own(out, script, main)
    if main.error:
        out.line(f"ended early: {main.error}", style="red")


def _show_turns(out: Output, script: Script, main: Run, *, whole: bool) -> None:
    shown = [turn for turn in main.turns if whole or turn.acted or turn is main.turns[-1]]
    if not any(turn.acted for turn in main.turns):
        out.line("no level had to act")
    out.table(
        ("request", "said", "tokens", "window", "what fills it", "acted", "freed", "written again"),
        (_line(turn, main.window_tokens) for turn in shown),
        right=(0, 1, 2, 3, 6, 7),
    )
    out.line(
        "s system, tools  u user  a assistant  h thinking  c calls  r results  - shortened  Σ summaries  m media",
        style="dim",
    )
    own = ", ".join(f"after message {at:,}" for at in script.compactions)
    if own:
        out.line(f"the session compacted itself {own}")


def _line(turn: Turn, window: int) -> tuple[str, ...]:
    freed = sum(freed for _, _, freed in turn.acted)
    return (
        f"{turn.number:,}",
        f"{turn.message:,}",
        tokens(turn.tokens),
        share(turn.tokens, window),
        _filled(turn, window),
        ", ".join(f"{stage} ({why})" for stage, why, _ in turn.acted),
        tokens(freed) if turn.acted else "",
        tokens(turn.rewritten_tokens) if turn.rewritten_from is not None else "",
    )


def _filled(turn: Turn, window: int) -> str:
    """A bar of the window, a letter for each category; dots are free."""
    cells, done, passed = "", 0, 0
    for category, size in turn.by_category.items():
        passed += size
        upto = min(CELLS, round(CELLS * passed / window)) if window else 0
        cells += LETTERS.get(category, "o") * (upto - done)
        done = max(done, upto)
    return cells.ljust(CELLS, "·")


def _row(run: Run, script: Script) -> tuple[str, ...]:
    del script
    name = {"unmanaged": "no management"}.get(run.name, f"Policy.{run.name}()")
    return (
        name,
        f"{len(run.turns):,}" + (" !" if run.error else ""),
        f"{run.refused:,}",
        tokens(max((turn.tokens for turn in run.turns), default=0)),
        f"{run.rewrites:,}",
        tokens(run.total("written_tokens")),
        tokens(run.total("rewritten_tokens")),
        tokens(run.total("read_tokens")),
        f"${run.nanousd / 1e9:,.2f}",
    )


def _show_own(out: Output, script: Script, main: Run) -> None:
    reported = [turn for turn in main.turns if turn.own_tokens]
    if not reported:
        return
    own = max(turn.own_tokens for turn in reported)
    total = sum(turn.own_tokens for turn in reported)
    ours = sum(turn.tokens for turn in reported)
    out.line(
        f"the session's own prompts, as reported: the largest {tokens(own)} tokens, {tokens(total)} in all "
        f"{len(reported):,} requests; these requests here {tokens(ours)}; {len(script.compactions)} compactions of its own"
    )

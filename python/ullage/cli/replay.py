"""`ullage replay`: a session turn by turn through every level, as if it were live."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ullage.cli.output import (
    Json,
    Ladder,
    Output,
    PolicyOption,
    PricesOption,
    SessionArgument,
    WhichConversation,
    WindowOption,
    file_name,
    read_window,
    share,
)
from ullage.counting.models import ModelTable
from ullage.policy import Policy
from ullage.replay import (
    DEFAULT_MODEL,
    WORKING_SIZES,
    ReplayedTurn,
    Run,
    SessionScript,
    SizeCost,
    costs_by_size,
    replay_session,
    script_of,
)
from ullage.sessions import Session, open_session

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
    "host text": "i",
}
"""Letters of the categories in the window's bar."""


def replay_command(
    file: SessionArgument,
    *,
    model: str | None = None,
    window: WindowOption = None,
    prices: PricesOption = None,
    ladder: Ladder = False,
    policy: PolicyOption = None,
    frontier: bool = False,
    conversation: WhichConversation = 0,
    all: bool = False,
    json: Json = False,
) -> int:
    """Run a session through every level, request by request, and compare. Writes nothing and calls no model.

    Args:
        model: model whose window applies; default: the one in the file
        frontier: show cost and lost names at several working sizes
        all: show every request, not only those where a level acted
    """
    out = Output(as_json=json)
    settings, table = read_window(window), ModelTable.load(*filter(None, [prices]))
    opened = open_session(file, number=conversation)
    script = script_of(opened)
    chosen = Policy.load(policy) if policy else (Policy.ladder() if ladder else Policy.buffered())
    others = [None, Policy.buffered(), Policy.ladder()]
    policies = [chosen, *(other for other in others if other != chosen)]
    with out.progress("replaying", len(policies) + len(WORKING_SIZES) * frontier) as step:
        runs = []
        model = model or ""
        for rules in policies:
            runs.append(replay_session(script, rules, model=model, table=table, settings=settings))
            step(1)
        sizes = tuple[SizeCost, ...]()
        if frontier:
            sizes = costs_by_size(script, chosen, model=model, table=table, step=lambda: step(1))
    if json:
        working_sizes = [size._asdict() for size in sizes]
        document = _document(opened, script, runs)
        out.json({**document, "working_sizes": working_sizes, "prices": table.version})
    else:
        named = [(run.name, run) for run in runs]
        if policy:
            named[0] = policy.name, runs[0]
        _show(out, opened, script, named, model=model, whole=all)
        if sizes:
            show_sizes(out, sizes)
        out.line(f"prices of {table.version}", style="dim")
    return 1 if runs[0].error else 0


def _document(opened: Session, script: SessionScript, runs: list[Run]) -> dict[str, Any]:
    main = runs[0]
    unmanaged = next(run for run in runs if run.name == "unmanaged")
    return {
        "file": file_name(opened.path),
        "model": script.model,
        "window_tokens": main.window_tokens,
        "working_tokens": main.working_tokens,
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


def _turn(turn: ReplayedTurn) -> dict[str, Any]:
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


def _show(
    out: Output,
    opened: Session,
    script: SessionScript,
    runs: list[tuple[str, Run]],
    *,
    model: str,
    whole: bool,
) -> None:
    main = runs[0][1]
    played = model or script.model or f"{DEFAULT_MODEL} (the session names no model)"
    own_model = f" (the session's own: {script.model})" if script.model not in ("", played) else ""
    out.heading(opened.path.name)
    lower = main.working_tokens < main.window_tokens
    worked = f", worked in as {main.working_tokens:,}" if lower else ""
    out.line(f"window of {played}{own_model}: {main.window_tokens:,} tokens{worked}")
    out.line(f"policy {runs[0][0]}, {len(main.turns):,} requests")
    if main.turns:
        _show_turns(out, main, whole=whole)
    out.heading("compared")
    out.table(
        ("", "over window", "largest", "rewrites", "written", "again", "read", "prompts"),
        [_row(name, run) for name, run in runs],
        right=range(1, 8),
    )
    for text in _LEGEND:
        out.line(text, style="dim")
    _show_own(out, script, main)
    for name, run in runs:
        if run.error:
            ended = f"{name} ended early, after {len(run.turns):,} requests: {run.error}"
            out.line(ended, style="red")


_LEGEND = (
    "over window: requests that the provider would refuse",
    "rewrites: requests that change part of the one before",
    "written, read: tokens written to and read from the provider's cache",
    "again: written again because a level changed something before them",
    "prompts: cost of the prompts at the model's prices, without output",
)


def _show_turns(out: Output, main: Run, *, whole: bool) -> None:
    shown = [turn for turn in main.turns if whole or turn.acted or turn is main.turns[-1]]
    if not any(turn.acted for turn in main.turns):
        out.line("no level had to act")
    # On a terminal of fewer columns there is no room for the full length.
    cells = 24 if out.piped or out.console.width >= 100 else 12
    out.line("")
    out.table(
        ("request", "tokens", "window", "contents", "acted", "freed", "again"),
        (_line(turn, main.working_tokens, cells) for turn in shown),
        right=(0, 1, 2, 5, 6),
    )
    used = {name for turn in shown for name in turn.by_category}
    letters: dict[str, list[str]] = {}
    for name, letter in LETTERS.items():
        if name in used:
            letters.setdefault(letter, []).append(name)
    legend = "  ".join(f"{letter} {', '.join(names)}" for letter, names in letters.items())
    out.line(f"{legend}  · free", style="dim")

    # Why each level acted; reasons that differ only in their numbers are merged.
    by_reason: dict[tuple[str, str], list[str]] = {}
    for turn in main.turns:
        for stage, why, _ in turn.acted:
            by_reason.setdefault((stage, re.sub(r"\d[\d,]*", "#", why)), []).append(why)
    for (stage, _), reasons in sorted(by_reason.items()):
        times = "once" if len(reasons) == 1 else f"{len(reasons):,} times"
        such = "" if len(set(reasons)) == 1 else "such as "
        out.line(f"{stage}, {times}: {such}{reasons[0]}")


def _line(turn: ReplayedTurn, window: int, cells: int) -> tuple[str, ...]:
    freed = sum(freed for _, _, freed in turn.acted)
    return (
        f"{turn.number:,}",
        f"{turn.tokens:,}",
        share(turn.tokens, window),
        _filled(turn, window, cells),
        ", ".join(stage for stage, _, _ in turn.acted),
        f"{freed:,}" if turn.acted else "",
        f"{turn.rewritten_tokens:,}" if turn.rewritten_from is not None else "",
    )


def _filled(turn: ReplayedTurn, window: int, cells: int) -> str:
    """A bar of the window with a letter for each category; dots are free space."""
    bar, done, passed = "", 0, 0
    for category, size in turn.by_category.items():
        passed += size
        upto = min(cells, round(cells * passed / window)) if window else 0
        bar += LETTERS.get(category, "o") * (upto - done)
        done = max(done, upto)
    return bar.ljust(cells, "·")


def _row(name: str, run: Run) -> tuple[str, ...]:
    return (
        name,
        f"{run.refused:,}",
        short(max((turn.tokens for turn in run.turns), default=0)),
        f"{run.rewrites:,}",
        short(run.total("written_tokens")),
        short(run.total("rewritten_tokens")),
        short(run.total("read_tokens")),
        f"${run.nanousd / 1e9:,.2f}",
    )


def show_sizes(out: Output, sizes: Sequence[SizeCost]) -> None:
    """For each working size, the cost and how many names of the next calls it holds."""
    rows = [
        (f"{size.tokens:,}", f"${size.nanousd / 1e9:,.2f}", share(size.held_names, size.names))
        for size in sizes
    ]
    out.table(("works in", "prompts", "names held"), rows, right=(0, 1, 2))
    about = "names held: of those that the next 20 calls use and an unmanaged context holds"
    out.line(about, style="dim")


def short(count: int) -> str:
    """`85807214` as `85.8 M`: for comparison, not for sums."""
    if count < 10_000:
        return f"{count:,}"
    return f"{count / 1e6:,.1f} M" if count >= 999_500 else f"{count / 1e3:.0f} K"


def _show_own(out: Output, script: SessionScript, main: Run) -> None:
    reported = [turn for turn in main.turns if turn.own_tokens]
    if not reported:
        return
    own = max(turn.own_tokens for turn in reported)
    total = sum(turn.own_tokens for turn in reported)
    ours = sum(turn.tokens for turn in reported)
    out.line(
        f"the session's own prompts, as reported: the largest {own:,} tokens, {short(total)} in total; "
        f"the same requests here: {short(ours)}"
    )
    before = [
        next((f"{turn.number:,}" for turn in main.turns if turn.message > at), "a later one")
        for at in script.compactions
    ]
    if before:
        requests = "request" if len(before) == 1 else "requests"
        out.line(f"it compacted itself before {requests} {', '.join(before)}")

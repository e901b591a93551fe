"""`ullage replay`: a session turn by turn, as if live, through every level."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ullage.cli.output import Output, bar, share, tokens
from ullage.context import ContextManager, Request
from ullage.exceptions import ContextTooLarge
from ullage.offload import MemoryStore
from ullage.policy import Policy
from ullage.sessions import Session, open_session

__all__ = ["replay_command"]


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
    """Run a session through every level, request by request; compare with no management. Nothing is written."""
    out = Output(as_json=json)
    opened = open_session(file, number=conversation)
    base = Policy.load(policy) if policy else (Policy.ladder() if ladder else Policy.buffered())
    manager = ContextManager(model=model or opened.model, policy=base, store=MemoryStore())
    with out.progress("replaying", len(opened.messages)) as step:
        rows, error = _replay(manager, opened, step)
    report = _report(opened, manager, rows, error)
    if json:
        out.json(report)
    else:
        _show(out, report, whole=all)
    return 1 if error else 0


def _replay(
    manager: ContextManager, opened: Session, step: Any
) -> tuple[list[dict[str, Any]], str]:
    rows: list[dict[str, Any]] = []
    unmanaged = ContextManager(model=manager.model.name, policy=Policy.buffered())
    messages = opened.messages
    for at, message in enumerate(messages):
        manager.add(message)
        unmanaged.add(message)
        step(1)
        if message["role"] != "user" or (
            at + 1 < len(messages) and messages[at + 1]["role"] == "user"
        ):
            continue
        try:
            request = manager.prepare()
        except ContextTooLarge as exc:
            return rows, str(exc)
        rows.append(_row(at, request, unmanaged.usage().tokens))
    return rows, ""


def _row(at: int, request: Request, unmanaged: int) -> dict[str, Any]:
    compacted = request.compaction is not None and request.compaction.compacted
    stages = [report.stage for report in request.reports]
    acted = list(dict.fromkeys([*stages, *(["autocompact"] if compacted else [])]))
    rewritten = [
        report.first_changed for report in request.reports if report.first_changed is not None
    ]
    freed = sum(report.freed for report in request.reports)
    if compacted and request.compaction is not None and "autocompact" not in stages:
        counts = request.compaction.report
        freed += counts.tokens_before - counts.tokens_after
    return {
        "message": at,
        "tokens": request.tokens,
        "unmanaged_tokens": unmanaged,
        "acted": acted,
        "freed_tokens": freed,
        "rewritten_from": 0 if compacted else min(rewritten, default=None),
    }


def _report(
    opened: Session, manager: ContextManager, rows: list[dict[str, Any]], error: str
) -> dict[str, Any]:
    return {
        "file": str(opened.path),
        "model": manager.model.name,
        "window_tokens": manager.model.context_window,
        "preset": manager.policy.preset,
        "requests": rows,
        "rewrites": sum(row["rewritten_from"] is not None for row in rows),
        "largest_request_tokens": max((row["tokens"] for row in rows), default=0),
        "largest_unmanaged_tokens": max((row["unmanaged_tokens"] for row in rows), default=0),
        "error": error or None,
    }


def _show(out: Output, report: dict[str, Any], *, whole: bool) -> None:
    window, rows = report["window_tokens"], report["requests"]
    out.heading(
        f"{report['file']}  ({report['model']}, {tokens(window)} tokens, Policy.{report['preset']}())"
    )
    shown = [row for row in rows if whole or row["acted"]]
    if shown:
        _table(out, shown, window)
    else:
        out.line("no level had to act")
    out.line(
        f"{len(rows):,} requests, the largest {tokens(report['largest_request_tokens'])} tokens (without Ullage "
        f"{tokens(report['largest_unmanaged_tokens'])}); {report['rewrites']:,} rewrites of what was sent before"
    )
    if report["error"]:
        out.line(f"ended early: {report['error']}", style="red")


def _table(out: Output, rows: list[dict[str, Any]], window: int) -> None:
    out.table(
        ("message", "tokens", "window", "", "acted", "freed", "prefix kept to"),
        (
            (
                f"{row['message']:,}",
                tokens(row["tokens"]),
                share(row["tokens"], window),
                bar(row["tokens"], window, 20),
                ", ".join(row["acted"]),
                tokens(row["freed_tokens"]) if row["acted"] else "",
                "the end"
                if row["rewritten_from"] is None
                else f"message {row['rewritten_from']:,}",
            )
            for row in rows
        ),
        right=(0, 1, 2, 5),
    )

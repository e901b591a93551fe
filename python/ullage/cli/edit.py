"""`ullage edit`: lists turns and tool results with their sizes, and removes chosen ones from the view."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from cyclopts import Parameter

from ullage.cli.output import Output, tokens
from ullage.cli.session_file import SessionArgument
from ullage.counting.estimate import weights_for
from ullage.sessions import Session, open_session
from ullage.sessions.edit import SessionPart, remove_parts, session_parts
from ullage.sessions.session_list import context_tokens

__all__ = ["edit_command"]


def edit_command(
    file: SessionArgument,
    *,
    remove: Annotated[
        list[str] | None,
        Parameter(
            alias="-r",
            consume_multiple=True,
            help="names from the list, such as t3 r7: they leave the view, not the file",
        ),
    ] = None,
    results: Annotated[
        bool, Parameter(negative="", help="list tool results only, the largest first")
    ] = False,
    dry_run: Annotated[
        bool, Parameter(alias="-n", negative="", help="write nothing, show what would happen")
    ] = False,
    json: Annotated[bool, Parameter(negative="", help="print JSON")] = False,
) -> int:
    """List the turns and tool results in the context with their sizes; with --remove, take some of them out.

    Lines are only appended, and `ullage undo` takes the change back.
    """
    out = Output(as_json=json)
    opened = open_session(file)
    parts = session_parts(opened)
    if remove:
        return _remove(out, opened, remove, write=not dry_run)
    shown = [part for part in parts if part.kind == "result"] if results else parts
    if results:
        shown.sort(key=lambda part: -part.tokens)
    if json:
        out.json({"file": str(file), "parts": [dataclasses.asdict(part) for part in shown]})
        return 0
    out.heading(str(file))
    rows = ((_indented(part), tokens(part.tokens), _said(part)) for part in shown)
    out.table(("name", "tokens", ""), rows, right=(1,))
    return 0


def _indented(part: SessionPart) -> str:
    return part.name if part.kind == "turn" else f"  {part.name}"


def _said(part: SessionPart) -> str:
    return f"{part.title} (cleared)" if part.cleared else part.title


def _remove(out: Output, opened: Session, names: list[str], *, write: bool) -> int:
    before = context_tokens(opened)
    now = remove_parts(opened, names, write=write)
    # By the estimate on both sides: what the provider reported last is of the longer context.
    after = max(0, before - _estimated(opened) + _estimated(now))
    report = {
        "file": str(opened.path),
        "removed": names,
        "tokens_before": before,
        "tokens_after": after,
        "messages_before": len(opened.messages),
        "messages_after": len(now.messages),
        "written": write,
    }
    if out.as_json:
        out.json(report)
        return 0
    size = f", {tokens(before)} → {tokens(after)} tokens" + ("" if write else " (dry run)")
    out.line(f"{', '.join(names)}: {len(opened.messages):,} → {len(now.messages):,} messages{size}")
    return 0


def _estimated(session: Session) -> int:
    from ullage._engine import core

    return int(core.Ledger(weights_for(session.model or None), session.items).tokens())

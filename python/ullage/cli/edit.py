"""`ullage edit` removes chosen parts of a session, `ullage undo` reverts a compaction, `ullage handoff` writes the session for another tool."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

from cyclopts import Parameter

from ullage.cli.output import (
    DryRun,
    Json,
    Output,
    SessionArgument,
    counted,
    file_name,
    read_target,
    read_window,
)
from ullage.counting.calibration import weights_for
from ullage.exceptions import InvalidPolicy
from ullage.sessions import Session, open_session
from ullage.sessions.edit import remove_parts, session_parts, undo_compaction
from ullage.sessions.find import home_relative
from ullage.sessions.inspected import context_tokens

if TYPE_CHECKING:
    from ullage.sessions.handoff import HandedOver


def edit_command(
    file: SessionArgument,
    *,
    remove: Annotated[list[str] | None, Parameter(alias="-r", consume_multiple=True)] = None,
    results: bool = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> int:
    """List the turns and tool results in the context with their sizes; with --remove, remove some of them.

    This only appends to the file, and `ullage undo` reverts it.

    Args:
        remove: names from the list, such as t3 r7, to hide from the model; the file keeps them
        results: list tool results only, the largest first
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
        out.json({"file": file_name(file), "parts": [dataclasses.asdict(part) for part in shown]})
        return 0
    out.file_heading(file_name(file))
    rows = []
    for part in shown:
        name = part.name if part.kind == "turn" else f"  {part.name}"
        title = f"{part.title} (cleared)" if part.cleared else part.title
        rows.append((name, f"{part.tokens:,}", title))
    out.table(("name", "tokens", ""), rows, right=(1,))
    return 0


def _remove(out: Output, opened: Session, names: list[str], *, write: bool) -> int:
    before = context_tokens(opened)
    now = remove_parts(opened, names, write=write)
    # Estimates on both sides: the provider's last figure is of the longer context.
    after = max(0, before - _estimated(opened) + _estimated(now))
    report = {
        "file": file_name(opened.path),
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
    size = f", {before:,} → {after:,} tokens" + ("" if write else " (dry run)")
    out.line(f"{', '.join(names)}: {len(opened.messages):,} → {len(now.messages):,} messages{size}")
    return 0


def _estimated(session: Session) -> int:
    from ullage._engine import core

    return int(core.Ledger(weights_for(session.model or None), session.items).tokens())


# `ullage undo`: reverts the newest compaction.


def undo_command(
    file: SessionArgument,
    *,
    dry_run: DryRun = False,
    json: Json = False,
) -> int:
    """Undo the newest compaction: the model sees again what it removed, and what was said since.

    This only appends to the file. Run it again to undo the compaction before that one.
    """
    out = Output(as_json=json)
    done = undo_compaction(open_session(file), write=not dry_run)
    report: dict[str, Any] = {
        "file": file_name(file),
        "undone": done.undone,
        "when": done.when or None,
        "messages_before": done.messages_before,
        "messages_after": done.messages_after,
        "tokens_before": done.tokens_before,
        "tokens_after": None if dry_run else done.tokens_after,
        "compactions_left": done.left,
        "written": not dry_run,
    }
    left = [] if dry_run else [violation.detail for violation in done.session.request().left]
    report["would_be_refused"] = left
    if json:
        out.json(report)
        return 0
    out.file_heading(file_name(file))
    # The file gives it the time of the message before it.
    after = f", after the message of {done.when[:16].replace('T', ' ')}" if done.when else ""
    out.line(f"undone  the newest change{after}")
    after = "" if dry_run else f", {done.tokens_after:,} tokens"
    out.line(f"before  {done.messages_before:,} messages, {done.tokens_before:,} tokens")
    out.line(f"now     {done.messages_after:,} messages{after}")
    out.notes([f"the provider would refuse this context: {detail}" for detail in left])
    more = "nothing is left to undo"
    if done.left:
        more = f"{done.left:,} earlier {'one' if done.left == 1 else 'ones'} can be undone too"
    out.line("nothing written (dry run)" if dry_run else more)
    return 0


Tool: TypeAlias = Literal["claude-code", "codex", "pi", "opencode"]


def handoff_command(
    file: SessionArgument,
    *,
    to: Tool | None = None,
    model: str = "",
    window: str | None = None,
    target: Annotated[str | None, Parameter(alias="-t")] = None,
    cwd: str = "",
    dry_run: DryRun = False,
    json: Json = False,
) -> int:
    """Write a session in another tool's format, compacted if it does not fit that tool's window, and print how to continue.

    The old session is not changed. Calls keep their ids, and user messages are copied verbatim.

    Args:
        to: the tool that continues
        model: the model that continues there; its window applies
        window: tokens of that model's window (200000, 200k); default: the model's, or the tool's usual one
        target: maximum tokens of messages in the new context (20000, 20k, 10%)
        cwd: folder of the new session; default: the old one's
    """
    from ullage.sessions.handoff import handoff  # `edit` and `undo` do not need it

    out = Output(as_json=json)
    if to is None:
        limit = f"must name the tool that continues: {', '.join(get_args(Tool))}"
        raise InvalidPolicy("--to", "nothing", limit, hint=f"ullage handoff {file} --to codex")
    session = open_session(file)
    done = handoff(
        session,
        to,
        model=model,
        window_tokens=read_window(window).auto_compact_window if window else None,
        target_tokens=read_target(target, session),
        cwd=cwd,
        write=not dry_run,
    )
    if json:
        # Not `asdict`, which makes counts of a Counter's items.
        fields = {field.name: getattr(done, field.name) for field in dataclasses.fields(done)}
        written = {"path": str(done.path), "losses": dict(done.losses), "written": not dry_run}
        out.json(fields | written)
    else:
        _show_handoff(out, str(file), done, written=not dry_run)
    return 0


def _show_handoff(out: Output, session: str, done: HandedOver, *, written: bool) -> None:
    out.file_heading(session, f" as a session of {done.tool}")
    size = f"all {done.tokens_before:,} tokens"
    if done.compacted:
        size = f"{done.tokens_after:,} of {done.tokens_before:,} tokens, compacted"
    out.line(f"holds   {size}, {counted(done.messages, 'message')}")
    if written:
        out.field("written", home_relative(str(done.path)), width=8)
        out.field("resume", done.resume_line, width=8)
    else:
        out.line("nothing written (dry run)")
    for what, count in done.losses.items():
        out.note(f"note: not written, {done.tool} cannot hold it: {what} ({count:,}×)")

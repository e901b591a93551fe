"""`ullage undo`: takes the newest compaction back."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from ullage.cli.output import Output, tokens
from ullage.cli.session_file import SessionArgument
from ullage.sessions import open_session
from ullage.sessions.undo import undo_compaction

__all__ = ["undo_command"]


def undo_command(
    file: SessionArgument,
    *,
    dry_run: Annotated[
        bool, Parameter(alias="-n", negative="", help="write nothing, show what would happen")
    ] = False,
    json: Annotated[bool, Parameter(negative="", help="print JSON")] = False,
) -> int:
    """Take the newest compaction back: the model is shown again what it removed, and what was said since.

    Lines are only appended. Run it again to take back the compaction before that one.
    """
    out = Output(as_json=json)
    done = undo_compaction(open_session(file), write=not dry_run)
    report: dict[str, Any] = {
        "file": str(file),
        "undone": done.undone,
        "when": done.when or None,
        "messages_before": done.messages_before,
        "messages_after": done.messages_after,
        "tokens_before": done.tokens_before,
        "tokens_after": None if dry_run else done.tokens_after,
        "compactions_left": done.left,
        "written": not dry_run,
    }
    left = [] if dry_run else [found.detail for found in done.session.request().left]
    report["would_be_refused"] = left
    if json:
        out.json(report)
        return 0
    out.heading(str(file))
    out.line(f"undone  what was changed at {done.when or 'an unknown time'}")
    after = "" if dry_run else f", {tokens(done.tokens_after)} tokens"
    out.line(f"before  {done.messages_before:,} messages, {tokens(done.tokens_before)} tokens")
    out.line(f"now     {done.messages_after:,} messages{after}")
    out.notes([f"the provider would refuse this context: {detail}" for detail in left])
    more = (
        f"{done.left:,} earlier {'one' if done.left == 1 else 'ones'} can be taken back too"
        if done.left
        else "nothing is left to undo"
    )
    out.line("nothing written (dry run)" if dry_run else more)
    return 0

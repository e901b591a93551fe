"""`ullage handoff`: a session written as another tool's own."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal, TypeAlias, get_args

from cyclopts import Parameter

from ullage.cli.output import Output, SessionArgument, counted, tokens
from ullage.exceptions import InvalidPolicy
from ullage.sessions import open_session
from ullage.sessions.find import home_relative
from ullage.sessions.handoff import HandedOver, handoff

Tool: TypeAlias = Literal["claude-code", "codex", "pi", "opencode"]


def handoff_command(
    file: SessionArgument,
    *,
    to: Annotated[Tool | None, Parameter(help="the tool that goes on")] = None,
    model: Annotated[str, Parameter(help="the model that goes on there; its window applies")] = "",
    window: Annotated[
        int | None,
        Parameter(
            help="that model's window in tokens; default: the model's, or the tool's usual one"
        ),
    ] = None,
    target: Annotated[
        int | None, Parameter(alias="-t", help="most tokens of the messages in the new context")
    ] = None,
    cwd: Annotated[str, Parameter(help="folder of the new session; default: the old one's")] = "",
    dry_run: Annotated[
        bool, Parameter(alias="-n", negative="", help="write nothing, show what would happen")
    ] = False,
    json: Annotated[bool, Parameter(negative="", help="print JSON")] = False,
) -> int:
    """Write a session in another tool's format, compacted where it does not fit that tool's window, and print how to go on.

    The old session stays as it is. Calls keep their ids and the user's messages their words.
    """
    out = Output(as_json=json)
    if to is None:
        tools = ", ".join(get_args(Tool))
        hint = f"ullage handoff {file} --to codex"
        raise InvalidPolicy(
            "--to", "nothing", f"must name the tool that goes on: {tools}", hint=hint
        )
    done = handoff(
        open_session(file),
        to,
        model=model,
        window_tokens=window,
        target_tokens=target,
        cwd=cwd,
        write=not dry_run,
    )
    if json:
        # Not `asdict`, which makes counts of a Counter's items.
        found = {each.name: getattr(done, each.name) for each in dataclasses.fields(done)}
        rest = {"path": str(done.path), "losses": dict(done.losses), "written": not dry_run}
        out.json(found | rest)
    else:
        _show(out, str(file), done, written=not dry_run)
    return 0


def _show(out: Output, session: str, done: HandedOver, *, written: bool) -> None:
    out.heading(f"{session} as a session of {done.tool}")
    size = f"all {tokens(done.tokens_before)} tokens"
    if done.compacted:
        size = f"{tokens(done.tokens_after)} of {tokens(done.tokens_before)} tokens, compacted"
    out.line(f"holds   {size}, {counted(done.messages, 'message')}")
    if written:
        out.line(f"written {home_relative(str(done.path))}")
        out.line(f"resume  {done.resume_line}")
    else:
        out.line("nothing written (dry run)")
    for what, count in done.losses.items():
        out.note(f"note: not written, {done.tool} cannot hold it: {what} ({count:,}×)")

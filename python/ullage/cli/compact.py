"""`ullage compact`: compact a transcript, without a model or with one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ullage.cli.output import Output, bar, share, tokens
from ullage.cli.part import part_of
from ullage.cli.session_memory import memory_of
from ullage.cli.target import read_target
from ullage.compaction.prompt import load_template
from ullage.exceptions import InvalidPolicy
from ullage.observe.redact import Redactor
from ullage.policy import Policy
from ullage.sessions import CompactedSession, Session, compact_session, open_session
from ullage.summarizers import summarizer_of
from ullage.transcript import resume

__all__ = ["compact_command", "report_of", "show"]

NAMES = {"claude_code": "Claude Code", "codex": "Codex", "pi": "pi"}


def compact_command(
    file: Annotated[Path, Parameter(help="a transcript of any known format")],
    *,
    output: Annotated[
        Path | None,
        Parameter(alias="-o", help="where to write; default: NAME.compacted.jsonl beside it"),
    ] = None,
    in_place: Annotated[
        bool, Parameter(negative="", help="append to the file itself (Claude Code, Codex, pi)")
    ] = False,
    format: Annotated[
        Literal["own", "claude-code"] | None,
        Parameter(
            help="of the file to write: its own (Codex, pi: that tool can go on from it), or Claude Code's; "
            "default: its own where it has words for a compaction"
        ),
    ] = None,
    force: Annotated[bool, Parameter(negative="", help="replace an existing output file")] = False,
    instructions: Annotated[str, Parameter(alias="-i", help="what the summary should mind")] = "",
    keep: Annotated[int | None, Parameter(help="newest tokens that stay word for word")] = None,
    target: Annotated[
        str | None,
        Parameter(
            alias="-t",
            help="most that the new context may have: tokens (20000, 20k) or a share of what it has now (10%)",
        ),
    ] = None,
    start: Annotated[
        str | None,
        Parameter(
            name="--from", help="uuid of an entry: it and what follows becomes the summary, no more"
        ),
    ] = None,
    up_to: Annotated[
        str | None, Parameter(help="uuid of an entry: only what is before it becomes the summary")
    ] = None,
    model: Annotated[
        str | None, Parameter(help="whose window and tokenizer; default: the one in the file")
    ] = None,
    summarizer: Annotated[
        str,
        Parameter(
            alias="-s",
            help="who writes the summary: extractive (no model), anthropic:MODEL, openai:MODEL, "
            "openai-responses:MODEL or any:PROVIDER:MODEL; the key comes from the environment",
        ),
    ] = "extractive",
    base_url: Annotated[str, Parameter(help="of a compatible server, for the summarizer")] = "",
    template: Annotated[
        Path | None, Parameter(help="a file whose text replaces the summarizer's prompt")
    ] = None,
    session_memory: Annotated[
        bool,
        Parameter(negative="", help="use the session's notes, if they will do: no call is made"),
    ] = False,
    memory_folder: Annotated[
        Path | None, Parameter(help="where these lie; default: as for `ullage session-memory`")
    ] = None,
    redact: Annotated[
        bool,
        Parameter(negative="", help="take keys, tokens and passwords out of what is summarised"),
    ] = False,
    conversation: Annotated[
        int, Parameter(help="which one, from 0, where a file holds several")
    ] = 0,
    policy: Annotated[Path | None, Parameter(help="a TOML file with settings")] = None,
    dry_run: Annotated[
        bool, Parameter(alias="-n", negative="", help="write nothing, show what would happen")
    ] = False,
    summary: Annotated[bool, Parameter(negative="", help="print the summary too")] = False,
    json: Annotated[bool, Parameter(negative="", help="print JSON")] = False,
) -> int:
    """Compact a transcript; write one that can be resumed. Exit code 1: there was nothing to gain."""
    out = Output(as_json=json)
    writer = summarizer_of(summarizer, base_url=base_url)
    opened = open_session(file, number=conversation)
    path = _path(file, output, in_place=in_place, dry_run=dry_run, force=force)
    size = read_target(target, opened, model=model)
    direction, at = part_of(opened, start, up_to)
    rules = Policy.load(policy)
    memory = None
    if session_memory or memory_folder is not None:
        memory = memory_of(opened, memory_folder, policy=rules.session_memory)
    with out.progress("compacting", 1) as step:
        done = compact_session(
            opened,
            output=path,
            overwrite=force,
            format=_format(format, opened),
            instructions=instructions,
            keep=keep,
            target_tokens=size,
            direction=direction,
            at=at,
            policy=rules,
            memory=memory,
            summarizer=writer,
            template=load_template(template),
            redact=Redactor() if redact else None,
            **({"model": model} if model else {}),
        )
        step(1)
    report = report_of(opened, done, target_tokens=size, with_summary=summary)
    if json:
        out.json(report)
    else:
        show(out, report)
    return 0 if done.result.compacted else 1


def _path(
    file: Path, output: Path | None, *, in_place: bool, dry_run: bool, force: bool
) -> Path | None:
    if in_place and output is not None:
        raise InvalidPolicy("--in-place", str(output), "cannot be given together with --output")
    if output is not None and output.exists() and output.samefile(file) and not force:
        hint = "--in-place appends to it, and so does --force"
        raise InvalidPolicy("--output", str(output), "must not be the file itself", hint=hint)
    if dry_run:
        return None
    if in_place:
        return file
    return output or file.with_name(f"{file.stem}.compacted.jsonl")


def _format(asked: str | None, session: Session) -> str | None:
    return session.format if asked == "own" else asked and asked.replace("-", "_")


def report_of(
    opened: Session,
    done: CompactedSession,
    *,
    target_tokens: int | None = None,
    with_summary: bool = False,
) -> dict[str, Any]:
    """Everything that `compact` prints, as plain data.

    Args:
        opened: The session as it was.
        done: What became of it.
        target_tokens: What was asked for; `None`: nothing was.
        with_summary: Whether the text of the summary is in it.
    """
    result, counts = done.result, done.result.report
    before = len(opened.messages)
    kept = len(resume(result.kept).messages) if result.compacted else before
    over = 0 if target_tokens is None else max(counts.tokens_after - target_tokens, 0)
    report = {
        "file": str(opened.path),
        "outcome": result.outcome.value,
        "reason": result.reason,
        "notice": result.user_notice,
        "written": None if done.path is None else str(done.path),
        "format": done.format,
        "tokens_before": counts.tokens_before,
        "tokens_after": counts.tokens_after,
        "target_tokens": target_tokens,
        "over_target": over,
        "summary_tokens": counts.summary_tokens,
        "messages_before": before,
        "messages_after": len(done.messages),
        "messages_summarized": before - kept,
        "messages_kept": kept,
        "summarizer": counts.summarizer,
        "facts_appended": dict(counts.facts_appended),
        "losses": dict(done.losses),
        "warnings": [*opened.warnings, *counts.warnings],
    }
    if with_summary:
        report["summary"] = [_text(message) for message in result.summary_messages]
    return report


def _text(item: Any) -> str:
    message = item.get("message", item)
    content = message["content"]
    return (
        content
        if isinstance(content, str)
        else "\n".join(block.get("text", "") for block in content)
    )


def show(out: Output, report: dict[str, Any]) -> None:
    """Draw the report of `compact`."""
    before, after = report["tokens_before"], report["tokens_after"]
    out.heading(report["file"])
    if report["outcome"] != "compacted":
        why = report["reason"].replace("_", " ")
        out.line(report["notice"] or f"nothing was changed: {why}")
        return
    gone, kept = report["messages_summarized"], report["messages_kept"]
    freed = max(0, before - after)  # the provider may have reported less than the estimate says
    out.line(
        f"before  {bar(before, before):<28}  {tokens(before)} tokens in {report['messages_before']:,} messages"
    )
    out.line(
        f"after   {bar(after, before):<28}  {tokens(after)} tokens in {report['messages_after']:,} messages"
    )
    out.line(
        f"freed   {tokens(freed)} tokens ({share(freed, before)}): of {gone + kept:,} messages {gone:,} "
        f"became a summary of {tokens(report['summary_tokens'])} tokens, {kept:,} stay word for word"
    )
    if report["target_tokens"] is not None:
        out.line(_held(report["target_tokens"], report["over_target"]))
    for text in report.get("summary", ()):
        out.heading("The summary")
        out.text(text)
    if report["written"]:
        out.line(
            f"written {report['written']}  (as {NAMES[report['format']]}; the whole history is in it; resume it with: ullage resume)"
        )
    else:
        out.line("written nothing (dry run)")
    for what, count in report["losses"].items():
        out.note(f"note: not written, no Claude Code file can hold it: {what} ({count:,}×)")
    out.notes(report["warnings"])


def _held(target: int, over: int) -> str:
    said = f"{tokens(over)} over: what has to stay is larger" if over else "kept"
    return f"target  {tokens(target)} tokens: {said}"

"""`ullage compact`: compact a transcript, without a model or with one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ullage.cli.memory import memory_of
from ullage.cli.output import (
    STDOUT,
    BaseUrl,
    DryRun,
    Force,
    Json,
    Output,
    PolicyOption,
    PricesOption,
    SessionArgument,
    WhichConversation,
    WindowModel,
    WindowOption,
    bar,
    file_name,
    held_back,
    part_of,
    read_target,
    read_window,
    send,
    share,
)
from ullage.cli.resume import preview_rows
from ullage.compaction.job import warning_text
from ullage.compaction.summary_call import load_template
from ullage.counting.models import ModelTable
from ullage.counting.window import window_for
from ullage.exceptions import InvalidPolicy
from ullage.facts.words import is_standing, text_of
from ullage.observe.hooks import Redactor
from ullage.policy import Policy
from ullage.sessions import CompactedSession, Session, compact_session, open_session
from ullage.sessions.save import FreshSession, new_session as fresh_session
from ullage.summarizers import summarizer_of
from ullage.transcript import resume

DIFF_STYLES = {"-": "red", "+": "green", "@": "cyan"}
NAMES = {"claude_code": "Claude Code", "codex": "Codex", "pi": "pi"}


def context_diff(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> list[str]:
    """A unified diff of two contexts; each line is the beginning of a block."""
    old, new = (
        [" ".join(row) for message in messages for row in preview_rows(message)]
        for messages in (before, after)
    )
    return list(difflib.unified_diff(old, new, "before", "after", lineterm="", n=1))


def compact_command(
    file: SessionArgument,
    *,
    output: Annotated[Path | None, Parameter(alias="-o")] = None,
    in_place: bool = False,
    new_session: bool = False,
    format: Literal["own", "claude-code"] | None = None,
    force: Force = False,
    instructions: Annotated[str, Parameter(alias="-i")] = "",
    keep: int | None = None,
    target: Annotated[str | None, Parameter(alias="-t")] = None,
    start: Annotated[str | None, Parameter(name="--from")] = None,
    up_to: str | None = None,
    model: WindowModel = None,
    window: WindowOption = None,
    summarizer: Annotated[str, Parameter(alias="-s")] = "extractive",
    base_url: BaseUrl = "",
    template: Path | None = None,
    session_memory: bool = False,
    memory_folder: Path | None = None,
    redact: bool = False,
    conversation: WhichConversation = 0,
    policy: PolicyOption = None,
    prices: PricesOption = None,
    record: bool = False,
    dry_run: DryRun = False,
    summary: bool = False,
    diff: bool = False,
    json: Json = False,
) -> int:
    """Compact a transcript into one that can be resumed. Exit code 1: nothing to gain; 2: error.

    Args:
        output: where to write, -: standard output; default: NAME.compacted.jsonl next to it
        in_place: append to the file itself (Claude Code, Codex, pi)
        new_session: write a new session with its own id next to the old one, and print the command that resumes it
        format: format of the output: the input's own (Codex and pi can then continue from it), or Claude Code's; default:
            the input's own where it can express a compaction
        instructions: what the summary should focus on
        keep: tokens of the newest messages that stay verbatim
        target: maximum tokens of messages in the new context (20000, 20k), without system prompt and tools, or a share of
            their current size (10%); if what must stay is larger, nothing is changed and the exit code is 2
        start: uuid of an entry: summarise only this entry and what follows
        up_to: uuid of an entry: summarise only what comes before it
        summarizer: what writes the summary: extractive (no model), anthropic:MODEL, openai:MODEL, openai-responses:MODEL or
            any:PROVIDER:MODEL; the key comes from the environment
        template: a file whose text replaces the summarizer's prompt
        session_memory: use session notes when they suffice (no model call)
        memory_folder: folder that holds them; default: see `ullage session-memory`
        redact: remove keys, tokens and passwords from what is summarised
        record: also write NAME.record.jsonl next to the output, for `ullage-check`
        summary: print the summary too
        diff: also show what left the context and what was added
    """
    out = Output(as_json=json)
    writer = summarizer_of(summarizer, base_url=base_url)
    opened = open_session(file, number=conversation)
    if record and output == Path(STDOUT):
        limit = "needs an output file, next to which the record is written"
        raise InvalidPolicy("--record", True, limit)
    path = _path(file, output, in_place=in_place, dry_run=dry_run, force=force)
    size = read_target(target, opened, model=model)
    room: tuple[int | None, int | None] = None, None  # the model's
    if window is not None:
        marks = window_for(model or opened.model, settings=read_window(window))
        room = marks.context, marks.threshold
    direction, at = part_of(opened, start, up_to)
    rules = Policy.load(policy)
    memory = None
    if session_memory or memory_folder is not None:
        memory = memory_of(opened, memory_folder, policy=rules.session_memory)

    def act(session: Session, into: Path | None) -> CompactedSession:
        return compact_session(
            session,
            output=into,
            overwrite=force,
            format=opened.format if format == "own" else format and format.replace("-", "_"),
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
            model=model or None,
            window_tokens=room[0],
            trigger_tokens=room[1],
            record=record_of(into) if record and into is not None else None,
        )

    with out.progress("compacting", 1) as step:
        fresh: FreshSession | None = None
        if new_session and not dry_run:
            if path is not None and opened.path.exists() and path == opened.path:
                limit = "cannot be given together with --in-place"
                raise InvalidPolicy("--new-session", True, limit)
            fresh = fresh_session(opened, act)
        done = fresh.done if fresh else act(opened, path)
        step(1)
    report = report_of(
        opened, done, target_tokens=size, with_summary=summary, prices=prices, model=model or ""
    )
    if fresh and done.result.compacted:
        report |= {"session": fresh.id, "resume": fresh.resume_line, "folder": opened.cwd}
    if record and done.path is not None:
        report["record"] = str(record_of(done.path))
    if diff:
        report["diff"] = context_diff(opened.messages, done.messages)
    if output == Path(STDOUT) and done.path is not None:
        send(done.path)
    elif json:
        out.json(report)
    else:
        show(out, report)
    return 0 if done.result.compacted and not report["over_target"] else 1


def record_of(path: Path) -> Path:
    """Path of a compaction's record, next to the written session."""
    return path.with_name(f"{path.stem}.record.jsonl")


def _path(
    file: Path, output: Path | None, *, in_place: bool, dry_run: bool, force: bool
) -> Path | None:
    if in_place and output is not None:
        raise InvalidPolicy("--in-place", str(output), "cannot be given together with --output")
    if output is not None and output.exists() and output.samefile(file) and not force:
        hint = "--in-place or --force appends to it"
        raise InvalidPolicy("--output", str(output), "must not be the input file", hint=hint)
    if dry_run:
        return None
    if output == Path(STDOUT):
        return held_back()
    if file_name(file) == "-" and output is None:
        hint = "-o - writes to standard output"
        raise InvalidPolicy("--output", "none", "must be given for standard input", hint=hint)
    if in_place:
        return file
    return output or file.with_name(f"{file.stem}.compacted.jsonl")


def report_of(
    opened: Session,
    done: CompactedSession,
    *,
    target_tokens: int | None = None,
    with_summary: bool = False,
    prices: Path | None = None,
    model: str = "",
) -> dict[str, Any]:
    """Everything that `compact` prints, as plain data; `opened` is the session before it. Without a `model` the session's own is priced."""
    result, counts = done.result, done.result.report
    before = len(opened.messages)
    kept_messages = len(resume(result.kept).messages) if result.compacted else before
    over = 0 if target_tokens is None else max(counts.messages_after - target_tokens, 0)
    report: dict[str, Any] = {
        "file": file_name(opened.path),
        "outcome": result.outcome.value,
        "reason": result.reason,
        "notice": result.user_notice,
        "written": None if done.path is None else str(done.path),
        "format": done.format,
        "tokens_before": counts.tokens_before,
        "tokens_after": counts.tokens_after,
        "overhead_tokens": counts.overhead_tokens,
        "target_tokens": target_tokens,
        "over_target": over,
        "summary_tokens": counts.summary_tokens,
        "messages_before": before,
        "messages_after": len(done.messages),
        "messages_summarized": before - kept_messages,
        "messages_kept": kept_messages,
        "summarizer": counts.summarizer,
        "facts_appended": dict(counts.facts_appended),
        "losses": dict(done.losses),
        "warnings": [*opened.warnings, *counts.warnings],
    }
    if result.compacted:
        sizes = counts.tokens_before, counts.tokens_after, counts.overhead_tokens
        report["worth"] = _worth(
            ModelTable.load(*filter(None, [prices])), model or opened.model, *sizes
        )
    if with_summary:
        written = (message for message in result.summary_messages if not is_standing(message))
        report["summary"] = [text_of(message) for message in written]
    return report


def show(out: Output, report: dict[str, Any]) -> None:
    """Draw the report of `compact`."""
    before, after = report["tokens_before"], report["tokens_after"]
    out.file_heading(report["file"])
    if report["outcome"] != "compacted":
        why = report["reason"].replace("_", " ")
        out.line(report["notice"] or f"nothing was changed: {why}")
        return
    replaced, verbatim = report["messages_summarized"], report["messages_kept"]
    freed = max(0, before - after)  # the provider may have reported less than the estimate
    for when, size in (("before", before), ("after", after)):
        held = f"{size:,} tokens in {report[f'messages_{when}']:,} messages"
        out.line(f"{when:<6}  {bar(size, before):<28}  {held}")
    what = (
        f"{freed:,} tokens ({share(freed, before)}): {replaced:,} of {replaced + verbatim:,} messages "
        f"were replaced by a summary of {report['summary_tokens']:,} tokens, {verbatim:,} stay verbatim"
    )
    out.field("freed", what, width=8)
    if worth := report["worth"]:
        saving = f"${worth['dollars_each']:,.3f} less for each further request, after ${worth['dollars_once']:,.3f} to cache the new context, at prices of {worth['prices']}"
        out.field("worth", saving, width=8)
    if report["target_tokens"] is not None:
        overhead = report["overhead_tokens"]
        line = f"{report['target_tokens']:,} tokens of messages: {after - overhead:,} used"
        more = f"; system prompt and tools take {overhead:,} more" if overhead else ""
        out.field("target", line + more, width=8)
    if report.get("diff"):
        out.heading("What changes in the context")
        # On a terminal one row per block; in a pipe the whole line.
        for line in report["diff"]:
            out.line(line, style=DIFF_STYLES.get(line[:1], ""), cut=True)
    for text in report.get("summary", ()):
        out.heading("The summary")
        out.text(text)
    if "resume" in report:
        out.field("written", str(report["written"]), width=8)
        elsewhere = report["folder"] not in ("", str(Path.cwd()))
        where = f"  (in {report['folder']})" if elsewhere else ""
        out.field("resume", f"{report['resume']}{where}", width=8)
    elif report["written"]:
        how = f"format: {NAMES[report['format']]}, with the whole history; resume it with: ullage resume"
        out.field("written", f"{report['written']}  ({how})", width=8)
    else:
        out.line("nothing written (dry run)")
    if "record" in report:
        out.field("record", f"{report['record']}  (check it with: ullage-check)", width=8)
    for what, count in report["losses"].items():
        out.note(f"note: not written, a Claude Code file cannot hold it: {what} ({count:,}×)")
    out.notes([warning_text(warning) for warning in report["warnings"]])


def _worth(
    table: ModelTable, model: str, before: int, after: int, overhead: int
) -> dict[str, float | str] | None:
    """What the smaller context saves; `None` if nothing, or if prices are unknown."""
    row = table.find(model) if model else None
    prices = row.prices_at(before) if row else None
    if prices is None or after >= before:
        return None
    once = (after - overhead) * (prices.cache_write_5m - prices.cache_read)
    per_request = (before - after) * prices.cache_read
    return {
        "dollars_once": round(float(once) / 1e6, 4),
        "dollars_each": round(float(per_request) / 1e6, 4),
        "prices": table.version,
    }

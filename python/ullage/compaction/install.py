"""Installs a compaction in a transcript log: all or nothing, without losing messages that were added meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ullage.compaction.chain import entries_to_write, on_one_chain
from ullage.compaction.compaction_result import CompactionResult
from ullage.exceptions import LogConflict
from ullage.transcript.log import TranscriptLog
from ullage.transcript.write import BoundaryInfo, Kept, compaction_lines, session_lines

__all__ = ["log_store"]


def log_store(
    log: TranscriptLog,
) -> Callable[[CompactionResult, tuple[Any, ...]], CompactionResult]:
    """A `Job.store` that installs in a log."""
    return lambda draft, ids: install_in(log, draft, ids)


def install_in(
    log: TranscriptLog, draft: CompactionResult, ids: tuple[Any, ...]
) -> CompactionResult:
    """Writes a compaction to a log, with one write that is on the disk when this returns.

    What was appended to the log since the compaction began is kept after the kept messages.

    Args:
        log: The open log that the items came from.
        draft: The result to install.
        ids: Of the context that was compacted, oldest first.

    Returns:
        The result with the entries as they were written. Messages that were appended cannot be kept if
        the kept part is the beginning of the conversation: that is a conflict.

    Raises:
        LogConflict: The log's context no longer begins with what was compacted; nothing was written.
        StoreError: The disk is full, or another fault; the log is as it was.
    """
    with log.one_writer:  # the compaction is appended to exactly the state that was read
        return _install(log, draft, ids)


def _install(log: TranscriptLog, draft: CompactionResult, ids: tuple[Any, ...]) -> CompactionResult:
    context = log.resume().entries
    here = [item.get("uuid") for item in context]
    if tuple(here[: len(ids)]) != tuple(ids):
        raise LogConflict(
            "the conversation changed while it was compacted",
            hint="compact again: nothing was written",
        )
    later = tuple(context[len(ids) :])
    if later and _before(draft):
        raise LogConflict(
            "messages were appended after the part that was summarised",
            hint="compact again: nothing was written",
        )
    kept = (*draft.report.kept, *here[len(ids) :])
    written, _ = compaction_lines(
        log,
        _info(draft),
        [_fresh(item) for item in draft.summary_messages],
        parent=log.leaf,
        kept=Kept(tuple(str(name) for name in kept), before_summary=_before(draft)),
        attachments=[_fresh(item) for item in (*draft.attachments, *draft.hook_results)],
        metadata=(),
    )
    transcript = log.transcript()
    done = on_one_chain(_as_written(draft, written, later, kept), transcript)
    lines = entries_to_write(done)
    log.write([*lines, *session_lines(transcript, lines)])
    log.sync()
    return done


def _fresh(item: Mapping[str, Any]) -> dict[str, Any]:
    """The entry without what only the log assigns: ids, parents and times."""
    own = ("uuid", "parentUuid", "timestamp")
    return {key: value for key, value in item.items() if key not in own}


def _before(draft: CompactionResult) -> bool:
    order = [id(item) for item in draft.messages]
    if not draft.kept:
        return False
    return order.index(id(draft.kept[0])) < order.index(id(draft.summary_messages[0]))


def _info(draft: CompactionResult) -> BoundaryInfo:
    metadata = (draft.boundary or {}).get("compactMetadata", {})
    return BoundaryInfo(
        trigger=metadata.get("trigger", "manual"),
        pre_tokens=metadata.get("preTokens", 0),
        post_tokens=draft.report.tokens_after,
        messages_summarized=len(draft.report.removed),
        discovered_tools=metadata.get("preCompactDiscoveredTools", ()),
    )


def _as_written(
    draft: CompactionResult,
    written: list[dict[str, Any]],
    later: tuple[Any, ...],
    kept: tuple[Any, ...],
) -> CompactionResult:
    boundary, *follow = written
    summaries = len(draft.summary_messages)
    files = summaries + len(draft.attachments)
    old = (draft.boundary, *draft.summary_messages, *draft.attachments, *draft.hook_results)
    new = {id(before): after for before, after in zip(old, written, strict=True)}
    return replace(
        draft,
        boundary=boundary,
        summary_messages=tuple(follow[:summaries]),
        attachments=tuple(follow[summaries:files]),
        hook_results=tuple(follow[files:]),
        kept=(*draft.kept, *later),
        messages=(*(new.get(id(item), item) for item in draft.messages), *later),
        report=replace(draft.report, kept=kept),
    )

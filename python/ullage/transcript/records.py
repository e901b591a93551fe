"""Records of what was removed from the context, as lines of the transcript (SNIP-4, COL-3).

Each has a builder, which returns the line without its envelope (`TranscriptLog.append` adds `uuid`,
`parentUuid`, `timestamp` where the kind has them), and a parser, which is tolerant: a record
written by another program, or damaged, gives what can be used of it and never raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.messages import BOUNDARY

__all__ = [
    "COLLAPSE_COMMIT",
    "COLLAPSE_EXPAND",
    "COLLAPSE_SNAPSHOT",
    "CONTENT_REPLACEMENT",
    "CollapseCommit",
    "CollapseSnapshot",
    "Microcompact",
    "Replacements",
    "StagedSpan",
    "collapse_commit",
    "collapse_expand",
    "collapse_snapshot",
    BOUNDARY,
    "compact_summary",
    "content_replacement",
    "microcompact",
    "parse_collapse_commit",
    "parse_collapse_expand",
    "parse_collapse_snapshot",
    "parse_content_replacement",
    "parse_microcompact",
    "parse_snip",
    "session_metadata",
    "snip",
]

Record = dict[str, Any]

CONTENT_REPLACEMENT = "content-replacement"
COLLAPSE_COMMIT = "collapse-commit"
COLLAPSE_SNAPSHOT = "collapse-snapshot"
COLLAPSE_EXPAND = "collapse-expand"

COMMIT_TYPES = (COLLAPSE_COMMIT, "marble-origami-commit")
SNAPSHOT_TYPES = (COLLAPSE_SNAPSHOT, "marble-origami-snapshot")

# ---- tool-result budget ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Replacements:
    """Decisions of the tool-result budget: `replaced` by tool use id, `kept` whole for ever."""

    replaced: Mapping[str, str]
    kept: frozenset[str] = frozenset()


def content_replacement(
    replaced: Mapping[str, str], *, kept: Iterable[str] = (), session_id: str = ""
) -> Record:
    """The line that makes decisions of the tool-result budget survive a resume.

    Args:
        replaced: Tool use id to the exact text that replaces its result from now on.
        kept: Tool use ids whose result was sent whole, and so is never replaced later.
        session_id: `""` leaves it to the log.
    """
    items = [
        {"kind": "tool-result", "toolUseId": tool_use_id, "replacement": text}
        for tool_use_id, text in replaced.items()
    ]
    record: Record = {"type": CONTENT_REPLACEMENT, "sessionId": session_id, "replacements": items}
    if kept := list(kept):
        record["kept"] = kept
    return record


def parse_content_replacement(entry: Mapping[str, Any]) -> Replacements:
    """What a `content-replacement` line decides; malformed items are left out."""
    replaced = {}
    for item in _list(entry.get("replacements")):
        if isinstance(item, Mapping):
            tool_use_id, text = item.get("toolUseId"), item.get("replacement")
            if isinstance(tool_use_id, str) and isinstance(text, str):
                replaced[tool_use_id] = text
    return Replacements(replaced, frozenset(_strings(entry.get("kept"))))


# ---- snip ------------------------------------------------------------------------------------


def snip(removed: Sequence[str], *, reason: str = "", freed_tokens: int = 0) -> Record:
    """The line that removes entries from every later request; they stay in the file.

    Args:
        removed: Uuids of the removed entries.
        reason: Why, as given with the request.
        freed_tokens: What the removal freed, to correct an older usage figure (TOK-4).
    """
    metadata = {"removedUuids": list(removed), "reason": reason, "freedTokens": freed_tokens}
    return _marker("snip_boundary", "Earlier turns removed", {"snipMetadata": metadata})


def parse_snip(entry: Mapping[str, Any]) -> list[str]:
    """Uuids that a snip line removes; empty for any other entry."""
    metadata = entry.get("snipMetadata")
    return _strings(metadata.get("removedUuids")) if isinstance(metadata, Mapping) else []


# ---- microcompact ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Microcompact:
    """Tool results and attachments that were cleared, with the text left instead of some."""

    tool_use_ids: tuple[str, ...]
    attachment_uuids: tuple[str, ...]
    texts: Mapping[str, str]


def microcompact(
    tool_use_ids: Sequence[str],
    *,
    trigger: str = "auto",
    pre_tokens: int = 0,
    tokens_saved: int = 0,
    attachment_uuids: Sequence[str] = (),
    texts: Mapping[str, str] | None = None,
) -> Record:
    """The line after which the named tool results are cleared from the context.

    Args:
        tool_use_ids: Calls whose results are cleared.
        trigger: `auto` or `manual`.
        pre_tokens: Size of the context before.
        tokens_saved: What was freed.
        attachment_uuids: Attachment entries that were removed as well.
        texts: What stands instead of a result, by tool use id, where it is not the usual
            placeholder (MIC-4).
    """
    metadata: Record = {
        "trigger": trigger,
        "preTokens": pre_tokens,
        "tokensSaved": tokens_saved,
        "compactedToolIds": list(tool_use_ids),
        "clearedAttachmentUUIDs": list(attachment_uuids),
    }
    if texts:
        metadata["texts"] = dict(texts)
    return _marker(
        "microcompact_boundary", "Context microcompacted", {"microcompactMetadata": metadata}
    )


def parse_microcompact(entry: Mapping[str, Any]) -> Microcompact:
    """What a `microcompact_boundary` line clears."""
    metadata = entry.get("microcompactMetadata")
    fields = metadata if isinstance(metadata, Mapping) else {}
    texts = fields.get("texts")
    pairs = texts.items() if isinstance(texts, Mapping) else ()
    return Microcompact(
        tuple(_strings(fields.get("compactedToolIds"))),
        tuple(_strings(fields.get("clearedAttachmentUUIDs"))),
        {key: text for key, text in pairs if isinstance(text, str)},
    )


# ---- context collapse ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CollapseCommit:
    """A span [first, last] of the context that one placeholder message replaces."""

    collapse_id: str
    summary_uuid: str
    content: str  # the placeholder's exact text
    summary: str
    first_uuid: str
    last_uuid: str


@dataclass(frozen=True, slots=True)
class StagedSpan:
    """A span with a summary that is ready, not yet committed."""

    first_uuid: str
    last_uuid: str
    summary: str
    score: float = 0.0
    staged_at: int = 0  # milliseconds since the epoch


@dataclass(frozen=True, slots=True)
class CollapseSnapshot:
    """State of context collapse between commits; the last one in the file counts."""

    staged: tuple[StagedSpan, ...] = ()
    armed: bool = False
    last_run_tokens: int = 0


def collapse_commit(commit: CollapseCommit, *, session_id: str = "") -> Record:
    """The line that commits a collapse; never changed afterwards."""
    return {
        "type": COLLAPSE_COMMIT,
        "sessionId": session_id,
        "collapseId": commit.collapse_id,
        "summaryUuid": commit.summary_uuid,
        "summaryContent": commit.content,
        "summary": commit.summary,
        "firstArchivedUuid": commit.first_uuid,
        "lastArchivedUuid": commit.last_uuid,
    }


def parse_collapse_commit(entry: Mapping[str, Any]) -> CollapseCommit | None:
    """The commit in a line, or `None` if its ends or its text are missing."""
    first, last = entry.get("firstArchivedUuid"), entry.get("lastArchivedUuid")
    summary = _text(entry.get("summary"))
    content = _text(entry.get("summaryContent")) or summary
    if not (isinstance(first, str) and isinstance(last, str) and content):
        return None
    ids = _text(entry.get("collapseId")), _text(entry.get("summaryUuid"))
    return CollapseCommit(*ids, content, summary, first, last)


def collapse_expand(collapse_id: str, *, session_id: str = "") -> Record:
    """The line that restores a collapsed span (COL-4)."""
    return {"type": COLLAPSE_EXPAND, "sessionId": session_id, "collapseId": collapse_id}


def parse_collapse_expand(entry: Mapping[str, Any]) -> str:
    """The collapse id that a `collapse-expand` line takes back; empty if it names none."""
    return _text(entry.get("collapseId"))


def collapse_snapshot(snapshot: CollapseSnapshot, *, session_id: str = "") -> Record:
    """The line with the state of context collapse."""
    staged = [
        {
            "startUuid": span.first_uuid,
            "endUuid": span.last_uuid,
            "summary": span.summary,
            "risk": span.score,
            "stagedAt": span.staged_at,
        }
        for span in snapshot.staged
    ]
    return {
        "type": COLLAPSE_SNAPSHOT,
        "sessionId": session_id,
        "staged": staged,
        "armed": snapshot.armed,
        "lastSpawnTokens": snapshot.last_run_tokens,
    }


def parse_collapse_snapshot(entry: Mapping[str, Any]) -> CollapseSnapshot:
    """The state in a snapshot line; spans without both ends are left out."""
    spans = [_staged(item) for item in _list(entry.get("staged")) if isinstance(item, Mapping)]
    return CollapseSnapshot(
        tuple(span for span in spans if span is not None),
        entry.get("armed") is True,
        _int(entry.get("lastSpawnTokens")),
    )


def _staged(item: Mapping[str, Any]) -> StagedSpan | None:
    first, last = item.get("startUuid"), item.get("endUuid")
    if not (isinstance(first, str) and isinstance(last, str)):
        return None
    risk = item.get("risk")
    score = float(risk) if isinstance(risk, int | float) else 0.0
    return StagedSpan(first, last, _text(item.get("summary")), score, _int(item.get("stagedAt")))


# ---- compaction ------------------------------------------------------------------------------


def compact_boundary(metadata: Mapping[str, Any], *, content: str = "") -> Record:
    """The line that separates what was compacted from what follows.

    Args:
        metadata: `compactMetadata`, such as `trigger`, `preTokens`, `messagesSummarized`.
        content: The text for the user; empty: the default text.
    """
    extra = {"compactMetadata": dict(metadata)}
    return _marker(BOUNDARY, content or "Conversation compacted", extra)


def compact_summary(content: str | list[Any]) -> Record:
    """The entry of a summary message."""
    return {
        "type": "user",
        "message": {"role": "user", "content": content},
        "isVisibleInTranscriptOnly": True,
        "isCompactSummary": True,
    }


# ---- session metadata ------------------------------------------------------------------------


def session_metadata(kind: str, *, session_id: str = "", **fields: Any) -> Record:
    """A line about the session, such as `session_metadata("custom-title", customTitle="...")`."""
    return {"type": kind, **fields, "sessionId": session_id}


def _marker(subtype: str, content: str, extra: Mapping[str, Any]) -> Record:
    head = {"type": "system", "subtype": subtype, "content": content}
    return {**head, "isMeta": False, "level": "info", **extra}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _strings(value: Any) -> list[str]:
    return [item for item in _list(value) if isinstance(item, str)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0

"""A transcript file, indexed once and read on demand."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ullage._engine import core
from ullage._engine.digests import FoldedContext
from ullage._start import uuid
from ullage.exceptions import InvalidTranscript, StoreError, TranscriptChanged
from ullage.messages import (
    BOUNDARY,
    METADATA_TYPES,
    Item,
    as_blocks,
    is_boundary,
    listed,
    message_of,
)
from ullage.transcript.conversation import QUEUED, Conversation, FilePin, converse, row_of
from ullage.transcript.records import (
    BoundaryMark,
    RecordLine,
    RowFlag,
    as_mapping,
    as_string,
    as_strings,
    mark_of,
)
from ullage.transcript.render import to_messages

if TYPE_CHECKING:
    from ullage.counting.calibration import Weights

# Messages that a user typed while the agent worked, and that stand in `queue-operation` lines only.
#
# Claude Code writes `enqueue` with the text, and `remove` where it handed that to the model in the middle of a turn. Newer
# versions write the text again, as a user entry or an attachment; others write it nowhere else.

QUEUE_LINE = "queue-operation"

_NAMESPACE = "8a1e0d0a-5b4e-5f0c-9d0e-0c1f0f5f7a27"
_LINES_LATER = 60
"""So soon after its removal a text is written again by a version that does: the next entries, with progress in between."""


def _queued_entries(
    rows: Sequence[RecordLine], load: Callable[[int], Mapping[str, Any]]
) -> dict[int, Item]:
    """A user's entry for each text that a model was handed from the queue and that no other line holds.

    By the place of the line that removed it from the queue, where the model was shown it.
    """
    waiting: deque[tuple[int, Mapping[str, Any]]] = deque()
    entries: dict[int, Item] = {}
    for row in rows:
        if row.type != QUEUE_LINE:
            continue
        line = load(row.at)
        operation = line.get("operation")
        if operation == "enqueue":
            waiting.append((row.at, line))
        elif operation == "popAll":  # put back where it was typed
            waiting.clear()
        elif waiting:
            start, asked = waiting.popleft()
            text = asked.get("content")
            if operation == "remove" and isinstance(text, str) and text.strip():
                near = rows[start : row.at + _LINES_LATER]
                talk = (load(one.at) for one in near if one.type in ("user", "attachment"))
                if all(text.strip() != other for entry in talk for other in _texts(entry)):
                    entries[row.at] = _queued_entry(line, asked, rows[: row.at])
    return entries


def _texts(entry: Mapping[str, Any]) -> Iterator[str]:
    attachment = entry.get("attachment")
    content = (message_of(entry) or {}).get("content")
    if isinstance(attachment, Mapping):
        content = attachment.get("prompt")
    blocks: list[Any] = as_blocks(content) if isinstance(content, str | list) else []
    for block in blocks:
        if isinstance(block, Mapping) and isinstance(block.get("text"), str):
            yield block["text"].strip()


def _queued_entry(
    line: Mapping[str, Any], asked: Mapping[str, Any], before: Sequence[RecordLine]
) -> Item:
    name = "\x1f".join(str(asked.get(key)) for key in ("sessionId", "timestamp", "content"))
    return {
        # The entry after which it was said: what is rewound with that is rewound with it.
        "parentUuid": next((row.uuid for row in reversed(before) if row.uuid), None),
        "isSidechain": False,
        "type": "user",
        "message": {"role": "user", "content": asked["content"]},
        "uuid": str(uuid.uuid5(uuid.UUID(_NAMESPACE), name)),
        "timestamp": line.get("timestamp") or asked.get("timestamp") or "",
        "sessionId": asked.get("sessionId") or "",
        "promptSource": QUEUED,
    }


class Transcript:
    """A Claude Code transcript: its lines, what the model was shown last, and facts about it.

    Opening indexes the file without building objects; a line's object is built on demand.
    The index is of the file as it was when opened; lines that are appended later are not seen. If another program
    truncates or overwrites the file, reading a line raises; it never returns other bytes.

    Example:
        >>> transcript = Transcript.from_bytes(b'{"type":"user","uuid":"u1","message":{"role":"user","content":"hi"}}')
        >>> transcript.messages()
        [{'role': 'user', 'content': 'hi'}]
    """

    def __init__(
        self,
        index: core.TranscriptIndex,
        path: str = "",
        pin: FilePin | None = None,
        *,
        lean: bool = False,
    ) -> None:
        self.index = index
        """The `TranscriptIndex` underneath: offsets, digests, raw lines."""
        self.path = path
        self.pin = pin
        """Which file was read, and how much of it; `None` in memory."""
        self.lean = lean
        """Whether the conversation's entries leave large copies of results in the file: see `open`."""

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        weights: Weights | None = None,
        *,
        lean: bool = False,
    ) -> Transcript:
        """Indexes a file.

        Args:
            path: The JSONL file.
            weights: For calibrated token counts; `None`: rough counts only.
            lean: In entries of the conversation, `None` stands in place of the copy of a result that an interface keeps
                (`toolUseResult`), in lines of over 512 bytes and unless a user's answers are in it: it is as large as all else,
                and no model sees it. `load` and `entries` return lines whole.

        Raises:
            InvalidTranscript: It is not a regular file.
            TranscriptChanged: It was truncated or overwritten while it was read.
            StoreError: It is missing or cannot be read.
        """
        name = os.fspath(path)
        while True:
            before = _look(name)
            index = core.TranscriptIndex.open(name, weights)
            after = _look(name)
            if before is None or after is None:
                raise StoreError("was deleted while it was read", path=name)
            if os.path.samestat(before, after):
                pin = FilePin.of(before, after, index.size)
                return cls(index, name, pin, lean=lean)

    @classmethod
    def from_bytes(cls, data: bytes) -> Transcript:
        """Indexes bytes in memory."""
        return cls(core.TranscriptIndex.from_bytes(data))

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"Transcript({self.path or 'in memory'}, {len(self)} lines, {self.index.size} bytes)"

    # ---- lines -------------------------------------------------------------------------------

    @cached_property
    def _rows(self) -> list[RecordLine]:
        rows = self._read_rows()
        for at, entry in self._queued.items():
            names = as_string(entry["uuid"]), as_string(entry["parentUuid"])
            # No flag, as the row of such an entry in a list has none.
            rows[at] = RecordLine(at, "user", "", *names, 0)
        return rows

    def _read_rows(self) -> list[RecordLine]:
        return [
            RecordLine(at, kind, subtype, uuid, parent, _flags(marks, kind == "user"))
            for at, (kind, subtype, uuid, parent, marks) in enumerate(self.index.heads())
        ]

    @cached_property
    def _queued(self) -> dict[int, Item]:
        """Entries for what stands in `queue-operation` lines only, by the place where the model was shown it."""
        lines = map(self.stored, self.index.outline(QUEUE_LINE)[0])
        if all(line.get("operation") != "remove" for line in lines):
            return {}
        return _queued_entries(self._read_rows(), self.stored)

    def rows(self) -> Sequence[RecordLine]:
        """Type, links and flags of every line, without building its object.

        A line that took a user's message from the queue, and that alone says when the model was shown it, is that message's.
        """
        return self._rows

    def load(self, at: int) -> Item:
        """The object of a line, by its position among the lines; the entry that stands for it, see `rows`.

        Raises:
            InvalidTranscript: The line is not a JSON object.
            TranscriptChanged: The file was truncated or overwritten since it was opened.
        """
        entry: Item = self._queued.get(at) or self.index.load(at)
        return entry

    def stored(self, at: int) -> Item:
        """The object of a line as it stands in the file; empty if it cannot be read."""
        return _readable(self.index.load, at) or {}

    def is_queued(self, at: int) -> bool:
        """Whether a line stands for a message that was typed while the agent worked, see `rows`."""
        return at in self._queued

    def entries(self) -> Iterator[Item]:
        """All lines in file order as objects; unreadable ones are in `index.bad` and left out."""
        entries = (_readable(self.load, at) for at in range(len(self)))
        return (entry for entry in entries if entry is not None)

    # ---- context -----------------------------------------------------------------------------

    @cached_property
    def conversation(self) -> Conversation:
        """What the model was shown last, with where each part came from."""
        source = _Readable(self)
        return converse(self._rows, source.load, unfinished=self.index.torn, bad=source.bad)

    def messages(self) -> list[dict[str, Any]]:
        """What the model was shown last, as API messages."""
        return list(self.conversation.messages)

    def shown(self) -> list[dict[str, Any]]:
        """As `messages`, without finding out why other lines are not shown: for one look at a file."""
        context = None if "conversation" in self.__dict__ else self.context()
        if context is None:
            return self.messages()
        source = _Readable(self)
        return to_messages(source.load(at) for at in context.lines).messages

    def context(self, stop: int | None = None) -> FoldedContext | None:
        """Which lines are in the context, of those before `stop` (`None`: of all).

        `None` where more than compactions changed the context, a message stands in the queue only, or a boundary
        cannot be read, and on the Python engine: then only the conversation tells.
        """
        stop = len(self) if stop is None else stop
        marks = None if self._queued else self._marks
        return None if marks is None else self.index.context(stop, marks)

    @cached_property
    def _marks(self) -> list[BoundaryMark] | None:
        marks: list[BoundaryMark] = []
        for at in self.index.outline(BOUNDARY)[0]:
            if (entry := _readable(self.load, at)) is None:
                return None
            marks.append(mark_of(at, entry))
        return marks

    # ---- facts -------------------------------------------------------------------------------

    @cached_property
    def boundaries(self) -> list[int]:
        """Positions of all compact boundaries, oldest first."""
        return [row.at for row in self._rows if row.subtype == BOUNDARY]

    @cached_property
    def session_id(self) -> str:
        """`sessionId` of the newest line that has one; empty if none does."""
        for row in reversed(self._rows):  # a line that cannot be read has no type
            if row.type and (name := as_string(self.stored(row.at).get("sessionId"))):
                return name
        return ""

    @cached_property
    def model(self) -> str:
        """The model of the newest response that a model gave; empty if there is none."""
        return as_string(self._newest_response.get("model"))

    @cached_property
    def usage(self) -> Mapping[str, Any] | None:
        """Usage of the newest response that a model gave, as it was reported."""
        usage = self._newest_response.get("usage")
        return usage if isinstance(usage, Mapping) else None

    @cached_property
    def metadata(self) -> dict[str, Item]:
        """The newest line of each type that says something about the session, by type."""
        newest = {row.type: row.at for row in self._rows if row.type in METADATA_TYPES}
        return {kind: line for kind, at in newest.items() if (line := self.stored(at))}

    @cached_property
    def _newest_response(self) -> Mapping[str, Any]:
        skip = RowFlag.SIDECHAIN | RowFlag.SYNTHETIC
        for row in reversed(self._rows):
            if row.type == "assistant" and not row.flags & skip:
                return message_of(self.stored(row.at)) or {}
        return {}


def _readable(load: Callable[[int], Item], at: int) -> Item | None:
    """A line's object; `None` if it cannot be read. A file that changed is an error all the same."""
    try:
        return load(at)
    except TranscriptChanged:
        raise
    except InvalidTranscript:
        return None


_REPEATED_IN_MESSAGE = ("role", "model", "type", "stop_reason")
_REPEATED = ("type", "sessionId", "cwd", "version", "gitBranch", "userType", "slug", "entrypoint")


class _Readable:
    """The entries of a transcript's lines, for the replay; one that fails to load is empty."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        # Grows with what is loaded: the index passes over what lies deeper than Python reads.
        self.bad = list(transcript.index.bad)
        self._shared_texts: dict[str, str] = {}
        self._usage: Any = None

    def load(self, at: int) -> Item:
        try:
            if not self._transcript.lean or self._transcript.is_queued(at):
                return self._transcript.load(at)
            return self._shared(at, self._transcript.index.load(at, lean=True))
        except TranscriptChanged:
            raise
        except InvalidTranscript as exc:
            if exc.line not in dict(self.bad):
                self.bad.append((exc.line or 0, "nested too deeply, left out"))
            return {}

    def _shared(self, at: int, entry: dict[str, Any]) -> Item:
        """The entry, in which what many lines repeat is one object for all: half of a session is such words."""
        row = self._transcript.rows()[at]
        if entry.get("uuid") == row.uuid:
            entry["uuid"] = row.uuid
        if entry.get("parentUuid") == row.parent:
            entry["parentUuid"] = row.parent
        message, shared = entry.get("message"), self._shared_texts
        parts: list[tuple[dict[str, Any], tuple[str, ...]]] = [(entry, _REPEATED)]
        if type(message) is dict:
            parts.append((message, _REPEATED_IN_MESSAGE))
            if "usage" in message:  # the pieces of a response repeat it
                if message["usage"] == self._usage:
                    message["usage"] = self._usage
                self._usage = message["usage"]
        for values, keys in parts:
            for key in keys:
                text = values.get(key)
                if type(text) is str:
                    values[key] = shared.setdefault(text, text)
        return entry


def _look(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - what is compared is a `stat_result`
    except OSError:
        return None


_NO_PROMPT = RowFlag.SIDECHAIN | RowFlag.SYNTHETIC | RowFlag.SUMMARY


def _flags(marks: int, is_user: bool) -> int:
    return marks & _NO_PROMPT or (marks & RowFlag.PROMPT if is_user else 0)


# Resume: what the model was shown last, from a file or from entries.


def resume(source: str | os.PathLike[str] | Transcript | Iterable[Item]) -> Conversation:
    """Rebuilds what the model was shown last (LOG-2).

    Lines count in file order from the newest complete boundary on, with kept messages in their place
    after the summary; sub-agents, errors and rewound branches are left out; snips, clearings,
    collapses and budget decisions are replayed.

    Args:
        source: A path, an opened transcript, or entries or bare messages in file order.

    Returns:
        Messages, where each came from, and a report of what was left out.

    Raises:
        InvalidMessage: An item of a list is not a mapping; names its position.
        InvalidTranscript: The path is not a regular file.
        StoreError: The file is missing or cannot be read.

    Example:
        >>> resume([{"role": "user", "content": "hi"}]).messages
        [{'role': 'user', 'content': 'hi'}]
    """
    if isinstance(source, str | os.PathLike):
        source = Transcript.open(source)
    if isinstance(source, Transcript):
        return source.conversation
    items = listed(source)
    return converse([row_of(at, item) for at, item in enumerate(items)], items.__getitem__)


def messages_after_boundary(items: Sequence[Item]) -> list[Item]:
    """The items after the newest boundary, as the same objects; all of them if there is none.

    Kept messages before the boundary, as in a file, are moved to their position after
    the summary. Nothing else is left out: this is for lists, `resume` is for transcripts.

    Args:
        items: Bare messages or entries.

    Raises:
        InvalidMessage: An item is not a mapping; names its position.

    Example:
        >>> boundary = {"type": "system", "subtype": "compact_boundary"}
        >>> old, new = {"role": "user", "content": "a"}, {"role": "user", "content": "b"}
        >>> messages_after_boundary([old, boundary, new])
        [{'role': 'user', 'content': 'b'}]
    """
    items = listed(items)
    at = next((at for at in reversed(range(len(items))) if is_boundary(items[at])), None)
    if at is None:
        return items
    after = list(items[at + 1 :])
    messages = as_mapping(as_mapping(items[at].get("compactMetadata")).get("preservedMessages"))
    uuids, anchor = as_strings(messages.get("uuids")), as_string(messages.get("anchorUuid"))
    here = {as_string(item.get("uuid")) for item in after}
    before = {as_string(item.get("uuid")): item for item in items[:at]}
    preserved = [before[uuid] for uuid in uuids if uuid in before and uuid not in here]
    place = next((i + 1 for i, item in enumerate(after) if item.get("uuid") == anchor), 0)
    return after[:place] + preserved + after[place:]

"""What a reader gives: conversations as entries, with what the file says about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ullage.messages import BOUNDARY, Block, StoredEntry, is_boundary
from ullage.providers._results import place_result
from ullage.transcript.pin import FilePin

__all__ = ["EntryList", "ReadSession", "ReadTranscript", "ReadWarning", "usage_of"]


class ReadWarning(NamedTuple):
    """Something in a file that was skipped or repaired.

    Attributes:
        line: 1-based line, or the position of a message in a file that is one JSON document; 0: the
            file as a whole.
        reason: What was found and what became of it.
    """

    line: int
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class ReadSession:
    """One conversation.

    Attributes:
        id: As the file names it; else made from its position.
        entries: Messages in envelopes, with boundaries where a compaction happened; all of history.
        system: The system prompt; `None` if the file does not hold it.
        tools: Anthropic-shaped definitions; `None` if the file does not hold them.
        metadata: What else is known, such as `model`, `cwd`, `context_window_tokens`.
        context: What the model is shown, where the format has rules of its own for it; `None`: all
            messages after the newest boundary.
    """

    id: str
    entries: list[StoredEntry]
    system: str | list[Block] | None = None
    tools: list[dict[str, Any]] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    context: list[dict[str, Any]] | None = None

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What the model is shown: the messages after the newest boundary, kept ones in their place.

        Messages that the model never produced (errors) are left out.
        """
        if self.context is not None:
            return self.context
        return [entry["message"] for entry in _in_context(self.entries) if _is_said(entry)]

    def __repr__(self) -> str:
        return f"ReadSession({self.id!r}, {len(self.entries)} entries)"


@dataclass(frozen=True, slots=True, repr=False)
class ReadTranscript:
    """A file that was read.

    Attributes:
        format: Name of the format.
        path: The file.
        sessions: Its conversations; at least one.
        metadata: Contents of the file other than its conversations.
        warnings: What was skipped or repaired.
        pin: Which file was read, and how much of it; `None` if it was not read from a file.
    """

    format: str
    path: str
    sessions: tuple[ReadSession, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[ReadWarning, ...] = ()
    pin: FilePin | None = None

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What the model is shown in the first conversation."""
        return self.sessions[0].messages

    @property
    def entries(self) -> list[StoredEntry]:
        """Entries of the first conversation."""
        return self.sessions[0].entries

    def __repr__(self) -> str:
        counts = f"sessions={len(self.sessions)}, warnings={len(self.warnings)}"
        return f"ReadTranscript({self.format}, {counts})"


def _in_context(entries: Sequence[StoredEntry]) -> list[StoredEntry]:
    at = next((at for at in reversed(range(len(entries))) if is_boundary(entries[at])), None)
    if at is None:
        return list(entries)
    after = list(entries[at + 1 :])
    kept = (entries[at].get("compactMetadata") or {}).get("preservedMessages") or {}
    if kept:
        before = {entry.get("uuid"): entry for entry in entries[:at]}
        uuids = [entry.get("uuid") for entry in after]
        place = uuids.index(kept["anchorUuid"]) + 1 if kept["anchorUuid"] in uuids else 0
        after[place:place] = [before[uuid] for uuid in kept["uuids"] if uuid in before]
    return after


def _is_said(entry: StoredEntry) -> bool:
    return "message" in entry and not entry.get("isApiErrorMessage")


class EntryList:
    """Builds the entries of one conversation: results right after their calls, no id twice."""

    def __init__(self, session: str, warn: Callable[[int, str], None] | None = None) -> None:
        self.session = session
        self._warn = warn
        self.entries: list[StoredEntry] = []
        self._messages: list[dict[str, Any]] = []  # of `entries`, since the newest boundary
        self._first = 0
        self._ids: set[str] = set()
        self._open: dict[str, list[str]] = {}  # id in the file → ids here of calls without a result

    def __len__(self) -> int:
        return len(self.entries)

    def add(
        self, message: dict[str, Any], *, line: int = 0, timestamp: Any = None, **flags: Any
    ) -> StoredEntry:
        """Appends a message in an envelope.

        Args:
            message: Role and content, and what the response carried (`id`, `model`, `usage`).
            line: Where it stands in the file; part of its uuid.
            timestamp: ISO text or milliseconds; `None`: unknown.
            flags: Such as `isMeta`; false ones are left out.
        """
        message = self._called(message, line)
        entry = self._envelope(message["role"], line, timestamp, flags)
        entry["message"] = message
        self.entries.append(entry)
        self._messages.append(message)
        return entry

    def add_result(self, block: Block, *, line: int = 0, timestamp: Any = None) -> bool:
        """Adds a tool result; results in a row are one message.

        Returns:
            Whether it stood by its call. If not, it was moved there, or it has no call.
        """
        waiting = self._open.get(str(block.get("tool_use_id")))
        if waiting:
            block = {**block, "tool_use_id": waiting.pop(0)}
        before = len(self._messages)
        stood = place_result(self._messages, block)
        if len(self._messages) > before:
            at = next(i for i in range(before, -1, -1) if _holds(self._messages[i], block))
            entry = self._envelope("user", line, timestamp, {})
            entry["message"] = self._messages[at]
            self.entries.insert(self._first + at, entry)
        return stood

    def boundary(self, *, line: int = 0, timestamp: Any = None, **metadata: Any) -> StoredEntry:
        """Appends a compact boundary: what stands before it is history."""
        entry = self._envelope("system", line, timestamp, {})
        entry.update(subtype=BOUNDARY, content="Conversation compacted")
        entry["compactMetadata"] = {"trigger": "auto", **metadata}
        self.entries.append(entry)
        self._messages, self._first = [], len(self.entries)
        return entry

    def forget_ids(self) -> None:
        """Lets ids come again: what follows repeats what stood before, with the same calls."""
        self._ids.clear()
        self._open.clear()

    def _called(self, message: dict[str, Any], line: int) -> dict[str, Any]:
        """Gives a call whose id was used before an id of its own: replays and some servers reuse them."""
        content = message["content"]
        if message["role"] != "assistant" or not isinstance(content, list):
            return message
        blocks = [
            self._own_id(block, line) if block.get("type") == "tool_use" else block
            for block in content
        ]
        same = all(new is old for new, old in zip(blocks, content, strict=True))
        return message if same else {**message, "content": blocks}

    def _own_id(self, block: Block, line: int) -> Block:
        told, count = str(block.get("id")), 1
        own = told
        while own in self._ids:
            count += 1
            own = f"{told}-{count}"
        self._ids.add(own)
        self._open.setdefault(told, []).append(own)
        if own == told:
            return block
        if self._warn is not None:
            self._warn(line, f"the call id {told} was used before, this call is {own}")
        return {**block, "id": own}

    def _envelope(
        self, kind: str, line: int, timestamp: Any, flags: Mapping[str, Any]
    ) -> StoredEntry:
        entry: StoredEntry = {"type": kind, "uuid": f"{self.session}-{len(self.entries)}-{line}"}
        if timestamp is not None:
            entry["timestamp"] = iso(timestamp)
        entry.update((flag, value) for flag, value in flags.items() if value)
        return entry


def _holds(message: Mapping[str, Any], block: Block) -> bool:
    content = message["content"]
    return isinstance(content, list) and content[-1:] == [block] and content[-1] is block


def iso(timestamp: Any) -> str:
    """ISO text of a moment; milliseconds since 1970 are converted."""
    if not isinstance(timestamp, int | float):
        return str(timestamp)
    from datetime import UTC, datetime

    try:
        moment = datetime.fromtimestamp(timestamp / 1000, UTC)
    except (OverflowError, OSError, ValueError):  # no moment that a calendar has
        return str(timestamp)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def usage_of(
    *, prompt: Any, output: Any, cache_read: Any = 0, cache_write: Any = 0, inclusive: bool = False
) -> dict[str, int]:
    """A usage record in Anthropic's words.

    Args:
        prompt: Tokens of the prompt.
        output: Tokens of the answer, reasoning included.
        cache_read: Of the prompt, those read from a cache.
        cache_write: Of the prompt, those written to a cache.
        inclusive: Whether `prompt` includes the cached ones, as OpenAI counts, or not, as Anthropic.
    """
    read, write = _count(cache_read), _count(cache_write)
    fresh = _count(prompt) - (read + write if inclusive else 0)
    return {
        "input_tokens": max(0, fresh),
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
        "output_tokens": _count(output),
    }


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

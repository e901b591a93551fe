"""Finds removed content: in the history in memory, the offload store, a transcript file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ullage.exceptions import UnknownHandle
from ullage.facts.reading import blocks_of
from ullage.messages import Item, message_of, uuid_of
from ullage.recall.named_span import NamedSpan
from ullage.recall.searched_text import call_title, content_text, render
from ullage.recall.store import OffloadStore, digest_of
from ullage.transcript import records
from ullage.transcript.index import Transcript

__all__ = ["Archive", "Recalled"]


_MESSAGES = re.compile(r"m(\d{1,9})(?:-m?(\d{1,9}))?\Z")
_USER = re.compile(r"u(\d{1,6})(?:-u?(\d{1,6}))?\Z")
_TALK = ("user", "assistant", "attachment")
_OFFSET = re.compile(r"@(\d{1,18})\Z")


@dataclass(frozen=True, slots=True)
class Recalled:
    """The content that a handle names.

    Attributes:
        handle: As requested.
        kind: `result`, `messages` or `stored` (only its text is left, in the store).
        title: Its description, one line.
        items: The stored objects: the messages, or the one `tool_result` block; empty for `stored`.
        text: All of it as text.
    """

    handle: str
    kind: str
    title: str
    items: tuple[Item, ...] = field(repr=False)
    text: str = field(repr=False)


class Archive:
    """Resolves handles.

    Args:
        history: All messages or entries that were ever added, oldest first; append-only. Read on demand, never copied.
        store: Where large results were offloaded; `None`: nowhere.
        transcript: The session's file, or its path; `None`: there is none. A path is opened again for each question, so that
            lines appended since are found.
    """

    def __init__(
        self,
        history: Sequence[Item] = (),
        *,
        store: OffloadStore | None = None,
        transcript: str | os.PathLike[str] | Transcript | None = None,
    ) -> None:
        self.history = history
        self.spans: dict[str, NamedSpan] = {}
        self._store = store
        self._transcript = transcript
        self._results: dict[str, int] = {}
        self._calls: dict[str, str] = {}
        self._uuids: dict[str, int] = {}
        self._indexed = 0

    def name(self, handle: str, span: NamedSpan) -> None:
        """Name a span of the history; the same name again moves it."""
        self.spans[handle] = span

    def resolve(self, handle: str) -> Recalled:
        """The content that a handle names, equal to what was added.

        Raises:
            UnknownHandle: Nothing in this conversation has that handle.
            StoreError: The transcript cannot be read.
        """
        self._index()
        for look in (self._named, self._result, self._entry, self._by_position, self._by_user):
            if (found := look(handle)) is not None:
                return found
        for look in (self._in_transcript, self._stored):
            if (found := look(handle)) is not None:
                return found
        raise UnknownHandle(handle)

    def title(self, tool_use_id: str) -> str:
        """The target of a result's call, one line; the id itself if the call is unknown."""
        self._index()
        return self._calls.get(tool_use_id, tool_use_id)

    # ---- the history

    def _index(self) -> None:
        """Index what was appended since the last query."""
        for at in range(self._indexed, len(self.history)):
            item = self.history[at]
            if uuid := uuid_of(item):
                self._uuids[uuid] = at
            for block in blocks_of(item):
                self._note(block, at)
        self._indexed = len(self.history)

    def _note(self, block: Mapping[str, Any], at: int) -> None:
        if block.get("type") == "tool_use":
            self._calls[str(block.get("id"))] = call_title(block.get("name"), block.get("input"))
        elif block.get("type") == "tool_result":
            self._results[str(block.get("tool_use_id"))] = at

    def _named(self, handle: str) -> Recalled | None:
        span = self.spans.get(handle)
        return None if span is None else self._messages(handle, span.first, span.last, span.title)

    def _result(self, handle: str) -> Recalled | None:
        at = self._results.get(handle)
        return None if at is None else _result_in(self.history[at], handle, self.title(handle))

    def _entry(self, handle: str) -> Recalled | None:
        at = self._uuids.get(handle)
        return None if at is None else self._messages(handle, at, at)

    def _by_position(self, handle: str) -> Recalled | None:
        found = _MESSAGES.match(handle)
        if found is None:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        return self._messages(handle, first, last) if first <= last < len(self.history) else None

    def _by_user(self, handle: str) -> Recalled | None:
        """Messages of the user by the numbers that summaries give them."""
        found = _USER.match(handle)
        if found is None:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        from ullage.facts import collect
        from ullage.facts.model import Origin

        # What a summary in the history repeats was added before it, or never.
        inputs = [e for e in collect(self.history).inputs if e.origin is Origin.USER]
        wanted = [e for e in inputs if first <= e.number <= last]
        if not wanted:
            return None
        items = tuple(self.history[entry.index] for entry in wanted)
        text = "\n\n".join(f"--- u{entry.number}\n{entry.text}" for entry in wanted)
        return Recalled(handle, "messages", f"{len(wanted)} of the user's messages", items, text)

    def _messages(self, handle: str, first: int, last: int, title: str = "") -> Recalled:
        items = tuple(self.history[first : last + 1])
        count = f"{len(items)} message{'s' * (len(items) != 1)}"
        text = "\n\n".join(f"--- m{first + at}\n{render(item)}" for at, item in enumerate(items))
        return Recalled(handle, "messages", title or f"{count} from m{first}", items, text)

    # ---- the file and the store

    def _opened(self) -> Transcript | None:
        source = self._transcript
        return (
            source if source is None or isinstance(source, Transcript) else Transcript.open(source)
        )

    def _in_transcript(self, handle: str) -> Recalled | None:
        transcript = self._opened()
        if transcript is None:
            return None
        offset = _OFFSET.match(handle)
        for at, row in enumerate(transcript.rows()):
            here = (
                transcript.index.line(at).offset == int(offset[1]) if offset else row.uuid == handle
            )
            if here:
                return _of_entry(handle, transcript.load(at))
        return None if offset else _collapsed(transcript, handle) or _result_of(transcript, handle)

    def _stored(self, handle: str) -> Recalled | None:
        """A text at a place of the store. An id alone does not suffice: another conversation may have stored it."""
        text = self._store.get(handle) if self._store is not None else None
        if text is None or not (digest_of(text) in handle or self._is_told(handle)):
            return None
        return Recalled(handle, "stored", self.title(handle), (), text)

    def _is_told(self, place: str) -> bool:
        """Whether a result of this conversation names that place."""
        told = f"It lies in: {place}\n"
        return any(
            told in content_text(block.get("content"))
            for item in self.history
            for block in _results_in(item)
        )


def _collapsed(transcript: Transcript, collapse_id: str) -> Recalled | None:
    """The entries that a collapse replaced, in file order."""
    rows = transcript.rows()
    for row in reversed(rows):
        commit = None
        if row.type in records.COMMIT_TYPES:
            commit = records.parse_collapse_commit(transcript.load(row.at))
        if commit is not None and collapse_id in (commit.collapse_id, commit.summary_uuid):
            ends = {each.uuid: at for at, each in enumerate(rows) if each.uuid}
            first, last = ends.get(commit.first_uuid), ends.get(commit.last_uuid)
            if first is None or last is None:
                return None
            talk = [each for each in rows[first : last + 1] if each.type in _TALK]
            items = tuple(transcript.load(each.at) for each in talk)
            text = "\n\n".join(f"--- {each.get('uuid')}\n{render(each)}" for each in items)
            return Recalled(collapse_id, "messages", f"{len(items)} entries", items, text)
    return None


def _of_entry(handle: str, entry: Item) -> Recalled:
    return Recalled(
        handle, "messages", f"an entry of type {entry.get('type')}", (entry,), render(entry)
    )


def _result_of(transcript: Transcript, tool_use_id: str) -> Recalled | None:
    """A result in a transcript, the newest of its id; only lines that hold the id are parsed."""
    wanted = tool_use_id.encode("utf-8", "surrogatepass")
    for at in reversed(range(len(transcript))):
        if wanted and wanted in transcript.index.raw(at):
            found = _result_in(transcript.load(at), tool_use_id, tool_use_id)
            if found is not None:
                return found
    return None


def _result_in(item: Item, tool_use_id: str, title: str) -> Recalled | None:
    for block in _results_in(item):
        if str(block.get("tool_use_id")) == tool_use_id:
            text = content_text(block.get("content"))
            return Recalled(tool_use_id, "result", title, (block,), text)
    return None


def _results_in(item: Item) -> Iterator[Mapping[str, Any]]:
    if message_of(item) is not None:
        yield from (block for block in blocks_of(item) if block.get("type") == "tool_result")

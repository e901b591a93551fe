"""Stores for large tool results: an interface with two methods, files by default.

A text is stored under its id and its hash, since ids repeat: between conversations that share a store, after restarts, and
where a provider sends none. The place that `put` returns always names that text; an id names it only while no other text has the same id.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, Protocol

from ullage._start import Frozen, hashlib, pathlib, pattern
from ullage.exceptions import InvalidPolicy, StoreError, UnknownHandle
from ullage.facts.words import blocks_of
from ullage.messages import Item, is_summary, message_of, role_of, uuid_of
from ullage.recall.text import NamedSpan, call_title, content_text, render, title_of
from ullage.transcript import records
from ullage.transcript.index import Transcript
from ullage.transcript.render import rendered

_SAFE = pattern(r"[A-Za-z0-9_-]{1,100}\Z")
_RESERVED = pattern(r"(?:con|prn|aux|nul|clock\$|com\d|lpt\d)\Z", re.IGNORECASE)
"""Device names on Windows, with any suffix."""

_PLACE = pattern(r"([A-Za-z0-9_-]{1,100})\.([0-9a-f]{32})\.[a-z]{1,8}")
"""The name of a store's file: stem, hash of the text, suffix."""

# A suffix is part of a path: anything but a few letters could leave the folder.
_SUFFIX = pattern(r"\.[a-z]{1,8}\Z")
# A link in the folder could lead anywhere. Windows has no such flag, and needs the other one to keep line ends.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class OffloadStore(Protocol):
    """Keeps texts. Two different texts under one id stay separate: neither is ever returned for the other."""

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        """Store a text; returns its place, readable for a model or a user."""
        ...

    def get(self, name: str) -> str | None:
        """The text at a place that `put` returned, or under an id that has only one text. Else `None`."""
        ...


def digest_of(text: str) -> str:
    """Distinguishes a text from others under the same id: 32 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def file_stem(name: str) -> str:
    """A file name for any id: the id itself if it is plain, else a hash of it.

    Ids come from models and servers; none may lead out of the store's folder.
    """
    if _SAFE.match(name) and not _RESERVED.match(name):
        return name
    return "id-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def file_name(name: str, text: str, suffix: str) -> str:
    """The file name of a text: equal only for the same text under the same id. A stem holds no dot."""
    return f"{file_stem(name)}.{digest_of(text)}{suffix}"


class FileStore:
    """One file per text in a folder, written whole or not at all, on the disk before its place is returned.

    A symbolic link in a file's place is never followed.

    Args:
        folder: Created with the first text. Conversations may share it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = pathlib.Path(folder)

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        """Keep a text.

        Raises:
            InvalidPolicy: The suffix is invalid.
            StoreError: The folder or the file cannot be written; nothing was stored.
        """
        if not _SUFFIX.match(suffix):
            raise InvalidPolicy("suffix", suffix, "must be a dot and up to 8 small letters")
        target = self.folder / file_name(name, text, suffix)
        data = text.encode("utf-8", "surrogatepass")
        try:
            # A file that was truncated or changed is written again.
            if _is_own(target) and target.read_bytes() == data:
                return str(target)
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(target, data)
        except OSError as exc:
            raise StoreError(exc.strerror or str(exc), path=str(target)) from exc
        return str(target)

    def get(self, name: str) -> str | None:
        """The text at a place that `put` returned, or under an id that has only one text. Else `None`."""
        place = pathlib.Path(name).name if "\0" not in name else ""
        if (match := _PLACE.fullmatch(place)) and name in (place, str(self.folder / place)):
            text = self._read(self.folder / place)
            return text if text is not None and digest_of(text) == match[2] else None
        versions = (self._read(path) for path in self._under(name))
        texts = {text for text in versions if text is not None}
        return texts.pop() if len(texts) == 1 else None

    def _under(self, name: str) -> Iterator[pathlib.Path]:
        """Files of an id."""
        stem = file_stem(name)
        with suppress(OSError):
            for path in self.folder.iterdir():
                if (match := _PLACE.fullmatch(path.name)) and match[1] == stem:
                    yield path

    def _read(self, path: pathlib.Path) -> str | None:
        return path.read_bytes().decode("utf-8", "surrogatepass") if _is_own(path) else None


def _is_own(path: pathlib.Path) -> bool:
    return path.is_file() and not path.is_symlink()


def write_whole(
    path: pathlib.Path, data: bytes, *, sync: bool = True, folder: int | None = None
) -> None:
    """Write a file whole or not at all, readable only by its owner, in a folder that exists; after an error the old content is intact.

    `folder`: the open folder that `path` is relative to; `None`: it is not.
    """
    draft = path.parent / f".{path.name}.{os.getpid()}-{threading.get_ident()}.part"
    try:
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)  # a leftover of a killed process
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
        fd = os.open(draft, flags, 0o600, dir_fd=folder)
        try:
            unwritten = memoryview(data)
            while unwritten:
                unwritten = unwritten[os.write(fd, unwritten) :]
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(draft, path, src_dir_fd=folder, dst_dir_fd=folder)
        if sync and os.name == "posix":  # makes the new name durable; only POSIX systems need it
            fd = os.open(path.parent, os.O_RDONLY, dir_fd=folder)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise


class MemoryStore:
    """Keeps texts in memory; for tests and for hosts without a disk.

    Attributes:
        texts: Texts by the place that `put` returned.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._under: dict[str, set[str]] = {}

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        """Keep a text."""
        place = f"memory:{file_name(name, text, suffix)}"
        self.texts[place] = text
        self._under.setdefault(name, set()).add(place)
        return place

    def get(self, name: str) -> str | None:
        """The text at a place that `put` returned, or under an id that has only one text. Else `None`."""
        if name in self.texts:
            return self.texts[name]
        texts = {self.texts[place] for place in self._under.get(name, ())}
        return texts.pop() if len(texts) == 1 else None


# Finds removed content: in the history in memory, the offload store, a transcript file.


# Nine digits: no list is longer, and `int` of a longer text takes quadratic time.
_NUMBERED = pattern(r"([mu])(\d{1,9})(?:-\1?(\d{1,9}))?\Z")
_TALK = ("user", "assistant", "attachment")
_OFFSET = pattern(r"@(\d{1,18})\Z")


class Recalled(Frozen):
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
        self.spans: dict[str, NamedSpan] = {}  # by the names that levels gave them
        self._store = store
        self._transcript = transcript
        self._results: dict[str, int] = {}
        self._calls: dict[str, str] = {}
        self._uuids: dict[str, int] = {}
        self._indexed = 0

    def resolve(self, handle: str) -> Recalled:
        """The content that a handle names, equal to what was added.

        Raises:
            UnknownHandle: Nothing in this conversation has that handle.
            StoreError: The transcript cannot be read.
        """
        self._index()
        span = self.spans.get(handle)
        if span is not None:
            return self._messages(handle, span.first, span.last, span.title)
        at = self._results.get(handle)
        result = None if at is None else _result_in(self.history[at], handle, self.title(handle))
        if result is not None:
            return result
        at = self._uuids.get(handle)
        if at is not None:
            return self._messages(handle, at, at)
        for look in (self._by_number, self._in_transcript, self._stored):
            if (recalled := look(handle)) is not None:
                return recalled
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
                if block.get("type") == "tool_use":
                    title = call_title(block.get("name"), block.get("input"))
                    self._calls[str(block.get("id"))] = title
                elif block.get("type") == "tool_result":
                    self._results[str(block.get("tool_use_id"))] = at
        self._indexed = len(self.history)

    def _by_number(self, handle: str) -> Recalled | None:
        """Messages by their position, or the user's by the numbers that summaries give them."""
        match = _NUMBERED.match(handle)
        if match is None:
            return None
        first, last = int(match[2]), int(match[3] or match[2])
        if match[1] == "m":
            exists = first <= last < len(self.history)
            return self._messages(handle, first, last) if exists else None
        from ullage.facts import collect
        from ullage.facts.model import Origin

        # What a summary in the history repeats was added earlier, or never.
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

    def _in_transcript(self, handle: str) -> Recalled | None:
        transcript = self._transcript
        if transcript is None:
            return None
        if not isinstance(transcript, Transcript):
            transcript = Transcript.open(transcript)
        offset = _OFFSET.match(handle)
        for at, row in enumerate(transcript.rows()):
            here = (
                transcript.index.line(at).offset == int(offset[1]) if offset else row.uuid == handle
            )
            if here:
                entry = transcript.load(at)
                title = f"an entry of type {entry.get('type')}"
                return Recalled(handle, "messages", title, (entry,), render(entry))
        return None if offset else _collapsed(transcript, handle) or _result_of(transcript, handle)

    def _stored(self, handle: str) -> Recalled | None:
        """A text at a place of the store, which its hash or a result of this conversation names.

        An id alone does not suffice: another conversation may have stored it.
        """
        text = self._store.get(handle) if self._store is not None else None
        if text is None:
            return None
        mention = f"It lies in: {handle}\n"
        results = (block for item in self.history for block in _results_in(item))
        if digest_of(text) not in handle and not any(
            mention in content_text(block.get("content")) for block in results
        ):
            return None
        return Recalled(handle, "stored", self.title(handle), (), text)


def _collapsed(transcript: Transcript, collapse_id: str) -> Recalled | None:
    """The entries that a collapse replaced, in file order."""
    rows = transcript.rows()
    for row in reversed(rows):
        commit = None
        if row.type in records.COMMIT_TYPES:
            commit = records.parse_collapse_commit(transcript.load(row.at))
        if commit is not None and collapse_id in (commit.collapse_id, commit.summary_uuid):
            ends = {entry.uuid: at for at, entry in enumerate(rows) if entry.uuid}
            first, last = ends.get(commit.first_uuid), ends.get(commit.last_uuid)
            if first is None or last is None:
                return None
            talk = [entry for entry in rows[first : last + 1] if entry.type in _TALK]
            items = tuple(transcript.load(entry.at) for entry in talk)
            text = "\n\n".join(f"--- {entry.get('uuid')}\n{render(entry)}" for entry in items)
            return Recalled(collapse_id, "messages", f"{len(items)} entries", items, text)
    return None


def _result_of(transcript: Transcript, tool_use_id: str) -> Recalled | None:
    """A result in a transcript, the newest of its id; only lines that hold the id are parsed."""
    wanted = tool_use_id.encode("utf-8", "surrogatepass")
    for at in reversed(range(len(transcript))):
        if wanted and wanted in transcript.index.raw(at):
            result = _result_in(transcript.load(at), tool_use_id, tool_use_id)
            if result is not None:
                return result
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


# What is in the history but not in the request, found by comparing the two, so that no level can forget to report it.


class Left(Frozen):
    """One thing that was removed from the context.

    Attributes:
        handle: The name by which `recall` returns it.
        kind: `result` (another text replaced it) or `messages` (they are not in the request at all).
        title: Its description, one line.
        chars: Its length as text.
        first: Position of its first message in the history.
        last: Position of its last message.
    """

    handle: str
    kind: str
    title: str
    chars: int
    first: int
    last: int

    def __repr__(self) -> str:
        return f"Left({self.handle}, {self.kind}, {self.chars:,} characters)"


def left(archive: Archive, sources: Sequence[int | str], shown: Sequence[Item]) -> list[Left]:
    """Everything that was removed, oldest first, each once.

    `sources` has for each message of the request its position in the history, or any other value if a level made it; `shown` the
    messages as they are sent: replaced results differ.
    """
    sent = {at: showing for at, showing in zip(sources, shown, strict=True) if isinstance(at, int)}
    parts: list[Left] = []
    evicted: list[int] = []
    for at, item in enumerate(archive.history):
        if at in sent:
            parts += _removed_run(archive, evicted)
            evicted = []
            pairs = zip(blocks_of(item), blocks_of(sent[at]), strict=False)
            for old, new in pairs if sent[at] is not item else ():
                if old.get("type") == "tool_result" and old.get("content") != new.get("content"):
                    handle = str(old.get("tool_use_id"))
                    chars = len(content_text(old.get("content")))
                    parts.append(Left(handle, "result", archive.title(handle), chars, at, at))
        elif rendered(item) is not None:
            evicted.append(at)
    return parts + _removed_run(archive, evicted)


def _removed_run(archive: Archive, positions: Sequence[int]) -> list[Left]:
    """A run of removed messages: spans that a level named, and the messages between them, by turns."""
    if not positions:
        return []
    first, last = positions[0], positions[-1]
    named = sorted(
        (span.first, span.last, name)
        for name, span in archive.spans.items()
        if first <= span.first and span.last <= last
    )
    parts, at = list[Left](), first
    for start, stop, name in named:
        if start < at:
            continue
        parts += _by_turns(archive, at, start - 1)
        parts.append(_messages(archive, name, start, stop))
        at = stop + 1
    return parts + _by_turns(archive, at, last)


def _by_turns(archive: Archive, first: int, last: int) -> list[Left]:
    if first > last:
        return []
    starts = [at for at in range(first + 1, last + 1) if _is_input(archive.history[at])]
    stops = [at - 1 for at in starts] + [last]
    return [
        _messages(archive, f"m{start}" if start == stop else f"m{start}-{stop}", start, stop)
        for start, stop in zip([first, *starts], stops, strict=True)
    ]


def _is_input(item: Item) -> bool:
    kinds = {block.get("type") for block in blocks_of(item)}
    meta = item.get("isMeta") is True or is_summary(item)
    return role_of(item) == "user" and not meta and "tool_result" not in kinds


def _messages(archive: Archive, handle: str, first: int, last: int) -> Left:
    recalled = archive.resolve(handle)
    span = archive.spans.get(handle)
    title = (span.title if span else "") or title_of(recalled.items[0]) or recalled.title
    return Left(handle, "messages", title, len(recalled.text), first, last)

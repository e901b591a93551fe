"""Readers of transcripts: which format a file has, and its conversations in one form.

Each format is a module with `sniff(source)` and `read(source)`, imported when it is needed; what they use stands here.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any

from ullage._start import NamedTuple, json, orjson
from ullage.exceptions import InvalidTranscript, StoreError, TranscriptChanged, UllageError
from ullage.messages import BOUNDARY, Block, StoredEntry, whole_count
from ullage.transcript.conversation import FilePin, open_regular
from ullage.transcript.log import iso_of

CLAUDE_CODE = "claude_code"
"""Read by `ullage.transcript.Transcript`, without a module here."""

_MODULES = (
    "codex",
    "copilot",
    "pi",
    "gemini_cli",
    "opencode",
    "cline",
    "tau_bench",
    "swe_agent",
    "openhands",
    "anthropic",
    "openai_chat",
)
"""In the order in which they are asked; plainer forms come last."""

_STRANGE = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""What code raises that meets a number where its format has a list."""

_RELATED = {"roo": "cline", "tau2": "tau_bench", "mini_swe_agent": "swe_agent"}
"""Formats that the reader of a related one tells apart."""

FORMATS: tuple[str, ...] = tuple(sorted([CLAUDE_CODE, *_MODULES, *_RELATED]))
"""Names of all formats that can be read."""

_FORMATS_LISTED = "formats that can be read: " + ", ".join(FORMATS)


def detect(path: str | os.PathLike[str]) -> str:
    """Says which format a file has, by what stands in it; its name does not count.

    Args:
        path: The file.

    Returns:
        One of `FORMATS`.

    Raises:
        InvalidTranscript: No format fits, or the path is a directory or an empty file.
        StoreError: The file is missing or cannot be read.
    """
    source, name = recognised(path)
    # Only a few modules read more than one format, and those name it when they have read it.
    siblings = {other for other, module in _RELATED.items() if module == name}
    return _read(source, name).format if siblings else name


def recognised(path: str | os.PathLike[str]) -> tuple[OpenedFile, str]:
    """The file, and the format by whose reader it is read: that of a related format may stand for it (see `FORMATS`).

    Raises:
        InvalidTranscript, StoreError: See `detect`.
    """
    source, head = OpenedFile(path), list[dict[str, Any]]()
    for line in source.starts():  # one of the first says it as a rule
        if _is_claudes(line):
            return source, CLAUDE_CODE
        head.append(line)
    source.head = head
    for name in _MODULES:
        if _fits(source, name):
            return source, name
    reason = f"is of no known format: {described(source)}"
    raise InvalidTranscript(reason, path=source.path, hint=_hint(source))


_TALK = ("user", "assistant", "system", "attachment", "progress")
_NOTES = ("summary", "file-history-snapshot", "queue-operation", "custom-title", "last-prompt")


def _is_claudes(line: Mapping[str, Any]) -> bool:
    """Whether a line is a linked entry of a session of Claude Code's, or one of its notes."""
    kind = line.get("type")
    if kind in _NOTES:
        return bool({"sessionId", "leafUuid", "messageId", "snapshot"} & set(line))
    return kind in _TALK and "uuid" in line and bool({"parentUuid", "sessionId"} & set(line))


def read_recognised(source: OpenedFile, name: str) -> ReadTranscript:
    """What stands in a file that `recognised` gave, of which no byte is read twice; one of Claude Code's is read by its index.

    Raises:
        InvalidTranscript: It holds no message, or a value that no file of this format has.
        StoreError: It cannot be read.
    """
    transcript = _read(source, name)
    if not any(session.entries for session in transcript.sessions):
        raise InvalidTranscript("holds no message", path=source.path, hint=_hint(source))
    return transcript


def _fits(source: OpenedFile, name: str) -> bool:
    try:
        return bool(_module(name).sniff(source))
    except UllageError:
        raise
    except _STRANGE:  # values that no file of this format has
        return False


def _read(source: OpenedFile, name: str) -> ReadTranscript:
    """What a reader finds. It trusts the forms that its tool writes: another value ends here, as one error."""
    try:
        transcript: ReadTranscript = _module(name).read(source)
    except UllageError:
        raise
    except _STRANGE as exc:
        reason = f"holds a value that no {name} file has ({type(exc).__name__}: {str(exc)[:120]})"
        raise InvalidTranscript(reason, path=source.path) from exc
    return transcript


def _module(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}")


def _hint(source: OpenedFile) -> str:
    """What can be read, and what the first bad line said, if there was one."""
    if not source.warnings:
        return _FORMATS_LISTED
    line, reason = source.warnings[0]
    return f"{_FORMATS_LISTED}; line {line} is {reason}"


# What a reader gives: conversations as entries, with what the file says about them.


class ReadSession:
    """One conversation, entry by entry: results right after their calls, no id twice.

    Attributes:
        id: As the file names it; else made from its position.
        entries: Messages in envelopes, with boundaries where a compaction happened; all of history.
        system: The system prompt; `None` if the file does not hold it.
        tools: Anthropic-shaped definitions; `None` if the file does not hold them.
        metadata: What else is known, of `model`, `cwd`, `title` and `context_window_tokens`.
    """

    def __init__(self, session_id: str, warn: Callable[[int, str], None] | None = None) -> None:
        self.id, self._warn = session_id, warn
        self.entries: list[StoredEntry] = []
        self.system: Any = None
        self.tools: list[dict[str, Any]] | None = None
        self.metadata: dict[str, Any] = {}
        self._messages: list[dict[str, Any]] = []  # of `entries`, since the newest boundary
        self._first = 0
        self._ids: set[str] = set()
        self._open: dict[str, list[str]] = {}  # id in the file → ids here of calls without a result

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
        content = message["content"]
        if message["role"] == "assistant" and isinstance(content, list):
            blocks = [
                self._called(block, line) if block.get("type") == "tool_use" else block
                for block in content
            ]
            if any(new is not old for new, old in zip(blocks, content, strict=True)):
                message = {**message, "content": blocks}
        entry = self._envelope(message["role"], line, timestamp, flags)
        entry["message"] = message
        self.entries.append(entry)
        self._messages.append(message)
        return entry

    def add_result(self, block: Block, *, line: int = 0, timestamp: Any = None) -> bool:
        """Adds a tool result; results in a row are one message. False: it was moved to its call, or has none."""
        from ullage.providers._common import place_result

        waiting = self._open.get(str(block.get("tool_use_id")))
        if waiting:
            block = {**block, "tool_use_id": waiting.pop(0)}
        before = len(self._messages)
        stood = place_result(self._messages, block)
        if len(self._messages) > before:
            ends = ((at, self._messages[at]["content"][-1:]) for at in range(before, -1, -1))
            at = next(at for at, end in ends if isinstance(end, list) and end and end[0] is block)
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

    def _called(self, block: Block, line: int) -> Block:
        """The call; with an id of its own if its id was used before: replays and some servers reuse them."""
        stored_id, count = str(block.get("id")), 1
        own_id = stored_id
        while own_id in self._ids:
            count += 1
            own_id = f"{stored_id}-{count}"
        self._ids.add(own_id)
        self._open.setdefault(stored_id, []).append(own_id)
        if own_id == stored_id:
            return block
        if self._warn is not None:
            self._warn(line, f"the call id {stored_id} was used before, this call is {own_id}")
        return {**block, "id": own_id}

    def _envelope(
        self, kind: str, line: int, timestamp: Any, flags: Mapping[str, Any]
    ) -> StoredEntry:
        entry: StoredEntry = {"type": kind, "uuid": f"{self.id}-{len(self.entries)}-{line}"}
        if timestamp is not None:
            entry["timestamp"] = iso(timestamp)
        entry.update((flag, value) for flag, value in flags.items() if value)
        return entry


class ReadTranscript(NamedTuple):
    """The name of a file's format, and its conversations: at least one."""

    format: str
    sessions: Sequence[ReadSession]


def iso(timestamp: Any) -> str:
    """ISO text of a moment; milliseconds since 1970 are converted."""
    try:
        return iso_of(int(timestamp)) if isinstance(timestamp, int | float) else str(timestamp)
    except (OverflowError, OSError, ValueError):  # no moment that a calendar has
        return str(timestamp)


def usage_of(
    figures: Mapping[str, Any],
    prompt: str,
    output: str,
    cache_read: str,
    cache_write: str = "",
    *,
    inclusive: bool = False,
) -> dict[str, int]:
    """A usage record in Anthropic's words, of tokens; those of the answer include reasoning.

    By the keys that figures have for them; `cache_write` empty: none. `inclusive`: the prompt includes the cached ones, as OpenAI counts,
    and not as Anthropic.
    """
    read, write = whole_count(figures.get(cache_read)), whole_count(figures.get(cache_write))
    fresh = whole_count(figures.get(prompt)) - (read + write if inclusive else 0)
    return {
        "input_tokens": max(0, fresh),
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
        "output_tokens": whole_count(figures.get(output)),
    }


# A file as the readers see it: lines of JSON, or one JSON document.

_BOM = b"\xef\xbb\xbf"
"""What editors on some systems put in front of a file; no part of its text."""

_HEAD_BYTES = (1 << 14, 1 << 18)
"""How much of a file is read, and how much where more lines are wanted than that holds."""

_HEAD_LINES = 40
"""Enough to know a format: every known one names itself in its first lines."""


class OpenedFile:
    """A file, read when it is asked for.

    Attributes:
        warnings: Line, or the position of a message in one JSON document, both from 1, and what was skipped or repaired
            there; 0: in the file as a whole.
        pin: Which file the whole of it was read from, and how much; `None` until then.

    Raises:
        InvalidTranscript: The path is a directory or no regular file, or the file is empty.
        StoreError: The file is missing or cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.warnings: list[tuple[int, str]] = []
        self.pin: FilePin | None = None

    @property
    def stem(self) -> str:
        """The file's name without its last ending."""
        return Path(self.path).stem

    @cached_property
    def data(self) -> bytes:
        """The whole file, without the byte-order mark that it may begin with."""
        data = self._read(-1).removeprefix(_BOM)
        if not data.strip():
            raise InvalidTranscript("is empty", path=self.path)
        return data

    def _read(self, limit: int) -> bytes:
        with open_regular(self.path) as file:
            try:
                before = os.fstat(file.fileno())
                data = file.read(limit)
                after = os.fstat(file.fileno())
                if limit < 0 and not _still(file, data, before, after):
                    hint = "open it again: another program cut it off or wrote over it"
                    raise TranscriptChanged("changed while it was read", path=self.path, hint=hint)
            except OSError as error:
                raise StoreError(
                    f"cannot be read: {error.strerror or error}", path=self.path
                ) from error
        if limit < 0:
            self.pin = FilePin.of(before, after, len(data))
        return data

    @cached_property
    def head(self) -> list[dict[str, Any]]:
        """Objects of the first lines, as far as they are JSON objects; the rest is not read."""
        return list(self.starts())

    def starts(self) -> Iterator[dict[str, Any]]:
        """The same, one by one."""
        passed = 0
        for limit in _HEAD_BYTES:
            start = self._read(limit)
            whole = len(start) < limit
            start = start.removeprefix(_BOM)
            if whole:
                start = start or self.data  # which says that there is nothing
            else:  # the first line however long it is
                start = start.rpartition(b"\n")[0]
                if not start and limit == _HEAD_BYTES[-1]:
                    start = self.data.split(b"\n", 1)[0]
            lines = start.split(b"\n", _HEAD_LINES)[passed:_HEAD_LINES] if start else []
            yield from _objects(lines)
            passed += len(lines)
            if whole or passed >= _HEAD_LINES:
                return

    @cached_property
    def document(self) -> Any:
        """The file as one JSON document; `None` if it is none."""
        start = self.data.lstrip()[:1]
        if start not in (b"{", b"["):
            return None
        values = _values(self.data)
        return values[0] if values is not None and len(values) == 1 else None

    def keyed(self, *keys: str) -> Mapping[str, Any]:
        """The document if it is an object with all these keys, else an empty one."""
        document = self.document
        has_keys = isinstance(document, dict) and all(key in document for key in keys)
        return document if has_keys else {}

    def listed(self) -> list[Any]:
        """The document if it is a list of objects, else an empty one."""
        document = self.document
        is_list = isinstance(document, list) and all(isinstance(item, dict) for item in document)
        return document if is_list else []

    def lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Line numbers from 1 and the objects of each line.

        A line with several objects gives all of them. A line that is no JSON is passed over with a
        warning; a writer that was killed leaves one at the end.
        """
        lines = self.data.split(b"\n")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            values = _values(line)
            if values is None:
                what = "unfinished last line" if number == len(lines) else "not JSON"
                self.warn(number, f"{what}, left out")
                continue
            if len(values) > 1:
                self.warn(number, f"holds {len(values)} values in one line, all read")
            for value in values:
                if isinstance(value, dict):
                    yield number, value
                else:
                    self.warn(number, "no JSON object, left out")

    def newest(self, count: int) -> list[dict[str, Any]]:
        """The objects of so many lines at the end, oldest first; what is no JSON object is passed over."""
        return list(_objects(self.data.rstrip().rsplit(b"\n", count)[-count:]))

    def warn(self, line: int, reason: str) -> None:
        """Record what was skipped or repaired."""
        self.warnings.append((line, reason))


def _still(file: FileIO, data: bytes, before: os.stat_result, after: os.stat_result) -> bool:
    """Whether what was read is still there: lines that were appended meanwhile change nothing of it."""
    if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
        return True
    file.seek(0)
    return len(data) >= before.st_size and file.read(len(data)) == data


def _objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON objects in lines; what is none is passed over."""
    values = (value for line in lines for value in _values(line) or ())
    return (value for value in values if isinstance(value, dict))


def _values(text: bytes) -> list[Any] | None:
    """The JSON values in a text, usually one; `None` if it is no JSON."""
    try:
        return [orjson.loads(text)]
    except orjson.JSONDecodeError:
        pass
    # What orjson refuses: several values in a row, lone surrogates, `NaN`.
    decoder, values, at = json.JSONDecoder(), [], 0
    line = text.decode("utf-8", "replace").strip()
    while at < len(line):
        try:
            value, at = decoder.raw_decode(line, at)
        except (ValueError, RecursionError):
            return None
        values.append(value)
        while at < len(line) and line[at].isspace():
            at += 1
    return values or None


# What a file is that no reader knows: the place and the value that a user can look at.

_LOOKED_AT = 1 << 20
"""Characters of a file that are parsed for the place where it stops to be JSON."""

_SHOWN = 40


def described(source: OpenedFile) -> str:
    """Why a file is not a transcript, in a few words to follow a colon."""
    try:
        text = source.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return f"byte {error.start:,} is not UTF-8"
    start = text[:_LOOKED_AT].lstrip()
    try:
        value, _ = json.JSONDecoder().raw_decode(start)
    except RecursionError:
        return "it is nested too deeply"
    except json.JSONDecodeError as error:
        skipped = text[: len(text) - len(text.lstrip())].count("\n")
        cut = len(start) < len(text.lstrip())
        if cut and (error.pos >= len(start) or error.msg.startswith("Unterminated")):
            return f"its first value is not at its end after {_LOOKED_AT:,} characters"
        next_characters = start[error.pos : error.pos + 20]
        here = f"at {next_characters!r}" if next_characters else "where it ends"
        return f"line {error.lineno + skipped}, column {error.colno} is not JSON, {here}"
    return f"it holds {_named(value)}"


def _named(value: Any) -> str:
    if isinstance(value, Mapping):
        if "role" in value:
            return f"a message whose role is {_short(value['role'])}"
        keys = ", ".join(_short(key) for key in list(value)[:5])
        return f"an object with the keys {keys}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list that begins with {_named(value[0])}" if value else "an empty list"
    return f"the {type(value).__name__} {_short(value)}" if value is not None else "null"


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"

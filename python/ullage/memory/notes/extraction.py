"""Writes notes from a conversation in the background: all reads first, then all writes, inside the folder only (MEM-4)."""

from __future__ import annotations

import json
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from ullage.compaction.cut import CompactionInput, read_source
from ullage.compaction.effects_runner import arun_flow, flow_work, run_flow
from ullage.counting.media_stripping import strip_media
from ullage.effects import Call, Cancelled, Effect, Flow, LetOthersRun
from ullage.effects.background import BackgroundRunner, Mode, Slots
from ullage.exceptions import UllageError
from ullage.facts import note_inputs
from ullage.facts.words import blocks_of, summary_text
from ullage.memory import wording
from ullage.memory.notes.folder import PROGRAMS, MemoryFolder, Note, heads_text, read_only
from ullage.memory.notes.note_recall import reply_of
from ullage.memory.session.template import find_key, item_key, safe_end
from ullage.messages import Item, role_of
from ullage.summarizers.lines import model_writer_of
from ullage.summarizers.protocol import SummaryRequest, WriterLike

RunCommand: TypeAlias = Callable[[Sequence[str]], str]
"""Runs a command, given as its words, and returns its output."""

# A model that asks for more reads the folder instead of the conversation.
MOST_READS: Final = 10
# Notes that outlive a session are few: more at once are a copy of it.
MOST_WRITES: Final = 8
MAX_OUTPUT_CHARS: Final = 8_000  # of one command or file that the model is shown

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Refused:
    """Something the model tried that it may not do."""

    tried: str
    reason: str


@dataclass(frozen=True, slots=True)
class Extraction:
    """What came of it."""

    written: tuple[str, ...] = ()  # paths of notes that are new or changed
    refused: tuple[Refused, ...] = ()  # what was tried and not done
    skipped: str = ""  # why nothing was asked; "" if the model was


@dataclass(slots=True)
class _Work:
    folder: MemoryFolder
    model: Any
    run: RunCommand | None
    messages: Sequence[Mapping[str, Any]]
    refused: list[Refused] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    seen: dict[str, Note] = field(default_factory=dict)


def extract(
    folder: MemoryFolder,
    items: Sequence[Item],
    *,
    model: WriterLike | None = None,
    run_command: RunCommand | None = None,
) -> Extraction:
    """Write notes from what was said since the last time.

    Args:
        folder: Where notes lie.
        items: The messages since then; the conversation is the only source.
        model: A summarizer, a function or a line such as `anthropic:claude-haiku-4-5`; `None`: only the
            user's lasting instructions are copied, verbatim.
        run_command: Runs a command that was checked (a list of words) and gives its output; `None`: no commands.

    Returns:
        What was written and refused; nothing is ever deleted. A model that fails or answers badly changes nothing.

    Raises:
        InvalidPolicy: `model` is none of these, or can't be called from here.
        MissingExtra: Its package is not installed.
    """
    return run_flow(extract_flow(folder, items, model, run_command))


async def aextract(
    folder: MemoryFolder,
    items: Sequence[Item],
    *,
    model: WriterLike | None = None,
    run_command: RunCommand | None = None,
) -> Extraction:
    """`extract`, without blocking the event loop."""
    return await arun_flow(extract_flow(folder, items, model, run_command))


def extract_flow(
    folder: MemoryFolder, items: Sequence[Item], model: WriterLike | None, run: RunCommand | None
) -> Flow[Extraction]:
    """`extract`, as a generator of effects: one call that reads, one that writes."""
    writer = model_writer_of(model)
    if writes_notes(items, folder):
        return Extraction(skipped="the agent wrote notes itself")
    if writer is None:
        return _copied(folder, items)
    bare = [item if "role" in item else item["message"] for item in strip_media(list(items))]
    messages = [{"role": message["role"], "content": message["content"]} for message in bare]
    work = _Work(folder, writer, run, messages)
    heads = heads_text(folder.notes()[:200]) or "(none)"
    reading = yield from _asked(
        work, wording("extract_read").format(heads=heads, commands=", ".join(PROGRAMS))
    )
    if reading is None:
        return Extraction(skipped="the model gave no answer that can be read")
    shown = yield from _looked(work, reading)
    writing = yield from _asked(work, wording("extract_write").format(shown=shown or "(nothing)"))
    for change in _list(writing or {}, "write", MOST_WRITES, work):
        _apply(work, change)
    return Extraction(tuple(work.written), tuple(work.refused))


def _asked(work: _Work, prompt: str) -> Generator[Effect, Any, dict[str, Any] | None]:
    request = SummaryRequest(
        messages=work.messages, prompt=prompt, max_output_tokens=4_000, source="memory_extract"
    )
    reply = yield from reply_of(work.model, request)
    if reply is None:
        return None
    yield LetOthersRun()  # work that was cancelled while the model was answering ends here
    reason = "is a tool; only notes may be read and written"
    work.refused += [Refused(name, reason) for name in reply.tool_calls]
    match = _OBJECT.search(reply.text)
    try:
        value = json.loads(match[0]) if match else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _list(answer: Mapping[str, Any], key: str, most: int, work: _Work) -> list[Any]:
    values = answer.get(key)
    if not isinstance(values, list):
        return []
    work.refused += [Refused(str(value)[:80], f"only {most} at once") for value in values[most:]]
    return values[:most]


def _looked(work: _Work, reading: Mapping[str, Any]) -> Generator[Effect, Any, str]:
    parts = []
    for path in _list(reading, "read", MOST_READS, work):
        try:
            work.seen[path] = work.folder.read(path)
            parts.append(f"## {path}\n{work.seen[path].body[:MAX_OUTPUT_CHARS]}")
        except (UllageError, TypeError) as exc:
            work.refused.append(Refused(str(path)[:200], str(exc)))
    for command in _list(reading, "run", MOST_READS, work):
        words = read_only(command, work.folder.sandbox) if isinstance(command, str) else None
        if words is None:
            reason = "is no command that only reads in the notes' folder"
            work.refused.append(Refused(str(command)[:200], reason))
        elif work.run is None:
            work.refused.append(Refused(str(command)[:200], "no commands can be run here"))
        else:
            try:
                output = yield Call(work.run, (words,))
            except Exception as exc:
                output = f"failed: {exc}"
            parts.append(f"## $ {command}\n{str(output)[:MAX_OUTPUT_CHARS]}")
    return "\n\n".join(parts)


def _apply(work: _Work, change: Any) -> None:
    if not isinstance(change, Mapping):
        work.refused.append(Refused(str(change)[:80], "must be an object"))
        return
    path = change.get("path")
    try:
        if "delete" in change:
            raise ValueError("notes are never deleted by an extraction")
        if path is None:
            fields = (_text(change, key) for key in ("name", "description", "type", "body"))
            path = work.folder.add(*fields).path
        elif path in work.seen:
            work.folder.update(work.seen[path], body=_text(change, "body"))
        else:
            raise ValueError("was not read first")
        work.written.append(path)
    except (UllageError, TypeError, ValueError, AttributeError) as exc:
        work.refused.append(Refused(str(change.get("path") or change.get("name"))[:200], str(exc)))


def _text(change: Mapping[str, Any], key: str) -> str:
    value = change.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key} must be text")
    if key == "body" and not value.strip():
        raise ValueError("body must not be empty: that would delete what the note says")
    return value


def _copied(folder: MemoryFolder, items: Sequence[Item]) -> Extraction:
    """The user's lasting instructions ("always …", "from now on …"), each once."""
    bodies = {_plain(folder.read(note.path).body) for note in folder.notes()}
    written = []
    for rule in note_inputs(items):
        text = rule.text
        if _plain(text) in bodies:
            continue
        bodies.add(_plain(text))
        title = " ".join(text.split())[:80]
        try:
            note = folder.add(title, "said by the user, to apply from then on", "feedback", text)
        except UllageError:
            continue  # a note of that title is there already
        written.append(note.path)
    return Extraction(written=tuple(written))


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def consolidate(folder: MemoryFolder) -> tuple[str, ...]:
    """Take out notes whose text another of the same type and place repeats; the newest stays.

    Runs under the folder's lock, so that two sessions never take out each other's last copy.

    Returns:
        Paths that were removed.
    """
    removed = []
    seen: set[tuple[str, str, str]] = set()
    with folder.lock():
        for head in folder.notes():
            place = head.path.rpartition("/")[0]
            key = (place, head.type.value, _plain(folder.read(head.path).body))
            if key in seen:
                folder.remove(head.path)
                removed.append(head.path)
            seen.add(key)
    return tuple(removed)


def writes_notes(items: Sequence[Item], folder: MemoryFolder) -> bool:
    """Whether the agent itself wrote into the folder: by the memory tool, or by a tool that names a file there."""
    root = f"{folder.path}{os.sep}"
    for item in items:
        for block in blocks_of(item):
            command = block.get("input")
            if block.get("type") != "tool_use" or not isinstance(command, Mapping):
                continue
            if block.get("name") == "memory" and command.get("command") not in (None, "view"):
                return True
            path = command.get("file_path") or command.get("path")
            reads = block.get("name") in ("Read", "Grep", "Glob", "LS")
            if isinstance(path, str) and path.startswith(root) and not reads:
                return True
    return False


# Extracts notes that outlive the session, in the background when a turn ends (MEM-4).

# A keeper lives as long as its process: what nobody read of older runs goes.
MOST_REPORTS = 50
MOST_DOUBLINGS = 5  # after failures the turns that are waited for double, up to 32 times


class NoteKeeper:
    """Writes lasting notes from the conversation, in the background, from what was said since the last time.

    Tell it of each response (`answered`); it begins when a turn has ended. One extraction at a time; a turn that ends while one
    is at work is read by the next.

    Args:
        folder: Where notes lie.
        model: A summarizer, a function or a line such as `anthropic:claude-haiku-4-5`; `None`: the user's lasting
            instructions are copied, nothing else.
        run_command: Runs a command that was checked; `None`: no commands.
        every_turns: Turns between extractions, at least 1.
        mode: `auto`: a task where an event loop runs, else a thread; `inline`: at once, in the caller.
        slots: Shared with other sessions and their `SessionMemory`; `None`: no common limit.
        stale_seconds: Work older than this is given up.

    Raises:
        InvalidPolicy: `model` is none of these.
        MissingExtra: Its package is not installed.

    Example:
        >>> import tempfile
        >>> keeper = NoteKeeper(MemoryFolder(tempfile.mkdtemp()), mode="inline")
        >>> talk = [{"role": "user", "content": "Always run the tests first."}, {"role": "assistant", "content": "I will."}]
        >>> keeper.answered(talk[-1], talk)
        True
        >>> len(keeper.reports[-1].written)
        1
    """

    def __init__(
        self,
        folder: MemoryFolder,
        *,
        model: WriterLike | None = None,
        run_command: Callable[[Sequence[str]], str] | None = None,
        every_turns: int = 1,
        mode: Mode = "auto",
        slots: Slots | None = None,
        stale_seconds: float = 300,
    ) -> None:
        self.folder = folder
        self.reports: deque[Extraction] = deque(maxlen=MOST_REPORTS)
        self._model = model_writer_of(model)
        self._run_command, self._every = run_command, max(every_turns, 1)
        self._background = BackgroundRunner(
            "ullage-memory", mode=mode, slots=slots, stale_seconds=stale_seconds
        )
        self._guard = threading.Lock()
        self._turns = self._failures = 0
        self._last = ""
        self._closed = False

    def __repr__(self) -> str:
        return f"NoteKeeper({str(self.folder.path)!r})"

    def begin(self, items: Sequence[Item]) -> None:
        """Take what was said so far as read, as after a resume."""
        source = read_source(items)
        with self._guard:
            self._last = item_key(source.stored[-1]) if source.stored else ""

    def answered(self, response: Item, items: Sequence[Item], *, source: str = "main") -> bool:
        """Take note of a response, and begin an extraction if the turn has ended with it; returns at once.

        Args:
            response: The model's answer.
            items: The conversation as the model sees it, the response at its end.
            source: Who asked; only `main` counts.

        Returns:
            Whether an extraction began, or waits for the one at work.
        """
        if self._closed or source != "main" or role_of(response) != "assistant":
            return False
        if any(block.get("type") == "tool_use" for block in blocks_of(response)):
            return False
        with self._guard:
            self._turns += 1
            if self._turns < self._every << min(self._failures, MOST_DOUBLINGS):
                return False
        flow = partial(self._flow, tuple(items))
        work = flow_work(flow, self._model, done=self._done)
        if self._background.submit(work) == "no_slot":
            return False
        with self._guard:
            self._turns = 0
        return True

    def _flow(self, items: Sequence[Item]) -> Flow[tuple[Extraction | None, str] | None]:
        """What one extraction came to, `None` if it failed, and the last message that it read; `None`: there was nothing new."""
        source = read_source(items)
        first, end = self._first(source), safe_end(source.context)
        if end <= first:
            return None
        messages = source.bare(first, end, plain=True)
        outcome = yield from extract_flow(self.folder, messages, self._model, self._run_command)
        failed = outcome.skipped.startswith("the model gave no answer")
        return None if failed else outcome, item_key(source.stored[end - 1])

    def _first(self, source: CompactionInput) -> int:
        """The position of the first unread message; after a compaction that removed it, the one after its summary."""
        with self._guard:
            last = self._last
        place = find_key(source.stored, last) if last else None
        if place is not None:
            return place + 1
        summaries = [at for at, item in enumerate(source.context) if summary_text(item)]
        return summaries[-1] + 1 if summaries else 0

    def _done(self, result: Any) -> None:
        """Only what was read well moves the place where the next begins."""
        if result is None or isinstance(result, Cancelled):
            return
        extraction, last = result if isinstance(result, tuple) else (None, "")
        with self._guard:
            if extraction is None:
                self._failures += 1
                return
            self._failures, self._last = 0, last
            self.reports.append(extraction)

    def busy_seconds(self) -> float | None:
        """For how long an extraction has been at work; `None`: none is."""
        return self._background.busy_seconds()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for what runs or waits; false if that took longer. In an event loop use `settled`."""
        return self._background.wait(seconds)

    async def settled(self, seconds: float | None = None) -> bool:
        """`wait`, without blocking the event loop."""
        return await self._background.settled(seconds)

    def close(self) -> None:
        """Cancel, and begin no more."""
        self._closed = True
        self._background.cancel()

"""Extracts notes that outlive the session, in the background when a turn ends (MEM-4)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ullage.compaction.effects_runner import arun_flow, run_flow_on_thread
from ullage.compaction.input import CompactionInput, read_source
from ullage.effects import Cancelled, CancelToken, Effect, Flow
from ullage.effects.background import BackgroundRunner, BackgroundWork, Mode, Slots
from ullage.facts.reading import blocks_of
from ullage.facts.whose_words import summary_text
from ullage.memory.notes.extraction import Extraction, extract_flow
from ullage.memory.notes.folder import MemoryFolder
from ullage.memory.session.ids import find_key, item_key, safe_end
from ullage.messages import Item, role_of
from ullage.summarizers.named import model_writer_of
from ullage.summarizers.protocol import WriterLike

__all__ = ["NoteKeeper"]


MOST_REPORTS = 50
MOST_DOUBLINGS = 5
"""After failures the turns that are waited for double, up to 32 times."""

_NO_ANSWER = "the model gave no answer"


@dataclass(frozen=True, slots=True)
class _Read:
    """What one extraction came to, and the last message that it read; `extraction` is `None` if it failed."""

    extraction: Extraction | None
    last: str


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
        if self._closed or source != "main" or not _ends_turn(response):
            return False
        with self._guard:
            self._turns += 1
            if self._turns < self._every << min(self._failures, MOST_DOUBLINGS):
                return False
        flow = partial(self._flow, tuple(items))
        work = BackgroundWork(
            lambda cancel: run_flow_on_thread(flow(cancel), self._model, cancel=cancel),
            lambda cancel: arun_flow(flow(cancel), cancel=cancel),
            done=self._done,
        )
        if self._background.submit(work) == "no_slot":
            return False
        with self._guard:
            self._turns = 0
        return True

    def _flow(self, items: Sequence[Item], cancel: CancelToken) -> Flow[_Read | None]:
        source = read_source(items)
        first, end = self._first(source), safe_end(source.context)
        if end <= first:
            return None
        flow = extract_flow(
            self.folder,
            source.bare(first, end, plain=True),
            model=self._model,
            run_command=self._run_command,
        )
        found = yield from _watched(flow, cancel)
        failed = found.skipped.startswith(_NO_ANSWER)
        return _Read(None if failed else found, item_key(source.stored[end - 1]))

    def _first(self, source: CompactionInput) -> int:
        """The position of the first unread message; after a compaction that removed it, the one after its summary."""
        with self._guard:
            last = self._last
        found = find_key(source.stored, last) if last else None
        if found is not None:
            return found + 1
        summaries = [at for at, item in enumerate(source.context) if summary_text(item)]
        return summaries[-1] + 1 if summaries else 0

    def _done(self, result: Any) -> None:
        """Only what was read well moves the place where the next begins."""
        if result is None or isinstance(result, Cancelled):
            return
        read = result if isinstance(result, _Read) else _Read(None, "")
        with self._guard:
            if read.extraction is None:
                self._failures += 1
                return
            self._failures, self._last = 0, read.last
            self.reports.append(read.extraction)

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


def _ends_turn(response: Item) -> bool:
    calls = (block.get("type") == "tool_use" for block in blocks_of(response))
    return role_of(response) == "assistant" and not any(calls)


def _watched(flow: Flow[Extraction], cancel: CancelToken) -> Flow[Extraction]:
    """The flow, also stopped after a response: if it was cancelled while the model was working, it writes nothing."""
    step: Callable[[], Effect] = partial(next, flow)
    while True:
        try:
            effect = step()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        step = yield from _answer(flow, effect, cancel)


def _answer(
    flow: Flow[Extraction], effect: Effect, cancel: CancelToken
) -> Generator[Effect, Any, Callable[[], Effect]]:
    try:
        result = yield effect
    except Cancelled:
        flow.close()
        raise
    except Exception as exc:
        return partial(flow.throw, exc)
    if cancel.is_set():
        flow.close()
        raise Cancelled("cancelled")
    return partial(flow.send, result)

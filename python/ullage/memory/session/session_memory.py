"""`SessionMemory`: notes of one session, kept up to date while the agent works, ready when room is needed."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ullage.compaction.cut import read_source
from ullage.compaction.effects_runner import arun_flow, flow_work, run_flow
from ullage.compaction.job import Remembered
from ullage.counting.calibration import Weights, measure_of
from ullage.effects import Call, Flow, Wait
from ullage.effects.background import BackgroundRunner, Mode, Slots
from ullage.exceptions import StoreError
from ullage.facts import Facts
from ullage.facts.words import blocks_of
from ullage.memory.session.notes_folder import Lock, NotesFolder, NotesPlace
from ullage.memory.session.template import covered_end, cut_notes, is_blank, parse_notes, safe_end
from ullage.memory.session.update import (
    FactsFeed,
    Loaded,
    UpdateJob,
    UpdateOutcome,
    UpdateReport,
    foreign,
    load,
    shown_path,
    update_flow,
)
from ullage.messages import Item, role_of
from ullage.observe.events import (
    Event,
    Listener,
    SessionMemoryFinished,
    SessionMemoryStarted,
    tell,
)
from ullage.policy import SessionMemoryPolicy
from ullage.recall.store import file_stem
from ullage.summarizers.lines import model_writer_of
from ullage.summarizers.protocol import WriterLike

# Decides when the notes are updated (SM-2), from the growth of the conversation, without side effects.

MOST_DOUBLINGS = 5  # after failures the required growth doubles, up to 32 times

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")


@dataclass(frozen=True, slots=True)
class Progress:
    """What has happened since the last update began."""

    begun: bool = False  # there has been an update
    tokens: int = 0  # size of the conversation at the last update, or after the newest compaction
    tool_calls: int = 0  # calls since
    last_called: bool = False  # the newest response called a tool
    failures: int = 0  # updates in a row that failed

    def answered(self, response: Mapping[str, Any]) -> Progress:
        """After a response of the model; other messages change nothing."""
        if role_of(response) != "assistant":
            return self
        calls = sum(block.get("type") in _CALLS for block in blocks_of(response))
        return replace(self, tool_calls=self.tool_calls + calls, last_called=calls > 0)

    def updating(self, tokens: int) -> Progress:
        """After an update has begun at this size."""
        return replace(self, begun=True, tokens=tokens, tool_calls=0)

    def ended(self, *, well: bool) -> Progress:
        """After an update."""
        return replace(self, failures=0 if well else self.failures + 1)


class Due(NamedTuple):
    """Whether an update is due, and why or why not."""

    update: bool
    why: str


def update_due(
    policy: SessionMemoryPolicy, progress: Progress, tokens: int, *, source: str = "main"
) -> Due:
    """Whether the notes should be updated now, at this size; `source` is who asked for the response: only `main` counts."""
    if source != "main":
        return Due(False, f"source {source}")
    if not progress.begun:
        if tokens < policy.start_tokens:
            return Due(False, f"{tokens:,} of {policy.start_tokens:,} tokens")
        return Due(True, "first")
    wanted = policy.growth_tokens << min(progress.failures, MOST_DOUBLINGS)
    grown = tokens - progress.tokens
    if grown < wanted:
        return Due(False, f"grown by {grown:,} of {wanted:,} tokens")
    if progress.tool_calls >= policy.tool_calls:
        return Due(True, f"grown by {grown:,} tokens, {progress.tool_calls} calls")
    if not progress.last_called:
        return Due(True, f"grown by {grown:,} tokens, the turn has ended")
    return Due(False, f"{progress.tool_calls} of {policy.tool_calls} calls")


# The notes for a compaction: wait for an update, read, check, cut (KEEP-1, KEEP-5). No model is asked.

# An update ends in another thread, and what waits may be an event loop's: there is nothing to be woken by.
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesState:
    """The notes of a session as they are on the disk."""

    path: str  # of the notes
    exists: bool  # whether there are any
    blank: bool  # they are still empty
    text: str = field(repr=False)
    tokens: int  # of all sections
    # Title, tokens, and lines that code wrote, for each section.
    sections: tuple[tuple[str, int, int], ...] = field(repr=False)
    session_id: str  # whose notes; empty: unknown
    known: bool  # there is a record of how far they reach
    covered: str  # name of the last message that they hold; empty: unknown
    # Messages of the conversation up to it; `None`: it is not in this conversation.
    absorbed: int | None
    messages: int  # of the conversation
    absorbable: int  # messages that an update could absorb now


FOLDER = "session-memory"

MOST_REPORTS = 50


class SessionMemory:
    """Keeps the notes of one session up to date while its agent works; a compaction then needs no model.

    Call `answered` with each response and `compacted` after each compaction, and pass it to `compact(memory=…)` or to
    a `ContextManager`. It works in the background: on a thread, or as a task where an event loop runs.

    Args:
        folder: Folder of `summary.md`, used for nothing else, created with the first notes; or another place, such as
            `ullage.stores.StoredNotes`, which workers share.
        session_id: The session of the notes; those of another session are neither used nor changed. Empty: not compared.
        policy: Thresholds; with `enabled=False` nothing is updated automatically. `None`: the defaults, enabled.
        summarizer: The model that edits the notes, its name, or a function, see `compact`; `None`, or one without a
            model: code copies facts.
        config: Further folders that may hold `template.md` and `prompt.md`, after `config` in the notes' own folder.
        weights: For the estimate of lengths; `None`: rough.
        redact: Applied to all text that is sent to the model; `None`: nothing.
        listeners: Called with each update.
        mode: `auto` (a task where an event loop runs, else a thread), `thread` or `inline` (at once, in the caller: for tests and
            replays).
        slots: Shared by the sessions of one host; `None`: no common limit.

    Example:
        >>> import tempfile
        >>> memory = SessionMemory(tempfile.mkdtemp(), mode="inline")
        >>> memory.update([{"role": "user", "content": "Fix the login page"}]).outcome.value
        'updated'
        >>> "Fix the login page" in memory.notes()
        True
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | NotesPlace,
        *,
        session_id: str = "",
        policy: SessionMemoryPolicy | None = None,
        summarizer: WriterLike | None = None,
        config: Iterable[str | os.PathLike[str]] = (),
        weights: Weights | None = None,
        redact: Callable[[str], str] | None = None,
        listeners: Iterable[Listener] = (),
        mode: Mode = "auto",
        slots: Slots | None = None,
    ) -> None:
        policy = policy or SessionMemoryPolicy(enabled=True)
        writer = model_writer_of(summarizer)
        # What all updates have in common. A summarizer without a model cannot edit: code does.
        self._set = UpdateJob(
            items=(),
            folder=NotesFolder(folder) if isinstance(folder, str | os.PathLike) else folder,
            session_id=session_id,
            policy=policy,
            summarizer=None if getattr(writer, "local", False) is True else writer,
            config=tuple(NotesFolder(folder_path) for folder_path in config),
            weights=weights,
            redact=redact,
        )
        self._heard = tuple(listeners)
        self._background = BackgroundRunner(
            "ullage-memory", mode=mode, slots=slots, stale_seconds=policy.stale_seconds
        )
        self._progress = Progress()
        self._feed = FactsFeed()
        self._guard = threading.Lock()
        self._closed = False
        self.reports: deque[UpdateReport] = deque(maxlen=MOST_REPORTS)

    @classmethod
    def for_session(
        cls,
        root: str | os.PathLike[str],
        session_id: str,
        *,
        policy: SessionMemoryPolicy | None = None,
        summarizer: WriterLike | None = None,
        config: Iterable[str | os.PathLike[str]] | None = None,
        weights: Weights | None = None,
        redact: Callable[[str], str] | None = None,
        listeners: Iterable[Listener] = (),
        mode: Mode = "auto",
        slots: Slots | None = None,
    ) -> SessionMemory:
        """The notes of a session in a project's folder: `root/SESSION/session-memory`.

        Template and prompt for all sessions may be in `root/session-memory/config`.

        Args:
            root: The project's folder.
            session_id: Any string; no id can name a place outside of the root.
            policy: This and the others: see `SessionMemory`.
            summarizer: The model that edits the notes; `None`: code copies facts.
            config: Further folders for template and prompt; `None`: the one above.
            weights: For the estimate of lengths; `None`: rough.
            redact: Applied to all text that is sent to the model; `None`: nothing.
            listeners: Called with each update.
            mode: `auto`, `thread` or `inline`.
            slots: Shared by the sessions of one host; `None`: no common limit.
        """
        home = Path(root) / file_stem(session_id)
        folder = NotesFolder(home / FOLDER, guarded=(home,))
        return cls(
            folder,
            session_id=session_id,
            policy=policy,
            summarizer=summarizer,
            config=(Path(root) / FOLDER / "config",) if config is None else config,
            weights=weights,
            redact=redact,
            listeners=listeners,
            mode=mode,
            slots=slots,
        )

    @property
    def path(self) -> Path:
        """The file of the notes; in a store, what they are called."""
        return self._set.folder.notes_path

    @property
    def policy(self) -> SessionMemoryPolicy:
        """The thresholds."""
        return self._set.policy

    def __repr__(self) -> str:
        return f"SessionMemory({str(self.path)!r})"

    def answered(
        self,
        response: Item,
        items: Sequence[Item],
        *,
        tokens: int,
        source: str = "main",
        history: Sequence[Item] | None = None,
    ) -> Due:
        """Record a response, and start an update if one is due; returns immediately.

        Args:
            response: The model's response.
            items: The conversation as the model sees it, the response at its end. Copied if an update begins.
            tokens: Its size.
            source: The part of the host that asked; only `main` starts updates.
            history: The whole conversation, append-only, with the same end as `items`; facts are then read incrementally
                and not again. `None`: `items`.

        Returns:
            Whether an update is due, and why or why not.
        """
        policy = self._set.policy
        if self._closed or not policy.enabled:
            return Due(False, "closed" if self._closed else "off")
        with self._guard:
            if source == "main":
                self._progress = self._progress.answered(response)
            due = update_due(policy, self._progress, tokens, source=source)
        if due.update:
            started = SessionMemoryStarted(reason=due.why, tokens=tokens)
            if self._begin(tuple(items), history, started) != "no_slot":
                with self._guard:
                    self._progress = self._progress.updating(tokens)
        return due

    def compacted(self, tokens: int) -> None:
        """Record a compaction: growth is counted from the new size.

        How far the notes reach is not adjusted: the message is found by its name, or it was removed with the old part.
        """
        with self._guard:
            self._progress = replace(self._progress, tokens=tokens)

    def dump(self) -> dict[str, Any]:
        """What has happened since the last update, as plain JSON; a manager saves it with the conversation."""
        with self._guard:
            return asdict(self._progress)

    def load(self, stored: Mapping[str, Any]) -> None:
        """Continue from the state of `dump`: the next update comes when it would have come.

        Raises:
            TypeError: `dump` gave something else.
        """
        with self._guard:
            self._progress = Progress(**stored)

    def _begin(
        self, items: tuple[Item, ...], history: Sequence[Item] | None, started: Event
    ) -> str:
        locks: list[Lock] = []
        whole = items if history is None else tuple(history)

        def facts(end: int) -> Facts:
            """Of all that was said before a position of what is shown; both have the same end."""
            return self._feed.up_to(whole, len(whole) - len(items) + end)

        def flow() -> Flow[UpdateReport]:
            tell(self._heard, started)
            return update_flow(replace(self._job(items), facts=facts, locked=locks.append))

        def given_up() -> None:
            for lock in locks:
                lock.release()
            self._done(UpdateReport(outcome=UpdateOutcome.DROPPED, reason="given up as stuck"))

        work = flow_work(flow, self._set.summarizer, done=self._done, given_up=given_up)
        return self._background.submit(work)

    def _job(self, items: Sequence[Item]) -> UpdateJob:
        return replace(self._set, items=items, wanted=lambda: not self._closed)

    def _done(self, result: Any) -> None:
        if result is None:
            result = UpdateReport(outcome=UpdateOutcome.CANCELLED, reason="cancelled")
        if not isinstance(result, UpdateReport):
            why = f"{type(result).__name__}: {result}"[:300]
            result = UpdateReport(outcome=UpdateOutcome.FAILED, reason=why)
        with self._guard:
            self.reports.append(result)
            if result.outcome not in (UpdateOutcome.CANCELLED, UpdateOutcome.DROPPED):
                well = result.outcome is not UpdateOutcome.FAILED
                self._progress = self._progress.ended(well=well)
        finished = SessionMemoryFinished(
            outcome=result.outcome.value,
            reason=result.reason,
            updater=result.updater,
            absorbed=result.absorbed,
            edits=result.edits,
            calls=result.calls,
            refused=tuple(refusal.line() for refusal in result.refusals),
            over=result.over,
        )
        tell(self._heard, finished)

    def listen(self, listeners: Iterable[Listener]) -> None:
        """Call these, too, with each update; a manager passes its own. One that is called already is not called twice."""
        self._heard += tuple(listener for listener in listeners if listener not in self._heard)

    def update(self, items: Sequence[Item]) -> UpdateReport:
        """Update the notes now from the conversation as the model sees it, whatever the thresholds."""
        report: UpdateReport = run_flow(update_flow(self._job(items)))
        self._done(report)
        return report

    async def aupdate(self, items: Sequence[Item]) -> UpdateReport:
        """`update`, without blocking the event loop."""
        report: UpdateReport = await arun_flow(update_flow(self._job(items)))
        self._done(report)
        return report

    def notes(self) -> str:
        """The notes; empty if there are none.

        Raises:
            StoreError: The file is not a text file of reasonable size.
        """
        return self._set.folder.read().text

    def state(self, items: Sequence[Item]) -> NotesState:
        """Compare the notes with a conversation.

        Raises:
            StoreError: See `notes`.
        """
        folder, measure = self._set.folder, measure_of(self._set.weights)
        loaded = load(folder, self._set.config)
        source = read_source(items)
        generated = loaded.record.generated
        rows = [
            (s.title, measure(s.text()), len(generated.get(s.title, ())))
            for s in parse_notes(loaded.notes.text)
        ]
        return NotesState(
            path=str(folder.notes_path),
            exists=loaded.notes.exists,
            blank=is_blank(loaded.notes.text, loaded.template),
            text=loaded.notes.text,
            tokens=sum(size for _, size, _ in rows),
            sections=tuple(rows),
            session_id=loaded.record.session_id,
            known=loaded.record.exists,
            covered=loaded.record.covered,
            absorbed=covered_end(source.stored, loaded.record.covered),
            messages=len(source.stored),
            absorbable=safe_end(source.context),
        )

    def recall_flow(
        self, items: Sequence[Item], measure: Callable[[str], int] | None = None
    ) -> Flow[Remembered | str]:
        """The notes for a compaction; see `ullage.compaction.flow.Memory`.

        Args:
            items: The conversation as the model sees it.
            measure: Tokens of a text; `None`: by the weights of this object.
        """
        policy, folder = self.policy, self._set.folder
        waited = 0.0
        # Not for a stuck update: the file on the disk is complete at any time.
        while waited < policy.wait_seconds:
            busy: float | None = yield Call(self.busy_seconds)
            if busy is None or busy > policy.stale_seconds:
                break
            yield Wait(POLL_SECONDS)
            waited += POLL_SECONDS
        try:
            loaded: Loaded = yield Call(load, (folder, self._set.config))
        except StoreError:
            return "unreadable"
        if not loaded.notes.exists:
            return "no_memory"
        if is_blank(loaded.notes.text, loaded.template):
            return "empty_template"
        if foreign(loaded.record, self._set.session_id):
            return "another_session"
        start = covered_end(items, loaded.record.covered)
        if start is None and loaded.record.exists:
            return "unknown_pointer"
        measured = measure or measure_of(self._set.weights)

        def text(tokens: int | None) -> str:
            most = policy.total_max_tokens
            return cut_notes(
                loaded.notes.text,
                section_tokens=policy.section_max_tokens,
                total_tokens=most if tokens is None else min(tokens, most),
                measure=measured,
                where=shown_path(folder),
            )

        # Notes without a record, as after a resume elsewhere: how far they reach is unknown, so only the newest part is kept.
        return Remembered(len(items) if start is None else start, text)

    def busy_seconds(self) -> float | None:
        """Seconds for which an update has been running, here or in another process; `None`: none worth waiting for."""
        if self._background.waits_for_caller():
            return None
        here = self._background.busy_seconds()
        return self._set.folder.busy_seconds() if here is None else here

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for updates that run or wait; false if that took longer. In an event loop use `settled`."""
        return self._background.wait(seconds)

    async def settled(self, seconds: float | None = None) -> bool:
        """`wait`, without blocking the event loop."""
        return await self._background.settled(seconds)

    def cancel(self) -> None:
        """Stop a running update; the notes are unchanged."""
        self._background.cancel()

    def close(self) -> None:
        """Cancel, and start no more updates. The notes can still be read and used."""
        self._closed = True
        self.cancel()

"""Keeps a conversation: its state as one value, in a log, all or nothing, rewound to an earlier message."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableSequence,
    Sequence,
)
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self

from ullage.exceptions import InvalidPolicy, LogConflict, ManagerBusy, UllageError
from ullage.facts.words import blocks_of
from ullage.levels.view import View
from ullage.manager import prepare
from ullage.manager.known import Host
from ullage.manager.machine import Machine, new_uuid, opened_log
from ullage.manager.request_writer import RequestWriter
from ullage.messages import Item, message_of

if TYPE_CHECKING:
    from ullage.manager.journal import Journal, ReadJournal, Rested, Since
    from ullage.manager.options import Log
    from ullage.manager.values import Request
    from ullage.manager.whole_list import Followed
    from ullage.transcript.log import TranscriptLog


# One call at a time prepares a conversation's request; a second one is refused by name.


class ExclusiveGuard:
    """Around each call that prepares a request or recovers from a refusal; a second one is refused by name, never waits.

    `with guard(name)`, or `begin` and `end` around what happens in each turn.

    A call that is suspended at an `await` is still at work: another one in between would mix the reports of both, and
    number requests in another order than the host sees them.
    """

    __slots__ = ("_lock", "_running")

    def __init__(self) -> None:
        self._lock = threading.Lock()  # two threads may ask in the same moment
        self._running = ""

    def __call__(self, name: str) -> Self:
        """`begin`, for `with`."""
        self.begin(name)
        return self

    def begin(self, name: str) -> None:
        """A call of this name begins; `ManagerBusy` if another one is at work."""
        if not self._lock.acquire(False):
            raise ManagerBusy(name, self._running)
        self._running = name

    def end(self) -> None:
        """It has ended."""
        self._running = ""
        self._lock.release()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        self.end()


# Going back in a conversation: the newest messages go, as if they had never come.


def rewind(machine: Machine, count: int) -> None:
    """Go back to the first `count` messages, an `InvalidPolicy` if there are fewer; corrections, learned limits and counters stay.

    What levels made of messages before stays where it stands before one that stays; where it may stand for
    messages that go, the messages that stay come back whole.
    """
    history = machine.history
    if type(count) is not int or not 0 <= count <= len(history):
        raise InvalidPolicy(
            "count", count, f"must be from 0 to {len(history)}, the messages that were added"
        )
    if count == len(history):
        return
    machine.settle()
    machine.touch()
    removed = set(_tool_ids(history[count:])) - set(_tool_ids(history[:count]))
    view = machine.view
    places = (place if isinstance(place, int) else -1 for place in view.sources)
    index = next((at for at, place in enumerate(places) if place >= count), len(view))
    written = index > 0 and isinstance(view.sources[index - 1], str)
    if not written:
        view.cut(index)
    if written or (count and not index):
        machine.view = _whole(view, history[:count])
    del history[count:], machine.prints[count:]
    machine.renumber()
    _forget(machine.view, count, removed)
    context = machine.own_context()
    for level in machine.levels:
        if level.rewind is not None:
            level.rewind(context, count)
    machine.figure = None


def _whole(view: View, history: Sequence[Item]) -> View:
    """All that stays, with the decisions about it; what was sent is another list."""
    whole = View(view.weights)
    whole.decisions, whole.added_texts, whole.whole = view.decisions, view.added_texts, view.whole
    whole.emptied, whole.unthought = view.emptied, view.unthought
    whole.uuids, whole.times = view.uuids, view.times
    for place, item in enumerate(history):
        whole.add(item, place)
    whole.rewrites, whole.changed_from = view.rewrites + 1, 0
    return whole


def _tool_ids(items: Iterable[Item]) -> Iterator[str]:
    for item in items:
        for block in blocks_of(item):
            name = block.get("id") if block.get("type") == "tool_use" else block.get("tool_use_id")
            if isinstance(name, str):
                yield name


def _forget(view: View, count: int, removed: set[str]) -> None:
    """A message that comes in the place of one that went has nothing of it."""
    view.decisions = {
        name: decision for name, decision in view.decisions.items() if name not in removed
    }
    view.added_texts = {at: texts for at, texts in view.added_texts.items() if at < count}
    view.whole = {name: None for name in view.whole if name not in removed}
    view.emptied = view.emptied - removed
    view.unthought = {at for at in view.unthought if at < count}
    view.uuids = {at: name for at, name in view.uuids.items() if at < count}
    view.times = {at: came for at, came in view.times.items() if at < count}
    view.plain = {at for at in view.plain if at < count}


# The history of a conversation that a log holds: what the request does not show any more is read from there when asked for.


class History(MutableSequence[Item]):
    """All that was added, in order; equal to a list of it. `read` gives a message that was let go, as it was added; `None`: it is nowhere."""

    def __init__(self, items: Iterable[Item], read: Callable[[int], Item | None]) -> None:
        self._items: list[Item | None] = list(items)
        self._read = read

    def let_go(self, stay: Collection[int]) -> None:
        """Hold in memory only what stays, and what cannot be had back exactly as it was added."""
        for at, item in enumerate(self._items):
            if item is not None and at not in stay and self._read(at) == item:
                self._items[at] = None

    def held(self, at: int) -> bool:
        """Whether a message is in memory."""
        return self._items[at] is not None

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self._items)))]
        item = self._items[at]
        if item is not None:
            return item
        read = self._read(at % len(self._items))
        if read is None:
            raise LookupError(f"message {at} was let go and cannot be read back")
        return read

    def __setitem__(self, at: Any, item: Any) -> None:
        self._items[at] = item

    def __delitem__(self, at: int | slice) -> None:
        del self._items[at]

    def insert(self, index: int, value: Item) -> None:
        """Put a message in; only at the end is it what a log tells."""
        self._items.insert(index, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str) or len(other) != len(self):
            return NotImplemented
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        held = sum(item is not None for item in self._items)
        return f"History({len(self)} messages, {held} in memory)"


# What a conversation need not hold in memory any more; it goes on as it would have.


MOST_TOLD = 256
"""Reports, and records of requests, that are remembered at least; at twice as many the oldest go: what stays is moved once in so many requests."""

_FEW = 64
"""Messages that may have left the view before it is worth a walk, which costs the length of the view."""


def trim_account(machine: Machine) -> tuple[int, int]:
    """Let the oldest reports and records of requests go, if they are many; returns how many went."""
    reports, records = len(machine.reports), machine.record_count
    more = reports - MOST_TOLD
    if more >= MOST_TOLD:
        newest = max(report.request for report in machine.reports[:more])
        machine.let_go = machine.let_go[0] + more, max(newest, machine.let_go[1])
        del machine.reports[:more]
    if records >= 2 * MOST_TOLD:
        machine.trim_records(MOST_TOLD)
    return reports - len(machine.reports), records - machine.record_count


# Where a conversation is kept: each call is in the log when it returns, or has changed nothing.


class Keeper:
    """Keeps one conversation: all of its state as one value, its log if it has one, and the way back where a call fails.

    Attributes:
        sent: The newest request, which a model that summarises repeats to read the provider's cache; `None`: there was none, or another
            process made it.
        lock: Held while something is added and written: one step, also between threads.
    """

    def __init__(
        self,
        machine: Machine,
        host: Host,
        writer: RequestWriter,
        followed: Followed,
        *,
        clock: Callable[[], int | None],
        record: bool,
    ) -> None:
        self.machine, self.host, self.writer, self.followed = machine, host, writer, followed
        self.clock, self._record, self._ids = clock, record, new_uuid
        self._journal: Journal | None = None
        self.sent: Request | None = None
        self._recorded: Request | None = None  # the newest request that is in the log
        self._derived = False  # what a request at rest changes follows from what was written before
        self._left = 0  # messages that had left the view when memory was last looked through
        self.lock: AbstractContextManager[object] = nullcontext()

    # ---- the state ---------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that the next request depends on, but for the messages, as plain JSON: saved, written and restored as one."""
        from ullage.manager.journal import state_of

        return {**state_of(self.machine), **self._others()}

    def saved(self, *, history: bool) -> dict[str, Any]:
        """The state with the account of what happened, for `load`; `history`: with the messages."""
        from ullage.manager.journal import dump

        self.name(range(len(self.machine.history)))
        return {**dump(self.machine, history=history), **self._others()}

    def load(self, saved: Mapping[str, Any], history: Sequence[Item] | None) -> None:
        """Go on from a state that was saved, which may be an `InvalidPolicy`; what it does not speak of stays as it is."""
        from ullage.manager.journal import load, state_read

        with state_read():
            load(self.machine, saved, history)
            self._load_others(saved)

    def put(self, state: Mapping[str, Any], history: Sequence[Item]) -> None:
        """Be in a state of `state`, with the messages that it speaks of. Raises as `load`."""
        from ullage.manager.journal import set_state, state_read

        with state_read():
            set_state(self.machine, state, history)
            self._load_others(state)

    def _others(self) -> dict[str, Any]:
        """The state of what is not in the machine: the last step before a request leaves, the notes, the framework's list."""
        state: dict[str, Any] = {"outgoing": self.writer.dump(self.machine)}
        notes = getattr(self.host.memory, "dump", None)
        if callable(notes):
            state["memory"] = notes()
        return {**state, "followed": self.followed.dump()}

    def _load_others(self, stored: Mapping[str, Any]) -> None:
        self.writer.load(self.machine, stored.get("outgoing") or {})
        load_notes = getattr(self.host.memory, "load", None)
        if callable(load_notes) and isinstance(stored.get("memory"), Mapping):
            load_notes(deepcopy(stored["memory"]))
        self.followed.load(stored.get("followed") or {})

    # ---- a log -------------------------------------------------------------------------------

    @property
    def log(self) -> TranscriptLog | None:
        """Where it is kept; `None`: nowhere."""
        return None if self._journal is None else self._journal.log

    def begin(self, log: Log) -> None:
        """Begin a log with this conversation; a `LogConflict` if it holds one already."""
        from ullage.manager.journal import ReadJournal

        with opened_log(log, self.clock, create=True) as (opened, owned):
            # A log of another program counts too: what it holds would be taken for this conversation's beginning.
            if opened.leaf is not None or ReadJournal(opened).state:
                raise LogConflict(
                    f"{opened.name}: the log holds a conversation already",
                    hint="ContextManager.resume(path) continues it",
                )
            self._begin(opened, owned=owned)

    def adopt(self, log: TranscriptLog, *, owned: bool) -> None:
        """Go on from a transcript that no manager wrote, with what a resume shows as the history."""
        for entry in log.resume().entries:
            self.machine.add(entry)
        self._begin(log, owned=owned, base=True)

    def resume(self, log: TranscriptLog, read: ReadJournal, *, owned: bool) -> None:
        """Go on from a log that a manager wrote, as it was read."""
        from ullage.manager.journal import load_account, ms_of, state_read

        machine, journal = self.machine, self._new_journal(log, owned=owned)
        self.put(read.state, [added.item for added in read.history])
        machine.view.uuids = {
            at: added.uuid
            for at, added in enumerate(read.history)
            if added.uuid and not isinstance(added.item.get("uuid"), str)
        }
        with state_read():
            load_account(machine, read.account)
        trim_account(machine)
        places = (added.offset for added in (*read.history, *read.later))
        journal.goes_on(machine, read.state, places)
        # Plain messages and requests at rest have no line of the state after them: they are added and made as they were.
        later = ((one.item, ms_of(one.timestamp), one.uuid, one.answer) for one in read.later)
        self._again(later, read.rests)
        journal.trimmed(*trim_account(machine))
        self._use(journal)
        self.commit("resume", journal.without(read.unfinished, "an unfinished write"))

    def _begin(self, log: TranscriptLog, *, owned: bool, base: bool = False) -> None:
        journal = self._new_journal(log, owned=owned)
        journal.begin(self.machine, self._others(), base=base)
        self._use(journal)

    def _new_journal(self, log: TranscriptLog, *, owned: bool) -> Journal:
        from ullage.manager.journal import Journal
        from ullage.summarizers.extractive import model_asked

        model = model_asked(self.host.summarizer)
        return Journal(log, owned=owned, ids=self._ids, record=self._record, model=model)

    def _use(self, journal: Journal) -> None:
        self._journal, self.lock = journal, journal.log.one_writer
        self.host.is_logged(journal.log)

    def close(self) -> None:
        """Close the log, if it was opened here."""
        if self._journal is not None:
            self._journal.close()

    def entries(self, start: int) -> list[dict[str, Any]]:
        """See `ContextManager.entries`."""
        from ullage.transcript.log import iso_of

        history, view, entries = self.machine.history, self.machine.view, []
        places = range(len(history))[start:]
        self.name(places)
        for at in places:
            item = history[at]
            if message_of(item) is None:
                continue
            uuid = item.get("uuid")
            if not isinstance(uuid, str):
                uuid = view.uuids.setdefault(at, self._ids())
            came = {"timestamp": iso_of(view.times[at])} if at in view.times else {}
            envelope = item if "message" in item else {"type": item["role"], "message": item}
            entries.append({"uuid": uuid, **came, **envelope})
        return entries

    # ---- what need not be in memory ----------------------------------------------------------

    def lighten(self) -> None:
        """Let go of what left the view, after a request: messages that the log holds, names, times, what the repairer knows of them."""
        dropped = trim_account(self.machine)
        if self._journal is not None:
            self._journal.trimmed(*dropped)
        machine, view = self.machine, self.machine.view
        count = len(machine.history)
        left = count - len(view.messages)
        if abs(left - self._left) < _FEW:
            return
        self._left = left
        shown = {source for source in view.sources if isinstance(source, int)}
        inside = {*shown, *(int(key) for key in view.sources if str(key).isdecimal()), count - 1}
        # Also without a log: of thinking that no request shows any more, nothing need be held.
        self.writer.forget(machine, shown)
        view.bases = {key: base for key, base in view.bases.items() if key in shown}
        if self._journal is None:
            return
        if not isinstance(machine.history, History):
            # Read through the journal alone: nothing that the conversation holds refers back to it, so it goes with its last user.
            machine.history = History(machine.history, self._journal.item)
        history = machine.history
        history.let_go(inside)
        # A rewind shows again what was let go of before: what is shown keeps its names and times.
        inside.update(at for at in range(count) if history.held(at))
        view.uuids = {at: name for at, name in view.uuids.items() if at in inside}
        view.times = {at: came for at, came in view.times.items() if at in inside}

    def name(self, positions: Iterable[int]) -> None:
        """Have names and times of these messages of the history in memory again, which left it."""
        from ullage.manager.journal import ms_of

        view, history, journal = self.machine.view, self.machine.history, self._journal
        if journal is None or not isinstance(history, History):
            return
        for at in positions:
            added = None if history.held(at) else journal.message(at)
            if added is None:
                continue
            if not isinstance(added.item.get("uuid"), str):
                view.uuids.setdefault(at, added.uuid)
            came = None if "timestamp" in added.item else ms_of(added.timestamp)
            if came is not None:
                view.times.setdefault(at, came)

    # ---- all or nothing ----------------------------------------------------------------------

    def added(self, *, answer: bool = False) -> bool:
        """Write the message that was just added, if there is a log; false where that takes a `commit`. Raises as `Journal.added`."""
        return self._journal is None or self._journal.added(self.machine, answer=answer)

    def commit(self, what: str, more: Sequence[dict[str, Any]] = ()) -> None:
        """Write what has changed; if that fails, nothing has."""
        journal = self._journal
        if journal is None:
            return
        try:
            self._commit(journal, what, more)
        except BaseException:
            self._take_back(journal)
            raise

    def at_rest(self, count: int, tokens: int, now_ms: int | None) -> Request:
        """Make the next request, for which no level had anything to do at so many messages; where it cannot be written, it was not made."""
        machine, journal = self.machine, self._journal
        try:
            self.sent = request = prepare.at_rest(machine, self.writer, tokens, now_ms)
            # A repair may begin to bind thinking to requests.
            bare = self._derived and not (machine.provider.internal and request.repairs)
            if journal is not None and not (
                bare and journal.rested(machine, count, tokens, now_ms)
            ):
                self._commit(journal, "prepare")
            self._recorded = request
        except BaseException:
            if journal is not None:
                self._take_back(journal)
            raise
        if machine.record_count >= 2 * MOST_TOLD:
            self.lighten()
        return request

    def _commit(self, journal: Journal, what: str, more: Sequence[dict[str, Any]] = ()) -> None:
        machine, others = self.machine, self._others()
        request = self.sent if self.sent is not self._recorded else None
        journal.commit(machine, others, what, more, request)
        self._recorded = self.sent
        outside = "memory" in others or self.writer.binds
        self._derived = not (outside or machine.policy.collapse.enabled or journal.recorder)

    def _take_back(self, journal: Journal) -> None:
        """Be as the log says."""
        self.sent = self._recorded
        self.go_back(journal.state, len(journal.offsets), since=journal.since)

    @contextmanager
    def whole(self, what: str, *, careful: bool = True) -> Iterator[None]:
        """A call that is in the log when it ends, and that changes nothing if it is interrupted.

        What a call learned before one of Ullage's errors is kept, for example that a summarizer failed. `what`: for the log; `careful`: look
        back in memory too, where there is no log.
        """
        machine, journal = self.machine, self._journal
        before: Mapping[str, Any] | None = None
        since: Since | None = None
        if journal is not None:
            before, since, journal.holds = journal.state, journal.since, journal.holds + 1
        elif careful:
            before = self.state()
        reports, marks = len(machine.reports), _marks(machine)
        failure: BaseException | None = None
        try:
            yield
        except BaseException as exc:
            failure = exc
            raise
        finally:
            machine.looks += 1  # levels may have changed their states to the end
            if journal is not None:
                journal.holds -= 1
            # A failed summary counts towards the rest of the summarizer: an error that is ours leaves a state that is whole.
            if failure is None or (isinstance(failure, UllageError) and failure.code != "aborted"):
                self.commit(what)
            # Another call went on from what this one changed: taking that back would lose its work.
            elif before is not None and marks == _marks(machine):
                self.go_back(before, len(machine.history), reports, since)
        if what == "prepare":
            self.lighten()

    def go_back(
        self,
        state: Mapping[str, Any],
        messages: int,
        reports: int | None = None,
        since: Since | None = None,
    ) -> None:
        """Restore an earlier state; so many messages of the history stay, and so many reports (`None`: those that are in the log).

        `since`: what the log holds after the state.
        """
        machine, journal = self.machine, self._journal
        history, view = machine.history[:messages], machine.view
        if reports is None:
            reports = journal.reports if journal else 0
        self.put(state, history[: state["count"]])
        del machine.reports[reports:]
        machine.records = [one for one in machine.records if one.number <= machine.requests]
        machine.view.uuids = {at: name for at, name in view.uuids.items() if at < messages}
        answers, rests = since or ({}, [])
        later = (
            (history[at], view.times.get(at), view.uuids.get(at, ""), answers.get(at, 0))
            for at in range(state["count"], messages)
        )
        self._again(later, rests)

    def _again(
        self, later: Iterable[tuple[Item, int | None, str, int]], rests: Iterable[Rested]
    ) -> None:
        """Add messages, and make requests at rest, that came after a state.

        `later`: each with when it came, its name in the log, and how many up to it are an answer that was observed, which counts as one again.
        """
        machine, sizes, requests = self.machine, list[int](), list(rests)[::-1]

        def rest_again() -> None:
            while requests and requests[-1][0] == len(machine.history):
                _, _, tokens, now_ms = requests.pop()
                prepare.rest_again(machine, self.writer, tokens, now_ms)

        rest_again()
        for item, at_ms, uuid, answer in later:
            sizes.append(int(machine.view.ledger.tokens()))
            machine.add(item, at_ms=at_ms, uuid=uuid)
            self.writer.note_answer(machine)
            if answer:
                machine.answered(machine.history[-1], sizes[-answer])
            rest_again()

    def rewind(self, count: int) -> None:
        """See `ContextManager.rewind`."""
        journal, machine = self._journal, self.machine
        # Messages that stay come back into the view, where lines of a transcript name them.
        self.name(range(len(machine.history)))
        back = range(max(0, count), len(machine.history))
        # The log calls them so; afterwards the machine does not know them.
        names = [] if journal is None else journal.names(machine, back)
        self.writer.note_imported(machine)
        before, items = machine.view, machine.history[max(0, count) :]
        uuids, times = dict(before.uuids), dict(before.times)
        followed = self.followed
        prints, ends = followed.prints, followed.ends
        rewind(machine, count)
        # Of a list that a framework keeps what stood for removed messages is read again.
        followed.cut(bisect_right(ends, count))
        if journal is None:
            return
        offsets = journal.offsets[:]
        journal.rewound(count)
        # What a compaction stood for has come back whole: the line names what is in the context again.
        shown = None if machine.view is before else journal.names(machine, range(count))
        try:
            self._commit(journal, "rewind", journal.without(names, "taken back", shown))
        except BaseException:
            machine.history.extend(items)
            machine.view.uuids, machine.view.times = uuids, times
            followed.prints, followed.ends = prints, ends
            journal.offsets = offsets
            self._take_back(journal)
            raise


def _marks(machine: Any) -> tuple[int, ...]:
    """Changes when another call has changed the conversation in between."""
    return machine.tracking.turns, machine.tracking.compactions, machine.requests

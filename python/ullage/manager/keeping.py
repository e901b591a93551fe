"""Keeps a conversation: saved and restored, in a log, forked, rewound to an earlier message."""

from __future__ import annotations

import threading
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableSequence,
    Sequence,
)
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack, overload

from ullage.exceptions import InvalidPolicy, LogConflict, ManagerBusy, UllageError
from ullage.facts.words import blocks_of
from ullage.levels.view import View
from ullage.manager.known import Host
from ullage.manager.machine import Machine, now_in_ms, opened_log
from ullage.manager.request_writer import RequestWriter
from ullage.messages import Item, message_of
from ullage.policy import Policy

if TYPE_CHECKING:
    from ullage.manager.journal import Added, Journal, ReadJournal
    from ullage.manager.outside import Log, Outside
    from ullage.manager.values import Request
    from ullage.transcript.log import TranscriptLog


# One call at a time prepares a conversation's request; a second one is refused by name.


class ExclusiveGuard:
    """Entered by each call that prepares a request or recovers from a refusal; never waits.

    A call that is suspended at an `await` is still at work: another one in between would mix the reports of both, and
    number requests in another order than the host sees them.
    """

    __slots__ = ("_lock", "_running")

    def __init__(self) -> None:
        self._lock = threading.Lock()  # two threads may ask in the same moment
        self._running = ""

    def enter(self, name: str) -> None:
        """A call of this name begins; `leave` ends it.

        Raises:
            ManagerBusy: Another one is at work; nothing has changed.
        """
        if not self._lock.acquire(False):
            raise ManagerBusy(name, self._running)
        self._running = name

    def leave(self) -> None:
        """The call that entered ends."""
        self._running = ""
        self._lock.release()

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """While a call of this name is at work.

        Raises:
            ManagerBusy: Another one is; nothing has changed.
        """
        self.enter(name)
        try:
            yield
        finally:
            self.leave()


# Going back in a conversation: the newest messages go, as if they had never come.


def rewind(machine: Machine, count: int) -> None:
    """Go back to the first `count` messages.

    What levels made of messages before stays where it stands before one that stays; where it may stand for
    messages that go, the messages that stay come back whole.

    Args:
        machine: Changed in place; corrections, learned limits and counters stay.
        count: Messages that stay.

    Raises:
        InvalidPolicy: There are not so many.
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
    index = next(
        (
            at
            for at, source in enumerate(view.sources)
            if isinstance(source, int) and source >= count
        ),
        len(view),
    )
    written = index > 0 and isinstance(view.sources[index - 1], str)
    if not written:
        view.cut(index)
    if written or (count and not index):
        machine.view = _whole(view, history[:count])
    del history[count:], machine.prints[count:]
    machine.renumber()
    _forget(machine.view, count, removed)
    machine.rewind_levels(count)
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
    """All that was added, in order; equal to a list of it.

    Args:
        items: What was added so far.
        read: Gives the message at a position, equal to what was added; `None`: it is nowhere else.
    """

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

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | list[Item]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self._items)))]
        item = self._items[at]
        if item is not None:
            return item
        read = self._read(at % len(self._items))
        if read is None:
            raise LookupError(f"message {at} was let go and cannot be read back")
        return read

    @overload
    def __setitem__(self, at: int, item: Item) -> None: ...
    @overload
    def __setitem__(self, at: slice, item: Iterable[Item]) -> None: ...
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


def as_entries(
    history: Sequence[Item], view: View, start: int, ids: Callable[[], str]
) -> list[dict[str, Any]]:
    """Messages from a position on as entries; one without a uuid is given one, and keeps it."""
    from ullage.transcript.log import iso_of

    entries = []
    for at in range(len(history))[start:]:
        item = history[at]
        if message_of(item) is None:
            continue
        own = item.get("uuid")
        name = own if isinstance(own, str) else view.uuids.setdefault(at, ids())
        came = {"timestamp": iso_of(view.times[at])} if at in view.times else {}
        envelope = item if "message" in item else {"type": item["role"], "message": item}
        entries.append({"uuid": name, **came, **envelope})
    return entries


# What a conversation need not hold in memory any more; it goes on as it would have.


MOST_TOLD = 256
"""Reports, and records of requests, that are remembered at least; at twice as many the oldest go."""

_FEW = 64
"""Messages that may have left the view before it is worth a walk."""

Read = Callable[[int], Item | None]


class Lighter:
    """Lets go of what left the view: messages that a log holds, names, times and what the repairer knows of them."""

    def __init__(self) -> None:
        self._looked = 0  # messages that had left the view then

    def lighten(self, machine: Machine, writer: RequestWriter, read: Read | None) -> None:
        """After a request, when all that was decided is where it is kept.

        Args:
            machine: Its view stays as it is.
            writer: Its request was just made.
            read: Gives a message from the log; `None`: there is none, and the messages stay.
        """
        trim_account(machine)
        view, count = machine.view, len(machine.history)
        left = count - len(view)
        if abs(left - self._looked) < _FEW:
            return
        self._looked = left
        shown = {source for source in view.sources if isinstance(source, int)}
        inside = {*shown, *(int(key) for key in view.sources if str(key).isdecimal()), count - 1}
        writer.forget(machine, shown)
        view.bases = {key: base for key, base in view.bases.items() if key in shown}
        if read is None:
            return
        if not isinstance(machine.history, History):
            machine.history = History(machine.history, read)
        history = machine.history
        history.let_go(inside)
        view.uuids = {at: name for at, name in view.uuids.items() if history.held(at)}
        view.times = {at: came for at, came in view.times.items() if history.held(at)}


def too_many_told(machine: Machine) -> bool:
    """Whether the oldest records of requests are to go."""
    return machine.account.held >= 2 * MOST_TOLD


def trim_account(machine: Machine) -> None:
    """Let the oldest reports and records of requests go, if they are many."""
    more = len(machine.reports) - MOST_TOLD
    if more >= MOST_TOLD:
        newest = max(report.request for report in machine.reports[:more])
        machine.let_go = machine.let_go[0] + more, max(newest, machine.let_go[1])
        del machine.reports[:more]
    if too_many_told(machine):
        machine.account.trim(MOST_TOLD)


_UNLOCKED = nullcontext()


class Keeping:
    """Saves, logs and restores a conversation; see `ContextManager`."""

    machine: Machine
    host: Host
    _writer: RequestWriter
    _outside: dict[str, Any]
    _clock: Callable[[], int | None]
    _ids: Callable[[], str]
    _journal: Journal | None = None
    _lighter: Lighter
    _sent: Request | None = None  # the newest request, and the newest that is recorded
    _recorded: Request | None = None

    # ---- state as JSON -----------------------------------------------------------------------

    def save(
        self, *, history: bool = False, since: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The state as plain JSON: decisions, state of the levels, learned limits, counters, corrections.

        Args:
            history: Include the messages. Otherwise pass them to `restore`.
            since: The state that was saved last: only what has changed since is returned. `restore` takes the state with the
                changes after it as a list; `ullage.manager.with_changes` makes one state of them. `None`: the whole state.
        """
        from ullage.manager.journal import change_of, dump

        self._name(range(len(self.machine.history)))
        state = {**dump(self.machine, history=history), **self._other_state()}
        return state if since is None else change_of(since, state)

    def _other_state(self) -> dict[str, Any]:
        """The state of what is not in the machine: the last step before a request leaves, and the notes."""
        state: dict[str, Any] = {"outgoing": self._writer.dump(self.machine)}
        notes = getattr(self.host.memory, "dump", None)
        return {**state, "memory": notes()} if callable(notes) else state

    def _load_other_state(self, stored: Mapping[str, Any]) -> None:
        self._writer.load(self.machine, stored.get("outgoing") or {})
        load_notes = getattr(self.host.memory, "load", None)
        if callable(load_notes) and isinstance(stored.get("memory"), Mapping):
            load_notes(deepcopy(stored["memory"]))

    @classmethod
    def restore(
        cls,
        saved: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        history: Sequence[Item] | None = None,
        *,
        policy: Policy | str | None = None,
        **outside: Unpack[Outside],
    ) -> Self:
        """A manager that continues where the saved one left off.

        If the history is shorter or was edited, the state is rolled back to it: messages are compared one by one, and from the first
        that differs on they count as added since; decisions about the others are dropped.

        Args:
            saved: The result of `save`, or a list of one and of the changes that followed.
            history: The messages that had been added, in order, from the host's own log; `None`: those in `saved`. Messages
                beyond them count as added since.
            policy: `None`: the saved one.
            **outside: What is not saved, with the constructor's names: `system`, `tools`, `summarizer`, `store`, ...

        Raises:
            InvalidPolicy: It is not a saved state, or the history differs from its first message on; names the field.
        """
        from ullage.manager.journal import load, with_changes

        state = with_changes(saved)
        manager = cls._of_state(state, policy, outside)
        load(manager.machine, state, history)
        manager._load_other_state(state)
        manager._commit("restore")
        return manager

    @classmethod
    def _of_state(
        cls, saved: Mapping[str, Any], policy: Policy | str | None, outside: Mapping[str, Any]
    ) -> Self:
        from ullage.manager.journal import policy_of

        if not isinstance(saved.get("policy"), Mapping) or "model" not in saved:
            raise InvalidPolicy("saved", type(saved).__name__, "must be the result of save()")
        rules = policy if policy is not None else policy_of(saved["policy"])
        saved_arguments = {name: saved[name] for name in ("model", "source", "provider")}
        saved_arguments.update(saved.get("stated_window") or {})
        saved_arguments["thinking"] = saved.get("thinking")
        make: Any = cls
        manager: Self = make(policy=rules, **{**saved_arguments, **outside})
        return manager

    # ---- a log of its own --------------------------------------------------------------------

    @classmethod
    def resume(
        cls, path: Log, *, policy: Policy | str | None = None, **outside: Unpack[Outside]
    ) -> Self:
        """A manager that continues from a log: the next request is the one that its writer would have sent.

        From a transcript that no manager wrote it starts with what a resume shows as the history. Then `model` is required.

        Args:
            path: The log's file, or an open log of it.
            policy: `None`: that of the manager that wrote it.
            **outside: What is not in the log, with the constructor's names: `system`, `tools`, `summarizer`, `store`, ...

        Raises:
            InvalidPolicy: No manager wrote to it, and no `model` is named.
            InvalidTranscript: What the manager wrote cannot be read; names the line.
            LogConflict: Another writer holds the file.
            StoreError: There is no such file, or it cannot be read.
        """
        from ullage.manager.journal import read_journal

        owned, clock = isinstance(path, str | PathLike), outside.get("clock") or now_in_ms
        log = opened_log(path, clock, create=False) if isinstance(path, str | PathLike) else path
        try:
            read = read_journal(log)
            manager = cls._begun(log, policy, outside) if not read.state else None
            if manager is None:
                manager = cls._of_log(log, read, policy, outside)
            if manager._journal is not None:
                manager._journal.owned = owned
        except BaseException:
            if owned:
                log.close()
            raise
        return manager

    @classmethod
    def _of_log(
        cls,
        log: TranscriptLog,
        read: ReadJournal,
        policy: Policy | str | None,
        outside: Mapping[str, Any],
    ) -> Self:
        from ullage.manager.journal import load_account, ms_of, set_state, uuids_of

        manager = cls._of_state(read.state, policy, outside)
        machine, journal = manager.machine, manager._new_journal(log)
        set_state(machine, read.state, [added.item for added in read.history])
        machine.view.uuids = uuids_of(read.history)
        account = {"reports": read.reports, "records": read.records, "let_go": read.let_go}
        load_account(machine, account)
        trim_account(machine)
        manager._load_other_state(read.state)
        for added in read.later:
            at_ms = ms_of(added.timestamp)
            manager._add_again(added.item, at_ms=at_ms, uuid=added.uuid, answer=added.answer)
        places = (added.offset for added in (*read.history, *read.later))
        journal.goes_on(machine, read.state, places)
        manager._use(journal)
        manager._commit("resume", journal.without(read.unfinished, "an unfinished write"))
        return manager

    @classmethod
    def _begun(
        cls, log: TranscriptLog, policy: Policy | str | None, outside: Mapping[str, Any]
    ) -> Self:
        if "model" not in outside:
            raise InvalidPolicy(
                "model",
                None,
                "is needed: no manager has written to this log",
                hint="resume(path, model=...)",
            )
        entries = log.resume().entries
        make: Any = cls
        manager: Self = make(policy=policy, **outside)
        for entry in entries:
            manager.machine.add(entry)
        journal = manager._new_journal(log)
        journal.begin(manager.machine, manager._other_state(), base=True)
        manager._use(journal)
        return manager

    def _new_journal(self, log: TranscriptLog, *, owned: bool = False) -> Journal:
        from ullage.manager.journal import Journal
        from ullage.summarizers.extractive import model_asked

        record, model = bool(self._outside.get("record")), model_asked(self.host.summarizer)
        return Journal(log, owned=owned, ids=self._ids, record=record, model=model)

    def _use(self, journal: Journal) -> None:
        """From now on the conversation is kept there; its path is passed to hooks and to the model."""
        self._journal, options = journal, dict(self.host.options)
        options["transcript_path"] = options.get("transcript_path") or journal.log.path
        options["session_id"] = options.get("session_id") or journal.log.session_id
        self.host = replace(self.host, logged=True, options=options)

    def _keep_in(self, log: Log) -> None:
        """Begin a log with this conversation, which is still empty."""
        from ullage.manager.journal import read_journal

        owned = isinstance(log, str | PathLike)
        opened = (
            opened_log(log, self._clock, create=True) if isinstance(log, str | PathLike) else log
        )
        try:
            if opened.leaf is not None or read_journal(opened).state:
                raise LogConflict(
                    f"{opened.name}: the log holds a conversation already",
                    hint="ContextManager.resume(path) continues it",
                )
            journal = self._new_journal(opened, owned=owned)
            journal.begin(self.machine, self._other_state())
            self._use(journal)
        except BaseException:
            if owned:
                opened.close()
            raise

    @property
    def log(self) -> TranscriptLog | None:
        """The log that this conversation is kept in; `None`: there is none. Read it, but append nothing."""
        return None if self._journal is None else self._journal.log

    def close(self) -> None:
        """Close the log's file, if it was given as a path; `resume` continues the conversation."""
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def entries(self, start: int = 0) -> list[dict[str, Any]]:
        """Messages of the history as entries with uuids and times, for the host's own log.

        From then on lines in `Request.records` name them by these uuids. Items that are not messages are left out.

        Args:
            start: Position in the history of the first; negative: counted from its end.
        """
        self._name(range(len(self.machine.history))[start:])
        return as_entries(self.machine.history, self.machine.view, start, self._ids)

    # ---- what need not be in memory ----------------------------------------------------------

    def _lighten(self) -> None:
        journal, machine = self._journal, self.machine
        self._lighter.lighten(machine, self._writer, None if journal is None else self._read)
        if journal is not None:
            journal.reports, journal.records = len(machine.reports), len(machine.records)

    def _read(self, at: int) -> Item | None:
        added = self._added(at)
        return None if added is None else added.item

    def _added(self, at: int) -> Added | None:
        """What the log records about a message of the history."""
        from ullage.manager.journal import read_message

        journal = self._journal
        if journal is None or not 0 <= at < len(journal.offsets) or journal.offsets[at] < 0:
            return None
        return read_message(journal.log, journal.offsets[at])

    def _name(self, positions: Iterable[int]) -> None:
        """Have names and times of these messages of the history in memory again, which left it."""
        from ullage.manager.journal import ms_of

        view, history = self.machine.view, self.machine.history
        for at in positions:
            if not isinstance(history, History) or history.held(at):
                continue
            added = self._added(at)
            if added is None or added.item is None:
                continue
            if not isinstance(added.item.get("uuid"), str):
                view.uuids.setdefault(at, added.uuid)
            came = None if "timestamp" in added.item else ms_of(added.timestamp)
            if came is not None:
                view.times.setdefault(at, came)

    # ---- all or nothing ----------------------------------------------------------------------

    def _commit(self, what: str, more: Sequence[dict[str, Any]] = ()) -> None:
        """Write what has changed; if that fails, nothing has."""
        if self._journal is None:
            return
        request = self._sent if self._sent is not self._recorded else None
        try:
            self._journal.commit(self.machine, self._other_state(), what, more, request)
            self._recorded = self._sent
        except BaseException:
            self._sent = self._recorded
            self._go_back(self._journal.state, self._journal.messages)
            raise

    @contextmanager
    def _whole(self, what: str, *, careful: bool = True, levels: bool = True) -> Iterator[None]:
        """A call that is in the log when it ends, and that changes nothing if it is interrupted.

        What a call learned before one of Ullage's errors is kept, for example that a summarizer failed.

        Args:
            what: For the log.
            careful: Look back in memory too, where there is no log.
            levels: Whether levels are asked, which may change their states to the end.
        """
        machine, journal = self.machine, self._journal
        before: Mapping[str, Any] | None = None
        if journal is not None:
            before, journal.holds = journal.state, journal.holds + 1
        elif careful:
            from ullage.manager.journal import state_of

            before = {**state_of(machine), **self._other_state()}
        counts = len(machine.reports), machine.account.held, _marks(machine)
        failure: BaseException | None = None
        try:
            yield
        except BaseException as exc:
            failure = exc
            raise
        finally:
            machine.looks += levels
            if journal is not None:
                journal.holds -= 1
            if failure is None or (isinstance(failure, UllageError) and failure.code != "aborted"):
                self._commit(what)
            elif before is not None and counts[2] == _marks(machine):
                self._go_back(before, len(machine.history), counts[:2])
        if what == "prepare":
            self._lighten()

    def _go_back(
        self, state: Mapping[str, Any], messages: int, counts: tuple[int, int] | None = None
    ) -> None:
        """Restore an earlier state; of what was added since, the messages up to a number stay."""
        from ullage.manager.journal import set_state

        machine, journal = self.machine, self._journal
        history, view = machine.history[:messages], machine.view
        written = (journal.reports, journal.records) if journal else (0, 0)
        reports, records = counts or written
        set_state(machine, state, history[: state["count"]])
        del machine.reports[reports:]
        machine.records = machine.records[:records]
        machine.view.uuids = {at: name for at, name in view.uuids.items() if at < messages}
        self._load_other_state(state)
        for at in range(state["count"], messages):
            answer = journal is not None and at in journal.answers
            self._add_again(
                history[at], at_ms=view.times.get(at), uuid=view.uuids.get(at, ""), answer=answer
            )

    def _add_again(self, item: Item, *, at_ms: int | None, uuid: str, answer: bool) -> None:
        """Add a message that a log holds; where it was observed as the model's answer, it counts as one again."""
        machine = self.machine
        before = int(machine.view.ledger.tokens())
        machine.add(item, at_ms=at_ms, uuid=uuid)
        self._writer.note_answer(machine)
        if answer:
            machine.answered(machine.history[-1], before)

    # ---- other ways on -----------------------------------------------------------------------

    def rewind(self, count: int) -> None:
        """Go back to the first `count` messages of the history: the others are removed, as if they had never been added.

        Messages that a level had removed or summed up come back whole if its text may cover some that are removed.

        Args:
            count: Messages of `history` that stay.

        Raises:
            InvalidPolicy: There are fewer.
        """
        journal, machine = self._journal, self.machine
        self._name(range(len(machine.history)))
        back = range(max(0, count), len(machine.history))
        names = [] if journal is None else journal.names(machine, back)
        self._writer.note_imported(machine)
        rewind(machine, count)
        if journal is None:
            return
        journal.messages = min(journal.messages, count)
        journal.recorder = journal.recorder and journal.recorder.again()
        self._commit("rewind", journal.without(names, "taken back"))

    def fork(
        self,
        *,
        policy: Policy | str | None = None,
        log: Log | None = None,
        **outside: Unpack[Outside],
    ) -> Self:
        """Another manager of the same conversation in its current state; the two are independent from then on.

        Args:
            policy: `None`: this one's.
            log: The fork's own log: a path, or an open and empty log. `None`: it has none.
            **outside: What should differ from this manager, with the constructor's names.
        """
        from ullage.manager.journal import load

        arguments = {**self._outside, **outside}
        own = arguments.pop("policy", None)
        saved = self.save(history=True)
        fork = type(self)._of_state(saved, own if policy is None else policy, arguments)
        load(fork.machine, saved, None)
        fork._writer.load(fork.machine, saved["outgoing"])
        if log is not None:
            fork._keep_in(log)
        return fork

    def __deepcopy__(self, memo: Any) -> Self:
        del memo
        return self.fork()

    def __copy__(self) -> NoReturn:
        raise InvalidPolicy(
            "copy",
            type(self).__name__,
            "two managers cannot share one conversation",
            hint="manager.fork()",
        )

    def __reduce__(self) -> NoReturn:
        raise InvalidPolicy(
            "pickle", type(self).__name__, "holds what is outside of it: clients, files, callables",
            hint="save() returns the state as JSON, ContextManager.restore reads it",
        )  # fmt: skip

    def _locked(self) -> Any:
        """What is added and written is one step, also between threads."""
        return _UNLOCKED if self._journal is None else self._journal.log.one_writer


def _marks(machine: Any) -> tuple[int, ...]:
    """Changes when another call has changed the conversation in between."""
    return machine.tracking.turns, machine.tracking.compactions, machine.requests

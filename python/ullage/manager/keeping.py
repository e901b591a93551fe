"""Keeps a conversation: saved and restored, in a log, forked, rewound to an earlier message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from ullage.exceptions import InvalidPolicy, LogConflict, UllageError
from ullage.manager.accessors import Accessors
from ullage.manager.clock import now_in_ms, opened_log
from ullage.manager.history import History, as_entries
from ullage.manager.host import Host
from ullage.manager.lighter import Lighter, trim_account
from ullage.manager.request_writer import RequestWriter
from ullage.manager.rewind import rewind
from ullage.messages import Item
from ullage.policy import Policy

if TYPE_CHECKING:
    from ullage.manager.journal import Journal
    from ullage.manager.journal_read import Added, Found
    from ullage.manager.outside import Log, Outside
    from ullage.manager.values import Request
    from ullage.transcript.log import TranscriptLog

__all__ = ["Keeping"]


class Keeping(Accessors):
    """Saves, logs and restores a conversation; see `ContextManager`."""

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
        from ullage.manager.saved_changes import change_of
        from ullage.manager.saved_state import dump

        self._name(range(len(self.machine.history)))
        found = {**dump(self.machine, history=history), **self._beside()}
        return found if since is None else change_of(since, found)

    def _beside(self) -> dict[str, Any]:
        """The state of what is not in the machine: the last step before a request leaves, and the notes."""
        found: dict[str, Any] = {"outgoing": self._writer.dump(self.machine)}
        notes = getattr(self.host.memory, "dump", None)
        return {**found, "memory": notes()} if callable(notes) else found

    def _load_beside(self, stored: Mapping[str, Any]) -> None:
        self._writer.load(self.machine, stored.get("outgoing") or {})
        load_notes = getattr(self.host.memory, "load", None)
        if callable(load_notes) and isinstance(stored.get("memory"), Mapping):
            load_notes(stored["memory"])

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
        from ullage.manager.saved_changes import with_changes
        from ullage.manager.saved_state import load

        state = with_changes(saved)
        made = cls._of_state(state, policy, outside)
        load(made.machine, state, history)
        made._load_beside(state)
        made._commit("restore")
        return made

    @classmethod
    def _of_state(
        cls, saved: Mapping[str, Any], policy: Policy | str | None, outside: Mapping[str, Any]
    ) -> Self:
        from ullage.manager.saved_state import policy_of

        if not isinstance(saved.get("policy"), Mapping) or "model" not in saved:
            raise InvalidPolicy("saved", type(saved).__name__, "must be the result of save()")
        rules = policy if policy is not None else policy_of(saved["policy"])
        known = {name: saved[name] for name in ("model", "source", "provider")}
        known.update(saved.get("stated_window") or {})
        known["thinking"] = saved.get("thinking")
        make: Any = cls
        made: Self = make(policy=rules, **{**known, **outside})
        return made

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
        from ullage.manager.journal_read import read_journal

        owned, clock = isinstance(path, str | PathLike), outside.get("clock") or now_in_ms
        log = opened_log(path, clock, create=False) if isinstance(path, str | PathLike) else path
        try:
            found = read_journal(log)
            made = cls._begun(log, policy, outside) if not found.state else None
            if made is None:
                made = cls._of_log(log, found, policy, outside)
            if made._journal is not None:
                made._journal.owned = owned
        except BaseException:
            if owned:
                log.close()
            raise
        return made

    @classmethod
    def _of_log(
        cls,
        log: TranscriptLog,
        found: Found,
        policy: Policy | str | None,
        outside: Mapping[str, Any],
    ) -> Self:
        from ullage.manager.journal_read import ms_of, uuids_of
        from ullage.manager.saved_state import load_account, set_state

        made = cls._of_state(found.state, policy, outside)
        machine, journal = made.machine, made._new_journal(log)
        set_state(machine, found.state, [each.item for each in found.history])
        machine.view.uuids = uuids_of(found.history)
        account = {"reports": found.reports, "records": found.records, "let_go": found.let_go}
        load_account(machine, account)
        trim_account(machine)
        made._load_beside(found.state)
        for each in found.later:
            machine.add(each.item, at_ms=ms_of(each.timestamp), uuid=each.uuid)
            made._writer.note_answer(machine)
        places = (each.offset for each in (*found.history, *found.later))
        journal.goes_on(machine, found.state, places)
        made._use(journal)
        made._commit("resume", journal.without(found.torn, "an unfinished write"))
        return made

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
        made: Self = make(policy=policy, **outside)
        for entry in entries:
            made.machine.add(entry)
        journal = made._new_journal(log)
        journal.begin(made.machine, made._beside(), base=True)
        made._use(journal)
        return made

    def _new_journal(self, log: TranscriptLog, *, owned: bool = False) -> Journal:
        from ullage.manager.journal import Journal
        from ullage.summarizers.extractive import ExtractiveSummarizer

        writer = self.host.summarizer
        model = "" if isinstance(writer, ExtractiveSummarizer | None) else type(writer).__name__
        record = bool(self._outside.get("record"))
        return Journal(log, owned=owned, ids=self._ids, record=record, model=model)

    def _use(self, journal: Journal) -> None:
        """From now on the conversation is kept there; its path is passed to hooks and to the model."""
        self._journal, options = journal, dict(self.host.options)
        options["transcript_path"] = options.get("transcript_path") or journal.log.path
        options["session_id"] = options.get("session_id") or journal.log.session_id
        self.host = replace(self.host, logged=True, options=options)

    def _keep_in(self, log: Log) -> None:
        """Begin a log with this conversation, which is still empty."""
        from ullage.manager.journal_read import read_journal

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
            journal.begin(self.machine, self._beside())
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
        found = self._added(at)
        return None if found is None else found.item

    def _added(self, at: int) -> Added | None:
        """What the log records about a message of the history."""
        from ullage.manager.journal_read import read_message

        journal = self._journal
        if journal is None or not 0 <= at < len(journal.offsets) or journal.offsets[at] < 0:
            return None
        return read_message(journal.log, journal.offsets[at])

    def _name(self, positions: Iterable[int]) -> None:
        """Have names and times of these messages of the history in memory again, which left it."""
        from ullage.manager.journal_read import ms_of

        view, history = self.machine.view, self.machine.history
        for at in positions:
            if not isinstance(history, History) or history.held(at):
                continue
            found = self._added(at)
            if found is None or found.item is None:
                continue
            if not isinstance(found.item.get("uuid"), str):
                view.uuids.setdefault(at, found.uuid)
            came = None if "timestamp" in found.item else ms_of(found.timestamp)
            if came is not None:
                view.times.setdefault(at, came)

    # ---- all or nothing ----------------------------------------------------------------------

    def _commit(self, what: str, more: Sequence[dict[str, Any]] = ()) -> None:
        """Write what has changed; if that fails, nothing has."""
        if self._journal is None:
            return
        made = self._sent if self._sent is not self._recorded else None
        try:
            self._journal.commit(self.machine, self._beside(), what, more, made)
            self._recorded = self._sent
        except BaseException:
            self._sent = self._recorded
            self._go_back(self._journal.state, self._journal.messages)
            raise

    @contextmanager
    def _whole(self, what: str, *, careful: bool = True) -> Iterator[None]:
        """A call that is in the log when it ends, and that changes nothing if it is interrupted.

        What a call learned before one of Ullage's errors is kept, for example that a summarizer failed.

        Args:
            what: For the log.
            careful: Look back in memory too, where there is no log.
        """
        machine, journal = self.machine, self._journal
        before: Mapping[str, Any] | None = None
        if journal is not None:
            before = journal.state
        elif careful:
            from ullage.manager.saved_state import state_of

            before = {**state_of(machine), **self._beside()}
        counts = len(machine.reports), machine.account.held, _marks(machine)
        try:
            yield
        except BaseException as exc:
            if isinstance(exc, UllageError) and exc.code != "aborted":
                self._commit(what)
            elif before is not None and counts[2] == _marks(machine):
                self._go_back(before, len(machine.history), counts[:2])
            raise
        self._commit(what)
        if what == "prepare":
            self._lighten()

    def _go_back(
        self, state: Mapping[str, Any], messages: int, counts: tuple[int, int] | None = None
    ) -> None:
        """Restore an earlier state; of what was added since, the messages up to a number stay."""
        from ullage.manager.saved_state import set_state

        machine, journal = self.machine, self._journal
        history, view = machine.history[:messages], machine.view
        written = (journal.reports, journal.records) if journal else (0, 0)
        reports, records = counts or written
        set_state(machine, state, history[: state["count"]])
        del machine.reports[reports:]
        machine.records = machine.records[:records]
        machine.view.uuids = {at: name for at, name in view.uuids.items() if at < messages}
        self._load_beside(state)
        for at in range(state["count"], messages):
            machine.add(history[at], at_ms=view.times.get(at), uuid=view.uuids.get(at, ""))
            self._writer.note_answer(machine)

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
        from ullage.manager.saved_state import load

        given = {**self._outside, **outside}
        own = given.pop("policy", None)
        saved = self.save(history=True)
        made = type(self)._of_state(saved, own if policy is None else policy, given)
        load(made.machine, saved, None)
        made._writer.load(made.machine, saved["outgoing"])
        if log is not None:
            made._keep_in(log)
        return made

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
        return nullcontext() if self._journal is None else self._journal.log.one_writer


def _marks(machine: Any) -> tuple[int, ...]:
    """Changes when another call has changed the conversation in between."""
    return machine.tracking.turns, machine.tracking.compactions, machine.requests

"""A conversation in a transcript log: everything added, observed and decided is in it when a call returns (LOG-4, P-6).

Messages are ordinary entries of the log; what levels removed is recorded in the transcript's own lines, so that
Claude Code and `ullage resume` show what was sent. In addition, a line of type `ullage-manager` records how the manager's
state has changed since the line before: from these lines the manager continues exactly. Each call makes one
write; an unfinished write counts as never written.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ullage.compaction.recollection import SESSION_MEMORY
from ullage.levels import collapse, fold, hard_truncation
from ullage.levels.report import StageReport
from ullage.levels.view import View
from ullage.levels.view_state import Dumped, dump_next
from ullage.manager.delta import diff, view_change
from ullage.manager.machine import Machine
from ullage.manager.saved_state import FORMAT, state_of, told_since
from ullage.manager.values import Request
from ullage.messages import Item, message_of
from ullage.transcript.log import TranscriptLog, iso_of, line_of
from ullage.transcript.records import snip
from ullage.transcript.render import rendered
from ullage.transcript.write import BoundaryInfo, Kept, compaction_lines

if TYPE_CHECKING:
    from ullage.transcript.record import Recorder

__all__ = ["ITEM", "MARK", "STATE", "Journal"]

STATE = "ullage-manager"
"""Type of the lines with a manager's state."""

ITEM = "ullage-item"
"""Type of the lines for what a transcript cannot express, such as a system message inside the conversation."""

MARK = "ullage"
"""Key of an entry with its position in the history."""

_SUMMARIES = ("autocompact", "compact", SESSION_MEMORY, fold.STAGE, hard_truncation.STAGE)

Line = dict[str, Any]


class Journal:
    """Records one conversation in its log.

    Args:
        log: Open; this manager alone appends to it.
        owned: Whether closing the manager closes the log.
        ids: Where uuids come from.
        record: Whether each request is recorded, for `ullage-check`.
        model: What writes summaries, for the records; empty: code does.

    Attributes:
        state: The state according to the log.
        messages: How many messages of the history are in the log.
        offsets: Where the line of each begins, in bytes; negative: it has none of its own.
    """

    def __init__(
        self,
        log: TranscriptLog,
        *,
        owned: bool,
        ids: Callable[[], str],
        record: bool = False,
        model: str = "",
    ) -> None:
        self.log, self.owned, self._ids = log, owned, ids
        self.state: dict[str, Any] = {}
        self.messages = self.reports = self.records = 0
        self.offsets = array("q")
        self._base = False
        self._dumped: Dumped | None = None
        self.made: dict[str, str] = {}  # uuids of what levels made, by key
        self.recorder: Recorder | None = None
        self.model = model
        if record:
            from ullage.transcript.record import Recorder

            self.recorder = Recorder()

    def goes_on(self, machine: Machine, state: Mapping[str, Any], offsets: Iterable[int]) -> None:
        """The log holds this state already, and all that the machine holds."""
        self.offsets = array("q", offsets)
        self.state, self.made = dict(state), dict(state.get("made", {}))
        self.messages = len(machine.history)
        self.reports, self.records = len(machine.reports), len(machine.records)

    # ---- writing -----------------------------------------------------------------------------

    def added(self, machine: Machine) -> bool:
        """Write a message that was just added; False where that takes a line of the state too.

        Raises:
            InvalidMessage: JSON cannot hold it; nothing was written.
            LogConflict: Another process changed the log; nothing was written.
            StoreError: The log could not be written; it is as it was.
        """
        if len(machine.history) - self.messages != 1:
            return False
        self._wrote(self._write(self._messages(machine, waits=False)))
        self.messages += 1
        return True

    def commit(
        self,
        machine: Machine,
        beside: Mapping[str, Any],
        what: str,
        more: Sequence[Line] = (),
        request: Request | None = None,
    ) -> None:
        """Write all that has changed since the last line, if anything has.

        Args:
            machine: As it is now.
            beside: State of the parts outside of the machine.
            what: Which call it was.
            more: Lines that go before the state.
            request: What was made, to be recorded; `None`: nothing was.

        Raises:
            InvalidMessage: See `added`.
            LogConflict: See `added`.
            StoreError: See `added`.
        """
        with self.log.one_writer:
            lines = [*self._messages(machine, waits=True), *more]
            parent = next(
                (each["uuid"] for each in reversed(lines) if "parentUuid" in each), self.log.leaf
            )
            dumped = dump_next(machine.view, self._dumped)
            keys = (part["key"] for part in dumped.state["parts"] if isinstance(part, dict))
            made, told, durable = self._told(machine, parent, new=any(map(self._is_new, keys)))
            now = {**state_of(machine, dumped.state), **beside, "made": {**self.made, **made}}
            change = self._change(now, dumped)
            account = told_since(machine, self.reports, self.records)
            request = request if self.recorder else None
            if not (change or lines or told or any(account.values()) or request):
                return
            head = {"type": STATE, "format": FORMAT, "what": what, "sessionId": self.log.session_id}
            if self._base:
                head["base"] = True
            if what == "begin" and machine.let_go[0]:
                head["let_go"] = list(machine.let_go)
            state = {**head, "state": change, **account}
            record = self._recorded(machine, request, now["made"]) if request else None
            starts = self._write([*lines, *told, state], record)
            self._wrote(starts[: len(machine.history) - self.messages])
            self.state, self.made, self._base = now, now["made"], False
            self._dumped = dumped
            self.messages = len(machine.history)
            self.reports, self.records = len(machine.reports), len(machine.records)
        if durable:
            self.log.sync()

    def _write(
        self, lines: Sequence[Line], record: Callable[[Recorder], Line] | None = None
    ) -> list[int]:
        """Write lines, and after them a record if one is kept."""
        recorder = self.recorder
        if recorder is None:
            return self.log.write(lines)

        def last(written: Sequence[bytes]) -> Sequence[bytes]:
            recorder.follow(written, self.log.lines)
            return [] if record is None else [line_of(recorder.sealed(record(recorder)), 0)]

        try:
            return self.log.write(lines, last)
        except BaseException:
            self.recorder = recorder.again()  # it is ahead of the log
            raise

    def _recorded(
        self, machine: Machine, request: Request, made: Iterable[str]
    ) -> Callable[[Recorder], Line]:
        """How a request is recorded: as it is sent; where that is another form, as it was before."""
        view, named = machine.view, set(made)
        internal = machine.provider.internal
        logged = [
            each for key, each in zip(view.sources, view.messages, strict=True) if key in named
        ]
        acts = [
            [each.stage, each.why, each.tokens_before, each.tokens_after]
            for each in machine.reports[self.reports :]
        ]
        return lambda recorder: recorder.record(
            machine.history,
            request.messages if internal else view.messages,
            view.messages,
            view.sources,
            logged=logged,
            pins={name: pin.text for name, pin in machine.pins.items()},
            acts=acts,
            model=self.model,
            tokens=request.tokens,
            head={**request.parts, **request.params},
            form={} if internal else {request.provider: request.messages},
            repairs={each.rule for each in request.repairs},
        )

    def _change(self, now: Mapping[str, Any], dumped: Dumped) -> dict[str, Any]:
        """The difference from the state in the log."""
        before = self.state.get("view")
        if self._dumped is None or before is not self._dumped.state:
            return diff(self.state, now)
        view = view_change(before, dumped)
        change = diff({**self.state, "view": now["view"]}, now)
        if "is" in change:
            return change
        return {**change, "keys": {**change.get("keys", {}), "view": view}} if view else change

    def begin(self, machine: Machine, beside: Mapping[str, Any], *, base: bool = False) -> None:
        """Write the whole state, with which a manager begins.

        Args:
            machine: As it is now.
            beside: See `commit`.
            base: Its history is what a resume of the log shows up to here.
        """
        self.messages = len(machine.history) if base else 0
        self._base = base
        self.offsets = array("q", [-1] * self.messages)
        self.commit(machine, beside, "begin")

    def _wrote(self, starts: Iterable[int]) -> None:
        del self.offsets[self.messages :]
        self.offsets.extend(starts)

    def close(self) -> None:
        """Close the log, if it is the manager's own."""
        if self.owned:
            self.log.close()

    # ---- messages ----------------------------------------------------------------------------

    def _messages(self, machine: Machine, *, waits: bool) -> list[Line]:
        """Lines for what the log does not hold yet. Waiting ones count only with the state line after them."""
        parent, lines = self.log.leaf, []
        for at in range(self.messages, len(machine.history)):
            line = self._line(machine, at, parent, waits=waits)
            parent = line["uuid"] if "parentUuid" in line else parent
            lines.append(line)
        return lines

    def _line(self, machine: Machine, at: int, parent: str | None, *, waits: bool) -> Line:
        item, view = machine.history[at], machine.view
        uuid = item.get("uuid")
        if not isinstance(uuid, str):
            uuid = view.uuids.setdefault(at, self._ids())
        mark: dict[str, Any] = {"at": at, **({"waits": True} if waits else {})}
        named = {"uuid": uuid}
        if at in view.times:
            named["timestamp"] = iso_of(view.times[at])
        if not _is_talk(item):
            return {
                "type": ITEM,
                **named,
                "sessionId": self.log.session_id,
                "item": item,
                MARK: mark,
            }
        if message_of(item) is item:
            return self.log.entry(
                {"type": item["role"], "message": item, **named, MARK: mark}, parent=parent
            )
        own = {key: value for key, value in item.items() if key not in ("parentUuid", MARK)}
        mark["keys"] = list(item)
        return self.log.entry({**own, **named, MARK: mark}, parent=parent)

    # ---- what levels did ---------------------------------------------------------------------

    def _told(
        self, machine: Machine, parent: str | None, *, new: bool
    ) -> tuple[dict[str, str], list[Line], bool]:
        """New names of what levels made, the transcript's lines, and whether they must be on the disk."""
        reports = machine.reports[self.reports :]
        records = [record for report in reports for record in report.records]
        lines = []
        for record in records:
            line = self.log.entry(record, parent=parent)
            parent = line["uuid"] if "parentUuid" in line else parent
            lines.append(line)
        made, summed = self._summed(machine.view, reports, parent) if new else ({}, [])
        return made, [*lines, *summed], bool(summed)

    def _summed(
        self, view: View, reports: Sequence[StageReport], parent: str | None
    ) -> tuple[dict[str, str], list[Line]]:
        """A boundary if the view contains something that no line records yet: a summary, a fold, a mark of a cut."""
        new = [
            at for at, key in enumerate(view.sources) if isinstance(key, str) and self._is_new(key)
        ]
        behind = next((at for at in range(new[0], len(view)) if at not in set(new)), len(view))
        summaries = [at for at in new if at < behind]
        kept = [
            name for at in range(len(view)) if at not in set(new) and (name := self._name(view, at))
        ]
        group, tail = compaction_lines(
            self.log, _info(reports), [_fresh(view.originals[at]) for at in summaries], parent=parent,
            kept=Kept(tuple(kept), before_summary=behind == len(view)),
            attachments=[_fresh(view.originals[at]) for at in new if at > behind],
        )  # fmt: skip
        order = [*summaries, *(at for at in new if at > behind)]
        names = [str(entry["uuid"]) for entry in group[1:]]
        return {str(view.sources[at]): name for at, name in zip(order, names, strict=True)}, [
            *group,
            *tail,
        ]

    def _is_new(self, key: str) -> bool:
        return key.split(":")[0] in _SUMMARIES and key not in self.made

    def _name(self, view: View, at: int) -> str:
        """What the log calls a message of the view; empty: it is in requests only."""
        key = view.sources[at]
        if isinstance(key, int):
            return view.uuid_at(at)
        if key.isdecimal():  # a message of the history, without its thinking
            return view.uuids.get(int(key), "") or view.uuid_at(at)
        if key.startswith(f"{collapse.STAGE}:"):
            return f"collapse-{key.split(':', 1)[1]}"
        return self.made.get(key, "")

    @staticmethod
    def names(machine: Machine, positions: Iterable[int]) -> list[str]:
        """What the log calls messages of the history."""
        uuids = machine.view.uuids
        own = ((at, machine.history[at].get("uuid")) for at in positions)
        return [name if isinstance(name, str) else uuids.get(at, "") for at, name in own]

    def without(self, uuids: Iterable[str], why: str) -> list[Line]:
        """A line that takes messages out of the transcript's context, by their uuids; none where there are none."""
        names = list(filter(None, uuids))
        return [self.log.entry(snip(names, reason=why), parent=self.log.leaf)] if names else []


def _is_talk(item: Item) -> bool:
    """Whether a transcript has a form for it, and would show it."""
    message = message_of(item)
    if message is None:
        return item.get("type") == "attachment" and rendered(item) is not None
    fine = message.get("role") in ("user", "assistant") and isinstance(
        message.get("content"), str | list
    )
    return fine and (message is item or item.get("type") in ("user", "assistant"))


def _fresh(item: Item) -> Line:
    """The entry without what only the log assigns: ids, parents and times."""
    own = ("uuid", "parentUuid", "timestamp")
    return {key: value for key, value in item.items() if key not in own}


def _info(reports: Sequence[StageReport]) -> BoundaryInfo:
    newest = next((each for each in reversed(reports) if each.stage in _SUMMARIES), None)
    if newest is None:
        return BoundaryInfo()
    return BoundaryInfo(
        trigger="manual" if newest.stage == "compact" else "auto",
        pre_tokens=newest.tokens_before,
        post_tokens=newest.tokens_after,
        messages_summarized=sum(span.stop - span.start for span in newest.removed),
    )

"""A conversation in a transcript log: everything added, observed and decided is in it when a call returns (LOG-4, P-6).

Messages are ordinary entries of the log; what levels removed is recorded in the transcript's own lines, so that
Claude Code and `ullage resume` show what was sent. In addition, a line of type `ullage-manager` records how the manager's
state has changed since the line before: from these lines the manager continues exactly. Each call makes one
write; an unfinished write counts as never written.
"""

from __future__ import annotations

import dataclasses
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from ullage._engine.transcript_lines import parse_line
from ullage._start import hashlib
from ullage.compaction.job import SESSION_MEMORY
from ullage.counting.calibration import Correction, Weights
from ullage.exceptions import InvalidPolicy, InvalidTranscript, UllageError
from ullage.levels import collapse, fold, truncate
from ullage.levels.cost import Cost
from ullage.levels.pins import Pin
from ullage.levels.view import Decision, Span, StageReport, View
from ullage.manager.keeping import rewind
from ullage.manager.machine import CallIds, Machine, Tracking, as_bytes
from ullage.manager.values import Figure, Request, RequestRecord
from ullage.messages import Item, common_length, message_of
from ullage.policy import Policy, policy_given
from ullage.transcript.index import Transcript
from ullage.transcript.log import TranscriptLog, iso_of, line_of
from ullage.transcript.records import MARK, STATE, snip
from ullage.transcript.render import rendered
from ullage.transcript.write import (
    KeptEntries,
    boundary_metadata,
    compaction_lines,
    session_lines,
    without_ids,
)

if TYPE_CHECKING:
    from ullage.transcript.record import Recorder


# What has changed between two states of plain JSON, and the later one from the earlier and the change.


SAME: dict[str, Any] = {}
"""The change of what has not changed."""


def diff(before: Any, now: Any) -> dict[str, Any]:
    """How `now` comes of `before`; empty where they are equal.

    Mappings are compared by key, lists stored as what follows their common beginning, texts that have grown as what was added,
    everything else whole.
    """
    if before is now or (type(before) is type(now) and before == now):
        return SAME
    if isinstance(before, dict) and isinstance(now, dict):
        changes = _changed_keys(before, now, {})
        if list(before) == list(now):
            return changes
        remaining = [key for key in before if key in now]
        # Order is part of it: texts are laid over in the order of the decisions.
        if list(now) != [*remaining, *(key for key in now if key not in before)]:
            return {"is": dict(now)}
        removed = [key for key in before if key not in now]
        return {**changes, "gone": removed} if removed else changes
    if isinstance(before, list) and isinstance(now, list):
        same = common_length(before, now)
        return {"from": same, "tail": now[same:]}
    if isinstance(before, str) and isinstance(now, str) and before and now.startswith(before):
        return {"from": len(before), "tail": now[len(before) :]}
    return {"is": now}


def _changed_keys(
    before: Mapping[str, Any], now: Mapping[str, Any], keys: dict[str, Any]
) -> dict[str, Any]:
    """The change of some keys of a mapping, besides those whose change is known; the others are as they were."""
    for name, value in now.items():
        if name not in before:
            keys[name] = {"is": value}
            continue
        earlier = before[name]
        # As `diff` begins: most keys are as they were.
        if earlier is not value and (type(earlier) is not type(value) or earlier != value):
            keys[name] = diff(earlier, value)
    return {"keys": keys} if keys else SAME


def patch(before: Any, change: Mapping[str, Any], *, in_place: bool = False) -> Any:
    """The value that `diff` got as `now`; `in_place`: made of `before` at the cost of the change alone, which after an error is neither.

    Raises `KeyError`, `TypeError` or `ValueError` where the change belongs to another state.
    """
    if not change:
        return before
    if "is" in change:
        return change["is"]
    if "tail" in change:
        same, tail = change["from"], change["tail"]
        if same > len(before):
            raise ValueError(f"there are {len(before)} of {same} values")
        if isinstance(before, str):
            return before[:same] + tail
        grown = before if in_place else list(before)
        grown[same:] = tail
        return grown
    state = before if in_place else dict(before)
    for key in change.get("gone", ()):
        state.pop(key, None)
    for key, inner in change.get("keys", {}).items():
        state[key] = (
            inner["is"] if "is" in inner else patch(state.get(key), inner, in_place=in_place)
        )
    return state


@contextmanager
def state_read(field: str = "saved") -> Iterator[None]:
    """Around what reads a stored state: a part that is missing or of another type is an `InvalidPolicy`, wherever it is noticed."""
    try:
        yield
    except UllageError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as exc:
        raise InvalidPolicy(field, type(exc).__name__, f"cannot be read: {exc}") from exc


# A view as plain JSON, and back: the remaining history, what levels made, every decision.


class ViewMark(NamedTuple):
    """Up to where a state speaks of a view; of another view it says nothing."""

    view: View
    messages: int  # so many it had
    edits: int  # as the view's

    def fits(self, view: View) -> bool:
        """Whether it is of this view, and no decision was made since."""
        return self.view is view and self.edits == view.edits


def mark_of(view: View) -> ViewMark:
    """Of the view as it is now. Its mark of what is stable is set, so one keeper of a state can follow a view."""
    view.stable = len(view.messages)
    return ViewMark(view, view.stable, view.edits)


def dump_view(view: View) -> dict[str, Any]:
    """The view as plain JSON; messages of the history stand there by position only."""
    rows = _rows(view, (), 0)
    return {
        "parts": rows["parts"],
        **_edited(view),
        "sent": view.sent,
        "changed_from": view.changed_from,
        "rewrites": view.rewrites,
        "bases": rows["bases"],
        "times": rows["times"],
    }


def view_change(view: View, before: Mapping[str, Any], mark: ViewMark | None) -> dict[str, Any]:
    """How `dump_view` now comes of `before`, what it gave at the mark, as `diff` says it, at the cost of what is new; without a mark all is compared."""
    if mark is None or mark.view is not view or view.stable < mark.messages:
        return diff(before, dump_view(view))
    keys: dict[str, Any] = {}
    if len(view.messages) > mark.messages:
        rows = _rows(view, before["parts"][-1:], mark.messages)
        starts = {name: len(before[name]) for name in rows}
        starts["parts"] = max(0, starts["parts"] - 1)  # the last one may have grown
        keys = {name: {"from": starts[name], "tail": rows[name]} for name in rows if rows[name]}
    now: dict[str, Any] = {
        "sent": view.sent,
        "changed_from": view.changed_from,
        "rewrites": view.rewrites,
    }
    if view.edits != mark.edits:
        now |= _edited(view)
    elif new := len(view.whole) - (before_count := len(before["whole"])):
        # From the end: the first ones are not walked.
        keys["whole"] = {"from": before_count, "tail": [*islice(reversed(view.whole), new)][::-1]}
    return _changed_keys(before, now, keys)


def _edited(view: View) -> dict[str, Any]:
    return {
        "decisions": [
            [decision.tool_use_id, decision.stage, decision.text]
            for decision in view.decisions.values()
        ],
        "added_texts": [[at, list(texts)] for at, texts in view.added_texts.items()],
        "whole": list(view.whole),
        "emptied": sorted(view.emptied),
        "unthought": sorted(view.unthought),
    }


def _rows(view: View, last: Sequence[Any], start: int) -> dict[str, list[Any]]:
    """Parts, bases and times of the messages from `start` on; `last` is the part before them, which may grow."""
    parts = [[*row] if isinstance(row, list) else row for row in last]
    sources, bases, times = view.sources[start:], view.bases, view.times
    for at, source in enumerate(sources, start):
        if isinstance(source, str):
            parts.append({"key": source, "message": view.originals[at]})
        elif parts and isinstance(parts[-1], list) and parts[-1][1] == source:
            parts[-1][1] = source + 1
        else:
            parts.append([source, source + 1])
    return {
        "parts": parts,
        "bases": [[source, bases[source]] for source in sources if source in bases],
        "times": [[at, times[at]] for at in sources if isinstance(at, int) and at in times],
    }


def load_view(stored: Mapping[str, Any], history: Sequence[Item], weights: Weights | None) -> View:
    """The view that `dump_view` was given; an `InvalidPolicy` if this is no such form, or names a message that the history does not have."""
    view = View(weights)
    with state_read("saved.view"):
        for name, stage, text in stored["decisions"]:
            view.decisions[name] = Decision(name, stage, text)
        view.added_texts = {int(at): list(texts) for at, texts in stored["added_texts"]}
        view.whole = dict.fromkeys(stored["whole"])
        view.emptied = set(stored.get("emptied", ()))
        view.unthought = set(stored.get("unthought", ()))
        view.place(_placed(stored["parts"], history))
        view.sent, view.changed_from = stored["sent"], stored["changed_from"]
        view.rewrites = stored["rewrites"]
        view.bases = {source: int(tokens) for source, tokens in stored["bases"]}
        view.times = {int(at): int(came) for at, came in stored.get("times", ())}
    return view


def _placed(parts: Sequence[Any], history: Sequence[Item]) -> list[tuple[int | str, Item]]:
    placed: list[tuple[int | str, Item]] = []
    for part in parts:
        if isinstance(part, Mapping):
            placed.append((str(part["key"]), part["message"]))
            continue
        start, stop = part
        if not 0 <= start <= stop <= len(history):
            raise IndexError(f"messages {start} to {stop} of {len(history)}")
        placed += [(at, history[at]) for at in range(start, stop)]
    return placed


# The state of a conversation as plain JSON, and back; the restored one behaves as the saved one would have.


FORMAT = 1
"""Raised when an older reader could not read it any more."""

RESTED = 2
"""The form of a line that says of a request only that it was made, or of messages only that they count: what that changed follows from the lines before it."""


def dump(machine: Machine, *, history: bool) -> dict[str, Any]:
    """The state as plain JSON; without `history` the host gives the messages back on restoring."""
    prints = machine.prints  # each is taken once
    prints += [_print(item) for item in machine.history[len(prints) :]]
    state = {
        **state_of(machine),
        "fingerprint": _fingerprint(machine.history),
        **told_since(machine, 0, 0),
        "let_go": list(machine.let_go),
        "uuids": [[at, name] for at, name in sorted(machine.view.uuids.items())],
        "prints": "".join(prints),
    }
    return {**state, "history": list(machine.history)} if history else state


def told_since(machine: Machine, reports: int, records: int) -> dict[str, Any]:
    """The account of what happened, from so many reports and requests on, as plain JSON."""
    return {
        "reports": [_report(report) for report in machine.reports[reports:]],
        "records": [
            [*record[:-1], dict(record.by_category)] for record in machine.records[records:]
        ],
    }


def load_account(machine: Machine, stored: Mapping[str, Any]) -> None:
    """Restore what `told_since` returned."""
    machine.reports = [_load_report(row) for row in stored["reports"]]
    machine.records = [RequestRecord(*row) for row in stored["records"]]
    count, newest = stored.get("let_go", (0, 0))
    machine.let_go = int(count), int(newest)


def state_of(machine: Machine) -> dict[str, Any]:
    """The state without messages and without the account of what happened, as plain JSON."""
    machine.settle()
    return {
        "format": FORMAT,
        **_settings_of(machine),
        "view": dump_view(machine.view),
        **_turn_of(machine),
        "states": _states_of(machine),
    }


def _settings_of(machine: Machine) -> dict[str, Any]:
    """What only a host's call or a provider's error changes."""
    changes = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in machine.stated_changes.items()
    }
    return {
        "model": machine.model.name,
        "source": machine.source,
        "provider": machine.provider.name,
        "thinking": None if machine.thinking is None else dict(machine.thinking),
        "policy": {"preset": machine.stated_policy.preset, "changes": changes},
        "stated_window": dict(machine.stated_window),
        "overhead": dict(machine.overhead),
        "tools": sorted(machine.tools),
        "pins": [[pin.name, pin.text, pin.by] for pin in machine.pins.values()],
    }


def _turn_of(machine: Machine) -> dict[str, Any]:
    """What a message or a request changes."""
    tracking, figure, renamed = machine.tracking, machine.figure, machine.call_ids.came_as
    return {
        "count": len(machine.history),
        "tracking": {name: getattr(tracking, name) for name in _TRACKED},
        "requests": machine.requests,
        "recovered": machine.recovered,
        "steps_tried": list(machine.steps_tried),
        "learned_limit": machine.learned_limit,
        "correction": machine.correction.dump(),
        "figure": list(figure) if figure else None,
        **({"renamed": dict(renamed)} if renamed else {}),
    }


_TRACKED = tuple(tracked.name for tracked in dataclasses.fields(Tracking))


def _states_of(machine: Machine) -> dict[str, Any]:
    return {name: state.dump() for name, state in machine.states.items()}


def load(machine: Machine, stored: Mapping[str, Any], history: Sequence[Item] | None) -> None:
    """Put what `dump` gave into a fresh machine of the stored model, policy and source; an `InvalidPolicy` names the field that does not fit.

    `history`: the messages that had been added; more may follow, and count as added since. `None`: those stored.
    """
    if stored.get("format") != FORMAT:
        raise InvalidPolicy("saved.format", stored.get("format"), f"must be {FORMAT}")
    if history is None and (history := stored.get("history")) is None:
        hint = "save(history=True), or pass the messages"
        raise InvalidPolicy("history", None, "is needed: it was not saved", hint=hint)
    machine.call_ids = CallIds(stored.get("renamed"))
    items, count = machine.call_ids.of_all(history), stored["count"]
    same = _same(stored, items, count)
    # What is not there any more is cut off again, when the state that speaks of it is in place.
    held = [*items[:same], *([_REMOVED] * (count - same))]
    set_state(machine, stored, held)
    machine.view.uuids = {int(at): str(name) for at, name in stored.get("uuids", ())}
    load_account(machine, stored)
    if same < count:
        rewind(machine, same)
    for item in items[same:]:
        machine.add(item)


def set_state(machine: Machine, stored: Mapping[str, Any], history: Sequence[Item]) -> None:
    """Put what `state_of` gave into a machine, with the messages that it speaks of."""
    machine.settle()
    machine.touch()
    if not machine.overhead_tokens:
        overhead = stored.get("overhead", {}).items()
        machine.overhead.update({name: int(tokens) for name, tokens in overhead})
    machine.call_ids = CallIds({**machine.call_ids.came_as, **stored.get("renamed", {})})
    machine.history = machine.call_ids.of_all(history)
    del machine.prints[len(history) :]
    machine.view = load_view(stored["view"], machine.history, machine.view.weights)
    machine.pins = {name: Pin(name, text, by) for name, text, by in stored["pins"]}
    machine.tracking = Tracking(**stored["tracking"])
    machine.requests, machine.recovered = stored["requests"], stored["recovered"]
    machine.steps_tried = list(stored["steps_tried"])
    if machine.learned_limit is not None:  # back to the table's window
        machine.learned_limit = None
        machine.set_window(replace(machine.model, context_window=machine.table_window))
    machine.learn(stored["learned_limit"])
    machine.correction = Correction.load(stored["correction"])
    machine.figure = Figure(*stored["figure"]) if stored["figure"] else None
    for level in machine.levels:
        if level.state is not None and level.name in stored["states"]:
            # A copy: a level changes its state in place, and the stored one stays what it was.
            own = deepcopy(stored["states"][level.name])
            machine.states[level.name] = level.state.load(own)


_REMOVED: Item = {"role": "user", "content": "."}


def _same(stored: Mapping[str, Any], items: Sequence[Item], count: int) -> int:
    """How many of the saved messages the history begins with."""
    prints, same = stored.get("prints"), 0
    if len(items) >= count and _fingerprint(items[:count]) == stored.get("fingerprint"):
        same = count
    if isinstance(prints, str) and len(prints) == _PRINT * count:
        own_prints = [prints[at : at + _PRINT] for at in range(0, len(prints), _PRINT)]
        pairs = zip(own_prints, items, strict=False)
        same = next(
            (at for at, (was, item) in enumerate(pairs) if was != _print(item)),
            min(count, len(items)),
        )
    if count and not same:
        limit = f"must begin as the {count:,} messages that were saved"
        raise InvalidPolicy("history", f"{len(items)} messages", limit)
    return same


_PRINT = 12
"""Hex digits of a message's fingerprint."""


def _print(item: Item, digits: int = _PRINT) -> str:
    return hashlib.sha256(as_bytes(item)).hexdigest()[:digits]


def _fingerprint(history: Sequence[Item]) -> str:
    """Of the newest message: enough to tell that a log is another one, or was cut."""
    return _print(history[-1], 16) if history else ""


# ---- policy ----------------------------------------------------------------------------------


def arguments_of(saved: Mapping[str, Any], policy: Policy | str | None) -> dict[str, Any]:
    """Arguments of a manager that goes on from a saved state, which else is an `InvalidPolicy`; `policy`: in place of the saved one."""
    stated = saved.get("policy")
    if not isinstance(stated, Mapping) or "model" not in saved:
        raise InvalidPolicy("saved", type(saved).__name__, "must be the result of save()")
    if policy is None:
        policy = policy_given(stated["preset"]).change(stated["changes"])
    return {
        **{name: saved[name] for name in ("model", "source", "provider")},
        **(saved.get("stated_window") or {}),
        "thinking": saved.get("thinking"),
        "policy": policy,
    }


# ---- reports ---------------------------------------------------------------------------------


def _report(report: StageReport) -> dict[str, Any]:
    # Records were handed out with the request, and the texts in them are in the view.
    names = (item.name for item in dataclasses.fields(report) if item.name != "records")
    values = {name: getattr(report, name) for name in names}
    return {
        name: _plain(value) for name, value in values.items() if value is not None and value != ()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Cost):
        return dataclasses.asdict(value)
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def _load_report(stored: Mapping[str, Any]) -> StageReport:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
    }
    if "cost" in stored:
        values["cost"] = Cost(**stored["cost"])
    values["removed"] = tuple(Span(*span) for span in stored.get("removed", ()))
    for name in ("tokens_before", "tokens_after"):
        values.setdefault(name, 0)
    return StageReport(**values)


ITEM = "ullage-item"
"""Type of the lines for what a transcript cannot express, such as a system message inside the conversation."""

_SUMMARIES = ("autocompact", "compact", SESSION_MEMORY, fold.STAGE, truncate.STAGE)

_SPEAKERS = ("user", "assistant")

Line = dict[str, Any]


Rested = tuple[int, int, int, int | None]
"""A request for which no level had anything to do: messages of the history then, its number, its tokens, the clock."""

_RESTED = ("at", "number", "tokens", "now_ms")


class Since(NamedTuple):
    """What the log holds after the newest line of the state: with it and the messages the conversation is made again."""

    # By the position of its newest message, how many an answer of the model is that was observed.
    answers: dict[int, int]
    rests: list[Rested]


class Journal:
    """Records one conversation in its log, to which this manager alone appends.

    Args:
        owned: Whether closing the manager closes the log.
        record: Whether each request is recorded, for `ullage-check`.
        model: What writes summaries, for the records; empty: code does.

    Attributes:
        state: According to the log; changed in place by the next decision, unless a call holds it.
        holds: Calls that may go back to the state as it was when they began.
        offsets: Where the line of each message that is in the log begins, in bytes; negative: it has none of its own.
        since: What came after the state.
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
        self.reports = self.records = 0
        self.offsets = array("q")
        self.since = Since({}, [])
        self._base = False
        self.holds = 0
        self._mark: ViewMark | None = None
        self._looks = -1
        self.recorder: Recorder | None = None
        self.model = model
        # Writes one line, and says where it begins.
        self._put: Callable[[Line], int] = log.put
        # What each line of a kind carries, in its order; `_line` and `rested` fill in the rest.
        empty = {"type": "user", "message": {"role": "user", "content": ""}}
        self._bare = log.entry({**empty, "uuid": "", "timestamp": "", MARK: {}}, parent=None)
        self._rested = self._head("prepare", RESTED)
        if record:
            from ullage.transcript.record import Recorder

            self.recorder = Recorder()
            self._put = lambda line: self._write([line])[0]

    def goes_on(self, machine: Machine, state: Mapping[str, Any], offsets: Iterable[int]) -> None:
        """The log holds this state already, the machine's account, and messages that begin there."""
        self.offsets = array("q", offsets)
        self.state = dict(state)
        self.reports, self.records = len(machine.reports), machine.record_count

    @property
    def made_uuids(self) -> Mapping[str, str]:
        """Uuids of what levels made, by key."""
        names: Mapping[str, str] = self.state.get("made", {})
        return names

    # ---- writing -----------------------------------------------------------------------------

    def added(self, machine: Machine, *, answer: bool = False) -> bool:
        """Write a message that was just added; False where that takes a line of the state too.

        `answer`: it was observed. Whoever reads the line counts it as an answer again, by `Machine.answered`.

        Raises:
            InvalidMessage: JSON cannot hold it; nothing was written.
            LogConflict: Another process changed the log; nothing was written.
            StoreError: The log could not be written; it is as it was.
        """
        at, count = len(self.offsets), len(machine.history)
        if count - at == 1:
            mark = {"at": at, "answer": True} if answer else {"at": at}
            self.offsets.append(self._put(self._line(machine, at, self.log.leaf, mark)))
        # Of an answer in Anthropic's form thinking is bound to the request, by its newest message alone.
        elif answer and count > at and not machine.provider.internal:
            fields = {"at": count, "messages": count - at}
            lines = [*self._waiting(machine), {**self._head("observe", RESTED), **fields}]
            self.offsets.extend(self._write(lines)[:-1])
        else:
            return False
        if answer:
            self.since.answers[count - 1] = count - at
        return True

    def rested(self, machine: Machine, count: int, tokens: int, now_ms: int | None) -> bool:
        """Write that the newest request was made at rest; False where that takes a line of the state. Errors are those of `added`.

        `count`: messages of the history when it was seen that no level has anything to do; `tokens`: of the request.
        """
        with self.log.one_writer:
            # Another thread may have added since.
            if not count == len(machine.history) == len(self.offsets) or not self._holds(machine):
                return False
            number = machine.requests
            fields = {"at": count, "number": number, "tokens": tokens, "now_ms": now_ms}
            self._put(self._rested | fields)
            self.since.rests.append((count, number, tokens, now_ms))
        return True

    def _holds(self, machine: Machine) -> bool:
        """Whether all but messages and requests at rest is as the newest line of the state says."""
        mark, view = self._mark, machine.view
        if mark is None or not mark.fits(view) or view.stable < mark.messages:
            return False
        return self._looks == machine.looks and len(machine.reports) <= self.reports

    def commit(
        self,
        machine: Machine,
        others: Mapping[str, Any],
        what: str,
        more: Sequence[Line] = (),
        request: Request | None = None,
    ) -> None:
        """Write all that has changed since the last line, if anything has; errors are those of `added`.

        `others`: state of the parts outside of the machine; `what`: which call it was; `more`: lines that go before the state;
        `request`: what was made, to be recorded.
        """
        with self.log.one_writer:
            lines = [*self._waiting(machine), *more]
            machine.settle()
            view, uuids = machine.view, dict[str, str]()
            same_view = self._mark is not None and self._mark.fits(view)
            for report in machine.reports[self.reports :]:
                for one in report.records:
                    lines.append(self.log.entry(one, parent=self._leaf(lines)))
            if not same_view:
                uuids, new = self._lines_of_made(machine, self._leaf(lines))
                lines += new
            change = self._change(machine, others, uuids)
            account = told_since(machine, self.reports, self.records)
            request = request if self.recorder else None
            if not (change or lines or account["reports"] or account["records"] or request):
                return
            head = self._head(what, FORMAT)
            if self._base:
                head["base"] = True
            if what == "begin" and machine.let_go[0]:
                head["let_go"] = list(machine.let_go)
            lines.append({**head, "state": change, **account})
            names = (*self.made_uuids, *uuids)
            record = self._recorded(machine, request, names) if request else None
            starts = self._write(lines, record)
            self.offsets.extend(starts[: len(machine.history) - len(self.offsets)])
            self.state = patch(self.state, change, in_place=not self.holds)
            self._base, self.since = False, Since({}, [])
            self._mark, self._looks = mark_of(view), machine.looks
            self.reports, self.records = len(machine.reports), machine.record_count
        if uuids:  # a compaction must be on the disk
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
        self, machine: Machine, request: Request, uuids: Iterable[str]
    ) -> Callable[[Recorder], Line]:
        """How a request is recorded: as it is sent; where that is another form, as it was before."""
        view, named = machine.view, set(uuids)
        internal = machine.provider.internal
        logged = [
            item for key, item in zip(view.sources, view.messages, strict=True) if key in named
        ]
        acts = [
            [item.stage, item.why, item.tokens_before, item.tokens_after]
            for item in machine.reports[self.reports :]
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
            repairs={item.rule for item in request.repairs},
        )

    def _change(
        self, machine: Machine, others: Mapping[str, Any], uuids: Mapping[str, str]
    ) -> dict[str, Any]:
        """The decision since the newest line: how the state in the log has changed; of the view, at the cost of what did."""
        state = self.state
        if not state:
            return diff({}, {**state_of(machine), **others, "made": {**self.made_uuids, **uuids}})
        view = view_change(machine.view, state["view"], self._mark)
        now = {**_turn_of(machine), **others, **_settings_of(machine)}
        if uuids:
            now["made"] = {**self.made_uuids, **uuids}
        # Summaries of spans come in at any moment.
        if self._looks != machine.looks or machine.policy.collapse.enabled:
            now["states"] = _states_of(machine)
        return _changed_keys(state, now, {"view": view} if view else {})

    def begin(self, machine: Machine, others: Mapping[str, Any], *, base: bool = False) -> None:
        """Write the whole state, with which a manager begins; `base`: its history is what a resume of the log shows up to here."""
        self._base = base
        self.offsets = array("q", [-1] * (len(machine.history) if base else 0))
        self.commit(machine, others, "begin")

    def message(self, at: int) -> Added | None:
        """What the log records about a message of the history; `None`: it has no line of its own."""
        if not 0 <= at < len(self.offsets) or self.offsets[at] < 0:
            return None
        return read_message(self.log, self.offsets[at])

    def item(self, at: int) -> Item | None:
        """A message of the history, equal to what was added; `None`: it has no line of its own."""
        added = self.message(at)
        return None if added is None else added.item

    def trimmed(self, reports: int, records: int) -> None:
        """So many, the oldest of the account, were dropped from memory."""
        self.reports, self.records = self.reports - reports, max(0, self.records - records)

    def rewound(self, count: int) -> None:
        """Only so many messages of the history are left; `without` takes the others out of the transcript's context."""
        del self.offsets[count:]
        if self.recorder is not None:
            self.recorder = self.recorder.again()  # it knows messages that are not there any more

    def close(self) -> None:
        """Close the log, if it is the manager's own."""
        if self.owned:
            self.log.close()

    # ---- messages ----------------------------------------------------------------------------

    def _head(self, what: str, form: int) -> Line:
        return {"type": STATE, "format": form, "what": what, "sessionId": self.log.session_id}

    def _waiting(self, machine: Machine) -> list[Line]:
        """Lines of messages that the log does not hold yet; they count only with a manager's line after them."""
        lines = list[Line]()
        for at in range(len(self.offsets), len(machine.history)):
            lines.append(self._line(machine, at, self._leaf(lines), {"at": at, "waits": True}))
        return lines

    def _leaf(self, lines: Sequence[Line]) -> str | None:
        """The newest entry, with these lines, which is the parent of the next."""
        entries = (line["uuid"] for line in reversed(lines) if "parentUuid" in line)
        return next(entries, self.log.leaf)

    def _line(self, machine: Machine, at: int, parent: str | None, mark: dict[str, Any]) -> Line:
        """For a message that the log does not hold yet."""
        item, view = machine.history[at], machine.view
        uuid, role, came = item.get("uuid"), item.get("role"), view.times.get(at)
        if not isinstance(uuid, str):
            uuid = view.uuids.get(at)
            if not uuid:
                uuid = view.uuids[at] = self._ids()
        if came is not None and role in _SPEAKERS and type(item.get("content")) in (str, list):
            return {
                **self._bare, "parentUuid": parent, "type": role, "message": item,
                "uuid": uuid, "timestamp": iso_of(came), MARK: mark,
            }  # fmt: skip
        named = {"uuid": uuid} if came is None else {"uuid": uuid, "timestamp": iso_of(came)}
        if not _is_talk(item):
            head = {"type": ITEM, **named, "sessionId": self.log.session_id}
            return {**head, "item": item, MARK: mark}
        if "role" in item:
            own: Line = {"type": item["role"], "message": item}
        else:
            own = {key: value for key, value in item.items() if key not in ("parentUuid", MARK)}
            mark["keys"] = list(item)
        return self.log.entry({**own, **named, MARK: mark}, parent=parent)

    # ---- what levels did ---------------------------------------------------------------------

    def _lines_of_made(
        self, machine: Machine, parent: str | None
    ) -> tuple[dict[str, str], list[Line]]:
        """A boundary if the view contains something that no line records yet: a summary, a fold, a mark of a cut. And its new names."""
        view = machine.view
        new = {
            at: key
            for at, key in enumerate(view.sources)
            if isinstance(key, str) and self._is_new(key)
        }
        if not new:
            return {}, []
        after = next((at for at in range(min(new), len(view)) if at not in new), len(view))
        kept_uuids = [
            name for at in range(len(view)) if at not in new and (name := self._name(view, at))
        ]
        group = compaction_lines(
            self.log, _metadata(machine.reports[self.reports :]),
            [without_ids(view.originals[at]) for at in new if at < after], parent=parent,
            kept_entries=KeptEntries(tuple(kept_uuids), before_summary=after == len(view)),
            attachments=[without_ids(view.originals[at]) for at in new if at > after],
        )  # fmt: skip
        names = [str(entry["uuid"]) for entry in group[1:]]
        repeated = session_lines(self.log.transcript(), group)
        lines = [*group, *(self.log.entry(line, parent=None) for line in repeated)]
        return dict(zip(new.values(), names, strict=True)), lines

    def _is_new(self, key: str) -> bool:
        return key.split(":")[0] in _SUMMARIES and key not in self.made_uuids

    def _name(self, view: View, at: int) -> str:
        """What the log calls a message of the view; empty: it is in requests only."""
        key = view.sources[at]
        if isinstance(key, int):
            return view.uuid_at(at)
        if key.isdecimal():  # a message of the history, without its thinking
            return view.uuids.get(int(key), "") or view.uuid_at(at)
        if key.startswith(f"{collapse.STAGE}:"):
            return f"collapse-{key.split(':', 1)[1]}"
        return self.made_uuids.get(key, "")

    @staticmethod
    def names(machine: Machine, positions: Iterable[int]) -> list[str]:
        """What the log calls messages of the history."""
        uuids = machine.view.uuids
        own = ((at, machine.history[at].get("uuid")) for at in positions)
        return [name if isinstance(name, str) else uuids.get(at, "") for at, name in own]

    def without(
        self, uuids: Iterable[str], why: str, shown: Iterable[str] | None = None
    ) -> list[Line]:
        """A line that takes messages out of the transcript's context, by their uuids; none where there are none.

        `shown`: the context after it, where messages come back that a compaction had taken out.
        """
        names = list(filter(None, uuids))
        if not names:
            return []
        record = snip(names, reason=why)
        if shown is not None:
            record["snipMetadata"]["shownUuids"] = list(filter(None, shown))
        return [self.log.entry(record, parent=self.log.leaf)]


def _is_talk(item: Item) -> bool:
    """Whether a transcript has a form for it, and would show it."""
    message = item if "role" in item else message_of(item)
    if message is None:
        return item.get("type") == "attachment" and rendered(item) is not None
    if message.get("role") not in _SPEAKERS:
        return False
    if not isinstance(message.get("content"), str | list):
        return False
    return message is item or item.get("type") in _SPEAKERS


def _metadata(reports: Sequence[StageReport]) -> dict[str, Any]:
    newest = next((report for report in reversed(reports) if report.stage in _SUMMARIES), None)
    if newest is None:
        return boundary_metadata()
    return boundary_metadata(
        trigger="manual" if newest.stage == "compact" else "auto",
        pre_tokens=newest.tokens_before,
        post_tokens=newest.tokens_after,
        messages_summarized=sum(span.stop - span.start for span in newest.removed),
    )


# What a log tells of a context manager: its state, the history, and what came after the newest line of the state.


class Added(NamedTuple):
    """A message as it was added, and what the log calls it."""

    item: Item
    uuid: str
    timestamp: str
    offset: int = -1  # of its line; negative: it has none of its own
    answer: int = 0  # so many messages up to it are one answer of the model, observed after the newest line of the state


class ReadJournal:
    """What was read of a log; one that no manager wrote to has no state.

    Attributes:
        state: As `Journal.state`; empty: no manager has written to this log.
        history: Of that state.
        later: Messages that were added after it.
        rests: Requests that were made after it.
        account: All reports and records of requests so far, for `load_account`.

    Raises:
        InvalidTranscript: A line of a manager's state cannot be read, or is of a newer form; names the line.
    """

    def __init__(self, log: TranscriptLog) -> None:
        self.state: dict[str, Any] = {}
        self.history: list[Added] = []
        self.later: list[Added] = []
        self.rests: list[Rested] = []
        self.account: dict[str, Any] = {"reports": [], "records": [], "let_go": (0, 0)}
        self._log = log
        self._waiting: dict[
            int, Added
        ] = {}  # written, and not yet followed by the line that makes them count
        for number, (start, line) in enumerate(_lines(log), 1):
            if MARK_BYTES not in line and STATE_BYTES not in line:
                continue
            try:
                self._take(_parsed(line), start)
            except (KeyError, TypeError, ValueError, AttributeError) as exc:
                stated = isinstance(exc, ValueError)
                why = str(exc) if stated else "a part is missing or of another type"
                raise InvalidTranscript(
                    f"the manager's state cannot be read: {why}", path=log.name, line=number,
                    hint="resume the transcript without it: ullage.resume",
                ) from exc  # fmt: skip

    @property
    def unfinished(self) -> list[str]:
        """Uuids of entries that an unfinished write left: they count as never written."""
        return [added.uuid for added in self._waiting.values()]

    def _take(self, entry: Mapping[str, Any], start: int) -> None:
        mark = entry.get(MARK)
        if entry.get("type") != STATE:
            if isinstance(mark, dict) and "at" in mark:
                added = _added(entry, start)
                if mark.get("waits"):
                    self._waiting[mark["at"]] = added
                elif mark["at"] == len(self.history) + len(self.later):
                    self.later.append(added)
        elif entry["format"] == FORMAT:
            self._take_state(entry, start)
        elif entry["format"] != RESTED:
            form = entry["format"]
            raise ValueError(f"its form is {form!r}, this version reads up to {RESTED}")
        elif "messages" in entry:
            self._take_answer(entry["at"], entry["messages"])
        else:
            self._take_rest(*(entry[name] for name in _RESTED))

    def _take_state(self, entry: Mapping[str, Any], start: int) -> None:
        self.state = patch(self.state, entry["state"], in_place=True)
        if entry.get("base"):
            # The context of the transcript that a manager began with, as the log was up to this line.
            self.history = [
                Added(item, str(item.get("uuid", "")), str(item.get("timestamp", "")))
                for item in Transcript.from_bytes(self._log.head(start)).conversation.entries
            ]
        # Not copied: each turn has a line like this.
        history = self.history
        history += self.later
        for at in sorted(self._waiting):
            if at == len(history):
                history.append(self._waiting[at])
        self._waiting.clear()
        count = self.state["count"]
        if len(history) < count:
            raise ValueError(f"{count - len(history)} of {count} messages are missing")
        del history[count:]
        self.later, self.rests = [], []
        self.account["reports"] += entry.get("reports", ())
        self.account["records"] += entry.get("records", ())
        self.account["let_go"] = entry.get("let_go", self.account["let_go"])

    def _take_rest(self, at: int, number: int, tokens: int, now_ms: int | None) -> None:
        """A request that was made at rest; a `ValueError` where a line before it is missing. What was taken back before it does not count."""
        self._go_back_to(at)
        while self.rests and self.rests[-1][1] >= number:
            self.rests.pop()
        requests = self.state["requests"] + len(self.rests)
        if number != requests + 1:
            raise ValueError(f"request {number} follows request {requests}")
        self.rests.append((at, number, tokens, now_ms))

    def _take_answer(self, at: int, count: int) -> None:
        """So many messages up to there are one answer, and count; errors as of `_take_rest`."""
        self._go_back_to(at - count)
        messages = [self._waiting[place] for place in range(at - count, at)]
        self._waiting.clear()
        self.later += [*messages[:-1], messages[-1]._replace(answer=count)]

    def _go_back_to(self, count: int) -> None:
        """Only so many messages count: others were taken back."""
        least, most = len(self.history), len(self.history) + len(self.later)
        if not least <= count <= most:
            raise ValueError(f"it tells of {count} messages, there are {most}")
        del self.later[count - least :]


MARK_BYTES, STATE_BYTES = f'"{MARK}":'.encode(), f'"{STATE}"'.encode()


def read_message(log: TranscriptLog, offset: int) -> Added:
    """The message in the line at an offset, in bytes; an `InvalidTranscript` if there is none."""
    entry = _parsed(log.line_at(offset))
    if not isinstance(entry.get(MARK), dict):
        raise InvalidTranscript(
            f"no message of the conversation is at byte {offset}", path=log.name,
            hint="the log was changed: ullage.resume shows what is left",
        )  # fmt: skip
    return _added(entry, offset)


def _added(entry: Mapping[str, Any], offset: int) -> Added:
    stamp, uuid, mark = entry.get("timestamp"), str(entry.get("uuid", "")), entry[MARK]
    keys = mark.get("keys")
    if entry["type"] == ITEM:
        item: Item = entry["item"]
    elif keys is None:
        item = entry["message"]
    else:
        item = {key: entry[key] for key in keys if key in entry}
    stamp = stamp if isinstance(stamp, str) else ""
    return Added(item, uuid, stamp, offset, int(mark.get("answer") is True))


def _lines(log: TranscriptLog) -> Iterator[tuple[int, bytes]]:
    """Whole lines with the position where each begins; an incomplete last line does not count."""
    start = 0
    for line in log.lines():
        # Whole but for its end: the next write gives it one.
        if line.endswith(b"\n") or _parsed(line):
            yield start, line
        start += len(line)


def _parsed(line: bytes) -> Mapping[str, Any]:
    entry = parse_line(line)
    return entry if isinstance(entry, dict) else {}


def ms_of(timestamp: str) -> int | None:
    """Milliseconds since the epoch; `None`: it is no time."""
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return round(moment.timestamp() * 1000)


# A saved state and what has changed since, for hosts that save after each turn.


def change_of(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What `with_changes` makes the later state of, from the earlier one."""
    return {"since": _saved_changes_print(before), "change": diff(before, now)}


def with_changes(saved: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The state that `ContextManager.save` gave last.

    Args:
        saved: A state, or a list of one and of the changes since, each of which follows the one before.

    Raises:
        InvalidPolicy: A change is missing, or belongs to another state; names its place.
    """
    if isinstance(saved, Mapping):
        return saved
    if not saved:
        raise InvalidPolicy("saved", [], "must begin with a result of save()")
    state, *changes = saved
    for at, change in enumerate(changes, 1):
        limit = "must be the change since the one before it: save(since=...)"
        if change.get("since") != _saved_changes_print(state):
            raise InvalidPolicy(f"saved[{at}].since", change.get("since"), limit)
        try:
            state = patch(state, change["change"])
        except (KeyError, TypeError, ValueError) as exc:
            raise InvalidPolicy(f"saved[{at}]", type(exc).__name__, limit) from exc
    return state


def _saved_changes_print(state: Mapping[str, Any]) -> str:
    try:
        body = orjson.dumps(state, option=orjson.OPT_SORT_KEYS, default=repr)
    except orjson.JSONEncodeError:  # lone surrogates, integers over 64 bits
        body = json.dumps(state, sort_keys=True, default=repr).encode()
    return hashlib.blake2b(body, digest_size=6).hexdigest()

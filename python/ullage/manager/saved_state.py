"""The state of a conversation as plain JSON, and back; the restored one behaves as the saved one would have."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ullage._late import hashlib, orjson
from ullage.counting.calibration import Correction
from ullage.exceptions import InvalidPolicy
from ullage.levels.cost import Cost
from ullage.levels.pins import Pin
from ullage.levels.report import Span, StageReport
from ullage.levels.view_state import dump_view, load_view
from ullage.manager.call_ids import CallIds
from ullage.manager.due import Tracking
from ullage.manager.explain import RequestRecord
from ullage.manager.figures import Figure
from ullage.manager.machine import Machine
from ullage.manager.rewind import rewind
from ullage.messages import Item
from ullage.policy import Policy

__all__ = [
    "FORMAT",
    "dump",
    "load",
    "load_account",
    "policy_of",
    "set_state",
    "state_of",
    "told_since",
]

FORMAT = 1
"""Raised when an older reader could not read it any more."""


def dump(machine: Machine, *, history: bool) -> dict[str, Any]:
    """The state as plain JSON.

    Args:
        machine: Not changed.
        history: Put the messages in; without them the host gives them back on restoring.
    """
    found = {
        **state_of(machine),
        **told_since(machine, 0, 0),
        "let_go": list(machine.let_go),
        "uuids": [[at, name] for at, name in sorted(machine.view.uuids.items())],
        "prints": "".join(_prints(machine)),
    }
    return {**found, "history": list(machine.history)} if history else found


def told_since(machine: Machine, reports: int, records: int) -> dict[str, Any]:
    """The account of what happened, from so many reports and requests on, as plain JSON."""
    return {
        "reports": [_report(report) for report in machine.reports[reports:]],
        "records": [record.dump() for record in machine.records[records:]],
    }


def load_account(machine: Machine, stored: Mapping[str, Any]) -> None:
    """Restore what `told_since` returned.

    Raises:
        InvalidPolicy: It is no such account.
    """
    try:
        machine.reports = [_load_report(each) for each in stored["reports"]]
        machine.records = [RequestRecord.load(each) for each in stored["records"]]
        count, newest = stored.get("let_go", (0, 0))
        machine.let_go = int(count), int(newest)
    except (KeyError, TypeError, ValueError) as exc:
        raise InvalidPolicy("saved", type(exc).__name__, f"cannot be read: {exc}") from exc


def state_of(machine: Machine, view: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The state without messages and without the account of what happened, as plain JSON.

    Args:
        machine: Not changed.
        view: Its view, where it was dumped already.
    """
    machine.settle()
    return {
        "format": FORMAT,
        "model": machine.model.name,
        "source": machine.source,
        "provider": machine.provider.name,
        "thinking": None if machine.thinking is None else dict(machine.thinking),
        "policy": _changes(machine),
        "stated_window": machine.stated_window,
        "overhead": dict(machine.overhead),
        "tools": sorted(machine.tools),
        "count": len(machine.history),
        "fingerprint": _fingerprint(machine.history),
        "view": dump_view(machine.view) if view is None else view,
        "pins": [[pin.name, pin.text, pin.by] for pin in machine.pins.values()],
        "tracking": dataclasses.asdict(machine.tracking),
        "requests": machine.requests,
        "recovered": machine.recovered,
        "steps_tried": list(machine.steps_tried),
        "learned_limit": machine.learned_limit,
        "correction": machine.correction.dump(),
        "figure": list(machine.figure) if machine.figure else None,
        "states": {name: state.dump() for name, state in machine.states.items()},
        **({"renamed": dict(machine.call_ids.given)} if machine.call_ids.given else {}),
    }


def load(machine: Machine, stored: Mapping[str, Any], history: Sequence[Item] | None) -> None:
    """Put a stored state into a fresh machine.

    Args:
        machine: Made with the stored model, policy and source.
        stored: What `dump` gave.
        history: The messages that had been added; more may follow, and count as added since. `None`: those stored.

    Raises:
        InvalidPolicy: Not such a form, of a newer one, or the history is another; names the field.
    """
    items = _history(machine, stored, history)
    count = stored["count"]
    same = _same(stored, items, count)
    # What is not there any more is cut off again, when the state that speaks of it is in place.
    held = [*items[:same], *([_GONE] * (count - same))]
    set_state(machine, stored, held)
    machine.view.uuids = {int(at): str(name) for at, name in stored.get("uuids", ())}
    load_account(machine, stored)
    if same < count:
        rewind(machine, same)
    for item in items[same:]:
        machine.add(item)


def set_state(machine: Machine, stored: Mapping[str, Any], history: Sequence[Item]) -> None:
    """Put what `state_of` gave into a machine, with the messages that it speaks of.

    Raises:
        InvalidPolicy: It is no such state; names the field.
    """
    machine.settle()
    machine.rest = None
    if not machine.overhead_tokens:
        machine.overhead.update(stored.get("overhead", {}))
    try:
        machine.call_ids = CallIds({**machine.call_ids.given, **stored.get("renamed", {})})
        machine.history = machine.call_ids.of_all(history)
        machine.view = load_view(stored["view"], machine.history, machine.view.weights)
        machine.pins = {name: Pin(name, text, by) for name, text, by in stored["pins"]}
        machine.tracking = Tracking(**stored["tracking"])
        machine.requests, machine.recovered = stored["requests"], stored["recovered"]
        machine.steps_tried = list(stored["steps_tried"])
        machine.unlearn()
        machine.learn(stored["learned_limit"])
        machine.correction = Correction.load(stored["correction"])
        machine.figure = Figure(*stored["figure"]) if stored["figure"] else None
        for level in machine.levels:
            if level.state is not None and level.name in stored["states"]:
                machine.states[level.name] = level.state.load(stored["states"][level.name])
    except (KeyError, TypeError, ValueError) as exc:
        if isinstance(exc, InvalidPolicy):
            raise
        raise InvalidPolicy("saved", type(exc).__name__, f"cannot be read: {exc}") from exc


def _history(
    machine: Machine, stored: Mapping[str, Any], history: Sequence[Item] | None
) -> Sequence[Item]:
    if stored.get("format") != FORMAT:
        raise InvalidPolicy("saved.format", stored.get("format"), f"must be {FORMAT}")
    items = stored.get("history") if history is None else history
    if items is None:
        hint = "save(history=True), or pass the messages"
        raise InvalidPolicy("history", None, "is needed: it was not saved", hint=hint)
    machine.call_ids = CallIds(stored.get("renamed"))
    return machine.call_ids.of_all(items)


_GONE: Item = {"role": "user", "content": "."}


def _same(stored: Mapping[str, Any], items: Sequence[Item], count: int) -> int:
    """How many of the saved messages the history begins with."""
    prints, same = stored.get("prints"), 0
    if len(items) >= count and _fingerprint(items[:count]) == stored.get("fingerprint"):
        same = count
    if isinstance(prints, str) and len(prints) == _PRINT * count:
        known = [prints[at : at + _PRINT] for at in range(0, len(prints), _PRINT)]
        pairs = zip(known, items, strict=False)
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


def _prints(machine: Machine) -> list[str]:
    """Of all messages; each is taken once."""
    known = machine.prints
    known += [_print(item) for item in machine.history[len(known) :]]
    return known


def _print(item: Item) -> str:
    return hashlib.sha256(_body(item)).hexdigest()[:_PRINT]


def _body(item: Item) -> bytes:
    try:
        return orjson.dumps(item, default=repr, option=orjson.OPT_NON_STR_KEYS)
    except (orjson.JSONEncodeError, RecursionError):  # lone surrogates, integers over 64 bits
        return repr(item).encode("utf-8", "surrogatepass")


def _fingerprint(history: Sequence[Item]) -> str:
    """Of the newest message: enough to tell that a log is another one, or was cut."""
    if not history:
        return ""
    return hashlib.sha256(_body(history[-1])).hexdigest()[:16]


# ---- policy ----------------------------------------------------------------------------------


def _changes(machine: Machine) -> dict[str, Any]:
    """The stated policy as its preset and what differs from it."""
    changes = machine.stated_changes.items()
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in changes}
    return {"preset": machine.stated_policy.preset, "changes": plain}


def policy_of(stored: Mapping[str, Any]) -> Policy:
    """The policy that `_changes` described."""
    base = Policy.ladder() if stored["preset"] == "ladder" else Policy.buffered()
    return base.change(stored["changes"])


# ---- reports ---------------------------------------------------------------------------------


def _report(report: StageReport) -> dict[str, Any]:
    fields = {each.name: getattr(report, each.name) for each in dataclasses.fields(report)}
    cost = fields.pop("cost")
    # They were handed out with the request, and the texts in them are in the view.
    del fields["records"]
    found = {
        name: _plain(value) for name, value in fields.items() if value is not None and value != ()
    }
    return {**found, "cost": dataclasses.asdict(cost)} if cost is not None else found


def _plain(value: Any) -> Any:
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _load_report(stored: Mapping[str, Any]) -> StageReport:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
    }
    if "cost" in stored:
        values["cost"] = Cost.load(stored["cost"])
    values["removed"] = tuple(Span(*span) for span in stored.get("removed", ()))
    for name in ("tokens_before", "tokens_after"):
        values.setdefault(name, 0)
    return StageReport(**values)

"""The state of a conversation as plain JSON, and back; the restored one behaves as the saved one would have."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from ullage.calibration import Correction
from ullage.context.call_ids import CallIds
from ullage.context.explain import RequestRecord
from ullage.context.machine import Figure, Machine, Tracking
from ullage.cost import Cost
from ullage.exceptions import InvalidPolicy
from ullage.pins import Pin
from ullage.policy import Policy
from ullage.stages.report import Span, StageReport
from ullage.stages.stored import dump_view, load_view

__all__ = ["FORMAT", "changes_of", "dump", "load", "policy_of"]

FORMAT = 1
"""Raised when an older reader could not read it any more."""

Item = Mapping[str, Any]


def dump(machine: Machine, *, history: bool) -> dict[str, Any]:
    """The state as plain JSON.

    Args:
        machine: Not changed.
        history: Put the messages in; without them the host gives them back on restoring.
    """
    found = {
        "format": FORMAT,
        "model": machine.model.name,
        "source": machine.source,
        "provider": machine.provider,
        "thinking": None if machine.thinking is None else dict(machine.thinking),
        "policy": changes_of(machine.stated_policy),
        "stated_window": machine.stated_window,
        "overhead": dict(machine.overhead),
        "tools": sorted(machine.tools),
        "count": len(machine.history),
        "fingerprint": _fingerprint(machine.history),
        "view": dump_view(machine.view),
        "reports": [_report(report) for report in machine.reports],
        "records": [record.dump() for record in machine.records],
        "pins": [[pin.name, pin.text, pin.by] for pin in machine.pins.values()],
        "tracking": dataclasses.asdict(machine.tracking),
        "requests": machine.requests,
        "recovered": machine.recovered,
        "steps_tried": list(machine.steps_tried),
        "learned_limit": machine.learned_limit,
        "correction": machine.correction.dump(),
        "figure": list(machine.figure) if machine.figure else None,
        "states": {name: state.dump() for name, state in machine.states.items()},
    }
    return {**found, "history": list(machine.history)} if history else found


def load(machine: Machine, stored: Mapping[str, Any], history: Sequence[Item] | None) -> None:
    """Put a stored state into a fresh machine.

    Args:
        machine: Made with the stored model, policy and source.
        stored: What `dump` gave.
        history: The messages that had been added; more may follow, and count as added since. `None`: those stored.

    Raises:
        InvalidPolicy: Not such a form, of a newer one, or the history is another; names the field.
    """
    items = _history(stored, history)
    if not machine.overhead_tokens:
        machine.overhead.update(stored.get("overhead", {}))
    count = stored["count"]
    try:
        machine.history = machine.call_ids.of_all(items[:count])
        machine.view = load_view(stored["view"], machine.history, machine.view.weights)
        machine.reports = [_load_report(each) for each in stored["reports"]]
        machine.records = [RequestRecord.load(each) for each in stored["records"]]
        machine.pins = {name: Pin(name, text, by) for name, text, by in stored["pins"]}
        machine.tracking = Tracking(**stored["tracking"])
        machine.requests, machine.recovered = stored["requests"], stored["recovered"]
        machine.steps_tried = list(stored["steps_tried"])
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
    for item in items[count:]:
        machine.add(item)


def _history(stored: Mapping[str, Any], history: Sequence[Item] | None) -> Sequence[Item]:
    if stored.get("format") != FORMAT:
        raise InvalidPolicy("saved.format", stored.get("format"), f"must be {FORMAT}")
    items = stored.get("history") if history is None else history
    if items is None:
        hint = "save(history=True), or pass the messages"
        raise InvalidPolicy("history", None, "is needed: it was not saved", hint=hint)
    items, count = CallIds().of_all(items), stored.get("count", 0)
    if len(items) < count or _fingerprint(items[:count]) != stored.get("fingerprint"):
        limit = f"must begin with the {count:,} messages that were saved"
        raise InvalidPolicy("history", f"{len(items)} messages", limit)
    return items


def _fingerprint(history: Sequence[Item]) -> str:
    """Of the newest message: enough to tell that a log is another one, or was cut."""
    if not history:
        return ""
    body = orjson.dumps(history[-1], default=repr, option=orjson.OPT_NON_STR_KEYS)
    return hashlib.sha256(body).hexdigest()[:16]


# ---- policy ----------------------------------------------------------------------------------


def changes_of(policy: Policy) -> dict[str, Any]:
    """A policy as its preset and what differs from it."""
    base = Policy.ladder() if policy.preset == "ladder" else Policy.buffered()
    changed = {
        now.name: list(now.value) if isinstance(now.value, tuple) else now.value
        for now, then in zip(policy.effective(), base.effective(), strict=True)
        if now.value != then.value
    }
    return {"preset": policy.preset, "changes": changed}


def policy_of(stored: Mapping[str, Any]) -> Policy:
    """The policy that `changes_of` was given."""
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

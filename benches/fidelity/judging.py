"""Judges requests: translated, repaired as `ullage resume` does, then by the rules and by the second checker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from tests.oracle.legality import assert_legal
from ullage.requests.to_request import Outgoing, outgoing, rules_model

__all__ = ["Account", "judge_shape", "same"]

SHOWN = 20
NEXT: dict[str, Any] = {
    "gemini": {"role": "user", "parts": [{"text": "go on"}]},
    "bedrock": {"role": "user", "content": [{"text": "go on"}]},
}


@dataclass
class Account:
    """What was found; `shown` holds the first few faults in words."""

    counts: Counter[str] = field(default_factory=Counter)
    acted: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    shown: list[str] = field(default_factory=list)

    def fault(self, what: str, detail: str) -> None:
        self.faults[what] += 1
        if len(self.shown) < SHOWN:
            self.shown.append(f"{what}: {detail}")

    def add(self, other: Account) -> None:
        """Takes in what another has counted."""
        for each in fields(self):
            mine, found = getattr(self, each.name), getattr(other, each.name)
            mine.extend(found) if isinstance(mine, list) else mine.update(found)


def same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def judge_shape(
    result: Sequence[Any],
    shape: str,
    name: str,
    account: Account,
    *,
    place: str,
    model: str | None,
    second: bool,
) -> bool:
    """Whether something had to be repaired. What is left after it is what `ullage.validate` says of the request."""
    account.counts["requests"] += 1
    sent = outgoing(result, provider=shape, model=model)
    for found in sent.left:
        account.fault(f"{name}, {shape}: {found.rule}", f"{place}: {found.detail}")
    if second:
        account.counts["judged twice"] += 1
        _second(sent, account, f"{name}, {shape}", place, rules_model(model, shape))
    return bool(sent.repairs)


def _second(sent: Outgoing, account: Account, what: str, place: str, model: str | None) -> None:
    following = (
        [NEXT.get(sent.provider, {"role": "user", "content": "go on"})] if sent.awaits_user else []
    )
    more = {key: value for key, value in sent.parts.items() if key == "toolConfig"}
    try:
        assert_legal(sent.provider, [*sent.messages, *following], model=model, window=0, **more)
    except AssertionError as exc:
        account.fault(f"{what}: checker", f"{place}: {exc}")

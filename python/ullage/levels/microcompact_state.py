"""What microcompact remembers: what it cleared, whether that is fetched again, and how large the context was after a pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from ullage._late import hashlib, orjson
from ullage.levels.view import Result, View

__all__ = ["Micro", "call_key", "fingerprint"]

ENOUGH_CLEARED = 4
"""Cleared results from which a share of them says something."""

MOST_CAUTION = 8


@dataclass(slots=True)
class Micro:
    """State of the level.

    Attributes:
        cleared: Tool use id of each cleared result, by the fingerprint of its call.
        count: How many were cleared since caution changed last.
        refetched: How many of them were fetched again.
        caution: How many times more of the newest results are protected; 1: as the policy says.
        floor_tokens: Size of the context after the newest pass; 0: there was none.
        looked_tokens: Size of the context when all results were looked at last; 0: never.
        edits: Tool uses that were named for the host's cache edits (MIC-2).
    """

    cleared: dict[str, str] = field(default_factory=dict)
    count: int = 0
    refetched: int = 0
    caution: int = 1
    floor_tokens: int = 0
    looked_tokens: int = 0
    edits: list[str] = field(default_factory=list)

    def dump(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)

    @classmethod
    def load(cls, stored: Any) -> Self:
        """What `dump` gave."""
        return cls(**stored)

    def watch(self, view: View, start: int) -> None:
        """Count what was fetched again, among the results of messages from `start` on."""
        for result in view.results(start) if self.cleared else ():
            name = fingerprint(result)
            if self.cleared.get(name, result.id) != result.id:
                del self.cleared[name]
                self.refetched += 1

    def weigh(self, refetch_percent: int) -> int:
        """The caution for the next pass (MIC-6): doubled where too much came back, halved again where little does."""
        if self.count >= ENOUGH_CLEARED:
            share = 100 * self.refetched // self.count
            if share >= refetch_percent:
                self._set(min(MOST_CAUTION, self.caution * 2))
            elif 2 * share < refetch_percent and self.caution > 1:
                self._set(self.caution // 2)
        return self.caution

    def _set(self, caution: int) -> None:
        self.caution, self.count, self.refetched = caution, 0, 0

    def passed(self, results: Iterable[Result], tokens: int) -> None:
        """Take in what a pass cleared."""
        new = {fingerprint(result): result.id for result in results}
        self.cleared.update(new)
        self.count += len(new)
        self.floor_tokens = tokens


def call_key(result: Result) -> bytes:
    """Of the call that a result answers: the same tool with the same input."""
    try:
        given = orjson.dumps(
            dict(result.given), default=repr, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
        )
    except TypeError:  # what strict JSON cannot hold: large integers, lone surrogates, depth
        given = repr(sorted(result.given.items(), key=repr)).encode("utf-8", "replace")
    return result.tool.encode("utf-8", "replace") + b"\0" + given


def fingerprint(result: Result) -> str:
    """`call_key`, short enough to be kept."""
    return hashlib.sha256(call_key(result)).hexdigest()[:16]

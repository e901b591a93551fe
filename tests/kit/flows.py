"""Performers of a compaction's effects for which no wait takes time."""

from __future__ import annotations

from typing import Any

from ullage.compaction.effects_runner import AsyncPerformer, Performer


class Unhurried(Performer):
    """Notes for how long it would have waited."""

    def __init__(self, *listening: Any) -> None:
        super().__init__(*listening)
        self.waits: list[float] = []

    def _pause(self, seconds: float) -> None:
        self.waits.append(seconds)


class UnhurriedAsync(AsyncPerformer):
    """The same for an event loop."""

    async def _pause(self, seconds: float) -> None:
        pass

"""The last step before a request leaves: what the provider would refuse is mended, in the request only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ullage.compaction import CompactionResult
from ullage.context.machine import Machine
from ullage.context.values import Request
from ullage.pipeline import Extras
from ullage.repair import repair
from ullage.stages.report import StageReport

__all__ = ["Outgoing"]


class Outgoing:
    """Makes requests of a view, legal for their provider."""

    def __init__(self) -> None:
        self._previous: Sequence[Any] = ()
        self._count = 0

    def request(
        self,
        machine: Machine,
        reports: Sequence[StageReport],
        compaction: CompactionResult | None,
        extras: Extras,
    ) -> Request:
        """The request as it stands; from now on it counts as sent."""
        items, count = machine.view.snapshot()
        cut = any(report.removed_messages for report in machine.reports)
        done = repair(items, model=machine.model.name, original=machine.history if cut else None)
        sent = done.messages
        if sent is not items:
            count = len(sent)
        changed = self._changed(machine.view.mark_sent(), sent, count)
        machine.requests += 1
        return Request(
            sent,
            count,
            number=machine.requests,
            tokens=machine.tokens,
            reports=reports,
            compaction=compaction,
            repairs=done.repairs,
            params={**extras.params, **done.params},
            headers=extras.headers,
            tools=extras.tools,
            rewritten_from=changed,
        )

    def _changed(self, view_changed: int | None, sent: Sequence[Any], count: int) -> int | None:
        del view_changed
        before, length = self._previous, self._count
        self._previous, self._count = sent, count
        for at in range(length):
            if at >= count or (sent[at] is not before[at] and sent[at] != before[at]):
                return at
        return None

"""The last step before a request leaves: what the provider would refuse is mended, in the request only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ullage.compaction import CompactionResult
from ullage.context.explain import RequestRecord
from ullage.context.machine import Machine
from ullage.context.values import Request
from ullage.pipeline import Extras
from ullage.repair import Repairer
from ullage.stages.report import StageReport

__all__ = ["Outgoing"]


class Outgoing:
    """Makes requests of a view, legal for their provider; a legal view costs what is new in it.

    Args:
        model: Name of the model.
        system: The system prompt; only looked at.
        tools: Tool definitions; only looked at.
    """

    def __init__(self, *, model: str, system: Any = None, tools: Sequence[Any] = ()) -> None:
        # The manager itself sees to the window, which may be another than the one the table knows (A24).
        facts = {"skip": ("A24",)}
        self._repairer = Repairer(
            model=model, system=system, tools=list(tools) or None, facts=facts
        )
        self._previous: Sequence[Any] = ()
        self._count = 0

    def request(
        self,
        machine: Machine,
        reports: Sequence[StageReport],
        compaction: CompactionResult | None,
        extras: Extras,
        now_ms: int | None = None,
    ) -> Request:
        """The request as it stands; from now on it counts as sent."""
        items, count = machine.view.snapshot()
        done = self._repairer.repair(items, ledger=machine.view.ledger)
        sent = done.messages
        if sent is not items:
            count = len(sent)
        changed = self._changed(machine.view.mark_sent(), sent, count)
        machine.requests += 1
        machine.records.append(_record(machine, count, now_ms))
        return Request(
            sent,
            count,
            number=machine.requests,
            tokens=machine.records[-1].tokens,
            reports=reports,
            compaction=compaction,
            repairs=done.repairs,
            params={**extras.params, **done.params},
            headers=extras.headers,
            tools=extras.tools,
            applied_edits=extras.applied_edits,
            cache_edits=extras.cache_edits,
            rewritten_from=changed,
        )

    def observe(self, message: Any) -> None:
        """An answer to the newest request: what it thought is bound to that request."""
        self._repairer.observe(message)

    def remember(self, machine: Machine) -> None:
        """What a restored conversation had sent last, as far as it still stands."""
        view = machine.view
        if machine.requests and view.changed_from is None:
            self._previous, self._count = list(view.messages[: view.sent]), view.sent

    def _changed(self, in_view: int | None, sent: Sequence[Any], count: int) -> int | None:
        """First message that is not what was sent before.

        Only where something was mended, now or last time, must the lists be compared.
        """
        before, length = self._previous, self._count
        self._previous, self._count = sent, count
        if sent is before and in_view is None:
            return None
        end = length if in_view is None else min(in_view, length)
        for at in range(end):
            if at >= count or (sent[at] is not before[at] and sent[at] != before[at]):
                return at
        return in_view


def _record(machine: Machine, messages: int, now_ms: int | None) -> RequestRecord:
    usage = machine.usage()
    return RequestRecord(
        machine.requests, messages, len(machine.history), usage.tokens, now_ms, usage.by_category
    )

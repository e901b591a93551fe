"""Ledgers of what may be no conversation: an item that cannot be read is a finding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ullage._engine import core
from ullage.exceptions import InvalidMessage
from ullage.legality.findings import Violation

__all__ = ["read_ledger"]


def read_ledger(messages: Iterable[Any], rule: str) -> tuple[Any, list[Violation]]:
    """A ledger of the messages, and findings under `rule`: items that cannot be read at all, which are left out."""
    items = messages if isinstance(messages, list) else list(messages)
    try:
        return core.Ledger(None, items), []
    except InvalidMessage:
        ledger = core.Ledger(None)
    appended = (_appended(ledger, index, item, rule) for index, item in enumerate(items))
    return ledger, [found for each in appended for found in each]


def _appended(ledger: Any, index: int, item: Any, rule: str) -> Iterator[Violation]:
    try:
        ledger.append(item)
    except InvalidMessage as exc:
        field = f"{exc.field}: " if exc.field else ""
        yield Violation(rule, "error", index, -1, f"{field}{exc.reason}")
        ledger.append({"type": "unreadable"})

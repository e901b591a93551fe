"""What a session cost, by the usage figures that its file holds and the model table's prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ullage.counting.models import ModelTable
from ullage.messages import Item, message_of
from ullage.sessions.load import Session

__all__ = ["Spending", "spending_of"]

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Spending:
    """Tokens as the provider reported them, and their price.

    Attributes:
        input_tokens: Prompt tokens that no cache held.
        output_tokens: Tokens of the responses.
        cache_read_tokens: Prompt tokens that were read from a cache.
        cache_write_tokens: Prompt tokens that were written to one.
        dollars: Their price; `None`: no response has both a figure and a model with known prices.
        unpriced: Responses with a figure whose model has no known prices: `dollars` leaves them out.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    dollars: Decimal | None = None
    unpriced: int = 0


def spending_of(session: Session, table: ModelTable | None = None) -> Spending:
    """What all requests of a session took, those before a compaction and those of sub-agents in its file included.

    Args:
        session: From `open_session`.
        table: Prices; `None`: the built-in table.
    """
    lines = session.transcript.entries() if session.transcript else session.history or session.items
    table = table or ModelTable.builtin()
    found = Spending()
    for usage, model in _responses(lines):
        found = _added(found, usage, model or session.model, table)
    return found


def _responses(lines: Iterable[Item]) -> list[tuple[Mapping[str, Any], str]]:
    """Each response's newest figure: pieces of one response repeat it under one id."""
    found: dict[str, tuple[Mapping[str, Any], str]] = {}
    for at, line in enumerate(lines):
        message = message_of(line) or {}
        usage, model = message.get("usage"), message.get("model")
        if isinstance(usage, Mapping) and model != "<synthetic>":
            key = message.get("id")
            name = model if isinstance(model, str) else ""
            found[key if isinstance(key, str) else f"#{at}"] = (usage, name)
    return list(found.values())


def _added(sum_: Spending, usage: Mapping[str, Any], model: str, table: ModelTable) -> Spending:
    fresh, output = _tokens(usage, "input_tokens"), _tokens(usage, "output_tokens")
    read, write = (
        _tokens(usage, "cache_read_input_tokens"),
        _tokens(usage, "cache_creation_input_tokens"),
    )
    row = table.find(model) if model else None
    prices = row.prices_at(fresh + read + write) if row else None
    dollars, unpriced = sum_.dollars, sum_.unpriced
    if prices is None:
        unpriced += 1
    else:
        split = usage.get("cache_creation")
        hour = _tokens(split, "ephemeral_1h_input_tokens") if isinstance(split, Mapping) else 0
        hour = min(hour, write)
        cost = fresh * prices.input + output * prices.output + read * prices.cache_read
        cost += hour * prices.cache_write_1h + (write - hour) * prices.cache_write_5m
        dollars = (dollars or Decimal(0)) + cost / _MILLION
    return Spending(
        sum_.input_tokens + fresh,
        sum_.output_tokens + output,
        sum_.cache_read_tokens + read,
        sum_.cache_write_tokens + write,
        dollars,
        unpriced,
    )


def _tokens(usage: Mapping[str, Any], key: str) -> int:
    value = usage.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

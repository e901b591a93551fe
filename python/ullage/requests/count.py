"""What one request weighs: tokens of all its parts, bytes, images (TOK-6)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from ullage._engine import core
from ullage.counting.estimate import DEFAULT_MODEL, weights_for
from ullage.counting.models import Model, ModelTable
from ullage.messages import Item, SystemPrompt
from ullage.requests import wording

__all__ = ["Overrun", "RequestCount", "count_request"]

Basis = Literal["usage", "estimate", "exact"]


@dataclass(frozen=True, slots=True)
class Overrun:
    """One budget that the request exceeds: `value` of `limit`, in the unit that `what` names."""

    what: str
    value: int
    limit: int

    def __str__(self) -> str:
        return f"{self.what}: {self.value:,} of {self.limit:,}"


@dataclass(frozen=True, slots=True)
class RequestCount:
    """What one request weighs.

    Attributes:
        tokens: Of the whole request. With `basis` `usage` this is the provider's newest figure, which includes
            system prompt and tools, and the estimate of what follows it; else the sum of the four parts.
        system_tokens: Of the system prompt.
        tool_tokens: Of the tool definitions.
        message_tokens: Of the conversation.
        pending_tokens: Of the input that is about to be sent.
        basis: How `tokens` was obtained.
        bytes: Of the request's body as compact JSON; sampling parameters add a few.
        images: In messages and pending input, those inside tool results too.
        largest_edge_px: The longest side of an image whose size can be read; 0: none.
        over: Budgets of the model that the request exceeds; empty: it fits.
    """

    tokens: int
    system_tokens: int
    tool_tokens: int
    message_tokens: int
    pending_tokens: int
    basis: Basis
    bytes: int
    images: int
    largest_edge_px: int
    over: tuple[Overrun, ...]

    @property
    def fits(self) -> bool:
        """Whether no budget is exceeded."""
        return not self.over


def count_request(
    messages: Sequence[Item],
    *,
    model: str | Model | None = None,
    system: SystemPrompt | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
    pending: Sequence[Item] = (),
    max_tokens: int = 0,
    exact: bool = False,
    table: ModelTable | None = None,
) -> RequestCount:
    """Count a whole request: system prompt, tool definitions, messages and the input about to be sent.

    Args:
        messages: Bare messages or transcript entries; usage figures in them anchor the count.
        model: Whose tokenizer, window and budgets; `None`: the default family.
        system: The system prompt, a string or blocks; `None`: none.
        tools: Tool definitions.
        pending: What will be appended before sending.
        max_tokens: Room for the answer, which a few APIs count into the window; 0: not looked at.
        exact: Count by the model's public vocabulary instead (OpenAI's). Text is exact; the framing of messages
            follows OpenAI's cookbook (3 tokens a message, 1 for a name, 3 for the answer), and definitions count as their JSON.
        table: Where to look the model up; `None`: the built-in table.

    Returns:
        Tokens by part, bytes, images, and the budgets that are exceeded.

    Raises:
        InvalidMessage: An item is no message; names its index and field.
        InvalidPolicy: `exact` for a model whose vocabulary is not public.

    Example:
        >>> count = count_request([{"role": "user", "content": "hello"}], model="claude-opus-4-5", system="Be brief.")
        >>> count.tokens == count.system_tokens + count.tool_tokens + count.message_tokens
        True
        >>> count.fits
        True
    """
    row = (
        model
        if isinstance(model, Model)
        else (table or ModelTable.builtin()).lookup(model or DEFAULT_MODEL)
    )
    items = [*messages, *pending]
    ledger = core.Ledger(weights_for(row, table=table), items)
    parts, total, basis = (
        _exact(messages, pending, system, tools, row)
        if exact
        else _estimated(ledger, len(messages), system, tools, row)
    )
    size = _bytes(
        {"system": system, "tools": list(tools), "messages": [_message(item) for item in items]}
    )
    edges = [_edge(block) for block in _images(items)]
    return RequestCount(
        total, *parts, basis, size, len(edges), max(edges, default=0),
        _over(row, total, max_tokens, size, edges),
    )  # fmt: skip


Parts = tuple[int, int, int, int]


def _estimated(
    ledger: Any, count: int, system: Any, tools: Sequence[Any], row: Model
) -> tuple[Parts, int, Basis]:
    weights = weights_for(row)
    parts = (
        core.estimate_text(wording.text_of(system), weights),
        core.estimate_text(wording.text_of(list(tools) or None), weights),
        ledger.tokens(0, count),
        ledger.tokens(count),
    )
    anchored = ledger.anchored()
    if anchored.anchor is None:
        return parts, sum(parts[:2]) + anchored.total, "estimate"
    return parts, anchored.total, "usage"


def _exact(
    messages: Sequence[Item], pending: Sequence[Item], system: Any, tools: Sequence[Any], row: Model
) -> tuple[Parts, int, Basis]:
    parts = (
        wording.exact_system(system, row),
        wording.exact_text(wording.text_of(list(tools) or None), row),
        sum(wording.exact_message(_message(item), row) for item in messages),
        sum(wording.exact_message(_message(item), row) for item in pending),
    )
    return parts, sum(parts) + wording.ANSWER, "exact"


def _message(item: Any) -> Any:
    return item if "role" in item else item.get("message")


def _bytes(body: Mapping[str, Any]) -> int:
    stated = {key: value for key, value in body.items() if value}
    try:
        return len(orjson.dumps(stated))
    except (
        TypeError
    ):  # lone surrogates, integers over 64 bits: as the standard library would send them
        return len(json.dumps(stated, default=str, separators=(",", ":")))


# ---- images and budgets ------------------------------------------------------------------------


def _images(items: Sequence[Item]) -> Iterator[Mapping[str, Any]]:
    for index in core.media_indices(items):
        yield from wording.media(_message(items[index])["content"])


def _edge(block: Mapping[str, Any]) -> int:
    return max(core.image_size(data)) if (data := wording.image_data(block)) else 0


def _over(
    row: Model, tokens: int, max_tokens: int, size: int, edges: Sequence[int]
) -> tuple[Overrun, ...]:
    answer = max_tokens if row.output_in_window else 0
    many = row.many_images and len(edges) > row.many_images
    budgets = (
        ("tokens", tokens + answer, row.input_limit or row.context_window),
        ("bytes", size, row.max_request_bytes),
        ("images", len(edges), row.max_images),
        ("image edge in pixels", max(edges, default=0), row.many_images_px if many else row.max_image_px),
    )  # fmt: skip
    return tuple(Overrun(*each) for each in budgets if each[2] and each[1] > each[2])

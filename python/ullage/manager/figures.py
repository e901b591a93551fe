"""What a provider reports of a request's size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["Figure", "reported"]


class Figure(NamedTuple):
    """The newest figure that a provider reported, to measure the next one against."""

    total: int  # prompt and answer, tokens
    estimated: int  # of all messages up to the answer, answer included
    messages: int  # in the view then
    rewrites: int  # of the view then


def reported(usage: Any) -> tuple[int, int]:
    """Tokens of the prompt (cached ones included) and of the answer, as a response states them; 0: it does not."""
    if not isinstance(usage, Mapping):
        return 0, 0
    return _sum(usage, _PROMPT), _sum(usage, _ANSWER)


_PROMPT = (
    "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "prompt_tokens",
)  # fmt: skip
_ANSWER = ("output_tokens", "completion_tokens")


def _sum(usage: Mapping[str, Any], names: tuple[str, ...]) -> int:
    total = 0
    for name in names:
        value = usage.get(name)
        if type(value) is int and value > 0:
            total += value
    return total

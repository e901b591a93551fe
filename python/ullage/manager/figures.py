"""What a provider reports of a request's size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from warnings import warn

from ullage.counting.calibration import UntrueUsageWarning

__all__ = ["Figure", "reported", "states_usage", "warn_of_usage"]


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


def states_usage(usage: Any) -> bool:
    """Whether a response states how large its prompt was, be it 0."""
    return isinstance(usage, Mapping) and any(type(usage.get(name)) is int for name in _STATED)


def warn_of_usage(stated: int, estimated: int, model: str) -> None:
    """Say that a provider's figure is not used.

    Args:
        stated: What it says, in tokens.
        estimated: Of the messages that it is about.
        model: Its model.
    """
    warn(
        f"a response of {model!r} states {stated:,} tokens for messages of about {estimated:,}: usage below half of the estimate "
        "cannot be true, so sizes are estimated until a figure is",
        UntrueUsageWarning,
        stacklevel=2,
    )


_PROMPT = (
    "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "prompt_tokens",
)  # fmt: skip
_ANSWER = ("output_tokens", "completion_tokens")
_STATED = (*_PROMPT, "total_tokens")


def _sum(usage: Mapping[str, Any], names: tuple[str, ...]) -> int:
    total = 0
    for name in names:
        value = usage.get(name)
        if type(value) is int and value > 0:
            total += value
    return total

"""The cost of a compaction's summary calls, counted as they are made, so that it is known even if the compaction fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ullage.observe.events import SummaryUsage

__all__ = ["CallTally", "as_told", "usage_of"]


@dataclass(slots=True)
class CallTally:
    """One compaction's calls.

    Attributes:
        summarizer: The summarizer asked last; empty: none yet.
        attempts: Calls that were made.
        dropped: Oldest messages that the newest call did not see.
        usage: Of the calls that reported theirs.
        failure: Why the summarizer gave up, so that its fallback wrote; empty: it did not.
    """

    summarizer: str = ""
    attempts: int = 0
    dropped: int = 0
    usage: SummaryUsage = field(default_factory=SummaryUsage)
    failure: str = ""

    def asked(self, summarizer: str, dropped: int) -> None:
        """Record the start of a call."""
        self.summarizer, self.dropped = summarizer, dropped
        self.attempts += 1

    def answered(self, reply: Any) -> None:
        """Record the response of a call, good or bad."""
        told = getattr(reply, "usage", None)
        if isinstance(told, Mapping):
            self.usage += usage_of(told)


def usage_of(told: Mapping[str, Any]) -> SummaryUsage:
    """One answer's usage, in Anthropic's or OpenAI's words."""
    details = told.get("prompt_tokens_details") or told.get("input_tokens_details")
    inner = details if isinstance(details, Mapping) else {}
    sent = _first(told, "input_tokens", "prompt_tokens")
    cached = _first(inner, "cached_tokens")
    read = _first(told, "cache_read_input_tokens", "cache_read_tokens")
    written = _first(told, "cache_creation_input_tokens", "cache_write_tokens")
    usage = SummaryUsage(
        calls=1,
        input_tokens=sent,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=_first(told, "output_tokens", "completion_tokens"),
    )
    # OpenAI counts what it read from its cache as input too, Anthropic does not.
    return replace(usage, input_tokens=max(sent - cached, 0), cache_read_tokens=read or cached)


def as_told(usage: SummaryUsage) -> dict[str, int] | None:
    """The same in Anthropic's words; `None`: nothing was reported."""
    if not usage.calls:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
    }


def _first(told: Mapping[str, Any], *names: str) -> int:
    values = (told.get(name) for name in names)
    return next((value for value in values if type(value) is int and value > 0), 0)

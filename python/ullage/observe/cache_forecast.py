"""What the next request should read from the provider's prompt cache and write to it, from what the last one did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["CacheForecast", "CacheUse", "cache_use"]

_STEP, _LEAST = 128, 1_024
"""OpenAI caches whole steps of 128 tokens, of prompts of 1,024 or more."""

_MESSAGE_END = 64
"""Tokens that stand after a mark on the last block: its end, and the beginning of the answer. Of 6,800 recorded ones 97 % have up to 14."""


class CacheUse(NamedTuple):
    """What a response states of its prompt, in tokens.

    Attributes:
        prompt: The whole of it.
        read: Of that, read from the cache.
        written: Of that, written to it.
        output: Of the answer.
        steps: Whether the provider caches in steps, by itself (OpenAI).
    """

    prompt: int
    read: int
    written: int
    output: int
    steps: bool

    @property
    def rest(self) -> int:
        """Of the prompt, neither read nor written: what stands after the last mark."""
        return max(0, self.prompt - self.read - self.written)


class Expected(NamedTuple):
    """A forecast, in tokens."""

    read: int
    written: int


def cache_use(usage: Mapping[str, Any]) -> CacheUse:
    """Reads the usage of Anthropic's, OpenAI's or a compatible API; figures that it lacks are 0."""
    if "prompt_tokens" in usage or "input_tokens_details" in usage:
        prompt = _count(usage, "prompt_tokens") or _count(usage, "input_tokens")
        details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
        read = _count(details, "cached_tokens")
        whole = prompt // _STEP * _STEP if prompt >= _LEAST else 0
        written = _count(details, "cache_write_tokens") or max(0, whole - read)
        output = _count(usage, "completion_tokens") or _count(usage, "output_tokens")
        return CacheUse(prompt, read, written, output, steps=True)
    read, written = (_count(usage, f"cache_{kind}_input_tokens") for kind in ("read", "creation"))
    prompt = _count(usage, "input_tokens") + read + written
    return CacheUse(prompt, read, written, _count(usage, "output_tokens"), steps=False)


def _count(usage: Any, name: str) -> int:
    value = usage.get(name) if isinstance(usage, Mapping) else None
    return value if type(value) is int and value > 0 else 0


@dataclass(slots=True)
class CacheForecast:
    """Of one conversation.

    Attributes:
        ttl_seconds: How long the provider keeps a prefix after its last use.
        least_tokens: The shortest prompt that it caches (`lookup(model).cache.min_tokens`); 0: any. OpenAI's is known.

    Example:
        >>> forecast = CacheForecast()
        >>> forecast.learn({"input_tokens": 10, "cache_creation_input_tokens": 9_000, "output_tokens": 500})
        >>> forecast.expect(10_000)
        Expected(read=9000, written=990)
        >>> forecast.expect(10_000, same_tokens=4_000)
        Expected(read=4000, written=5990)
    """

    ttl_seconds: float = 300
    least_tokens: int = 0
    _last: CacheUse | None = None
    _cached: int = 0
    _fixed: bool = False

    def expect(
        self, tokens: int, *, same_tokens: int | None = None, idle_seconds: float = 0
    ) -> Expected:
        """What the next request should do.

        Args:
            tokens: Its size, as `Request.tokens`.
            same_tokens: How much of its beginning is as in the last request; `None`: all that was cached.
            idle_seconds: Since the last request.
        """
        marked = self._marked(tokens)
        found = self._cached if idle_seconds <= self.ttl_seconds else 0
        read = min(found, marked, tokens if same_tokens is None else same_tokens)
        if self._last is not None and self._last.steps:
            read = read // _STEP * _STEP
        return Expected(read, marked - read)

    def learn(self, usage: Mapping[str, Any] | None) -> None:
        """What a response states; `None`: nothing, and nothing is expected of the next."""
        before = self._cached
        self._last = use = cache_use(usage) if usage is not None else None
        self._cached = use.read + use.written if use is not None else 0
        # More of the prompt than a message's end stands after the last mark, and nothing was added before it.
        self._fixed = (
            use is not None and use.rest > _MESSAGE_END and use.prompt >= self.least_tokens
        ) and self._cached in (0, before)

    def _marked(self, tokens: int) -> int:
        """Where in the next prompt the cached part should end."""
        use = self._last
        if use is not None and use.steps:
            return tokens // _STEP * _STEP if tokens >= _LEAST else 0
        if tokens < self.least_tokens:
            return 0
        if self._fixed:
            return min(self._cached, tokens)
        rest = use.rest if use is not None else 0
        return tokens - rest if rest <= min(_MESSAGE_END, tokens) else tokens

"""The provider's own counting endpoint, with a cache, a rate limit, a time-out and the estimate to fall back on (TOK-7)."""

from __future__ import annotations

import hashlib
import inspect
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson

from ullage.exceptions import InvalidPolicy
from ullage.messages import Item, SystemPrompt
from ullage.providers import anthropic, openai_responses
from ullage.requests.count import count_request

__all__ = ["Counted", "RemoteCounter"]

MINUTE: Final = 60.0

Source = Literal["remote", "cache", "estimate"]


@dataclass(frozen=True, slots=True)
class Counted:
    """A count and where it came from. `why`: what kept the endpoint from being asked, or "" if nothing did."""

    tokens: int
    source: Source
    why: str = ""


@dataclass(slots=True)
class _State:
    """What counts have taught; guarded by its lock, as an agent may count on several threads."""

    cache: OrderedDict[bytes, int] = field(default_factory=OrderedDict)
    asked: deque[float] = field(default_factory=deque)
    resting_until: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


class RemoteCounter:
    """Counts by the provider's endpoint, which is free but takes a round trip and has a rate limit of its own.

    Anthropic's `messages.count_tokens` and OpenAI's `responses.input_tokens.count` are found on an official client, sync or
    async; any callable that takes a request body and gives a number does as well. A request that was counted before, one above
    the rate, one that is late or fails is never an error: the answer is then from the cache or the estimate, and says so.

    Args:
        client: An SDK client, or a callable from a request body (a dict) to an int or an awaitable of one.
        model: Name of the model to count for.
        per_minute: Calls in any minute; above it estimates are given.
        timeout_seconds: For one call of an SDK client; a callable watches its own time.
        rest_seconds: After a failure the endpoint is left alone for so long.
        cache_size: Requests remembered; 0: none.
        clock: Monotonic seconds.

    Raises:
        InvalidPolicy: `client` can't count, or a number is out of range.

    Example:
        >>> counter = RemoteCounter(lambda body: 42, model="claude-opus-4-5")
        >>> counter.count([{"role": "user", "content": "hello"}])
        Counted(tokens=42, source='remote', why='')
        >>> counter.count([{"role": "user", "content": "hello"}]).source
        'cache'
    """

    def __init__(
        self,
        client: object,
        *,
        model: str,
        per_minute: int = 60,
        timeout_seconds: float = 5.0,
        rest_seconds: float = 30.0,
        cache_size: int = 256,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        numbers = {"per_minute": per_minute, "rest_seconds": rest_seconds, "cache_size": cache_size}
        for name, value in numbers.items():
            if value < 0:
                raise InvalidPolicy(name, value, "must be at least 0")
        if timeout_seconds <= 0:
            raise InvalidPolicy("timeout_seconds", timeout_seconds, "must be above 0")
        self.model = model
        self._body, self._ask = _endpoint(client, timeout_seconds)
        self._per_minute, self._rest, self._cache_size = per_minute, rest_seconds, cache_size
        self._clock, self._state = clock, _State()

    def __repr__(self) -> str:
        return f"RemoteCounter({self.model!r}, {len(self._state.cache)} remembered)"

    def count(
        self,
        messages: Sequence[Item],
        *,
        system: SystemPrompt | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Counted:
        """Count a request.

        Args:
            messages: Bare messages or entries in Anthropic's form.
            system: The system prompt; `None`: none.
            tools: Tool definitions.

        Raises:
            InvalidMessage: An item is no message.
            InvalidPolicy: The client is asynchronous; use `acount`.
        """
        body = self._body(self.model, messages, system, tools)
        key = _key(body)
        if (known := self._before(key)) is not None:
            return self._known(known, messages, system, tools)
        try:
            answer = self._ask(body)
        except Exception as error:
            return self._known(self._failed(error), messages, system, tools)
        if inspect.isawaitable(answer):
            getattr(answer, "close", lambda: None)()
            raise InvalidPolicy(
                "client", type(answer).__name__, "must answer at once", hint="use acount()"
            )
        return self._take(key, answer, messages, system, tools)

    async def acount(
        self,
        messages: Sequence[Item],
        *,
        system: SystemPrompt | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Counted:
        """`count`, for an asynchronous client; a synchronous one blocks the loop while it is asked."""
        body = self._body(self.model, messages, system, tools)
        key = _key(body)
        if (known := self._before(key)) is not None:
            return self._known(known, messages, system, tools)
        try:
            answer = self._ask(body)
            answer = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            return self._known(self._failed(error), messages, system, tools)
        return self._take(key, answer, messages, system, tools)

    # ---- before and after the call -----------------------------------------------------------

    def _before(self, key: bytes) -> int | str | None:
        """A remembered count, or why the endpoint is not asked, or `None`: ask it."""
        now, state = self._clock(), self._state
        with state.lock:
            if key in state.cache:
                state.cache.move_to_end(key)
                return state.cache[key]
            if now < state.resting_until:
                return "resting after a failure"
            while state.asked and now - state.asked[0] >= MINUTE:
                state.asked.popleft()
            if len(state.asked) >= self._per_minute:
                return f"{self._per_minute} calls in this minute"
            state.asked.append(now)
        return None

    def _failed(self, error: Exception) -> str:
        with self._state.lock:
            self._state.resting_until = self._clock() + self._rest
        return f"{type(error).__name__}: {error}"[:200]

    def _take(self, key: bytes, answer: Any, *request: Any) -> Counted:
        tokens = answer if type(answer) is int else getattr(answer, "input_tokens", None)
        if type(tokens) is not int or tokens < 0:
            failure = self._failed(ValueError(f"no token count in {type(answer).__name__}"))
            return self._known(failure, *request)
        with self._state.lock:
            if self._cache_size:
                self._state.cache[key] = tokens
            while len(self._state.cache) > self._cache_size:
                self._state.cache.popitem(last=False)
        return Counted(tokens, "remote")

    def _known(self, known: int | str, messages: Any, system: Any, tools: Any) -> Counted:
        if isinstance(known, int):
            return Counted(known, "cache")
        estimate = count_request(messages, model=self.model, system=system, tools=tools)
        return Counted(estimate.tokens, "estimate", known)


# ---- endpoints ---------------------------------------------------------------------------------

Body = Callable[[str, Sequence[Item], Any, Sequence[Mapping[str, Any]]], dict[str, Any]]


def _endpoint(
    client: object, timeout_seconds: float
) -> tuple[Body, Callable[[dict[str, Any]], Any]]:
    options = {"timeout": timeout_seconds, "max_retries": 0}
    once = client.with_options(**options) if hasattr(client, "with_options") else client
    if ask := _attribute(once, "messages.count_tokens"):
        return _anthropic, lambda body: ask(**body)
    if ask := _attribute(once, "responses.input_tokens.count"):
        return _openai, lambda body: ask(**body)
    if callable(client):
        return _anthropic, client
    raise InvalidPolicy(
        "client", type(client).__name__, "must have a counting endpoint or be callable"
    )


def _attribute(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


def _anthropic(
    model: str, messages: Sequence[Item], system: Any, tools: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    shaped = anthropic.to_provider(messages, system=system, tools=tools or None)
    return {"model": model, **shaped.parts}


def _openai(
    model: str, messages: Sequence[Item], system: Any, tools: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    shaped = openai_responses.to_provider(messages, system=system, tools=tools or None)
    return {"model": model, **shaped.parts}


def _key(body: Mapping[str, Any]) -> bytes:
    try:
        text = orjson.dumps(body)
    except TypeError:
        text = repr(body).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).digest()

"""What one request weighs: tokens of all its parts, bytes, images (TOK-6)."""

from __future__ import annotations

import hashlib
import inspect
import json
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from ullage._engine import core
from ullage.counting.calibration import DEFAULT_MODEL, weights_for
from ullage.counting.exact import count_tokens_exact, encoding_for
from ullage.counting.models import Model, ModelTable
from ullage.effects import Call, Cancelled, Flow, adrive, drive
from ullage.exceptions import InvalidMessage, InvalidPolicy
from ullage.legality.draft import list_in
from ullage.legality.originals import json_of
from ullage.messages import Item, SystemPrompt, check_list
from ullage.providers import anthropic, openai_responses
from ullage.providers.registry import Form

# The texts and images inside of a message, whatever its provider's form, and their exact counts.


PER_MESSAGE: Final = 3
"""Tokens that frame a message; OpenAI's cookbook, "How to count tokens with tiktoken"."""

PER_NAME: Final = 1
"""For a message's `name`; from the same page."""

ANSWER: Final = 3
"""Every answer is primed with so many; from the same page."""

# `data` is that of redacted thinking.
_TEXT_KEYS: Final = ("text", "thinking", "refusal", "data")
# Of Anthropic, chat and Responses; Gemini's and Bedrock's media are blocks of the internal view by now.
_IMAGES: Final = ("image", "image_url", "input_image")


def text_of(value: Any) -> str:
    """A string itself, `None` as nothing, blocks by their text, everything else as compact JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    blocks = isinstance(value, list | tuple) and all(
        isinstance(b, Mapping) and "text" in b for b in value
    )
    if blocks:
        return "\n".join(str(block["text"]) for block in value)
    return _json(value)


def _json(value: Any) -> str:
    return _written(value, escaped=False).decode("utf-8", "surrogatepass")


def _written(value: Any, *, escaped: bool) -> bytes:
    """Compact JSON; `escaped`: where orjson refuses it (lone surrogates, integers over 64 bits), as the standard library would send it."""
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        text = json.dumps(value, default=str, ensure_ascii=escaped, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError) as exc:  # nobody sends it
        raise InvalidMessage(f"cannot be written as JSON ({type(exc).__name__})") from exc
    return text.encode("utf-8", "surrogatepass")


# ---- exact -------------------------------------------------------------------------------------


def exact_text(text: str, row: Model) -> int:
    """Tokens of a text in the model's public vocabulary; `InvalidPolicy` if it has none."""
    encoding = row.encoding or encoding_for(row.name)
    return count_tokens_exact(text, encoding=encoding) if text else 0


def exact_message(message: Any, row: Model) -> int:
    """A message with its framing. Images and files are not text and count 0 here."""
    if not isinstance(message, Mapping):
        return 0
    texts = [str(message.get("role", "")), *_texts(message.get("content")), *_calls(message)]
    name = message.get("name")
    named = PER_NAME + exact_text(str(name), row) if name else 0
    return PER_MESSAGE + named + sum(exact_text(text, row) for text in texts)


def _calls(message: Mapping[str, Any]) -> Iterator[str]:
    for call in list_in(message, "tool_calls"):
        body = call.get("function") or call.get("custom") if isinstance(call, Mapping) else None
        function = body if isinstance(body, Mapping) else {}
        yield str(function.get("name", ""))
        yield text_of(function.get("arguments", function.get("input")))


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list | tuple) else ():
        if isinstance(block, Mapping):
            yield from (value for key in _TEXT_KEYS if isinstance(value := block.get(key), str))
            if block.get("type") == "tool_use":
                yield str(block.get("name", ""))
                yield _json(block.get("input", {}))
            yield from _texts(block.get("content"))


# ---- media -------------------------------------------------------------------------------------


def media(content: Any) -> Iterator[Mapping[str, Any]]:
    """The image blocks of a content, those inside tool results too."""
    for block in content if isinstance(content, list | tuple) else ():
        if not isinstance(block, Mapping):
            continue
        if block.get("type") in _IMAGES:
            yield block
        yield from media(block.get("content"))


def image_data(block: Mapping[str, Any]) -> str:
    """The base64 of an image block; "" where it is a reference."""
    source: Any = block.get("source") or block.get("image_url") or ""
    if isinstance(source, Mapping):
        source = source.get("data") or source.get("url") or ""
    if not isinstance(source, str):
        return ""
    head, mark, data = source.partition(";base64,")
    if mark and head.startswith("data:"):
        return data
    return "" if "://" in source[:16] else source


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
        InvalidMessage: An item is no message; names its index and field. Or what is sent cannot be written as JSON.
        InvalidPolicy: `exact` for a model whose vocabulary is not public.

    Example:
        >>> count = count_request([{"role": "user", "content": "hello"}], model="claude-opus-4-5", system="Be brief.")
        >>> count.tokens == count.system_tokens + count.tool_tokens + count.message_tokens
        True
        >>> count.fits
        True
    """
    if isinstance(model, Model):
        row = model
    else:
        row = (table or ModelTable.builtin()).lookup(model or DEFAULT_MODEL)
    check_list(messages)
    items = [*messages, *pending]
    ledger = core.Ledger(weights_for(row, table=table), items)
    if exact:
        parts, total, basis = _exact(messages, pending, system, tools, row)
    else:
        parts, total, basis = _estimated(ledger, len(messages), system, tools, row)
    sent = [_message(item) for item in items]
    body = {"system": system, "tools": list(tools), "messages": sent}
    stated = {key: value for key, value in body.items() if value}
    size = len(_written(stated, escaped=True))
    images = (block for at in core.media_indices(items) for block in media(sent[at]["content"]))
    edges = [max(core.image_size(data)) if (data := image_data(block)) else 0 for block in images]
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
        core.estimate_text(text_of(system), weights),
        core.estimate_text(text_of(list(tools) or None), weights),
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
    prompt = text_of(system)  # a message of its own
    parts = (
        PER_MESSAGE + exact_text("system", row) + exact_text(prompt, row) if prompt else 0,
        exact_text(text_of(list(tools) or None), row),
        sum(exact_message(_message(item), row) for item in messages),
        sum(exact_message(_message(item), row) for item in pending),
    )
    return parts, sum(parts) + ANSWER, "exact"


def _message(item: Any) -> Any:
    return item if "role" in item else item.get("message")


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
    return tuple(Overrun(*budget) for budget in budgets if budget[2] and budget[1] > budget[2])


# The provider's own counting endpoint, with a cache, a rate limit, a time-out and the estimate to fall back on (TOK-7).


MINUTE: Final = 60.0

Source = Literal["remote", "cache", "estimate"]


@dataclass(frozen=True, slots=True)
class Counted:
    """A count and where it came from. `why`: what kept the endpoint from being asked, or "" if nothing did."""

    tokens: int
    source: Source
    why: str = ""


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
        self._shape, self._ask = _endpoint(client, timeout_seconds)
        self._per_minute, self._rest_seconds = per_minute, rest_seconds
        self._cache_size, self._clock = cache_size, clock
        # What counts have taught; guarded by the lock, as an agent may count on several threads.
        self._cache: OrderedDict[bytes, int] = OrderedDict()
        self._asked: deque[float] = deque()
        self._resting_until = 0.0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"RemoteCounter({self.model!r}, {len(self._cache)} remembered)"

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
        return drive(self._flow(messages, system, tools), _called)

    async def acount(
        self,
        messages: Sequence[Item],
        *,
        system: SystemPrompt | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Counted:
        """`count`, for an asynchronous client; a synchronous one blocks the loop while it is asked."""
        return await adrive(self._flow(messages, system, tools), _called)

    def _flow(self, messages: Sequence[Item], system: Any, tools: Any) -> Flow[Counted]:
        body, key, counted = self._before(messages, system, tools)
        if counted is None:
            try:
                answer = yield Call(self._ask, (body,))
            except Cancelled:
                raise
            except Exception as error:
                counted = self._failed(error)
            else:
                counted = self._remembered(key, answer)
        if isinstance(counted, Counted):
            return counted
        estimate = count_request(messages, model=self.model, system=system, tools=tools)
        return Counted(estimate.tokens, "estimate", counted)

    # ---- before and after the call -----------------------------------------------------------

    def _before(
        self, messages: Sequence[Item], system: Any, tools: Sequence[Mapping[str, Any]]
    ) -> tuple[dict[str, Any], bytes, Counted | str | None]:
        """The request's body, its key, and a remembered count, or why the endpoint is not asked, or `None`: ask it."""
        parts = self._shape.to_provider(messages, system=system, tools=tools or None).parts
        body = {"model": self.model, **parts}
        written = json_of(body) or repr(body).encode("utf-8", "surrogatepass")
        key, now = hashlib.blake2b(written, digest_size=16).digest(), self._clock()
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return body, key, Counted(self._cache[key], "cache")
            if now < self._resting_until:
                return body, key, "resting after a failure"
            while self._asked and now - self._asked[0] >= MINUTE:
                self._asked.popleft()
            if len(self._asked) >= self._per_minute:
                return body, key, f"{self._per_minute} calls in this minute"
            self._asked.append(now)
        return body, key, None

    def _failed(self, error: Exception) -> str:
        with self._lock:
            self._resting_until = self._clock() + self._rest_seconds
        return f"{type(error).__name__}: {error}"[:200]

    def _remembered(self, key: bytes, answer: Any) -> Counted | str:
        if inspect.isawaitable(answer):
            getattr(answer, "close", lambda: None)()
            limit, hint = "must answer at once", "use acount()"
            raise InvalidPolicy("client", type(answer).__name__, limit, hint=hint)
        tokens = answer if type(answer) is int else getattr(answer, "input_tokens", None)
        if type(tokens) is not int or tokens < 0:
            return self._failed(ValueError(f"no token count in {type(answer).__name__}"))
        with self._lock:
            if self._cache_size:
                self._cache[key] = tokens
            while len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        return Counted(tokens, "remote")


def _called(call: Any) -> Any:
    return call.function(*call.args)


def _endpoint(client: object, timeout_seconds: float) -> tuple[Form, Callable[..., Any]]:
    """The form of its requests, and what takes a body."""
    options = {"timeout": timeout_seconds, "max_retries": 0}
    once = client.with_options(**options) if hasattr(client, "with_options") else client
    if ask := _attribute(once, "messages.count_tokens"):
        return anthropic, lambda body: ask(**body)
    if ask := _attribute(once, "responses.input_tokens.count"):
        return openai_responses, lambda body: ask(**body)
    if callable(client):
        return anthropic, client
    raise InvalidPolicy(
        "client", type(client).__name__, "must have a counting endpoint or be callable"
    )


def _attribute(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = getattr(value, name, None)
    return value

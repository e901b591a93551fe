"""What summarizers that call an API share: reading a stream, limits of the model, optional packages, keys.

A reader is fed the events of a stream and says what came; it has no I/O, so that one loop each for
threads and for coroutines is all that there is.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from itertools import dropwhile
from typing import Any, Literal, Protocol, Self, TypeAlias

from ullage import _env
from ullage._start import optional
from ullage.counting.models import ModelTable
from ullage.exceptions import InvalidPolicy, UllageError
from ullage.messages import Item
from ullage.summarizers.protocol import SummaryReply, SummaryRequest, Watch

# Finish reason of a stream that ended without naming one: whatever came is cut off.
CUT_STREAM = "incomplete"
# After our own stall time-out, the client's: it frees a thread that nobody waits for any more.
SDK_MARGIN_SECONDS = 5.0
# Keyword arguments of the main loop's newest call of the SDK, or a function that returns them (or `None`).
LastRequest: TypeAlias = Mapping[str, Any] | Callable[[], Mapping[str, Any] | None] | None
Mode: TypeAlias = Literal["shared", "plain", "native"]


class PrefixLost(UllageError):
    """The main loop's newest request is not how this conversation begins: its cache can't be shared."""

    code = "prefix_lost"


class StreamFailed(UllageError):
    """A stream reported an error after it began; `body`: what it said, as data."""

    code = "stream_failed"

    def __init__(self, message: str, body: Any = None) -> None:
        super().__init__(message)
        self.body = body


class StreamReader(Protocol):
    """Puts a reply together from the events of one stream."""

    def feed(self, event: Any) -> str | None:
        """The text that an event adds; empty: the model works; `None`: nothing that counts as a token."""
        ...

    def reply(self) -> SummaryReply:
        """What has come."""
        ...


def key_for(passed: str | None, names: Sequence[str], *, local: bool) -> str:
    """The key of an API: the one passed, else that of the first variable that has one; a `local` server may need none.

    Raises:
        InvalidPolicy: There is no key; names the variable.
    """
    key = passed or next(iter(_env.values(names).values()), "")
    if key or local:
        return key or "none"
    hint = "set it, or pass `api_key=` in Python; the summarizer 'extractive' needs no key"
    raise InvalidPolicy(f"environment variable {names[0]}", None, "must hold a key", hint=hint)


class StreamingSummarizer:
    """Base of the summarizers that stream from an SDK: one call each, without retries of the SDK's own.

    Args are those of `AnthropicSummarizer`; without `last_request` mode `shared` is not tried.
    """

    provider = ""  # also the package of its SDK, and the extra that brings it
    _kind = ""  # before the model in its name; empty: the provider
    form = ""  # of its requests: the name of a provider's row
    _clients = ("", "")  # classes of the SDK: the synchronous and the asynchronous one
    _keys: tuple[str, ...] = ()  # variables that may hold a key, in order
    modes: tuple[Mode, ...] = ("plain",)

    def __init__(
        self,
        model: str,
        *,
        client: object | None = None,
        async_client: object | None = None,
        api_key: str | None = None,
        base_url: str = "",
        last_request: LastRequest = None,
        window_tokens: int | None = None,
        max_output_tokens: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if not model.strip():
            raise InvalidPolicy("model", model, "must name a model")
        row = ModelTable.builtin().find(model)  # of another nothing is assumed
        self.model = model
        self.name = f"{self._kind or self.provider}:{model}"
        self.window_tokens = window_tokens or (row.context_window if row else None)
        self.max_output_tokens = max_output_tokens or (row.max_output_tokens if row else None)
        if last_request is not None and self.modes == ("plain",):
            self.modes = ("shared", "plain")
        self._client, self._async_client = client, async_client
        self._last, self._extra = last_request, dict(extra or {})
        self._base_url, self._key = base_url, ""
        if client is None and async_client is None:
            self._key = key_for(api_key, self._keys, local=bool(base_url))
        self._sdk = optional(self.provider, self.provider)

    # ---- what a provider adds ----------------------------------------------------------------

    def body(self, request: SummaryRequest) -> dict[str, Any]:
        """The call's parameters, as the SDK takes them.

        Raises:
            PrefixLost: Mode `shared` does not fit this conversation.
        """
        raise NotImplementedError

    def _endpoint(self, client: Any, body: Mapping[str, Any]) -> Any:
        """The part of a client that takes this request."""
        raise NotImplementedError

    def _reader(self) -> StreamReader:
        raise NotImplementedError

    # ---- the two loops -----------------------------------------------------------------------

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Writes the summary; raises what the SDK raises."""
        if self._client is None and self._async_client is not None:
            raise InvalidPolicy(
                "client", self.name, "is asynchronous", hint="use acompact, or pass a client"
            )
        body, reader, watch = self.body(request), self._reader(), request.watch or Watch()
        watch.begin()
        with (
            self._lent(self._client, asynchronous=False) as client,
            self._create(client, body, request) as stream,
        ):
            watch.begin(stream.close)
            for event in stream:
                _noted(reader.feed(event), watch)
        return reader.reply()

    async def asummarize(self, request: SummaryRequest) -> SummaryReply:
        """Writes the summary without blocking; raises what the SDK raises."""
        body, reader, watch = self.body(request), self._reader(), request.watch or Watch()
        watch.begin()
        async with (
            self._lent(self._async_client, asynchronous=True) as client,
            await self._create(client, body, request) as stream,
        ):
            watch.begin()
            async for event in stream:
                _noted(reader.feed(event), watch)
        return reader.reply()

    def _lent(self, client: Any, *, asynchronous: bool) -> Any:
        """The caller's client, which the caller closes, or a new one for this call."""
        if client is not None:
            return contextlib.nullcontext(client)
        where = {"base_url": self._base_url} if self._base_url else {}
        make = getattr(self._sdk, self._clients[asynchronous])
        return make(api_key=self._key, max_retries=0, **where)

    def _create(self, client: Any, body: Mapping[str, Any], request: SummaryRequest) -> Any:
        """Sends a request; a stream, or an awaitable of one."""
        # Without retries of the client's own: the flow retries, with its own count and events.
        if options := getattr(client, "with_options", None):
            client = options(max_retries=0)
        seconds = [s for s in (request.stall_seconds, request.deadline_seconds) if s is not None]
        limits = {"timeout": min(seconds) + SDK_MARGIN_SECONDS} if seconds else {}
        return self._endpoint(client, body).create(**body, **limits)

    @property
    def is_async(self) -> bool:
        """Whether `asummarize` has a client; with a synchronous one alone it is run in a thread."""
        return self._client is None or self._async_client is not None

    def last_request(self) -> dict[str, Any]:
        """The main loop's newest request.

        Raises:
            PrefixLost: There has been none yet.
        """
        last = self._last() if callable(self._last) else self._last
        if not isinstance(last, Mapping):
            raise PrefixLost("the main loop has sent no request yet")
        return {key: value for key, value in last.items() if key != "timeout"}

    def following(self, form: str, last_request: Callable[[], Mapping[str, Any] | None]) -> Self:
        """A copy that tries the shared prefix first; itself where that cannot be: another form, or `last_request` was given.

        Args:
            form: The provider whose requests the main loop sends, by the name of its row.
            last_request: Returns the newest; `None`: there is none of this model that can be repeated.
        """
        if self.form != form or self._last is not None or self.modes != ("plain",):
            return self
        follower = copy.copy(self)
        follower._last, follower.modes = last_request, ("shared", "plain")
        return follower

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model})"


def _noted(gained: str | None, watch: Watch) -> None:
    if gained is not None:
        watch.token(gained)


# The main loop's last request with one message more: the provider's prompt cache covers all but the end.


_MARKERS = ("cache_control", "prompt_cache_breakpoint")


def extended(
    sent: Sequence[Item], readings: Sequence[Callable[[], Sequence[Item]]], prompt: Item
) -> list[Item]:
    """What was sent, what has come since, and the prompt; `readings`: the conversation in the forms in which the host may have sent it.

    What was sent are the very objects of the last request, so that its bytes and its cache markers
    stay; the conversation only tells what has come since.

    Raises:
        PrefixLost: In no reading the conversation begins with what was sent.
    """
    plain = [_plain(message) for message in dropwhile(_of_system, sent)]
    for read in readings:
        ours = [*dropwhile(_of_system, read())]
        if len(ours) >= len(plain) and [_plain(m) for m in ours[: len(plain)]] == plain:
            return [*sent, *ours[len(plain) :], prompt]
    raise PrefixLost("the last request is not how this conversation begins")


def begins_with(sent: Sequence[Item], ours: Sequence[Item]) -> bool:
    """Whether what was sent begins with these messages, cache markers and notation apart."""
    pairs = zip(sent, ours, strict=False)
    return len(sent) >= len(ours) > 0 and all(_plain(a) == _plain(b) for a, b in pairs)


def _of_system(message: Item) -> bool:
    """Such messages stand in front: the conversation has none of the main loop's."""
    return message.get("role") in ("system", "developer")


def _plain(value: Any) -> Any:
    """Without cache markers, and with text in one notation."""
    if isinstance(value, Mapping):
        plain = {key: _plain(part) for key, part in value.items() if key not in _MARKERS}
        content = plain.get("content")
        if isinstance(content, str):
            plain["content"] = [{"type": "text", "text": content}]
        return plain
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value

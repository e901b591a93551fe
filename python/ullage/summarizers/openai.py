"""A summarizer that asks a model through OpenAI's chat or Responses API, or any server that speaks one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ullage.exceptions import InvalidPolicy
from ullage.legality.repairs import repair
from ullage.providers import openai_chat, openai_responses
from ullage.providers.openai_chat import DialectName
from ullage.summarizers.protocol import SummaryReply, SummaryRequest, anthropic_messages, is_chat
from ullage.summarizers.streams import (
    CUT_STREAM,
    LastRequest,
    PrefixLost,
    StreamFailed,
    StreamingSummarizer,
    StreamReader,
    extended,
)

# Of the main loop's answers: none of what the provider caches by.
_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


class OpenAISummarizer(StreamingSummarizer):
    """Writes summaries with OpenAI's SDK.

    Args:
        model: Such as `gpt-5-mini`, or whatever a compatible server calls it.
        api: `chat` (chat completions) or `responses`.
        dialect: Form of chat messages; `None`: `openai` for OpenAI itself, `compatible` for a `base_url`.
        client: An `openai.OpenAI` of the caller's (or for Azure, ...); `None`: one is made for each call.
        async_client: An `openai.AsyncOpenAI`.
        api_key: `None`: `OPENAI_API_KEY`.
        base_url: Of a compatible server, with its `/v1`; empty: OpenAI's.
        last_request: Arguments of the main loop's newest `chat.completions.create` or
            `responses.create`, or a function that returns them: then the shared prefix is tried first. `None`: what a
            `ContextManager` of the same model and form prepared last; in other places there is no shared prefix.
        window_tokens: Context window; `None`: from the model table.
        max_output_tokens: Longest answer; `None`: from the model table.
        extra: Further parameters of a plain call, such as `reasoning_effort`.

    Raises:
        MissingExtra: The package `openai` is not installed.
        InvalidPolicy: No key is known and no client given, or `api` is neither.
    """

    provider = "openai"
    _clients = ("OpenAI", "AsyncOpenAI")
    _keys = ("OPENAI_API_KEY",)

    def __init__(
        self,
        model: str,
        *,
        api: Literal["chat", "responses"] = "chat",
        dialect: DialectName | None = None,
        client: object | None = None,
        async_client: object | None = None,
        api_key: str | None = None,
        base_url: str = "",
        last_request: LastRequest = None,
        window_tokens: int | None = None,
        max_output_tokens: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if api not in ("chat", "responses"):
            raise InvalidPolicy("api", api, "must be chat or responses")
        super().__init__(
            model,
            client=client,
            async_client=async_client,
            api_key=api_key,
            base_url=base_url,
            last_request=last_request,
            window_tokens=window_tokens,
            max_output_tokens=max_output_tokens,
            extra=extra,
        )
        self._api = api
        self.form = f"openai_{api}"
        self._dialect: DialectName = dialect or ("compatible" if base_url else "openai")

    def body(self, request: SummaryRequest) -> dict[str, Any]:
        """The arguments of `chat.completions.create` or `responses.create`."""
        if request.mode == "shared":
            return self._shared(request)
        return self._chat(request) if self._api == "chat" else self._responses(request)

    def _chat(self, request: SummaryRequest) -> dict[str, Any]:
        ours = anthropic_messages([*request.messages, _asked(request)])
        shaped = openai_chat.to_provider(ours, system=request.system, dialect=self._dialect)
        own = self._dialect == "openai"
        limit = "max_completion_tokens" if own else "max_tokens"
        options = {"stream_options": {"include_usage": True}} if own else {}
        return {
            "model": self.model,
            "messages": list(repair(shaped.parts["messages"], provider=self._dialect).messages),
            limit: request.max_output_tokens,
            **self._extra,
            **options,
            "stream": True,
        }

    def _responses(self, request: SummaryRequest) -> dict[str, Any]:
        ours = anthropic_messages([*request.messages, _asked(request)])
        shaped = openai_responses.to_provider(ours, system=request.system)
        items = repair(shaped.parts["input"], provider="openai_responses")
        return {
            "model": self.model,
            **{key: shaped.parts[key] for key in shaped.parts if key != "input"},
            "input": list(items.messages),
            "max_output_tokens": request.max_output_tokens,
            "store": False,
            **self._extra,
            "stream": True,
        }

    def _shared(self, request: SummaryRequest) -> dict[str, Any]:
        last = self.last_request()
        key = "messages" if self._api == "chat" else "input"
        sent = last.get(key)
        if not isinstance(sent, list) or last.get("previous_response_id"):
            raise PrefixLost("the last request does not hold the whole conversation")
        readings = (lambda: request.messages, lambda: self._translated(request.messages))
        limits = {name: request.max_output_tokens for name in _LIMITS if last.get(name) is not None}
        return {**last, **limits, key: extended(sent, readings, _asked(request)), "stream": True}

    def _translated(self, messages: Sequence[Any]) -> Sequence[Any]:
        ours = anthropic_messages(messages)
        if self._api == "responses":
            return list(openai_responses.to_provider(ours).parts["input"])
        if is_chat(messages):
            return messages
        return list(openai_chat.to_provider(ours, dialect=self._dialect).parts["messages"])

    def _endpoint(self, client: Any, body: Mapping[str, Any]) -> Any:
        return client.chat.completions if self._api == "chat" else client.responses

    def _reader(self) -> StreamReader:
        return ChatReader() if self._api == "chat" else ResponseReader()


def _asked(request: SummaryRequest) -> dict[str, Any]:
    return {"role": "user", "content": request.prompt}


class ChatReader:
    """Reads the chunks of a chat completion."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, str] = {}
        self._stop = self._model = ""
        self._usage: dict[str, Any] | None = None

    def feed(self, event: Any) -> str | None:
        """See `StreamReader`."""
        error = getattr(event, "error", None)
        # Some compatible servers report one in the middle of a stream, without an event name.
        if error:
            raise StreamFailed(str(error), {"error": error})
        self._model = event.model or self._model
        if event.usage is not None:
            self._usage = event.usage.model_dump(exclude_none=True)
        if not event.choices:
            return None
        choice = event.choices[0]
        self._stop = choice.finish_reason or self._stop
        return self._delta(choice.delta) if choice.delta is not None else None

    def _delta(self, delta: Any) -> str:
        for call in delta.tool_calls or ():
            if call.function is not None and call.function.name:
                self._calls[call.index] = call.function.name
        if delta.refusal:
            self._refusal.append(delta.refusal)
        text = delta.content or ""
        self._texts.append(text)
        return str(text)

    def reply(self) -> SummaryReply:
        """See `StreamReader`; a stream that ended without a finish reason was cut."""
        return SummaryReply(
            text="".join(self._texts) or "".join(self._refusal),
            finish_reason=self._stop or CUT_STREAM,
            tool_calls=tuple(self._calls[index] for index in sorted(self._calls)),
            refused=bool(self._refusal),
            model=self._model,
            usage=self._usage,
        )


class ResponseReader:
    """Reads the events of a response."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[str] = []
        self._end: Any = None

    def feed(self, event: Any) -> str | None:
        """See `StreamReader`."""
        kind = event.type
        if kind == "response.output_text.delta":
            self._texts.append(event.delta)
            return str(event.delta)
        if kind in ("response.failed", "error"):
            raise _failure(event)
        if kind in ("response.completed", "response.incomplete"):
            self._end = event.response
        elif kind == "response.output_item.done":
            self._item(event.item)
        # Parts and reasoning too are signs of life; that the response began or is queued is none.
        return "" if kind.startswith(("response.output", "response.reasoning")) else None

    def _item(self, item: Any) -> None:
        if item.type.endswith("_call"):
            self._calls.append(str(getattr(item, "name", None) or item.type))
        for part in (item.content or ()) if item.type == "message" else ():
            if part.type == "refusal":
                self._refusal.append(part.refusal)

    def reply(self) -> SummaryReply:
        """See `StreamReader`; a stream without an end was cut."""
        end = self._end
        details = getattr(end, "incomplete_details", None)
        reason = str(getattr(end, "status", None) or CUT_STREAM)
        usage = getattr(end, "usage", None)
        return SummaryReply(
            text="".join(self._texts) or "".join(self._refusal),
            finish_reason=str(getattr(details, "reason", None) or reason),
            tool_calls=tuple(self._calls),
            refused=bool(self._refusal),
            model=str(getattr(end, "model", "")),
            usage=usage.model_dump(exclude_none=True) if usage else None,
        )


def _failure(event: Any) -> StreamFailed:
    response = getattr(event, "response", None)
    error = getattr(response, "error", None) if response is not None else event
    details = {key: getattr(error, key, None) for key in ("code", "message")}
    return StreamFailed(f"{details['code']}: {details['message']}", {"error": details})

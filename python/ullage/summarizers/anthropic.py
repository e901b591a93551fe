"""A summarizer that asks a model through Anthropic's Messages API, or any server that speaks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.legality.repairs import repair
from ullage.providers import anthropic as shape
from ullage.summarizers.protocol import SummaryReply, SummaryRequest, anthropic_messages, used_tools
from ullage.summarizers.streams import CUT_STREAM, StreamingSummarizer, extended


class AnthropicSummarizer(StreamingSummarizer):
    """Writes summaries with Anthropic's SDK.

    Args:
        model: Such as `claude-haiku-4-5`. Mode `shared` always uses the main loop's model, since it repeats
            its request.
        client: An `anthropic.Anthropic` of the caller's (or for Bedrock, Vertex, ...); `None`: one is
            made for each call.
        async_client: An `anthropic.AsyncAnthropic`.
        api_key: `None`: `ANTHROPIC_API_KEY`.
        base_url: Of a compatible server; empty: Anthropic's.
        last_request: Arguments of the main loop's newest `messages.create` or `messages.stream`, or a
            function that returns them: then the shared prefix is tried first. `None`: what a `ContextManager` of
            the same model and form prepared last; in other places there is no shared prefix.
        window_tokens: Context window; `None`: from the model table.
        max_output_tokens: Longest response, in tokens; `None`: from the model table.
        extra: Further parameters of a plain call, such as `temperature`.

    Raises:
        MissingExtra: The package `anthropic` is not installed.
        InvalidPolicy: No key is known and no client given.
    """

    provider = form = "anthropic"
    _clients = ("Anthropic", "AsyncAnthropic")
    _keys = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")

    def body(self, request: SummaryRequest) -> dict[str, Any]:
        """The arguments of `messages.create`."""
        prompt = {"role": "user", "content": request.prompt}
        if request.mode == "shared":
            return self._shared(request, prompt)
        messages = [*anthropic_messages(request.messages), prompt]
        tools = used_tools(messages)
        shaped = shape.to_provider(messages).parts["messages"]
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": request.max_output_tokens,
            "messages": list(repair(shaped, model=self.model, tools=tools or None).messages),
            **self._extra,
        }
        if request.system:
            body["system"] = request.system
        if tools:
            body |= {"tools": tools, "tool_choice": {"type": "none"}}
        return {**body, "stream": True}

    def _shared(self, request: SummaryRequest, prompt: dict[str, Any]) -> dict[str, Any]:
        last = self.last_request()
        sent: Sequence[Any] = last.get("messages") or ()
        readings = (lambda: request.messages, lambda: anthropic_messages(request.messages))
        limit = self._limit(last, request.max_output_tokens)
        messages = extended(sent, readings, prompt)
        return {**last, "max_tokens": limit, "messages": messages, "stream": True}

    def _limit(self, last: Mapping[str, Any], wanted: int) -> int:
        """Room for the summary: the loop's own limit is for its responses, and is not part of what is cached.

        The thinking settings are part of it, and need the room that they were given.
        """
        setting = last.get("thinking")
        thinking = setting if isinstance(setting, Mapping) else {}
        budget, loop = thinking.get("budget_tokens"), last.get("max_tokens")
        if type(budget) is int:
            wanted += budget
        elif thinking.get("type") == "adaptive" and type(loop) is int:
            wanted = max(wanted, loop)
        most = self.max_output_tokens
        return wanted if most is None else min(wanted, max(most, (budget or 0) + 1))

    def _endpoint(self, client: Any, body: Mapping[str, Any]) -> Any:
        # What the main loop sends to the beta endpoint goes there too: headers decide the cache as well.
        return client.beta.messages if "betas" in body else client.messages

    def _reader(self) -> MessageReader:
        return MessageReader()


class MessageReader:
    """Reads the events of Anthropic's stream."""

    def __init__(self) -> None:
        self._texts: dict[int, list[str]] = {}
        self._calls: list[str] = []
        self._stop: str | None = None
        self._model = ""
        self._usage: dict[str, Any] = {}

    def feed(self, event: Any) -> str | None:
        """See `Reader`."""
        kind = event.type
        if kind == "content_block_delta":
            return self._delta(event)
        if kind == "content_block_start":
            return self._block(event)
        if kind == "message_start":
            self._model = event.message.model
            self._count(event.message.usage)
        elif kind == "message_delta":
            self._stop = event.delta.stop_reason
            self._count(event.usage)
        return None

    def _block(self, event: Any) -> str:
        block = event.content_block
        if block.type in ("tool_use", "server_tool_use", "mcp_tool_use"):
            self._calls.append(str(block.name))
        if block.type == "text" and block.text:
            self._texts.setdefault(event.index, []).append(block.text)
            return str(block.text)
        return ""

    def _delta(self, event: Any) -> str:
        text = getattr(event.delta, "text", None)
        if event.delta.type != "text_delta" or not text:
            return ""  # reasoning, a tool's input: the model works, but it is not the summary
        self._texts.setdefault(event.index, []).append(text)
        return str(text)

    def _count(self, usage: Any) -> None:
        figures = usage.model_dump(exclude_none=True) if usage is not None else {}
        self._usage.update(figures)

    def reply(self) -> SummaryReply:
        """See `Reader`; a stream that ended without a reason to stop was cut."""
        texts = ("".join(self._texts[index]) for index in sorted(self._texts))
        return SummaryReply(
            text="\n".join(texts),
            finish_reason=self._stop or CUT_STREAM,
            tool_calls=tuple(self._calls),
            refused=self._stop == "refusal",
            model=self._model,
            usage=self._usage or None,
        )

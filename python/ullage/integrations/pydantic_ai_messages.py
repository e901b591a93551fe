"""Pydantic AI's messages as messages of the internal view, and what changed there in copies of them."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ullage.integrations.conversations import blocks_of, in_place, text_of
from ullage.integrations.versions import absent
from ullage.messages import Item

try:
    from pydantic_ai.messages import (
        BinaryContent,
        CompactionPart,
        ImageUrl,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        RetryPromptPart,
        SystemPromptPart,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
except ImportError as exc:
    raise absent("pydantic-ai") from exc

__all__ = ["PydanticTranslator", "standing"]

OWN = {"ullage": "summary"}
"""Metadata of the parts that Ullage wrote."""

READ_AGAIN = frozenset(("capability-load", "tool-search"))
"""Kinds of tools whose results Pydantic AI reads back from the history: they are sent as they are."""


class PydanticTranslator:
    """Reads messages, and writes changes into copies of their parts; ids, metadata and signatures stay."""

    def read(self, message: ModelMessage) -> Item:
        """The message in the internal view."""
        if isinstance(message, ModelRequest):
            found = [block for part in message.parts for block in _asked(part)]
            return {"role": "user", "content": found or [_text("[nothing]")]}
        read: dict[str, Any] = {
            "role": "assistant",
            "content": [_said(part) for part in message.parts] or [_text("[nothing]")],
        }
        usage = message.usage
        if usage.input_tokens:
            read["usage"] = {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
            }
        return read

    def changed(self, message: ModelMessage, now: Item) -> ModelMessage:
        """A copy of the message that says what its reading says now."""
        if isinstance(message, ModelRequest):
            return _request_now(message, blocks_of(self.read(message)), blocks_of(now))
        return _response_now(message, blocks_of(now))

    def made(self, item: Item) -> ModelMessage:
        """A message that Ullage wrote: a summary, or an answer or a result that was missing."""
        results = [block for block in blocks_of(item) if block.get("type") == "tool_result"]
        if results:
            return ModelRequest(parts=[_missing(block) for block in results])
        if item.get("role") == "assistant":
            return ModelResponse(parts=[TextPart(text_of(item))])
        return ModelRequest(parts=[CompactionPart(content=text_of(item), metadata=OWN)])


def standing(messages: Sequence[ModelMessage]) -> list[Any]:
    """The system prompts in messages that are not sent."""
    return [
        part
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, SystemPromptPart)
    ]


# ---- in ---------------------------------------------------------------------------------------


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _asked(part: Any) -> Iterator[dict[str, Any]]:
    if _is_result(part):
        failed = isinstance(part, RetryPromptPart) or part.outcome in (
            "failed",
            "denied",
            "retried",
        )
        is_text = isinstance(part, RetryPromptPart)
        text = part.model_response() if is_text else part.model_response_str()
        block = {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": text}
        yield {**block, "is_error": True} if failed else block
    elif isinstance(part, UserPromptPart):
        given = [part.content] if isinstance(part.content, str) else part.content
        yield from (_content(each) for each in given)
    elif isinstance(part, SystemPromptPart):
        return  # sent wherever its message goes
    else:
        yield _text(_words(part))


def _content(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        return _text(given)
    if isinstance(given, ImageUrl):
        return {"type": "image", "source": {"type": "url", "url": given.url}}
    if isinstance(given, BinaryContent):
        kind = "image" if given.is_image else "document"
        data = base64.b64encode(given.data).decode("ascii")
        return {"type": kind, "source": {"type": "base64", "media_type": given.media_type, "data": data}}  # fmt: skip
    return _text(str(getattr(given, "content", None) or f"[{type(given).__name__}]"))


def _words(part: Any) -> str:
    """A reading of a part of no known kind, for counts and summaries; it is sent as it is."""
    content = getattr(part, "content", None)
    return content if isinstance(content, str) and content else f"[{part.part_kind}]"


def _said(part: Any) -> dict[str, Any]:
    if isinstance(part, ToolCallPart):
        return {
            "type": "tool_use",
            "id": part.tool_call_id,
            "name": part.tool_name,
            "input": part.args_as_dict(),
        }
    if isinstance(part, ThinkingPart):
        return {"type": "thinking", "thinking": part.content, "signature": part.signature or ""}
    if isinstance(part, TextPart):
        return _text(part.content or "[no text]")
    args = getattr(part, "args", None)
    return _text(
        f"[{getattr(part, 'tool_name', part.part_kind)} {args or ''}]" if args else _words(part)
    )


# ---- back -------------------------------------------------------------------------------------


def _request_now(
    message: ModelRequest, before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
) -> ModelRequest:
    results = iter(in_place(before, now, "tool_result"))
    parts: list[Any] = []
    for part in message.parts:
        if not _is_result(part):
            parts.append(part)
        elif (result := next(results)) is not None:
            parts.append(_result_now(part, result))
    texts, known = (
        [str(block["text"]) for block in blocks if block.get("type") == "text"]
        for blocks in (now, before)
    )
    added = (text for text in texts if text not in known)
    return replace(message, parts=[*parts, *(UserPromptPart(text) for text in added)])


def _is_result(part: Any) -> bool:
    return isinstance(part, ToolReturnPart) or (
        isinstance(part, RetryPromptPart) and bool(part.tool_name)
    )


def _result_now(part: Any, result: Mapping[str, Any]) -> Any:
    name, text = str(result["tool_use_id"]), text_of({"content": result.get("content")})
    if name != part.tool_call_id:
        part = replace(part, tool_call_id=name)
    if isinstance(part, RetryPromptPart) or part.tool_kind in READ_AGAIN:
        return part
    return part if text == part.model_response_str() else replace(part, content=text)


def _response_now(message: ModelResponse, now: Sequence[Mapping[str, Any]]) -> ModelResponse:
    said = [_said(part) for part in message.parts]
    calls = iter(in_place(said, now, "tool_use"))
    thinks = any(block.get("type") == "thinking" for block in now)
    parts: list[Any] = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            call = next(calls)
            if call is not None:
                parts.append(_call_now(part, call))
        elif thinks or not isinstance(part, ThinkingPart):
            parts.append(part)
    return replace(message, parts=parts)


def _call_now(part: ToolCallPart, call: Mapping[str, Any]) -> ToolCallPart:
    if call["id"] != part.tool_call_id:
        part = replace(part, tool_call_id=str(call["id"]))
    same = part.args_as_dict() == call["input"]
    return part if same else replace(part, args=dict(call["input"]))


def _missing(block: Mapping[str, Any]) -> ToolReturnPart:
    text, call = text_of({"content": block.get("content")}), str(block.get("tool_use_id"))
    return ToolReturnPart("", text, call, outcome="interrupted")

"""LangChain's messages as messages of the internal view, and what changed there in LangChain's messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ullage.integrations.conversations import blocks_of, in_place, text_of
from ullage.integrations.versions import absent
from ullage.messages import THINKING, Item
from ullage.providers._common import from_url

try:
    from langchain_core.messages import (
        AIMessage,
        AnyMessage,
        FunctionMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
    )
except ImportError as exc:
    raise absent("langchain") from exc

__all__ = ["LangChainTranslator"]

_CALLS = frozenset(("tool_use", "tool_call", "function_call", "tool_call_chunk", "input_json_delta", "invalid_tool_call"))  # fmt: skip
_REASONING = frozenset((*THINKING, "reasoning", "reasoning_content"))


class LangChainTranslator:
    """Reads messages, and writes changes into copies of them; ids, artifacts, usage and metadata stay."""

    def read(self, message: AnyMessage) -> Item:
        """The message in the internal view."""
        if isinstance(message, AIMessage):
            return _response(message)
        if isinstance(message, ToolMessage):
            return {"role": "user", "content": [_result(message)]}
        role = "system" if isinstance(message, SystemMessage) else "user"
        if getattr(message, "role", None) == "assistant":
            role = "assistant"
        return {"role": role, "content": _content(message.content)}

    def changed(self, message: AnyMessage, now: Item) -> AnyMessage:
        """A copy of the message that says what its reading says now."""
        if isinstance(message, ToolMessage):
            result = in_place([_result(message)], blocks_of(now), "tool_result")[0]
            return self.made(now) if result is None else _result_now(message, result)
        if isinstance(message, AIMessage):
            return _response_now(message, blocks_of(now))
        if isinstance(message, FunctionMessage):
            return message.model_copy(update={"content": text_of(now)})
        before = blocks_of(self.read(message))
        more = [dict(block) for block in blocks_of(now)[len(before) :]]
        return message.model_copy(update={"content": [*_as_list(message.content), *more]})

    def made(self, item: Item) -> AnyMessage:
        """A message that Ullage wrote: the user's, or an answer or a result that was missing."""
        result = next((each for each in blocks_of(item) if each.get("type") == "tool_result"), None)
        if result is not None:
            call = str(result.get("tool_use_id"))
            return ToolMessage(_plain(result.get("content")), tool_call_id=call)
        text = text_of(item)
        own = {"additional_kwargs": {"lc_source": "ullage"}}
        if item.get("role") == "assistant":
            return AIMessage(text, **own)
        return (
            SystemMessage(text, **own)
            if item.get("role") == "system"
            else HumanMessage(text, **own)
        )


# ---- in ---------------------------------------------------------------------------------------


def _content(content: str | list[Any]) -> str | list[dict[str, Any]]:
    return content if isinstance(content, str) else list(_blocks(content))


def _blocks(content: list[Any]) -> Iterator[dict[str, Any]]:
    for block in content:
        if isinstance(block, str):
            yield {"type": "text", "text": block}
        elif not isinstance(block, Mapping) or block.get("type") in _CALLS:
            continue
        elif block.get("type") == "image_url":
            url = block.get("image_url")
            found = url.get("url") if isinstance(url, Mapping) else url
            yield {"type": "image", "source": from_url(str(found))}
        elif block.get("type") in ("reasoning", "reasoning_content"):
            yield {"type": "thinking", "thinking": json.dumps(block, default=str), "signature": ""}
        else:
            yield dict(block)


def _response(message: AIMessage) -> Item:
    content = message.content
    blocks = list(_blocks([content] if isinstance(content, str) and content else content or []))
    read: dict[str, Any] = {"role": "assistant", "content": [*blocks, *_calls(message)]}
    usage = message.usage_metadata
    if usage:
        read["usage"] = {name: usage[name] for name in ("input_tokens", "output_tokens")}
    return read


def _calls(message: AIMessage) -> Iterator[dict[str, Any]]:
    for at, call in enumerate([*message.tool_calls, *message.invalid_tool_calls]):
        given = call["args"] if isinstance(call["args"], dict) else {"arguments": call["args"]}
        name = call["id"] or f"call_{message.id}_{at}"
        yield {"type": "tool_use", "id": name, "name": call["name"] or "", "input": given}


def _result(message: ToolMessage) -> dict[str, Any]:
    block = {
        "type": "tool_result",
        "tool_use_id": message.tool_call_id,
        "content": _content(message.content),
    }
    return {**block, "is_error": True} if message.status == "error" else block


# ---- back -------------------------------------------------------------------------------------


def _plain(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [dict(block) for block in content or () if isinstance(block, Mapping)] or ""


def _as_list(content: str | list[Any]) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)


def _result_now(message: ToolMessage, result: Mapping[str, Any]) -> ToolMessage:
    named = {"content": _plain(result.get("content")), "tool_call_id": str(result["tool_use_id"])}
    return message.model_copy(update=named)


def _response_now(message: AIMessage, now: list[Mapping[str, Any]]) -> AIMessage:
    """The response with what its calls hold now, and without thinking where that left."""
    before = list(_calls(message))
    found = in_place(before, now, "tool_use")
    calls = [
        {**call, "args": block["input"], "id": call["id"] and block["id"]}
        for call, block in zip(message.tool_calls, found, strict=False)
        if block is not None
    ]
    thinks = any(block.get("type") in _REASONING for block in now)
    content = message.content
    if isinstance(content, list):
        stays = [block for block in content if thinks or _kind(block) not in _REASONING]
        content = list(_content_now(stays, list(zip(before, found, strict=True))))
    more = dict(message.additional_kwargs)
    for name in () if calls == message.tool_calls else ("tool_calls", "function_call"):
        more.pop(name, None)
    if not thinks:
        more.pop("reasoning_content", None)
    update = {"content": content, "tool_calls": calls, "additional_kwargs": more}
    return message.model_copy(update=update)


def _kind(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else None


def _content_now(
    content: list[Any], calls: list[tuple[dict[str, Any], Mapping[str, Any] | None]]
) -> Iterator[Any]:
    """The content, in which calls may stand once more: the first of an id is the first call of that id."""
    for block in content:
        name = "call_id" if _kind(block) == "function_call" else "id"
        is_call = _kind(block) in ("tool_use", "tool_call", "function_call")
        ids = [before["id"] for before, _ in calls]
        if not is_call or block.get(name) not in ids:
            yield block
            continue
        before, now = calls.pop(ids.index(block[name]))
        if now is None:
            continue
        key, given = ("args" if _kind(block) == "tool_call" else "input"), now["input"]
        if name == "call_id":
            key, given = "arguments", json.dumps(given)
        same = now["input"] == before["input"]
        yield {**block, name: now["id"], **({} if same else {key: given})}

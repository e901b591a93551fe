"""LlamaIndex's messages as messages of the internal view, and what changed there in copies of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ullage.integrations.conversations import blocks_of, in_place, text_of
from ullage.integrations.versions import absent
from ullage.messages import Item
from ullage.providers._common import from_url

try:
    from llama_index.core.base.llms.types import (
        ChatMessage,
        DocumentBlock,
        ImageBlock,
        TextBlock,
        ThinkingBlock,
        ToolCallBlock,
    )
except ImportError as exc:
    raise absent("llama-index") from exc

__all__ = ["ChatMessageTranslator"]

_ROLES = {"developer": "system", "chatbot": "assistant", "model": "assistant", "tool": "user", "function": "user"}  # fmt: skip
_BYTES = {"audio", "video", "data", "image"}
"""Fields of blocks that hold a file."""


class ChatMessageTranslator:
    """Reads messages, and writes changes into copies; `additional_kwargs` stay.

    Calls that older integrations keep in `additional_kwargs` are read, and never changed.
    """

    def read(self, message: ChatMessage) -> Item:
        """The message in the internal view."""
        blocks = [*_blocks(message.blocks), *_older_calls(message)]
        call = _answered(message)
        if call:
            result = {"type": "tool_result", "tool_use_id": call, "content": blocks}
            return {"role": "user", "content": [result]}
        role = str(message.role.value)
        return {"role": _ROLES.get(role, role), "content": blocks}

    def changed(self, message: ChatMessage, now: Item) -> ChatMessage:
        """A copy of the message that says what its reading says now."""
        blocks, more = blocks_of(now), dict(message.additional_kwargs)
        if _answered(message):
            result = next((each for each in blocks if each.get("type") == "tool_result"), None)
            if result is None:
                return self.made(now)
            more["tool_call_id"] = str(result["tool_use_id"])
            blocks = blocks_of({"content": result.get("content")})
        own = list(_now(message.blocks, blocks))
        return message.model_copy(update={"blocks": own, "additional_kwargs": more})

    def made(self, item: Item) -> ChatMessage:
        """A message that Ullage wrote: the user's, or an answer or a result that was missing."""
        result = next((each for each in blocks_of(item) if each.get("type") == "tool_result"), None)
        if result is None:
            return ChatMessage(text_of(item), role=item["role"])
        named = {"tool_call_id": str(result.get("tool_use_id"))}
        text = text_of({"content": result.get("content")})
        return ChatMessage(text, role="tool", additional_kwargs=named)


def _answered(message: ChatMessage) -> str:
    """The call whose result the message is; empty: it is none."""
    named = message.additional_kwargs.get("tool_call_id")
    return str(named) if named and message.role.value in ("tool", "function") else ""


# ---- in ---------------------------------------------------------------------------------------


def _blocks(blocks: Sequence[Any]) -> list[dict[str, Any]]:
    return [read for block in blocks if (read := _read(block)) is not None]


def _read(block: Any) -> dict[str, Any] | None:
    """A block in the internal view; `None`: it says nothing, as a cache point."""
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ThinkingBlock):
        sign = str(block.additional_information.get("signature") or "")
        return {"type": "thinking", "thinking": block.content or "", "signature": sign}
    if isinstance(block, ToolCallBlock):
        # Without an id LlamaIndex names a call by its tool, and its result likewise.
        name, given = block.tool_call_id or block.tool_name, _given(block.tool_kwargs)
        return {"type": "tool_use", "id": name, "name": block.tool_name, "input": given}
    if isinstance(block, ImageBlock):
        return {"type": "image", "source": _source(block, block.image, block.image_mimetype)}
    if isinstance(block, DocumentBlock):
        return {"type": "document", "source": _source(block, block.data, block.document_mimetype)}
    if block.block_type == "cache":
        return None
    return {"type": "text", "text": block.model_dump_json(exclude=_BYTES)}


def _source(block: ImageBlock | DocumentBlock, data: Any, kind: str | None) -> dict[str, Any]:
    if isinstance(data, bytes):
        kind = kind or ("image/png" if isinstance(block, ImageBlock) else "application/pdf")
        return {"type": "base64", "media_type": kind, "data": data.decode("ascii", "replace")}
    return from_url(str(block.url or block.path or ""))


def _older_calls(message: ChatMessage) -> Iterator[dict[str, Any]]:
    """Calls in OpenAI's form, where older integrations keep them."""
    if any(isinstance(block, ToolCallBlock) for block in message.blocks):
        return
    for call in message.additional_kwargs.get("tool_calls") or ():
        plain = call if isinstance(call, Mapping) else call.model_dump()
        about = plain.get("function") or {}
        given, name = _given(about.get("arguments") or {}), str(about.get("name"))
        yield {"type": "tool_use", "id": str(plain.get("id") or name), "name": name, "input": given}


def _given(arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return {"arguments": arguments}
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


# ---- back -------------------------------------------------------------------------------------


def _now(blocks: Sequence[Any], now: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    """The blocks that are still there, those that say something else, and what is new."""
    before = _blocks(blocks)
    fresh = [each for each in now if each.get("type") == "text" and each not in before]
    calls = iter(in_place(before, now, "tool_use"))
    for block in blocks:
        read = _read(block)
        if isinstance(block, ToolCallBlock):
            yield from _call_now(block, read, next(calls))
        elif read is None or read in now:
            yield block
        elif not isinstance(block, ThinkingBlock) and fresh:
            yield TextBlock(text=fresh.pop(0)["text"])
    yield from (TextBlock(text=each["text"]) for each in fresh)


def _call_now(
    block: ToolCallBlock, before: Mapping[str, Any] | None, now: Mapping[str, Any] | None
) -> Iterator[ToolCallBlock]:
    """The call with what it holds now; `now`: `None` where it went."""
    if now == before:
        yield block
    elif now is not None:
        given = dict(now["input"])
        text = json.dumps(given) if isinstance(block.tool_kwargs, str) else given
        yield block.model_copy(update={"tool_kwargs": text, "tool_call_id": str(now["id"])})

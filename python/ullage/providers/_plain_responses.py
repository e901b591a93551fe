"""Plain items of the Responses API, both ways; see `_plain_chat`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ullage.messages import Block, Item
from ullage.providers._common import FOREIGN, arguments_in, arguments_out

_FORM: Final = "openai_responses"
_MAX_ID_CHARS: Final = 64
_SIDES: Final = ("user", "assistant")
_WORDS: Final = {"role", "content"}
_MESSAGE: Final = {"type", "role", "content"}
_CALL: Final = {"type", "call_id", "name", "arguments"}
_OUTPUT: Final = {"type", "call_id", "output"}
_TEXT: Final = {"type", "text"}
_USE: Final = {"type", "id", "name", "input"}
_ANSWER: Final = {"type", "tool_use_id", "content"}


def read_plain(item: Item) -> Item | None:
    """One item in the internal view; `None`: it takes the longer way."""
    if type(item) is not dict:
        return None
    if item.keys() == _WORDS:
        role, content = item["role"], item["content"]
        plain = type(content) is str and role in _SIDES
        return {"role": role, "content": content} if plain else None
    kind, call = item.get("type"), item.get("call_id")
    if kind == "message":
        return _message_in(item)
    if type(call) is not str or call.startswith("unknown_"):
        return None
    if kind == "function_call_output":
        output = item.get("output")
        if type(output) is not str or item.keys() != _OUTPUT:
            return None
        block = {"type": "tool_result", "tool_use_id": call, "content": output}
        return {"role": "user", "content": [block]}
    return _call_in(item, call) if kind == "function_call" else None


def _message_in(item: dict[str, Any]) -> Item | None:
    content = item.get("content")
    if item.get("role") != "assistant" or type(content) is not str or item.keys() != _MESSAGE:
        return None
    return {"role": "assistant", "content": [{"type": "text", "text": content}]}


def _call_in(item: dict[str, Any], call: str) -> Item | None:
    name, arguments = item.get("name"), item.get("arguments")
    if type(name) is not str or not name or type(arguments) is not str or "role" in item:
        return None
    given, data = arguments_in(arguments)
    extra = {key: item[key] for key in item if key not in _CALL}
    if "content" in extra or FOREIGN in extra or "message" in extra:
        return None
    if extra:
        data = {**data, "item": extra}
    block: Block = {"type": "tool_use", "id": call, "name": name, "input": given}
    if data:
        block[FOREIGN] = {_FORM: data}
    return {"role": "assistant", "content": [block]}


def write_plain(messages: Sequence[Item]) -> list[Item] | None:
    """What `to_provider` writes of whole rounds that are not the first; `None`: it takes the longer way.

    Args:
        messages: Answers, each with its results or followed by the user's words; names of tools are the provider's.
    """
    written: list[Item] = []
    for message in messages:
        role, content = message["role"], message["content"]
        if type(content) is str:
            written.append({"role": role, "content": content})
            continue
        for block in content:
            made = _said_out(block) if role == "assistant" else _output_out(block)
            if made is None:
                return None
            written.append(made)
    return written


def _said_out(block: Block) -> dict[str, Any] | None:
    if block.get("type") == "tool_use":
        return _call_out(block)
    if block.keys() != _TEXT:
        return None
    return {"type": "message", "role": "assistant", "content": block["text"]}


def _call_out(block: Block) -> dict[str, Any] | None:
    kept: Any = {}
    if len(block) == 5:
        kept = block[FOREIGN].get(_FORM) if FOREIGN in block else None
        if type(kept) is not dict or not kept.keys() <= {"arguments", "item"}:
            return None
    elif block.keys() != _USE:
        return None
    if not 0 < len(block["id"]) <= _MAX_ID_CHARS:
        return None
    arguments = arguments_out(block, kept)
    told = {"type": "function_call", "call_id": block["id"], "name": block["name"]}
    return {**kept.get("item", {}), **told, "arguments": arguments}


def _output_out(block: Block) -> dict[str, Any] | None:
    if block.keys() != _ANSWER or type(block["content"]) is not str:
        return None
    call = block["tool_use_id"]
    if not 0 < len(call) <= _MAX_ID_CHARS:
        return None
    return {"type": "function_call_output", "call_id": call, "output": block["content"]}

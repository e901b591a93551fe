"""Plain messages of the chat form, both ways: text, calls of functions, results that are text.

Most messages of an agent are like that, and an idle turn translates two. What is not recognised here is not wrong: it
takes the longer way, which gives the same for what is (`tests/providers/test_plain_forms.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ullage.messages import Block, Item
from ullage.providers._common import FOREIGN, USER_FILLER, arguments_in, arguments_out

_FORM: Final = "openai_chat"
_MAX_ID_CHARS: Final = 40
_SAID: Final = frozenset(("role", "content", "tool_calls"))
_WORDS: Final = {"role", "content"}
_RESULT: Final = {"role", "tool_call_id", "content"}
_CALL: Final = {"id", "type", "function"}
_FUNCTION: Final = {"name", "arguments"}
_TEXT: Final = {"type", "text"}
_USE: Final = {"type", "id", "name", "input"}
_ANSWER: Final = {"type", "tool_use_id", "content"}


def read_plain(message: Item) -> Item | None:
    """One message in the internal view; `None`: it takes the longer way."""
    if type(message) is not dict:
        return None
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        return _answer_in(message, content)
    if type(content) is not str:
        return None
    if role == "tool":
        call = message.get("tool_call_id")
        if type(call) is not str or message.keys() != _RESULT or call.startswith("unknown_"):
            return None
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        return {"role": "user", "content": [block]}
    plain = role == "user" and message.keys() == _WORDS and content != USER_FILLER
    return {"role": "user", "content": content} if plain else None


def _answer_in(message: dict[str, Any], content: Any) -> Item | None:
    if not _SAID.issuperset(message) or "content" not in message:
        return None
    calls = message.get("tool_calls") or ()
    if type(content) is str:
        if not calls:
            return {"role": "assistant", "content": content}
        blocks: list[Block] = [{"type": "text", "text": content}] if content else []
    elif content is None and type(calls) is list:
        blocks = []
    else:
        return None
    for call in calls:
        block = _call_in(call)
        if block is None:
            return None
        blocks.append(block)
    return {"role": "assistant", "content": blocks}


def _call_in(call: Any) -> Block | None:
    if type(call) is not dict or call.keys() != _CALL or call["type"] != "function":
        return None
    name, function = call["id"], call["function"]
    if type(name) is not str or type(function) is not dict or function.keys() != _FUNCTION:
        return None
    if type(function["name"]) is not str or type(function["arguments"]) is not str:
        return None
    given, kept = arguments_in(function["arguments"])
    block = {"type": "tool_use", "id": name, "name": function["name"], "input": given}
    return {**block, FOREIGN: {_FORM: kept}} if kept else block


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
        elif role == "assistant":
            made = _answer_out(content)
            if made is None:
                return None
            written.append(made)
        else:
            for block in content:
                if block.keys() != _ANSWER or type(block["content"]) is not str:
                    return None
                call = block["tool_use_id"]
                if not 0 < len(call) <= _MAX_ID_CHARS:
                    return None
                written.append({"role": "tool", "tool_call_id": call, "content": block["content"]})
    return written


def _answer_out(content: Any) -> dict[str, Any] | None:
    said: Any = None
    calls: list[dict[str, Any]] = []
    for block in content:
        if block.get("type") == "tool_use":
            made = _call_out(block)
            if made is None:
                return None
            calls.append(made)
        elif said is not None or block.keys() != _TEXT:
            return None
        else:
            said = block["text"]
    written = {"role": "assistant", "content": said}
    return {**written, "tool_calls": calls} if calls else written


def _call_out(block: Block) -> dict[str, Any] | None:
    kept: Any = {}
    if len(block) == 5:
        kept = block[FOREIGN].get(_FORM) if FOREIGN in block else None
        if type(kept) is not dict or kept.keys() != {"arguments"}:
            return None
    elif block.keys() != _USE:
        return None
    if not 0 < len(block["id"]) <= _MAX_ID_CHARS:
        return None
    function = {"name": block["name"], "arguments": arguments_out(block, kept)}
    return {"id": block["id"], "type": "function", "function": function}

"""Reads items of the Responses API into the internal view.

An item keeps what the internal view has no word for under `foreign`: `item` (keys besides the known
ones, or the whole item), `head` and `part` (the same for messages and their parts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ullage.messages import Block
from ullage.providers._common import FOREIGN, Losses, carrying, from_url
from ullage.providers._json import arguments_in, dumps
from ullage.providers._results import place_result

__all__ = ["ResponsesReader", "Side", "blocks_in", "joined", "message_in", "side_of", "tool_in"]

SHAPE = "openai_responses"

Side: TypeAlias = Literal["assistant", "user", "system", "result"]

_PLAIN_HEAD = {"type": "message"}
_CALL = frozenset({"type", "call_id", "name", "arguments"})
_CUSTOM = frozenset({"type", "call_id", "name", "input"})
_OUTPUT = frozenset({"type", "call_id", "output"})


def side_of(item: Mapping[str, Any]) -> Side:
    """Whose message an item belongs to: calls and what is opaque are the assistant's."""
    role = item.get("role")
    if role in ("system", "developer"):
        return "system"
    if role == "user":
        return "user"
    kind = str(item.get("type"))
    return "result" if kind.endswith("_output") and "call_id" in item else "assistant"


def blocks_in(item: Mapping[str, Any], ids: Mapping[str, str] | None = None) -> list[Block]:
    """An item as blocks: one, or one for each part of a message."""
    kind = str(item.get("type") or "message")
    if kind == "message":
        return _message_blocks(item)
    if kind == "reasoning":
        return [_thinking(item)]
    if "call_id" in item:
        return [_result(item, ids or {}) if kind.endswith("_output") else _call(item, ids or {})]
    return [_opaque(item)]


def _opaque(item: Mapping[str, Any]) -> Block:
    return {"type": FOREIGN, FOREIGN: {SHAPE: {"item": dict(item)}}}


def _thinking(item: Mapping[str, Any]) -> Block:
    """The summary is the readable part; the item itself is sent back unchanged."""
    listed = [*(item.get("summary") or ()), *(item.get("content") or ())]
    texts = [str(part.get("text", "")) for part in listed if isinstance(part, Mapping)]
    return carrying(
        {"type": "thinking", "thinking": "\n\n".join(texts)}, SHAPE, {"item": dict(item)}
    )


# ---- messages ------------------------------------------------------------------------------------


def _message_blocks(item: Mapping[str, Any]) -> list[Block]:
    """The first block names the item, the others continue it."""
    head = {key: value for key, value in item.items() if key not in ("role", "content")}
    content = item.get("content")
    if isinstance(content, str):
        return [carrying({"type": "text", "text": content}, SHAPE, {"head": head, "string": True})]
    blocks = [part_in(part) for part in content or ()]
    for index, block in enumerate(blocks):
        kept = block.get(FOREIGN, {}).get(SHAPE, {})
        extra = {"continues": True} if index else {"head": head}
        blocks[index] = carrying(block, SHAPE, {**kept, **extra})
    return blocks


def part_in(part: Any) -> Block:
    """One part of a message or of an output."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind in ("input_text", "output_text", "text") and isinstance(part.get("text"), str):
        extra = {key: value for key, value in part.items() if key not in ("type", "text")}
        return carrying(
            {"type": "text", "text": part["text"]}, SHAPE, {"part": extra} if extra else {}
        )
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        extra = {key: value for key, value in part.items() if key not in ("type", "image_url")}
        block: Block = {"type": "image", "source": from_url(part["image_url"])}
        return carrying(block, SHAPE, {"part": extra} if extra else {})
    if kind == "input_file":
        source = from_url(str(part.get("file_data") or ""))
        if source["type"] == "base64":
            return _document(part, source)
    return {"type": FOREIGN, FOREIGN: {SHAPE: {"opaque": part}}}


def _document(part: Mapping[str, Any], source: dict[str, Any]) -> Block:
    extra = {
        key: value for key, value in part.items() if key not in ("type", "file_data", "filename")
    }
    block: Block = {"type": "document", "source": source}
    if part.get("filename"):
        block["title"] = part["filename"]
    return carrying(block, SHAPE, {"part": extra} if extra else {})


# ---- calls and outputs ---------------------------------------------------------------------------


def _call(item: Mapping[str, Any], ids: Mapping[str, str]) -> Block:
    kind, told = str(item.get("type")), item.get("call_id")
    data: dict[str, Any] = {}
    known = frozenset(item)
    if kind == "function_call":
        value, data = arguments_in(item.get("arguments"))
        known = _CALL
    elif kind == "custom_tool_call":
        value, data, known = {"input": item.get("input", "")}, {"type": kind}, _CUSTOM
    else:
        value, data = _other_input(item), {"type": kind, "whole": dict(item)}
    extra = {key: item[key] for key in item if key not in known}
    name = item.get("name") or kind.removesuffix("_call")
    block = {"type": "tool_use", "id": ids.get(str(told), told), "name": name, "input": value}
    return carrying(block, SHAPE, {**data, **({"item": extra} if extra else {})})


def _other_input(item: Mapping[str, Any]) -> dict[str, Any]:
    """What a call of a built-in tool asks for, to be read and measured."""
    for key in ("action", "arguments", "operation"):
        if isinstance(item.get(key), Mapping):
            return dict(item[key])
    return {
        key: value for key, value in item.items() if key not in ("type", "id", "call_id", "status")
    }


def _result(item: Mapping[str, Any], ids: Mapping[str, str]) -> Block:
    kind, told = str(item.get("type")), item.get("call_id")
    plain = kind in ("function_call_output", "custom_tool_call_output")
    block: Block = {
        "type": "tool_result",
        "tool_use_id": ids.get(str(told), told),
        "content": output_in(item),
    }
    if not plain:
        return carrying(block, SHAPE, {"whole": dict(item)})
    extra = {key: value for key, value in item.items() if key not in _OUTPUT}
    return carrying(block, SHAPE, {"item": extra} if extra else {})


def output_in(item: Mapping[str, Any]) -> Any:
    """What an output says: its text, its parts, or the rest of the item as JSON."""
    output = item.get("output")
    if isinstance(output, str):
        return output
    if isinstance(output, list):
        return [part_in(part) for part in output]
    if output is not None:
        return dumps(output)
    rest = {
        key: value for key, value in item.items() if key not in ("type", "id", "call_id", "status")
    }
    return dumps(rest)


# ---- whole inputs --------------------------------------------------------------------------------


class ResponsesReader:
    """Builds messages: the assistant's items in a row are one, outputs in a row are one."""

    def __init__(self, ids: Mapping[str, str]) -> None:
        self.messages: list[dict[str, Any]] = []
        self.losses = Losses()
        self._ids = ids
        self._open: list[Block] | None = None

    def take_all(self, items: Sequence[Mapping[str, Any]]) -> None:
        for index, item in enumerate(items):
            self.take(item, index)
        self._close()

    def take(self, item: Mapping[str, Any], index: int) -> None:
        side = side_of(item)
        blocks = blocks_in(item, self._ids)
        if side == "assistant":
            self._open = [*(self._open or []), *blocks]
            return
        self._close()
        if side == "result":
            if not place_result(self.messages, blocks[0]):
                self.losses.add(
                    "order", f"input[{index}]", "results stand directly after their calls"
                )
            return
        self.messages.append(message_in(item, side))

    def _close(self) -> None:
        if self._open:
            self.messages.append({"role": "assistant", "content": joined(self._open)})
        self._open = None


def message_in(item: Mapping[str, Any], role: str) -> dict[str, Any]:
    """A user or system item as a message of `role`; its own role is kept where it differs."""
    head = {key: value for key, value in item.items() if key not in ("role", "content")}
    string = isinstance(item.get("content"), str)
    content: Any = (
        item["content"] if string else [part_in(part) for part in item.get("content") or ()]
    )
    data: dict[str, Any] = {} if head == ({} if string else _PLAIN_HEAD) else {"head": head}
    if item.get("role") != role:
        data["role"] = item.get("role")
    return carrying({"role": role, "content": content}, SHAPE, data)


def joined(blocks: list[Block]) -> Any:
    """Takes off the heads that writing would give anyway."""
    if len(blocks) == 1 and blocks[0].get(FOREIGN) == {SHAPE: {"head": {}, "string": True}}:
        return blocks[0]["text"]
    kept: list[Block] = []
    plain_before = False
    for block in blocks:
        data = dict(block.get(FOREIGN, {}).get(SHAPE, {}))
        plain_before = data.get("head") == _PLAIN_HEAD or (
            plain_before and data.get("continues") is True
        )
        if plain_before:
            for key in ("head", "continues", "string"):
                data.pop(key, None)
            rest = {key: value for key, value in block.items() if key != FOREIGN}
            block = carrying(rest, SHAPE, data)
        kept.append(block)
    return kept


def tool_in(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A function's definition; anything else is carried whole."""
    known = {"type", "name", "description", "parameters", "strict"}
    if tool.get("type") != "function" or not {"name", "parameters"} <= set(tool) <= known:
        name = tool.get("name") or str(tool.get("type"))
        return {"name": name, FOREIGN: {SHAPE: {"whole": dict(tool)}}}
    renamed = {"parameters": "input_schema"}
    return {renamed.get(key, key): value for key, value in tool.items() if key != "type"}

"""Writes items of the Responses API from the internal view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ullage.messages import Block, Item
from ullage.providers._common import (
    FOREIGN,
    Losses,
    as_text,
    bare,
    blocks_of,
    foreign,
    is_anthropic_only,
    is_text,
    note_foreign,
    note_keys,
    result_text,
    to_url,
)
from ullage.providers._ids import call_ids, map_ids, map_names, name_out
from ullage.providers._json import arguments_out
from ullage.providers._responses_in import SHAPE, output_in, side_of

__all__ = ["ResponsesWriter", "tools_out", "whole_units"]

_MAX_ID_CHARS = 64

_OWN_PARTS = frozenset(
    "input_text output_text input_image input_file input_audio refusal summary_text".split()
)
_TEXT_KEYS = frozenset({"type", "text", FOREIGN})
_MEDIA_KEYS = frozenset({"type", "source", "title", FOREIGN})
_CALL_KEYS = frozenset({"type", "id", "name", "input", FOREIGN})
_RESULT_KEYS = frozenset({"type", "tool_use_id", "content", FOREIGN})
_TOOL_KEYS = frozenset({"type", "name", "description", "input_schema", "strict", FOREIGN})
_OUTPUTS = {"custom_tool_call": "custom_tool_call_output"}


class ResponsesWriter:
    """Writes one conversation; holds what all its messages share."""

    def __init__(
        self, messages: Sequence[Item], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        self.losses = Losses()
        self.names = map_names(messages, tools)
        self.ids = map_ids(
            call_ids(messages), lambda one: 0 < len(one) <= _MAX_ID_CHARS, length=24, prefix="call_"
        )
        self._kinds: dict[str, str] = {}  # id of a call → its item type, for the type of the output

    def items(self, messages: Sequence[Item]) -> list[dict[str, Any]]:
        """All items in order."""
        written: list[dict[str, Any]] = []
        for index, message in bare(messages):
            note_foreign(message, SHAPE, f"messages[{index}]", self.losses)
            if message["role"] == "assistant":
                written.extend(self.assistant(message, index))
            else:
                written.extend(self.other(message, index))
        return written

    # -- assistant

    def assistant(self, message: Mapping[str, Any], index: int) -> Iterator[dict[str, Any]]:
        content = message.get("content")
        if isinstance(content, str):
            yield {"role": "assistant", "content": content}
            return
        said: dict[str, Any] | None = None
        for position, block in enumerate(blocks_of(content)):
            where = f"messages[{index}].content[{position}]"
            part = self.part(block, where, "output_text") if _is_said(block) else None
            if part is None:
                if said is not None:
                    yield said
                said = None
                yield from self.action(block, where)
                continue
            data = foreign(block, SHAPE)
            if said is not None and "continues" in data and isinstance(said["content"], list):
                said["content"].append(part)
                continue
            if said is not None:
                yield said
            said = _started(part, data)
        if said is not None:
            yield said

    def action(self, block: Block, where: str) -> Iterator[dict[str, Any]]:
        """What the assistant did besides speaking."""
        data = foreign(block, SHAPE)
        kind = str(block.get("type"))
        if kind == "tool_use":
            yield self.call(block, where)
        elif "item" in data:
            yield dict(data["item"])
        elif kind == FOREIGN:
            note_foreign(block, SHAPE, where, self.losses)
        elif not _is_said(block):
            self.losses.add(kind, where, "left out")

    def call(self, block: Block, where: str) -> dict[str, Any]:
        note_keys(block, _CALL_KEYS, where, self.losses)
        note_foreign(block, SHAPE, where, self.losses)
        data = foreign(block, SHAPE)
        kind = str(data.get("type", "function_call"))
        self._kinds[str(block.get("id"))] = kind
        call_id = self.ids.get(block["id"], block["id"])
        if "whole" in data:
            return {**data["whole"], "call_id": call_id}
        item = {
            **data.get("item", {}),
            "type": kind,
            "call_id": call_id,
            "name": name_out(block, self.names),
        }
        if kind == "custom_tool_call":
            value = block.get("input")
            return {
                **item,
                "input": value.get("input", "") if isinstance(value, Mapping) else value,
            }
        return {**item, "arguments": arguments_out(block, data)}

    # -- user and system

    def other(self, message: Mapping[str, Any], index: int) -> Iterator[dict[str, Any]]:
        data = foreign(message, SHAPE)
        role = data.get("role", message["role"])
        for key in ("output_config", "clear_at"):
            if key in message:
                self.losses.add(key, f"messages[{index}]", "the target has no such field")
        content = message.get("content")
        if isinstance(content, str):
            yield {**data.get("head", {}), "role": role, "content": content}
            return
        parts: list[dict[str, Any]] = []
        for position, block in enumerate(blocks_of(content)):
            where = f"messages[{index}].content[{position}]"
            if block.get("type") == "tool_result":
                yield self.output(block, where)
            elif "item" in foreign(block, SHAPE):
                yield dict(foreign(block, SHAPE)["item"])
            elif (part := self.part(block, where, "input_text")) is not None:
                parts.append(part)
        if parts:
            yield {**data.get("head", {"type": "message"}), "role": role, "content": parts}

    def output(self, block: Block, where: str) -> dict[str, Any]:
        note_keys(block, _RESULT_KEYS, where, self.losses)
        note_foreign(block, SHAPE, where, self.losses)
        data = foreign(block, SHAPE)
        old = str(block.get("tool_use_id"))
        call_id = self.ids.get(old, old)
        if "whole" in data:
            return {**_current(data["whole"], block), "call_id": call_id}
        kind = _OUTPUTS.get(self._kinds.get(old, ""), "function_call_output")
        told = self.output_content(block.get("content"), where)
        return {**data.get("item", {}), "type": kind, "call_id": call_id, "output": told}

    def output_content(self, content: Any, where: str) -> Any:
        if content is None or isinstance(content, str):
            return content or ""
        parts = (
            self.part(block, f"{where}.content[{position}]", "input_text")
            for position, block in enumerate(blocks_of(content))
        )
        return [part for part in parts if part is not None]

    # -- parts

    def part(self, block: Block, where: str, text_type: str) -> dict[str, Any] | None:
        kind = block.get("type")
        data = foreign(block, SHAPE)
        note_foreign(block, SHAPE, where, self.losses)
        extra = data.get("part", {})
        if kind == FOREIGN:
            return dict(data["opaque"]) if isinstance(data.get("opaque"), Mapping) else None
        if is_text(block):
            note_keys(block, _TEXT_KEYS, where, self.losses)
            return {**extra, "type": text_type, "text": block["text"]}
        if kind == "image" and (url := to_url(block.get("source"))) is not None:
            note_keys(block, _MEDIA_KEYS, where, self.losses)
            return {**extra, "type": "input_image", "image_url": url}
        url = to_url(block.get("source")) if kind == "document" else None
        if url is not None and url.startswith("data:"):
            note_keys(block, _MEDIA_KEYS, where, self.losses)
            name = {"filename": block["title"]} if block.get("title") else {}
            return {**extra, "type": "input_file", **name, "file_data": url}
        return self.read_out(block, where, text_type)

    def read_out(self, block: Block, where: str, text_type: str) -> dict[str, Any] | None:
        """A block without a word in this shape, as text; one of its own stays as it is."""
        kind = str(block.get("type"))
        if kind in _OWN_PARTS:
            return dict(block)
        text = as_text(block)
        self.losses.add(kind, where, "left out" if text is None else "sent as text")
        return None if text is None else {"type": text_type, "text": text}

    def told(self, block: Block, where: str) -> str:
        """A system block's text."""
        note_keys(block, _TEXT_KEYS, where, self.losses)
        return result_text([block])


def _is_said(block: Mapping[str, Any]) -> bool:
    """Whether a block is part of what the assistant says: a part of a `message` item."""
    kind = block.get("type")
    if kind == FOREIGN:
        return "opaque" in foreign(block, SHAPE)
    return kind != "tool_use" and (
        not is_anthropic_only(kind) or kind in ("compaction", "search_result")
    )


def _started(part: dict[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    head = data.get("head", {"type": "message"})
    content: Any = part.get("text", "") if data.get("string") else [part]
    return {**head, "role": "assistant", "content": content}


def _current(item: Mapping[str, Any], block: Block) -> dict[str, Any]:
    """The item as it came, unless its result was changed since."""
    if output_in(item) == block.get("content"):
        return dict(item)
    return {**item, "output": result_text(block.get("content"))}


def whole_units(
    items: list[dict[str, Any]], *, store: bool, losses: Losses
) -> list[dict[str, Any]]:
    """Keeps each reasoning item with what follows it, or drops both the item and the link to it.

    The server checks that link by the ids of the items, so an item that lost its reasoning also loses
    its id.
    """
    kept: list[dict[str, Any]] = []
    unlinked = False
    for index, item in enumerate(items):
        if item.get("type") == "reasoning":
            unlinked = not (_is_followed(items, index) and (store or item.get("encrypted_content")))
            if unlinked:
                losses.add("reasoning", f"input[{index}]", "the server could not use it")
                continue
        elif side_of(item) != "assistant":
            unlinked = False
        elif unlinked and item.get("id"):
            item = {key: value for key, value in item.items() if key != "id"}
        kept.extend(_spoken(item, index, losses))
    return kept


def _spoken(item: dict[str, Any], index: int, losses: Losses) -> Iterator[dict[str, Any]]:
    """An item as the API's types have it: parts of output belong to a message with an id, else text is a string."""
    content = item.get("content")
    if item.get("role") != "assistant" or item.get("id") or not isinstance(content, list):
        yield item
        return
    head = {key: value for key, value in item.items() if key != "status"}
    for part in content:
        said = part.get("text", part.get("refusal")) if isinstance(part, Mapping) else None
        if isinstance(said, str) and part.get("annotations"):
            losses.add("annotations", f"input[{index}]", "only a message with an id has them")
        yield {**head, "content": said if isinstance(said, str) else [part]}


def _is_followed(items: list[dict[str, Any]], index: int) -> bool:
    return index + 1 < len(items) and side_of(items[index + 1]) == "assistant"


def tools_out(
    tools: Sequence[Mapping[str, Any]], losses: Losses, names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Definitions of functions; what was carried whole; no server tools of others."""
    written: list[dict[str, Any]] = []
    for index, tool in enumerate(tools):
        data = foreign(tool, SHAPE)
        if "whole" in data:
            written.append(dict(data["whole"]))
        elif "input_schema" not in tool:
            losses.add("tool", f"tools[{index}]", "a server tool of another provider")
        else:
            note_keys(tool, _TOOL_KEYS, f"tools[{index}]", losses)
            keys = ("name", "description", "input_schema", "strict")
            renamed = {"input_schema": "parameters"}
            plain = {renamed.get(key, key): tool[key] for key in keys if key in tool}
            written.append({"type": "function", **plain, "name": name_out(tool, names)})
    return written

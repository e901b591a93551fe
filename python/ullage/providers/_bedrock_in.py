"""Reads Bedrock Converse into the internal view."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ullage.messages import Block
from ullage.providers._common import FOREIGN, USER_FILLER, carrying, foreign
from ullage.providers._json import dumps

__all__ = ["DOCUMENTS", "SHAPE", "STAND_IN", "BedrockReader", "blocks_in", "tools_in"]

SHAPE = "bedrock"

DOCUMENTS: Mapping[str, str] = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
"""Converse's names of document formats and their media types."""

_TOOLS = ("toolUse", "toolResult")

UNTITLED = re.compile(r"untitled-\d+")
"""Names of documents that have none: Converse wants one, and no two alike."""

STAND_IN = "Stands for a tool that earlier messages used and that is no longer offered."
"""Description of a declared tool that only keeps the history legal."""


class BedrockReader:
    """Builds messages, one for each of Converse."""

    def __init__(self, ids: Mapping[str, str]) -> None:
        self.messages: list[dict[str, Any]] = []
        self._ids = ids

    def take_all(self, messages: Sequence[Mapping[str, Any]]) -> None:
        for index, message in enumerate(messages):
            content = message.get("content") or []
            if index == 0 and content == [{"text": USER_FILLER}]:
                continue
            extra = {key: value for key, value in message.items() if key not in ("role", "content")}
            read = {"role": message.get("role"), "content": blocks_in(content, self._ids)}
            self.messages.append(carrying(read, SHAPE, {"message": extra} if extra else {}))


def blocks_in(content: Sequence[Mapping[str, Any]], ids: Mapping[str, str]) -> list[Block]:
    """Blocks of a message or of the system prompt; a cache point marks the block before it."""
    blocks: list[Block] = []
    for part in content:
        point = part.get("cachePoint") if set(part) == {"cachePoint"} else None
        marker = _marker(point)
        if (
            marker
            and blocks
            and "cache_control" not in blocks[-1]
            and blocks[-1]["type"] != FOREIGN
        ):
            blocks[-1] = {**blocks[-1], "cache_control": marker}
        else:
            blocks.append(_block(part, ids))
    return blocks


def _marker(point: Any) -> dict[str, Any] | None:
    if point == {"type": "default"}:
        return {"type": "ephemeral"}
    known = (
        isinstance(point, Mapping) and set(point) == {"type", "ttl"} and point["type"] == "default"
    )
    return {"type": "ephemeral", "ttl": point["ttl"]} if known else None


def _block(part: Mapping[str, Any], ids: Mapping[str, str]) -> Block:
    if len(part) == 1:
        (kind, value), *_ = part.items()
        if kind == "text":
            return {"type": "text", "text": value}
        reader = _READERS.get(kind)
        found: Block | None = reader(value, ids) if reader and isinstance(value, Mapping) else None
        if found is not None:
            return found
    kind = next((name for name in _TOOLS if isinstance(part.get(name), Mapping)), "")
    if kind:  # a call or result stays one, whatever stands next to it
        block: Block = _READERS[kind](part[kind], ids)
        rest = {key: value for key, value in part.items() if key != kind}
        return carrying(block, SHAPE, {**foreign(block, SHAPE), "rest": rest})
    return {"type": FOREIGN, FOREIGN: {SHAPE: {"part": dict(part)}}}


def _call(value: Mapping[str, Any], ids: Mapping[str, str]) -> Block:
    told = value.get("toolUseId")
    known = ("toolUseId", "name", "input")
    extra = {key: item for key, item in value.items() if key not in known}
    block = {
        "type": "tool_use",
        "id": ids.get(str(told), told),
        "name": value.get("name"),
        "input": value.get("input"),
    }
    return carrying(block, SHAPE, {"extra": extra} if extra else {})


def _result(value: Mapping[str, Any], ids: Mapping[str, str]) -> Block:
    told = value.get("toolUseId")
    known = ("toolUseId", "content", "status")
    extra = {key: item for key, item in value.items() if key not in known}
    content = [_inner(part) for part in value.get("content") or ()]
    block: Block = {
        "type": "tool_result",
        "tool_use_id": ids.get(str(told), told),
        "content": content,
    }
    if "status" in value:
        block["is_error"] = value["status"] == "error"
    return carrying(block, SHAPE, {"extra": extra} if extra else {})


def _inner(part: Mapping[str, Any]) -> Block:
    """A part of a result: JSON becomes text that remembers it."""
    if set(part) == {"json"}:
        text = dumps(part["json"])
        return carrying({"type": "text", "text": text}, SHAPE, {"json": part["json"]})
    return _block(part, {})


def _reasoning(value: Mapping[str, Any], ids: Mapping[str, str]) -> Block | None:
    del ids
    text = value.get("reasoningText")
    if set(value) == {"reasoningText"} and isinstance(text, Mapping):
        block = {"type": "thinking", "thinking": text.get("text", "")}
        if "signature" in text:
            return {**block, "signature": text["signature"]}
        return carrying(block, SHAPE, {"unsigned": True})
    if set(value) == {"redactedContent"}:
        return {"type": "redacted_thinking", "data": as_base64(value["redactedContent"])}
    return None


def _image(value: Mapping[str, Any], ids: Mapping[str, str]) -> Block | None:
    del ids
    data = _bytes_of(value, {"format", "source"})
    if data is None:
        return None
    kind = f"image/{value['format']}"
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def _document(value: Mapping[str, Any], ids: Mapping[str, str]) -> Block | None:
    del ids
    data = _bytes_of(value, {"format", "name", "source"})
    kind = DOCUMENTS.get(str(value.get("format")))
    if data is None or kind is None:
        return None
    source = {"type": "base64", "media_type": kind, "data": data}
    block: Block = {"type": "document", "source": source}
    name = str(value["name"])
    return block if UNTITLED.fullmatch(name) else {**block, "title": name}


def _bytes_of(value: Mapping[str, Any], keys: set[str]) -> str | None:
    source = value.get("source")
    plain = set(value) == keys and isinstance(source, Mapping) and set(source) == {"bytes"}
    return as_base64(source["bytes"]) if plain and isinstance(source, Mapping) else None


def as_base64(data: Any) -> str:
    """Bytes, as boto3 gives them, in base64; a string is base64 already."""
    return (
        base64.b64encode(data).decode("ascii") if isinstance(data, bytes | bytearray) else str(data)
    )


_READERS: Mapping[str, Any] = {
    "toolUse": _call,
    "toolResult": _result,
    "reasoningContent": _reasoning,
    "image": _image,
    "document": _document,
}


def tools_in(config: Any) -> list[dict[str, Any]] | None:
    """Definitions; stand-ins are left out, and a cache point marks the tool before it."""
    if not isinstance(config, Mapping):
        return None
    tools: list[dict[str, Any]] = []
    for part in config.get("tools") or ():
        spec = part.get("toolSpec")
        marker = _marker(part.get("cachePoint"))
        if marker and tools:
            tools[-1]["cache_control"] = marker
        elif not isinstance(spec, Mapping):
            tools.append(
                {"name": next(iter(part), "tool"), FOREIGN: {SHAPE: {"whole": dict(part)}}}
            )
        elif spec.get("description") != STAND_IN:
            tools.append(_tool(spec))
    return tools or None


def _tool(spec: Mapping[str, Any]) -> dict[str, Any]:
    schema = spec.get("inputSchema")
    read: dict[str, Any] = {"name": spec.get("name")}
    if "description" in spec:
        read["description"] = spec["description"]
    read["input_schema"] = schema.get("json") if isinstance(schema, Mapping) else {}
    if "strict" in spec:
        read["strict"] = spec["strict"]
    return read

"""Writes Bedrock Converse from the internal view."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ullage.facts.compaction_items import readable
from ullage.messages import THINKING, Block, Item
from ullage.providers._bedrock_in import DOCUMENTS, SHAPE, STAND_IN
from ullage.providers._common import (
    FOREIGN,
    USER_FILLER,
    Losses,
    as_text,
    bare,
    blocks_of,
    foreign,
    is_text,
    note_foreign,
    note_keys,
)
from ullage.providers._ids import call_ids, map_ids
from ullage.providers._json import loads_object

__all__ = ["BedrockWriter", "tool_config"]

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAME = re.compile(r"[^a-zA-Z0-9 ()\[\]-]+")
"""What a document's name may not hold; a run of white space is refused too."""

_FORMATS = {kind: name for name, kind in DOCUMENTS.items()}
_IMAGES = frozenset({"png", "jpeg", "gif", "webp"})

_TEXT_KEYS = frozenset({"type", "text", "cache_control", FOREIGN})
_MEDIA_KEYS = frozenset({"type", "source", "title", "cache_control", FOREIGN})
_CALL_KEYS = frozenset({"type", "id", "name", "input", "cache_control", FOREIGN})
_RESULT_KEYS = frozenset({"type", "tool_use_id", "content", "is_error", "cache_control", FOREIGN})
_THINKING_KEYS = frozenset({"type", "thinking", "signature", "data", FOREIGN})
_TOOL_KEYS = frozenset(
    {"type", "name", "description", "input_schema", "strict", "cache_control", FOREIGN}
)


class BedrockWriter:
    """Writes one conversation; holds what all its messages share."""

    def __init__(self, messages: Sequence[Item], *, as_bytes: bool) -> None:
        self.losses = Losses()
        self.ids = map_ids(
            call_ids(messages), lambda one: bool(_ID.fullmatch(one)), length=24, prefix="tooluse_"
        )
        self.called: dict[str, None] = {}  # names of tools that the history uses, in order
        self._as_bytes = as_bytes
        self._documents = 0

    def messages(self, messages: Sequence[Item]) -> list[dict[str, Any]]:
        """Messages in turn, a user's first."""
        written: list[dict[str, Any]] = []
        for index, message in bare(messages):
            content = self.content(message, index)
            if not content:
                continue
            role = "assistant" if message["role"] == "assistant" else "user"
            extra = foreign(message, SHAPE).get("message", {})
            if written and written[-1]["role"] == role:
                written[-1] = {**written[-1], **extra, "content": written[-1]["content"] + content}
            else:
                written.append({**extra, "role": role, "content": content})
        if written and written[0]["role"] == "assistant":
            written.insert(0, {"role": "user", "content": [{"text": USER_FILLER}]})
        return written

    def content(self, message: Mapping[str, Any], index: int) -> list[dict[str, Any]]:
        where = f"messages[{index}]"
        note_foreign(message, SHAPE, where, self.losses)
        blocks = blocks_of(message.get("content"))
        if message["role"] in ("user", "assistant"):
            return self.blocks(blocks, where)
        # Converse has system text at the start only; a later one stands as marked user text.
        text = "\n\n".join(str(block.get("text", "")) for block in blocks)
        self.losses.add("system message", where, "sent as marked user text" if text else "left out")
        return [{"text": f"<system>\n{text}\n</system>"}] if text else []

    def blocks(self, blocks: Sequence[Block], where: str) -> list[dict[str, Any]]:
        """Blocks with their cache points."""
        written: list[dict[str, Any]] = []
        for position, block in enumerate(blocks):
            part = self.block(block, f"{where}.content[{position}]")
            if part is not None:
                written.append(part)
                written.extend(_points(block))
        return written

    def block(self, block: Block, where: str) -> dict[str, Any] | None:
        kind = str(block.get("type"))
        note_foreign(block, SHAPE, where, self.losses)
        if kind == "tool_use":
            return self.call(block, where)
        if kind == "tool_result":
            return self.result(block, where)
        if kind in THINKING:
            return self.thinking(block, where)
        if kind == FOREIGN:
            part = foreign(block, SHAPE).get("part")
            text = readable(block)
            return dict(part) if part else {"text": text} if text else None
        if is_text(block):
            return self.text(block, where)
        if kind in ("image", "document"):
            part = self.media(block, where)
            if part is not None:
                note_keys(block, _MEDIA_KEYS, where, self.losses)
                return part
        return self.told(block, where)

    def text(self, block: Block, where: str) -> dict[str, Any] | None:
        note_keys(block, _TEXT_KEYS, where, self.losses)
        if not block["text"].strip():
            self.losses.add("text", where, "blank, left out")
            return None
        return {"text": block["text"]}

    def told(self, block: Block, where: str) -> dict[str, Any] | None:
        kind = str(block.get("type"))
        if "type" not in block:  # already in this shape
            return dict(block)
        text = as_text(block)
        self.losses.add(kind, where, "left out" if not text else "sent as text")
        return {"text": text} if text else None

    # -- calls, results, reasoning

    def call(self, block: Block, where: str) -> dict[str, Any]:
        note_keys(block, _CALL_KEYS, where, self.losses)
        self.called.setdefault(str(block.get("name")))
        one = self.ids.get(block["id"], block["id"])
        data = foreign(block, SHAPE)
        return {
            **data.get("rest", {}),
            "toolUse": {
                **data.get("extra", {}),
                "toolUseId": one,
                "name": block.get("name"),
                "input": block.get("input"),
            },
        }

    def result(self, block: Block, where: str) -> dict[str, Any]:
        note_keys(block, _RESULT_KEYS, where, self.losses)
        old = str(block.get("tool_use_id"))
        content = [*self.inner(block.get("content"), where)]
        if block.get("is_error") and not content:
            content = [{"text": "(no output)"}]  # an error without content is refused
        data = foreign(block, SHAPE)
        told = {**data.get("extra", {}), "toolUseId": self.ids.get(old, old), "content": content}
        if "is_error" in block:
            told["status"] = "error" if block["is_error"] else "success"
        return {**data.get("rest", {}), "toolResult": told}

    def inner(self, content: Any, where: str) -> Iterator[dict[str, Any]]:
        for position, block in enumerate(blocks_of(content)):
            here = f"{where}.content[{position}]"
            kept = foreign(block, SHAPE).get("json")
            if kept is not None and loads_object(block.get("text", "")) == kept:
                yield {"json": kept}
                continue
            if "cache_control" in block:
                self.losses.add("cache_control", here, "results take no cache point inside")
            part = self.block(block, here)
            if part is not None:
                yield part

    def thinking(self, block: Block, where: str) -> dict[str, Any] | None:
        note_keys(block, _THINKING_KEYS, where, self.losses)
        if block["type"] == "redacted_thinking":
            return {"reasoningContent": {"redactedContent": self.data(block.get("data"))}}
        text = {"text": block.get("thinking", "")}
        if block.get("signature"):
            return {
                "reasoningContent": {"reasoningText": {**text, "signature": block["signature"]}}
            }
        if foreign(block, SHAPE).get("unsigned"):
            return {"reasoningContent": {"reasoningText": text}}
        self.losses.add("thinking", where, "has no signature of this provider")
        return None

    # -- media

    def media(self, block: Block, where: str) -> dict[str, Any] | None:
        source = block.get("source")
        if not isinstance(source, Mapping) or source.get("type") != "base64":
            return None
        kind = str(source.get("media_type", ""))
        held = {"source": {"bytes": self.data(source.get("data"))}}
        if block["type"] == "image":
            form = kind.removeprefix("image/")
            return {"image": {"format": form, **held}} if form in _IMAGES else None
        form = _FORMATS.get(kind, "")
        return (
            {"document": {"format": form, "name": self.name(block, where), **held}}
            if form
            else None
        )

    def name(self, block: Block, where: str) -> str:
        """A name that Converse takes; documents without one are numbered, as names must differ."""
        self._documents += 1
        title = str(block.get("title") or "")
        name = " ".join(_NAME.sub("-", title).split())
        if title and name != title:
            self.losses.add("title", where, "letters that the target refuses are replaced")
        return name or f"untitled-{self._documents}"

    def data(self, told: Any) -> Any:
        if not self._as_bytes:
            return told
        try:
            return base64.b64decode(str(told), validate=True)
        except (ValueError, binascii.Error):
            return str(told).encode()


def _points(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    marker = block.get("cache_control")
    if not isinstance(marker, Mapping) or block.get("type") in THINKING:
        return []
    ttl = {"ttl": marker["ttl"]} if "ttl" in marker else {}
    return [{"cachePoint": {"type": "default", **ttl}}]


def tool_config(
    tools: Sequence[Mapping[str, Any]] | None, called: Mapping[str, None], losses: Losses
) -> dict[str, Any] | None:
    """Definitions, or stand-ins for what the history calls; `None` where none are needed."""
    specs: list[dict[str, Any]] = []
    for index, tool in enumerate(tools or ()):
        whole = foreign(tool, SHAPE).get("whole")
        if whole:
            specs.append(dict(whole))
        elif "input_schema" not in tool:
            losses.add("tool", f"tools[{index}]", "a server tool of another provider")
        else:
            note_keys(tool, _TOOL_KEYS, f"tools[{index}]", losses)
            specs += [{"toolSpec": _spec(tool)}, *_points(tool)]
    if not specs:
        specs = [{"toolSpec": _stand_in(name)} for name in called]
    return {"tools": specs} if specs else None


def _spec(tool: Mapping[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": tool.get("name")}
    for key in ("description", "strict"):
        if key in tool:
            spec[key] = tool[key]
    return {**spec, "inputSchema": {"json": tool["input_schema"]}}


def _stand_in(name: str) -> dict[str, Any]:
    return {"name": name, "description": STAND_IN, "inputSchema": {"json": {"type": "object"}}}

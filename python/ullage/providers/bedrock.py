"""Bedrock Converse, both ways.

| internal | Converse |
|---|---|
| `tool_use`, `tool_result` | `toolUse`, `toolResult` with `status` |
| `thinking`, `redacted_thinking` | `reasoningContent`, verbatim |
| `cache_control` on a block | a `cachePoint` after it |
| `image`, `document` | the same, by format, as base64 or as bytes |
| `tools` | `toolConfig`; where the history has calls and no tools are given, stand-ins |

A conversation starts with a user and takes turns strictly; neighbours of one role become one message.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ullage._engine import core
from ullage.facts.sections import readable
from ullage.messages import THINKING, Block, Item
from ullage.providers._common import (
    BARE_CALL,
    BARE_TEXT,
    FOREIGN,
    USER_FILLER,
    Internal,
    Losses,
    Shaped,
    as_text,
    attached,
    base64_image,
    call_ids,
    carrier,
    carrying,
    carrying_rest,
    definable,
    dumps,
    foreign,
    in_turns,
    is_json,
    is_text,
    later_system,
    loads_object,
    map_ids,
    note_foreign,
    note_keys,
    own_data,
    placed,
    plain_json,
    reverse,
    with_places,
)
from ullage.providers.registry import Provider

# Reads Bedrock Converse into the internal view.


SHAPE: Final = "bedrock"

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

# The figures of the Converse reference: how many images a message holds, and how large they are; for each image of a request that
# holds more than so many the side counts too (B07, B08).
MAX_IMAGES = 20
MAX_IMAGE_BYTES = 5 * 2**20
MAX_MANY_PX = 2000

UNTITLED = re.compile(r"untitled-\d+")
"""Names of documents that have none: Converse wants one, and no two alike."""

STAND_IN = "Stands for a tool that earlier messages used and that is no longer offered."
"""Description of a declared tool that only keeps the history legal."""


def _blocks_in(content: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Blocks of a message or of the system prompt; a cache point marks the block before it."""
    blocks: list[Block] = []
    for part in content:
        marker = _marker(part.get("cachePoint") if set(part) == {"cachePoint"} else None)
        last = blocks[-1] if blocks else {"type": FOREIGN}
        if marker and "cache_control" not in last and last["type"] != FOREIGN:
            blocks[-1] = {**last, "cache_control": marker}
        else:
            blocks.append(_block(part))
    return blocks


def _marker(point: Any) -> dict[str, Any] | None:
    if not isinstance(point, Mapping) or point.get("type") != "default":
        return None
    ttl = {"ttl": point["ttl"]} if "ttl" in point else {}
    return {"type": "ephemeral", **ttl} if set(point) <= {"type", "ttl"} else None


def _block(part: Mapping[str, Any]) -> Block:
    kind = next(iter(part)) if len(part) == 1 else ""
    value = part.get(kind)
    if kind == "text":
        return {"type": "text", "text": value}
    for name, read in (("toolUse", _call), ("toolResult", _result)):
        if name in part and isinstance(part[name], Mapping):
            # A call or result stays one, whatever stands next to it.
            block = read(part[name])
            others = {key: part[key] for key in part if key != name}
            if not others:
                return block
            return carrying(block, SHAPE, {**foreign(block, SHAPE), "rest": others})
    read_block: Block | None = None
    if isinstance(value, Mapping):
        if kind == "reasoningContent":
            read_block = _reasoning(value)
        elif kind in ("image", "document"):
            read_block = _media(kind, value)
    return read_block or carrier(SHAPE, "part", dict(part))


def _call(value: Mapping[str, Any]) -> Block:
    one, name = value.get("toolUseId"), value.get("name")
    block = {"type": "tool_use", "id": one, "name": name, "input": value.get("input")}
    return carrying_rest(block, SHAPE, "extra", value, "toolUseId", "name", "input")


def _result(value: Mapping[str, Any]) -> Block:
    content: list[Block] = []
    for part in value.get("content") or ():
        if set(part) == {"json"}:  # becomes text that remembers it
            text = {"type": "text", "text": dumps(part["json"])}
            content.append(carrying(text, SHAPE, {"json": part["json"]}))
        else:
            content.append(_block(part))
    block: Block = {
        "type": "tool_result",
        "tool_use_id": value.get("toolUseId"),
        "content": content,
    }
    if "status" in value:
        block["is_error"] = value["status"] == "error"
    return carrying_rest(block, SHAPE, "extra", value, "toolUseId", "content", "status")


def _reasoning(value: Mapping[str, Any]) -> Block | None:
    text = value.get("reasoningText")
    if set(value) == {"reasoningText"} and isinstance(text, Mapping):
        block = {"type": "thinking", "thinking": text.get("text", "")}
        if "signature" in text:
            return {**block, "signature": text["signature"]}
        return carrying(block, SHAPE, {"unsigned": True})
    if set(value) == {"redactedContent"}:
        return {"type": "redacted_thinking", "data": _as_base64(value["redactedContent"])}
    return None


def _media(kind: str, value: Mapping[str, Any]) -> Block | None:
    source, form = value.get("source"), value.get("format")
    media = f"image/{form}" if kind == "image" else DOCUMENTS.get(str(form))
    named = {"name"} if kind == "document" else set[str]()
    if media is None or set(value) != {"format", "source", *named}:
        return None
    if not isinstance(source, Mapping) or set(source) != {"bytes"}:
        return None
    data = {"type": "base64", "media_type": media, "data": _as_base64(source["bytes"])}
    block: Block = {"type": kind, "source": data}
    if named and not UNTITLED.fullmatch(str(value["name"])):
        block["title"] = str(value["name"])
    return block


def _as_base64(data: Any) -> str:
    """Bytes, as boto3 gives them, in base64; a string is base64 already."""
    is_bytes = isinstance(data, bytes | bytearray)
    return base64.b64encode(data).decode("ascii") if is_bytes else str(data)


def _tools_in(config: Any) -> list[dict[str, Any]] | None:
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
            own = {FOREIGN: {SHAPE: {"whole": dict(part)}}}
            tools.append({"name": next(iter(part), "tool"), **own})
        elif spec.get("description") != STAND_IN:
            schema = spec.get("inputSchema")
            read: dict[str, Any] = {"name": spec.get("name")}
            if "description" in spec:
                read["description"] = spec["description"]
            read["input_schema"] = schema.get("json") if isinstance(schema, Mapping) else {}
            if "strict" in spec:
                read["strict"] = spec["strict"]
            tools.append(read)
    return tools or None


# Writes Bedrock Converse from the internal view.


# Converse names this pattern in its error for a `toolUseId`; Anthropic itself sets no length (B04).
IDS = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAME = re.compile(r"[^a-zA-Z0-9 ()\[\]-]+")
"""What a document's name may not hold; a run of white space is refused too."""

_FORMATS = {kind: name for name, kind in DOCUMENTS.items()}
# Converse names formats, not media types: anything else is sent as text, for it would be refused.
IMAGES = frozenset({"png", "jpeg", "gif", "webp"})


class _BedrockWriter:
    """Writes one conversation; holds what all its messages share."""

    def __init__(self, messages: Sequence[Item], *, as_bytes: bool) -> None:
        self.losses = Losses()
        self.ids = map_ids(call_ids(messages), IDS.fullmatch, length=24, prefix="tooluse_")
        self.called: dict[str, None] = {}  # names of tools that the history uses, in order
        self._as_bytes = as_bytes
        self._documents = 0

    def content(self, message: Mapping[str, Any], index: int) -> list[dict[str, Any]]:
        where = f"messages[{index}]"
        note_foreign(message, SHAPE, where, self.losses)
        if message["role"] in ("user", "assistant"):
            return self.blocks(message.get("content"), where)
        return later_system(message, where, self.losses)

    def blocks(self, blocks: Any, where: str) -> list[dict[str, Any]]:
        """Blocks with their cache points."""
        written: list[dict[str, Any]] = []
        for place, block in with_places(blocks, where):
            part = self.block(block, place)
            if part is not None:
                written.append(part)
                written.extend(_points(block))
        return written

    def block(self, block: Block, where: str) -> dict[str, Any] | None:
        kind, data = str(block.get("type")), attached(block, SHAPE, where, self.losses)
        if kind == "tool_use":
            return self.call(block, data, where)
        if kind == "tool_result":
            return self.result(block, data, where)
        if kind in THINKING:
            return self.thinking(block, data, where)
        if kind == FOREIGN:
            part = data.get("part")
            text = readable(block)
            return dict(part) if part else {"text": text} if text else None
        if is_text(block):
            note_keys(block, where, self.losses, "text", "cache_control")
            if not block["text"].strip():
                self.losses.add("text", where, "blank, left out")
                return None
            return {"text": block["text"]}
        if kind in ("image", "document") and (part := self.media(block, where)) is not None:
            note_keys(block, where, self.losses, "source", "title", "cache_control")
            return part
        if "type" not in block:  # already in this shape
            return dict(block)
        words = as_text(block, where, self.losses, takes_empty=False)
        return None if words is None else {"text": words}

    # -- calls, results, reasoning

    def call(self, block: Block, data: Mapping[str, Any], where: str) -> dict[str, Any]:
        note_keys(block, where, self.losses, "id", "name", "input", "cache_control")
        name = block.get("name")
        self.called.setdefault(str(name))
        one = self.ids.get(block["id"], block["id"])
        call = {"toolUseId": one, "name": name, "input": block.get("input")}
        return {**data.get("rest", {}), "toolUse": {**data.get("extra", {}), **call}}

    def result(self, block: Block, data: Mapping[str, Any], where: str) -> dict[str, Any]:
        note_keys(block, where, self.losses, "tool_use_id", "content", "is_error", "cache_control")
        old = str(block.get("tool_use_id"))
        content = [*self.inner(block.get("content"), where)]
        if block.get("is_error") and not content:
            content = [{"text": "(no output)"}]  # an error without content is refused
        result = {**data.get("extra", {}), "toolUseId": self.ids.get(old, old), "content": content}
        if "is_error" in block:
            result["status"] = "error" if block["is_error"] else "success"
        return {**data.get("rest", {}), "toolResult": result}

    def inner(self, content: Any, where: str) -> Iterator[dict[str, Any]]:
        for place, block in with_places(content, where):
            original = foreign(block, SHAPE).get("json")
            if original is not None and loads_object(block.get("text", "")) == original:
                yield {"json": original}
                continue
            if "cache_control" in block:
                self.losses.add("cache_control", place, "results take no cache point inside")
            part = self.block(block, place)
            if part is not None:
                yield part

    def thinking(self, block: Block, data: Mapping[str, Any], where: str) -> dict[str, Any] | None:
        note_keys(block, where, self.losses, "thinking", "signature", "data")
        if block["type"] == "redacted_thinking":
            return {"reasoningContent": {"redactedContent": self.data(block.get("data"))}}
        text = {"text": block.get("thinking", "")}
        if block.get("signature"):
            text["signature"] = block["signature"]
        elif not data.get("unsigned"):
            self.losses.add("thinking", where, "has no signature of this provider")
            return None
        return {"reasoningContent": {"reasoningText": text}}

    # -- media

    def media(self, block: Block, where: str) -> dict[str, Any] | None:
        source = block.get("source")
        if not isinstance(source, Mapping) or source.get("type") != "base64":
            return None
        kind = str(source.get("media_type", ""))
        held = {"source": {"bytes": self.data(source.get("data"))}}
        if block["type"] == "image":
            form = kind.removeprefix("image/")
            return {"image": {"format": form, **held}} if form in IMAGES else None
        form = _FORMATS.get(kind, "")
        if not form:
            return None
        # A name that Converse takes; documents without one are numbered, as names must differ.
        self._documents += 1
        title = str(block.get("title") or "")
        name = " ".join(_NAME.sub("-", title).split())
        if title and name != title:
            self.losses.add("title", where, "letters that the target refuses are replaced")
        name = name or f"untitled-{self._documents}"
        return {"document": {"format": form, "name": name, **held}}

    def data(self, value: Any) -> Any:
        if not self._as_bytes:
            return value
        try:
            return base64.b64decode(str(value), validate=True)
        except (ValueError, binascii.Error):
            return str(value).encode()


def _points(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    marker = block.get("cache_control")
    if not isinstance(marker, Mapping) or block.get("type") in THINKING:
        return []
    ttl = {"ttl": marker["ttl"]} if "ttl" in marker else {}
    return [{"cachePoint": {"type": "default", **ttl}}]


def _tool_config(
    tools: Sequence[Mapping[str, Any]] | None, called: Mapping[str, None], losses: Losses
) -> dict[str, Any] | None:
    """Definitions, or stand-ins for what the history calls; `None` where none are needed."""
    specs: list[dict[str, Any]] = []
    for tool, data in definable(tools or (), SHAPE, losses, "strict", "cache_control"):
        if tool is not None:
            about = {key: tool[key] for key in ("description", "strict") if key in tool}
            schema = {"inputSchema": {"json": tool["input_schema"]}}
            specs.append({"toolSpec": {"name": tool.get("name"), **about, **schema}})
            specs += _points(tool)
        elif data["whole"]:
            specs.append(dict(data["whole"]))
    if not specs:
        stand_in = {"description": STAND_IN, "inputSchema": {"json": {"type": "object"}}}
        specs = [{"toolSpec": {"name": name, **stand_in}} for name in called]
    return {"tools": specs} if specs else None


@placed
def to_provider(
    messages: Sequence[Item],
    *,
    system: str | Sequence[Block] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    as_bytes: bool = False,
) -> Shaped:
    """Translates a conversation to Converse, which refuses calls without a tool: where none are given, their names are declared.

    `as_bytes`: media as `bytes`, as boto3 takes them, instead of base64, as the HTTP API does.
    """
    writer = _BedrockWriter(messages, as_bytes=as_bytes)
    written = in_turns(
        messages,
        SHAPE,
        model="assistant",
        key="content",
        extra="message",
        parts_of=writer.content,
    )
    parts: dict[str, Any] = {"messages": written}
    if system:
        parts["system"] = writer.blocks(system, "system")
    config = _tool_config(tools, writer.called, writer.losses)
    if config:
        parts["toolConfig"] = config
    return Shaped(parts, tuple(writer.losses), reverse(writer.ids))


def from_provider(request: Item | Sequence[Item]) -> Internal:
    """Translates a Converse request, or its messages, to the internal view."""
    body: Mapping[str, Any] = request if isinstance(request, Mapping) else {"messages": request}
    messages: list[dict[str, Any]] = []
    for index, message in enumerate(body.get("messages") or ()):
        content = message.get("content") or []
        if index or content != [{"text": USER_FILLER}]:
            read = {"role": message.get("role"), "content": _blocks_in(content)}
            messages.append(carrying_rest(read, SHAPE, "message", message, "role", "content"))
    return Internal(messages, tools=_tools_in(body.get("toolConfig")))


# The quick way for plain messages; see `PlainForm`.


_RESULT_IN: Final = {"toolUseId", "content", "status"}
_RESULT: Final = {"type", "tool_use_id", "content", "is_error"}


def read_plain(item: Item, *_: object) -> Item | None:
    """One message in the internal view; `None`: it takes the longer way."""
    if type(item) is not dict or len(item) != 2:
        return None
    role, content = item.get("role"), item.get("content")
    if type(content) is not list or not content or (role != "assistant" and role != "user"):
        return None
    blocks = [*map(_plain_in, content)]
    return None if None in blocks else {"role": role, "content": blocks}


def _plain_in(part: Any) -> Block | None:
    if type(part) is not dict or len(part) != 1:
        return None
    if "text" in part:
        text = part["text"]
        fine = type(text) is str and text and text != USER_FILLER
        return {"type": "text", "text": text} if fine else None
    if "toolUse" in part:
        call = part["toolUse"]
        if type(call) is not dict or len(call) != 3:
            return None
        one, name, value = call.get("toolUseId"), call.get("name"), call.get("input")
        if type(one) is not str or type(name) is not str or type(value) is not dict:
            return None
        return {"type": "tool_use", "id": one, "name": name, "input": value}
    if "toolResult" in part:
        return _result_in(part["toolResult"])
    ((kind, held),) = part.items()
    if type(held) is not dict:
        return None
    if kind == "reasoningContent":
        thought = held.get("reasoningText") if len(held) == 1 else None
        if type(thought) is not dict or len(thought) != 2:
            return None
        text, signature = thought.get("text"), thought.get("signature")
        if type(text) is not str or type(signature) is not str:
            return None
        return {"type": "thinking", "thinking": text, "signature": signature}
    return _media(kind, held) if kind == "image" and is_json(held) else None


def _result_in(result: Any) -> Block | None:
    if type(result) is not dict or not _RESULT_IN.issuperset(result):
        return None
    one, listed = result.get("toolUseId"), result.get("content")
    if type(one) is not str or one.startswith("unknown_") or type(listed) is not list:
        return None
    content: list[Block] = []
    for part in listed:
        if type(part) is not dict or len(part) != 1:
            return None
        inner: Block = {"type": "text", "text": part.get("text")}
        if "json" in part:
            held = part["json"]
            inner["text"] = plain_json(held) if type(held) is dict else None
            inner[FOREIGN] = {SHAPE: {"json": held}}
        if type(inner["text"]) is not str:
            return None
        content.append(inner)
    block: Block = {"type": "tool_result", "tool_use_id": one, "content": content}
    if "status" in result:
        status = result["status"]
        block["is_error"] = status == "error"
        return block if type(status) is str else None
    return block


def write_plain(messages: Sequence[Item], provider: Provider) -> list[Item] | None:
    """What `to_provider` writes among definitions of tools."""
    del provider
    written: list[Item] = []
    for message in messages:
        role, content = message["role"], message["content"]
        if FOREIGN in message:
            return None
        parts: list[Any] = [{"text": content}]
        if type(content) is not str:
            parts = [*map(_plain_out, content)]
            if None in parts or (len(parts) > MAX_IMAGES and role == "user"):
                return None
        written.append({"role": role, "content": parts})
    return written


def _plain_out(block: Block) -> dict[str, Any] | None:
    kind = block.get("type")
    if kind == "text":
        return {"text": block["text"]} if len(block) == len(BARE_TEXT) else None
    if kind == "tool_use":
        if len(block) != len(BARE_CALL) or type(block.get("input")) is not dict:
            return None
        if not IDS.fullmatch(block["id"]):
            return None
        call = {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}
        return {"toolUse": call}
    if kind == "tool_result":
        return _result_out(block)
    if kind == "image":
        return _image_out(block)
    if kind != "thinking" or len(block) != 3 or "thinking" not in block:
        return None
    text, signature = block["thinking"], block.get("signature")
    if type(signature) is not str or not signature:
        return None
    return {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}


def _result_out(block: Block) -> dict[str, Any] | None:
    listed, failed = block.get("content"), block.get("is_error")
    if not _RESULT.issuperset(block) or failed not in (None, True, False):
        return None
    if type(listed) is str:
        listed = [{"type": "text", "text": listed}]
    if type(listed) is not list or not listed:
        return None
    content = [*map(_inner_out, listed)]
    if None in content:
        return None
    result = {"toolUseId": block["tool_use_id"], "content": content}
    if "is_error" in block:
        result["status"] = "error" if failed else "success"
    return {"toolResult": result}


def _inner_out(block: Any) -> dict[str, Any] | None:
    text = block.get("text") if type(block) is dict and block.get("type") == "text" else None
    if type(text) is not str or not text.strip():
        return None
    if len(block) == len(BARE_TEXT):
        return {"text": text}
    held = own_data(block, SHAPE, "json") if len(block) == 3 else None
    return {"json": held} if type(held) is dict and plain_json(held) == text else None


def _image_out(block: Block) -> dict[str, Any] | None:
    media, held = base64_image(block) or ("", "")
    kind = media.removeprefix("image/")
    if kind == media or kind not in IMAGES or not held.isascii():
        return None
    # The length is that in base64, which is longer than the image.
    if len(held) > MAX_IMAGE_BYTES or max(core.image_size(held)) > MAX_MANY_PX:
        return None
    return {"image": {"format": kind, "source": {"bytes": held}}}

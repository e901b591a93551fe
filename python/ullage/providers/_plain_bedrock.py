"""Messages of Converse that most of a conversation is made of, both ways; see `_plain_chat`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ullage._engine import core
from ullage._lazy import orjson
from ullage.messages import Block, Item
from ullage.providers._common import FOREIGN, USER_FILLER, text_of
from ullage.providers._plain_chat import own_data
from ullage.providers.bedrock import IDS, IMAGES, MAX_IMAGE_BYTES, MAX_IMAGES, MAX_MANY_PX
from ullage.providers.registry import Provider
from ullage.providers.sdk_objects import is_json

_FORM: Final = "bedrock"
_MESSAGE: Final = {"role", "content"}
_CALL: Final = {"toolUseId", "name", "input"}
_RESULT_IN: Final = {"toolUseId", "content", "status"}
_REASONING: Final = {"text", "signature"}
_IMAGE: Final = {"format", "source"}
_TEXT: Final = {"type", "text"}
_THOUGHT: Final = {"type", "thinking", "signature"}
_USE: Final = {"type", "id", "name", "input"}
_RESULT: Final = {"type", "tool_use_id", "content", "is_error"}
_SOURCE: Final = {"type", "media_type", "data"}


def read_plain(item: Item, *_: object) -> Item | None:
    """One message in the internal view; `None`: it takes the longer way."""
    if type(item) is not dict or item.keys() != _MESSAGE:
        return None
    role, content = item["role"], item["content"]
    if type(content) is not list or not content:
        return None
    read = _said_in if role == "assistant" else _shown_in if role == "user" else None
    blocks: list[Block] = []
    for part in content:
        if read is None or type(part) is not dict or len(part) != 1:
            return None
        block = read(part)
        if block is None:
            return None
        blocks.append(block)
    return {"role": role, "content": blocks}


def _text_in(part: dict[str, Any]) -> Block | None:
    text = part.get("text")
    fine = type(text) is str and text and text != USER_FILLER
    return {"type": "text", "text": text} if fine else None


def _said_in(part: dict[str, Any]) -> Block | None:
    if "toolUse" in part:
        call = part["toolUse"]
        if type(call) is not dict or call.keys() != _CALL or type(call["toolUseId"]) is not str:
            return None
        if type(call["name"]) is not str or type(call["input"]) is not dict:
            return None
        one, name = call["toolUseId"], call["name"]
        return {"type": "tool_use", "id": one, "name": name, "input": call["input"]}
    if "reasoningContent" not in part:
        return _text_in(part)
    thought = part["reasoningContent"]
    if type(thought) is not dict or thought.keys() != {"reasoningText"}:
        return None
    reasoning = thought["reasoningText"]
    if type(reasoning) is not dict or reasoning.keys() != _REASONING:
        return None
    text, signature = reasoning["text"], reasoning["signature"]
    if type(text) is not str or type(signature) is not str:
        return None
    return {"type": "thinking", "thinking": text, "signature": signature}


def _shown_in(part: dict[str, Any]) -> Block | None:
    if "toolResult" in part:
        return _result_in(part["toolResult"])
    return _image_in(part["image"]) if "image" in part else _text_in(part)


def _result_in(result: Any) -> Block | None:
    if type(result) is not dict or not result.keys() <= _RESULT_IN:
        return None
    one, listed = result.get("toolUseId"), result.get("content")
    if type(one) is not str or one.startswith("unknown_") or type(listed) is not list:
        return None
    content: list[Block] = []
    for part in listed:
        if type(part) is not dict or len(part) != 1:
            return None
        text, held = part.get("text"), part.get("json")
        if type(text) is str:
            content.append({"type": "text", "text": text})
        elif type(held) is dict and is_json(held):
            attached = {FOREIGN: {_FORM: {"json": held}}}
            content.append({"type": "text", "text": text_of(held), **attached})
        else:
            return None
    block: Block = {"type": "tool_result", "tool_use_id": one, "content": content}
    if "status" not in result:
        return block
    status = result["status"]
    return {**block, "is_error": status == "error"} if type(status) is str else None


def _image_in(image: Any) -> Block | None:
    if type(image) is not dict or image.keys() != _IMAGE or type(image["format"]) is not str:
        return None
    source = image["source"]
    if type(source) is not dict or source.keys() != {"bytes"} or type(source["bytes"]) is not str:
        return None
    kind = f"image/{image['format']}"
    held = {"type": "base64", "media_type": kind, "data": source["bytes"]}
    return {"type": "image", "source": held}


def write_plain(messages: Sequence[Item], provider: Provider) -> list[Item] | None:
    """What `to_provider` writes of whole rounds that are not the first, among definitions of tools; `None`: it takes the longer way.

    Args:
        messages: Answers, each followed by its results, then the user's words.
        provider: Whose form; one has it.
    """
    del provider
    written: list[Item] = []
    for message in messages:
        role, content = message["role"], message["content"]
        if FOREIGN in message:
            return None
        write = _said_out if role == "assistant" else _shown_out
        parts = [{"text": content}] if type(content) is str else [*map(write, content)]
        if None in parts or (len(parts) > MAX_IMAGES and role == "user"):
            return None
        written.append({"role": role, "content": parts})
    return written


def _text_out(block: Block) -> dict[str, Any] | None:
    return {"text": block["text"]} if block.keys() == _TEXT else None


def _said_out(block: Block) -> dict[str, Any] | None:
    kind = block["type"]
    if kind == "tool_use":
        if block.keys() != _USE or type(block["input"]) is not dict:
            return None
        if not IDS.fullmatch(block["id"]):
            return None
        call = {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}
        return {"toolUse": call}
    if kind != "thinking":
        return _text_out(block) if kind == "text" else None
    text, signature = block["thinking"], block.get("signature")
    if block.keys() != _THOUGHT or type(signature) is not str or not signature:
        return None
    return {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}


def _shown_out(block: Block) -> dict[str, Any] | None:
    kind = block.get("type")
    if kind == "tool_result":
        return _result_out(block)
    return _image_out(block) if kind == "image" else _text_out(block) if kind == "text" else None


def _result_out(block: Block) -> dict[str, Any] | None:
    listed, failed = block.get("content"), block.get("is_error")
    if not block.keys() <= _RESULT or failed not in (None, True, False):
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
    if FOREIGN not in block:
        return _text_out(block)
    attached = own_data(block, _FORM, {"json"})
    held = None if attached is None else attached["json"]
    if len(block) != 3 or type(held) is not dict or not is_json(held):
        return None
    # What JSON has no word for comes back as something else.
    return {"json": held} if text_of(held) == text and orjson.loads(text) == held else None


def _image_out(block: Block) -> dict[str, Any] | None:
    source = block.get("source")
    if len(block) != 2 or type(source) is not dict or source.keys() != _SOURCE:
        return None
    media, held = source["media_type"], source["data"]
    if source["type"] != "base64" or type(media) is not str or type(held) is not str:
        return None
    kind = media.removeprefix("image/")
    if kind == media or kind not in IMAGES or not held.isascii():
        return None
    if len(held) > MAX_IMAGE_BYTES:  # in base64, which is longer than the image
        return None
    if max(core.image_size(held)) > MAX_MANY_PX:
        return None
    return {"image": {"format": kind, "source": {"bytes": held}}}

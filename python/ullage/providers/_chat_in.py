"""Reads Chat Completions messages into the internal view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.messages import Block
from ullage.providers._chat_dialect import parts_of
from ullage.providers._chat_media import attach
from ullage.providers._common import FOREIGN, Losses, blocks_of, carrying, foreign, from_url
from ullage.providers._json import arguments_in

__all__ = ["ChatItemReader", "leading_system", "tool_in"]

SHAPE = "openai_chat"

_REASONING_FIELDS = ("reasoning_content", "reasoning")


def leading_system(message: Mapping[str, Any]) -> str | list[Block] | None:
    if message.get("role") not in ("system", "developer"):
        return None
    content = message.get("content")
    extra = {key: value for key, value in message.items() if key not in ("role", "content")}
    data: dict[str, Any] = {"message": extra} if extra else {}
    if message["role"] == "developer":
        data["role"] = "developer"
    if isinstance(content, str) and not data:
        return content
    blocks = [_block_in(part) for part in parts_of(content)]
    if isinstance(content, str):
        data["string"] = True
    if blocks and data:
        kept = foreign(blocks[0], SHAPE)
        blocks[0] = carrying(blocks[0], SHAPE, {**kept, **data})
    return blocks


class ChatItemReader:
    """Builds internal messages; tool messages in a row become one user message."""

    def __init__(self, ids: Mapping[str, str]) -> None:
        self.messages: list[dict[str, Any]] = []
        self.losses = Losses()
        self._ids = ids
        self._in_results = False

    def take(self, message: Mapping[str, Any]) -> None:
        role = message.get("role")
        if role == "tool":
            return self._result(message)
        after_results, self._in_results = self._in_results, False
        if role == "user":
            return self._user(message, after_results)
        if role == "assistant":
            self.messages.append(self._assistant(message))
        elif role in ("system", "developer"):
            self.messages.append(_system_in(message))
        else:
            # `function` messages of 2023 and roles to come: carried whole.
            self.messages.append({"role": "user", "content": [_whole(message)]})
        return None

    def _result(self, message: Mapping[str, Any]) -> None:
        known = ("role", "tool_call_id", "content")
        extra = {key: value for key, value in message.items() if key not in known}
        told = message.get("tool_call_id")
        block: Block = {
            "type": "tool_result",
            "tool_use_id": self._ids.get(str(told), told),
            "content": _content_in(message.get("content")),
        }
        block = carrying(block, SHAPE, {"message": extra} if extra else {})
        if self._in_results:
            self.messages[-1]["content"].append(block)
        else:
            self.messages.append({"role": "user", "content": [block]})
        self._in_results = True

    def _user(self, message: Mapping[str, Any], after_results: bool) -> None:
        """A list of parts after results belongs to the same internal message, a string does not."""
        content = _content_in(message.get("content"))
        extra = {key: value for key, value in message.items() if key not in ("role", "content")}
        if after_results and isinstance(content, list) and not extra:
            results = self.messages[-1]["content"]
            results.extend(attach(content, results, {old: new for new, old in self._ids.items()}))
            return
        data = {"message": extra} if extra else {}
        self.messages.append(carrying({"role": "user", "content": content}, SHAPE, data))

    def _assistant(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if message.get("function_call") is not None:
            return {"role": "assistant", "content": [_whole(message)]}
        calls = message.get("tool_calls") or []
        content = message.get("content")
        field = next((one for one in _REASONING_FIELDS if isinstance(message.get(one), str)), "")
        known = ("role", "content", "tool_calls", field)
        extra = {key: value for key, value in message.items() if key not in known}
        said: Any = _content_in(content)
        if calls or field or not isinstance(said, str):
            said = [
                *_thinking_in(message, field),
                *blocks_of(said),
                *(self._call(call) for call in calls),
            ]
        return carrying(
            {"role": "assistant", "content": said}, SHAPE, {"message": extra} if extra else {}
        )

    def _call(self, call: Mapping[str, Any]) -> Block:
        kind = call.get("type") or "function"
        body = call.get(kind)
        body = body if isinstance(body, Mapping) else {}
        told = call.get("id")
        data = _call_extras(call, kind, body)
        if kind == "custom":
            value: dict[str, Any] = {"input": body.get("input", "")}
        else:
            value, kept = arguments_in(body.get("arguments"))
            data.update(kept)
        block = {
            "type": "tool_use",
            "id": self._ids.get(str(told), told),
            "name": body.get("name", ""),
            "input": value,
        }
        return carrying(block, SHAPE, data)


def _call_extras(call: Mapping[str, Any], kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    beside = {key: value for key, value in call.items() if key not in ("id", "type", kind)}
    inside = {
        key: value for key, value in body.items() if key not in ("name", "arguments", "input")
    }
    data = {"call": beside, "function": inside, "type": "" if kind == "function" else kind}
    return {key: value for key, value in data.items() if value}


def _thinking_in(message: Mapping[str, Any], field: str) -> list[Block]:
    """Empty reasoning is kept: some servers demand the field itself."""
    if not field:
        return []
    block = {"type": "thinking", "thinking": message[field]}
    return [carrying(block, SHAPE, {"field": field})]


def _system_in(message: Mapping[str, Any]) -> dict[str, Any]:
    extra = {key: value for key, value in message.items() if key not in ("role", "content")}
    data: dict[str, Any] = {"message": extra} if extra else {}
    if message["role"] != "system":
        data["role"] = message["role"]
    return carrying({"role": "system", "content": _content_in(message.get("content"))}, SHAPE, data)


def _whole(message: Mapping[str, Any]) -> Block:
    return {"type": FOREIGN, FOREIGN: {SHAPE: {"whole": dict(message)}}}


def _content_in(content: Any) -> str | list[Block]:
    if content is None:
        return ""
    return content if isinstance(content, str) else [_block_in(part) for part in content]


def _block_in(part: Any) -> Block:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return _text_in(part)
    if kind == "thinking":
        return _thought(part)
    if kind == "image_url" and set(part) == {"type", "image_url"}:
        return _image_in(part["image_url"]) or _part(part)
    if kind == "file" and set(part) == {"type", "file"}:
        return _file_in(part["file"]) or _part(part)
    return _part(part)


def _thought(part: Mapping[str, Any]) -> Block:
    """Thinking as a part of the content, as Mistral writes it."""
    said = part.get("thinking")
    texts = [said] if isinstance(said, str) else [str(one.get("text", "")) for one in said or ()]
    return carrying({"type": "thinking", "thinking": "".join(texts)}, SHAPE, {"part": dict(part)})


def _part(part: Any) -> Block:
    return {"type": FOREIGN, FOREIGN: {SHAPE: {"part": part}}}


def _text_in(part: Mapping[str, Any]) -> Block:
    extra = {
        key: value for key, value in part.items() if key not in ("type", "text", "cache_control")
    }
    block: Block = {"type": "text", "text": part["text"]}
    if "cache_control" in part:
        block["cache_control"] = part["cache_control"]
    return carrying(block, SHAPE, {"part": extra} if extra else {})


def _image_in(image: Any) -> Block | None:
    if not isinstance(image, Mapping) or not isinstance(image.get("url"), str):
        return None
    extra = {key: value for key, value in image.items() if key != "url"}
    block = {"type": "image", "source": from_url(image["url"])}
    return carrying(block, SHAPE, {"part": extra} if extra else {})


def _file_in(file: Any) -> Block | None:
    source = from_url(str(file.get("file_data") or "")) if isinstance(file, Mapping) else {}
    if source.get("type") != "base64":
        return None
    extra = {key: value for key, value in file.items() if key not in ("filename", "file_data")}
    block: Block = {"type": "document", "source": source}
    if file.get("filename"):
        block["title"] = file["filename"]
    return carrying(block, SHAPE, {"part": extra} if extra else {})


def tool_in(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A function's definition; anything else is carried whole."""
    function = tool.get("function")
    if tool.get("type") != "function" or not _is_plain(function):
        name = (function if isinstance(function, Mapping) else tool).get("name")
        return {"name": name or str(tool.get("type")), FOREIGN: {SHAPE: {"whole": dict(tool)}}}
    beside = {key: value for key, value in tool.items() if key not in ("type", "function")}
    renamed = {"parameters": "input_schema"}
    read = {renamed.get(str(key), str(key)): value for key, value in (function or {}).items()}
    return carrying(read, SHAPE, {"tool": beside} if beside else {})


def _is_plain(function: Any) -> bool:
    known = {"name", "description", "parameters", "strict"}
    return isinstance(function, Mapping) and {"name", "parameters"} <= set(function) <= known

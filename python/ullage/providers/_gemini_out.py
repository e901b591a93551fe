"""Writes Gemini contents from the internal view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.facts.compaction_items import readable
from ullage.messages import Block, Item
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
from ullage.providers._gemini_in import SHAPE, SKIP_SIGNATURE, answer_in, guess

__all__ = ["GeminiWriter", "tools_out"]

_TEXT_KEYS = frozenset({"type", "text", FOREIGN})
_MEDIA_KEYS = frozenset({"type", "source", "title", FOREIGN})
_CALL_KEYS = frozenset({"type", "id", "name", "input", FOREIGN})
_RESULT_KEYS = frozenset({"type", "tool_use_id", "content", "is_error", FOREIGN})
_TOOL_KEYS = frozenset({"type", "name", "description", "input_schema", FOREIGN})


class GeminiWriter:
    """Writes one conversation; holds what all its messages share."""

    def __init__(self, messages: Sequence[Item], *, signatures: bool) -> None:
        self.losses = Losses()
        self.ids: dict[str, str] = {}  # Gemini takes any id
        self._signatures = signatures
        self._calls = {
            str(block.get("id")): block
            for _, message in bare(messages)
            for block in blocks_of(message.get("content"))
            if block.get("type") == "tool_use"
        }

    def contents(self, messages: Sequence[Item]) -> list[dict[str, Any]]:
        """Contents in turn, a user's first; the answers of a turn in the order of its calls."""
        written: list[dict[str, Any]] = []
        for index, message in bare(messages):
            parts = self.parts(message, index)
            if not parts:
                continue
            role = "model" if message["role"] == "assistant" else "user"
            extra = foreign(message, SHAPE).get("content", {})
            if written and written[-1]["role"] == role:
                written[-1] = {**written[-1], **extra, "parts": written[-1]["parts"] + parts}
            else:
                written.append({**extra, "role": role, "parts": parts})
        if written and written[0]["role"] == "model":
            written.insert(0, {"role": "user", "parts": [{"text": USER_FILLER}]})
        if self._signatures:
            written = [{**content, "parts": _signed(content["parts"])} for content in written]
        return _in_order_of_calls(written, self.losses)

    def system(self, system: str | Sequence[Block]) -> list[dict[str, Any]]:
        """Parts of the system instruction."""
        parts = (
            self.part(block, f"system[{index}]") for index, block in enumerate(blocks_of(system))
        )
        return [part for part in parts if part is not None]

    def parts(self, message: Mapping[str, Any], index: int) -> list[dict[str, Any]]:
        where = f"messages[{index}]"
        note_foreign(message, SHAPE, where, self.losses)
        if message["role"] == "system":
            return self.inner_system(message, where)
        found: list[dict[str, Any]] = []
        for position, block in enumerate(blocks_of(message.get("content"))):
            part = self.part(block, f"{where}.content[{position}]")
            if part is not None:
                found.append(part)
        return found

    def inner_system(self, message: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
        """Gemini has one instruction at the start; a later one stands as marked user text."""
        text = "\n\n".join(
            str(block.get("text", "")) for block in blocks_of(message.get("content"))
        )
        self.losses.add("system message", where, "sent as marked user text" if text else "left out")
        return [{"text": f"<system>\n{text}\n</system>"}] if text else []

    def part(self, block: Block, where: str) -> dict[str, Any] | None:
        kind = block.get("type")
        data = foreign(block, SHAPE)
        note_foreign(block, SHAPE, where, self.losses)
        if kind == "tool_use":
            return self.call(block, data, where)
        if kind == "tool_result":
            return self.answer(block, data, where)
        if kind == FOREIGN:
            text = readable(block)
            return dict(data["opaque"]) if "opaque" in data else {"text": text} if text else None
        if kind == "thinking" and data.get("text"):
            return {"text": block.get("thinking", ""), **data.get("part", {})}
        if is_text(block):
            note_keys(block, _TEXT_KEYS, where, self.losses)
            return {"text": block["text"], **data.get("part", {})}
        media = _media(block, data)
        if media is not None:
            note_keys(block, _MEDIA_KEYS, where, self.losses)
            return media
        return self.told(block, where)

    def call(self, block: Block, data: Mapping[str, Any], where: str) -> dict[str, Any]:
        note_keys(block, _CALL_KEYS, where, self.losses)
        told: dict[str, Any] = {} if data.get("no_id") else {"id": block.get("id")}
        told |= {**data.get("call", {}), "name": block.get("name")}
        if not (data.get("no_args") and not block.get("input")):
            told["args"] = block.get("input")
        return {**data.get("part", {}), "functionCall": told}

    def answer(self, block: Block, data: Mapping[str, Any], where: str) -> dict[str, Any]:
        note_keys(block, _RESULT_KEYS, where, self.losses)
        call = self._calls.get(str(block.get("tool_use_id")), {})
        told: dict[str, Any] = {}
        if not foreign(call, SHAPE).get("no_id"):
            told["id"] = block.get("tool_use_id")
        told |= {**data.get("answer", {}), "name": call.get("name", "unknown")}
        kept = data.get("response")
        if kept and answer_in(kept)[0] == block.get("content"):
            told |= kept
        else:
            told |= self.response(block, where)
        return {**data.get("part", {}), "functionResponse": told}

    def response(self, block: Block, where: str) -> dict[str, Any]:
        key = "error" if block.get("is_error") else "output"
        content = block.get("content")
        if content is None or isinstance(content, str):
            return {"response": {key: content or ""}}
        said: list[Any] = []
        media: list[dict[str, Any]] = []
        for position, one in enumerate(blocks_of(content)):
            part = self.part(one, f"{where}.content[{position}]")
            if part is None:
                continue
            held = next((key for key in ("inlineData", "fileData") if key in part), None)
            if held:
                name = f"item_{len(media) + 1}"
                if "displayName" in part[held]:
                    self.losses.add(
                        "title", f"{where}.content[{position}]", "the name is its place"
                    )
                media.append({**part, held: {**part[held], "displayName": name}})
                said.append({"$ref": name})
            elif "text" in part:
                said.append(part["text"])
            else:
                self.losses.add(
                    str(one.get("type")), f"{where}.content[{position}]", "sent as data"
                )
                said.append(part)
        return {"response": {key: said}, **({"parts": media} if media else {})}

    def told(self, block: Block, where: str) -> dict[str, Any] | None:
        kind = str(block.get("type"))
        if "type" not in block:  # already in this shape
            return dict(block)
        text = as_text(block)
        self.losses.add(kind, where, "left out" if text is None else "sent as text")
        return None if text is None else {"text": text}


def _signed(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first call of a step must have a signature, even one that skips the check."""
    at = next((at for at, part in enumerate(parts) if "functionCall" in part), None)
    if at is None or "thoughtSignature" in parts[at]:
        return parts
    return [*parts[:at], {**parts[at], "thoughtSignature": SKIP_SIGNATURE}, *parts[at + 1 :]]


def _in_order_of_calls(contents: list[dict[str, Any]], losses: Losses) -> list[dict[str, Any]]:
    """Answers come in the order of their calls, before what else the user says."""
    for index in range(1, len(contents)):
        calls = [
            part["functionCall"] for part in contents[index - 1]["parts"] if "functionCall" in part
        ]
        parts = contents[index]["parts"]
        answers = [part for part in parts if "functionResponse" in part]
        if len(answers) < 2 or not calls or "id" not in calls[0]:
            continue
        order = {call.get("id"): at for at, call in enumerate(calls)}
        rest = [part for part in parts if "functionResponse" not in part]
        answers.sort(key=lambda part: order.get(part["functionResponse"].get("id"), len(order)))
        if answers + rest != parts:
            losses.add("order", f"contents[{index}]", "answers stand in the order of their calls")
            contents[index] = {**contents[index], "parts": answers + rest}
    return contents


def _media(block: Block, data: Mapping[str, Any]) -> dict[str, Any] | None:
    source = block.get("source")
    if block.get("type") not in ("image", "document") or not isinstance(source, Mapping):
        return None
    extra = {key: value for key, value in data.get("part", {}).items() if key != "mimeType"}
    if source.get("type") == "base64":
        name = {"displayName": block["title"]} if block.get("title") else {}
        inline = {"mimeType": source.get("media_type"), "data": source.get("data"), **name}
        return {"inlineData": inline, **extra}
    if source.get("type") == "url" and block.get("type") == "image":
        kind = data.get("part", {}).get("mimeType", guess(str(source["url"])))
        return {"fileData": {"mimeType": kind, "fileUri": source["url"]}, **extra}
    return None


def tools_out(tools: Sequence[Mapping[str, Any]], losses: Losses) -> list[dict[str, Any]]:
    """All functions in one declaration list, as the API documents it; other tools whole."""
    declared: list[dict[str, Any]] = []
    whole: list[dict[str, Any]] = []
    for index, tool in enumerate(tools):
        data = foreign(tool, SHAPE)
        if "whole" in data:
            whole.append(dict(data["whole"]))
        elif "input_schema" not in tool:
            losses.add("tool", f"tools[{index}]", "a server tool of another provider")
        else:
            note_keys(tool, _TOOL_KEYS, f"tools[{index}]", losses)
            declared.append(_declaration(tool, data))
    return [*([{"functionDeclarations": declared}] if declared else []), *whole]


def _declaration(tool: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {"name": tool.get("name")}
    if "description" in tool:
        written["description"] = tool["description"]
    key = data.get("key", "parametersJsonSchema")
    if key:
        written[key] = tool["input_schema"]
    return {**written, **data.get("declaration", {})}

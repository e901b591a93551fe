"""Reads Gemini contents into the internal view."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from ullage.messages import Block
from ullage.providers._common import (
    FOREIGN,
    USER_FILLER,
    Losses,
    blocks_of,
    carrying,
    from_url,
    is_text,
)
from ullage.providers._json import dumps

__all__ = ["SHAPE", "SKIP_SIGNATURE", "GeminiReader", "answer_in", "guess", "system_in", "tools_in"]

SHAPE = "gemini"

SKIP_SIGNATURE = "skip_thought_signature_validator"
"""Documented stand-in for the signature of a call that this model did not make."""

_CALL = frozenset({"id", "name", "args"})
_ANSWER = frozenset({"id", "name", "response", "parts"})
_DECLARED = ("functionDeclarations", "function_declarations")


class GeminiReader:
    """Builds messages; calls without an id get one from what they are."""

    def __init__(self, ids: Mapping[str, str]) -> None:
        self.messages: list[dict[str, Any]] = []
        self.losses = Losses()
        self._ids = ids
        # Calls that wait for an answer: ids by name, the oldest first, and names by id.
        self._waiting: dict[str, OrderedDict[str, None]] = {}
        self._named: dict[str, list[str]] = {}
        self._alike: dict[str, int] = {}

    def take_all(self, contents: Sequence[Mapping[str, Any]]) -> None:
        for index, content in enumerate(contents):
            if index or not _is_filler(content):
                self.take(content, index)

    def take(self, content: Mapping[str, Any], index: int) -> None:
        model = content.get("role") == "model"
        if model:
            self._waiting, self._named = {}, {}
        blocks = []
        for position, part in enumerate(content.get("parts") or ()):
            where = f"contents[{index}].parts[{position}]"
            blocks.append(
                self.block(part, where)
                if isinstance(part, Mapping)
                else _opaque({"text": str(part)})
            )
        extra = {key: value for key, value in content.items() if key not in ("role", "parts")}
        message = {"role": "assistant" if model else "user", "content": blocks}
        self.messages.append(carrying(message, SHAPE, {"content": extra} if extra else {}))

    def block(self, part: Mapping[str, Any], where: str) -> Block:
        if isinstance(part.get("functionCall"), Mapping):
            return self.call(part)
        if isinstance(part.get("functionResponse"), Mapping):
            return self.answer(part, where)
        extra = {key: value for key, value in part.items() if key != "text"}
        if isinstance(part.get("text"), str):
            return _spoken(part["text"], extra)
        return _media(part) or _opaque(part)

    # -- calls and answers

    def call(self, part: Mapping[str, Any]) -> Block:
        told = part["functionCall"]
        name, value = str(told.get("name", "")), told.get("args")
        data = {key: item for key, item in part.items() if key != "functionCall"}
        if data.get("thoughtSignature") == SKIP_SIGNATURE:
            del data["thoughtSignature"]
        kept: dict[str, Any] = {
            "part": data,
            "call": {key: item for key, item in told.items() if key not in _CALL},
        }
        kept = {key: item for key, item in kept.items() if item}
        if "args" not in told:
            kept["no_args"] = True
        if "id" not in told:
            kept["no_id"] = True
        one = self._ids.get(str(told.get("id")), told.get("id")) or self._made(name, value)
        self._waiting.setdefault(name, OrderedDict())[one] = None
        self._named.setdefault(one, []).append(name)
        return carrying(
            {"type": "tool_use", "id": one, "name": name, "input": value or {}}, SHAPE, kept
        )

    def _made(self, name: str, value: Any) -> str:
        """An id that is the same whenever the same history is read."""
        seed = f"{name}:{dumps(value)}"
        count = self._alike[seed] = self._alike.get(seed, 0) + 1
        digest = hashlib.sha256(f"{count}:{seed}".encode("utf-8", "surrogatepass")).hexdigest()
        return f"call_{digest[:20]}"

    def answer(self, part: Mapping[str, Any], where: str) -> Block:
        told = part["functionResponse"]
        name = str(told.get("name", ""))
        one = self._ids.get(str(told.get("id")), told.get("id")) or self._oldest(name, where)
        for called in self._named.pop(one, ()):
            self._waiting[called].pop(one, None)
        content, failed, exact = answer_in(told)
        kept = {
            "part": {key: item for key, item in part.items() if key != "functionResponse"},
            "answer": {key: item for key, item in told.items() if key not in _ANSWER},
            "response": {}
            if exact
            else {key: told[key] for key in ("response", "parts") if key in told},
        }
        block: Block = {"type": "tool_result", "tool_use_id": one, "content": content}
        if failed:
            block["is_error"] = True
        return carrying(block, SHAPE, {key: item for key, item in kept.items() if item})

    def _oldest(self, name: str, where: str) -> str:
        """Without ids, an answer belongs to the first open call of its name."""
        one = next(iter(self._waiting.get(name, ())), None)
        if one is None:
            self.losses.add("tool_result", where, "answers no call")
        return one or f"unknown_{name}"


def answer_in(told: Mapping[str, Any]) -> tuple[Any, bool, bool]:
    """A response as content; whether it is an error; whether writing gives the same again."""
    response = told.get("response")
    names = set(response) if isinstance(response, Mapping) else set()
    if isinstance(response, Mapping) and names in ({"output"}, {"error"}):
        failed = names == {"error"}
        said = response["error" if failed else "output"]
        if isinstance(said, str) and "parts" not in told:
            return said, failed, True
        blocks = _named(said, told.get("parts") or []) if isinstance(said, list) else None
        if blocks is not None:
            return blocks, failed, True
    rest = [_media(part) or _opaque(part) for part in told.get("parts") or ()]
    text = dumps(response) if response is not None else ""
    return ([{"type": "text", "text": text}, *rest] if rest else text), False, False


def _named(said: list[Any], parts: list[Any]) -> list[Block] | None:
    """Texts and references in a row, each reference to one part; `None` if it is not of that form."""
    media = {}
    for part in parts:
        block = _media(part, named=True)
        if block is None:
            return None
        media[(part.get("inlineData") or part["fileData"])["displayName"]] = block
    blocks: list[Block] = []
    for one in said:
        name = one.get("$ref") if isinstance(one, Mapping) and set(one) == {"$ref"} else None
        if isinstance(one, str):
            blocks.append({"type": "text", "text": one})
        elif name in media:
            blocks.append(media.pop(name))
        else:
            return None
    return None if media else blocks


# ---- parts ---------------------------------------------------------------------------------------


def _spoken(text: str, extra: dict[str, Any]) -> Block:
    """Thought and empty signed texts are thinking: no other provider may take them for speech."""
    if extra.get("thought") or not text:
        return carrying(
            {"type": "thinking", "thinking": text}, SHAPE, {"part": extra, "text": True}
        )
    return carrying({"type": "text", "text": text}, SHAPE, {"part": extra} if extra else {})


def _media(part: Mapping[str, Any], *, named: bool = False) -> Block | None:
    """Inline or linked media. `named`: with a name that is only a reference."""
    extra = {key: value for key, value in part.items() if key not in ("inlineData", "fileData")}
    data = part.get("inlineData")
    if isinstance(data, Mapping) and isinstance(data.get("data"), str):
        rest = {key: item for key, item in data.items() if key not in ("mimeType", "data")}
        title = rest.pop("displayName", None)
        kind = str(data.get("mimeType", ""))
        source = {"type": "base64", "media_type": kind, "data": data["data"]}
        image = kind.startswith("image/")
        # A name is needed to be referred to; else only documents have one.
        fits = title is not None if named else title is None or not image
        if rest or not fits or not (image or kind == "application/pdf"):
            return None
        return _sourced(kind, source, None if named else title, extra)
    return _linked(part.get("fileData"), extra, named)


def _linked(link: Any, extra: dict[str, Any], named: bool) -> Block | None:
    known = {"mimeType", "fileUri", "displayName"} if named else {"mimeType", "fileUri"}
    if not isinstance(link, Mapping) or set(link) != known:
        return None
    kind, url = str(link["mimeType"]), str(link["fileUri"])
    if not kind.startswith("image/"):
        return None
    if kind != guess(url):
        extra = {**extra, "mimeType": kind}
    return _sourced(kind, from_url(url), None, extra)


def guess(url: str) -> str:
    """The media type of a linked image, by the ending of its path."""
    ending = url.partition("?")[0].rpartition(".")[2].lower()
    return f"image/{ending}" if ending in ("png", "gif", "webp", "heic", "heif") else "image/jpeg"


def _sourced(kind: str, source: dict[str, Any], title: Any, extra: dict[str, Any]) -> Block:
    image = kind.startswith("image/")
    block: Block = {"type": "image" if image else "document", "source": source}
    if title is not None:
        block["title"] = title
    return carrying(block, SHAPE, {"part": extra} if extra else {})


def _opaque(part: Mapping[str, Any]) -> Block:
    return {"type": FOREIGN, FOREIGN: {SHAPE: {"opaque": dict(part)}}}


def _is_filler(content: Mapping[str, Any]) -> bool:
    return content == {"role": "user", "parts": [{"text": USER_FILLER}]}


# ---- system and tools ----------------------------------------------------------------------------


def system_in(told: Any) -> str | list[Block] | None:
    """A system instruction: one plain part is a string."""
    if told is None:
        return None
    if isinstance(told, str):
        return told
    parts = told.get("parts") or () if isinstance(told, Mapping) else told
    blocks = [
        _spoken(part["text"], {k: v for k, v in part.items() if k != "text"})
        for part in parts
        if "text" in part
    ]
    if len(blocks) == 1 and is_text(blocks[0]) and len(blocks[0]) == 2:
        return str(blocks[0]["text"])
    return blocks_of(blocks) or None


def tools_in(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Function declarations one by one; other tools whole."""
    found: list[dict[str, Any]] = []
    for tool in tools:
        rest = {key: value for key, value in tool.items() if key not in _DECLARED}
        for name in _DECLARED:
            found.extend(_declared(function) for function in tool.get(name) or ())
        if rest:
            found.append({"name": next(iter(rest)), FOREIGN: {SHAPE: {"whole": rest}}})
    return found


def _declared(function: Mapping[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = {"name": function.get("name")}
    if "description" in function:
        read["description"] = function["description"]
    key = "parametersJsonSchema" if "parametersJsonSchema" in function else "parameters"
    read["input_schema"] = function.get(key) or {"type": "object"}
    known = ("name", "description", key)
    extra = {name: value for name, value in function.items() if name not in known}
    data: dict[str, Any] = {"declaration": extra} if extra else {}
    if key == "parameters" and key in function:
        data["key"] = key
    if key not in function:
        data["key"] = ""
    return carrying(read, SHAPE, data)

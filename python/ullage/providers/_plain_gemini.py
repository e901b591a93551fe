"""Contents of Gemini that most of a conversation is made of, both ways; see `_plain_chat`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ullage._lazy import hashlib
from ullage.messages import Block, Item
from ullage.providers._common import FOREIGN, USER_FILLER, text_of
from ullage.providers._plain_chat import is_bare_text, own_data
from ullage.providers.gemini import SKIP_SIGNATURE
from ullage.providers.registry import Provider
from ullage.providers.sdk_objects import is_json

_FORM: Final = "gemini"
_CONTENT: Final = {"role", "parts"}
_CALL: Final = {"id", "name", "args"}
_RESPONSE: Final = {"id", "name", "response"}
_MEDIA: Final = {"mimeType", "data"}
_SIGNED: Final = {"thought", "thoughtSignature"}
_TEXT: Final = {"type", "text"}
_THOUGHT: Final = {"type", "thinking", FOREIGN}
_USE: Final = {"type", "id", "name", "input"}
_RESULT: Final = {"type", "tool_use_id", "content", "is_error"}
_SOURCE: Final = {"type", "media_type", "data"}
_EXACT: Final = ({"output"}, {"error"})

_OpenCalls = Callable[[], Sequence[tuple[str, str]]]


def read_plain(item: Item, position: int = 0, open_calls: _OpenCalls = tuple) -> Item | None:
    """One content in the internal view; `None`: it takes the longer way.

    Args:
        item: The content.
        position: Where it will stand in the history; makes ids of calls that have none.
        open_calls: Id and name of calls that wait for a result, oldest first.
    """
    if type(item) is not dict or item.keys() != _CONTENT:
        return None
    role, parts = item["role"], item["parts"]
    if type(parts) is not list or not parts or any(type(part) is not dict for part in parts):
        return None
    if role == "model":
        return _answer_in(parts, position)
    return _input_in(parts, open_calls) if role == "user" else None


def _answer_in(parts: list[dict[str, Any]], position: int) -> Item | None:
    blocks: list[Block] = []
    for at, part in enumerate(parts):
        call = part.get("functionCall")
        block = _said_in(part) if call is None else _call_in(part, call, f"{position}:{at}")
        if block is None:
            return None
        blocks.append(block)
    return {"role": "assistant", "content": blocks}


def _said_in(part: dict[str, Any]) -> Block | None:
    text = part.get("text")
    if type(text) is not str:
        return None
    if len(part) == 1:
        return {"type": "text", "text": text} if text else None
    extra = {key: part[key] for key in part if key != "text"}
    if not _is_signed(extra):
        return None
    if "thought" in extra or not text:
        attached: dict[str, Any] = {"part": extra, "text": True}
        return {"type": "thinking", "thinking": text, FOREIGN: {_FORM: attached}}
    return {"type": "text", "text": text, FOREIGN: {_FORM: {"part": extra}}}


def _is_signed(extra: Any) -> bool:
    """Whether a part says of itself no more than that it is a thought, and its signature."""
    if type(extra) is not dict or not extra.keys() <= _SIGNED or not extra.get("thought", True):
        return False
    signature = extra.get("thoughtSignature", "")
    return type(signature) is str and signature != SKIP_SIGNATURE and extra.get("thought") in _TRUE


_TRUE: Final = (None, True)


def _call_in(part: dict[str, Any], call: Any, place: str) -> Block | None:
    if type(call) is not dict or not call.keys() <= _CALL or type(call.get("args")) is not dict:
        return None
    name, one = call.get("name"), call.get("id")
    if type(name) is not str or not name:
        return None
    attached: dict[str, Any] = {}
    if len(part) > 1:
        attached["part"] = {key: part[key] for key in part if key != "functionCall"}
        if not _is_signed(attached["part"]) or "thought" in part:
            return None
    if "id" not in call:
        attached["no_id"] = True
        seed = f"{place}:{name}".encode("utf-8", "surrogatepass")
        one = f"call_{hashlib.sha256(seed).hexdigest()[:20]}"
    elif type(one) is not str or not one:
        return None
    block: Block = {"type": "tool_use", "id": one, "name": name, "input": call["args"] or {}}
    return {**block, FOREIGN: {_FORM: attached}} if attached else block


def _input_in(parts: list[dict[str, Any]], open_calls: _OpenCalls) -> Item | None:
    blocks: list[Block] = []
    waiting: list[tuple[str, str]] | None = None
    for part in parts:
        answer, block = part.get("functionResponse"), None
        if len(part) != 1:
            return None
        if answer is None:
            block = _shown_in(part)
        elif type(answer) is dict and answer.keys() <= _RESPONSE:
            one = answer.get("id")
            if "id" not in answer:
                waiting = list(open_calls()) if waiting is None else waiting
                call = next((pair for pair in waiting if pair[1] == answer.get("name")), None)
                if call is not None:
                    waiting.remove(call)
                    one = call[0]
            if type(one) is str and one and not one.startswith("unknown_"):
                block = _result_in(answer, one)
        if block is None:
            return None
        blocks.append(block)
    return {"role": "user", "content": blocks}


def _result_in(answer: dict[str, Any], one: str) -> Block | None:
    response, name = answer.get("response"), answer.get("name")
    if type(response) is not dict or type(name) is not str:
        return None
    block: Block = {"type": "tool_result", "tool_use_id": one}
    if response.keys() in _EXACT:
        key, output = next(iter(response.items()))
        if type(output) is str:
            block["content"] = output
            return {**block, "is_error": True} if key == "error" else block
        if isinstance(output, list):
            return None
    if not is_json(response):
        return None
    block["content"] = text_of(response)
    return {**block, FOREIGN: {_FORM: {"response": {"response": response}}}}


def _shown_in(part: dict[str, Any]) -> Block | None:
    """A text or an image of the user's."""
    text, data = part.get("text"), part.get("inlineData")
    if type(text) is str and text and text != USER_FILLER:
        return {"type": "text", "text": text}
    if type(data) is not dict or data.keys() != _MEDIA:
        return None
    kind, held = data["mimeType"], data["data"]
    if type(kind) is not str or type(held) is not str or not kind.startswith("image/"):
        return None
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": held}}


def write_plain(messages: Sequence[Item], provider: Provider) -> list[Item] | None:
    """What `to_provider` writes of whole rounds that are not the first; `None`: it takes the longer way.

    Args:
        messages: Answers, each followed by its results, then the user's words.
        provider: Whose form; one has it.
    """
    del provider
    written: list[Item] = []
    calls: dict[str, dict[str, Any]] = {}
    for message in messages:
        role, content = message["role"], message["content"]
        if FOREIGN in message:
            return None
        if type(content) is str:
            parts: list[Any] = [{"text": content}]
        elif role == "assistant":
            parts = _signed([_said_out(block, calls) for block in content])
        else:
            parts = [_shown_out(block, calls) for block in content]
        if None in parts:
            return None
        written.append({"role": "model" if role == "assistant" else "user", "parts": parts})
    return written


def _signed(parts: list[Any]) -> list[Any]:
    """As the form's writer, which gives the first call a word that stands for its signature where it has none."""
    for at, part in enumerate(parts):
        if part is not None and "functionCall" in part:
            if "thoughtSignature" not in part:
                parts[at] = {**part, "thoughtSignature": SKIP_SIGNATURE}
            break
    return parts


def _said_out(block: Block, calls: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    attached: Any = {}
    if FOREIGN in block:
        attached = own_data(block, _FORM)
        if attached is None or not _is_signed(attached.get("part", {})):
            return None
    kind, part = block["type"], attached.get("part", {})
    if kind == "tool_use":
        if not block.keys() - {FOREIGN} == _USE or not attached.keys() <= {"part", "no_id"}:
            return None
        if type(block["input"]) is not dict or "thought" in part:
            return None
        call: dict[str, Any] = {} if attached.get("no_id") else {"id": block["id"]}
        calls[block["id"]] = call = {**call, "name": block["name"]}
        return {**part, "functionCall": {**call, "args": block["input"]}}
    if kind == "text" and attached.keys() <= {"part"} and block.keys() - {FOREIGN} == _TEXT:
        return {"text": block["text"], **part}
    if kind == "thinking" and attached.keys() == {"part", "text"} and block.keys() == _THOUGHT:
        return {"text": block["thinking"], **part} if attached["text"] else None
    return None


def _shown_out(block: Block, calls: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    kind = block.get("type")
    if kind == "text":
        return {"text": block["text"]} if block.keys() == _TEXT else None
    if kind == "tool_result":
        return _result_out(block, calls)
    source = block.get("source")
    if kind != "image" or len(block) != 2 or type(source) is not dict or source.keys() != _SOURCE:
        return None
    media, held = source["media_type"], source["data"]
    if source["type"] != "base64" or type(media) is not str or not media.startswith("image/"):
        return None
    return {"inlineData": {"mimeType": media, "data": held}} if type(held) is str else None


def _result_out(block: Block, calls: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    content, call = block.get("content"), calls.get(block["tool_use_id"])
    if call is None or not block.keys() - {FOREIGN} <= _RESULT:
        return None
    if FOREIGN in block:
        attached = own_data(block, _FORM, {"response"})
        original = None if attached is None else attached["response"]
        if type(original) is not dict or original.keys() != {"response"}:
            return None
        response = original["response"]
        if type(response) is not dict or response.keys() in _EXACT or not is_json(response):
            return None
        if text_of(response) == content:
            return {"functionResponse": {**call, "response": response}}
    if type(content) is list and content and all(map(is_bare_text, content)):
        content = [part["text"] for part in content]
    elif type(content) is not str:
        return None
    key = "error" if block.get("is_error") else "output"
    return {"functionResponse": {**call, "response": {key: content}}}

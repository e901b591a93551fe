"""Items of the Responses API that most of a conversation is made of, both ways; see `_plain_chat`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ullage.messages import Block, Item
from ullage.providers._common import FOREIGN, arguments_in, arguments_out, from_url, to_url
from ullage.providers._plain_chat import is_bare_text, own_data
from ullage.providers.registry import Provider
from ullage.providers.sdk_objects import is_json, without_nulls

_FORM: Final = "openai_responses"
_MAX_ID_CHARS: Final = 64
_SIDES: Final = ("user", "assistant")
_WORDS: Final = {"role", "content"}
_MESSAGE: Final = {"type", "role", "content"}
_CALL: Final = {"type", "call_id", "name", "arguments"}
_OUTPUT: Final = {"type", "call_id", "output"}
_TEXT: Final = {"type", "text"}
_IMAGE: Final = {"type", "image_url"}
_MEDIA: Final = {"type", "source"}
_THOUGHT: Final = {"type", "thinking", FOREIGN}
_USE: Final = {"type", "id", "name", "input"}
_ANSWER: Final = {"type", "tool_use_id", "content"}


def read_plain(given: Item, *_: object) -> Item | None:
    """One item in the internal view; `None`: it takes the longer way."""
    if type(given) is not dict:
        return None
    item: dict[str, Any] = without_nulls(given)
    if item.keys() == _WORDS:
        role, content = item["role"], item["content"]
        if type(content) is list and role == "user":
            shown = _shown_in(content)
            head = {FOREIGN: {_FORM: {"head": dict[str, Any]()}}}
            return None if shown is None else {"role": role, "content": shown, **head}
        plain = type(content) is str and role in _SIDES
        return {"role": role, "content": content} if plain else None
    kind, call = item.get("type"), item.get("call_id")
    if kind == "message" and item.get("role") == "user":
        shown = _shown_in(item.get("content")) if item.keys() == _MESSAGE else None
        return None if shown is None else {"role": "user", "content": shown}
    if kind == "message":
        return _message_in(item)
    if kind == "reasoning":
        return _reasoning_in(item)
    if type(call) is not str or call.startswith("unknown_"):
        return None
    if kind == "function_call_output":
        said = _output_in(item.get("output"))
        if said is None or item.keys() != _OUTPUT:
            return None
        block = {"type": "tool_result", "tool_use_id": call, "content": said}
        return {"role": "user", "content": [block]}
    return _call_in(item, call) if kind == "function_call" else None


def _shown_in(content: Any) -> list[Block] | None:
    """Texts and images of the user's."""
    blocks: list[Block] = []
    for part in content if type(content) is list else ():
        if is_bare_text(part, "input_text"):
            blocks.append({"type": "text", "text": part["text"]})
        elif type(part) is dict and part.keys() == _IMAGE and part["type"] == "input_image":
            if type(part["image_url"]) is not str:
                return None
            blocks.append({"type": "image", "source": from_url(part["image_url"])})
        else:
            return None
    return blocks or None


def _output_in(output: Any) -> str | list[Block] | None:
    if type(output) is str:
        return output
    if type(output) is not list or not all(is_bare_text(part, "input_text") for part in output):
        return None
    return [{"type": "text", "text": part["text"]} for part in output]


def _message_in(item: dict[str, Any]) -> Item | None:
    content = item.get("content")
    if item.get("role") != "assistant":
        return None
    if type(content) is str:
        if item.keys() != _MESSAGE:
            return None
        return {"role": "assistant", "content": [{"type": "text", "text": content}]}
    if type(content) is not list or len(content) != 1 or not _is_sent(item):
        return None
    part = without_nulls(content[0])
    if type(part) is not dict or part.get("type") != "output_text" or FOREIGN in part:
        return None
    if type(part.get("text")) is not str or "id" not in item:
        return None
    extra = {key: part[key] for key in part if key not in _TEXT}
    data = {"part": extra} if extra else {}
    data["head"] = {key: item[key] for key in item if key not in _WORDS}
    block = {"type": "text", "text": part["text"], FOREIGN: {_FORM: data}}
    return {"role": "assistant", "content": [block]}


def _reasoning_in(item: dict[str, Any]) -> Item | None:
    """The summary is the readable part; the item itself is sent back unchanged."""
    summary = item.get("summary")
    if type(summary) is not list or item.get("content") or not _is_sent(item):
        return None
    if "message" in item or "role" in item:
        return None
    texts = [str(part.get("text", "")) for part in summary if type(part) is dict]
    kept = {FOREIGN: {_FORM: {"item": dict(item)}}}
    block = {"type": "thinking", "thinking": "\n\n".join(texts), **kept}
    return {"role": "assistant", "content": [block]}


def _is_sent(value: dict[str, Any]) -> bool:
    """Whether it is JSON for sure, and only this form's."""
    return FOREIGN not in value and is_json(value)


def _call_in(item: dict[str, Any], call: str) -> Item | None:
    name, arguments = item.get("name"), item.get("arguments")
    if type(name) is not str or not name or type(arguments) is not str or "role" in item:
        return None
    given, data = arguments_in(arguments)
    extra = {key: item[key] for key in item if key not in _CALL}
    if "content" in extra or FOREIGN in extra or "message" in extra:
        return None
    if extra:
        data = {**data, "item": extra}
    block: Block = {"type": "tool_use", "id": call, "name": name, "input": given}
    if data:
        block[FOREIGN] = {_FORM: data}
    return {"role": "assistant", "content": [block]}


def write_plain(messages: Sequence[Item], provider: Provider) -> list[Item] | None:
    """What `to_provider` writes of whole rounds that are not the first; `None`: it takes the longer way.

    Args:
        messages: Answers, each with its results or followed by the user's words; names of tools are the provider's.
        provider: Whose form; one has it.
    """
    del provider
    written: list[Item] = []
    thought = (
        False  # the newest item is reasoning, which the server takes only with what follows it
    )
    for message in messages:
        role, content = message["role"], message["content"]
        if thought and role != "assistant":
            return None
        if role == "user" and type(content) is list and content[0].get("type") != "tool_result":
            shown = _shown_out(message, content)
            if shown is None:
                return None
            written.append(shown)
            continue
        if FOREIGN in message:
            return None
        if type(content) is str:
            written.append({"role": role, "content": content})
            thought = False
            continue
        for block in content:
            thought = role == "assistant" and block.get("type") == "thinking"
            made = _said_out(block) if role == "assistant" else _output_out(block)
            if made is None:
                return None
            written.append(made)
    return None if thought else written


def _shown_out(message: Item, content: list[Block]) -> Mapping[str, Any] | None:
    head: Any = {"type": "message"}
    if FOREIGN in message:
        kept = own_data(message, _FORM, {"head"})
        head = {}
        if kept is None or kept["head"] != head:
            return None
    parts: list[dict[str, Any]] = []
    for block in content:
        if is_bare_text(block):
            parts.append({"type": "input_text", "text": block["text"]})
            continue
        url = to_url(block.get("source")) if block.keys() == _MEDIA else None
        if url is None or block["type"] != "image":
            return None
        parts.append({"type": "input_image", "image_url": url})
    return {**head, "role": "user", "content": parts}


def shared(items: Sequence[Item]) -> Iterator[str]:
    """As the rules' own, of what was written here: ids of items, and of the calls that are items of their own."""
    for item in items:
        name = item.get("id")
        if name and isinstance(name, str):
            yield f"id {name}"
        if item.get("type") == "function_call":
            yield f"function_call {item['call_id']}"


def _said_out(block: Block) -> Mapping[str, Any] | None:
    kind = block.get("type")
    if kind == "tool_use":
        return _call_out(block)
    if kind == "thinking":
        kept = own_data(block, _FORM)
        item = None if kept is None or kept.keys() != {"item"} else kept["item"]
        return dict(item) if item and block.keys() == _THOUGHT and _is_whole(item) else None
    if block.keys() == _TEXT:
        return {"type": "message", "role": "assistant", "content": block["text"]}
    kept = own_data(block, _FORM) if len(block) == 3 else None
    if kept is None or "head" not in kept or not kept.keys() <= {"head", "part"}:
        return None
    part = {**kept.get("part", {}), "type": "output_text", "text": block["text"]}
    head = kept["head"]
    return {**head, "role": "assistant", "content": [part]} if head.get("id") else None


def _is_whole(item: Any) -> bool:
    return (
        type(item) is dict
        and item.get("type") == "reasoning"
        and bool(item.get("encrypted_content"))
    )


def _call_out(block: Block) -> dict[str, Any] | None:
    kept: Any = {}
    if len(block) == 5:
        kept = own_data(block, _FORM)
        if kept is None or not kept.keys() <= {"arguments", "item"}:
            return None
    elif block.keys() != _USE:
        return None
    if not 0 < len(block["id"]) <= _MAX_ID_CHARS:
        return None
    arguments = arguments_out(block, kept)
    told = {"type": "function_call", "call_id": block["id"], "name": block["name"]}
    return {**kept.get("item", {}), **told, "arguments": arguments}


def _output_out(block: Block) -> dict[str, Any] | None:
    if block.keys() != _ANSWER:
        return None
    call, content = block["tool_use_id"], block["content"]
    if type(content) is list and all(map(is_bare_text, content)):
        content = [{"type": "input_text", "text": part["text"]} for part in content]
    elif type(content) is not str:
        return None
    if not 0 < len(call) <= _MAX_ID_CHARS:
        return None
    return {"type": "function_call_output", "call_id": call, "output": content}

"""Messages of the chat form that most of a conversation is made of, both ways: text, reasoning, calls of functions, results that are text.

What is not recognised here is not wrong: it takes the longer way, which gives the same for what is (`tests/providers/test_plain_forms.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ullage.messages import Block, Item
from ullage.providers._common import (
    FOREIGN,
    USER_FILLER,
    arguments_in,
    arguments_out,
    from_url,
    to_url,
)
from ullage.providers.registry import ChatRules, Provider
from ullage.providers.sdk_objects import is_json, without_nulls

_FORM: Final = "openai_chat"
_NOTHING: Final[Mapping[str, Any]] = {}
_WORDS: Final = {"role", "content"}
_SAID: Final = frozenset(("role", "content", "tool_calls"))
_REASONING: Final = ("reasoning_content", "reasoning")
_RESULT: Final = {"role", "tool_call_id", "content"}
_CALL: Final = {"id", "type", "function"}
_FUNCTION: Final = {"name", "arguments"}
_TEXT: Final = {"type", "text"}
_IMAGE: Final = {"type", "image_url"}
_MEDIA: Final = {"type", "source"}
_THOUGHT: Final = {"type", "thinking", FOREIGN}
_USE: Final = {"type", "id", "name", "input"}
_ANSWER: Final = {"type", "tool_use_id", "content"}


def read_plain(given: Item, *_: object) -> Item | None:
    """One message in the internal view; `None`: it takes the longer way."""
    if type(given) is not dict:
        return None
    message: dict[str, Any] = without_nulls(given)
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        return _answer_in(message, content)
    if role == "user":
        said = _shown_in(content)
        plain = said is not None and message.keys() == _WORDS and content != USER_FILLER
        return {"role": "user", "content": said} if plain else None
    said = _said_in(content)
    if said is None:
        return None
    if role == "tool":
        call = message.get("tool_call_id")
        if type(call) is not str or call.startswith("unknown_"):
            return None
        block: Block = {"type": "tool_result", "tool_use_id": call, "content": said}
        if message.keys() != _RESULT:
            extra = {key: message[key] for key in message if key not in _RESULT}
            if FOREIGN in extra or not extra or not is_json(extra):
                return None
            block[FOREIGN] = {_FORM: {"message": extra}}
        return {"role": "user", "content": [block]}
    return None


def _shown_in(content: Any) -> str | list[Block] | None:
    """What the user says: a string, or texts and images."""
    if type(content) is not list:
        return content if type(content) is str else None
    blocks: list[Block] = []
    for part in content:
        image = part.get("image_url") if type(part) is dict and part.keys() == _IMAGE else None
        if is_bare_text(part):
            blocks.append({"type": "text", "text": part["text"]})
        elif type(image) is dict and image.keys() == {"url"} and type(image["url"]) is str:
            if part["type"] != "image_url":
                return None
            blocks.append({"type": "image", "source": from_url(image["url"])})
        else:
            return None
    return blocks or None


def _said_in(content: Any) -> str | list[Block] | None:
    """A string, or the texts of a list that holds nothing else."""
    if type(content) is str:
        return content
    fine = type(content) is list and content and all(map(is_bare_text, content))
    return [{"type": "text", "text": part["text"]} for part in content] if fine else None


def is_bare_text(part: Any, kind: str = "text") -> bool:
    """Whether a part of a content is a text of this type, and nothing besides."""
    if type(part) is not dict or part.keys() != _TEXT or part["type"] != kind:
        return False
    return type(part["text"]) is str and part["text"] != USER_FILLER


def _answer_in(message: dict[str, Any], content: Any) -> Item | None:
    calls = message.get("tool_calls") or ()
    blocks: list[Block] = []
    extra: dict[str, Any] = {}
    if not _SAID.issuperset(message):
        field = next((name for name in _REASONING if type(message.get(name)) is str), "")
        if field:
            kept = {FOREIGN: {_FORM: {"field": field}}}
            blocks.append({"type": "thinking", "thinking": message[field], **kept})
        extra = {key: message[key] for key in message if key not in _SAID and key != field}
        if FOREIGN in extra or not is_json(extra):
            return None
    if type(content) is str:
        if content and (calls or blocks):
            blocks.append({"type": "text", "text": content})
    elif content is not None or "content" not in message or not (calls or blocks):
        return None
    if type(calls) is not list and calls != ():
        return None
    for call in calls:
        block = _call_in(call)
        if block is None:
            return None
        blocks.append(block)
    said = blocks if calls or blocks else content
    answer = {"role": "assistant", "content": said}
    return {**answer, FOREIGN: {_FORM: {"message": extra}}} if extra else answer


def _call_in(call: Any) -> Block | None:
    if type(call) is not dict or call.get("type") != "function":
        return None
    name, function = call.get("id"), call.get("function")
    if type(name) is not str or type(function) is not dict or function.keys() != _FUNCTION:
        return None
    if type(function["name"]) is not str or type(function["arguments"]) is not str:
        return None
    given, kept = arguments_in(function["arguments"])
    if len(call) > len(_CALL):
        extra = {key: call[key] for key in call if key not in _CALL}
        if not is_json(extra):
            return None
        kept = {"call": extra, **kept}
    block = {"type": "tool_use", "id": name, "name": function["name"], "input": given}
    return {**block, FOREIGN: {_FORM: kept}} if kept else block


def write_plain(messages: Sequence[Item], provider: Provider) -> list[Item] | None:
    """What `to_provider` writes of whole rounds that are not the first; `None`: it takes the longer way.

    Args:
        messages: Answers, each with its results or followed by the user's words; names of tools are the provider's.
        provider: Whose rules for ids of calls hold.
    """
    written: list[Item] = []
    rules = provider.chat
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "assistant":
            made = _answer_out(message, content, rules)
            if made is None:
                return None
            written.append(made)
        elif FOREIGN in message:
            return None
        elif type(content) is str or content[0]["type"] != "tool_result":
            said = _shown_out(content)
            # Mistral's servers want an answer between results and words.
            joins = bool(written) and written[-1]["role"] == "tool" and provider.name != _FORM
            if said is None or joins:
                return None
            written.append({"role": role, "content": said})
        else:
            for block in content:
                said = _said_in(block.get("content"))
                call, extra = block["tool_use_id"], {}
                if said is None or not _is_id(call, rules):
                    return None
                if block.keys() != _ANSWER:
                    own = (
                        own_data(block, _FORM, {"message"})
                        if len(block) == 4 and FOREIGN in block
                        else None
                    )
                    if own is None:
                        return None
                    extra = own["message"]
                written.append({**extra, "role": "tool", "tool_call_id": call, "content": said})
    return written


def _shown_out(content: Any) -> str | list[dict[str, Any]] | None:
    if type(content) is str:
        return content
    parts: list[dict[str, Any]] = []
    for block in content:
        if is_bare_text(block):
            parts.append({"type": "text", "text": block["text"]})
            continue
        url = to_url(block.get("source")) if block.keys() == _MEDIA else None
        if url is None or block["type"] != "image":
            return None
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


def _answer_out(message: Item, content: Any, rules: ChatRules) -> dict[str, Any] | None:
    said: Any = None
    extra: Any = {}
    calls: list[dict[str, Any]] = []
    thought: dict[str, Any] = {}
    if FOREIGN in message:
        extra = own_data(message, _FORM, {"message"})
        if extra is None:
            return None
        extra = extra["message"]
    if type(content) is str:
        return {**extra, "role": "assistant", "content": content}
    for block in content:
        kind = block.get("type")
        if kind == "tool_use":
            made = _call_out(block, rules)
            if made is None:
                return None
            calls.append(made)
        elif kind == "thinking":
            kept = (
                None if thought or block.keys() != _THOUGHT else own_data(block, _FORM, {"field"})
            )
            if kept is None:
                return None
            thought = {kept["field"]: block["thinking"]}
        elif said is not None or block.keys() != _TEXT:
            return None
        else:
            said = block["text"]
    if said is None and not calls:
        return None
    written = {**extra, "role": "assistant", "content": said, **thought}
    return {**written, "tool_calls": calls} if calls else written


def own_data(value: Item, form: str, keys: set[str] | None = None) -> Mapping[str, Any] | None:
    """What a form attached, if it is just that, and no other form attached anything. `keys`: `None`: any."""
    carried = value.get(FOREIGN)
    kept = carried.get(form) if type(carried) is dict and len(carried) == 1 else None
    return kept if type(kept) is dict and (keys is None or kept.keys() == keys) else None


def _call_out(block: Block, rules: ChatRules) -> dict[str, Any] | None:
    kept: Any = {}
    if len(block) == 5:
        kept = own_data(block, _FORM) if FOREIGN in block else None
        if kept is None or not kept.keys() <= {"call", "arguments"}:
            return None
    elif block.keys() != _USE:
        return None
    if not _is_id(block["id"], rules):
        return None
    function = {"name": block["name"], "arguments": arguments_out(block, kept)}
    extra = kept.get("call", _NOTHING)
    return {**extra, "id": block["id"], "type": "function", "function": function}


def _is_id(name: str, rules: ChatRules) -> bool:
    """Whether a server takes an id as it is."""
    if rules.exact_ids:
        return len(name) == rules.max_id_chars and name.isascii() and name.isalnum()
    return 0 < len(name) <= rules.max_id_chars

"""OpenAI Chat Completions, both ways, and the servers that speak it with an accent.

| internal | chat |
|---|---|
| `tool_use` blocks | `tool_calls` of the same assistant message, arguments as a JSON string |
| `tool_result` blocks | `tool` messages directly after it |
| media in a result | a user message after the results, labelled; read back into the result |
| text after results | a user message with a list of parts |
| `system` | the first message, role `system` or `developer` |
| `thinking` | `reasoning_content` where the dialect has it; else left out |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

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
    arguments_in,
    arguments_out,
    as_text,
    bare,
    blocks_of,
    call_ids,
    carrying,
    carrying_rest,
    definable,
    foreign,
    from_url,
    input_parts,
    is_bare_text,
    is_text,
    map_ids,
    map_names,
    name_out,
    note_foreign,
    note_keys,
    own_data,
    placed,
    reverse,
    to_url,
)
from ullage.providers.registry import ChatRules, Provider
from ullage.providers.sdk_objects import is_json, without_nulls

# How servers that speak Chat Completions differ from OpenAI, and what each difference does.


DialectName: TypeAlias = Literal["openai", "compatible", "deepseek", "local"]


class _Dialect(NamedTuple):
    """How a server's idea of chat differs from OpenAI's."""

    system_role: str = "system"
    flat: bool = False  # texts as strings: many servers know no parts for assistant and tool
    one_system: bool = False  # templates of local servers take one system message, at the start
    alternate: bool = False
    reasoning: str = ""  # name of the field for thinking; empty: there is none
    max_id_chars: int = 40  # RULES give 40 for OpenAI; longer ids are mapped


DIALECTS: Mapping[str, _Dialect] = {
    "openai": _Dialect(),
    "compatible": _Dialect(flat=True),
    # DeepSeek refuses tool calls whose reasoning is missing; an empty field counts as present.
    "deepseek": _Dialect(flat=True, reasoning="reasoning_content"),
    "local": _Dialect(flat=True, one_system=True, alternate=True),
}


def _adapt(chat: list[dict[str, Any]], dialect: _Dialect, losses: Losses) -> list[dict[str, Any]]:
    """Brings finished messages into a stricter server's form."""
    if dialect.one_system:
        chat = _one_system(chat, losses)
    if dialect.alternate:
        chat = _user_first(_alternate(chat))
    return [_flat(message) for message in chat] if dialect.flat else chat


def _flat(message: dict[str, Any]) -> dict[str, Any]:
    """Texts as one string; `null` as an empty one."""
    content = message.get("content")
    if content is None:
        return {**message, "content": ""}
    if isinstance(content, list) and all(
        isinstance(part, dict) and is_text(part) for part in content
    ):
        return {**message, "content": "\n\n".join(part["text"] for part in content)}
    return message


def _one_system(chat: list[dict[str, Any]], losses: Losses) -> list[dict[str, Any]]:
    """Leading system messages as one; later ones as marked user text at their place.

    Moving them to the front would change the prefix that such servers cache.
    """
    head = 0
    while head < len(chat) and chat[head]["role"] in ("system", "developer"):
        head += 1
    texts = [_flat(message)["content"] for message in chat[:head]]
    first = [{"role": "system", "content": "\n\n".join(texts)}] if head else []
    others = [_as_user(message, head + index, losses) for index, message in enumerate(chat[head:])]
    return first + others


def _as_user(message: dict[str, Any], index: int, losses: Losses) -> dict[str, Any]:
    if message["role"] not in ("system", "developer"):
        return message
    losses.add("system message", f"chat[{index}]", "sent as marked user text")
    return {"role": "user", "content": f"<system>\n{_flat(message)['content']}\n</system>"}


def _alternate(chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours of one role become one message; `tool` messages stay apart."""
    merged: list[dict[str, Any]] = []
    for message in chat:
        last = merged[-1] if merged else None
        if last is None or last["role"] != message["role"] or message["role"] == "tool":
            merged.append(message)
        elif "tool_calls" in last:
            merged.append(message)
        else:
            joined = _parts_of(last["content"]) + _parts_of(message.get("content"))
            merged[-1] = {**last, **message, "content": joined or None}
    return merged


def _user_first(chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
    head = 1 if chat and chat[0]["role"] == "system" else 0
    if len(chat) == head or chat[head]["role"] == "user":
        return chat
    return [*chat[:head], {"role": "user", "content": USER_FILLER}, *chat[head:]]


def _parts_of(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


# Media in tool results, for shapes whose results hold only text.
#
# The result names each item, the user message after the results carries it under a label. Both texts are
# fixed, so that the way back finds the items and puts them where they stood.


_LABEL = re.compile(r"\[attachment (\d+) of tool call ([^\]\s]+)\]")


def _placeholder(number: int) -> str:
    return f"[attachment {number}: see the next user message]"


def _label(number: int, call: str) -> str:
    return f"[attachment {number} of tool call {call}]"


def _collect(
    parts: list[dict[str, Any]], call: str, moved: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Takes what is no text out of a result's parts; appends it, labelled, to `moved`."""
    collected: list[dict[str, Any]] = []
    number = 0
    for part in parts:
        if part.get("type") == "text":
            collected.append(part)
            continue
        number += 1
        collected.append({"type": "text", "text": _placeholder(number)})
        moved += [{"type": "text", "text": _label(number, call)}, part]
    return collected


def _attach(blocks: list[Block], results: list[Block], mapped: Mapping[str, str]) -> list[Block]:
    """Puts labelled blocks back into the results that name them; returns the others.

    Args:
        blocks: What the user message after the results holds.
        results: The results just before it; changed in place, they are the reader's own.
        mapped: Our id → the provider's, which the labels use.
    """
    by_call = {
        mapped.get(str(one.get("tool_use_id")), str(one.get("tool_use_id"))): one for one in results
    }
    position = 0
    while position + 1 < len(blocks) and _put_back(blocks[position], blocks[position + 1], by_call):
        position += 2
    return blocks[position:]


def _put_back(label: Block, item: Block, by_call: Mapping[str, Block]) -> bool:
    hit = _LABEL.fullmatch(label["text"]) if is_text(label) else None
    result = by_call.get(hit[2]) if hit else None
    if hit is None or result is None or not isinstance(result.get("content"), list):
        return False
    wanted = {"type": "text", "text": _placeholder(int(hit[1]))}
    if wanted not in result["content"]:
        return False
    result["content"][result["content"].index(wanted)] = item
    return True


# Reads Chat Completions messages into the internal view.


SHAPE = "openai_chat"

# DeepSeek and llama.cpp say the first, OpenRouter and newer vLLM the second.
_REASONING_FIELDS = ("reasoning_content", "reasoning")


def _leading_system(message: Mapping[str, Any]) -> str | list[Block] | None:
    if message.get("role") not in ("system", "developer"):
        return None
    content = message.get("content")
    extra = {key: value for key, value in message.items() if key not in ("role", "content")}
    data: dict[str, Any] = {"message": extra} if extra else {}
    if message["role"] == "developer":
        data["role"] = "developer"
    if isinstance(content, str) and not data:
        return content
    blocks = [_block_in(part) for part in _parts_of(content)]
    if isinstance(content, str):
        data["string"] = True
    if blocks and data:
        original = foreign(blocks[0], SHAPE)
        blocks[0] = carrying(blocks[0], SHAPE, {**original, **data})
    return blocks


class _ChatItemReader:
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
        call_id = message.get("tool_call_id")
        block: Block = {
            "type": "tool_result",
            "tool_use_id": self._ids.get(str(call_id), call_id),
            "content": _content_in(message.get("content")),
        }
        block = carrying_rest(block, SHAPE, "message", message, "role", "tool_call_id", "content")
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
            results.extend(_attach(content, results, {old: new for new, old in self._ids.items()}))
            return
        read = {"role": "user", "content": content}
        self.messages.append(carrying_rest(read, SHAPE, "message", message, "role", "content"))

    def _assistant(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if message.get("function_call") is not None:
            return {"role": "assistant", "content": [_whole(message)]}
        calls = message.get("tool_calls") or []
        content = message.get("content")
        field = next((one for one in _REASONING_FIELDS if isinstance(message.get(one), str)), "")
        blocks: Any = _content_in(content)
        if calls or field or not isinstance(blocks, str):
            blocks = [
                *_thinking_in(message, field),
                *blocks_of(blocks),
                *(self._call(call) for call in calls),
            ]
        read = {"role": "assistant", "content": blocks}
        expected = ("role", "content", "tool_calls", field)
        return carrying_rest(read, SHAPE, "message", message, *expected)

    def _call(self, call: Mapping[str, Any]) -> Block:
        kind = call.get("type") or "function"
        body = call.get(kind)
        body = body if isinstance(body, Mapping) else {}
        call_id = call.get("id")
        data = _call_extras(call, kind, body)
        if kind == "custom":
            value: dict[str, Any] = {"input": body.get("input", "")}
        else:
            value, original = arguments_in(body.get("arguments"))
            data.update(original)
        block = {
            "type": "tool_use",
            "id": self._ids.get(str(call_id), call_id),
            "name": body.get("name", ""),
            "input": value,
        }
        return carrying(block, SHAPE, data)


def _call_extras(call: Mapping[str, Any], kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    extras = {key: value for key, value in call.items() if key not in ("id", "type", kind)}
    inside = {
        key: value for key, value in body.items() if key not in ("name", "arguments", "input")
    }
    data = {"call": extras, "function": inside, "type": "" if kind == "function" else kind}
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
    parts = part.get("thinking")
    texts = [parts] if isinstance(parts, str) else [str(one.get("text", "")) for one in parts or ()]
    return carrying({"type": "thinking", "thinking": "".join(texts)}, SHAPE, {"part": dict(part)})


def _part(part: Any) -> Block:
    return {"type": FOREIGN, FOREIGN: {SHAPE: {"part": part}}}


def _text_in(part: Mapping[str, Any]) -> Block:
    block: Block = {"type": "text", "text": part["text"]}
    if "cache_control" in part:
        block["cache_control"] = part["cache_control"]
    return carrying_rest(block, SHAPE, "part", part, "type", "text", "cache_control")


def _image_in(image: Any) -> Block | None:
    if not isinstance(image, Mapping) or not isinstance(image.get("url"), str):
        return None
    block = {"type": "image", "source": from_url(image["url"])}
    return carrying_rest(block, SHAPE, "part", image, "url")


def _file_in(file: Any) -> Block | None:
    source = from_url(str(file.get("file_data") or "")) if isinstance(file, Mapping) else {}
    if source.get("type") != "base64":
        return None
    block: Block = {"type": "document", "source": source}
    if file.get("filename"):
        block["title"] = file["filename"]
    return carrying_rest(block, SHAPE, "part", file, "filename", "file_data")


def _tool_in(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A function's definition; anything else is carried whole."""
    function = tool.get("function")
    if tool.get("type") != "function" or not _is_plain(function):
        name = (function if isinstance(function, Mapping) else tool).get("name")
        return {"name": name or str(tool.get("type")), FOREIGN: {SHAPE: {"whole": dict(tool)}}}
    renamed = {"parameters": "input_schema"}
    read = {renamed.get(str(key), str(key)): value for key, value in (function or {}).items()}
    return carrying_rest(read, SHAPE, "tool", tool, "type", "function")


def _is_plain(function: Any) -> bool:
    expected = {"name", "description", "parameters", "strict"}
    return isinstance(function, Mapping) and {"name", "parameters"} <= set(function) <= expected


# Writes Chat Completions messages from the internal view.


# Parts that are in this form already, in a block of a caller who mixes both: they are sent as they are.
_OWN_PARTS = frozenset("image_url input_audio file refusal document_url reference".split())
_TEXT_KEYS = frozenset({"type", "text", FOREIGN})
_IMAGE_KEYS = frozenset({"type", "source", FOREIGN})
_DOCUMENT_KEYS = frozenset({"type", "source", "title", FOREIGN})
_CALL_KEYS = frozenset({"type", "id", "name", "input", FOREIGN})
_RESULT_KEYS = frozenset({"type", "tool_use_id", "content", FOREIGN})
_TOOL_KEYS = frozenset({"type", "name", "description", "input_schema", "strict", FOREIGN})


class _ChatWriter:
    """Writes one conversation; holds what all its messages share."""

    def __init__(
        self,
        dialect: _Dialect,
        messages: Sequence[Item],
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self.dialect = dialect
        self.names = map_names(messages, tools)
        self.losses = Losses()
        self.ids = map_ids(
            call_ids(messages),
            lambda one: 0 < len(one) <= dialect.max_id_chars,
            length=24,
            prefix="call_",
        )

    def system(self, system: str | Sequence[Block] | None) -> list[dict[str, Any]]:
        """The leading system message."""
        if not system:
            return []
        role = self.dialect.system_role
        if isinstance(system, str):
            return [{"role": role, "content": system}]
        data = foreign(system[0], SHAPE)
        parts = [self.part(block, f"system[{index}]") for index, block in enumerate(system)]
        content: Any = [part for part in parts if part is not None]
        if data.get("string") and len(content) == 1:
            content = content[0]["text"]
        return [{**data.get("message", {}), "role": data.get("role", role), "content": content}]

    def turns(self, messages: Sequence[Item]) -> list[dict[str, Any]]:
        """All messages; user messages in a row are one turn, so that its results stay together."""
        chat: list[dict[str, Any]] = []
        run: list[tuple[int, Mapping[str, Any]]] = []
        for index, message in _whole_answers(bare(messages)):
            if message["role"] == "user":
                run.append((index, message))
                continue
            chat.extend(self.user_turn(run))
            run = []
            chat.extend(self.other(index, message))
        return [*chat, *self.user_turn(run)]

    def other(self, index: int, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        if message["role"] == "assistant" and "tool_calls" not in message:
            return self.assistant(index, message)
        if message["role"] == "system":
            return self.inner_system(index, message)
        return [dict(message)]  # already in this shape

    def inner_system(self, index: int, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        data = foreign(message, SHAPE)
        head = {**data.get("message", {}), "role": data.get("role", self.dialect.system_role)}
        for key in ("output_config", "clear_at"):
            if key in message:
                self.losses.add(key, f"messages[{index}]", "the target has no such field")
        if isinstance(message.get("content"), str):
            return [{**head, "content": message["content"]}]
        content = self.parts(message, index)
        return [{**head, "content": content}] if content else []

    # -- user turns

    def user_turn(self, run: list[tuple[int, Mapping[str, Any]]]) -> Iterator[dict[str, Any]]:
        """All results first, then their media, then what the messages say besides."""
        spoken: list[dict[str, Any]] = []
        moved: list[dict[str, Any]] = []
        for index, message in run:
            content = message.get("content")
            whole = _whole_message(content)
            if whole is not None:
                spoken.append(whole)
                continue
            if not isinstance(content, str):
                yield from self.results(content, index, moved)
                content = self.parts(message, index)
            if content:
                spoken.append(self.user_message(message, content))
        yield from _with_media(moved, spoken)

    def results(
        self, content: Any, index: int, moved: list[dict[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        for position, block in enumerate(blocks_of(content)):
            if block.get("type") == "tool_result":
                yield self.result(block, f"messages[{index}].content[{position}]", moved)

    def user_message(self, message: Mapping[str, Any], content: Any) -> dict[str, Any]:
        return {**foreign(message, SHAPE).get("message", {}), "role": "user", "content": content}

    def result(self, block: Block, where: str, moved: list[dict[str, Any]]) -> dict[str, Any]:
        note_keys(block, _RESULT_KEYS, where, self.losses)
        note_foreign(block, SHAPE, where, self.losses)
        old = str(block.get("tool_use_id"))
        new = self.ids.get(old, old)
        return {
            **foreign(block, SHAPE).get("message", {}),
            "role": "tool",
            "tool_call_id": new,
            "content": self.result_content(block.get("content"), new, where, moved),
        }

    def result_content(
        self, content: Any, call: str, where: str, moved: list[dict[str, Any]]
    ) -> Any:
        if content is None or isinstance(content, str):
            return content or ""
        parts: list[dict[str, Any]] = []
        for position, block in enumerate(blocks_of(content)):
            part = self.part(block, f"{where}.content[{position}]")
            if part is not None:
                parts.append(part)
        return _collect(parts, call, moved)

    # -- assistant messages

    def assistant(self, index: int, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        where = f"messages[{index}]"
        data = foreign(message, SHAPE)
        note_foreign(message, SHAPE, where, self.losses)
        content = message.get("content")
        if isinstance(content, str):
            return [
                self.finished({**data.get("message", {}), "role": "assistant", "content": content})
            ]
        whole = _whole_message(content)
        if whole is not None:
            return [whole]
        parts = self.parts(message, index)
        calls = self.calls(message, index)
        thought = self.thought(message, index)
        if thought and self.dialect.reasoning and not (parts or calls or data):
            self.losses.add("thinking", where, "a message of nothing else is refused")
            return []
        if not (parts or calls or data or thought):
            return []  # what it held has been noted as a loss
        written: dict[str, Any] = {**data.get("message", {}), "role": "assistant"}
        written["content"] = _assistant_content(parts)
        if thought is not None:
            written[thought[0]] = thought[1]
        if calls:
            written["tool_calls"] = calls
        return [self.finished(written)]

    def finished(self, written: dict[str, Any]) -> dict[str, Any]:
        field = self.dialect.reasoning
        if field and "tool_calls" in written:
            written.setdefault(field, "")
        return written

    def calls(self, message: Mapping[str, Any], index: int) -> list[dict[str, Any]]:
        written: list[dict[str, Any]] = []
        for position, block in enumerate(blocks_of(message.get("content"))):
            if block.get("type") == "tool_use":
                written.append(self.call(block, f"messages[{index}].content[{position}]"))
            elif written and is_text(block):
                self.losses.add(
                    "order", f"messages[{index}].content[{position}]", "text stands before calls"
                )
        return written

    def call(self, block: Block, where: str) -> dict[str, Any]:
        note_keys(block, _CALL_KEYS, where, self.losses)
        note_foreign(block, SHAPE, where, self.losses)
        data = foreign(block, SHAPE)
        head = {"id": self.ids.get(block["id"], block["id"]), "type": data.get("type", "function")}
        if head["type"] == "custom":
            body = {"name": name_out(block, self.names), "input": _raw_input(block)}
        else:
            body = {"name": name_out(block, self.names), "arguments": arguments_out(block, data)}
        return {**data.get("call", {}), **head, head["type"]: {**data.get("function", {}), **body}}

    def thought(self, message: Mapping[str, Any], index: int) -> tuple[str, str] | None:
        """The reasoning field and its text; blocks that do not fit there are noted."""
        field, texts = "", []
        for position, block in enumerate(blocks_of(message.get("content"))):
            if not _is_thought(block):
                continue
            name = foreign(block, SHAPE).get("field") or self.dialect.reasoning
            if block.get("type") == "thinking" and name:
                field = field or name
                texts.append(str(block.get("thinking", "")))
            if not name or block.get("type") != "thinking" or block.get("signature"):
                where = f"messages[{index}].content[{position}]"
                self.losses.add(str(block["type"]), where, "only its own provider takes it back")
        return (field, "\n\n".join(texts)) if field else None

    # -- parts

    def parts(self, message: Mapping[str, Any], index: int) -> list[dict[str, Any]]:
        """Everything but calls, results and thinking, as parts."""
        written: list[dict[str, Any]] = []
        for position, block in enumerate(blocks_of(message.get("content"))):
            if block.get("type") in ("tool_use", "tool_result") or _is_thought(block):
                continue
            part = self.part(block, f"messages[{index}].content[{position}]")
            if part is not None:
                written.append(part)
        return written

    def part(self, block: Block, where: str) -> dict[str, Any] | None:
        kind = block.get("type")
        data = foreign(block, SHAPE)
        note_foreign(block, SHAPE, where, self.losses)
        if kind in (FOREIGN, "thinking"):
            text = readable(block) if kind == FOREIGN else ""
            written = {"type": "text", "text": text} if text else None
            return dict(data["part"]) if "part" in data else written
        if is_text(block):
            note_keys(block, _TEXT_KEYS, where, self.losses)
            return {**data.get("part", {}), "type": "text", "text": block["text"]}
        if kind == "image" and (url := to_url(block.get("source"))) is not None:
            note_keys(block, _IMAGE_KEYS, where, self.losses)
            return {"type": "image_url", "image_url": {**data.get("part", {}), "url": url}}
        if kind == "document" and (url := _pdf_url(block)) is not None:
            note_keys(block, _DOCUMENT_KEYS, where, self.losses)
            name = {"filename": block["title"]} if block.get("title") else {}
            return {"type": "file", "file": {**data.get("part", {}), **name, "file_data": url}}
        return self.as_words(block, where)

    def as_words(self, block: Block, where: str) -> dict[str, Any] | None:
        """A block without a word in this shape, as text; one of its own stays as it is."""
        kind = str(block.get("type"))
        if kind in _OWN_PARTS:
            return dict(block)
        text = as_text(block)
        self.losses.add(kind, where, "left out" if text is None else "sent as text")
        return None if text is None else {"type": "text", "text": text}


Numbered = tuple[int, Mapping[str, Any]]


def _whole_answers(messages: Iterable[Numbered]) -> Iterator[Numbered]:
    """Answers stored in pieces, in one where a piece calls tools: results must follow the calls at once."""
    waiting: Numbered | None = None
    for index, message in messages:
        goes_on = waiting is not None and message["role"] == "assistant"
        if waiting is not None and not goes_on:
            yield waiting
            waiting = None
        if waiting is not None:
            first, held = waiting
            content = [*blocks_of(held.get("content")), *blocks_of(message.get("content"))]
            waiting = first, {**message, **held, "content": content}
        elif message["role"] == "assistant" and _calls_tools(message):
            waiting = index, message
        else:
            yield index, message
    if waiting is not None:
        yield waiting


def _calls_tools(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(
        block.get("type") == "tool_use" for block in blocks_of(content)
    )


def _with_media(moved: list[dict[str, Any]], spoken: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Media join the message after the results if it has parts, else they get one of their own."""
    if not moved:
        return spoken
    if spoken and isinstance(spoken[0]["content"], list) and set(spoken[0]) == {"role", "content"}:
        return [{"role": "user", "content": moved + spoken[0]["content"]}, *spoken[1:]]
    return [{"role": "user", "content": moved}, *spoken]


def _assistant_content(parts: list[dict[str, Any]]) -> Any:
    """`null` only with calls; one text as a string, which every server accepts."""
    if not parts:
        return None
    if len(parts) == 1 and set(parts[0]) == {"type", "text"} and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts


def _is_thought(block: Mapping[str, Any]) -> bool:
    """Thinking that is no part of the content: it goes to a field of its own, or nowhere."""
    in_content = block.get("type") == "thinking" and "part" in foreign(block, SHAPE)
    return block.get("type") in THINKING and not in_content


def _whole_message(content: Any) -> dict[str, Any] | None:
    """A message that was carried whole, because the internal view has no word for it."""
    blocks = blocks_of(content) if isinstance(content, list) else []
    whole = foreign(blocks[0], SHAPE).get("whole") if len(blocks) == 1 else None
    return dict(whole) if isinstance(whole, Mapping) else None


def _raw_input(block: Block) -> Any:
    value = block.get("input")
    return value.get("input", "") if isinstance(value, Mapping) else value


def _pdf_url(block: Block) -> str | None:
    source = block.get("source")
    has_bytes = isinstance(source, Mapping) and source.get("type") == "base64"
    return to_url(source) if has_bytes else None


def _tools_out(
    tools: Sequence[Mapping[str, Any]], losses: Losses, names: Mapping[str, str]
) -> list[dict[str, Any]]:
    return [
        dict(data["whole"]) if tool is None else _function_tool(tool, data, names)
        for tool, data in definable(tools, SHAPE, _TOOL_KEYS, losses)
    ]


def _function_tool(
    tool: Mapping[str, Any], data: Mapping[str, Any], names: Mapping[str, str]
) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name_out(tool, names)}
    if "description" in tool:
        function["description"] = tool["description"]
    function["parameters"] = tool["input_schema"]
    if "strict" in tool:
        function["strict"] = tool["strict"]
    return {**data.get("tool", {}), "type": "function", "function": function}


@placed
def to_provider(
    messages: Sequence[Item],
    *,
    system: str | Sequence[Block] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    dialect: DialectName = "openai",
    system_role: str | None = None,
) -> Shaped:
    """Translates a conversation to Chat Completions.

    Args:
        messages: Anthropic-shaped messages or entries; not changed.
        system: The system prompt; `None` sends none.
        tools: Anthropic-shaped definitions; `None` sends none.
        dialect: `openai`; `compatible`: contents as strings; `deepseek`: with `reasoning_content`;
            `local`: one leading system message and strict alternation too.
        system_role: `system` or `developer`; `None`: what the dialect uses.

    Returns:
        `messages` and, if given, `tools`; losses; ids that had to change.
    """
    wanted = DIALECTS[dialect]
    wanted = wanted._replace(system_role=system_role) if system_role else wanted
    writer = _ChatWriter(wanted, messages, tools)
    chat = [*writer.system(system), *writer.turns(messages)]
    parts: dict[str, Any] = {"messages": _adapt(chat, wanted, writer.losses)}
    if tools is not None:
        parts["tools"] = _tools_out(tools, writer.losses, writer.names)
    return Shaped(parts, writer.losses.all(), reverse(writer.ids), reverse(writer.names))


def from_provider(
    request: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    ids: Mapping[str, str] | None = None,
) -> Internal:
    """Translates a Chat Completions request, or its messages, to the internal view.

    Args:
        request: A request body (`messages`, `tools`) or a list of messages; not changed.
        ids: `Shaped.ids` of the call that made it, to get the old ids back.

    Returns:
        Messages, system prompt (the first message, if it is one), tools.
    """
    body: Mapping[str, Any] = request if isinstance(request, Mapping) else {"messages": request}
    reader = _ChatItemReader(ids or {})
    chat = list(body.get("messages") or ())
    system = None
    if chat and (system := _leading_system(chat[0])) is not None:
        chat = chat[1:]
    if chat[:1] == [{"role": "user", "content": USER_FILLER}]:
        chat = chat[1:]
    for message in chat:
        reader.take(message)
    tools = body.get("tools")
    return Internal(
        reader.messages,
        system=system,
        tools=None if tools is None else [_tool_in(tool) for tool in tools],
        losses=reader.losses.all(),
    )


# Plain messages, which most of a conversation is made of: text, reasoning, calls and results that are text. What is not recognised here
# is not wrong: it takes the longer way, which gives the same for what is (`tests/providers/test_plain_forms.py`).


_FORM: Final = "openai_chat"
_NOTHING: Final[Mapping[str, Any]] = {}
_WORDS: Final = {"role", "content"}
_ANSWER_KEYS: Final = frozenset(("role", "content", "tool_calls"))
_REASONING: Final = ("reasoning_content", "reasoning")
_RESULT: Final = {"role", "tool_call_id", "content"}
_CALL: Final = {"id", "type", "function"}
_FUNCTION: Final = {"name", "arguments"}
_IMAGE: Final = {"type", "image_url"}
_THOUGHT: Final = {"type", "thinking", FOREIGN}
_ANSWER: Final = {"type", "tool_use_id", "content"}


def read_plain(item: Item, *_: object) -> Item | None:
    """One message in the internal view; `None`: it takes the longer way."""
    if type(item) is not dict:
        return None
    message: dict[str, Any] = without_nulls(item)
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        return _answer_in(message, content)
    if role == "user":
        text = _shown_in(content)
        plain = text is not None and message.keys() == _WORDS and content != USER_FILLER
        return {"role": "user", "content": text} if plain else None
    text = _said_in(content)
    if text is None:
        return None
    if role == "tool":
        call = message.get("tool_call_id")
        if type(call) is not str or call.startswith("unknown_"):
            return None
        block: Block = {"type": "tool_result", "tool_use_id": call, "content": text}
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


def _answer_in(message: dict[str, Any], content: Any) -> Item | None:
    calls = message.get("tool_calls") or ()
    blocks: list[Block] = []
    extra: dict[str, Any] = {}
    if not _ANSWER_KEYS.issuperset(message):
        field = next((name for name in _REASONING if type(message.get(name)) is str), "")
        if field:
            carried = {FOREIGN: {_FORM: {"field": field}}}
            blocks.append({"type": "thinking", "thinking": message[field], **carried})
        extra = {key: message[key] for key in message if key not in _ANSWER_KEYS and key != field}
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
    said_content = blocks if calls or blocks else content
    answer = {"role": "assistant", "content": said_content}
    return {**answer, FOREIGN: {_FORM: {"message": extra}}} if extra else answer


def _call_in(call: Any) -> Block | None:
    if type(call) is not dict or call.get("type") != "function":
        return None
    name, function = call.get("id"), call.get("function")
    if type(name) is not str or type(function) is not dict or function.keys() != _FUNCTION:
        return None
    if type(function["name"]) is not str or type(function["arguments"]) is not str:
        return None
    arguments, carried = arguments_in(function["arguments"])
    if len(call) > len(_CALL):
        extra = {key: call[key] for key in call if key not in _CALL}
        if not is_json(extra):
            return None
        carried = {"call": extra, **carried}
    block = {"type": "tool_use", "id": name, "name": function["name"], "input": arguments}
    return {**block, FOREIGN: {_FORM: carried}} if carried else block


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
            item_out = _answer_out(message, content, rules)
            if item_out is None:
                return None
            written.append(item_out)
        elif FOREIGN in message:
            return None
        elif type(content) is str or content[0]["type"] != "tool_result":
            text = _shown_out(content)
            # Mistral's servers want an answer between results and words.
            joins = bool(written) and written[-1]["role"] == "tool" and provider.name != _FORM
            if text is None or joins:
                return None
            written.append({"role": role, "content": text})
        else:
            for block in content:
                text = _said_in(block.get("content"))
                call, extra = block["tool_use_id"], {}
                if text is None or not _is_id(call, rules):
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
                written.append({**extra, "role": "tool", "tool_call_id": call, "content": text})
    return written


def _shown_out(content: Any) -> str | list[dict[str, Any]] | None:
    return content if type(content) is str else input_parts(content, "text", _image_out)


def _image_out(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def _answer_out(message: Item, content: Any, rules: ChatRules) -> dict[str, Any] | None:
    text: Any = None
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
            call_out = _call_out(block, rules)
            if call_out is None:
                return None
            calls.append(call_out)
        elif kind == "thinking":
            own = None if thought or block.keys() != _THOUGHT else own_data(block, _FORM, {"field"})
            if own is None:
                return None
            thought = {own["field"]: block["thinking"]}
        elif text is not None or block.keys() != BARE_TEXT:
            return None
        else:
            text = block["text"]
    if text is None and not calls:
        return None
    written = {**extra, "role": "assistant", "content": text, **thought}
    return {**written, "tool_calls": calls} if calls else written


def _call_out(block: Block, rules: ChatRules) -> dict[str, Any] | None:
    own: Any = {}
    if len(block) == 5:
        own = own_data(block, _FORM) if FOREIGN in block else None
        if own is None or not own.keys() <= {"call", "arguments"}:
            return None
    elif block.keys() != BARE_CALL:
        return None
    if not _is_id(block["id"], rules):
        return None
    function = {"name": block["name"], "arguments": arguments_out(block, own)}
    extra = own.get("call", _NOTHING)
    return {**extra, "id": block["id"], "type": "function", "function": function}


def _is_id(name: str, rules: ChatRules) -> bool:
    """Whether a server takes an id as it is."""
    if rules.exact_ids:
        return len(name) == rules.max_id_chars and name.isascii() and name.isalnum()
    return 0 < len(name) <= rules.max_id_chars

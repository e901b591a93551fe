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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from ullage._start import pattern
from ullage.facts.sections import readable
from ullage.messages import THINKING, Block, Item
from ullage.providers._common import (
    BARE_CALL,
    BARE_RESULT,
    BARE_TEXT,
    FOREIGN,
    NOTHING,
    OWN_THOUGHT,
    USER_FILLER,
    Internal,
    Losses,
    Shaped,
    are_shown,
    arguments_in,
    arguments_out,
    as_text,
    attached,
    bare,
    bare_texts,
    blocks_of,
    carrier,
    carrying,
    carrying_rest,
    definable,
    foreign,
    from_url,
    function_in,
    input_parts,
    is_json,
    is_text,
    map_names,
    map_short_ids,
    name_out,
    note_keys,
    note_settings,
    own_data,
    placed,
    reverse,
    to_url,
    with_places,
    without_nulls,
)
from ullage.providers.registry import ChatRules, Provider

SHAPE: Final = "openai_chat"
_WORDS: Final = {"role", "content"}

DialectName: TypeAlias = Literal["openai", "compatible", "deepseek", "local"]
"""How servers that speak Chat Completions differ from OpenAI; see `to_provider`."""


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


def one_system(chat: list[dict[str, Any]], losses: Losses) -> list[dict[str, Any]]:
    """Leading system messages as one; later ones as marked user text at their place.

    Moving them to the front would change the prefix that such servers cache.
    """
    texts: list[str] = []
    others: list[dict[str, Any]] = []
    for index, message in enumerate(chat):
        if message["role"] not in ("system", "developer"):
            others.append(message)
        elif not others:
            texts.append(_flat(message)["content"])
        else:
            losses.add("system message", f"chat[{index}]", "sent as marked user text")
            content = f"<system>\n{_flat(message)['content']}\n</system>"
            others.append({"role": "user", "content": content})
    return [*([{"role": "system", "content": "\n\n".join(texts)}] if texts else []), *others]


def _in_turn(chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours of one role become one message, `tool` messages stay apart; a user's comes first."""
    merged: list[dict[str, Any]] = []
    for message in chat:
        last = merged[-1] if merged else {"role": ""}
        apart = message["role"] == "tool" or "tool_calls" in last
        if apart or last["role"] != message["role"]:
            merged.append(message)
        else:
            joined = _parts_of(last["content"]) + _parts_of(message.get("content"))
            merged[-1] = {**last, **message, "content": joined or None}
    head = 1 if merged and merged[0]["role"] == "system" else 0
    if len(merged) > head and merged[head]["role"] != "user":
        merged.insert(head, {"role": "user", "content": USER_FILLER})
    return merged


def _parts_of(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


# Media in tool results, for shapes whose results hold only text.
#
# The result names each item, the user message after the results carries it under a label. Both texts are
# fixed, so that the way back finds the items and puts them where they stood.


_LABEL = pattern(r"\[attachment (\d+) of tool call ([^\]\s]+)\]")


def _placeholder(number: int) -> dict[str, Any]:
    return {"type": "text", "text": f"[attachment {number}: see the next user message]"}


def _without_media(
    parts: list[dict[str, Any]], call: str, moved: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """A result's parts without what is no text, which is appended, labelled, to `moved`."""
    texts: list[dict[str, Any]] = []
    number = 0
    for part in parts:
        if part.get("type") == "text":
            texts.append(part)
            continue
        number += 1
        texts.append(_placeholder(number))
        label = f"[attachment {number} of tool call {call}]"
        moved += [{"type": "text", "text": label}, part]
    return texts


def _put_back(blocks: list[Block], results: list[Block]) -> list[Block]:
    """Puts labelled blocks back into the results before them, which are changed in place; returns the others."""
    by_call = {str(result.get("tool_use_id")): result for result in results}
    done = 0
    for label, item in zip(blocks[::2], blocks[1::2], strict=False):
        hit = _LABEL.fullmatch(label["text"]) if is_text(label) else None
        content = by_call.get(hit[2], {}).get("content") if hit else None
        wanted = _placeholder(int(hit[1])) if hit else None
        if not isinstance(content, list) or wanted not in content:
            break
        content[content.index(wanted)] = item
        done += 2
    return blocks[done:]


# Reads Chat Completions messages into the internal view.


# DeepSeek and llama.cpp say the first, OpenRouter and newer vLLM the second.
_REASONING_FIELDS = ("reasoning_content", "reasoning")


def _leading_system(message: Mapping[str, Any]) -> str | list[Block] | None:
    if message.get("role") not in ("system", "developer"):
        return None
    content, data = message.get("content"), _system_data(message)
    if isinstance(content, str) and not data:
        return content
    blocks = [_block_in(part) for part in _parts_of(content)]
    if isinstance(content, str):
        data["string"] = True
    if blocks and data:
        blocks[0] = carrying(blocks[0], SHAPE, {**foreign(blocks[0], SHAPE), **data})
    return blocks


def _system_data(message: Mapping[str, Any]) -> dict[str, Any]:
    """What a system message has besides its content."""
    extra = {key: value for key, value in message.items() if key not in ("role", "content")}
    role = {} if message["role"] == "system" else {"role": message["role"]}
    return {**({"message": extra} if extra else {}), **role}


def _messages_in(chat: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Internal messages; tool messages in a row become one user message."""
    messages: list[dict[str, Any]] = []
    open_results: list[Block] | None = None
    for message in chat:
        role, results = message.get("role"), open_results
        open_results = None
        if role == "assistant":
            read = _assistant_in(message)
        elif role in ("system", "developer"):
            read = {"role": "system", "content": _content_in(message.get("content"))}
            read = carrying(read, SHAPE, _system_data(message))
        elif role == "tool":
            result = _result_in(message)
            if results is not None:
                results.append(result)
                open_results = results
                continue
            open_results = [result]
            read = {"role": "user", "content": open_results}
        elif role == "user":
            content = _content_in(message.get("content"))
            if results is not None and isinstance(content, list) and message.keys() <= _WORDS:
                # A list of parts after results belongs to the same message, a string does not.
                results.extend(_put_back(content, results))
                continue
            read = {"role": "user", "content": content}
            read = carrying_rest(read, SHAPE, "message", message, *_WORDS)
        else:  # `function` messages of 2023 and roles to come: carried whole
            read = {"role": "user", "content": [carrier(SHAPE, "whole", dict(message))]}
        messages.append(read)
    return messages


def _result_in(message: Mapping[str, Any]) -> Block:
    one, content = message.get("tool_call_id"), _content_in(message.get("content"))
    block: Block = {"type": "tool_result", "tool_use_id": one, "content": content}
    return carrying_rest(block, SHAPE, "message", message, "role", "tool_call_id", "content")


def _assistant_in(message: Mapping[str, Any]) -> dict[str, Any]:
    if message.get("function_call") is not None:
        return {"role": "assistant", "content": [carrier(SHAPE, "whole", dict(message))]}
    calls = message.get("tool_calls") or []
    field = next((one for one in _REASONING_FIELDS if isinstance(message.get(one), str)), "")
    blocks: Any = _content_in(message.get("content"))
    if calls or field or not isinstance(blocks, str):
        # Empty reasoning is kept: some servers demand the field itself.
        thought = {"type": "thinking", "thinking": message.get(field)}
        blocks = [
            *([carrying(thought, SHAPE, {"field": field})] if field else ()),
            *blocks_of(blocks),
            *map(_tool_use_in, calls),
        ]
    read = {"role": "assistant", "content": blocks}
    return carrying_rest(read, SHAPE, "message", message, "role", "content", "tool_calls", field)


def _tool_use_in(call: Mapping[str, Any]) -> Block:
    kind = call.get("type") or "function"
    body = call.get(kind)
    body = body if isinstance(body, Mapping) else {}
    inner = ("name", "arguments", "input")
    extras = {
        "call": {key: call[key] for key in call if key not in ("id", "type", kind)},
        "function": {key: body[key] for key in body if key not in inner},
        "type": "" if kind == "function" else kind,
    }
    data = {key: value for key, value in extras.items() if value}
    if kind == "custom":
        value: dict[str, Any] = {"input": body.get("input", "")}
    else:
        value, original = arguments_in(body.get("arguments"))
        data.update(original)
    one, name = call.get("id"), body.get("name", "")
    return carrying({"type": "tool_use", "id": one, "name": name, "input": value}, SHAPE, data)


def _content_in(content: Any) -> str | list[Block]:
    if content is None:
        return ""
    return content if isinstance(content, str) else [_block_in(part) for part in content]


def _block_in(part: Any) -> Block:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("text"), str):
        block: Block = {"type": "text", "text": part["text"]}
        if "cache_control" in part:
            block["cache_control"] = part["cache_control"]
        return carrying_rest(block, SHAPE, "part", part, "type", "text", "cache_control")
    if kind == "thinking":  # as a part of the content, as Mistral writes it
        parts = part.get("thinking")
        parts = [{"text": parts}] if isinstance(parts, str) else parts or ()
        text = "".join(str(one.get("text", "")) for one in parts)
        return carrying({"type": "thinking", "thinking": text}, SHAPE, {"part": dict(part)})
    held = part[kind] if kind in ("image_url", "file") and set(part) == {"type", kind} else None
    if isinstance(held, Mapping):
        if kind == "image_url" and isinstance(held.get("url"), str):
            block = {"type": "image", "source": from_url(held["url"])}
            return carrying_rest(block, SHAPE, "part", held, "url")
        source = from_url(str(held.get("file_data") or ""))
        if kind == "file" and source["type"] == "base64":
            title = {"title": held["filename"]} if held.get("filename") else {}
            block = {"type": "document", "source": source, **title}
            return carrying_rest(block, SHAPE, "part", held, "filename", "file_data")
    return carrier(SHAPE, "part", part)


def _tool_in(tool: Mapping[str, Any]) -> dict[str, Any]:
    read = function_in(tool.get("function"), tool, SHAPE)
    return read if FOREIGN in read else carrying_rest(read, SHAPE, "tool", tool, "type", "function")


# Writes Chat Completions messages from the internal view.


_MAX_ID_CHARS = 40  # of OpenAI; longer ids are mapped
# Parts that are in this form already, in a block of a caller who mixes both: they are sent as they are.
_OWN_PARTS = frozenset("image_url input_audio file refusal document_url reference".split())


class _ChatWriter:
    """Writes one conversation; holds what all its messages share."""

    def __init__(
        self,
        messages: Sequence[Item],
        tools: Sequence[Mapping[str, Any]] | None,
        dialect: DialectName,
    ) -> None:
        # The field for thinking; empty: there is none. DeepSeek refuses calls whose reasoning is missing; an empty field counts as present.
        self.reasoning = "reasoning_content" if dialect == "deepseek" else ""
        self.names = map_names(messages, tools)
        self.losses = Losses()
        self.ids = map_short_ids(messages, _MAX_ID_CHARS)

    def system(self, system: str | Sequence[Block] | None) -> list[dict[str, Any]]:
        if not system:
            return []
        if isinstance(system, str):
            return [{"role": "system", "content": system}]
        data = foreign(system[0], SHAPE)
        parts = [self.part(block, f"system[{index}]") for index, block in enumerate(system)]
        content: Any = [part for part in parts if part is not None]
        if data.get("string") and len(content) == 1:
            content = content[0]["text"]
        return [{**data.get("message", {}), "role": data.get("role", "system"), "content": content}]

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
            if message["role"] == "assistant" and "tool_calls" not in message:
                chat.extend(self.assistant(index, message))
            elif message["role"] == "system":
                chat.extend(self.inner_system(index, message))
            else:  # already in this shape
                chat.append(dict(message))
        return [*chat, *self.user_turn(run)]

    def inner_system(self, index: int, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        data = foreign(message, SHAPE)
        head = {**data.get("message", {}), "role": data.get("role", "system")}
        note_settings(message, f"messages[{index}]", self.losses)
        if isinstance(message.get("content"), str):
            return [{**head, "content": message["content"]}]
        content = self.parts(with_places(message.get("content"), f"messages[{index}]"))
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
                placed = with_places(content, f"messages[{index}]")
                for where, block in placed:
                    if block.get("type") == "tool_result":
                        yield self.result(block, where, moved)
                content = self.parts(placed)
            if content:
                extra = foreign(message, SHAPE).get("message", {})
                spoken.append({**extra, "role": "user", "content": content})
        # Media join the message after the results if it has parts, else they get one of their own.
        if moved and spoken and isinstance(spoken[0]["content"], list):
            if spoken[0].keys() == {"role", "content"}:
                moved += spoken.pop(0)["content"]
        if moved:
            yield {"role": "user", "content": moved}
        yield from spoken

    def result(self, block: Block, where: str, moved: list[dict[str, Any]]) -> dict[str, Any]:
        note_keys(block, where, self.losses, "tool_use_id", "content")
        extra = attached(block, SHAPE, where, self.losses).get("message", {})
        old = str(block.get("tool_use_id"))
        new, content = self.ids.get(old, old), block.get("content")
        if content is None or isinstance(content, str):
            content = content or ""
        else:
            listed = with_places(content, where)
            parts = [part for place, one in listed if (part := self.part(one, place)) is not None]
            content = _without_media(parts, new, moved)
        return {**extra, "role": "tool", "tool_call_id": new, "content": content}

    # -- assistant messages

    def assistant(self, index: int, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        where = f"messages[{index}]"
        data = attached(message, SHAPE, where, self.losses)
        content = message.get("content")
        written: dict[str, Any] = {**data.get("message", {}), "role": "assistant"}
        if isinstance(content, str):
            written["content"] = content
        elif (whole := _whole_message(content)) is not None:
            return [whole]
        else:
            placed = with_places(content, where)
            parts, calls, thought = self.parts(placed), self.calls(placed), self.thought(placed)
            if thought and self.reasoning and not (parts or calls or data):
                self.losses.add("thinking", where, "a message of nothing else is refused")
                return []
            if not (parts or calls or data or thought):
                return []  # what it held has been noted as a loss
            # `null` only with calls; one text as a string, which every server accepts.
            alone = len(parts) == 1 and parts[0].keys() == BARE_TEXT and parts[0]["type"] == "text"
            written["content"] = parts[0]["text"] if alone else parts or None
            if thought is not None:
                written[thought[0]] = thought[1]
            if calls:
                written["tool_calls"] = calls
        if self.reasoning and "tool_calls" in written:
            written.setdefault(self.reasoning, "")
        return [written]

    def calls(self, placed: Sequence[Placed]) -> list[dict[str, Any]]:
        written: list[dict[str, Any]] = []
        for where, block in placed:
            if block.get("type") == "tool_use":
                written.append(self.call(block, where))
            elif written and is_text(block):
                self.losses.add("order", where, "text stands before calls")
        return written

    def call(self, block: Block, where: str) -> dict[str, Any]:
        note_keys(block, where, self.losses, "id", "name", "input")
        data = attached(block, SHAPE, where, self.losses)
        head = {"id": self.ids.get(block["id"], block["id"]), "type": data.get("type", "function")}
        body: dict[str, Any] = {"name": name_out(block, self.names)}
        if head["type"] == "custom":
            value = block.get("input")
            body["input"] = value.get("input", "") if isinstance(value, Mapping) else value
        else:
            body["arguments"] = arguments_out(block, data)
        return {**data.get("call", {}), **head, head["type"]: {**data.get("function", {}), **body}}

    def thought(self, placed: Sequence[Placed]) -> tuple[str, str] | None:
        """The reasoning field and its text; blocks that do not fit there are noted."""
        field, texts = "", []
        for where, block in placed:
            if not _is_thought(block):
                continue
            name = foreign(block, SHAPE).get("field") or self.reasoning
            if block.get("type") == "thinking" and name:
                field = field or name
                texts.append(str(block.get("thinking", "")))
            if not name or block.get("type") != "thinking" or block.get("signature"):
                self.losses.add(str(block["type"]), where, "only its own provider takes it back")
        return (field, "\n\n".join(texts)) if field else None

    # -- parts

    def parts(self, placed: Sequence[Placed]) -> list[dict[str, Any]]:
        """Everything but calls, results and thinking, as parts."""
        return [
            part
            for where, block in placed
            if block.get("type") not in ("tool_use", "tool_result")
            and not _is_thought(block)
            and (part := self.part(block, where)) is not None
        ]

    def part(self, block: Block, where: str) -> dict[str, Any] | None:
        kind, source = block.get("type"), block.get("source")
        data = attached(block, SHAPE, where, self.losses)
        if kind in (FOREIGN, "thinking"):
            text = readable(block) if kind == FOREIGN else ""
            written = {"type": "text", "text": text} if text else None
            return dict(data["part"]) if "part" in data else written
        if is_text(block):
            note_keys(block, where, self.losses, "text")
            return {**data.get("part", {}), "type": "text", "text": block["text"]}
        if kind == "image" and (url := to_url(source)) is not None:
            note_keys(block, where, self.losses, "source")
            return {"type": "image_url", "image_url": {**data.get("part", {}), "url": url}}
        has_bytes = isinstance(source, Mapping) and source.get("type") == "base64"
        if kind == "document" and has_bytes and (url := to_url(source)) is not None:
            note_keys(block, where, self.losses, "source", "title")
            name = {"filename": block["title"]} if block.get("title") else {}
            return {"type": "file", "file": {**data.get("part", {}), **name, "file_data": url}}
        if str(kind) in _OWN_PARTS:
            return dict(block)
        words = as_text(block, where, self.losses)
        return None if words is None else {"type": "text", "text": words}


Numbered = tuple[int, Mapping[str, Any]]
Placed = tuple[str, Block]


def _whole_answers(messages: Iterable[Numbered]) -> Iterator[Numbered]:
    """Answers stored in pieces, in one where a piece calls tools: results must follow the calls at once."""
    waiting: Numbered | None = None
    for index, message in messages:
        content, answers = message.get("content"), message["role"] == "assistant"
        if waiting is not None and answers:
            first, held = waiting
            joined = [*blocks_of(held.get("content")), *blocks_of(content)]
            waiting = first, {**message, **held, "content": joined}
            continue
        if waiting is not None:
            yield waiting
            waiting = None
        blocks = blocks_of(content) if isinstance(content, list) else ()
        if answers and any(block.get("type") == "tool_use" for block in blocks):
            waiting = index, message
        else:
            yield index, message
    if waiting is not None:
        yield waiting


def _is_thought(block: Mapping[str, Any]) -> bool:
    """Thinking that is no part of the content: it goes to a field of its own, or nowhere."""
    kind = block.get("type")
    return kind in THINKING and not (kind == "thinking" and "part" in foreign(block, SHAPE))


def _whole_message(content: Any) -> dict[str, Any] | None:
    """A message that was carried whole, because the internal view has no word for it."""
    blocks = blocks_of(content) if isinstance(content, list) else []
    whole = foreign(blocks[0], SHAPE).get("whole") if len(blocks) == 1 else None
    return dict(whole) if isinstance(whole, Mapping) else None


def _tools_out(
    tools: Sequence[Mapping[str, Any]], losses: Losses, names: Mapping[str, str]
) -> list[dict[str, Any]]:
    definitions: list[dict[str, Any]] = []
    for tool, data in definable(tools, SHAPE, losses, "strict"):
        if tool is None:
            definitions.append(dict(data["whole"]))
            continue
        about = {"description": tool["description"]} if "description" in tool else {}
        function = {"name": name_out(tool, names), **about, "parameters": tool["input_schema"]}
        if "strict" in tool:
            function["strict"] = tool["strict"]
        definitions.append({**data.get("tool", {}), "type": "function", "function": function})
    return definitions


@placed
def to_provider(
    messages: Sequence[Item],
    *,
    system: str | Sequence[Block] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    dialect: DialectName = "openai",
) -> Shaped:
    """Translates a conversation to Chat Completions.

    `dialect`: `openai`; `compatible`: contents as strings; `deepseek`: with `reasoning_content`; `local`: one leading system
    message and strict alternation too.
    """
    writer = _ChatWriter(messages, tools, dialect)
    chat = [*writer.system(system), *writer.turns(messages)]
    if dialect == "local":
        chat = _in_turn(one_system(chat, writer.losses))
    if dialect != "openai":  # many servers know no parts for assistant and tool
        chat = [_flat(message) for message in chat]
    parts: dict[str, Any] = {"messages": chat}
    if tools is not None:
        parts["tools"] = _tools_out(tools, writer.losses, writer.names)
    return Shaped(parts, tuple(writer.losses), reverse(writer.ids), reverse(writer.names))


def from_provider(request: Item | Sequence[Item]) -> Internal:
    """Translates a Chat Completions request, or its messages; the first is the system prompt, if it is one."""
    body: Mapping[str, Any] = request if isinstance(request, Mapping) else {"messages": request}
    chat = list(body.get("messages") or ())
    system = None
    if chat and (system := _leading_system(chat[0])) is not None:
        chat = chat[1:]
    if chat[:1] == [{"role": "user", "content": USER_FILLER}]:
        chat = chat[1:]
    tools = body.get("tools")
    return Internal(
        _messages_in(chat),
        system=system,
        tools=None if tools is None else [_tool_in(tool) for tool in tools],
    )


# The quick way for plain messages; see `PlainForm`.


_ANSWER_KEYS: Final = frozenset(("role", "content", "tool_calls"))
_RESULT: Final = {"role", "tool_call_id", "content"}
_CALL: Final = {"id", "type", "function"}
_OF_CALL: Final = {"call", "arguments"}


def read_plain(item: Item, *_: object) -> Item | None:
    """One message in the internal view; `None`: it takes the longer way."""
    if type(item) is not dict:
        return None
    role = item.get("role")
    if role == "assistant":
        return _answer_in(item)
    content = item.get("content")
    if role == "user":
        shown = type(content) is str or are_shown(content, "text", "image_url")
        plain = shown and without_nulls(item).keys() == _WORDS and content != USER_FILLER
        return {"role": "user", "content": _content_in(content)} if plain else None
    call = item.get("tool_call_id")
    if role != "tool" or type(call) is not str or call.startswith("unknown_"):
        return None
    text = content if type(content) is str else bare_texts(content, "text", "text") or None
    if text is None:
        return None
    block: Block = {"type": "tool_result", "tool_use_id": call, "content": text}
    if len(item) > len(_RESULT):
        extra = {key: item[key] for key in item if key not in _RESULT and item[key] is not None}
        if FOREIGN in extra or not is_json(extra):
            return None
        if extra:
            block[FOREIGN] = {SHAPE: {"message": extra}}
    return {"role": "user", "content": [block]}


def _answer_in(message: Item) -> Item | None:
    content, calls = message.get("content"), message.get("tool_calls") or ()
    blocks: list[Block] = []
    extra: dict[str, Any] = {}
    for key, value in message.items():
        if value is None or key in _ANSWER_KEYS:
            continue
        extra[key] = value
    for field in _REASONING_FIELDS if extra else ():
        if type(extra.get(field)) is str:
            own = {FOREIGN: {SHAPE: {"field": field}}}
            blocks.append({"type": "thinking", "thinking": extra.pop(field), **own})
            break
    if extra and (FOREIGN in extra or not is_json(extra)):
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
    answer: Item = {"role": "assistant", "content": blocks if calls or blocks else content}
    return {**answer, FOREIGN: {SHAPE: {"message": extra}}} if extra else answer


def _call_in(call: Any) -> Block | None:
    function = call.get("function") if type(call) is dict else None
    if type(function) is not dict or len(function) != 2 or call.get("type") != "function":
        return None
    one, name, text = call.get("id"), function.get("name"), function.get("arguments")
    if type(one) is not str or type(name) is not str or type(text) is not str:
        return None
    arguments, own = arguments_in(text)
    if len(call) > len(_CALL):
        extra = {key: call[key] for key in call if key not in _CALL}
        if not is_json(extra):
            return None
        own = {"call": extra, **own}
    block = {"type": "tool_use", "id": one, "name": name, "input": arguments}
    if own:
        block[FOREIGN] = {SHAPE: own}
    return block


def write_plain(messages: Sequence[Item], provider: Provider) -> list[Item] | None:
    """What `to_provider` writes; names of tools are the provider's already, and its rules for ids of calls hold."""
    written: list[Item] = []
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "assistant":
            answer = _answer_out(message, content, provider.chat)
            if answer is None:
                return None
            written.append(answer)
        elif FOREIGN in message:
            return None
        elif type(content) is str or content[0]["type"] != "tool_result":
            shown = content if type(content) is str else input_parts(content, "text", _image_out)
            # Mistral's servers want an answer between results and words.
            joins = bool(written) and written[-1]["role"] == "tool" and provider.name != SHAPE
            if shown is None or joins:
                return None
            written.append({"role": role, "content": shown})
        else:
            for block in content:
                result = _result_out(block)
                if result is None:
                    return None
                written.append(result)
    return written


def _image_out(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def _result_out(block: Block) -> dict[str, Any] | None:
    content = block.get("content")
    if type(content) is not str:
        content = bare_texts(content, "text", "text")
        if not content:
            return None
    extra: Any = NOTHING
    if len(block) != len(BARE_RESULT):
        extra = own_data(block, SHAPE, "message") if len(block) == 4 else None
    if extra is None:
        return None
    return {**extra, "role": "tool", "tool_call_id": block["tool_use_id"], "content": content}


def _answer_out(message: Item, content: Any, rules: ChatRules) -> dict[str, Any] | None:
    text: Any = None
    calls: list[dict[str, Any]] = []
    thought: Mapping[str, Any] = NOTHING
    extra = own_data(message, SHAPE, "message") if FOREIGN in message else NOTHING
    if extra is None:
        return None
    if type(content) is str:
        return {**extra, "role": "assistant", "content": content}
    for block in content:
        kind = block.get("type")
        if kind == "tool_use":
            call = _call_out(block, rules)
            if call is None:
                return None
            calls.append(call)
        elif kind == "thinking":
            field = own_data(block, SHAPE, "field")
            alone = len(block) == len(OWN_THOUGHT) and "thinking" in block
            if field is None or thought or not alone:
                return None
            thought = {field: block["thinking"]}
        elif text is not None or kind != "text" or len(block) != len(BARE_TEXT):
            return None
        else:
            text = block["text"]
    if text is None and not calls:
        return None
    answer = {**extra, "role": "assistant", "content": text, **thought}
    if calls:
        answer["tool_calls"] = calls
    return answer


def _call_out(block: Block, rules: ChatRules) -> dict[str, Any] | None:
    own: Any = NOTHING
    if len(block) != len(BARE_CALL) or "input" not in block:
        own = own_data(block, SHAPE) if len(block) == 5 else None
        if own is None or not _OF_CALL.issuperset(own):
            return None
    one = block["id"]
    if not 0 < len(one) <= rules.max_id_chars:
        return None
    if rules.exact_ids and not (len(one) == rules.max_id_chars and one.isascii() and one.isalnum()):
        return None
    function = {"name": block["name"], "arguments": arguments_out(block, own)}
    extra = own.get("call", NOTHING)
    return {**extra, "id": one, "type": "function", "function": function}

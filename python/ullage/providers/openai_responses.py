"""OpenAI Responses, both ways: a list of items instead of messages.

| internal | items |
|---|---|
| `text` of the assistant | `message` with a string; with `output_text` if it came with an id |
| `tool_use` | `function_call`, or `custom_tool_call` and others where it came from one |
| `tool_result` | the `…_output` of the same kind |
| `thinking` that came from a `reasoning` item | that item, verbatim |
| `system` | `instructions` |
| `foreign` blocks | the item as it came: compaction, web search, whatever is new |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ullage.messages import Block, Item
from ullage.providers._common import (
    BARE_CALL,
    BARE_RESULT,
    BARE_TEXT,
    FOREIGN,
    OWN_THOUGHT,
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
    dumps,
    foreign,
    from_url,
    function_in,
    input_parts,
    is_anthropic_only,
    is_json,
    is_text,
    map_names,
    map_short_ids,
    name_out,
    note_foreign,
    note_keys,
    note_settings,
    own_data,
    place_result,
    placed,
    result_text,
    reverse,
    to_url,
    with_places,
    without_nulls,
)
from ullage.providers.registry import Provider

# Reads items of the Responses API into the internal view.
#
# An item keeps what the internal view has no word for under `foreign`: `item` (keys besides the known
# ones, or the whole item), `head` and `part` (the same for messages and their parts).


SHAPE: Final = "openai_responses"

_PLAIN_HEAD = {"type": "message"}
_CALL: Final = {"type", "call_id", "name", "arguments"}
_OF_CALL: Final = {"arguments", "item"}
_OF_TEXT: Final = {"head", "part"}
_OUTPUT: Final = {"type", "call_id", "output"}
_NO_INPUT = ("type", "id", "call_id", "status")


def _side_of(item: Mapping[str, Any]) -> str:
    """Whose message an item belongs to (`assistant`, `user`, `system`) or `result`: calls and what is opaque are the assistant's."""
    role = item.get("role")
    if role in ("system", "developer"):
        return "system"
    if role == "user":
        return "user"
    kind = str(item.get("type"))
    return "result" if kind.endswith("_output") and "call_id" in item else "assistant"


def _blocks_in(item: Mapping[str, Any]) -> list[Block]:
    """An item as blocks: one, or one for each part of a message."""
    kind = str(item.get("type") or "message")
    if kind == "message":
        return _message_blocks(item)
    if kind == "reasoning":  # the summary is readable; the item itself is sent back unchanged
        listed = [*(item.get("summary") or ()), *(item.get("content") or ())]
        texts = [str(part.get("text", "")) for part in listed if isinstance(part, Mapping)]
        own = {SHAPE: {"item": dict(item)}}
        return [{"type": "thinking", "thinking": "\n\n".join(texts), FOREIGN: own}]
    if "call_id" in item:
        return [_result(item) if kind.endswith("_output") else _call(item)]
    return [carrier(SHAPE, "item", dict(item))]


def _message_blocks(item: Mapping[str, Any]) -> list[Block]:
    """The first block names the item, the others continue it."""
    head = {key: value for key, value in item.items() if key not in ("role", "content")}
    content = item.get("content")
    if isinstance(content, str):
        return [carrying({"type": "text", "text": content}, SHAPE, {"head": head, "string": True})]
    blocks: list[Block] = []
    for part in content or ():
        block = _part_in(part)
        extra = {"continues": True} if blocks else {"head": head}
        blocks.append(carrying(block, SHAPE, {**foreign(block, SHAPE), **extra}))
    return blocks


def _part_in(part: Any) -> Block:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind in ("input_text", "output_text", "text") and isinstance(part.get("text"), str):
        block: Block = {"type": "text", "text": part["text"]}
        return carrying_rest(block, SHAPE, "part", part, "type", "text")
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        block = {"type": "image", "source": from_url(part["image_url"])}
        return carrying_rest(block, SHAPE, "part", part, "type", "image_url")
    if kind == "input_file":
        source = from_url(str(part.get("file_data") or ""))
        if source["type"] == "base64":
            title = {"title": part["filename"]} if part.get("filename") else {}
            block = {"type": "document", "source": source, **title}
            return carrying_rest(block, SHAPE, "part", part, "type", "file_data", "filename")
    return carrier(SHAPE, "opaque", part)


def _call(item: Mapping[str, Any]) -> Block:
    kind = str(item.get("type"))
    if kind == "function_call":
        value, data = arguments_in(item.get("arguments"))
        extra = {key: item[key] for key in item if key not in _CALL}
    elif kind == "custom_tool_call":
        value, data = {"input": item.get("input", "")}, {"type": kind}
        extra = {key: item[key] for key in item if key not in ("type", "call_id", "name", "input")}
    else:  # of a built-in tool: what it asks for, to be read and measured
        named = (item.get(key) for key in ("action", "arguments", "operation"))
        asked = next((one for one in named if isinstance(one, Mapping)), None)
        fields = {key: item[key] for key in item if key not in _NO_INPUT}
        value, data, extra = dict(fields if asked is None else asked), {"type": kind}, {}
        data["whole"] = dict(item)
    if extra:
        data = {**data, "item": extra}
    name = item.get("name") or kind.removesuffix("_call")
    block = {"type": "tool_use", "id": item.get("call_id"), "name": name, "input": value}
    return carrying(block, SHAPE, data)


def _result(item: Mapping[str, Any]) -> Block:
    one, content = item.get("call_id"), _output_in(item)
    block: Block = {"type": "tool_result", "tool_use_id": one, "content": content}
    if str(item.get("type")) not in ("function_call_output", "custom_tool_call_output"):
        return carrying(block, SHAPE, {"whole": dict(item)})
    return carrying_rest(block, SHAPE, "item", item, *_OUTPUT)


def _output_in(item: Mapping[str, Any]) -> Any:
    """What an output says: its text, its parts, or the rest of the item as JSON."""
    output = item.get("output")
    if isinstance(output, str):
        return output
    if isinstance(output, list):
        return [_part_in(part) for part in output]
    fields = {key: value for key, value in item.items() if key not in _NO_INPUT}
    return dumps(fields if output is None else output)


def _messages_in(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Items as messages: the assistant's in a row are one, outputs in a row are one, directly after their calls."""
    messages: list[dict[str, Any]] = []
    spoken: list[Block] = []
    for item in items:
        side, blocks = _side_of(item), _blocks_in(item)
        if side == "assistant":
            spoken += blocks
            continue
        if spoken:
            messages.append({"role": "assistant", "content": _joined(spoken)})
            spoken = []
        if side == "result":
            place_result(messages, blocks[0])
        else:
            messages.append(_message_in(item, side))
    if spoken:
        messages.append({"role": "assistant", "content": _joined(spoken)})
    return messages


def _message_in(item: Mapping[str, Any], role: str) -> dict[str, Any]:
    """A user or system item as a message of `role`; its own role is kept where it differs."""
    head = {key: value for key, value in item.items() if key not in ("role", "content")}
    content = item.get("content")
    string = isinstance(content, str)
    data: dict[str, Any] = {} if head == ({} if string else _PLAIN_HEAD) else {"head": head}
    if item.get("role") != role:
        data["role"] = item.get("role")
    read = content if string else [_part_in(part) for part in content or ()]
    return carrying({"role": role, "content": read}, SHAPE, data)


def _joined(blocks: list[Block]) -> Any:
    """Takes off the heads that writing would give anyway."""
    if len(blocks) == 1 and blocks[0].get(FOREIGN) == {SHAPE: {"head": {}, "string": True}}:
        return blocks[0]["text"]
    joined: list[Block] = []
    plain_before = False
    for block in blocks:
        data = foreign(block, SHAPE)
        plain_before = data.get("head") == _PLAIN_HEAD or (
            plain_before and data.get("continues") is True
        )
        if plain_before:
            implied = ("head", "continues", "string")
            data = {key: value for key, value in data.items() if key not in implied}
            fields = {key: value for key, value in block.items() if key != FOREIGN}
            block = carrying(fields, SHAPE, data)
        joined.append(block)
    return joined


def _tool_in(tool: Mapping[str, Any]) -> dict[str, Any]:
    return function_in({key: tool[key] for key in tool if key != "type"}, tool, SHAPE)


# Writes items of the Responses API from the internal view.


# The API refuses longer ids of items with `string_above_max_length`; chat allows 40.
_MAX_ID_CHARS = 64

_OWN_PARTS = frozenset(
    "input_text output_text input_image input_file input_audio refusal summary_text".split()
)


class _ResponsesWriter:
    """Writes one conversation; holds what all its messages share."""

    def __init__(
        self, messages: Sequence[Item], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        self.losses = Losses()
        self.names = map_names(messages, tools)
        self.ids = map_short_ids(messages, _MAX_ID_CHARS)
        self._kinds: dict[str, str] = {}  # id of a call → its item type, for the type of the output

    def items(self, messages: Sequence[Item]) -> list[dict[str, Any]]:
        written: list[dict[str, Any]] = []
        for index, message in bare(messages):
            note_foreign(message, SHAPE, f"messages[{index}]", self.losses)
            if message["role"] == "assistant":
                written.extend(self.assistant(message, index))
            else:
                written.extend(self.other(message, index))
        return written

    # -- assistant

    def assistant(self, message: Mapping[str, Any], index: int) -> Iterator[dict[str, Any]]:
        content = message.get("content")
        if isinstance(content, str):
            yield {"role": "assistant", "content": content}
            return
        open_message: dict[str, Any] | None = None
        for where, block in with_places(content, f"messages[{index}]"):
            kind, data, is_spoken = block.get("type"), foreign(block, SHAPE), _is_said(block)
            part = self.part(block, where, "output_text") if is_spoken else None
            if open_message is not None:
                goes_on = "continues" in data and isinstance(open_message["content"], list)
                if part is not None and goes_on:
                    open_message["content"].append(part)
                    continue
                yield open_message
                open_message = None
            if part is not None:
                content = part.get("text", "") if data.get("string") else [part]
                head = data.get("head", {"type": "message"})
                open_message = {**head, "role": "assistant", "content": content}
            elif kind == "tool_use":
                yield self.call(block, where)
            elif "item" in data:
                yield dict(data["item"])
            elif kind == FOREIGN:
                note_foreign(block, SHAPE, where, self.losses)
            elif not is_spoken:
                self.losses.add(str(kind), where, "left out")
        if open_message is not None:
            yield open_message

    def call(self, block: Block, where: str) -> dict[str, Any]:
        note_keys(block, where, self.losses, "id", "name", "input")
        data = attached(block, SHAPE, where, self.losses)
        kind = str(data.get("type", "function_call"))
        self._kinds[str(block.get("id"))] = kind
        call_id = self.ids.get(block["id"], block["id"])
        if "whole" in data:
            return {**data["whole"], "call_id": call_id}
        name = name_out(block, self.names)
        item = {**data.get("item", {}), "type": kind, "call_id": call_id, "name": name}
        if kind == "custom_tool_call":
            value = block.get("input")
            item["input"] = value.get("input", "") if isinstance(value, Mapping) else value
        else:
            item["arguments"] = arguments_out(block, data)
        return item

    # -- user and system

    def other(self, message: Mapping[str, Any], index: int) -> Iterator[dict[str, Any]]:
        data = foreign(message, SHAPE)
        role = data.get("role", message["role"])
        note_settings(message, f"messages[{index}]", self.losses)
        content = message.get("content")
        if isinstance(content, str):
            yield {**data.get("head", {}), "role": role, "content": content}
            return
        parts: list[dict[str, Any]] = []
        for where, block in with_places(content, f"messages[{index}]"):
            if block.get("type") == "tool_result":
                yield self.output(block, where)
            elif "item" in foreign(block, SHAPE):
                yield dict(foreign(block, SHAPE)["item"])
            elif (part := self.part(block, where, "input_text")) is not None:
                parts.append(part)
        if parts:
            yield {**data.get("head", {"type": "message"}), "role": role, "content": parts}

    def output(self, block: Block, where: str) -> dict[str, Any]:
        note_keys(block, where, self.losses, "tool_use_id", "content")
        data, content = attached(block, SHAPE, where, self.losses), block.get("content")
        old = str(block.get("tool_use_id"))
        call_id = self.ids.get(old, old)
        if "whole" in data:  # the item as it came, unless its result was changed since
            item = data["whole"]
            changed = {} if _output_in(item) == content else {"output": result_text(content)}
            return {**item, **changed, "call_id": call_id}
        # All other calls are answered by a function's output.
        custom = self._kinds.get(old) == "custom_tool_call"
        kind = "custom_tool_call_output" if custom else "function_call_output"
        output: Any = content or ""
        if content is not None and not isinstance(content, str):
            listed = with_places(content, where)
            output = [
                part
                for place, one in listed
                if (part := self.part(one, place, "input_text")) is not None
            ]
        return {**data.get("item", {}), "type": kind, "call_id": call_id, "output": output}

    # -- parts

    def part(self, block: Block, where: str, text_type: str) -> dict[str, Any] | None:
        kind = block.get("type")
        data = attached(block, SHAPE, where, self.losses)
        extra = data.get("part", {})
        if kind == FOREIGN:
            return dict(data["opaque"]) if isinstance(data.get("opaque"), Mapping) else None
        if is_text(block):
            note_keys(block, where, self.losses, "text")
            return {**extra, "type": text_type, "text": block["text"]}
        url = to_url(block.get("source")) if kind in ("image", "document") else None
        if kind == "image" and url is not None:
            note_keys(block, where, self.losses, "source", "title")
            return {**extra, "type": "input_image", "image_url": url}
        if url is not None and url.startswith("data:"):
            note_keys(block, where, self.losses, "source", "title")
            name = {"filename": block["title"]} if block.get("title") else {}
            return {**extra, "type": "input_file", **name, "file_data": url}
        if str(kind) in _OWN_PARTS:
            return dict(block)
        text = as_text(block, where, self.losses)
        return None if text is None else {"type": text_type, "text": text}


def _is_said(block: Mapping[str, Any]) -> bool:
    """Whether a block is part of what the assistant says: a part of a `message` item."""
    kind = block.get("type")
    if kind == FOREIGN:
        return "opaque" in foreign(block, SHAPE)
    return kind != "tool_use" and (
        not is_anthropic_only(kind) or kind in ("compaction", "search_result")
    )


def _whole_units(items: list[dict[str, Any]], losses: Losses) -> list[dict[str, Any]]:
    """Keeps each reasoning item with what follows it, or drops both the item and the link to it.

    Without its encrypted content only a server that stores items finds it. The server checks the link by the ids of the
    items, so an item that lost its reasoning also loses its id.
    """
    whole: list[dict[str, Any]] = []
    unlinked = False
    for index, item in enumerate(items):
        if item.get("type") == "reasoning":
            followed = index + 1 < len(items) and _side_of(items[index + 1]) == "assistant"
            unlinked = not (followed and item.get("encrypted_content"))
            if unlinked:
                losses.add("reasoning", f"input[{index}]", "the server could not use it")
                continue
        elif _side_of(item) != "assistant":
            unlinked = False
        elif unlinked and item.get("id"):
            item = {key: value for key, value in item.items() if key != "id"}
        whole.extend(_spoken(item, index, losses))
    return whole


def _spoken(item: dict[str, Any], index: int, losses: Losses) -> Iterator[dict[str, Any]]:
    """An item as the API's types have it: parts of output belong to a message with an id, else text is a string."""
    content = item.get("content")
    if item.get("role") != "assistant" or item.get("id") or not isinstance(content, list):
        yield item
        return
    head = {key: value for key, value in item.items() if key != "status"}
    for part in content:
        text = part.get("text", part.get("refusal")) if isinstance(part, Mapping) else None
        if isinstance(text, str) and part.get("annotations"):
            losses.add("annotations", f"input[{index}]", "only a message with an id has them")
        yield {**head, "content": text if isinstance(text, str) else [part]}


def _tools_out(
    tools: Sequence[Mapping[str, Any]], losses: Losses, names: Mapping[str, str]
) -> list[dict[str, Any]]:
    definitions: list[dict[str, Any]] = []
    for tool, data in definable(tools, SHAPE, losses, "strict"):
        if tool is None:
            definitions.append(dict(data["whole"]))
            continue
        renamed = {"input_schema": "parameters"}
        keys = ("name", "description", "input_schema", "strict")
        fields = {renamed.get(key, key): tool[key] for key in keys if key in tool}
        definitions.append({"type": "function", **fields, "name": name_out(tool, names)})
    return definitions


@placed
def to_provider(
    messages: Sequence[Item],
    *,
    system: str | Sequence[Block] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> Shaped:
    """Translates a conversation to the input of the Responses API; the system prompt's blocks are joined."""
    writer = _ResponsesWriter(messages, tools)
    items = _whole_units(writer.items(messages), writer.losses)
    parts: dict[str, Any] = {"input": items}
    if system:
        blocks = blocks_of(system)
        for block in blocks:
            note_keys(block, "system", writer.losses, "text")
        parts["instructions"] = "\n\n".join(result_text([block]) for block in blocks)
    if tools is not None:
        parts["tools"] = _tools_out(tools, writer.losses, writer.names)
    return Shaped(parts, tuple(writer.losses), reverse(writer.ids), reverse(writer.names))


def from_provider(request: Item | Sequence[Item]) -> Internal:
    """Translates a Responses request, or its items, to the internal view."""
    body: Mapping[str, Any] = request if isinstance(request, Mapping) else {"input": request}
    listed = body.get("input") or ()
    items = [{"role": "user", "content": listed}] if isinstance(listed, str) else listed
    tools = body.get("tools")
    return Internal(
        _messages_in(items), tools=None if tools is None else [_tool_in(tool) for tool in tools]
    )


# The quick way for plain messages; see `PlainForm`.


_WORDS: Final = {"role", "content"}
_MESSAGE: Final = {"type", "role", "content"}


def read_plain(item: Item, *_: object) -> Item | None:
    """One item in the internal view; `None`: it takes the longer way."""
    if type(item) is not dict:
        return None
    item = without_nulls(item)
    kind = item.get("type")
    if kind == "reasoning":
        return _reasoning_in(item)
    if kind != "function_call" and kind != "function_call_output":
        return _plain_message_in(item, kind)
    call = item.get("call_id")
    if type(call) is not str or call.startswith("unknown_"):
        return None
    if kind == "function_call":
        return _call_in(item, call)
    output = item.get("output")
    text = output if type(output) is str else bare_texts(output, "input_text", "text")
    if text is None or len(item) != len(_OUTPUT):
        return None
    result: Block = {"type": "tool_result", "tool_use_id": call, "content": text}
    return {"role": "user", "content": [result]}


def _plain_message_in(item: Item, kind: object) -> Item | None:
    role, content = item.get("role"), item.get("content")
    bare_keys = len(item) == len(_WORDS) and role is not None and content is not None
    if kind != "message" and not bare_keys:
        return None
    if role == "user" and type(content) is list:
        plain = bare_keys or len(item) == len(_MESSAGE)
        shown = plain and are_shown(content, "input_text", "input_image")
        return _message_in(item, role) if shown else None
    if bare_keys:
        plain = type(content) is str and (role == "user" or role == "assistant")
        return {"role": role, "content": content} if plain else None
    if role != "assistant":
        return None
    if type(content) is str:
        block = {"type": "text", "text": content}
        return {"role": role, "content": [block]} if len(item) == len(_MESSAGE) else None
    if type(content) is not list or len(content) != 1 or FOREIGN in item or not is_json(item):
        return None
    part = without_nulls(content[0])
    if type(part) is not dict or part.get("type") != "output_text" or FOREIGN in part:
        return None
    if type(part.get("text")) is not str or "id" not in item:
        return None
    head, extra = {**item}, {**part}
    del head["role"], head["content"], extra["type"], extra["text"]
    data = {"part": extra, "head": head} if extra else {"head": head}
    return {
        "role": role,
        "content": [{"type": "text", "text": part["text"], FOREIGN: {SHAPE: data}}],
    }


def _reasoning_in(item: Item) -> Item | None:
    if type(item.get("summary")) is not list or item.get("content") or not is_json(item):
        return None
    if FOREIGN in item or "message" in item or "role" in item:
        return None
    return {"role": "assistant", "content": _blocks_in(item)}


def _call_in(item: Item, call: str) -> Item | None:
    name, arguments = item.get("name"), item.get("arguments")
    if type(name) is not str or not name or type(arguments) is not str or "role" in item:
        return None
    value, data = arguments_in(arguments)
    block: Block = {"type": "tool_use", "id": call, "name": name, "input": value}
    if len(item) > len(_CALL):
        if "content" in item or FOREIGN in item or "message" in item:
            return None
        data["item"] = extra = {**item}
        del extra["type"], extra["call_id"], extra["name"], extra["arguments"]
    if data:
        block[FOREIGN] = {SHAPE: data}
    return {"role": "assistant", "content": [block]}


def write_plain(messages: Sequence[Item], provider: Provider) -> list[Item] | None:
    """What `to_provider` writes; names of tools are the provider's already."""
    del provider
    written: list[Item] = []
    # Whether the newest item is reasoning, which the server takes only with what follows it.
    thought = False
    for message in messages:
        role, content = message["role"], message["content"]
        if thought and role != "assistant":
            return None
        if role == "user" and type(content) is list and content[0].get("type") != "tool_result":
            shown = _shown_out(message, content)
            if shown is None:
                return None
            written.append(shown)
        elif FOREIGN in message:
            return None
        elif type(content) is str:
            written.append({"role": role, "content": content})
            thought = False
        else:
            write = _said_out if role == "assistant" else _output_out
            for block in content:
                item = write(block)
                if item is None:
                    return None
                written.append(item)
                thought = block.get("type") == "thinking"
    return None if thought else written


def _shown_out(message: Item, content: list[Block]) -> Item | None:
    carried = FOREIGN in message
    if carried and own_data(message, SHAPE, "head") != {}:
        return None
    parts = input_parts(
        content, "input_text", lambda url: {"type": "input_image", "image_url": url}
    )
    head = {} if carried else _PLAIN_HEAD
    return None if parts is None else {**head, "role": "user", "content": parts}


def shared(items: Sequence[Item]) -> list[str]:
    """As the rules' own, of what was written here: ids of items, and of the calls that are items of their own."""
    keys: list[str] = []
    for item in items:
        if "id" in item and item["id"] and type(item["id"]) is str:
            keys.append(f"id {item['id']}")
        if "type" in item and item["type"] == "function_call":
            keys.append(f"function_call {item['call_id']}")
    return keys


def _said_out(block: Block) -> Item | None:
    kind = block.get("type")
    if kind == "tool_use":
        return _call_out(block)
    if kind == "text" and len(block) == len(BARE_TEXT):
        return {"type": "message", "role": "assistant", "content": block["text"]}
    if kind == "thinking":
        alone = len(block) == len(OWN_THOUGHT) and "thinking" in block
        item: Any = own_data(block, SHAPE, "item") if alone else None
        whole = type(item) is dict and item.get("type") == "reasoning"
        return dict(item) if whole and item.get("encrypted_content") else None
    own = own_data(block, SHAPE) if kind == "text" and len(block) == 3 else None
    if own is None or "head" not in own or not _OF_TEXT.issuperset(own):
        return None
    if not own["head"].get("id"):
        return None
    part = {**own.get("part", {}), "type": "output_text", "text": block["text"]}
    return {**own["head"], "role": "assistant", "content": [part]}


def _call_out(block: Block) -> dict[str, Any] | None:
    own: Any = {}
    if len(block) != len(BARE_CALL) or "input" not in block:
        own = own_data(block, SHAPE) if len(block) == 5 else None
        if own is None or not _OF_CALL.issuperset(own):
            return None
    if not 0 < len(block["id"]) <= _MAX_ID_CHARS:
        return None
    item = {"type": "function_call", "call_id": block["id"], "name": block["name"]}
    return {**own.get("item", {}), **item, "arguments": arguments_out(block, own)}


def _output_out(block: Block) -> dict[str, Any] | None:
    if len(block) != len(BARE_RESULT):
        return None
    output = block.get("content")
    if type(output) is not str:
        output = bare_texts(output, "text", "input_text")
        if output is None:
            return None
    return {"type": "function_call_output", "call_id": block["tool_use_id"], "output": output}

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
from typing import Any, Final, Literal, TypeAlias

from ullage.messages import Block, Item
from ullage.providers._common import (
    BARE_CALL,
    BARE_TEXT,
    FOREIGN,
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
    dumps,
    foreign,
    from_url,
    input_parts,
    is_anthropic_only,
    is_bare_text,
    is_text,
    map_ids,
    map_names,
    name_out,
    note_foreign,
    note_keys,
    own_data,
    place_result,
    placed,
    result_text,
    reverse,
    to_url,
)
from ullage.providers.registry import Provider
from ullage.providers.sdk_objects import is_json, without_nulls

# Reads items of the Responses API into the internal view.
#
# An item keeps what the internal view has no word for under `foreign`: `item` (keys besides the known
# ones, or the whole item), `head` and `part` (the same for messages and their parts).


SHAPE = "openai_responses"

Side: TypeAlias = Literal["assistant", "user", "system", "result"]

_PLAIN_HEAD = {"type": "message"}
_CALL = frozenset({"type", "call_id", "name", "arguments"})
_CUSTOM = frozenset({"type", "call_id", "name", "input"})
_OUTPUT = frozenset({"type", "call_id", "output"})


def _side_of(item: Mapping[str, Any]) -> Side:
    """Whose message an item belongs to: calls and what is opaque are the assistant's."""
    role = item.get("role")
    if role in ("system", "developer"):
        return "system"
    if role == "user":
        return "user"
    kind = str(item.get("type"))
    return "result" if kind.endswith("_output") and "call_id" in item else "assistant"


def _blocks_in(item: Mapping[str, Any], ids: Mapping[str, str] | None = None) -> list[Block]:
    """An item as blocks: one, or one for each part of a message."""
    kind = str(item.get("type") or "message")
    if kind == "message":
        return _message_blocks(item)
    if kind == "reasoning":
        return [_thinking(item)]
    if "call_id" in item:
        return [_result(item, ids or {}) if kind.endswith("_output") else _call(item, ids or {})]
    return [_opaque(item)]


def _opaque(item: Mapping[str, Any]) -> Block:
    return {"type": FOREIGN, FOREIGN: {SHAPE: {"item": dict(item)}}}


def _thinking(item: Mapping[str, Any]) -> Block:
    """The summary is the readable part; the item itself is sent back unchanged."""
    listed = [*(item.get("summary") or ()), *(item.get("content") or ())]
    texts = [str(part.get("text", "")) for part in listed if isinstance(part, Mapping)]
    return carrying(
        {"type": "thinking", "thinking": "\n\n".join(texts)}, SHAPE, {"item": dict(item)}
    )


# ---- messages ------------------------------------------------------------------------------------


def _message_blocks(item: Mapping[str, Any]) -> list[Block]:
    """The first block names the item, the others continue it."""
    head = {key: value for key, value in item.items() if key not in ("role", "content")}
    content = item.get("content")
    if isinstance(content, str):
        return [carrying({"type": "text", "text": content}, SHAPE, {"head": head, "string": True})]
    blocks = [_part_in(part) for part in content or ()]
    for index, block in enumerate(blocks):
        original = block.get(FOREIGN, {}).get(SHAPE, {})
        extra = {"continues": True} if index else {"head": head}
        blocks[index] = carrying(block, SHAPE, {**original, **extra})
    return blocks


def _part_in(part: Any) -> Block:
    """One part of a message or of an output."""
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
            return _document(part, source)
    return {"type": FOREIGN, FOREIGN: {SHAPE: {"opaque": part}}}


def _document(part: Mapping[str, Any], source: dict[str, Any]) -> Block:
    block: Block = {"type": "document", "source": source}
    if part.get("filename"):
        block["title"] = part["filename"]
    return carrying_rest(block, SHAPE, "part", part, "type", "file_data", "filename")


# ---- calls and outputs ---------------------------------------------------------------------------


def _call(item: Mapping[str, Any], ids: Mapping[str, str]) -> Block:
    kind, call_id = str(item.get("type")), item.get("call_id")
    data: dict[str, Any] = {}
    expected = frozenset(item)
    if kind == "function_call":
        value, data = arguments_in(item.get("arguments"))
        expected = _CALL
    elif kind == "custom_tool_call":
        value, data, expected = {"input": item.get("input", "")}, {"type": kind}, _CUSTOM
    else:
        value, data = _other_input(item), {"type": kind, "whole": dict(item)}
    extra = {key: item[key] for key in item if key not in expected}
    name = item.get("name") or kind.removesuffix("_call")
    block = {"type": "tool_use", "id": ids.get(str(call_id), call_id), "name": name, "input": value}
    return carrying(block, SHAPE, {**data, **({"item": extra} if extra else {})})


def _other_input(item: Mapping[str, Any]) -> dict[str, Any]:
    """What a call of a built-in tool asks for, to be read and measured."""
    for key in ("action", "arguments", "operation"):
        if isinstance(item.get(key), Mapping):
            return dict(item[key])
    return {
        key: value for key, value in item.items() if key not in ("type", "id", "call_id", "status")
    }


def _result(item: Mapping[str, Any], ids: Mapping[str, str]) -> Block:
    kind, call_id = str(item.get("type")), item.get("call_id")
    plain = kind in ("function_call_output", "custom_tool_call_output")
    block: Block = {
        "type": "tool_result",
        "tool_use_id": ids.get(str(call_id), call_id),
        "content": _output_in(item),
    }
    if not plain:
        return carrying(block, SHAPE, {"whole": dict(item)})
    return carrying_rest(block, SHAPE, "item", item, *_OUTPUT)


def _output_in(item: Mapping[str, Any]) -> Any:
    """What an output says: its text, its parts, or the rest of the item as JSON."""
    output = item.get("output")
    if isinstance(output, str):
        return output
    if isinstance(output, list):
        return [_part_in(part) for part in output]
    if output is not None:
        return dumps(output)
    fields = {
        key: value for key, value in item.items() if key not in ("type", "id", "call_id", "status")
    }
    return dumps(fields)


# ---- whole inputs --------------------------------------------------------------------------------


class _ResponsesReader:
    """Builds messages: the assistant's items in a row are one, outputs in a row are one."""

    def __init__(self, ids: Mapping[str, str]) -> None:
        self.messages: list[dict[str, Any]] = []
        self.losses = Losses()
        self._ids = ids
        self._open: list[Block] | None = None

    def take_all(self, items: Sequence[Mapping[str, Any]]) -> None:
        for index, item in enumerate(items):
            self.take(item, index)
        self._close()

    def take(self, item: Mapping[str, Any], index: int) -> None:
        side = _side_of(item)
        blocks = _blocks_in(item, self._ids)
        if side == "assistant":
            self._open = [*(self._open or []), *blocks]
            return
        self._close()
        if side == "result":
            if not place_result(self.messages, blocks[0]):
                self.losses.add(
                    "order", f"input[{index}]", "results stand directly after their calls"
                )
            return
        self.messages.append(_message_in(item, side))

    def _close(self) -> None:
        if self._open:
            self.messages.append({"role": "assistant", "content": _joined(self._open)})
        self._open = None


def _message_in(item: Mapping[str, Any], role: str) -> dict[str, Any]:
    """A user or system item as a message of `role`; its own role is kept where it differs."""
    head = {key: value for key, value in item.items() if key not in ("role", "content")}
    string = isinstance(item.get("content"), str)
    content: Any = (
        item["content"] if string else [_part_in(part) for part in item.get("content") or ()]
    )
    data: dict[str, Any] = {} if head == ({} if string else _PLAIN_HEAD) else {"head": head}
    if item.get("role") != role:
        data["role"] = item.get("role")
    return carrying({"role": role, "content": content}, SHAPE, data)


def _joined(blocks: list[Block]) -> Any:
    """Takes off the heads that writing would give anyway."""
    if len(blocks) == 1 and blocks[0].get(FOREIGN) == {SHAPE: {"head": {}, "string": True}}:
        return blocks[0]["text"]
    joined: list[Block] = []
    plain_before = False
    for block in blocks:
        data = dict(block.get(FOREIGN, {}).get(SHAPE, {}))
        plain_before = data.get("head") == _PLAIN_HEAD or (
            plain_before and data.get("continues") is True
        )
        if plain_before:
            for key in ("head", "continues", "string"):
                data.pop(key, None)
            fields = {key: value for key, value in block.items() if key != FOREIGN}
            block = carrying(fields, SHAPE, data)
        joined.append(block)
    return joined


def _tool_in(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A function's definition; anything else is carried whole."""
    expected = {"type", "name", "description", "parameters", "strict"}
    if tool.get("type") != "function" or not {"name", "parameters"} <= set(tool) <= expected:
        name = tool.get("name") or str(tool.get("type"))
        return {"name": name, FOREIGN: {SHAPE: {"whole": dict(tool)}}}
    renamed = {"parameters": "input_schema"}
    return {renamed.get(key, key): value for key, value in tool.items() if key != "type"}


# Writes items of the Responses API from the internal view.


# The API refuses longer ids of items with `string_above_max_length`; chat allows 40.
_MAX_ID_CHARS = 64

_OWN_PARTS = frozenset(
    "input_text output_text input_image input_file input_audio refusal summary_text".split()
)
_TEXT_KEYS = frozenset({"type", "text", FOREIGN})
_MEDIA_KEYS = frozenset({"type", "source", "title", FOREIGN})
_CALL_KEYS = frozenset({"type", "id", "name", "input", FOREIGN})
_RESULT_KEYS = frozenset({"type", "tool_use_id", "content", FOREIGN})
_TOOL_KEYS = frozenset({"type", "name", "description", "input_schema", "strict", FOREIGN})
# All other calls are answered by a function's output.
_OUTPUTS = {"custom_tool_call": "custom_tool_call_output"}


class _ResponsesWriter:
    """Writes one conversation; holds what all its messages share."""

    def __init__(
        self, messages: Sequence[Item], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        self.losses = Losses()
        self.names = map_names(messages, tools)
        self.ids = map_ids(
            call_ids(messages), lambda one: 0 < len(one) <= _MAX_ID_CHARS, length=24, prefix="call_"
        )
        self._kinds: dict[str, str] = {}  # id of a call → its item type, for the type of the output

    def items(self, messages: Sequence[Item]) -> list[dict[str, Any]]:
        """All items in order."""
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
        for position, block in enumerate(blocks_of(content)):
            where = f"messages[{index}].content[{position}]"
            part = self.part(block, where, "output_text") if _is_said(block) else None
            if part is None:
                if open_message is not None:
                    yield open_message
                open_message = None
                yield from self.action(block, where)
                continue
            data = foreign(block, SHAPE)
            if (
                open_message is not None
                and "continues" in data
                and isinstance(open_message["content"], list)
            ):
                open_message["content"].append(part)
                continue
            if open_message is not None:
                yield open_message
            open_message = _started(part, data)
        if open_message is not None:
            yield open_message

    def action(self, block: Block, where: str) -> Iterator[dict[str, Any]]:
        """What the assistant did besides speaking."""
        data = foreign(block, SHAPE)
        kind = str(block.get("type"))
        if kind == "tool_use":
            yield self.call(block, where)
        elif "item" in data:
            yield dict(data["item"])
        elif kind == FOREIGN:
            note_foreign(block, SHAPE, where, self.losses)
        elif not _is_said(block):
            self.losses.add(kind, where, "left out")

    def call(self, block: Block, where: str) -> dict[str, Any]:
        note_keys(block, _CALL_KEYS, where, self.losses)
        note_foreign(block, SHAPE, where, self.losses)
        data = foreign(block, SHAPE)
        kind = str(data.get("type", "function_call"))
        self._kinds[str(block.get("id"))] = kind
        call_id = self.ids.get(block["id"], block["id"])
        if "whole" in data:
            return {**data["whole"], "call_id": call_id}
        item = {
            **data.get("item", {}),
            "type": kind,
            "call_id": call_id,
            "name": name_out(block, self.names),
        }
        if kind == "custom_tool_call":
            value = block.get("input")
            return {
                **item,
                "input": value.get("input", "") if isinstance(value, Mapping) else value,
            }
        return {**item, "arguments": arguments_out(block, data)}

    # -- user and system

    def other(self, message: Mapping[str, Any], index: int) -> Iterator[dict[str, Any]]:
        data = foreign(message, SHAPE)
        role = data.get("role", message["role"])
        for key in ("output_config", "clear_at"):
            if key in message:
                self.losses.add(key, f"messages[{index}]", "the target has no such field")
        content = message.get("content")
        if isinstance(content, str):
            yield {**data.get("head", {}), "role": role, "content": content}
            return
        parts: list[dict[str, Any]] = []
        for position, block in enumerate(blocks_of(content)):
            where = f"messages[{index}].content[{position}]"
            if block.get("type") == "tool_result":
                yield self.output(block, where)
            elif "item" in foreign(block, SHAPE):
                yield dict(foreign(block, SHAPE)["item"])
            elif (part := self.part(block, where, "input_text")) is not None:
                parts.append(part)
        if parts:
            yield {**data.get("head", {"type": "message"}), "role": role, "content": parts}

    def output(self, block: Block, where: str) -> dict[str, Any]:
        note_keys(block, _RESULT_KEYS, where, self.losses)
        note_foreign(block, SHAPE, where, self.losses)
        data = foreign(block, SHAPE)
        old = str(block.get("tool_use_id"))
        call_id = self.ids.get(old, old)
        if "whole" in data:
            return {**_current(data["whole"], block), "call_id": call_id}
        kind = _OUTPUTS.get(self._kinds.get(old, ""), "function_call_output")
        output = self.output_content(block.get("content"), where)
        return {**data.get("item", {}), "type": kind, "call_id": call_id, "output": output}

    def output_content(self, content: Any, where: str) -> Any:
        if content is None or isinstance(content, str):
            return content or ""
        parts = (
            self.part(block, f"{where}.content[{position}]", "input_text")
            for position, block in enumerate(blocks_of(content))
        )
        return [part for part in parts if part is not None]

    # -- parts

    def part(self, block: Block, where: str, text_type: str) -> dict[str, Any] | None:
        kind = block.get("type")
        data = foreign(block, SHAPE)
        note_foreign(block, SHAPE, where, self.losses)
        extra = data.get("part", {})
        if kind == FOREIGN:
            return dict(data["opaque"]) if isinstance(data.get("opaque"), Mapping) else None
        if is_text(block):
            note_keys(block, _TEXT_KEYS, where, self.losses)
            return {**extra, "type": text_type, "text": block["text"]}
        if kind == "image" and (url := to_url(block.get("source"))) is not None:
            note_keys(block, _MEDIA_KEYS, where, self.losses)
            return {**extra, "type": "input_image", "image_url": url}
        url = to_url(block.get("source")) if kind == "document" else None
        if url is not None and url.startswith("data:"):
            note_keys(block, _MEDIA_KEYS, where, self.losses)
            name = {"filename": block["title"]} if block.get("title") else {}
            return {**extra, "type": "input_file", **name, "file_data": url}
        return self.read_out(block, where, text_type)

    def read_out(self, block: Block, where: str, text_type: str) -> dict[str, Any] | None:
        """A block without a word in this shape, as text; one of its own stays as it is."""
        kind = str(block.get("type"))
        if kind in _OWN_PARTS:
            return dict(block)
        text = as_text(block)
        self.losses.add(kind, where, "left out" if text is None else "sent as text")
        return None if text is None else {"type": text_type, "text": text}

    def as_words(self, block: Block, where: str) -> str:
        """A system block's text."""
        note_keys(block, _TEXT_KEYS, where, self.losses)
        return result_text([block])


def _is_said(block: Mapping[str, Any]) -> bool:
    """Whether a block is part of what the assistant says: a part of a `message` item."""
    kind = block.get("type")
    if kind == FOREIGN:
        return "opaque" in foreign(block, SHAPE)
    return kind != "tool_use" and (
        not is_anthropic_only(kind) or kind in ("compaction", "search_result")
    )


def _started(part: dict[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    head = data.get("head", {"type": "message"})
    content: Any = part.get("text", "") if data.get("string") else [part]
    return {**head, "role": "assistant", "content": content}


def _current(item: Mapping[str, Any], block: Block) -> dict[str, Any]:
    """The item as it came, unless its result was changed since."""
    if _output_in(item) == block.get("content"):
        return dict(item)
    return {**item, "output": result_text(block.get("content"))}


def _whole_units(
    items: list[dict[str, Any]], *, store: bool, losses: Losses
) -> list[dict[str, Any]]:
    """Keeps each reasoning item with what follows it, or drops both the item and the link to it.

    The server checks that link by the ids of the items, so an item that lost its reasoning also loses
    its id.
    """
    whole: list[dict[str, Any]] = []
    unlinked = False
    for index, item in enumerate(items):
        if item.get("type") == "reasoning":
            unlinked = not (_is_followed(items, index) and (store or item.get("encrypted_content")))
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


def _is_followed(items: list[dict[str, Any]], index: int) -> bool:
    return index + 1 < len(items) and _side_of(items[index + 1]) == "assistant"


def _tools_out(
    tools: Sequence[Mapping[str, Any]], losses: Losses, names: Mapping[str, str]
) -> list[dict[str, Any]]:
    return [
        dict(data["whole"]) if tool is None else _function_tool(tool, names)
        for tool, data in definable(tools, SHAPE, _TOOL_KEYS, losses)
    ]


def _function_tool(tool: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    renamed = {"input_schema": "parameters"}
    keys = ("name", "description", "input_schema", "strict")
    fields = {renamed.get(key, key): tool[key] for key in keys if key in tool}
    return {"type": "function", **fields, "name": name_out(tool, names)}


@placed
def to_provider(
    messages: Sequence[Item],
    *,
    system: str | Sequence[Block] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    store: bool = False,
) -> Shaped:
    """Translates a conversation to the input of the Responses API.

    Args:
        messages: Anthropic-shaped messages or entries; not changed.
        system: The system prompt; its blocks are joined, as `instructions` is one string.
        tools: Anthropic-shaped definitions; `None` sends none.
        store: Whether the server keeps items. If not, reasoning without its encrypted content is left
            out together with the ids that refer to it, as the server could not find it.

    Returns:
        `input` and, if given, `instructions` and `tools`; losses; ids that had to change.
    """
    writer = _ResponsesWriter(messages, tools)
    items = _whole_units(writer.items(messages), store=store, losses=writer.losses)
    parts: dict[str, Any] = {"input": items}
    if system:
        parts["instructions"] = "\n\n".join(
            writer.as_words(block, "system") for block in blocks_of(system)
        )
    if tools is not None:
        parts["tools"] = _tools_out(tools, writer.losses, writer.names)
    return Shaped(parts, writer.losses.all(), reverse(writer.ids), reverse(writer.names))


def from_provider(
    request: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    ids: Mapping[str, str] | None = None,
) -> Internal:
    """Translates a Responses request, or its items, to the internal view.

    Args:
        request: A request body (`input`, `instructions`, `tools`) or a list of items; not changed.
        ids: `Shaped.ids` of the call that made it, to get the old ids back.
    """
    body: Mapping[str, Any] = request if isinstance(request, Mapping) else {"input": request}
    listed = body.get("input") or ()
    items = [{"role": "user", "content": listed}] if isinstance(listed, str) else listed
    reader = _ResponsesReader(ids or {})
    reader.take_all(items)
    tools = body.get("tools")
    return Internal(
        reader.messages,
        system=body.get("instructions"),
        tools=None if tools is None else [_tool_in(tool) for tool in tools],
        losses=reader.losses.all(),
    )


# Plain messages, which most of a conversation is made of: text, reasoning, calls and results that are text. What is not recognised here
# is not wrong: it takes the longer way, which gives the same for what is (`tests/providers/test_plain_forms.py`).


_FORM: Final = "openai_responses"
_PLAIN_MAX_ID_CHARS: Final = 64
_SIDES: Final = ("user", "assistant")
_WORDS: Final = {"role", "content"}
_MESSAGE: Final = {"type", "role", "content"}
_PLAIN_CALL: Final = {"type", "call_id", "name", "arguments"}
_PLAIN_OUTPUT: Final = {"type", "call_id", "output"}
_IMAGE: Final = {"type", "image_url"}
_THOUGHT: Final = {"type", "thinking", FOREIGN}
_ANSWER: Final = {"type", "tool_use_id", "content"}


def read_plain(native: Item, *_: object) -> Item | None:
    """One item in the internal view; `None`: it takes the longer way."""
    if type(native) is not dict:
        return None
    item: dict[str, Any] = without_nulls(native)
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
        return _plain_message_in(item)
    if kind == "reasoning":
        return _reasoning_in(item)
    if type(call) is not str or call.startswith("unknown_"):
        return None
    if kind == "function_call_output":
        text = _plain_output_in(item.get("output"))
        if text is None or item.keys() != _PLAIN_OUTPUT:
            return None
        block = {"type": "tool_result", "tool_use_id": call, "content": text}
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


def _plain_output_in(output: Any) -> str | list[Block] | None:
    if type(output) is str:
        return output
    if type(output) is not list or not all(is_bare_text(part, "input_text") for part in output):
        return None
    return [{"type": "text", "text": part["text"]} for part in output]


def _plain_message_in(item: dict[str, Any]) -> Item | None:
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
    extra = {key: part[key] for key in part if key not in BARE_TEXT}
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
    carried = {FOREIGN: {_FORM: {"item": dict(item)}}}
    block = {"type": "thinking", "thinking": "\n\n".join(texts), **carried}
    return {"role": "assistant", "content": [block]}


def _is_sent(value: dict[str, Any]) -> bool:
    """Whether it is JSON for sure, and only this form's."""
    return FOREIGN not in value and is_json(value)


def _call_in(item: dict[str, Any], call: str) -> Item | None:
    name, arguments = item.get("name"), item.get("arguments")
    if type(name) is not str or not name or type(arguments) is not str or "role" in item:
        return None
    arguments_read, data = arguments_in(arguments)
    extra = {key: item[key] for key in item if key not in _PLAIN_CALL}
    if "content" in extra or FOREIGN in extra or "message" in extra:
        return None
    if extra:
        data = {**data, "item": extra}
    block: Block = {"type": "tool_use", "id": call, "name": name, "input": arguments_read}
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
            continue
        if FOREIGN in message:
            return None
        if type(content) is str:
            written.append({"role": role, "content": content})
            thought = False
            continue
        for block in content:
            thought = role == "assistant" and block.get("type") == "thinking"
            item_out = _said_out(block) if role == "assistant" else _output_out(block)
            if item_out is None:
                return None
            written.append(item_out)
    return None if thought else written


def _shown_out(message: Item, content: list[Block]) -> Mapping[str, Any] | None:
    head: Any = {"type": "message"}
    if FOREIGN in message:
        own = own_data(message, _FORM, {"head"})
        head = {}
        if own is None or own["head"] != head:
            return None
    parts = input_parts(content, "input_text", _image_out)
    return None if parts is None else {**head, "role": "user", "content": parts}


def _image_out(url: str) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url}


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
        own = own_data(block, _FORM)
        item = None if own is None or own.keys() != {"item"} else own["item"]
        return dict(item) if item and block.keys() == _THOUGHT and _is_whole(item) else None
    if block.keys() == BARE_TEXT:
        return {"type": "message", "role": "assistant", "content": block["text"]}
    own = own_data(block, _FORM) if len(block) == 3 else None
    if own is None or "head" not in own or not own.keys() <= {"head", "part"}:
        return None
    part = {**own.get("part", {}), "type": "output_text", "text": block["text"]}
    head = own["head"]
    return {**head, "role": "assistant", "content": [part]} if head.get("id") else None


def _is_whole(item: Any) -> bool:
    return (
        type(item) is dict
        and item.get("type") == "reasoning"
        and bool(item.get("encrypted_content"))
    )


def _call_out(block: Block) -> dict[str, Any] | None:
    own: Any = {}
    if len(block) == 5:
        own = own_data(block, _FORM)
        if own is None or not own.keys() <= {"arguments", "item"}:
            return None
    elif block.keys() != BARE_CALL:
        return None
    if not 0 < len(block["id"]) <= _PLAIN_MAX_ID_CHARS:
        return None
    arguments = arguments_out(block, own)
    written = {"type": "function_call", "call_id": block["id"], "name": block["name"]}
    return {**own.get("item", {}), **written, "arguments": arguments}


def _output_out(block: Block) -> dict[str, Any] | None:
    if block.keys() != _ANSWER:
        return None
    call, content = block["tool_use_id"], block["content"]
    if type(content) is list and all(map(is_bare_text, content)):
        content = [{"type": "input_text", "text": part["text"]} for part in content]
    elif type(content) is not str:
        return None
    if not 0 < len(call) <= _PLAIN_MAX_ID_CHARS:
        return None
    return {"type": "function_call_output", "call_id": call, "output": content}

"""What the shape adapters share: their result types, and the carrier of foreign data.

The internal view is Anthropic-shaped. What another provider attached to a block and Anthropic has no
word for travels under the key `foreign`, by shape: `{"foreign": {"gemini": {...}}}`. A block that is
nothing but such data has the type `foreign`. Adapters put it back where it came from and leave it out
elsewhere, and say so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import wraps
from typing import Any, Final, TypeAlias, TypeVar, cast

from ullage._start import Frozen, NamedTuple, hashlib, json, late, orjson, pattern
from ullage.exceptions import InvalidMessage, UllageError
from ullage.facts.sections import family_of
from ullage.messages import Block, Item, message_of

# Arguments of calls, which some providers send as JSON text.


def dumps(value: Any) -> str:
    """Compact JSON, keys in their order, characters as they are."""
    return _ENCODER.encode(value)


def plain_json(value: Any) -> str | None:
    """As `dumps`, of a value that this text surely gives back; `None`: of another."""
    try:
        if _is_read_alike(value):
            text: str = orjson.dumps(value).decode()
            return text
    except (TypeError, RecursionError):  # lone surrogates, keys that are no strings, too deep
        pass
    try:
        exact = is_json(value) and loads_object(text := dumps(value)) == value
    except (TypeError, RecursionError):  # not by `json` either
        return None
    return text if exact else None


def loads_object(text: str) -> dict[str, Any] | None:
    """A JSON object, or `None` if the text is anything else, `NaN` included."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(name: str) -> Any:
    raise ValueError(name)


# `json.dumps` and `json.loads` would make one for each call.
_ENCODER = late(lambda: json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str))
_DECODER = late(lambda: json.JSONDecoder(parse_constant=_refuse))


def arguments_in(text: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments as a provider's JSON text → our input, and what is needed to give back that text.

    Text that is no JSON object becomes `{"arguments": text}`: our calls hold objects only.
    """
    if not isinstance(text, str):
        if isinstance(text, Mapping):
            return dict(text), {"object": True}
        text = "" if text is None else str(text)
    try:
        value = orjson.loads(text)
        if type(value) is dict and _is_read_alike(value):
            return value, ({} if orjson.dumps(value) == text.encode() else {"arguments": text})
    except (ValueError, TypeError, RecursionError):  # no JSON, lone surrogates, too deep
        pass
    value = loads_object(text)
    if value is None:
        return {"arguments": text}, {"unparsed": True}
    return value, ({} if dumps(value) == text else {"arguments": text})


_LARGE: Final = 10**17
"""From here on orjson may read or write a whole number in another way than `json`; for fractions see `_is_read_alike`."""


def _is_read_alike(value: Any) -> bool:
    """Whether `json` reads and writes the same as orjson, which has read this; a look at the text would cost its length."""
    kind = type(value)
    if kind is not dict and kind is not list:
        if kind is int:
            return bool(-_LARGE < value < _LARGE)
        if kind is float:  # others are written with an exponent, in two ways
            return bool(1e-3 < abs(value) < 1e15) or value == 0
        return kind is str or kind is bool or value is None
    for item in value.values() if kind is dict else value:
        if type(item) is not str and not _is_read_alike(item):
            return False
    return True


def arguments_out(block: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
    """The text that was read, unless the input was changed since; else compact JSON."""
    value = block.get("input")
    if "object" in data or "unparsed" in data:
        if data.get("object"):
            return value
        if data.get("unparsed") and isinstance(value, Mapping) and set(value) == {"arguments"}:
            return value["arguments"]
    if "arguments" in data and isinstance(text := data["arguments"], str):
        try:
            same = orjson.loads(text) == value
        except ValueError:  # `json` reads more than orjson
            same = loads_object(text) == value
        if same:
            return text
    value = {} if value is None else value
    return plain_json(value) or dumps(value)


FOREIGN = "foreign"

ANTHROPIC_ONLY = frozenset(
    "redacted_thinking thinking search_result container_upload server_tool_use mcp_tool_use "
    "mcp_tool_listing fallback compaction tool_addition tool_removal tool_reference browser_state "
    "connector_text".split()
)
"""Block types that no other provider has a word for; so are all `*_tool_result` but `tool_result`."""

USER_FILLER = "[The conversation continues here.]"
"""Stands where a provider wants a user line first. It asks for nothing and agrees to nothing."""

TOOL_FILLER = "[Results received.]"
"""Stands where a provider wants an assistant line between tool results and a user message."""


class Loss(NamedTuple):
    """Something that a target shape cannot express.

    Attributes:
        what: What is concerned, such as `thinking`.
        where: Its place in the source, such as `messages[3].content[0]`.
        why: What became of it.
    """

    what: str
    where: str
    why: str


class Shaped(Frozen):
    """A conversation in a provider's shape."""

    parts: dict[str, Any]  # keys to put into the request, such as `messages` and `tools`
    losses: tuple[Loss, ...] = ()
    # The provider's → ours, for each id of a call that had to change, and each name of a tool.
    ids: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = (
            f"{key}={len(value) if hasattr(value, '__len__') else 1}"
            for key, value in self.parts.items()
        )
        return f"Shaped({', '.join(sizes)}, losses={len(self.losses)})"


class Internal(Frozen):
    """A conversation in the internal view: Anthropic-shaped; `None` where the source names no tools, or its first message is no system prompt."""

    messages: list[dict[str, Any]]
    system: str | list[Block] | None = None
    tools: list[dict[str, Any]] | None = None

    def __repr__(self) -> str:
        return f"Internal(messages={len(self.messages)})"


class Losses(list[Loss]):
    """Losses in the order in which they are met."""

    def add(self, what: str, where: str, why: str) -> None:
        self.append(Loss(what, where, why))


# ---- messages and blocks -------------------------------------------------------------------------


def bare(items: Iterable[Item]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Positions and messages: entries are unwrapped, entries without a message are passed over."""
    for index, item in enumerate(items):
        message = message_of(item)
        if message is not None and isinstance(message.get("role"), str):
            yield index, message


def blocks_of(content: Any) -> list[Block]:
    """Content as blocks: a string is one text block, `None` is none."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if type(content) is not list and not isinstance(content, Iterable):
        return []  # a number, which the rules name
    # Dicts are recognised at once.
    return [block for block in content if type(block) is dict or isinstance(block, Mapping)]  # type: ignore[misc]


def with_places(content: Any, where: str) -> list[tuple[str, Block]]:
    """The blocks of a content that stands at `where`, each with its place."""
    placed: list[tuple[str, Block]] = []
    for block in content if type(content) is list else blocks_of(content):
        if type(block) is dict or isinstance(block, Mapping):
            placed.append((f"{where}.content[{len(placed)}]", block))  # type: ignore[arg-type]
    return placed


def is_text(block: Mapping[str, Any]) -> bool:
    """Whether a block is a well-formed text block."""
    return block.get("type") == "text" and isinstance(block.get("text"), str)


def result_text(content: Any) -> str:
    """The text of a tool result; other blocks as compact JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(
        block["text"] if is_text(block) else dumps(block) for block in blocks_of(content)
    )


def foreign(value: Mapping[str, Any], shape: str) -> Mapping[str, Any]:
    """What `shape` attached to a block or message; empty if nothing."""
    carried = value.get(FOREIGN)
    if carried is None or not (type(carried) is dict or isinstance(carried, Mapping)):
        return NOTHING
    data = carried.get(shape, NOTHING)
    return data if type(data) is dict or isinstance(data, Mapping) else NOTHING


NOTHING: Final[Mapping[str, Any]] = {}


def carrying(block: dict[str, Any], shape: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The block, with `data` attached for `shape` if there is any."""
    return {**block, FOREIGN: {shape: dict(data)}} if data else block


def carrier(shape: str, name: str, value: Any) -> Block:
    """A block that is nothing but what `shape` has, by a name of that shape."""
    return {"type": FOREIGN, FOREIGN: {shape: {name: value}}}


def carrying_rest(
    block: dict[str, Any], shape: str, name: str, source: Mapping[str, Any], *expected: str
) -> dict[str, Any]:
    """The block, with what its source holds besides the expected keys attached for `shape`, by a name of that shape."""
    extra = {key: value for key, value in source.items() if key not in expected}
    return {**block, FOREIGN: {shape: {name: extra}}} if extra else block


def note_foreign(value: Mapping[str, Any], shape: str, where: str, losses: Losses) -> None:
    """Notes what other shapes attached, as it cannot go to this one."""
    carried = value.get(FOREIGN)
    if carried is not None and (type(carried) is dict or isinstance(carried, Mapping)):
        for other in carried:
            if other != shape:
                what = "compaction" if family_of(value) else f"{other} data"
                losses.add(what, where, "only that provider can read it")


def attached(value: Mapping[str, Any], shape: str, where: str, losses: Losses) -> Mapping[str, Any]:
    """As `foreign`; what other shapes attached is noted."""
    if FOREIGN not in value:
        return NOTHING
    carried = value[FOREIGN]
    if type(carried) is not dict or carried.keys() != {shape}:
        note_foreign(value, shape, where, losses)
    return foreign(value, shape)


def note_keys(block: Mapping[str, Any], where: str, losses: Losses, *expected: str) -> None:
    """Notes keys of a block, besides its type, that the target has no place for: none is dropped in silence."""
    for key in block:
        if key not in expected and key not in ("type", FOREIGN):
            if key != "is_error" or block[key]:
                losses.add(key, where, "the target has no such field")


def note_settings(message: Mapping[str, Any], where: str, losses: Losses) -> None:
    """Notes what only Anthropic's system messages set."""
    for key in ("output_config", "clear_at"):
        if key in message:
            losses.add(key, where, "the target has no such field")


def is_anthropic_only(kind: Any) -> bool:
    """Whether no other provider has a word for this block type."""
    server_result = isinstance(kind, str) and kind.endswith("_tool_result")
    return kind in ANTHROPIC_ONLY or server_result


def function_in(function: Any, tool: Mapping[str, Any], shape: str) -> dict[str, Any]:
    """A function's definition as OpenAI's forms have it; a tool that is anything else is carried whole."""
    fields: Any = function if isinstance(function, Mapping) else {}
    expected = {"name", "description", "parameters", "strict"}
    if tool.get("type") != "function" or not {"name", "parameters"} <= set(fields) <= expected:
        name = (fields if function is fields else tool).get("name") or str(tool.get("type"))
        return {"name": name, FOREIGN: {shape: {"whole": dict(tool)}}}
    renamed = {"parameters": "input_schema"}
    return {renamed.get(str(key), str(key)): value for key, value in fields.items()}


def definable(
    tools: Iterable[Mapping[str, Any]], shape: str, losses: Losses, *expected: str
) -> Iterator[tuple[Mapping[str, Any] | None, Mapping[str, Any]]]:
    """Each tool that a form can define, with the form's own data of it; `None` for one that stands whole in these.

    `expected`: what it has a place for besides name, description and schema; anything else is noted.
    """
    for index, tool in enumerate(tools):
        data = foreign(tool, shape)
        if "whole" in data:
            yield None, data
        elif "input_schema" not in tool:
            losses.add("tool", f"tools[{index}]", "a server tool of another provider")
        else:
            keys = ("name", "description", "input_schema", *expected)
            note_keys(tool, f"tools[{index}]", losses, *keys)
            yield tool, data


def in_turns(
    messages: Iterable[Item],
    shape: str,
    *,
    model: str,
    key: str,
    extra: str,
    parts_of: Callable[[Mapping[str, Any], int], list[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Messages of a form in which roles take turns and the user begins: neighbours of one role are one.

    What else the form says of a message travels in its data, under `extra`.
    """
    written: list[dict[str, Any]] = []
    for index, message in bare(messages):
        parts = parts_of(message, index)
        if not parts:
            continue
        role = model if message["role"] == "assistant" else "user"
        others = foreign(message, shape).get(extra, {})
        if written and written[-1]["role"] == role:
            written[-1] = {**written[-1], **others, key: written[-1][key] + parts}
        else:
            written.append({**others, "role": role, key: parts})
    if written and written[0]["role"] == model:
        written.insert(0, {"role": "user", key: [{"text": USER_FILLER}]})
    return written


def later_system(message: Mapping[str, Any], where: str, losses: Losses) -> list[dict[str, Any]]:
    """A system message after the first, for a form that has none: marked text of the user."""
    blocks = blocks_of(message.get("content"))
    text = "\n\n".join(str(block.get("text", "")) for block in blocks)
    losses.add("system message", where, "sent as marked user text" if text else "left out")
    return [{"text": f"<system>\n{text}\n</system>"}] if text else []


def as_text(
    block: Mapping[str, Any], where: str, losses: Losses, *, takes_empty: bool = True
) -> str | None:
    """A reading of a block that the target cannot hold, the JSON of one that nobody knows; `None` if it has nothing for a reader.

    `takes_empty`: whether the target takes an empty text.
    """
    text = _reading(block)
    text = text if text or takes_empty else None
    losses.add(str(block.get("type")), where, "left out" if text is None else "sent as text")
    return text


def _reading(block: Mapping[str, Any]) -> str | None:
    kind, content = block.get("type"), block.get("content")
    if kind == "search_result":
        texts = (block.get("title"), block.get("source"), result_text(content))
        return "\n".join(filter(None, texts))
    if kind == "compaction" and isinstance(content, str):
        return content or None
    if kind == "document":
        return _document_text(block)
    if kind in ("image", "container_upload"):
        return f"[{kind}]"
    if kind == FOREIGN or is_anthropic_only(kind):
        return None
    fields = {key: value for key, value in block.items() if key not in ("type", FOREIGN)}
    return f"[{kind if isinstance(kind, str) else 'block'}] {dumps(fields)}"


def _document_text(block: Mapping[str, Any]) -> str:
    source, title = block.get("source"), block.get("title")
    source = source if isinstance(source, Mapping) else {}
    head = f"{title}\n" if title else ""
    if source.get("type") == "text":
        return f"{head}{source.get('data', '')}"
    if source.get("type") == "content":
        return f"{head}{result_text(source.get('content'))}"
    return f"[document: {title}]" if title else "[document]"


# ---- media ---------------------------------------------------------------------------------------


def to_url(source: Any) -> str | None:
    """An image's or document's source as a URL, `data:` for base64; `None` if it has none."""
    if type(source) is not dict and not isinstance(source, Mapping):
        return None
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return str(source["url"])
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        return f"data:{source.get('media_type', '')};base64,{source['data']}"
    return None


def from_url(url: str) -> dict[str, Any]:
    """The reverse of `to_url`."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return {"type": "base64", "media_type": head[5:-7], "data": data}
    return {"type": "url", "url": url}


# ---- one notation --------------------------------------------------------------------------------


def normal_form(messages: Iterable[Item]) -> list[dict[str, Any]]:
    """The one notation of what several notations say alike.

    A string is one text block; neighbours of one role are one message; an absent result is an empty
    one; `is_error: false` is absent; only role and content (and a system message's own keys) count.
    Two conversations with equal normal forms are the same request to Anthropic.
    """
    merged: list[dict[str, Any]] = []
    for _, message in bare(messages):
        blocks = [_normal_block(block) for block in blocks_of(message.get("content"))]
        extra = {key: message[key] for key in ("output_config", "clear_at") if key in message}
        if merged and merged[-1]["role"] == message["role"] and not extra:
            merged[-1]["content"].extend(blocks)
        elif blocks or extra:
            merged.append({"role": message["role"], "content": blocks, **extra})
    return merged


def _normal_block(block: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in block.items() if not (key == "is_error" and not value)}
    if plain.get("type") == "tool_result":
        plain["content"] = [_normal_block(one) for one in blocks_of(plain.get("content"))]
    return plain


# Ids of tool calls and names of tools: mapped where a provider refuses them, everywhere alike.


_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_KEYS: Final = {"tool_use": "id", "tool_result": "tool_use_id"}


def call_ids(items: Iterable[Item]) -> list[str]:
    """Ids of all tool calls and results, in order of appearance, without repeats."""
    seen: dict[str, None] = {}
    for _, message in bare(items):
        for block in blocks_of(message.get("content")):
            one = block.get(_ID_KEYS.get(str(block.get("type")), ""))
            if isinstance(one, str):
                seen.setdefault(one)
    return list(seen)


def map_ids(
    ids: Iterable[str], accept: Callable[[str], object], *, length: int, prefix: str = ""
) -> dict[str, str]:
    """New ids for those that the target refuses; the same in every process.

    An id is a hash of the old one, so that a call keeps it as the conversation grows. Ids that are
    fine are reserved first, and a collision is hashed again with a counter.
    """
    return _mapped(list(ids), accept, length, lambda one: prefix)


def map_short_ids(messages: Iterable[Item], max_chars: int) -> dict[str, str]:
    """New ids of calls and results for those that OpenAI's forms refuse, which are empty or too long."""
    ids = call_ids(messages)
    return map_ids(ids, lambda one: 0 < len(one) <= max_chars, length=24, prefix="call_")


def id_by(*parts: object) -> str:
    """An id for a call that has none, by its place or by what it says: the same in every process."""
    seed = ":".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return f"call_{hashlib.sha256(seed).hexdigest()[:20]}"


def take_first(waiting: list[tuple[str, str]], name: object) -> str | None:
    """The id of the first call of this name, which no longer waits; `None`: none of them is."""
    for call in waiting:
        if call[1] == name:
            waiting.remove(call)
            return call[0]
    return None


def with_id(block: Any, ids: Mapping[str, str]) -> Any:
    """The block; a call or a result whose id was mapped, with the new one."""
    key = _ID_KEYS.get(str(block.get("type"))) if isinstance(block, Mapping) else None
    new = ids.get(str(block.get(key))) if key else None
    return block if new is None else {**block, key: new}


def _mapped(
    texts: Sequence[str],
    accept: Callable[[str], object],
    length: int,
    prefix: Callable[[str], str],
) -> dict[str, str]:
    used = {text for text in texts if accept(text)}
    mapped: dict[str, str] = {}
    for text in texts:
        if text not in used and text not in mapped:
            attempt = 0
            while (new := prefix(text) + _hashed(text, attempt, length)) in used:
                attempt += 1
            mapped[text] = new
            used.add(new)
    return mapped


def _hashed(text: str, attempt: int, length: int) -> str:
    salted = f"{attempt}:{text}" if attempt else text
    number = int.from_bytes(hashlib.sha256(salted.encode("utf-8", "surrogatepass")).digest(), "big")
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_BASE62[digit])
    return "".join(digits)


_NAME = pattern(r"[a-zA-Z0-9_-]{1,64}")
_NAME_CHARS = 48  # of a refused name stay readable


def map_names(items: Iterable[Item], tools: Sequence[Mapping[str, Any]] | None) -> dict[str, str]:
    """New names for tools whose name the OpenAI forms refuse, in calls and definitions; the same in every process."""
    names = [tool.get("name") for tool in tools or () if "input_schema" in tool]
    for _, message in bare(items):
        blocks = blocks_of(message.get("content"))
        names += [block.get("name") for block in blocks if block.get("type") == "tool_use"]
    listed = dict.fromkeys(name for name in names if isinstance(name, str))
    return _mapped(
        list(listed),
        _NAME.fullmatch,
        10,
        lambda name: re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:_NAME_CHARS] + "_",
    )


def name_out(block: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The name under which a call is sent."""
    name = block.get("name")
    return names.get(name, name) if isinstance(name, str) else "unnamed_tool"


def reverse(ids: Mapping[str, str]) -> dict[str, str]:
    """The provider's id → ours."""
    return {new: old for old, new in ids.items()}


# A block that cannot be written is `InvalidMessage` with its place, whatever was wrong inside it.


F = TypeVar("F", bound=Callable[..., Any])
Write: TypeAlias = Callable[[Sequence[Any]], object]

BROKEN: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading a value of another type or depth than any API sends can end in."""


def placed(write: F) -> F:
    """The function, with such errors raised as `InvalidMessage`; the place is searched only after an error."""

    @wraps(write)
    def with_place(messages: Sequence[Any], *args: Any, **named: Any) -> Any:
        items = messages if isinstance(messages, list | tuple) else list(messages)
        try:
            return write(items, *args, **named)
        except UllageError:
            raise
        except BROKEN as exc:
            raise refused(lambda part: write(part, *args, **named), items, exc) from exc

    return cast("F", with_place)


def refused(work: Write, items: Sequence[Any], exc: Exception) -> InvalidMessage:
    """The error for items that some work, which can be done on a part of them, failed on with `exc`."""
    reason = f"cannot be read ({type(exc).__name__}: {str(exc)[:200]})"
    if isinstance(exc, RecursionError):
        reason = "is nested too deeply"
    if _breaks(work, ()):
        return InvalidMessage(reason, field="system or tools")
    for index, item in enumerate(items):
        if _breaks(work, (item,)):
            message = message_of(item) or {}
            content, role = message.get("content"), message.get("role")
            blocks = content if isinstance(content, list) else ()
            alone = (({"role": role, "content": [block]},) for block in blocks)
            at = next((at for at, part in enumerate(alone) if _breaks(work, part)), None)
            return InvalidMessage(reason, index=index, field="" if at is None else f"content[{at}]")
    return InvalidMessage(reason)


def _breaks(work: Write, part: Sequence[Any]) -> bool:
    try:
        work(part)
    except UllageError:
        return False
    except BROKEN:
        return True
    return False


# Puts tool results after their calls while a conversation is read.


def place_result(messages: list[dict[str, Any]], block: Block) -> bool:
    """Puts a result into the user message right after its call, and makes that message if need be.

    `messages` is changed in place. `False` if the result did not stand there by itself: something came between it and its call, or it
    has no call; then it is a message of its own at the end.
    """
    call, at = block.get("tool_use_id"), None
    for back in range(len(messages) - 1, max(-1, len(messages) - 1 - _NEAR), -1):
        content = messages[back]["content"]
        if messages[back]["role"] == "assistant" and isinstance(content, list):
            if any(one.get("type") == "tool_use" and one.get("id") == call for one in content):
                at = back
                break
    if at is None:
        messages.append({"role": "user", "content": [block]})
        return False
    if at + 1 < len(messages):
        blocks = messages[at + 1]["content"]
        first = blocks[0] if isinstance(blocks, list) and blocks else None
        if isinstance(first, Mapping) and first.get("type") == "tool_result":
            blocks.append(block)
            return at + 2 == len(messages)
    messages.insert(at + 1, {"role": "user", "content": [block]})
    return at + 2 == len(messages)


_NEAR = 64
"""Messages that are searched backwards: a result that comes later than that has lost its call."""


# Keys of blocks in the internal view, of which a form's quick way knows what they mean, and no others.
BARE_TEXT: Final = {"type", "text"}
BARE_CALL: Final = {"type", "id", "name", "input"}
BARE_RESULT: Final = {"type", "tool_use_id", "content"}
BARE_MEDIA: Final = {"type", "source"}
OWN_THOUGHT: Final = {"type", "thinking", FOREIGN}
_BASE64: Final = {"type", "media_type", "data"}


def bare_texts(content: Any, kind: str, new_kind: str) -> list[dict[str, Any]] | None:
    """The texts of a list that holds nothing else, with another word for their type; `None`: it is no such list."""
    if type(content) is not list:
        return None
    texts: list[dict[str, Any]] = []
    for part in content:
        if type(part) is not dict or len(part) != 2 or part.get("type") != kind:
            return None
        text = part.get("text")
        if type(text) is not str or text == USER_FILLER:
            return None
        texts.append({"type": new_kind, "text": text})
    return texts


def base64_image(block: Block) -> tuple[str, str] | None:
    """Media type and data of an image in base64 that has nothing besides; `None`: it is something else."""
    source = block.get("source")
    if block.keys() != BARE_MEDIA or block["type"] != "image":
        return None
    if type(source) is not dict or source.keys() != _BASE64 or source["type"] != "base64":
        return None
    media, data = source["media_type"], source["data"]
    return (media, data) if type(media) is str and type(data) is str else None


def are_shown(content: Any, *types: str) -> bool:
    """Whether a content is a list of parts of these types, as a user shows them, that need no second look."""
    if type(content) is not list or not content or not is_json(content):
        return False
    for part in content:
        if type(part) is not dict or part.get("type") not in types or FOREIGN in part:
            return False
        if None in part.values() or part.get("text") == USER_FILLER:
            return False
    return True


def input_parts(
    content: Iterable[Block], text_type: str, image: Callable[[str], dict[str, Any]]
) -> list[dict[str, Any]] | None:
    """Texts and images of the user's as parts of OpenAI's forms; `None`: there is something else. `image`: the part for one with this URL."""
    parts: list[dict[str, Any]] = []
    for block in content:
        if text := bare_texts([block], "text", text_type):
            parts += text
            continue
        url = to_url(block.get("source")) if block.keys() == BARE_MEDIA else None
        if url is None or block["type"] != "image":
            return None
        parts.append(image(url))
    return parts


def own_data(value: Item, form: str, key: str = "") -> Any:
    """What a form attached, if no other form attached anything; with a `key`, what it attached under that, if that is all. Else `None`."""
    carried = value.get(FOREIGN)
    data = carried.get(form) if type(carried) is dict and len(carried) == 1 else None
    if type(data) is not dict:
        return None
    return data if not key else data.get(key) if len(data) == 1 else None


# Compared by type, not by `isinstance`: a subclass may be an SDK's enum, which has to be read.
ATOMS: Final = frozenset((str, int, float, bool, type(None)))


def is_json(value: Any) -> bool:
    """Whether it is plain JSON for sure; nearly all that comes is, and a look costs less than a copy."""
    kind = type(value)
    if kind is not dict and kind is not list:
        return False
    for item in value.values() if kind is dict else value:
        if type(item) not in ATOMS and not is_json(item):
            return False
    return True


def without_nulls(value: Any) -> Any:
    """A message, an item or a block without the keys that are null: dumps hold every field, and APIs refuse some that are null.

    The content of a message and of a compaction block may be null.
    """
    is_mapping = type(value) is dict or isinstance(value, Mapping)  # dicts are recognised at once
    # A look at each costs less than `in`, which asks each whether it equals `None`.
    for item in value.values() if is_mapping else ():
        if item is None:
            return {
                key: held for key, held in value.items() if held is not None or key == "content"
            }
    return value

"""One message or entry → its digest. The twin of `rust/core/src/digest/items.rs`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple, TypeGuard

from ullage._engine.digests import (
    BlockDigest,
    BlockFlag,
    BlockKind,
    MessageDigest,
    MessageFlag,
    Role,
)
from ullage._reference import text as text_module
from ullage._reference.digest import document_source, image_tokens, plain, read_image
from ullage._reference.text import (
    FEATURE_NAMES,
    MAX_DEPTH,
    MAX_INT_BITS,
    features,
    stored,
    stored_text,
)
from ullage.exceptions import InvalidMessage

# How a message is looked at: kinds of JSON values, intern table, checks that protect the walk.
#
# The twin of `rust/core/src/view.rs`. Subclasses of str, dict, list count as what they extend.


MAX_NODES = 10_000_000
"""Values in one counted value: a small graph that shares its parts can unfold to any size."""

_U32 = 0xFFFF_FFFF
_SHOWN_CHARS = 40
_NAMES = ((bool, "boolean"), (int, "integer"), (float, "float"), (str, "string"), (dict, "object"))


def saturate(count: int) -> int:
    """Digest fields are 32 bits wide: larger counts stay at the top."""
    return min(count, _U32)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether JSON would write it as an array."""
    return isinstance(value, (list, tuple))


def type_name(value: Any) -> str:
    """The JSON word for a value's type; the class name of what JSON does not have."""
    if value is None:
        return "null"
    if is_list(value):
        return "list"
    type_word = next((name for kind, name in _NAMES if isinstance(value, kind)), None)
    return type_word or type(value).__name__


def shown(value: Any) -> str:
    """A value in an error message: short texts quoted, all else by type."""
    if not isinstance(value, str):
        return type_name(value)
    head = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in value[:_SHOWN_CHARS])
    return f'"{head}…"' if len(value) > _SHOWN_CHARS else f'"{head}"'


class Strings:
    """Equal strings have equal numbers; 0 is none, and the empty string."""

    __slots__ = ("_numbers", "_texts")

    def __init__(self) -> None:
        self._texts = [""]
        self._numbers = {"": 0}

    def __len__(self) -> int:
        return len(self._texts)

    def intern(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            text = str.__str__(text)  # a plain str where a subclass came
            number = self._numbers[text] = len(self._texts)
            self._texts.append(text)
        return number

    def get(self, number: int) -> str:
        return self._texts[number]

    def find(self, text: str) -> int | None:
        return self._numbers.get(stored_text(text))

    def rollback(self, length: int) -> None:
        """Forgets the newest strings, as after an item that could not be read."""
        for text in self._texts[length:]:
            del self._numbers[text]
        del self._texts[length:]


def check_json(value: Any, field: str) -> None:
    """Refuses what JSON cannot hold, before anything recursive sees it.

    Raises:
        InvalidMessage: A leaf or key of a foreign type, more than `MAX_DEPTH` levels, or more than
            `MAX_NODES` values.
    """
    stack: list[Iterator[Any]] = [iter((value,))]
    nodes = 0
    while stack:
        try:
            item = next(stack[-1])
        except StopIteration:
            stack.pop()
            continue
        nodes += 1
        if nodes > MAX_NODES:
            raise InvalidMessage(f"holds more than {MAX_NODES} values", field=field)
        if is_list(item):
            inside: Iterator[Any] = iter(item)
        elif isinstance(item, dict):
            inside = _values(item, field)
        else:
            _check_leaf(item, field)
            continue
        if len(stack) > MAX_DEPTH:
            raise InvalidMessage(f"nested more than {MAX_DEPTH} levels deep", field=field)
        stack.append(inside)


def _values(item: dict[Any, Any], field: str) -> Iterator[Any]:
    for key in item:  # of two wrong values both engines name the same
        if not isinstance(key, str):
            _check_leaf(key, field)
    return iter(item.values())


def _check_leaf(value: Any, field: str) -> None:
    if isinstance(value, int):
        if int.bit_length(value) > MAX_INT_BITS:
            reason = "holds an integer with too many digits"
            raise InvalidMessage(reason, field=field, got=shown(value))
    elif value is not None and not isinstance(value, (str, float)):
        got = type(value).__name__
        raise InvalidMessage("holds a value that JSON does not have", field=field, got=got)


_EPOCH: Final = date(1970, 1, 1).toordinal()


def timestamp_ms(value: Any) -> int:
    """Milliseconds since the epoch of `YYYY-MM-DDTHH:MM:SS[.fraction][Z|+HH:MM|-HH:MM]`; else 0.

    A time without a zone counts as UTC.
    """
    if not isinstance(value, str) or not value.isascii() or not 19 <= len(value) <= 40:
        return 0
    if value[4] + value[7] + value[10] + value[13] + value[16] != "--T::":
        return 0
    fields = (value[:4], value[5:7], value[8:10], value[11:13], value[14:16], value[17:19])
    if not all(part.isdigit() for part in fields):
        return 0
    year, month, day, hour, minute, second = map(int, fields)
    tail = _fraction_and_zone(value[19:])
    if tail is None or year < 1970 or hour > 23 or minute > 59 or second > 59:
        return 0
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return 0
    millis, offset_minutes = tail
    minutes = (days * 24 + hour) * 60 + minute - offset_minutes
    return max(0, minutes * 60_000 + second * 1000 + millis)


def _fraction_and_zone(text: str) -> tuple[int, int] | None:
    """Milliseconds and minutes east of UTC, or `None` if it is neither."""
    millis = 0
    if text.startswith("."):
        digits = text[1:].rstrip("Z").split("+")[0].split("-")[0]
        if not digits.isdigit() or len(digits) > 9:
            return None
        millis, text = int((digits + "00")[:3]), text[1 + len(digits) :]
    if text in ("", "Z"):
        return millis, 0
    if len(text) != 6 or text[0] not in "+-" or text[3] != ":":
        return None
    hours, minutes = text[1:3], text[4:6]
    if not hours.isdigit() or not minutes.isdigit() or int(hours) > 23 or int(minutes) > 59:
        return None
    offset = int(hours) * 60 + int(minutes)
    return millis, offset if text[0] == "+" else -offset


# Length and features of a value's compact JSON, without building it.
#
# Twin of `rust/core/src/text/json.rs` and `escapes.rs`.


_ARGUMENTS: Final = FEATURE_NAMES.index("arguments")
_ARGUMENT_ESCAPES: Final = FEATURE_NAMES.index("argument_escapes")
_STRUCTURE: Final = FEATURE_NAMES.index("structure")
_ESCAPES: Final = FEATURE_NAMES.index("escapes")
# The interpreter's limit is no lower than 640 digits.
_PART_DIGITS: Final = 600
_PART: Final = 10**_PART_DIGITS
_SHORT: Final = re.compile(r'["\\\b\t\n\f\r]')
_LONG: Final = re.compile(r"[\x00-\x07\x0b\x0e-\x1f]")


class JsonTally:
    """What a walk over a value collects: features and the length of its compact JSON.

    Models see the members of a tool's input as named parameters, and JSON only inside of those: so what
    is directly inside the outermost container is distinguished from what is deeper.
    """

    __slots__ = ("features", "length")

    def __init__(self) -> None:
        self.features = [0] * len(FEATURE_NAMES)
        self.length = 0

    def string(self, text: str, depth: int) -> None:
        """A string, or a key of an object with `depth - 1` containers around it."""
        escapes = len(_SHORT.findall(text)) + 5 * len(_LONG.findall(text))
        outer = depth <= 1
        self._add(features(text))
        self.features[_ARGUMENT_ESCAPES if outer else _ESCAPES] += escapes
        self.features[_STRUCTURE] += 0 if outer else 2
        self.length += len(text) + escapes + 2

    def word(self, ascii_text: str) -> None:
        """A number as JSON spells it, or `true`, `false`, `null`."""
        self._add(features(ascii_text))
        self.length += len(ascii_text)

    def array(self, items: int, depth: int) -> None:
        """Brackets and commas of an array."""
        self._container(items, 2 + max(items - 1, 0), depth)

    def object(self, members: int, depth: int) -> None:
        """Brackets, commas and colons of an object."""
        self._container(members, 2 + max(2 * members - 1, 0), depth)

    def _container(self, members: int, characters: int, depth: int) -> None:
        if depth == 0:
            self.features[_ARGUMENTS] += members
        else:
            self.features[_STRUCTURE] += characters
        self.length += characters

    def _add(self, counts: Iterable[int]) -> None:
        for at, count in enumerate(counts):
            self.features[at] += count


def json_tally(value: Any) -> JsonTally:
    """Length and features of a value's compact JSON.

    The text meant is `json.dumps(value, ensure_ascii=False, separators=(",", ":"))`.
    """
    tally = JsonTally()
    _walk(value, tally, 0)
    return tally


def json_features(value: Any) -> tuple[int, ...]:
    """Features of keys, strings and numbers, and of the JSON around them."""
    return tuple(json_tally(stored(value)).features)


def _walk(value: Any, tally: JsonTally, depth: int) -> None:
    if isinstance(value, str):
        tally.string(value, depth)
        return
    if (word := _word(value)) is not None:
        tally.word(word)
        return
    if depth >= MAX_DEPTH:
        raise InvalidMessage(f"nested deeper than {MAX_DEPTH}", got=type(value).__name__)
    if isinstance(value, list | tuple):
        tally.array(len(value), depth)
        for item in value:
            _walk(item, tally, depth + 1)
        return
    if not isinstance(value, dict):
        raise InvalidMessage("not a JSON value", got=type(value).__name__)
    tally.object(len(value), depth)
    for key, item in value.items():
        tally.string(_key(key), depth + 1)
        _walk(item, tally, depth + 1)


def _key(key: Any) -> str:
    word = key if isinstance(key, str) else _word(key)
    if word is None:
        raise InvalidMessage("not a JSON key", got=type(key).__name__)
    return word


def spelled(value: int) -> str:
    """The decimal digits, also past the limit that `sys.set_int_max_str_digits` sets: estimates do not depend on it."""
    try:
        return int.__repr__(value)
    except ValueError:
        number, parts = int.__abs__(value), list[str]()
    while number:
        number, part = divmod(number, _PART)
        parts.append(f"{part:0{_PART_DIGITS}d}")
    return "-" * (value < 0) + "".join(reversed(parts)).lstrip("0")


def _word(value: Any) -> str | None:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _SPELLED.get(float.__repr__(value), float.__repr__(value))
    if not isinstance(value, int):
        return None
    if int.bit_length(value) > MAX_INT_BITS:
        raise InvalidMessage(
            f"an integer of more than {MAX_INT_BITS} bits", got=type(value).__name__
        )
    return spelled(value)


_SPELLED: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


# Adds up what one block, or one message's own fields, cost: rough and calibrated.
#
# The twin of `rust/core/src/read/meter.rs`.


Weights = text_module.Weights

# The C encoder; `check_json` has excluded what it must not see.
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode

MEDIA_ROUGH_TOKENS = 2000
"""TOK-1: what an image or a document counts in the rough estimate."""

DOCUMENT_TOKENS = 2000
"""Calibrated tokens of a document page: 1500 to 3000 of text, by Anthropic's guide."""

BASE64_CHARS_PER_PAGE = 1 << 17
"""98 KB a page: between printed text (10 to 50 KB) and scans (100 to 300 KB)."""

MAX_PAGES = 600
"""No provider takes longer documents."""


class Meter:
    """Sums in 1/4096 token, rounded once at the end; rough counts are rounded per part."""

    __slots__ = ("_run", "_weights", "chars", "micro", "rough", "whole")

    def __init__(self, weights: Weights | None) -> None:
        self._weights = weights
        self.chars = self.rough = self.micro = self.whole = self._run = 0

    def text(self, text: str) -> None:
        self._run += len(text)
        if self._weights is not None:
            self._weigh(text_module.features(text))

    def json(self, value: Any, field: str) -> None:
        """A value as compact JSON."""
        check_json(value, field)
        try:
            self._run += len(_compact(value))
        except ValueError:  # an integer past the interpreter's limit, which can be set low
            self._run += json_tally(stored(value)).length
        if self._weights is not None:
            self._weigh(json_features(value))

    def either(self, value: Any, field: str) -> None:
        """A string as text, nothing for `None`, all else as JSON."""
        if isinstance(value, str):
            self.text(value)
        elif value is not None:
            self.json(value, field)

    def hidden(self, chars: int) -> None:
        """Thinking with a signature of this many characters.

        What stands there in clear may be empty or a shortened form, so that the longer of both counts.
        """
        if self._weights is not None:
            self.micro = max(self.micro, self._weights.hidden.weigh(chars))

    def encrypted(self, data: str) -> None:
        """Encrypted data: weighed by its length where the family says what that tells."""
        self._run += len(data)
        if self._weights is None:
            return
        if self._weights.hidden.per_char:
            self.micro += self._weights.hidden.weigh(len(data))
        else:
            self._weigh(text_module.features(data))

    def image(self, width: int, height: int) -> None:
        self.rough += MEDIA_ROUGH_TOKENS
        if self._weights is not None:
            self.whole += image_tokens(width, height, self._weights)

    def document(self, source: Any) -> None:
        """By its text where it has one, else by the size of its data."""
        self.rough += MEDIA_ROUGH_TOKENS
        parts = _document_texts(source)
        for part in parts or ():
            self.chars += len(part)
            if self._weights is not None:
                self._weigh(text_module.features(part))
        if parts is None:
            size = len(source) if isinstance(source, str) else 0
            pages = min(MAX_PAGES, max(1, -(-size // BASE64_CHARS_PER_PAGE)))
            self.whole += pages * DOCUMENT_TOKENS

    def end_part(self) -> None:
        """Rounds what was counted since the last part (TOK-1: a result is the sum of its blocks)."""
        self.chars += self._run
        self.rough += text_module.rough_tokens(self._run)
        self._run = 0

    def close(self, overhead: int) -> tuple[int, int, int]:
        """Calibrated tokens, rough tokens, characters; `overhead` in 1/4096 token."""
        self.end_part()
        rough = saturate(self.rough)
        if self._weights is None:
            return rough, rough, saturate(self.chars)
        tokens = self.whole + text_module.whole_tokens(self.micro + overhead)
        return saturate(tokens), rough, saturate(self.chars)

    def _weigh(self, features: tuple[int, ...]) -> None:
        if self._weights is not None:
            self.micro += self._weights.weigh(features)


def _document_texts(source: Any) -> list[str] | None:
    """The texts of a document that has some: `source` of type text or content; else `None`."""
    if not isinstance(source, dict):
        return None
    data, content = source.get("data"), source.get("content")
    if source.get("type") == "text" and isinstance(data, str):
        return [data]
    if source.get("type") != "content":
        return None
    if isinstance(content, str):
        return [content]
    parts: list[Any] = content if is_list(content) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str)]


# One content block → its digest. The twin of `rust/core/src/digest/blocks.rs`.


CLEARED_TEXT: Final = "[Old tool result content cleared]"
COMPACTED_START: Final = "[Compacted:"
OFFLOADED_START: Final = "<persisted-output>"

_ID = re.compile(r"[A-Za-z0-9_-]+\Z")
BLOCK_FLAGS = plain(BlockFlag)
K = BlockKind

_TYPES: Final = {
    K.TEXT: "text input_text output_text",
    K.TOOL_USE: "tool_use",
    K.TOOL_RESULT: "tool_result",
    K.THINKING: "thinking",
    K.REDACTED_THINKING: "redacted_thinking",
    K.IMAGE: "image image_url input_image",
    K.DOCUMENT: "document file input_file",
    K.SERVER_TOOL_USE: "server_tool_use mcp_tool_use",
    K.SEARCH_RESULT: "search_result",
    K.CONTAINER_UPLOAD: "container_upload",
    K.COMPACTION: "compaction",
    K.FALLBACK: "fallback",
    K.TOOL_CHANGE: "tool_addition tool_removal",
}
_KINDS: Final = {name: kind for kind, names in _TYPES.items() for name in names.split()}

# Of Anthropic's request types (SDK 2.11) and OpenAI's content parts (SDK 2.54).
_KEYS: Final = {
    K.TEXT: "type text cache_control citations prompt_cache_breakpoint annotations logprobs",
    K.TOOL_USE: "type id name input cache_control caller toolset_name",
    K.TOOL_RESULT: "type tool_use_id content is_error cache_control toolset_name",
    K.THINKING: "type thinking signature",
    K.REDACTED_THINKING: "type data",
    K.IMAGE: "type source cache_control transformations image_url file_id detail "
    "prompt_cache_breakpoint",
    K.DOCUMENT: "type source cache_control citations context title file file_data file_id "
    "file_url filename detail prompt_cache_breakpoint",
    K.SERVER_TOOL_USE: "type id name input cache_control caller server_name",
    K.SERVER_TOOL_RESULT: "type tool_use_id content cache_control caller is_error",
    K.SEARCH_RESULT: "type source title content citations cache_control",
    K.CONTAINER_UPLOAD: "type file_id cache_control",
    K.COMPACTION: "type content cache_control encrypted_content signature tool_changes",
    K.FALLBACK: "type from to trigger",
    K.TOOL_CHANGE: "type tool cache_control",
}
_KEYS_OF: Final = {kind: frozenset(keys.split()) for kind, keys in _KEYS.items()}

# Another API's word for the same kind shows in the digest's name.
_OWN_TYPES: Final = {K.TEXT: "text", K.IMAGE: "image", K.DOCUMENT: "document"}

# A tool change may refer to what an MCP server holds, which the request does not list.
_OF_SERVER: Final = ("mcp_tool_reference", "mcp_toolset_reference")

# A tool_result may also hold these; they are counted as their JSON.
_NESTED_OTHER: Final = frozenset({"tool_reference", "browser_state"})
_OPAQUE_KEYS: Final = frozenset({"encrypted_content", "encrypted_index", "encrypted_stdout"})


def kind_of(block_type: str) -> BlockKind:
    """The kind of a block by its `type`."""
    kind = _KINDS.get(block_type)
    if kind is not None:
        return kind
    return K.SERVER_TOOL_RESULT if block_type.endswith("_tool_result") else K.UNKNOWN


class Draft:
    """A block's digest while it is being read."""

    __slots__ = ("aux", "field", "flags", "id", "kind", "meter", "name", "strings")

    def __init__(self, kind: BlockKind, field: str, weights: Weights | None, strings: Strings):
        self.kind, self.field, self.strings = kind, field, strings
        self.flags = self.aux = self.id = self.name = 0
        self.meter = Meter(weights)

    def set_id(self, value: Any) -> None:
        if not isinstance(value, str):
            self.flags |= BLOCK_FLAGS.MISSING_ID
            return
        self.id = self.strings.intern(value)
        if not _ID.match(value):
            self.flags |= BLOCK_FLAGS.BAD_ID

    def set_name(self, value: Any, prefix: str = "") -> None:
        if isinstance(value, str):
            self.name = self.strings.intern(prefix + value if prefix else value)

    def count_text(self, value: Any, key: str) -> None:
        """Counts the block's main text and notes if it is empty, blank, or ends in white space."""
        self.meter.either(value, f"{self.field}.{key}")
        if isinstance(value, str):
            self.flags |= text_flags(value)
        else:
            self.flags |= BLOCK_FLAGS.EMPTY_TEXT

    def finish(self, weights: Weights | None) -> BlockDigest:
        overhead = 0 if weights is None else weights.blocks[self.kind]
        tokens, rough, chars = self.meter.close(overhead)
        kind, flags = int(self.kind), int(self.flags)
        return BlockDigest(kind, flags, tokens, rough, chars, self.id, self.name, self.aux)


def text_flags(text: str) -> int:
    if not text:
        return BLOCK_FLAGS.EMPTY_TEXT
    if not text[-1].isspace():
        return 0
    return (
        BLOCK_FLAGS.BLANK_TEXT | BLOCK_FLAGS.TRAILING_SPACE
        if text.isspace()
        else BLOCK_FLAGS.TRAILING_SPACE
    )


def read_block(block: Any, field: str, weights: Weights | None, strings: Strings) -> BlockDigest:
    """Digests one item of a content list; what is no block at all is counted as its JSON."""
    block_type = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block_type, str):
        draft = Draft(K.UNKNOWN, field, weights, strings)
        draft.flags |= BLOCK_FLAGS.NOT_A_BLOCK
        draft.meter.json(block, field)
        return draft.finish(weights)
    draft = Draft(kind_of(block_type), field, weights, strings)
    draft.flags |= _common_flags(block, draft.kind, block_type)
    if draft.kind in _OWN_TYPES and block_type != _OWN_TYPES[draft.kind]:
        draft.set_name(block_type)
    _READERS.get(draft.kind, _read_other)(draft, block, block_type)
    return draft.finish(weights)


def _common_flags(block: dict[str, Any], kind: BlockKind, block_type: str) -> int:
    flags = cache_flags(block.get("cache_control"))
    if kind in _KEYS_OF and not block.keys() <= _KEYS_OF[kind]:
        flags |= BLOCK_FLAGS.UNKNOWN_KEYS
    if block_type == "cache_edits" or "cache_reference" in block:
        flags |= BLOCK_FLAGS.CACHE_EDIT
    if block.get("caller") is not None:
        flags |= BLOCK_FLAGS.HAS_CALLER
    return flags


def cache_flags(control: Any) -> int:
    if control is None:
        return 0
    if not isinstance(control, dict) or not control.keys() <= {"type", "ttl"}:
        return BLOCK_FLAGS.CACHE_BAD
    if control.get("type") != "ephemeral":
        return BLOCK_FLAGS.CACHE_BAD
    ttl = control.get("ttl", "5m")
    if not isinstance(ttl, str):
        return BLOCK_FLAGS.CACHE_BAD
    return {"5m": BLOCK_FLAGS.CACHE_5M, "1h": BLOCK_FLAGS.CACHE_1H}.get(ttl, BLOCK_FLAGS.CACHE_BAD)


def _read_text(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.count_text(block.get("text"), "text")
    citations = block.get("citations")
    if is_list(citations) and citations:
        draft.flags |= BLOCK_FLAGS.HAS_CITATIONS | _opaque(citations)


def _read_tool_use(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.set_id(block.get("id"))
    draft.set_name(block.get("name"))
    draft.meter.either(block.get("name"), f"{draft.field}.name")
    if not isinstance(block.get("input"), dict):
        draft.flags |= BLOCK_FLAGS.INPUT_NOT_OBJECT
    if "input" in block:
        draft.meter.json(block["input"], f"{draft.field}.input")


def _read_server_tool_use(draft: Draft, block: dict[str, Any], block_type: str) -> None:
    draft.set_id(block.get("id"))
    draft.set_name(block.get("name"), "mcp:" if block_type == "mcp_tool_use" else "")
    if not isinstance(block.get("input"), dict):
        draft.flags |= BLOCK_FLAGS.INPUT_NOT_OBJECT
    draft.meter.json(block, draft.field)


def _read_server_tool_result(draft: Draft, block: dict[str, Any], block_type: str) -> None:
    draft.set_id(block.get("tool_use_id"))
    draft.set_name(block_type)
    if block.get("is_error") is True:
        draft.flags |= BLOCK_FLAGS.IS_ERROR
    draft.flags |= _opaque(block.get("content"))
    draft.meter.json(block, draft.field)


def _read_tool_result(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.set_id(block.get("tool_use_id"))
    if block.get("is_error") is True:
        draft.flags |= BLOCK_FLAGS.IS_ERROR
    read_result_content(draft, block.get("content"), f"{draft.field}.content")


def read_result_content(draft: Draft, content: Any, field: str) -> None:
    """The content of a tool result: text, or a list of blocks."""
    if not is_list(content):
        if content is not None and not isinstance(content, str):
            draft.flags |= BLOCK_FLAGS.BAD_NESTED
        draft.meter.either(content, field)
        draft.flags |= result_flags(content)
        return
    blank = True
    for index, item in enumerate(content):
        blank &= _read_nested(draft, item, f"{field}[{index}]")
        draft.meter.end_part()
    if blank:
        draft.flags |= BLOCK_FLAGS.EMPTY_RESULT
    if len(content) == 1 and _nested_type(content[0]) in _TEXT_TYPES:
        draft.flags |= result_flags(content[0].get("text")) & (
            BLOCK_FLAGS.CLEARED | BLOCK_FLAGS.OFFLOADED
        )


def result_flags(content: Any) -> int:
    """What a tool result's whole text says of it."""
    if content is None:
        return BLOCK_FLAGS.EMPTY_RESULT
    if not isinstance(content, str):
        return 0
    if not content or content.isspace():
        return BLOCK_FLAGS.EMPTY_RESULT
    if content == CLEARED_TEXT or content.startswith(COMPACTED_START):
        return BLOCK_FLAGS.CLEARED
    return BLOCK_FLAGS.OFFLOADED if content.startswith(OFFLOADED_START) else 0


_TEXT_TYPES: Final = frozenset(name for name, kind in _KINDS.items() if kind is K.TEXT)


def _nested_type(item: Any) -> str:
    kind = item.get("type") if isinstance(item, dict) else None
    return kind if isinstance(kind, str) else ""


def _read_nested(draft: Draft, item: Any, field: str) -> bool:
    """Counts a block inside a result; whether it is a text that says nothing."""
    nested_type = _nested_type(item)
    kind = kind_of(nested_type)
    if isinstance(item, dict):
        _count_marker(draft, cache_flags(item.get("cache_control")))
        if kind in _NESTED_KINDS and not item.keys() <= _KEYS_OF[kind]:
            draft.flags |= BLOCK_FLAGS.UNKNOWN_KEYS
    if kind is K.TEXT:
        return _read_nested_text(draft, item, field)
    if kind is K.IMAGE:
        draft.flags |= BLOCK_FLAGS.NESTED_MEDIA
        draft.aux += draft.aux & 0xFFFF < 0xFFFF
        read_image(item, draft)
    elif kind is K.DOCUMENT:
        draft.flags |= BLOCK_FLAGS.NESTED_MEDIA
        draft.meter.document(document_source(item))
    else:
        if kind is K.SEARCH_RESULT:
            draft.flags |= search_flags(item)
        elif nested_type not in _NESTED_OTHER:
            draft.flags |= BLOCK_FLAGS.BAD_NESTED
        draft.meter.json(item, field)
    return False


_NESTED_KINDS: Final = frozenset({K.TEXT, K.IMAGE, K.DOCUMENT, K.SEARCH_RESULT})


def _count_marker(draft: Draft, flags: int) -> None:
    """Counts a cache marker inside a result in `aux`, up to 255 of each TTL."""
    if not flags:
        return
    draft.flags |= BLOCK_FLAGS.NESTED_CACHE | flags & BLOCK_FLAGS.CACHE_BAD
    shift = 24 if flags & BLOCK_FLAGS.CACHE_1H else 16
    if not flags & BLOCK_FLAGS.CACHE_BAD and draft.aux >> shift & 0xFF < 0xFF:
        draft.aux += 1 << shift


def _read_nested_text(draft: Draft, item: dict[str, Any], field: str) -> bool:
    text, citations = item.get("text"), item.get("citations")
    draft.meter.either(text, f"{field}.text")
    if is_list(citations) and citations:
        draft.flags |= BLOCK_FLAGS.HAS_CITATIONS
    blank = not isinstance(text, str) or not text or text.isspace()
    draft.flags |= BLOCK_FLAGS.NESTED_BLANK if blank else 0
    return blank


def _read_thinking(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.count_text(block.get("thinking"), "thinking")
    signature = block.get("signature")
    if isinstance(signature, str):
        if signature:
            draft.flags |= BLOCK_FLAGS.HAS_SIGNATURE
        draft.meter.hidden(len(signature))


def _read_redacted(draft: Draft, block: dict[str, Any], _type: str) -> None:
    data = block.get("data")
    if isinstance(data, str):
        if data:
            draft.flags |= BLOCK_FLAGS.HAS_SIGNATURE
        draft.meter.encrypted(data)
    else:
        draft.meter.either(data, f"{draft.field}.data")


def _read_image(draft: Draft, block: dict[str, Any], _type: str) -> None:
    width, height = read_image(block, draft)
    draft.aux = min(width, 0xFFFF) << 16 | min(height, 0xFFFF)


def _read_document(draft: Draft, block: dict[str, Any], _type: str) -> None:
    if _enabled(block):
        draft.flags |= BLOCK_FLAGS.CITATIONS_ON
    draft.meter.document(document_source(block))


def _read_search_result(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.flags |= search_flags(block)
    draft.meter.json(block, draft.field)


def search_flags(block: dict[str, Any]) -> int:
    """Of a search result: citations switched on or off, those in its texts, texts that say nothing."""
    flags = BLOCK_FLAGS.CITATIONS_ON if _enabled(block) else BLOCK_FLAGS.CITATIONS_OFF
    content = block.get("content")
    for item in content if is_list(content) else []:
        citations = item.get("citations") if isinstance(item, dict) else None
        if is_list(citations) and citations:
            flags |= BLOCK_FLAGS.HAS_CITATIONS
        text = item.get("text") if isinstance(item, dict) else None
        if isinstance(text, str) and (not text or text.isspace()):
            flags |= BLOCK_FLAGS.NESTED_BLANK
    return flags


def _enabled(block: dict[str, Any]) -> bool:
    citations = block.get("citations")
    return isinstance(citations, dict) and citations.get("enabled") is True


def _read_compaction(draft: Draft, block: dict[str, Any], _type: str) -> None:
    content = block.get("content")
    if content is None:
        draft.flags |= BLOCK_FLAGS.NULL_CONTENT
    elif isinstance(content, str):
        draft.flags |= text_flags(content) & BLOCK_FLAGS.EMPTY_TEXT
    if isinstance(block.get("signature"), str):
        draft.flags |= BLOCK_FLAGS.HAS_SIGNATURE
    if block.get("encrypted_content") is not None:
        draft.flags |= BLOCK_FLAGS.OPAQUE
    draft.meter.json(block, draft.field)


def _type_of(value: Any) -> Any:
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None


def _read_tool_change(draft: Draft, block: dict[str, Any], block_type: str) -> None:
    tool = block.get("tool")
    definition = tool.get("definition") if isinstance(tool, dict) else None
    body = definition if isinstance(definition, dict) else tool
    own = body.get("name") if isinstance(body, dict) else None
    names = (own, block.get("name"), block.get("tool_name"))
    draft.set_name(next((name for name in names if isinstance(name, str)), None))
    defines = body is not tool or (isinstance(tool, dict) and "input_schema" in tool)
    draft.aux = 2 if block_type != "tool_addition" else 3 if defines else 1
    if _type_of(tool) in _OF_SERVER or _type_of(definition) == "mcp_toolset":
        draft.aux = 4
    draft.meter.json(block, draft.field)


def _read_other(draft: Draft, block: dict[str, Any], block_type: str) -> None:
    if draft.kind is K.UNKNOWN:
        draft.set_name(block_type)
        if block.get("encrypted_content") is not None:
            draft.flags |= BLOCK_FLAGS.OPAQUE
    draft.meter.json(block, draft.field)


def _opaque(value: Any) -> int:
    """`OPAQUE` if an object, or one in a list, has a key of encrypted data."""
    for item in value if is_list(value) else (value,):
        if isinstance(item, dict) and not _OPAQUE_KEYS.isdisjoint(item.keys()):
            return BLOCK_FLAGS.OPAQUE
    return 0


_READERS: Final = {
    K.TEXT: _read_text,
    K.TOOL_USE: _read_tool_use,
    K.TOOL_RESULT: _read_tool_result,
    K.THINKING: _read_thinking,
    K.REDACTED_THINKING: _read_redacted,
    K.IMAGE: _read_image,
    K.DOCUMENT: _read_document,
    K.SERVER_TOOL_USE: _read_server_tool_use,
    K.SERVER_TOOL_RESULT: _read_server_tool_result,
    K.SEARCH_RESULT: _read_search_result,
    K.COMPACTION: _read_compaction,
    K.TOOL_CHANGE: _read_tool_change,
}

F = plain(MessageFlag)
B = plain(BlockFlag)
_ROLES: Final = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}

# What requests of any provider carry, what responses carry, and what a view of ours adds.
_KNOWN_KEYS: Final = frozenset(
    "role content name tool_calls tool_call_id function_call refusal audio reasoning_content "
    "reasoning reasoning_details prefix id type model usage stop_reason stop_sequence stop_details "
    "container context_management diagnostics output_config clear_at phase uuid timestamp "
    "annotations".split()
)
_SPEAKERS: Final = frozenset({"user", "assistant"})
_USAGE_KEYS: Final = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)


class _Parts(NamedTuple):
    """A message's blocks and flags while its digest is being put together."""

    blocks: list[BlockDigest]
    flags: int


def read_item(
    item: Any, weights: Weights | None, strings: Strings
) -> tuple[MessageDigest, list[BlockDigest]]:
    """Digests a bare message or an entry; `first_block` is left 0.

    Raises:
        InvalidMessage: It is not a mapping, has no known role, or holds what JSON does not have.
    """
    if not isinstance(item, dict):
        raise InvalidMessage("must be an object", got=shown(item))
    if "role" in item:
        return _read_message(item, item, "", weights, strings)
    message = item.get("message")
    if isinstance(message, dict):
        return _read_message(item, message, "message.", weights, strings)
    return _read_metadata(item, strings), []


def _read_metadata(entry: dict[str, Any], strings: Strings) -> MessageDigest:
    """An entry without a message: it costs nothing, and may be a boundary."""
    entry_type = entry.get("type")
    if not isinstance(entry_type, str):
        raise InvalidMessage("has neither a role nor a message", field="role")
    if entry_type in _SPEAKERS:
        got = shown(entry["message"]) if "message" in entry else "nothing"
        raise InvalidMessage("must be an object", field="message", got=got)
    flags = F.ENTRY | _envelope_flags(entry)
    if entry_type == "system" and entry.get("subtype") == "compact_boundary":
        flags |= F.BOUNDARY
    uuid, time = _intern(entry.get("uuid"), strings), timestamp_ms(entry.get("timestamp"))
    return MessageDigest(int(Role.NONE), int(flags), 0, 0, 0, 0, 0, uuid, 0, time)


def _read_message(
    item: dict[str, Any],
    message: dict[str, Any],
    prefix: str,
    weights: Weights | None,
    strings: Strings,
) -> tuple[MessageDigest, list[BlockDigest]]:
    role = _role(message, prefix)
    uuid = _intern(item.get("uuid"), strings)
    response_id = _intern(message.get("id"), strings) if role is Role.ASSISTANT else 0
    flags = _envelope_flags(item) | _message_flags(message, role)
    if prefix:
        flags |= F.ENTRY
    elif not item.keys() <= _KNOWN_KEYS:
        flags |= F.UNKNOWN_KEYS
    if item.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>":
        flags |= F.SYNTHETIC
    blocks, more = _read_content(message, role, prefix, weights, strings)
    flags |= more | _block_facts(blocks)
    flags |= _user_input(role, flags, blocks)
    usage = 0 if role is not Role.ASSISTANT or flags & F.SYNTHETIC else usage_total(message)
    if usage:
        flags |= F.HAS_USAGE
    tokens, rough = _own_tokens(message, role, prefix, weights)
    tokens += sum(block.tokens for block in blocks)
    rough += sum(block.rough for block in blocks)
    time = timestamp_ms(item.get("timestamp"))
    digest = MessageDigest(
        int(role), int(flags), saturate(tokens), saturate(rough), 0, len(blocks),
        response_id, uuid, usage, time,
    )  # fmt: skip
    return digest, blocks


def _role(message: dict[str, Any], prefix: str) -> Role:
    field = f"{prefix}role"
    if "role" not in message:
        raise InvalidMessage("is missing", field=field)
    name = message["role"]
    role = _ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        reason = "must be user, assistant, system, developer or tool"
        raise InvalidMessage(reason, field=field, got=shown(name))
    return role


def _intern(value: Any, strings: Strings) -> int:
    return strings.intern(value) if isinstance(value, str) else 0


def _envelope_flags(item: dict[str, Any]) -> int:
    flags = F.META if item.get("isMeta") is True else 0
    flags |= F.SUMMARY if item.get("isCompactSummary") is True else 0
    return flags | (F.SIDECHAIN if item.get("isSidechain") is True else 0)


def _message_flags(message: dict[str, Any], role: Role) -> int:
    flags = 0
    if role is Role.SYSTEM:
        flags |= F.OUTPUT_CONFIG if message.get("output_config") is not None else 0
        flags |= F.CLEAR_AT if message.get("clear_at") is not None else 0
    calls = message.get("tool_calls")
    if calls is not None or role is Role.TOOL or message["role"] == "developer":
        flags |= F.OPENAI_CHAT
    if calls is not None and (not is_list(calls) or not calls):
        flags |= F.EMPTY_CALLS
    if any(message.get(key) is not None for key in ("refusal", "audio", "function_call")):
        flags |= F.OTHER_CONTENT
    flags |= F.REASONING if isinstance(message.get("reasoning_content"), str) else 0
    flags |= F.FUNCTION_ROLE if message["role"] == "function" else 0
    return flags | (F.PREFIX if message.get("prefix") is True else 0)


def _read_content(
    message: dict[str, Any], role: Role, prefix: str, weights: Weights | None, strings: Strings
) -> _Parts:
    content = message.get("content")
    flags = _content_flags(content)
    if role is Role.TOOL:
        return _Parts([_read_tool_message(message, prefix, weights, strings)], flags)
    blocks: list[BlockDigest] = []
    if isinstance(content, str):
        parts = [{"type": "text", "text": content}] if content else []
        blocks.extend(read_block(part, f"{prefix}content", weights, strings) for part in parts)
    elif is_list(content):
        for index, item in enumerate(content):
            blocks.append(read_block(item, f"{prefix}content[{index}]", weights, strings))
    calls = message.get("tool_calls")
    for index, call in enumerate(calls if is_list(calls) else []):
        blocks.append(_read_call(call, f"{prefix}tool_calls[{index}]", weights, strings))
    return _Parts(blocks, flags)


def _content_flags(content: Any) -> int:
    if content is None:
        return F.EMPTY_CONTENT
    if isinstance(content, str):
        if not content:
            return F.STRING_CONTENT | F.EMPTY_CONTENT
        return F.STRING_CONTENT | (F.BLANK_CONTENT if content.isspace() else 0)
    if is_list(content):
        return 0 if content else F.EMPTY_CONTENT
    return F.BAD_CONTENT


def _read_tool_message(
    message: dict[str, Any], prefix: str, weights: Weights | None, strings: Strings
) -> BlockDigest:
    draft = Draft(BlockKind.TOOL_RESULT, f"{prefix}content", weights, strings)
    draft.set_id(message.get("tool_call_id"))
    draft.set_name(message.get("name"))
    read_result_content(draft, message.get("content"), f"{prefix}content")
    return draft.finish(weights)


def _read_call(call: Any, field: str, weights: Weights | None, strings: Strings) -> BlockDigest:
    """One of OpenAI's `tool_calls`, of type function or custom, or flat as other tools store it."""
    draft = Draft(BlockKind.TOOL_USE, field, weights, strings)
    if not isinstance(call, dict):
        draft.flags |= B.NOT_A_BLOCK | B.MISSING_ID
        draft.meter.json(call, field)
        return draft.finish(weights)
    draft.set_id(call.get("id"))
    nested = next((key for key in ("function", "custom") if isinstance(call.get(key), dict)), "")
    body = call[nested] if nested else call
    path = f"{field}.{nested}" if nested else field
    draft.set_name(body.get("name"))
    draft.meter.either(body.get("name"), f"{path}.name")
    key = "arguments" if "arguments" in body else "input"
    arguments = body.get(key)
    if not isinstance(arguments, str):
        draft.flags |= B.BAD_ARGUMENTS
    draft.meter.either(arguments, f"{path}.{key}")
    return draft.finish(weights)


_BLANK: Final = B.EMPTY_TEXT | B.BLANK_TEXT
_MEDIA: Final = frozenset({int(BlockKind.IMAGE), int(BlockKind.DOCUMENT)})


def _block_facts(blocks: list[BlockDigest]) -> int:
    flags = 0
    for block in blocks:
        if block.kind == BlockKind.TEXT and not block.flags & _BLANK:
            flags |= F.HAS_TEXT
        if block.kind in _MEDIA or block.flags & B.NESTED_MEDIA:
            flags |= F.HAS_MEDIA
    return flags


def _user_input(role: Role, flags: int, blocks: list[BlockDigest]) -> int:
    if role is not Role.USER or flags & (F.META | F.SUMMARY):
        return 0
    theirs = any(block.kind != BlockKind.TOOL_RESULT for block in blocks)
    return F.USER_INPUT if theirs else 0


def _own_tokens(
    message: dict[str, Any], role: Role, prefix: str, weights: Weights | None
) -> tuple[int, int]:
    """What the message costs in addition to its blocks: its role, and fields that hold text."""
    meter = Meter(weights)
    for key in ("reasoning_content", "refusal"):
        if isinstance(message.get(key), str):
            meter.text(message[key])
    if message.get("function_call") is not None:
        meter.json(message["function_call"], f"{prefix}function_call")
    tokens, rough, _ = meter.close(0 if weights is None else weights.messages[role])
    return tokens, rough


def usage_total(message: dict[str, Any]) -> int:
    """Tokens in the context after a response, by its usage; 0 if it says nothing.

    Anthropic's four figures, of the last iteration of type `message` where there are several;
    else OpenAI's total, or prompt and completion.
    """
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return 0
    source = _last_iteration(usage.get("iterations")) or usage
    total = sum(_count(source.get(key)) for key in _USAGE_KEYS)
    if total == 0:
        total = _count(usage.get("total_tokens"))
    if total == 0:
        total = _count(usage.get("prompt_tokens")) + _count(usage.get("completion_tokens"))
    return saturate(total)


def _last_iteration(iterations: Any) -> dict[str, Any] | None:
    last = None
    for item in iterations if is_list(iterations) else []:
        if isinstance(item, dict) and item.get("type") == "message":
            last = item
    return last


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return saturate(max(0, value))


# Messages that need no second look: text, calls with ids of their own, results of open calls.
#
# Most messages of an agent are like that. What is not recognised here is not wrong: it takes the longer way. The twin of
# `rust/core/src/read/plain.rs`.


_PLAIN_KEYS: Final = frozenset(
    ("role", "content", "id", "type", "model", "usage", "stop_reason", "stop_sequence")
)
_WORDS: Final = frozenset(("type", "text", "cache_control"))
_CALL: Final = frozenset(("type", "id", "name", "input", "cache_control"))
_RESULT: Final = frozenset(("type", "tool_use_id", "content", "is_error", "cache_control"))
_THOUGHT: Final = frozenset(("type", "thinking", "signature"))
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}").fullmatch
_MARKERS: Final = ("[Old tool result content cleared]", "[Compacted:", "<persisted-output>")


class Plain(NamedTuple):
    """What is known of a plain message.

    Attributes:
        answer: Whether the model said it; else the user, or the host on their behalf.
        names: Ids of its calls, or of the calls that its results answer.
        longest: Characters of its longest result.
        chars: Characters of all its results.
    """

    answer: bool
    names: list[str]
    longest: int = 0
    chars: int = 0


def read_plain(message: Any, own: str = "") -> Plain | None:
    """Reads a message in Anthropic's form; `None`: it takes a closer look.

    Args:
        message: Anything.
        own: The provider's form, whose own data may travel with a message and its blocks; empty: Anthropic's.
    """
    if type(message) is not dict or not _carries(message, _PLAIN_KEYS, own):
        return None
    role, content = message.get("role"), message.get("content")
    if type(role) is not str or role not in ("user", "assistant"):
        return None
    if "type" in message and message["type"] != "message":
        return None
    if _is_text(content):
        return Plain(role == "assistant", [])
    if type(content) is not list or not content:
        return None
    return _answer(content, own) if role == "assistant" else _input(content, own)


def _answer(content: list[Any], own: str) -> Plain | None:
    names: list[str] = []
    for block in content:
        if type(block) is not dict:
            return None
        kind = block.get("type")
        if kind == "tool_use":
            if not _is_call(block, own):
                return None
            names.append(block["id"])
        elif kind == "text":
            if not _is_words(block, own):
                return None
        elif not _is_thought(block, own):
            return None
    return Plain(True, names)


def _input(content: list[Any], own: str) -> Plain | None:
    names: list[str] = []
    longest = total = 0
    for block in content:
        if type(block) is not dict:
            return None
        if block.get("type") == "tool_result":
            chars = _result_chars(block, own)
            if not chars:
                return None
            names.append(block["tool_use_id"])
            longest, total = max(longest, chars), total + chars
        elif block.get("type") != "text" or not _is_words(block, own):
            return None
    return Plain(False, names, longest, total)


def _carries(value: dict[str, Any], keys: frozenset[str], own: str) -> bool:
    """Whether it has keys that are known, and besides them only what the provider's own form attached."""
    if keys.issuperset(value):
        return True
    return bool(own) and _has_own(value, own) and len(value.keys() - keys) == 1


def _has_own(value: dict[str, Any], own: str) -> bool:
    foreign = value.get("foreign")
    return bool(own) and type(foreign) is dict and foreign.keys() == {own}


def _is_words(block: dict[str, Any], own: str) -> bool:
    return _is_text(block.get("text")) and _carries(block, _WORDS, own)


def _is_thought(block: dict[str, Any], own: str) -> bool:
    """Whether a block is thinking as Anthropic's API gives it, or as another form's reader does."""
    if block.get("type") == "redacted_thinking":
        return len(block) == 2 and _is_text(block.get("data"))
    if block.get("type") != "thinking" or type(block.get("thinking")) is not str:
        return False
    signed = _is_text(block.get("signature")) or "foreign" in block
    return signed and _carries(block, _THOUGHT, own)


def _is_call(block: dict[str, Any], own: str) -> bool:
    name = block.get("id")
    if type(name) is not str or not _PLAIN_ID(name):
        return False
    if type(block.get("name")) is not str or type(block.get("input")) is not dict:
        return False
    return _carries(block, _CALL, own)


def _result_chars(block: dict[str, Any], own: str) -> int:
    """At least the characters of a result; 0: it takes a closer look."""
    if type(block.get("tool_use_id")) is not str or not _carries(block, _RESULT, own):
        return 0
    content = block.get("content")
    if type(content) is not list:
        return _own_chars(content)
    total = 0
    for part in content:
        if type(part) is not dict or part.get("type") != "text":
            return 0
        if len(part) != 2 and not (len(part) == 3 and _has_own(part, own)):
            return 0
        chars = _own_chars(part.get("text"))
        if not chars:
            return 0
        total += chars + 2
    return total


def _own_chars(text: Any) -> int:
    """Characters of a text; 0: it is none, or empty, or stands for a result that was removed."""
    return len(text) if _is_text(text) and not text.startswith(_MARKERS) else 0


def _is_text(value: Any) -> TypeGuard[str]:
    return type(value) is str and bool(value)


# Which messages hold media (MED-1). The twin of `rust/core/src/media.rs`.


_MEDIA_MEDIA = frozenset({BlockKind.IMAGE, BlockKind.DOCUMENT})
_MEDIA_ROLES = frozenset({"user", "tool", "function"})


def media_indices(items: Sequence[Mapping[str, Any]]) -> list[int]:
    """Indices of the user and tool messages with an image or document, also inside a tool result.

    Items that are no messages are passed over: this only looks, it does not judge.
    """
    return [index for index, item in enumerate(items) if _holds_media(stored(item))]


def _holds_media(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    message = item if "role" in item else item.get("message")
    if not isinstance(message, dict):
        return False
    role = message.get("role")
    if not isinstance(role, str) or role not in _MEDIA_ROLES:
        return False
    return _in_content(message.get("content"), nested=False)


def _in_content(content: Any, *, nested: bool) -> bool:
    return is_list(content) and any(_is_media(block, nested=nested) for block in content)


def _is_media(block: Any, *, nested: bool) -> bool:
    block_type = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block_type, str):
        return False
    if kind_of(block_type) in _MEDIA_MEDIA:
        return True
    return (
        not nested
        and block_type == "tool_result"
        and _in_content(block.get("content"), nested=True)
    )

"""One message or entry → its digest. The twin of `rust/core/src/digest/items.rs`."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeGuard

from ullage._engine.digests import (
    MESSAGE_KEYS,
    SERVER_RESULT_KEYS,
    BlockDigest,
    BlockFlag as B,
    BlockKind,
    MessageDigest,
    MessageFlag as F,
    Role,
    known_keys,
)
from ullage._reference.digest import document_source, image_tokens, read_image
from ullage._reference.text import (
    FEATURE_NAMES,
    MAX_DEPTH,
    MAX_INT_BITS,
    Weights,
    features,
    rough_tokens,
    stored,
    stored_text,
    whole_tokens,
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


_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))?",
    re.ASCII,
)
_EPOCH: Final = datetime(1970, 1, 1)


def timestamp_ms(value: Any) -> int:
    """Milliseconds since the epoch of `YYYY-MM-DDTHH:MM:SS[.fraction][Z|+HH:MM|-HH:MM]`; else 0.

    A time without a zone counts as UTC.
    """
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return 0
    fraction, sign, hours, minutes = match.groups(default="0")[6:]
    if int(hours) > 23 or int(minutes) > 59:
        return 0
    try:
        year, month, day, hour, minute, second = map(int, match.groups()[:6])
        local = datetime(year, month, day, hour, minute, second)
    except ValueError:
        return 0
    if local.year < 1970:
        return 0
    zone = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    seconds = (local - _EPOCH - zone) // timedelta(seconds=1)
    return max(0, seconds * 1000 + int(f"{fraction:0<3}"[:3]))


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
    """Features of a value, and the length of its compact JSON: `json.dumps(value, ensure_ascii=False, separators=(",", ":"))`.

    Models see the members of a tool's input as named parameters, and JSON only inside of those: so what
    is directly inside the outermost container is distinguished from what is deeper.
    """

    __slots__ = ("features", "length")

    def __init__(self, value: Any) -> None:
        self.features = [0] * len(FEATURE_NAMES)
        self.length = 0
        self._walk(value, 0)

    def _walk(self, value: Any, depth: int) -> None:
        """A value that `check_json` takes, with so many containers around it."""
        if isinstance(value, str):
            self._string(value, depth)
        elif is_list(value):
            self._container(len(value), 2 + max(len(value) - 1, 0), depth)
            for item in value:
                self._walk(item, depth + 1)
        elif isinstance(value, dict):
            self._container(len(value), 2 + max(2 * len(value) - 1, 0), depth)
            for key, item in value.items():
                self._string(key if isinstance(key, str) else _word(key), depth + 1)
                self._walk(item, depth + 1)
        else:
            word = _word(value)
            self._add(features(word))
            self.length += len(word)

    def _string(self, text: str, depth: int) -> None:
        escapes = len(_SHORT.findall(text)) + 5 * len(_LONG.findall(text))
        outer = depth <= 1
        self._add(features(text))
        self.features[_ARGUMENT_ESCAPES if outer else _ESCAPES] += escapes
        self.features[_STRUCTURE] += 0 if outer else 2
        self.length += len(text) + escapes + 2

    def _container(self, members: int, characters: int, depth: int) -> None:
        """Brackets, commas and colons."""
        if depth == 0:
            self.features[_ARGUMENTS] += members
        else:
            self.features[_STRUCTURE] += characters
        self.length += characters

    def _add(self, counts: Iterable[int]) -> None:
        self.features = list(map(operator.add, self.features, counts))


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


def _word(value: Any) -> str:
    """A number as JSON spells it, or `true`, `false`, `null`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _SPELLED.get(float.__repr__(value), float.__repr__(value))
    return spelled(value)


_SPELLED: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


# Adds up what one block, or one message's own fields, cost: rough and calibrated.
#
# The twin of `rust/core/src/read/meter.rs`.


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
        self._weigh(text)

    def json(self, value: Any, field: str) -> None:
        """A value as compact JSON."""
        check_json(value, field)
        if self._weights is not None:
            tally = JsonTally(value)
            self._run += tally.length
            self.micro += self._weights.weigh(tally.features)
            return
        try:
            self._run += len(_compact(value))
        except ValueError:  # an integer past the interpreter's limit, which can be set low
            self._run += JsonTally(value).length

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
        if self._weights is not None and self._weights.hidden.per_char:
            self.micro += self._weights.hidden.weigh(len(data))
        else:
            self._weigh(data)

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
            self._weigh(part)
        if parts is None:
            size = len(source) if isinstance(source, str) else 0
            pages = min(MAX_PAGES, max(1, -(-size // BASE64_CHARS_PER_PAGE)))
            self.whole += pages * DOCUMENT_TOKENS

    def end_part(self) -> None:
        """Rounds what was counted since the last part (TOK-1: a result is the sum of its blocks)."""
        self.chars += self._run
        self.rough += rough_tokens(self._run)
        self._run = 0

    def close(self, overhead: int) -> tuple[int, int]:
        """Tokens, calibrated where there are weights, and characters; `overhead` in 1/4096 token."""
        self.end_part()
        if self._weights is None:
            return saturate(self.rough), saturate(self.chars)
        return saturate(self.whole + whole_tokens(self.micro + overhead)), saturate(self.chars)

    def _weigh(self, text: str) -> None:
        if self._weights is not None:
            self.micro += self._weights.weigh(features(text))


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

_KEYS_OF: Final = {
    kind: known_keys(names.split()[0]) or frozenset() for kind, names in _TYPES.items()
}
_KEYS_OF[K.SERVER_TOOL_RESULT] = SERVER_RESULT_KEYS

# Another API's word for the same kind shows in the digest's name.
_OWN_TYPES: Final = {K.TEXT: "text", K.IMAGE: "image", K.DOCUMENT: "document"}

# A tool change may refer to what an MCP server holds, which the request does not list.
_OF_SERVER: Final = ("mcp_tool_reference", "mcp_toolset_reference")

# A tool_result may also hold these; they are counted as their JSON.
_NESTED_OTHER: Final = frozenset({"tool_reference", "browser_state"})


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
            self.flags |= B.MISSING_ID
            return
        self.id = self.strings.intern(value)
        if not _ID.match(value):
            self.flags |= B.BAD_ID

    def set_name(self, value: Any, prefix: str = "") -> None:
        if isinstance(value, str):
            self.name = self.strings.intern(prefix + value if prefix else value)

    def count_text(self, value: Any, key: str) -> None:
        """Counts the block's main text and notes if it is empty, blank, or ends in white space."""
        self.meter.either(value, f"{self.field}.{key}")
        if isinstance(value, str):
            self.flags |= text_flags(value)
        else:
            self.flags |= B.EMPTY_TEXT

    def finish(self, weights: Weights | None) -> BlockDigest:
        overhead = 0 if weights is None else weights.blocks[self.kind]
        tokens, chars = self.meter.close(overhead)
        kind, flags = int(self.kind), int(self.flags)
        return BlockDigest(kind, flags, tokens, chars, self.id, self.name, self.aux)


def text_flags(text: str) -> int:
    if not text:
        return B.EMPTY_TEXT
    if not text[-1].isspace():
        return 0
    return B.BLANK_TEXT | B.TRAILING_SPACE if text.isspace() else B.TRAILING_SPACE


def read_block(block: Any, field: str, weights: Weights | None, strings: Strings) -> BlockDigest:
    """Digests one item of a content list; what is no block at all is counted as its JSON."""
    block_type = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block_type, str):
        draft = Draft(K.UNKNOWN, field, weights, strings)
        draft.flags |= B.NOT_A_BLOCK
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
        flags |= B.UNKNOWN_KEYS
    if block_type == "cache_edits" or "cache_reference" in block:
        flags |= B.CACHE_EDIT
    return flags


def cache_flags(control: Any) -> int:
    if control is None:
        return 0
    if not isinstance(control, dict) or not control.keys() <= {"type", "ttl"}:
        return B.CACHE_BAD
    if control.get("type") != "ephemeral":
        return B.CACHE_BAD
    ttl = control.get("ttl", "5m")
    if not isinstance(ttl, str):
        return B.CACHE_BAD
    return {"5m": B.CACHE_5M, "1h": B.CACHE_1H}.get(ttl, B.CACHE_BAD)


def _read_text(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.count_text(block.get("text"), "text")
    citations = block.get("citations")
    if is_list(citations) and citations:
        draft.flags |= B.HAS_CITATIONS


def _read_tool_use(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.set_id(block.get("id"))
    draft.set_name(block.get("name"))
    draft.meter.either(block.get("name"), f"{draft.field}.name")
    if not isinstance(block.get("input"), dict):
        draft.flags |= B.INPUT_NOT_OBJECT
    if "input" in block:
        draft.meter.json(block["input"], f"{draft.field}.input")


def _read_server_tool_use(draft: Draft, block: dict[str, Any], block_type: str) -> None:
    draft.set_id(block.get("id"))
    draft.set_name(block.get("name"), "mcp:" if block_type == "mcp_tool_use" else "")
    if not isinstance(block.get("input"), dict):
        draft.flags |= B.INPUT_NOT_OBJECT
    draft.meter.json(block, draft.field)


def _read_server_tool_result(draft: Draft, block: dict[str, Any], block_type: str) -> None:
    draft.set_id(block.get("tool_use_id"))
    draft.set_name(block_type)
    if block.get("is_error") is True:
        draft.flags |= B.IS_ERROR
    draft.meter.json(block, draft.field)


def _read_tool_result(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.set_id(block.get("tool_use_id"))
    if block.get("is_error") is True:
        draft.flags |= B.IS_ERROR
    read_result_content(draft, block.get("content"), f"{draft.field}.content")


def read_result_content(draft: Draft, content: Any, field: str) -> None:
    """The content of a tool result: text, or a list of blocks."""
    if not is_list(content):
        if content is not None and not isinstance(content, str):
            draft.flags |= B.BAD_NESTED
        draft.meter.either(content, field)
        draft.flags |= result_flags(content)
        return
    for index, item in enumerate(content):
        _read_nested(draft, item, f"{field}[{index}]")
        draft.meter.end_part()
    if len(content) == 1 and _type_in(content[0]) in _TEXT_TYPES:
        draft.flags |= result_flags(content[0].get("text"))


def result_flags(content: Any) -> int:
    """What a tool result's whole text says of it."""
    if not isinstance(content, str):
        return 0
    if content == CLEARED_TEXT or content.startswith(COMPACTED_START):
        return B.CLEARED
    return B.OFFLOADED if content.startswith(OFFLOADED_START) else 0


_TEXT_TYPES: Final = frozenset(name for name, kind in _KINDS.items() if kind is K.TEXT)


def _type_in(item: Any) -> str:
    kind = item.get("type") if isinstance(item, dict) else None
    return kind if isinstance(kind, str) else ""


def _read_nested(draft: Draft, item: Any, field: str) -> None:
    """Counts a block inside a result."""
    nested_type = _type_in(item)
    kind = kind_of(nested_type)
    if isinstance(item, dict):
        _count_marker(draft, cache_flags(item.get("cache_control")))
        if kind in _NESTED_KINDS and not item.keys() <= _KEYS_OF[kind]:
            draft.flags |= B.UNKNOWN_KEYS
    if kind is K.TEXT:
        _read_nested_text(draft, item, field)
    elif kind is K.IMAGE:
        draft.flags |= B.NESTED_MEDIA
        draft.aux += draft.aux & 0xFFFF < 0xFFFF
        read_image(item, draft)
    elif kind is K.DOCUMENT:
        draft.flags |= B.NESTED_MEDIA
        draft.meter.document(document_source(item))
    else:
        if kind is K.SEARCH_RESULT:
            draft.flags |= search_flags(item)
        elif nested_type not in _NESTED_OTHER:
            draft.flags |= B.BAD_NESTED
        draft.meter.json(item, field)


_NESTED_KINDS: Final = frozenset({K.TEXT, K.IMAGE, K.DOCUMENT, K.SEARCH_RESULT})


def _count_marker(draft: Draft, flags: int) -> None:
    """Counts a cache marker inside a result in `aux`, up to 255 of each TTL."""
    if not flags:
        return
    draft.flags |= B.NESTED_CACHE | flags & B.CACHE_BAD
    shift = 24 if flags & B.CACHE_1H else 16
    if not flags & B.CACHE_BAD and draft.aux >> shift & 0xFF < 0xFF:
        draft.aux += 1 << shift


def _read_nested_text(draft: Draft, item: dict[str, Any], field: str) -> None:
    text, citations = item.get("text"), item.get("citations")
    draft.meter.either(text, f"{field}.text")
    if is_list(citations) and citations:
        draft.flags |= B.HAS_CITATIONS
    blank = not isinstance(text, str) or not text or text.isspace()
    draft.flags |= B.NESTED_BLANK if blank else 0


def _read_thinking(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.count_text(block.get("thinking"), "thinking")
    signature = block.get("signature")
    if isinstance(signature, str):
        if signature:
            draft.flags |= B.HAS_SIGNATURE
        draft.meter.hidden(len(signature))


def _read_redacted(draft: Draft, block: dict[str, Any], _type: str) -> None:
    data = block.get("data")
    if isinstance(data, str):
        if data:
            draft.flags |= B.HAS_SIGNATURE
        draft.meter.encrypted(data)
    else:
        draft.meter.either(data, f"{draft.field}.data")


def _read_image(draft: Draft, block: dict[str, Any], _type: str) -> None:
    width, height = read_image(block, draft)
    draft.aux = min(width, 0xFFFF) << 16 | min(height, 0xFFFF)


def _read_document(draft: Draft, block: dict[str, Any], _type: str) -> None:
    if _enabled(block):
        draft.flags |= B.CITATIONS_ON
    draft.meter.document(document_source(block))


def _read_search_result(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.flags |= search_flags(block)
    draft.meter.json(block, draft.field)


def search_flags(block: dict[str, Any]) -> int:
    """Of a search result: citations switched on or off, those in its texts, texts that say nothing."""
    flags = B.CITATIONS_ON if _enabled(block) else B.CITATIONS_OFF
    content = block.get("content")
    for item in content if is_list(content) else []:
        citations = item.get("citations") if isinstance(item, dict) else None
        if is_list(citations) and citations:
            flags |= B.HAS_CITATIONS
        text = item.get("text") if isinstance(item, dict) else None
        if isinstance(text, str) and (not text or text.isspace()):
            flags |= B.NESTED_BLANK
    return flags


def _enabled(block: dict[str, Any]) -> bool:
    citations = block.get("citations")
    return isinstance(citations, dict) and citations.get("enabled") is True


def _read_compaction(draft: Draft, block: dict[str, Any], _type: str) -> None:
    content = block.get("content")
    if content is None:
        draft.flags |= B.NULL_CONTENT
    elif isinstance(content, str):
        draft.flags |= text_flags(content) & B.EMPTY_TEXT
    if isinstance(block.get("signature"), str):
        draft.flags |= B.HAS_SIGNATURE
    draft.meter.json(block, draft.field)


def _read_tool_change(draft: Draft, block: dict[str, Any], block_type: str) -> None:
    tool = block.get("tool")
    definition = tool.get("definition") if isinstance(tool, dict) else None
    body = definition if isinstance(definition, dict) else tool
    own = body.get("name") if isinstance(body, dict) else None
    names = (own, block.get("name"), block.get("tool_name"))
    draft.set_name(next((name for name in names if isinstance(name, str)), None))
    defines = body is not tool or (isinstance(tool, dict) and "input_schema" in tool)
    draft.aux = 2 if block_type != "tool_addition" else 3 if defines else 1
    if _type_in(tool) in _OF_SERVER or _type_in(definition) == "mcp_toolset":
        draft.aux = 4
    draft.meter.json(block, draft.field)


def _read_other(draft: Draft, block: dict[str, Any], block_type: str) -> None:
    if draft.kind is K.UNKNOWN:
        draft.set_name(block_type)
    draft.meter.json(block, draft.field)


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

_ROLES: Final = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}

_SPEAKERS: Final = frozenset({"user", "assistant"})
_USAGE_KEYS: Final = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)


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
    flags = _envelope_flags(entry)
    if entry_type == "system" and entry.get("subtype") == "compact_boundary":
        flags |= F.BOUNDARY
    uuid, time = _intern(entry.get("uuid"), strings), timestamp_ms(entry.get("timestamp"))
    return MessageDigest(int(Role.NONE), int(flags), 0, 0, 0, 0, uuid, 0, time)


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
    if not prefix and not item.keys() <= MESSAGE_KEYS:
        flags |= F.UNKNOWN_KEYS
    if item.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>":
        flags |= F.SYNTHETIC
    blocks = _read_content(message, role, prefix, weights, strings)
    flags |= _content_flags(message.get("content")) | _block_facts(blocks)
    flags |= _user_input(role, flags, blocks)
    usage = 0 if role is not Role.ASSISTANT or flags & F.SYNTHETIC else usage_total(message)
    if usage:
        flags |= F.HAS_USAGE
    tokens = _own_tokens(message, role, prefix, weights) + sum(block.tokens for block in blocks)
    time = timestamp_ms(item.get("timestamp"))
    counts = saturate(tokens), 0, len(blocks)
    digest = MessageDigest(int(role), int(flags), *counts, response_id, uuid, usage, time)
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
) -> list[BlockDigest]:
    content = message.get("content")
    if role is Role.TOOL:
        return [_read_tool_message(message, prefix, weights, strings)]
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
    return blocks


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


def _own_tokens(message: dict[str, Any], role: Role, prefix: str, weights: Weights | None) -> int:
    """What the message costs in addition to its blocks: its role, and fields that hold text."""
    meter = Meter(weights)
    for key in ("reasoning_content", "refusal"):
        if isinstance(message.get(key), str):
            meter.text(message[key])
    if message.get("function_call") is not None:
        meter.json(message["function_call"], f"{prefix}function_call")
    return meter.close(0 if weights is None else weights.messages[role])[0]


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


# Which messages hold media (MED-1). The twin of `rust/core/src/media.rs`.


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
    if kind_of(block_type) in _MEDIA:
        return True
    return (
        not nested
        and block_type == "tool_result"
        and _in_content(block.get("content"), nested=True)
    )

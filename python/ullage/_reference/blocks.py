"""One content block → its digest. The twin of `rust/core/src/digest/blocks.rs`."""

from __future__ import annotations

import re
from typing import Any, Final

from ullage._reference.digest import BlockDigest, BlockFlag, BlockKind, plain
from ullage._reference.meter import Meter, Weights
from ullage._reference.sources import document_source, read_image
from ullage._reference.view import Strings, is_list

__all__ = ["CLEARED_TEXT", "Draft", "kind_of", "read_block"]

CLEARED_TEXT: Final = "[Old tool result content cleared]"
COMPACTED_START: Final = "[Compacted:"
OFFLOADED_START: Final = "<persisted-output>"

_ID = re.compile(r"[A-Za-z0-9_-]+\Z")
F = plain(BlockFlag)
K = BlockKind

_KINDS: Final = {
    "text": K.TEXT,
    "input_text": K.TEXT,
    "output_text": K.TEXT,
    "tool_use": K.TOOL_USE,
    "tool_result": K.TOOL_RESULT,
    "thinking": K.THINKING,
    "redacted_thinking": K.REDACTED_THINKING,
    "image": K.IMAGE,
    "image_url": K.IMAGE,
    "input_image": K.IMAGE,
    "document": K.DOCUMENT,
    "file": K.DOCUMENT,
    "input_file": K.DOCUMENT,
    "server_tool_use": K.SERVER_TOOL_USE,
    "mcp_tool_use": K.SERVER_TOOL_USE,
    "search_result": K.SEARCH_RESULT,
    "container_upload": K.CONTAINER_UPLOAD,
    "compaction": K.COMPACTION,
    "fallback": K.FALLBACK,
    "tool_addition": K.TOOL_CHANGE,
    "tool_removal": K.TOOL_CHANGE,
}

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
_KNOWN: Final = {kind: frozenset(keys.split()) for kind, keys in _KEYS.items()}

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
            self.flags |= F.MISSING_ID
            return
        self.id = self.strings.intern(value)
        if not _ID.match(value):
            self.flags |= F.BAD_ID

    def set_name(self, value: Any, prefix: str = "") -> None:
        if isinstance(value, str):
            self.name = self.strings.intern(prefix + value if prefix else value)

    def count_text(self, value: Any, key: str) -> None:
        """Counts the block's main text and notes if it is empty, blank, or ends in white space."""
        self.meter.either(value, f"{self.field}.{key}")
        if isinstance(value, str):
            self.flags |= text_flags(value)
        else:
            self.flags |= F.EMPTY_TEXT

    def finish(self, weights: Weights | None) -> BlockDigest:
        overhead = 0 if weights is None else weights.blocks[self.kind]
        tokens, rough, chars = self.meter.close(overhead)
        kind, flags = int(self.kind), int(self.flags)
        return BlockDigest(kind, flags, tokens, rough, chars, self.id, self.name, self.aux)


def text_flags(text: str) -> int:
    if not text:
        return F.EMPTY_TEXT
    if not text[-1].isspace():
        return 0
    return F.BLANK_TEXT | F.TRAILING_SPACE if text.isspace() else F.TRAILING_SPACE


def read_block(block: Any, field: str, weights: Weights | None, strings: Strings) -> BlockDigest:
    """Digests one item of a content list; what is no block at all is counted as its JSON."""
    block_type = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block_type, str):
        draft = Draft(K.UNKNOWN, field, weights, strings)
        draft.flags |= F.NOT_A_BLOCK
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
    if kind in _KNOWN and not block.keys() <= _KNOWN[kind]:
        flags |= F.UNKNOWN_KEYS
    if block_type == "cache_edits" or "cache_reference" in block:
        flags |= F.CACHE_EDIT
    if block.get("caller") is not None:
        flags |= F.HAS_CALLER
    return flags


def cache_flags(control: Any) -> int:
    if control is None:
        return 0
    if not isinstance(control, dict) or not control.keys() <= {"type", "ttl"}:
        return F.CACHE_BAD
    if control.get("type") != "ephemeral":
        return F.CACHE_BAD
    ttl = control.get("ttl", "5m")
    if not isinstance(ttl, str):
        return F.CACHE_BAD
    return {"5m": F.CACHE_5M, "1h": F.CACHE_1H}.get(ttl, F.CACHE_BAD)


def _read_text(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.count_text(block.get("text"), "text")
    citations = block.get("citations")
    if is_list(citations) and citations:
        draft.flags |= F.HAS_CITATIONS | _opaque(citations)


def _read_tool_use(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.set_id(block.get("id"))
    draft.set_name(block.get("name"))
    draft.meter.either(block.get("name"), f"{draft.field}.name")
    if not isinstance(block.get("input"), dict):
        draft.flags |= F.INPUT_NOT_OBJECT
    if "input" in block:
        draft.meter.json(block["input"], f"{draft.field}.input")


def _read_server_tool_use(draft: Draft, block: dict[str, Any], block_type: str) -> None:
    draft.set_id(block.get("id"))
    draft.set_name(block.get("name"), "mcp:" if block_type == "mcp_tool_use" else "")
    if not isinstance(block.get("input"), dict):
        draft.flags |= F.INPUT_NOT_OBJECT
    draft.meter.json(block, draft.field)


def _read_server_tool_result(draft: Draft, block: dict[str, Any], block_type: str) -> None:
    draft.set_id(block.get("tool_use_id"))
    draft.set_name(block_type)
    if block.get("is_error") is True:
        draft.flags |= F.IS_ERROR
    draft.flags |= _opaque(block.get("content"))
    draft.meter.json(block, draft.field)


def _read_tool_result(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.set_id(block.get("tool_use_id"))
    if block.get("is_error") is True:
        draft.flags |= F.IS_ERROR
    read_result_content(draft, block.get("content"), f"{draft.field}.content")


def read_result_content(draft: Draft, content: Any, field: str) -> None:
    """The content of a tool result: text, or a list of blocks."""
    if not is_list(content):
        if content is not None and not isinstance(content, str):
            draft.flags |= F.BAD_NESTED
        draft.meter.either(content, field)
        draft.flags |= result_flags(content)
        return
    blank = True
    for index, item in enumerate(content):
        blank &= _read_nested(draft, item, f"{field}[{index}]")
        draft.meter.end_part()
    if blank:
        draft.flags |= F.EMPTY_RESULT
    if len(content) == 1 and _nested_type(content[0]) in _TEXT_TYPES:
        draft.flags |= result_flags(content[0].get("text")) & (F.CLEARED | F.OFFLOADED)


def result_flags(content: Any) -> int:
    """What a tool result's whole text says of it."""
    if content is None:
        return F.EMPTY_RESULT
    if not isinstance(content, str):
        return 0
    if not content or content.isspace():
        return F.EMPTY_RESULT
    if content == CLEARED_TEXT or content.startswith(COMPACTED_START):
        return F.CLEARED
    return F.OFFLOADED if content.startswith(OFFLOADED_START) else 0


_TEXT_TYPES: Final = frozenset(name for name, kind in _KINDS.items() if kind is K.TEXT)


def _nested_type(item: Any) -> str:
    found = item.get("type") if isinstance(item, dict) else None
    return found if isinstance(found, str) else ""


def _read_nested(draft: Draft, item: Any, field: str) -> bool:
    """Counts a block inside a result; whether it is a text that says nothing."""
    nested_type = _nested_type(item)
    kind = kind_of(nested_type)
    if isinstance(item, dict):
        _count_marker(draft, cache_flags(item.get("cache_control")))
        if kind in _NESTED_KINDS and not item.keys() <= _KNOWN[kind]:
            draft.flags |= F.UNKNOWN_KEYS
    if kind is K.TEXT:
        return _read_nested_text(draft, item, field)
    if kind is K.IMAGE:
        draft.flags |= F.NESTED_MEDIA
        draft.aux += draft.aux & 0xFFFF < 0xFFFF
        read_image(item, draft)
    elif kind is K.DOCUMENT:
        draft.flags |= F.NESTED_MEDIA
        draft.meter.document(document_source(item))
    else:
        if kind is K.SEARCH_RESULT:
            draft.flags |= search_flags(item)
        elif nested_type not in _NESTED_OTHER:
            draft.flags |= F.BAD_NESTED
        draft.meter.json(item, field)
    return False


_NESTED_KINDS: Final = frozenset({K.TEXT, K.IMAGE, K.DOCUMENT, K.SEARCH_RESULT})


def _count_marker(draft: Draft, flags: int) -> None:
    """Counts a cache marker inside a result in `aux`, up to 255 of each TTL."""
    if not flags:
        return
    draft.flags |= F.NESTED_CACHE | flags & F.CACHE_BAD
    shift = 24 if flags & F.CACHE_1H else 16
    if not flags & F.CACHE_BAD and draft.aux >> shift & 0xFF < 0xFF:
        draft.aux += 1 << shift


def _read_nested_text(draft: Draft, item: dict[str, Any], field: str) -> bool:
    text, citations = item.get("text"), item.get("citations")
    draft.meter.either(text, f"{field}.text")
    if is_list(citations) and citations:
        draft.flags |= F.HAS_CITATIONS
    blank = not isinstance(text, str) or not text or text.isspace()
    draft.flags |= F.NESTED_BLANK if blank else 0
    return blank


def _read_thinking(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.count_text(block.get("thinking"), "thinking")
    signature = block.get("signature")
    if isinstance(signature, str):
        if signature:
            draft.flags |= F.HAS_SIGNATURE
        draft.meter.hidden(len(signature))


def _read_redacted(draft: Draft, block: dict[str, Any], _type: str) -> None:
    data = block.get("data")
    if isinstance(data, str):
        if data:
            draft.flags |= F.HAS_SIGNATURE
        draft.meter.encrypted(data)
    else:
        draft.meter.either(data, f"{draft.field}.data")


def _read_image(draft: Draft, block: dict[str, Any], _type: str) -> None:
    width, height = read_image(block, draft)
    draft.aux = min(width, 0xFFFF) << 16 | min(height, 0xFFFF)


def _read_document(draft: Draft, block: dict[str, Any], _type: str) -> None:
    if _enabled(block):
        draft.flags |= F.CITATIONS_ON
    draft.meter.document(document_source(block))


def _read_search_result(draft: Draft, block: dict[str, Any], _type: str) -> None:
    draft.flags |= search_flags(block)
    draft.meter.json(block, draft.field)


def search_flags(block: dict[str, Any]) -> int:
    """Of a search result: citations switched on or off, those in its texts, texts that say nothing."""
    flags = F.CITATIONS_ON if _enabled(block) else F.CITATIONS_OFF
    content = block.get("content")
    for item in content if is_list(content) else []:
        citations = item.get("citations") if isinstance(item, dict) else None
        if is_list(citations) and citations:
            flags |= F.HAS_CITATIONS
        text = item.get("text") if isinstance(item, dict) else None
        if isinstance(text, str) and (not text or text.isspace()):
            flags |= F.NESTED_BLANK
    return flags


def _enabled(block: dict[str, Any]) -> bool:
    citations = block.get("citations")
    return isinstance(citations, dict) and citations.get("enabled") is True


def _read_compaction(draft: Draft, block: dict[str, Any], _type: str) -> None:
    content = block.get("content")
    if content is None:
        draft.flags |= F.NULL_CONTENT
    elif isinstance(content, str):
        draft.flags |= text_flags(content) & F.EMPTY_TEXT
    if isinstance(block.get("signature"), str):
        draft.flags |= F.HAS_SIGNATURE
    if block.get("encrypted_content") is not None:
        draft.flags |= F.OPAQUE
    draft.meter.json(block, draft.field)


def _type_of(value: Any) -> Any:
    found = value.get("type") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


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
            draft.flags |= F.OPAQUE
    draft.meter.json(block, draft.field)


def _opaque(value: Any) -> int:
    """`OPAQUE` if an object, or one in a list, has a key of encrypted data."""
    for item in value if is_list(value) else (value,):
        if isinstance(item, dict) and not _OPAQUE_KEYS.isdisjoint(item.keys()):
            return F.OPAQUE
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

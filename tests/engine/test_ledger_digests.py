"""What a ledger remembers of each message and block."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import text
from ullage._engine.digests import BlockFlag, BlockKind, MessageFlag, Role
from ullage.exceptions import InvalidMessage

pytestmark = pytest.mark.usefixtures("_ledger")
B, M = BlockFlag, MessageFlag


@pytest.fixture
def _ledger(engine: Any) -> None:
    if not hasattr(engine, "Ledger"):
        pytest.skip("this engine has no ledger")


def user(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks), **more}


def one(engine: Any, block: Any, role: str = "user") -> Any:
    """The digest of one block."""
    ledger = engine.Ledger(None, [{"role": role, "content": [block]}])
    (digest,) = ledger.blocks(0)
    return digest


def result(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t1", "content": content, **more}


def png(width: int, height: int, **more: Any) -> dict[str, Any]:
    import base64

    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + width.to_bytes(4) + height.to_bytes(4)
    data = base64.b64encode(head + bytes(24)).decode()
    return {"type": "base64", "media_type": "image/png", "data": data, **more}


def image(width: int = 100, height: int = 50, **more: Any) -> dict[str, Any]:
    return {"type": "image", "source": png(width, height, **more)}


# ---- messages --------------------------------------------------------------------------------

ROLES = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}


@pytest.mark.parametrize("name", ROLES)
def test_roles(engine: Any, name: str) -> None:
    ledger = engine.Ledger(None, [{"role": name, "content": "x"}])
    assert ledger.message(0).role == ROLES[name]


BARE = {
    "string": ({"role": "user", "content": "hi"}, M.STRING_CONTENT | M.HAS_TEXT | M.USER_INPUT),
    "empty string": ({"role": "user", "content": ""}, M.STRING_CONTENT | M.EMPTY_CONTENT),
    "blank string": (
        {"role": "user", "content": " \n"},
        M.STRING_CONTENT | M.BLANK_CONTENT | M.USER_INPUT,
    ),
    "no content": ({"role": "user"}, M.EMPTY_CONTENT),
    "null": ({"role": "assistant", "content": None}, M.EMPTY_CONTENT),
    "empty list": ({"role": "user", "content": []}, M.EMPTY_CONTENT),
    "number": ({"role": "user", "content": 5}, M.BAD_CONTENT),
    "object": ({"role": "user", "content": {"type": "text"}}, M.BAD_CONTENT),
    "tuple": ({"role": "user", "content": (text("a"),)}, M.HAS_TEXT | M.USER_INPUT),
    "text": (user(text("hi")), M.HAS_TEXT | M.USER_INPUT),
    "blank text": (user(text(" ")), M.USER_INPUT),
    "only results": (user(result("x")), 0),
    "result and text": (user(result("x"), text("and")), M.HAS_TEXT | M.USER_INPUT),
    "image": (user(image()), M.HAS_MEDIA | M.USER_INPUT),
    "image in result": (user(result([image()])), M.HAS_MEDIA),
    "assistant text": ({"role": "assistant", "content": [text("a")]}, M.HAS_TEXT),
    "unknown key": ({"role": "user", "content": [], "extra": 1}, M.EMPTY_CONTENT | M.UNKNOWN_KEYS),
    "known keys": ({"role": "assistant", "content": [], "id": "m", "usage": {}}, M.EMPTY_CONTENT),
    "synthetic": (
        {"role": "assistant", "content": [], "model": "<synthetic>", "usage": {"input_tokens": 9}},
        M.EMPTY_CONTENT | M.SYNTHETIC,
    ),
    "output_config": (
        {"role": "system", "content": [], "output_config": {"effort": "low"}},
        M.EMPTY_CONTENT | M.OUTPUT_CONFIG,
    ),
    "clear_at": (
        {"role": "system", "content": "a", "clear_at": "never"},
        M.STRING_CONTENT | M.HAS_TEXT,
    ),
    "calls": (
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
        M.EMPTY_CONTENT | M.OPENAI_CHAT,
    ),
    "no calls": (
        {"role": "assistant", "content": "a", "tool_calls": []},
        M.STRING_CONTENT | M.HAS_TEXT | M.OPENAI_CHAT | M.EMPTY_CALLS,
    ),
    "calls null": (
        {"role": "assistant", "content": "a", "tool_calls": None},
        M.STRING_CONTENT | M.HAS_TEXT,
    ),
    "developer": (
        {"role": "developer", "content": "a"},
        M.STRING_CONTENT | M.HAS_TEXT | M.OPENAI_CHAT,
    ),
    "tool": ({"role": "tool", "content": "a"}, M.STRING_CONTENT | M.OPENAI_CHAT),
    "function": (
        {"role": "function", "content": "a"},
        M.STRING_CONTENT | M.OPENAI_CHAT | M.FUNCTION_ROLE,
    ),
    "refusal": ({"role": "assistant", "refusal": "no"}, M.EMPTY_CONTENT | M.OTHER_CONTENT),
    "reasoning": (
        {"role": "assistant", "content": "a", "reasoning_content": ""},
        M.STRING_CONTENT | M.HAS_TEXT | M.REASONING,
    ),
    "prefix": (
        {"role": "assistant", "content": "a", "prefix": True},
        M.STRING_CONTENT | M.HAS_TEXT | M.PREFIX,
    ),
}


@pytest.mark.parametrize(("item", "flags"), BARE.values(), ids=BARE)
def test_message_flags(engine: Any, item: Any, flags: int) -> None:
    assert engine.Ledger(None, [item]).message(0).flags == flags


def entry(message: Any = None, **more: Any) -> dict[str, Any]:
    return {"message": message or {"role": "user", "content": "hi"}, "type": "user", **more}


SAYS = M.STRING_CONTENT | M.HAS_TEXT
ENTRIES = {
    "plain": (entry(), SAYS | M.USER_INPUT),
    "meta": (entry(isMeta=True), SAYS | M.META),
    "not meta": (entry(isMeta=False, other=1), SAYS | M.USER_INPUT),
    "summary": (entry(isCompactSummary=True), SAYS | M.SUMMARY),
    "sidechain": (entry(isSidechain=True), SAYS | M.SIDECHAIN | M.USER_INPUT),
    "error": (
        entry({"role": "assistant", "content": "hi"}, isApiErrorMessage=True),
        SAYS | M.SYNTHETIC,
    ),
    "boundary": ({"type": "system", "subtype": "compact_boundary"}, M.BOUNDARY),
    "other system": ({"type": "system", "subtype": "turn_duration"}, 0),
    "metadata": ({"type": "custom-title", "message": "x"}, 0),
}


@pytest.mark.parametrize(("item", "flags"), ENTRIES.values(), ids=ENTRIES)
def test_entry_flags(engine: Any, item: Any, flags: int) -> None:
    assert engine.Ledger(None, [item]).message(0).flags == flags


def test_entries_without_a_message_cost_nothing(engine: Any) -> None:
    ledger = engine.Ledger(None, [{"type": "system", "content": "long " * 100}])
    message = ledger.message(0)
    assert (message.role, message.tokens, message.block_count) == (Role.NONE, 0, 0)


def test_an_entry_is_known_by_its_own_facts(engine: Any) -> None:
    message = {"role": "assistant", "id": "msg_1", "content": [text("a")], "uuid": "inner"}
    item = {"uuid": "u-1", "timestamp": "1970-01-01T00:00:01.5Z", "message": message}
    ledger = engine.Ledger(None, [item])
    digest = ledger.message(0)
    assert ledger.string(digest.uuid) == "u-1"
    assert ledger.string(digest.response_id) == "msg_1"
    assert digest.timestamp == 1500


def test_only_responses_have_a_response_id(engine: Any) -> None:
    ledger = engine.Ledger(None, [{"role": "user", "content": "a", "id": "x"}])
    assert ledger.message(0).response_id == 0


TIMES = {
    "2026-01-27T12:36:48.287Z": 1_769_517_408_287,
    "2026-01-27T12:36:48Z": 1_769_517_408_000,
    "2026-01-27T12:36:48": 1_769_517_408_000,
    "2026-01-27T13:36:48+01:00": 1_769_517_408_000,
    "2026-01-27T12:36:48.2879999-00:30": 1_769_519_208_287,
    "2024-02-29T00:00:00Z": 1_709_164_800_000,
    "2023-02-29T00:00:00Z": 0,
    "2026-13-01T00:00:00Z": 0,
    "2026-01-27 12:36:48Z": 0,
    "2026-01-27T24:00:00Z": 0,
    "2026-01-27T12:36:48.Z": 0,
    "2026-01-27T12:36:48.1234567890Z": 0,
    "2026-01-27T12:36:48+0100": 0,
    "2026-01-27T12:36:48+24:00": 0,
    "1969-12-31T23:59:59Z": 0,
    "1970-01-01T00:00:00+10:00": 0,
    "२०२६-01-27T12:36:48Z": 0,
    "": 0,
    1769517408: 0,
}


@pytest.mark.parametrize("value", TIMES)
def test_timestamps(engine: Any, value: Any) -> None:
    ledger = engine.Ledger(None, [entry(timestamp=value)])
    assert ledger.message(0).timestamp == TIMES[value]


USAGES = {
    "anthropic": (
        {
            "input_tokens": 1,
            "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 300,
            "output_tokens": 4000,
        },
        4321,
    ),
    "nulls": ({"input_tokens": 7, "cache_read_input_tokens": None}, 7),
    "zero": ({"input_tokens": 0, "output_tokens": 0}, 0),
    "last message iteration": (
        {
            "input_tokens": 1,
            "iterations": [
                {"type": "message", "input_tokens": 5, "output_tokens": 1},
                {"type": "message", "input_tokens": 50, "output_tokens": 2},
                {"type": "advisor_message", "input_tokens": 999},
            ],
        },
        52,
    ),
    "no message iteration": ({"input_tokens": 3, "iterations": [{"type": "compaction"}]}, 3),
    "openai": ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, 15),
    "openai without a total": ({"prompt_tokens": 10, "completion_tokens": 5}, 15),
    "responses": ({"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}, 15),
    "no object": (["input_tokens", 5], 0),
    "wrong types": ({"input_tokens": "5", "output_tokens": True, "total_tokens": 2.0}, 0),
    "negative": ({"input_tokens": -5, "output_tokens": 3}, 3),
    "huge": ({"input_tokens": 10**30}, 2**32 - 1),
}


@pytest.mark.parametrize(("usage", "total"), USAGES.values(), ids=USAGES)
def test_usage(engine: Any, usage: Any, total: int) -> None:
    item = {"role": "assistant", "content": "a", "usage": usage}
    message = engine.Ledger(None, [item]).message(0)
    assert message.usage == total
    assert bool(message.flags & M.HAS_USAGE) == (total > 0)


def test_usage_counts_only_on_responses(engine: Any) -> None:
    item = {"role": "user", "content": "a", "usage": {"input_tokens": 5}}
    assert engine.Ledger(None, [item]).message(0).usage == 0


# ---- errors ----------------------------------------------------------------------------------

TANGLED: list[Any] = []
TANGLED.append(TANGLED)


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def call(value: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t", "name": "Read", "input": value}


BAD = {
    "string": ("hello", "", '"hello"'),
    "null": (None, "", "null"),
    "list": ([], "", "list"),
    "bytes": (b"x", "", "bytes"),
    "nothing": ({}, "role", ""),
    "no role": ({"content": "hi"}, "role", ""),
    "role in an entry": ({"message": {"content": "hi"}}, "message.role", ""),
    "unknown role": ({"role": "robot", "content": "hi"}, "role", '"robot"'),
    "role of an entry": ({"message": {"role": 5}}, "message.role", "integer"),
    "long role": ({"role": "\ud800" + "x" * 50}, "role", '"\ufffd' + "x" * 39 + '…"'),
    "role no string": ({"role": None}, "role", "null"),
    "role unhashable": ({"role": []}, "role", "list"),
    "entry of a user": ({"type": "user", "message": "hi"}, "message", '"hi"'),
    "entry without": ({"type": "assistant"}, "message", "nothing"),
    "bytes in input": (user(call({"a": b"x"})), "content[0].input", "bytes"),
    "set in input": (user(text("a"), call([{1}])), "content[1].input", "set"),
    "key of input": (user(call({(1, 2): 3})), "content[0].input", "tuple"),
    "cycle": (user(call({"a": TANGLED})), "content[0].input", ""),
    "deep": (user(call(deep(129))), "content[0].input", ""),
    "long integer": (user(call({"a": 1 << 20_000})), "content[0].input", "integer"),
    "complex name": (user({**call({}), "name": 2j}), "content[0].name", "complex"),
    "bytes as text": (user(text(b"x")), "content[0].text", "bytes"),  # type: ignore[arg-type]
    "bytes in result": (user(result(b"x")), "content[0].content", "bytes"),
    "nested": (user(result([text("a"), text(b"x")])), "content[0].content[1].text", "bytes"),
    "unknown block": (user({"type": "new", "data": b"x"}), "content[0]", "bytes"),
    "no block": (user(b"x"), "content[0]", "bytes"),
    "arguments": (
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {1j: 2}}}]},
        "tool_calls[0].function.arguments",
        "complex",
    ),
    "in an entry": (entry(user(call({"a": b"x"}))), "message.content[0].input", "bytes"),
}


@pytest.mark.parametrize(("item", "field", "got"), BAD.values(), ids=BAD)
def test_invalid(engine: Any, item: Any, field: str, got: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        engine.Ledger(None, [{"role": "user", "content": "fine"}, item])
    assert (caught.value.index, caught.value.field, caught.value.got) == (1, field, got)
    assert caught.value.code == "invalid_message"


def test_deep_input_up_to_the_limit(engine: Any) -> None:
    (digest,) = engine.Ledger(None, [user(call(deep(128)))]).blocks(0)
    assert digest.chars == len("Read") + 127 * len('{"a":}') + len("{}")


def test_append_names_no_index(engine: Any) -> None:
    with pytest.raises(InvalidMessage) as caught:
        engine.Ledger().append({"role": "robot"})
    assert caught.value.index is None
    assert str(caught.value) == (
        'message, role: must be user, assistant, system, developer or tool (got "robot")'
    )


# ---- blocks ----------------------------------------------------------------------------------

KINDS = {
    "text": BlockKind.TEXT,
    "input_text": BlockKind.TEXT,
    "output_text": BlockKind.TEXT,
    "tool_use": BlockKind.TOOL_USE,
    "tool_result": BlockKind.TOOL_RESULT,
    "thinking": BlockKind.THINKING,
    "redacted_thinking": BlockKind.REDACTED_THINKING,
    "image": BlockKind.IMAGE,
    "image_url": BlockKind.IMAGE,
    "input_image": BlockKind.IMAGE,
    "document": BlockKind.DOCUMENT,
    "file": BlockKind.DOCUMENT,
    "input_file": BlockKind.DOCUMENT,
    "server_tool_use": BlockKind.SERVER_TOOL_USE,
    "mcp_tool_use": BlockKind.SERVER_TOOL_USE,
    "web_search_tool_result": BlockKind.SERVER_TOOL_RESULT,
    "mcp_tool_result": BlockKind.SERVER_TOOL_RESULT,
    "search_result": BlockKind.SEARCH_RESULT,
    "container_upload": BlockKind.CONTAINER_UPLOAD,
    "compaction": BlockKind.COMPACTION,
    "fallback": BlockKind.FALLBACK,
    "tool_addition": BlockKind.TOOL_CHANGE,
    "tool_removal": BlockKind.TOOL_CHANGE,
    "tool_reference": BlockKind.UNKNOWN,
    "brand_new": BlockKind.UNKNOWN,
    "": BlockKind.UNKNOWN,
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds(engine: Any, name: str) -> None:
    assert one(engine, {"type": name}).kind == KINDS[name]


EPHEMERAL = {"type": "ephemeral"}
BLOCKS = {
    "text": (text("hello"), 0),
    "empty": (text(""), B.EMPTY_TEXT),
    "no text": ({"type": "text"}, B.EMPTY_TEXT),
    "text no string": (text(5), B.EMPTY_TEXT),  # type: ignore[arg-type]
    "blank": (text("\u2003\x1f"), B.BLANK_TEXT | B.TRAILING_SPACE),
    "trailing": (text("hello\n"), B.TRAILING_SPACE),
    "zero width is no space": (text("a\u200b"), 0),
    "unknown key": (text("a", note=1), B.UNKNOWN_KEYS),
    "key of a foreign type": ({"type": "text", "text": "a", 1: 2}, B.UNKNOWN_KEYS),
    "cache": (text("a", cache_control=EPHEMERAL), B.CACHE_5M),
    "cache 5m": (text("a", cache_control={**EPHEMERAL, "ttl": "5m"}), B.CACHE_5M),
    "cache 1h": (text("a", cache_control={**EPHEMERAL, "ttl": "1h"}), B.CACHE_1H),
    "cache null": (text("a", cache_control=None), 0),
    "cache of another type": (text("a", cache_control={"type": "x"}), B.CACHE_BAD),
    "cache of another ttl": (text("a", cache_control={**EPHEMERAL, "ttl": "2h"}), B.CACHE_BAD),
    "cache of no ttl": (text("a", cache_control={**EPHEMERAL, "ttl": None}), B.CACHE_BAD),
    "cache with more": (text("a", cache_control={**EPHEMERAL, "scope": "x"}), B.CACHE_BAD),
    "cache no object": (text("a", cache_control="ephemeral"), B.CACHE_BAD),
    "cache edits": ({"type": "cache_edits"}, B.CACHE_EDIT),
    "cache reference": (
        {**result("a"), "cache_reference": None},
        B.CACHE_EDIT | B.UNKNOWN_KEYS,
    ),
    "citations": (text("a", citations=[{"type": "char_location"}]), B.HAS_CITATIONS),
    "opaque citations": (
        text("a", citations=[{"encrypted_index": "x"}]),
        B.HAS_CITATIONS,
    ),
    "no citations": (text("a", citations=[]), 0),
    "citations null": (text("a", citations=None), 0),
    "call": (call({}), 0),
    "call without id": ({"type": "tool_use", "name": "a", "input": {}}, B.MISSING_ID),
    "call id no string": ({**call({}), "id": 5}, B.MISSING_ID),
    "call bad id": ({**call({}), "id": "functions.x:3"}, B.BAD_ID),
    "call id with newline": ({**call({}), "id": "abc\n"}, B.BAD_ID),
    "call empty id": ({**call({}), "id": ""}, B.BAD_ID),
    "call input list": (call([]), B.INPUT_NOT_OBJECT),
    "call input null": (call(None), B.INPUT_NOT_OBJECT),
    "call no input": ({"type": "tool_use", "id": "t", "name": "a"}, B.INPUT_NOT_OBJECT),
    "caller": ({**call({}), "caller": {"type": "direct"}}, 0),
    "caller null": ({**call({}), "caller": None}, 0),
    "thinking": ({"type": "thinking", "thinking": "a", "signature": "s"}, B.HAS_SIGNATURE),
    "unsigned": ({"type": "thinking", "thinking": "a"}, 0),
    "omitted": (
        {"type": "thinking", "thinking": "", "signature": "s"},
        B.EMPTY_TEXT | B.HAS_SIGNATURE,
    ),
    "empty signature": ({"type": "thinking", "thinking": "a", "signature": ""}, 0),
    "empty data": ({"type": "redacted_thinking", "data": ""}, 0),
    "redacted": ({"type": "redacted_thinking", "data": "x"}, B.HAS_SIGNATURE),
    "redacted without": ({"type": "redacted_thinking"}, 0),
    "result": (result("a"), 0),
    "result error": (result("a", is_error=True), B.IS_ERROR),
    "result no error": (result("a", is_error=False), 0),
    "result error is a word": (result("a", is_error="true"), 0),
    "result none": ({"type": "tool_result", "tool_use_id": "t"}, 0),
    "result null": (result(None), 0),
    "result empty": (result(""), 0),
    "result blank": (result(" \n"), 0),
    "result empty list": (result([]), 0),
    "result blank texts": (result([text(""), text(" ")]), B.NESTED_BLANK),
    "result one text": (result([text(""), text("a")]), B.NESTED_BLANK),
    "result with a reference": (result([{"type": "tool_reference", "tool_name": "x"}]), 0),
    "result no string": (result({"a": 1}), B.BAD_NESTED),
    "result of numbers": (result([1]), B.BAD_NESTED),
    "result with a call": (result([call({})]), B.BAD_NESTED),
    "result without type": (result([{"text": "a"}]), B.BAD_NESTED),
    "result cached inside": (result([text("a", cache_control=EPHEMERAL)]), B.NESTED_CACHE),
    "result cites inside": (result([text("a", citations=[1])]), B.HAS_CITATIONS),
    "result image": (result([image()]), B.NESTED_MEDIA),
    "result document": (result([{"type": "document", "source": {}}]), B.NESTED_MEDIA),
    "result cleared": (result("[Old tool result content cleared]"), B.CLEARED),
    "result nearly cleared": (result("[Old tool result content cleared] "), 0),
    "result compacted": (result("[Compacted: read a.py, 20 lines]"), B.CLEARED),
    "result cleared in a list": (result([text("[Old tool result content cleared]")]), B.CLEARED),
    "result cleared and more": (result([text("[Compacted: x]"), text("a")]), 0),
    "result offloaded": (result("<persisted-output>\nx</persisted-output>"), B.OFFLOADED),
    "result offloaded in a list": (result([text("<persisted-output>")]), B.OFFLOADED),
    "result searched": (
        result([{"type": "search_result", "content": [text("a")]}]),
        B.CITATIONS_OFF,
    ),
    "search": (
        {"type": "search_result", "content": [text("a", citations=[1])], "citations": {}},
        B.CITATIONS_OFF | B.HAS_CITATIONS,
    ),
    "search cites": (
        {"type": "search_result", "content": [], "citations": {"enabled": True}},
        B.CITATIONS_ON,
    ),
    "document": (
        {"type": "document", "source": {}, "citations": {"enabled": True}},
        B.CITATIONS_ON,
    ),
    "server call": ({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, 0),
    "server result": ({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}, 0),
    "server result opaque": (
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s",
            "content": [{"type": "web_search_result", "encrypted_content": "x"}],
        },
        0,
    ),
    "server result opaque object": (
        {
            "type": "code_execution_tool_result",
            "tool_use_id": "s",
            "content": {"encrypted_stdout": "x"},
        },
        0,
    ),
    "compaction": (
        {"type": "compaction", "content": "a", "signature": "s", "encrypted_content": "x"},
        B.HAS_SIGNATURE,
    ),
    "compaction failed": ({"type": "compaction", "content": None}, B.NULL_CONTENT),
    "compaction empty": ({"type": "compaction", "content": ""}, B.EMPTY_TEXT),
    "unknown": ({"type": "brand_new", "any": 1}, 0),
    "unknown opaque": ({"type": "reasoning", "encrypted_content": "x"}, 0),
    "string": ("hello", B.NOT_A_BLOCK),
    "null": (None, B.NOT_A_BLOCK),
    "no type": ({"text": "a"}, B.NOT_A_BLOCK),
    "type no string": ({"type": 1}, B.NOT_A_BLOCK),
    "image": (image(), 0),
    "image tiff": (image(media_type="image/tiff"), B.BAD_FORMAT),
    "image no format": (image(media_type=None), B.BAD_FORMAT),
    "image by url": ({"type": "image", "source": {"type": "url", "url": "https://x"}}, 0),
    "image wide": (image(2001, 10), B.OVER_2000PX),
    "image high": (image(10, 8001), B.OVER_2000PX | B.OVER_8000PX),
    "image 2000": (image(2000, 2000), 0),
    "image nested": (result([image(9000, 1)]), B.NESTED_MEDIA | B.OVER_2000PX | B.OVER_8000PX),
    "image heavy": (image(data="A" * (5 * 2**20 + 1)), B.OVER_5MB),
    "image heavier": (image(data="A" * (10 * 2**20 + 1)), B.OVER_5MB | B.OVER_10MB),
    "image 5 MB": (image(data="A" * (5 * 2**20)), 0),
}


@pytest.mark.parametrize(("block", "flags"), BLOCKS.values(), ids=BLOCKS)
def test_block_flags(engine: Any, block: Any, flags: int) -> None:
    assert one(engine, block).flags == flags


NAMES = {
    "call": (call({}), "t", "Read"),
    "server call": (
        {"type": "server_tool_use", "id": "s", "name": "web_search"},
        "s",
        "web_search",
    ),
    "mcp call": ({"type": "mcp_tool_use", "id": "s", "name": "find"}, "s", "mcp:find"),
    "server result": ({"type": "web_tool_result", "tool_use_id": "s"}, "s", "web_tool_result"),
    "result": (result("a"), "t1", ""),
    "addition": ({"type": "tool_addition", "tool": {"name": "x"}}, "", "x"),
    "removal": ({"type": "tool_removal", "tool_name": "x"}, "", "x"),
    "unknown": ({"type": "brand_new"}, "", "brand_new"),
}


@pytest.mark.parametrize(("block", "block_id", "name"), NAMES.values(), ids=NAMES)
def test_ids_and_names(engine: Any, block: Any, block_id: str, name: str) -> None:
    ledger = engine.Ledger(None, [user(block)])
    (digest,) = ledger.blocks(0)
    assert (ledger.string(digest.id), ledger.string(digest.name)) == (block_id, name)


AUX = {
    "size": (image(640, 480), 640 << 16 | 480),
    "unknown size": (image(data="AAAA"), 0),
    "data url": (
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + png(3, 4)["data"]}},
        3 << 16 | 4,
    ),
    "flat data url": (
        {"type": "input_image", "image_url": "data:image/png;base64," + png(3, 4)["data"]},
        3 << 16 | 4,
    ),
    "nested images": (result([image(), text("a"), image()]), 2),
    "no image": (result("a"), 0),
    "addition": ({"type": "tool_addition"}, 1),
    "removal": ({"type": "tool_removal"}, 2),
}


@pytest.mark.parametrize(("block", "aux"), AUX.values(), ids=AUX)
def test_aux(engine: Any, block: Any, aux: int) -> None:
    assert one(engine, block).aux == aux


# ---- counting (TOK-1) ------------------------------------------------------------------------

COUNTS = {
    "text": (text("abcdef"), 6, 2),
    "half up": (text("ab"), 2, 1),
    "less than half": (text("a"), 1, 0),
    "code points": (text("😀é漢\ud800"), 4, 1),
    "call": (
        call({"path": "/a", "n": [1, 2.5, None, True]}),
        len('Read{"path":"/a","n":[1,2.5,null,true]}'),
        10,
    ),
    "call without input": ({"type": "tool_use", "id": "t", "name": "Read"}, 4, 1),
    "escapes": (call('"\\\n\x01'), len('Read"\\"\\\\\\n\\u0001"'), 5),
    "not a number": (
        call([float("nan"), float("-inf"), 1e16, 5e-324]),
        len("Read[NaN,-Infinity,1e+16,5e-324]"),
        8,
    ),
    "keys": (
        call({2: 1, None: 1, True: 1, 2.5: 1}),
        len('Read{"2":1,"null":1,"true":1,"2.5":1}'),
        9,
    ),
    "long integer": (call(10**100), 4 + 101, 26),
    "thinking": ({"type": "thinking", "thinking": "abcdefgh", "signature": "x" * 99}, 8, 2),
    "redacted": ({"type": "redacted_thinking", "data": "abcd"}, 4, 1),
    "result": (result("abcd"), 4, 1),
    "result parts": (result([text("a"), text("a")]), 2, 0),
    "result image": (result([text("abcd"), image()]), 4, 2001),
    "result other": (result([{"type": "x"}]), len('{"type":"x"}'), 3),
    "image": (image(), 0, 2000),
    "document": ({"type": "document", "source": {"type": "base64", "data": "A"}}, 0, 2000),
    "text document": ({"type": "document", "source": {"type": "text", "data": "abc"}}, 3, 2000),
    "other": (
        {"type": "container_upload", "file_id": "f"},
        len('{"type":"container_upload","file_id":"f"}'),
        10,
    ),
    "no block": ("ab", 4, 1),
}


@pytest.mark.parametrize(("block", "chars", "rough"), COUNTS.values(), ids=COUNTS)
def test_rough_count(engine: Any, block: Any, chars: int, rough: int) -> None:
    digest = one(engine, block)
    assert (digest.chars, digest.tokens) == (chars, rough)


def test_a_message_is_the_sum_of_its_blocks(engine: Any) -> None:
    ledger = engine.Ledger(None, [user(text("abcd"), text("ab"), text("a"))])
    assert ledger.message(0).tokens == 1 + 1 + 0


def test_fields_next_to_the_content_count_with_the_message(engine: Any) -> None:
    item = {"role": "assistant", "content": "abcd", "reasoning_content": "a" * 40, "refusal": None}
    ledger = engine.Ledger(None, [item])
    assert ledger.message(0).tokens == 1 + 10
    assert [block.tokens for block in ledger.blocks(0)] == [1]


def test_calibrated_counts_round_once_per_block(engine: Any) -> None:
    weights = engine.Weights(
        [2048, *[0] * (len(engine.features("")) - 1)], blocks=[1024] * 15, messages=[4096 * 3] * 5
    )
    items = [user(text("abc"), text("abcd"), image(28, 56))]
    ledger = engine.Ledger(weights, items)
    # 1.5 + 0.25 and 2 + 0.25 tokens; the image's two patches.
    assert [block.tokens for block in ledger.blocks(0)] == [2, 2, 2]
    assert ledger.message(0).tokens == 6 + 3


def test_documents_cost_by_their_size(engine: Any) -> None:
    weights = engine.Weights(
        [4096, *[0] * (len(engine.features("")) - 1)], blocks=[0] * 15, messages=[0] * 5
    )
    pages = [0, 1, 2**17, 2**17 + 1, 2**17 * 700]
    sources = [{"type": "base64", "data": "A" * size} for size in pages]
    texts = [{"type": "text", "data": "abc"}, {"type": "content", "content": [text("ab")]}]
    items = [user({"type": "document", "source": source}) for source in [*sources, *texts]]
    ledger = engine.Ledger(weights, items)
    found = [ledger.message(index).tokens for index in range(len(items))]
    assert found == [2000, 2000, 2000, 4000, 1_200_000, 3, 2]


# ---- OpenAI chat -----------------------------------------------------------------------------


def openai_call(**function: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "find", **function}}


CALLS = {
    "function": (openai_call(arguments='{"a":1}'), 0, 11, "find"),
    "custom": ({"id": "c1", "custom": {"name": "patch", "input": "abc"}}, 0, 8, "patch"),
    "flat": ({"id": "c1", "name": "f", "arguments": {"a": 1}}, B.BAD_ARGUMENTS, 8, "f"),
    "no arguments": (openai_call(), B.BAD_ARGUMENTS, 4, "find"),
    "no id": ({"function": {"name": "f", "arguments": ""}}, B.MISSING_ID, 1, "f"),
    "no object": ("find", B.NOT_A_BLOCK | B.MISSING_ID, 6, ""),
}


@pytest.mark.parametrize(("item", "flags", "chars", "name"), CALLS.values(), ids=CALLS)
def test_tool_calls(engine: Any, item: Any, flags: int, chars: int, name: str) -> None:
    message = {"role": "assistant", "content": "abcd", "tool_calls": [item]}
    ledger = engine.Ledger(None, [message])
    said, digest = ledger.blocks(0)
    assert (said.kind, digest.kind) == (BlockKind.TEXT, BlockKind.TOOL_USE)
    assert digest.flags == flags
    assert (digest.chars, ledger.string(digest.name)) == (chars, name)


def test_tool_message_is_one_result(engine: Any) -> None:
    parts = [text("abcd"), text("efgh")]
    item = {"role": "tool", "tool_call_id": "c1", "name": "find", "content": parts}
    ledger = engine.Ledger(None, [item, {"role": "tool", "content": ""}])
    (digest,) = ledger.blocks(0)
    assert (digest.kind, digest.flags, digest.tokens) == (BlockKind.TOOL_RESULT, 0, 2)
    assert (ledger.string(digest.id), ledger.string(digest.name)) == ("c1", "find")
    assert ledger.blocks(1)[0].flags == B.MISSING_ID


# ---- subclasses ------------------------------------------------------------------------------


def test_subclasses_are_what_they_extend(engine: Any) -> None:
    class Text(str):
        __slots__ = ()

    class Object(dict):  # type: ignore[type-arg]
        pass

    class Items(list):  # type: ignore[type-arg]
        pass

    block = Object(type=Text("tool_use"), id=Text("t"), name=Text("f"), input=Object(a=Text("x")))
    item = Object(role=Text("assistant"), content=Items([block]))
    ledger = engine.Ledger(None, [item])
    (digest,) = ledger.blocks(0)
    assert (digest.kind, digest.flags, digest.chars) == (
        BlockKind.TOOL_USE,
        0,
        1 + len('{"a":"x"}'),
    )
    assert type(ledger.string(digest.id)) is str


def test_strings_with_lone_surrogates_come_back(engine: Any) -> None:
    ledger = engine.Ledger(None, [user({**call({}), "id": "a\udc00"})])
    (digest,) = ledger.blocks(0)
    assert ledger.string(digest.id) == "a\udc00"
    assert ledger.find_call("a\udc00") == (0, 0)

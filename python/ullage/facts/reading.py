"""Reads messages and entries of any shape without trusting them: never raises, limits its depth.

One view for all: a string content is a text block, OpenAI's `tool_calls` are tool uses, its `tool`
messages are tool results. Nothing is copied but text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from ullage._late import orjson
from ullage.messages import BlockView, message_of

__all__ = [
    "TEXT_TYPES",
    "blocks_of",
    "clean",
    "flat_text",
    "result_text",
    "text_of",
]

MAX_DEPTH = 40
"""Deeper nesting is not read: only hostile tool inputs nest deeper."""

MAX_TEXT = 400_000
"""Characters read at the two ends of one text; the middle holds no fact that a summary would keep."""

MAX_NUMBER_BITS = 256
"""Larger integers are not written out: Python refuses to beyond 4300 digits."""


def blocks_of(item: Any) -> Iterator[BlockView]:
    """All blocks of a message, in one form for every provider."""
    message = message_of(item)
    if message is None:
        return
    if message.get("role") == "tool":
        yield _openai_result(message)
        return
    content = message.get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif _is_sequence(content):
        for block in content:
            if isinstance(block, (dict, Mapping)):  # dicts are recognised at once
                yield block
            elif isinstance(block, str):
                yield {"type": "text", "text": block}
    calls = message.get("tool_calls")
    if calls is not None and _is_sequence(calls):
        yield from (_openai_call(call) for call in calls if isinstance(call, (dict, Mapping)))


def _is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    if type(value) is list:
        return True
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _openai_result(message: Mapping[str, Any]) -> BlockView:
    return {
        "type": "tool_result",
        "tool_use_id": message.get("tool_call_id", ""),
        "content": message.get("content"),
    }


def _openai_call(call: Mapping[str, Any]) -> BlockView:
    function = call.get("function")
    function = function if isinstance(function, (dict, Mapping)) else call
    return {
        "type": "tool_use",
        "id": call.get("id", ""),
        "name": function.get("name", ""),
        "input": _arguments(function.get("arguments", function.get("input"))),
    }


def _arguments(raw: Any) -> Any:
    if not isinstance(raw, str):
        return raw
    try:
        return orjson.loads(raw)
    except ValueError:
        return {"arguments": raw}


def clean(given: Any, limit: int = MAX_TEXT) -> str:
    """A string that can be stored: no lone surrogates, at most `limit` characters (its two ends)."""
    if not isinstance(given, str):
        return ""
    text: str = given
    if len(text) > limit:
        half = limit // 2
        text = text[:half] + "\n" + text[-half:]
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def text_of(item: Any) -> str:
    """The text blocks of a message, one per paragraph."""
    message = message_of(item)
    if message is None:
        return ""
    content = message.get("content")
    if type(content) is str and message.get("role") != "tool":
        return clean(content) if not content.isspace() else ""
    texts = [clean(b.get("text")) for b in blocks_of(item) if b.get("type") in TEXT_TYPES]
    return "\n\n".join([text for text in texts if text and not text.isspace()])


TEXT_TYPES = ("text", "input_text", "output_text")
"""A tuple: a type that is not a string can be compared, but may have no hash."""


def result_text(block: BlockView) -> str:
    """The output of a tool as text; media as `[image]`, `[document]`."""
    content = block.get("content", block.get("output"))
    if isinstance(content, str):
        return clean(content)
    if isinstance(content, (dict, Mapping)):
        return flat_text(content)
    if not isinstance(content, Sequence):
        return ""
    return "\n".join(_result_part(part) for part in content)


def _result_part(part: Any) -> str:
    if not isinstance(part, (dict, Mapping)):
        return clean(part)
    kind = part.get("type")
    if kind in ("image", "document"):
        return f"[{kind}]"
    return clean(part.get("text"))


def flat_text(value: Any, depth: int = 0) -> str:
    """All strings inside a value, one per line, in order."""
    if isinstance(value, str):
        return clean(value)
    if value is None or depth >= MAX_DEPTH:
        return ""
    # Numbers only: the text of a foreign object may hold an address, and differ from run to run.
    if isinstance(value, (int, float)):
        long = isinstance(value, int) and value.bit_length() >= MAX_NUMBER_BITS
        return "" if long else str(value)
    if isinstance(value, (dict, Mapping)):
        return "\n".join(filter(None, [flat_text(v, depth + 1) for v in value.values()]))
    if _is_sequence(value):
        return "\n".join(filter(None, (flat_text(v, depth + 1) for v in value)))
    return ""

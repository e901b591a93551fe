"""The texts and images inside of a message, whatever its provider's form, and their exact counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from ullage.counting.exact import count_tokens_exact, encoding_for
from ullage.counting.models import Model
from ullage.exceptions import InvalidMessage

PER_MESSAGE: Final = 3
"""Tokens that frame a message; OpenAI's cookbook, "How to count tokens with tiktoken"."""

PER_NAME: Final = 1
"""For a message's `name`; from the same page."""

ANSWER: Final = 3
"""Every answer is primed with so many; from the same page."""

_TEXT_KEYS: Final = ("text", "thinking", "refusal", "data")
_IMAGES: Final = ("image", "image_url", "input_image")


def text_of(value: Any) -> str:
    """A string itself, `None` as nothing, blocks by their text, everything else as compact JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    blocks = isinstance(value, list | tuple) and all(
        isinstance(b, Mapping) and "text" in b for b in value
    )
    if blocks:
        return "\n".join(str(block["text"]) for block in value)
    return _json(value)


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        pass
    try:
        return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError) as exc:
        raise InvalidMessage(f"cannot be written as JSON ({type(exc).__name__})") from exc


# ---- exact -------------------------------------------------------------------------------------


def exact_text(text: str, row: Model) -> int:
    """Tokens of a text in the model's public vocabulary.

    Raises:
        InvalidPolicy: It has none.
    """
    encoding = row.encoding or encoding_for(row.name)
    return count_tokens_exact(text, encoding=encoding) if text else 0


def exact_system(system: Any, row: Model) -> int:
    """The system prompt as a message of its own; 0 without one."""
    text = text_of(system)
    return PER_MESSAGE + exact_text("system", row) + exact_text(text, row) if text else 0


def exact_message(message: Any, row: Model) -> int:
    """A message with its framing. Images and files are not text and count 0 here."""
    if not isinstance(message, Mapping):
        return 0
    texts = [str(message.get("role", "")), *_texts(message.get("content")), *_calls(message)]
    name = message.get("name")
    named = PER_NAME + exact_text(str(name), row) if name else 0
    return PER_MESSAGE + named + sum(exact_text(text, row) for text in texts)


def _calls(message: Mapping[str, Any]) -> Iterator[str]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list | tuple) else ():
        said = call.get("function") or call.get("custom") if isinstance(call, Mapping) else None
        function = said if isinstance(said, Mapping) else {}
        yield str(function.get("name", ""))
        yield text_of(function.get("arguments", function.get("input")))


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list | tuple) else ():
        if isinstance(block, Mapping):
            yield from _block_texts(block)


def _block_texts(block: Mapping[str, Any]) -> Iterator[str]:
    yield from (value for key in _TEXT_KEYS if isinstance(value := block.get(key), str))
    if block.get("type") == "tool_use":
        yield str(block.get("name", ""))
        yield _json(block.get("input", {}))
    yield from _texts(block.get("content"))


# ---- media -------------------------------------------------------------------------------------


def media(content: Any) -> Iterator[Mapping[str, Any]]:
    """The image blocks of a content, those inside tool results too."""
    for block in content if isinstance(content, list | tuple) else ():
        if not isinstance(block, Mapping):
            continue
        if block.get("type") in _IMAGES:
            yield block
        yield from media(block.get("content"))


def image_data(block: Mapping[str, Any]) -> str:
    """The base64 of an image block; "" where it is a reference."""
    found: Any = block.get("source") or block.get("image_url") or ""
    if isinstance(found, Mapping):
        found = found.get("data") or found.get("url") or ""
    if not isinstance(found, str):
        return ""
    head, mark, data = found.partition(";base64,")
    if mark and head.startswith("data:"):
        return data
    return "" if "://" in found[:16] else found

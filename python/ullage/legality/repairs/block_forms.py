"""One block in the form that the API takes: its text, input, content, keys and cache marker (A02 to A04, A08, A19, A20, A32)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from ullage.legality.repairs.known_keys import NESTED_KINDS, known_keys
from ullage.legality.repairs.texts import left_out
from ullage.legality.repairs.working_copy import USER, kind_of, text_block
from ullage.messages import THINKING

__all__ = ["changes", "dumps", "text_of"]


Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def changes(role: str, kind: str, strict_version: bool) -> Iterator[tuple[str, str, Change]]:
    """What is put into form in a block of this kind: the rule, what is said of it, and how."""
    yield "A32", "removed a cache edit or an unknown cache_control", _cache_control
    if known_keys(kind) is not None:
        yield "A04", f"removed keys that a {kind} block does not have", _known_keys
    if kind in THINKING:
        yield "A19", "took the cache marker off thinking", _unmarked
    if kind == "text":
        yield "A02", "made the text a string", _text
    if kind == "tool_use":
        yield "A08", "made the input an object", _input
    if kind == "tool_result":
        yield "A03", "made the content of the result what it may be", _result
    if kind in ("tool_result", "search_result"):
        yield "A02", f"dropped or repaired blank text inside a {kind} block", _filled
    if role == USER and strict_version:
        yield "A20", "removed citations", _uncited


def _without(block: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    if not any(key in block for key in keys):
        return block
    return {key: value for key, value in block.items() if key not in keys}


def _cache_control(block: Mapping[str, Any]) -> Mapping[str, Any]:
    block = _without(block, "cache_reference")
    marker = block.get("cache_control")
    if marker is None or _known_marker(marker):
        return block
    if isinstance(marker, Mapping) and marker.get("type") == "ephemeral":
        kept = {"type": "ephemeral"} | ({"ttl": "1h"} if marker.get("ttl") == "1h" else {})
        return {**block, "cache_control": kept}
    return _without(block, "cache_control")


def _known_marker(marker: Any) -> bool:
    if not isinstance(marker, Mapping) or marker.get("type") != "ephemeral":
        return False
    return set(marker) <= {"type", "ttl"} and marker.get("ttl", "5m") in ("5m", "1h")


def _known_keys(block: Mapping[str, Any]) -> Mapping[str, Any]:
    known = known_keys(kind_of(block))
    return block if known is None else _without(block, *(key for key in block if key not in known))


def _unmarked(block: Mapping[str, Any]) -> Mapping[str, Any]:
    return _without(block, "cache_control")


def _text(block: Mapping[str, Any]) -> Mapping[str, Any]:
    return block if isinstance(block.get("text"), str) else {**block, "text": text_of(block)}


def _input(block: Mapping[str, Any]) -> Mapping[str, Any]:
    given = block.get("input")
    if isinstance(given, Mapping):
        return block
    if isinstance(given, str):
        try:
            given = orjson.loads(given)
        except orjson.JSONDecodeError:
            pass
    if given is None or isinstance(given, Mapping):
        return {**block, "input": given or {}}
    return {**block, "input": {"value": given}}


def _result(block: Mapping[str, Any]) -> Mapping[str, Any]:
    content = block.get("content")
    if content is None or isinstance(content, str):
        return block
    if not isinstance(content, list | tuple):
        return {**block, "content": dumps(content)}
    nested = [_nested(part) for part in content]
    same = all(a is b for a, b in zip(nested, content, strict=True))
    return block if same else {**block, "content": nested}


def _nested(part: Any) -> Any:
    kind = kind_of(part)
    if kind in NESTED_KINDS:
        known = _cache_control(part)
        return _known_keys(known)
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return text_block(part["text"])
    return text_block(part if isinstance(part, str) else dumps(part))


def _filled(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without texts that say nothing; the result of a search keeps one line that says so."""
    content = block.get("content")
    if not isinstance(content, list | tuple):
        return block
    parts = [_said(part) for part in content]
    kept = [part for part in parts if kind_of(part) != "text" or text_of(part).strip()]
    if not kept and content and kind_of(block) == "search_result":
        kept = [text_block(left_out("no text"))]
    same = len(kept) == len(content) and all(a is b for a, b in zip(kept, content, strict=True))
    return block if same else {**block, "content": kept}


def _said(part: Any) -> Any:
    kind = kind_of(part)
    return _filled(part) if kind == "search_result" else _text(part) if kind == "text" else part


def _uncited(block: Mapping[str, Any]) -> Mapping[str, Any]:
    if kind_of(block) == "text" and block.get("citations"):
        return _without(block, "citations")
    content = block.get("content")
    if not isinstance(content, list | tuple) or kind_of(block) not in (
        "search_result",
        "tool_result",
    ):
        return block
    nested = [_uncited(part) if isinstance(part, Mapping) else part for part in content]
    same = all(a is b for a, b in zip(nested, content, strict=True))
    return block if same else {**block, "content": nested}


def text_of(block: Mapping[str, Any]) -> str:
    """What a text block says, whatever stands for its text."""
    text = block.get("text")
    return text if isinstance(text, str) else "" if text is None else dumps(text)


def dumps(value: Any) -> str:
    """Compact JSON of anything."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)

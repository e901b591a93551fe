"""Arguments of calls, which some providers send as JSON text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage._late import json, late, orjson, pattern

__all__ = ["arguments_in", "arguments_out", "dumps", "loads_object"]


def dumps(value: Any) -> str:
    """Compact JSON, keys in their order, characters as they are."""
    return _ENCODER.encode(value)


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
    if (known := _read_quickly(text)) is not None:
        return known
    value = loads_object(text)
    if value is None:
        return {"arguments": text}, {"unparsed": True}
    return value, ({} if dumps(value) == text else {"arguments": text})


_ODD = pattern(r"[0-9](?:\.[0-9]|[eE][-+0-9])|[0-9]{18}|[\s\[:,]-0")
"""Where a number may be that orjson reads or writes in another way than `json`."""


def _read_quickly(text: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The same, of nearly all texts; `None`: it takes the longer way."""
    if _ODD.search(text):
        return None
    try:
        value, raw = orjson.loads(text), text.encode()
        if type(value) is not dict:
            return None
        return value, ({} if orjson.dumps(value) == raw else {"arguments": text})
    except (ValueError, TypeError):  # no JSON, lone surrogates, too deep
        return None


def arguments_out(block: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
    """The text that was read, unless the input was changed since; else compact JSON."""
    value = block.get("input")
    if data.get("object"):
        return value
    if data.get("unparsed") and isinstance(value, Mapping) and set(value) == {"arguments"}:
        return value["arguments"]
    text = data.get("arguments")
    if isinstance(text, str):
        known = _read_quickly(text)
        if (loads_object(text) if known is None else known[0]) == value:
            return text
    return dumps({} if value is None else value)

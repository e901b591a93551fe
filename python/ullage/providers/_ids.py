"""Ids of tool calls and names of tools: mapped where a provider refuses them, everywhere alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ullage._late import hashlib, pattern
from ullage.messages import Item
from ullage.providers._common import bare, blocks_of

__all__ = ["call_ids", "map_ids", "map_names", "name_out", "reverse"]

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def call_ids(items: Iterable[Item]) -> list[str]:
    """Ids of all tool calls and results, in order of appearance, without repeats."""
    seen: dict[str, None] = {}
    for _, message in bare(items):
        for block in blocks_of(message.get("content")):
            key = {"tool_use": "id", "tool_result": "tool_use_id"}.get(str(block.get("type")), "")
            if isinstance(block.get(key), str):
                seen.setdefault(block[key])
    return list(seen)


def map_ids(
    ids: Iterable[str], accept: Callable[[str], bool], *, length: int, prefix: str = ""
) -> dict[str, str]:
    """New ids for those that the target refuses; the same in every process.

    An id is a hash of the old one, so that a call keeps it as the conversation grows. Ids that are
    fine are reserved first, and a collision is hashed again with a counter.
    """
    listed = list(ids)
    taken = {one for one in listed if accept(one)}
    mapped: dict[str, str] = {}
    for one in listed:
        if one not in taken and one not in mapped:
            mapped[one] = _fresh(one, taken, length, prefix)
            taken.add(mapped[one])
    return mapped


def _fresh(old: str, taken: set[str], length: int, prefix: str) -> str:
    attempt = 0
    while (new := prefix + _hashed(old, attempt, length)) in taken:
        attempt += 1
    return new


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
NAMELESS = "unnamed_tool"


def map_names(items: Iterable[Item], tools: Sequence[Mapping[str, Any]] | None) -> dict[str, str]:
    """New names for tools whose name the OpenAI forms refuse, in calls and definitions; the same in every process."""
    names = [tool.get("name") for tool in tools or () if "input_schema" in tool]
    for _, message in bare(items):
        blocks = blocks_of(message.get("content"))
        names += [block.get("name") for block in blocks if block.get("type") == "tool_use"]
    listed = dict.fromkeys(name for name in names if isinstance(name, str))
    taken = {name for name in listed if _NAME.fullmatch(name)}
    mapped: dict[str, str] = {}
    for name in listed:
        if name not in taken and name not in mapped:
            base = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:_NAME_CHARS]
            mapped[name] = _fresh(name, taken, 10, f"{base}_")
            taken.add(mapped[name])
    return mapped


def name_out(block: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The name under which a call is sent."""
    name = block.get("name")
    return names.get(name, name) if isinstance(name, str) else NAMELESS


def reverse(ids: Mapping[str, str]) -> dict[str, str]:
    """The provider's id → ours."""
    return {new: old for old, new in ids.items()}

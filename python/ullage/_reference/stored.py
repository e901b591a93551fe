"""What is stored in dicts, lists and strings whose classes may answer differently.

The Rust engine reads storage and runs no method of a subclass; so does the twin, which is given plain values.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["stored", "stored_text", "valid_text"]

_LEAVES: Final = frozenset({str, int, float, bool, type(None)})
_KINDS: Final = (str, dict, list, tuple, int, float)


def stored_text(text: str) -> str:
    """The characters of a string, as a plain one."""
    return text if type(text) is str else str.__str__(text)


def valid_text(text: str) -> str:
    """The text as UTF-8 can hold it, as tiktoken does it: pairs of surrogates are their character, lone ones U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def stored(value: Any) -> Any:
    """The value itself if all in it is of built-in types, else a copy that is; what JSON does not have stays."""
    return value if _is_plain(value) else _copy(value)


def _is_plain(value: Any) -> bool:
    """Whether no subclass is in it; each container is looked at once, however often it occurs."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind in _LEAVES:
            continue
        if kind is dict or kind is list or kind is tuple:
            if id(item) not in seen:
                seen.add(id(item))
                waiting.extend(item)
                waiting.extend(item.values() if kind is dict else ())
        elif isinstance(item, _KINDS):
            return False
    return True


def _copy(value: Any) -> Any:
    """A copy of built-in types; what occurs twice does so in the copy."""
    made: dict[int, Any] = {}
    waiting: list[Any] = []

    def plain(item: Any) -> Any:
        if isinstance(item, str):
            return stored_text(item)
        if isinstance(item, bool) or not isinstance(item, _KINDS):
            return item
        if isinstance(item, int):
            return int.__pos__(item)
        if isinstance(item, float):
            return float.__pos__(item)
        if id(item) not in made:
            made[id(item)] = {} if isinstance(item, dict) else []
            waiting.append(item)
        return made[id(item)]

    top = plain(value)
    while waiting:
        item = waiting.pop()
        into = made[id(item)]
        if isinstance(item, dict):
            # Other keys than strings are refused later, as they are.
            members = dict.items(item)
            into.update((plain(k) if isinstance(k, str) else k, plain(one)) for k, one in members)
        else:
            parts = list.__iter__(item) if isinstance(item, list) else tuple.__iter__(item)
            into.extend(map(plain, parts))
    return top

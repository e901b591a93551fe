"""Modules that load, and regular expressions that are compiled, when they are first used.

orjson loads `json`, `uuid` and `datetime`, `pathlib` loads `urllib.parse`: with `hashlib`, `decimal` and `fractions` a tenth of what importing a
`ContextManager` took. Only what most conversations use late or never stands here, and only modules on the way of that import take it from here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar, cast

T = TypeVar("T")


class _Late:
    """Has the attributes of what `make` returns; each is looked up there once."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> object:
        value = getattr(self._make(), name)
        setattr(self, name, value)
        return value


def late(make: Callable[[], T]) -> T:
    """What `make` returns, made when the first of its attributes is asked for; may be made more than once."""
    return cast("T", _Late(make))


if TYPE_CHECKING:
    import decimal as decimal
    import fractions as fractions
    import hashlib as hashlib
    import json as json
    import pathlib as pathlib
    from re import compile as pattern

    import orjson as orjson
else:
    decimal, fractions, hashlib, json, orjson, pathlib = (
        _Late(partial(import_module, name))
        for name in ("decimal", "fractions", "hashlib", "json", "orjson", "pathlib")
    )

    def pattern(text: str | bytes, flags: int = 0) -> _Late:
        return _Late(partial(re.compile, text, flags))

"""What loads on first use: names of a room, so that importing one of its modules does not load them all, optional packages, and modules and regular expressions that most conversations use late or never.

orjson loads `json`, `uuid` and `datetime`, `pathlib` loads `urllib.parse`: with `hashlib`, `decimal` and `fractions` a tenth of what importing a
`ContextManager` took. Only what is on the way of that import is late here. A hook before a compaction compiled 200 regular expressions,
half of its time, and used few of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ullage.exceptions import MissingExtra


def on_first_use(
    room: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__` (PEP 562).

    Args:
        room: The package's `__name__`.
        homes: Module of the package → the names that it holds, with spaces between them.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(import_module(f"{room}.{home_of[name]}"), name)
        setattr(sys.modules[room], name, value)
        return value

    return load, lambda: sorted(home_of)


loaded: Callable[[str], ModuleType] = cache(import_module)
"""A module by its name. Not `sys.modules`: what stands there may be half imported, by another thread."""


def optional(module: str, extra: str) -> ModuleType:
    """A module of an optional package.

    Raises:
        MissingExtra: It is not installed, or older than what the extra begins with; names the extra.
    """
    package = module.partition(".")[0]
    try:
        package_module = import_module(module)
    except ModuleNotFoundError as exc:
        if exc.name is None or exc.name.partition(".")[0] != package:
            raise  # it is there, and something of its own is missing
        raise MissingExtra(package, extra) from exc
    for distribution, oldest in _oldest(extra):
        refuse_older(distribution, oldest, extra)
    return package_module


def refuse_older(package: str, oldest: str, extra: str) -> None:
    """Refuse a release that nobody has tested.

    Raises:
        MissingExtra: It is installed and too old; names both versions.
    """
    release = installed(package)
    if release and _numbers(release) < _numbers(oldest):
        raise MissingExtra(package, extra, found=release, needed=oldest)


def installed(package: str) -> str:
    """The installed release; empty: there is none."""
    from importlib import metadata  # 40 modules, which most programs never need

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


@cache
def _oldest(extra: str) -> tuple[tuple[str, str], ...]:
    """The packages of an extra and the oldest release of each, by our own metadata: a checkout that is not installed has none."""
    from importlib import metadata

    try:
        requirements = metadata.requires("ullage") or []
    except metadata.PackageNotFoundError:
        return ()
    rows = [row.partition(";") for row in requirements]
    ours = [row for row, _, marker in rows if re.search(rf"extra *== *['\"]{extra}['\"]", marker)]
    matches = (re.match(r"([\w.-]+)[^>]*>=\s*([\d.]+)", row) for row in ours)
    return tuple((match[1], match[2]) for match in matches if match)


def _numbers(release: str) -> tuple[int, ...]:
    """For comparisons: a release before the first (`2.0.0rc1`) passes as the release."""
    return tuple(int(number) for number in re.findall(r"\d+", release.partition("+")[0])[:3])


def table(module: str, name: str) -> dict[str, Any]:
    """A file of TOML next to a module, which is named by its `__file__`."""
    import tomllib  # slow to import, and many processes read no table

    return tomllib.loads(pathlib.Path(module).with_name(name).read_text(encoding="utf-8"))


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
    import unicodedata as unicodedata
    from re import compile as pattern

    import orjson as orjson
else:
    decimal, fractions, hashlib, json, orjson, pathlib, unicodedata = (
        _Late(partial(import_module, name))
        for name in ("decimal", "fractions", "hashlib", "json", "orjson", "pathlib", "unicodedata")
    )

    def pattern(text: str | bytes, flags: int = 0) -> _Late:
        return _Late(partial(re.compile, text, flags))

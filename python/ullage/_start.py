"""What keeps a start short: names of a room, optional packages, modules and regular expressions load on first use, and frozen records share their methods.

orjson loads `json`, `uuid` and `datetime`, `pathlib` loads `urllib.parse`: with `hashlib`, `decimal` and `fractions` a tenth of what importing a
`ContextManager` took. Only what is on the way of that import is late here. A hook before a compaction compiled 200 regular expressions,
half of its time, and used few of them.

`dataclass(frozen=True)` compiles up to seven methods for each class, which was a quarter of what importing a `ContextManager` took:
those of `Frozen` are written once. In return an instance takes three times as long to make, so what is made for each message or
request is a dataclass of its own, or a named tuple: those have half of what they took, too.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast, dataclass_transform

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
    for distribution, oldest in oldest_releases(extra):
        refuse_older(distribution, oldest, extra)
    return package_module


def extra_module(module: str, extra: str, package: str = "") -> ModuleType:
    """A module of an optional package, of whichever release; `package`: its name, where its modules do not begin with it.

    Raises:
        MissingExtra: It is not installed, or not all that it needs; names the extra.
    """
    try:
        return import_module(module)
    except ImportError as exc:
        name = package or module.partition(".")[0].replace("_", "-")
        raise MissingExtra(name, extra) from exc


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
def oldest_releases(extra: str) -> tuple[tuple[str, str], ...]:
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
    import uuid as uuid
    from re import compile as pattern
    from typing import NamedTuple as NamedTuple

    import orjson as orjson
else:
    decimal, fractions, hashlib, json, orjson, pathlib, unicodedata, uuid = (
        _Late(partial(import_module, name))
        for name in "decimal fractions hashlib json orjson pathlib unicodedata uuid".split()
    )

    def pattern(text: str | bytes, flags: int = 0) -> _Late:
        return _Late(partial(re.compile, text, flags))

    class _NamedTuples(type):
        """What `typing.NamedTuple` makes, in half the time: that compiles each annotation, and exchanges the bases of the class at the end."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            types = body.get("__annotations__", {})
            record = namedtuple(name, types, defaults=[body[key] for key in types if key in body])
            for key in [key for key in body if key not in types]:
                setattr(record, key, body[key])
            record.__new__.__annotations__ = types
            return record

    NamedTuple = type.__new__(_NamedTuples, "NamedTuple", (), {})


class _Signature:
    """A class's arguments, for `help`, for editors, and to say what is wrong with a call."""

    def __get__(self, instance: object, owner: type[Frozen]) -> object:
        from inspect import Parameter, Signature

        shown = []
        for item in owner._items:
            kind = Parameter.KEYWORD_ONLY if item.kw_only else Parameter.POSITIONAL_OR_KEYWORD
            default = item.default if item.default_factory is MISSING else item.default_factory
            usual = Parameter.empty if default is MISSING else default
            shown.append(Parameter(item.name, kind, default=usual, annotation=item.type))
        return Signature(shown, return_annotation=None)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Frozen:
    """A dataclass whose instances do not change; `class Prices(Frozen, kw_only=True)` takes its values by name only."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    __match_args__: ClassVar[tuple[str, ...]]
    __signature__ = _Signature()
    _items: ClassVar[tuple[Field[Any], ...]]

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        super().__init_subclass__()
        dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        cls._items = dataclasses.fields(cls)

    def __init__(self, *args: object, **named: object) -> None:
        values = {**dict(zip(self.__match_args__, args, strict=False)), **named}
        fits = len(values) == len(args) + len(named)
        for item in self._items:
            if item.name in values:
                continue
            if item.default is not MISSING:
                values[item.name] = item.default
            elif item.default_factory is not MISSING:
                values[item.name] = item.default_factory()
            else:
                fits = False
        if not fits or len(values) > len(self._items):
            import inspect

            inspect.signature(type(self)).bind(*args, **named)  # raises what Python itself would
        vars(self).update(values)
        self.__post_init__()

    def __post_init__(self) -> None:
        """For a class that checks its values."""

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[object, ...]:
        return tuple([getattr(self, item.name) for item in self._items if item.compare])

    def __repr__(self) -> str:
        shown = [f"{item.name}={getattr(self, item.name)!r}" for item in self._items if item.repr]
        return f"{type(self).__qualname__}({', '.join(shown)})"

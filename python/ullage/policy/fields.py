"""Fields of a policy: each has a unit, a reason and limits, and is checked when the policy is created."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

from ullage.exceptions import InvalidPolicy

__all__ = ["EffectiveValue", "Group", "choice", "group", "names", "number", "switch"]

T = TypeVar("T")


class EffectiveValue(NamedTuple):
    """The current value of one setting: `name` is dotted (`snip.max_chars`), `unit` may be empty."""

    name: str
    value: object
    unit: str
    why: str


def number(
    default: float | None, unit: str, why: str, *, low: float = 0, high: float | None = None
) -> Any:
    """A numeric field; `None` as default means that the field may be `None` (off)."""
    limit = {
        "low": low,
        "high": high,
        "optional": default is None,
        "integer": isinstance(default, int),
    }
    return dataclasses.field(default=default, metadata={"unit": unit, "why": why, "number": limit})


def choice(default: Any, why: str, *choices: Any) -> Any:
    """A field that is one of some values."""
    return dataclasses.field(default=default, metadata={"why": why, "choices": choices})


def switch(default: bool, why: str) -> Any:
    """A field that is on or off."""
    return choice(default, why, True, False)


def names(default: tuple[str, ...], why: str) -> Any:
    """A field of names or patterns."""
    return dataclasses.field(default=default, metadata={"why": why, "names": True})


def _checknumber(name: str, value: Any, limit: Mapping[str, Any]) -> None:
    if value is None and limit["optional"]:
        return
    wanted = int if limit["integer"] else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise InvalidPolicy(
            name, value, "must be a whole number" if limit["integer"] else "must be a number"
        )
    if value < limit["low"] or (limit["high"] is not None and value > limit["high"]):
        upper = "" if limit["high"] is None else f" and at most {limit['high']:,}"
        raise InvalidPolicy(name, value, f"must be at least {limit['low']:,}{upper}")


def _checknames(name: str, value: Any) -> None:
    if not isinstance(value, tuple) or not all(isinstance(item, str) and item for item in value):
        raise InvalidPolicy(name, value, "must be a tuple of names")


def _check(name: str, value: Any, metadata: Mapping[str, Any]) -> None:
    if "number" in metadata:
        _checknumber(name, value, metadata["number"])
    elif "names" in metadata:
        _checknames(name, value)
    elif not any(
        value is choice or (value == choice and type(value) is type(choice))
        for choice in metadata["choices"]
    ):
        raise InvalidPolicy(
            name, value, f"must be one of {', '.join(map(repr, metadata['choices']))}"
        )


@dataclass_transform(kw_only_default=True, frozen_default=True)
def group(name: str) -> Callable[[type[T]], type[T]]:
    """Turn a class into a group of settings: frozen, keyword-only, with a name for dotted names and files."""

    def made(cls: type[T]) -> type[T]:
        # The rest is `Group`'s: it would be compiled for each of them at import.
        found = dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)(cls)
        found.GROUP = name  # type: ignore[attr-defined]
        return found

    return made


class Group:
    """Settings of one level; `GROUP` is its name in dotted names and files. Each subclass is a dataclass by `group`."""

    __slots__ = ()
    GROUP: ClassVar[str] = ""
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            if item.metadata:
                _check(f"{self.GROUP}.{item.name}", getattr(self, item.name), item.metadata)

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, item.name) for item in dataclasses.fields(self))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        names = (item.name for item in dataclasses.fields(self))
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({shown})"

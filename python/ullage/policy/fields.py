"""Fields of a policy: each has a unit, a reason and limits, and is checked when the policy is created."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, Final, NamedTuple, ParamSpec, TypeVar, cast, dataclass_transform

from ullage.exceptions import InvalidPolicy

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

    def as_group(cls: type[T]) -> type[T]:
        # The rest is `Group`'s: it would be compiled for each of them at import.
        record = dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)(cls)
        record.GROUP = name  # type: ignore[attr-defined]
        return record

    return as_group


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


# Refuses unknown keyword arguments at the call, with the nearest known name.


P = ParamSpec("P")
R = TypeVar("R")


def nearest(name: object, names: Iterable[str]) -> str:
    """A sentence with the known name closest to this one; empty if none is close."""
    from difflib import get_close_matches  # rarely needed, and slow to import

    close = get_close_matches(str(name), list(names), n=1)
    return f"did you mean {close[0]!r}?" if close else ""


def refuse_unknown(offered: Iterable[str], accepted: Iterable[str], where: str = "") -> None:
    """Refuse unknown names.

    Args:
        offered: Names, or a mapping by name.
        accepted: Those that there are.
        where: Prefix of the name in the error.

    Raises:
        InvalidPolicy: Names the first unknown one, and the nearest known one.
    """
    names = list(accepted)
    for name in offered:
        if name not in names:
            hint = nearest(name, names) or f"known: {', '.join(names)}"
            raise InvalidPolicy(f"{where}{name}", name, "is not an argument", hint=hint)


def known_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that an unknown keyword is an `InvalidPolicy` that names it, not a `TypeError`."""
    names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def waited(*args: P.args, **named: P.kwargs) -> Any:
            refuse_unknown(named, names)
            return await function(*args, **named)

        return cast("Callable[P, R]", waited)

    @wraps(function)
    def checked(*args: P.args, **named: P.kwargs) -> R:
        refuse_unknown(named, names)
        return function(*args, **named)

    return checked


# A policy for a small window: token and character counts keep the share that they have of a large one (WIN-8).


FULL_WINDOW_TOKENS: Final = 100_000
"""From this window on, a policy's numbers apply unchanged."""

_LEAST: Final[Mapping[str, int]] = {
    "tool_budget.max_result_chars": 2_000,
    "tool_budget.max_message_chars": 4_000,
    "tool_budget.preview_bytes": 200,
    "snip.max_chars": 1_000,
    "snip.reminder_tokens": 200,
    "micro.min_freed_tokens": 0,
    "collapse.min_span_tokens": 100,
    "keep.min_tokens": 0,
    "keep.max_tokens": 1,
    "summary.max_output_tokens": 256,
    "summary.facts_max_tokens": 0,
    "summary.user_messages_max_tokens": 100,
    "restore.file_max_tokens": 1,
    "restore.files_max_tokens": 1,
    "restore.skill_max_tokens": 1,
    "restore.skills_max_tokens": 1,
    "restore.plan_max_tokens": 1,
    "restore.state_max_tokens": 1,
    "truncate.margin_tokens": 0,
    "protect.large_read_chars": 1_000,
    "session_memory.start_tokens": 100,
    "session_memory.growth_tokens": 100,
    "session_memory.section_max_tokens": 100,
    "session_memory.total_max_tokens": 400,
    "offer.compact_min_tokens": 100,
}
"""The fields that are fitted, with the smallest sensible value of each."""


def fitted_values(
    values: Mapping[str, Any], defaults: Mapping[str, Any], window_tokens: int
) -> dict[str, int]:
    """The values that differ in a small window; empty from 100 000 tokens on.

    Args:
        values: Values of a policy, by dotted name.
        defaults: Values of its preset; a field that differs from it was set explicitly and stays.
        window_tokens: The context window.
    """
    if window_tokens >= FULL_WINDOW_TOKENS:
        return {}
    fitted_by_name: dict[str, int] = {}
    for name, least in _LEAST.items():
        value_read = values.get(name)
        if isinstance(value_read, int) and value_read == defaults.get(name):
            fitted = min(value_read, max(least, value_read * window_tokens // FULL_WINDOW_TOKENS))
            if fitted != value_read:
                fitted_by_name[name] = fitted
    return fitted_by_name

"""`Frozen`, a base of frozen dataclasses.

`dataclass(frozen=True)` compiles up to seven methods for each class, which was a quarter of what importing a `ContextManager` took.
Here they are written once. In return an instance takes three times as long to make, so what is made for each message or request
is a dataclass of its own.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, FrozenInstanceError
from typing import Any, ClassVar, dataclass_transform


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
        return (
            self._compared() == other._compared() if type(other) is type(self) else NotImplemented
        )

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[object, ...]:
        return tuple([getattr(self, item.name) for item in self._items if item.compare])

    def __repr__(self) -> str:
        shown = [f"{item.name}={getattr(self, item.name)!r}" for item in self._items if item.repr]
        return f"{type(self).__qualname__}({', '.join(shown)})"

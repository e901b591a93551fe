"""`dataclass` of the standard library with methods made on first use: a process that starts makes a hundred such classes, and calls few.

The standard decorator compiles six functions a class, which was half of the time that importing the manager took. Here equality, hash,
`repr` and freezing are functions that all classes share, and `__init__` is compiled when it is first looked up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


def _made(cls: type, *, shown: bool, eq: bool, frozen: bool, slots: bool, kw_only: bool) -> Any:
    """The class with the standard fields and slots, and with methods that nothing was compiled for."""
    own = cls.__dict__
    # Without a docstring the standard decorator would write out the signature.
    cls.__doc__ = cls.__doc__ or cls.__name__
    # It accepts a frozen base only for a class that it freezes itself.
    derived = any(hasattr(base, "__dataclass_fields__") for base in cls.__mro__[1:])
    made: Any = dataclasses.dataclass(
        init=False, repr=False, eq=False, frozen=frozen and derived, slots=slots, kw_only=kw_only
    )(cls)
    record = made.__dataclass_params__
    record.init, record.repr, record.eq, record.frozen = True, shown, eq, frozen
    if "__init__" not in own:
        made.__init__ = _Init(made, frozen)
    if shown and "__repr__" not in own:
        made.__repr__ = _repr
    if eq:
        _compared(made, own, frozen)
    if frozen and not derived:
        _freeze(made, slots)
    return made


def _compared(made: Any, own: Any, frozen: bool) -> None:
    made._compared_fields = _Compared()
    if own.get("__hash__") is None:
        made.__hash__ = _hash if frozen else None
    if "__eq__" not in own:
        made.__eq__ = _eq


def _freeze(made: Any, slots: bool) -> None:
    made.__setattr__, made.__delattr__ = _setattr, _delattr
    if slots and "__getstate__" not in made.__dict__:
        made.__getstate__, made.__setstate__ = _getstate, _setstate


# ---- methods that all classes share ----------------------------------------------------------


def _nothing(_: object) -> tuple[()]:
    return ()


class _Compared:
    """What reads the fields that are compared, kept in the class when it is first needed."""

    __slots__ = ()

    def __get__(self, one: object, cls: Any) -> Callable[[Any], Any]:
        names = [each.name for each in dataclasses.fields(cls) if each.compare]
        # Of a single name `attrgetter` returns no tuple.
        names = names * 2 if len(names) == 1 else names
        read: Any = staticmethod(attrgetter(*names) if names else _nothing)
        cls._compared_fields = read
        return read.__func__  # type: ignore[no-any-return]


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    read = self._compared_fields
    return read(self) == read(other)


def _hash(self: Any) -> int:
    return hash(self._compared_fields(self))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (each.name for each in dataclasses.fields(self) if each.repr)
    listed = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{self.__class__.__qualname__}({listed})"


def _setattr(self: Any, name: str, value: object) -> None:
    if _is_frozen(type(self), name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delattr(self: Any, name: str) -> None:
    if _is_frozen(type(self), name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(cls: Any, name: str) -> bool:
    """A subclass that is no dataclass may have attributes of its own."""
    return "__dataclass_fields__" in cls.__dict__ or name in cls.__dataclass_fields__


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


# ---- __init__ --------------------------------------------------------------------------------


class _Absent:
    """The default of a field that has a factory: shown in signatures as the standard library shows it."""

    def __repr__(self) -> str:
        return "<factory>"


_ABSENT = _Absent()


class _Init:
    """Stands for `__init__` until it is looked up, by a call or by whoever reads its signature."""

    __slots__ = ("cls", "frozen")

    def __init__(self, cls: type, frozen: bool) -> None:
        self.cls, self.frozen = cls, frozen

    def __get__(self, one: object, owner: type | None = None) -> Any:
        init = _compiled(self.cls, self.frozen)
        self.cls.__init__ = init  # type: ignore[misc]
        return init if one is None else init.__get__(one, owner)


def _compiled(cls: Any, frozen: bool) -> Any:
    fields = dataclasses.fields(cls)
    known: dict[str, Any] = {"_absent": _ABSENT, "_set": object.__setattr__}
    body = [_assigned(cls, each, frozen, known) for each in fields]
    if hasattr(cls, "__post_init__"):
        body.append("_self.__post_init__()")
    source = f"def __init__({', '.join(['_self', *_parameters(fields, known)])}):\n "
    exec(source + "\n ".join(each for each in body if each) + "\n pass", known)  # noqa: S102 - of names of fields
    init = known["__init__"]
    init.__annotations__ = {each.name: each.type for each in fields if each.init}
    init.__annotations__["return"] = None
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return init


def _parameters(fields: Any, known: dict[str, Any]) -> list[str]:
    """The fields in their order, then those that are passed by name only."""
    by_place = [_parameter(each, known) for each in fields if each.init and not each.kw_only]
    by_name = [_parameter(each, known) for each in fields if each.init and each.kw_only]
    return [*by_place, "*", *by_name] if by_name else by_place


def _parameter(field: Any, known: dict[str, Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"{field.name}=_absent"
    if field.default is dataclasses.MISSING:
        return str(field.name)
    known[f"_default_{field.name}"] = field.default
    return f"{field.name}=_default_{field.name}"


def _assigned(cls: Any, field: Any, frozen: bool, known: dict[str, Any]) -> str:
    """The line that sets a field; empty if it has no value yet."""
    name = value = field.name
    if field.default_factory is not dataclasses.MISSING:
        known[f"_make_{name}"] = field.default_factory
        made = f"_make_{name}()"
        value = f"{made} if {name} is _absent else {name}" if field.init else made
    elif not field.init:
        known[f"_default_{name}"], value = field.default, f"_default_{name}"
        if field.default is dataclasses.MISSING:
            return ""
    if not frozen:
        return f"_self.{name} = {value}"
    # The slot's own setter: half the time of `object.__setattr__`, which looks it up.
    slot = getattr(cls, name, None)
    if type(slot).__name__ != "member_descriptor":
        return f"_set(_self, {name!r}, {value})"
    known[f"_slot_{name}"] = slot.__set__  # type: ignore[union-attr]
    return f"_slot_{name}(_self, {value})"


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, repr=True, eq=True, frozen=False, slots=False, kw_only=False):  # noqa: A002 - its name there
        """As `dataclasses.dataclass`, for those of its arguments that are used here."""

        def made(cls):
            return _made(cls, shown=repr, eq=eq, frozen=frozen, slots=slots, kw_only=kw_only)

        return made if cls is None else made(cls)

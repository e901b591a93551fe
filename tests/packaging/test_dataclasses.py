"""Classes made by `ullage._dataclasses` behave as the standard library's do, and compile nothing before they are called."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field, fields, replace
from typing import Any

import pytest

from ullage import _dataclasses

quick = _dataclasses.dataclass


def pair(**settings: Any) -> tuple[Any, Any]:
    """The same class by both decorators."""

    def made(decorate: Any) -> Any:
        @decorate(**settings)
        class Point:
            x: int
            y: int = 2
            names: list[str] = field(default_factory=list, repr=False)
            note: str = field(default="", compare=False, kw_only=True)
            seen: int = field(default=7, init=False)

        return Point

    return made(dataclasses.dataclass), made(quick)


SETTINGS = [
    {"frozen": frozen, "slots": slots, "kw_only": kw_only}
    for frozen in (False, True)
    for slots in (False, True)
    for kw_only in (False, True)
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_class_is_as_the_standard_library_makes_it(settings: dict[str, bool]):
    standard, ours = pair(**settings)
    assert str(inspect.signature(ours)) == str(inspect.signature(standard))
    assert ours.__match_args__ == standard.__match_args__
    assert [each.name for each in fields(ours)] == [each.name for each in fields(standard)]
    one, other = standard(x=1, note="a"), ours(x=1, note="a")
    assert repr(other).removeprefix("pair.") == repr(one).removeprefix("pair.")
    assert dataclasses.asdict(other) == dataclasses.asdict(one)
    assert other.names == []
    assert other.names is not ours(x=1).names
    assert other == ours(x=1, note="b") != ours(x=2)
    assert other != one
    assert replace(other, x=5, names=["n"]).names == ["n"]
    assert copy.copy(other) == copy.deepcopy(other) == other
    assert hasattr(other, "__dict__") == hasattr(one, "__dict__")
    for value in (one, other):
        if settings["frozen"]:
            with pytest.raises(dataclasses.FrozenInstanceError, match="field 'x'"):
                value.x = 3
            with pytest.raises(dataclasses.FrozenInstanceError, match="field 'x'"):
                del value.x
        else:
            value.x = 3
            with pytest.raises(TypeError, match="unhashable"):
                hash(value)
    with pytest.raises(TypeError, match=r"__init__\(\) got an unexpected keyword argument 'z'"):
        ours(x=1, z=1)
    with pytest.raises(TypeError, match="missing 1 required"):
        ours()


@quick(frozen=True, slots=True)
class Kept:
    """At the top of a module, so that it can be pickled."""

    a: int
    b: tuple[str, ...] = ()


@quick(frozen=True, slots=True)
class Longer(Kept):
    """A frozen class of a frozen one."""

    c: str = "c"

    def __post_init__(self) -> None:
        if not self.c:
            raise ValueError("empty")


@dataclasses.dataclass(frozen=True)
class Theirs(Kept):
    """What a host makes of a class of ours."""

    d: int = 4


def test_pickles_hashes_and_classes_of_classes():
    for value in (Kept(1), Longer(1, ("x",), "y"), Theirs(1, ("x",), 5)):
        assert pickle.loads(pickle.dumps(value)) == value
        assert len({value, copy.copy(value)}) == 1
    assert Longer(1) != Kept(1)
    assert repr(Longer(1)) == "Longer(a=1, b=(), c='c')"
    with pytest.raises(ValueError, match="empty"):
        Longer(1, c="")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Theirs(1).d = 3  # type: ignore[misc]


def test_what_a_class_defines_is_kept():
    @quick(frozen=True, slots=True)
    class Own:
        a: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return False

    assert repr(Own(1)) == "own"
    assert Own(1) != Own(1)
    assert isinstance(hash(Own(1)), int)


def test_nothing_is_compiled_before_the_first_call():
    @quick(slots=True)
    class Late:
        a: int

    assert type(Late.__dict__["__init__"]).__name__ == "_Init"
    assert Late(1).a == 1
    assert inspect.isfunction(Late.__dict__["__init__"])

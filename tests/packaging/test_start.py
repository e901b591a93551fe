"""A `Frozen` class does what `dataclass(frozen=True)` does with the same fields; only its making differs."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import dataclass, field

import pytest

from ullage._start import Frozen


class Shared(Frozen):
    """Ours."""

    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)


class Named(Frozen, kw_only=True):
    """Ours, by name only."""

    name: str
    size: int = 3


@dataclass(frozen=True)
class Compiled:
    """Python's."""

    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class CompiledNamed:
    """Python's, by name only."""

    name: str
    size: int = 3


PAIRS = [(Shared, Compiled), (Named, CompiledNamed)]
CALLS = [
    ((), {"name": "a"}), ((), {"name": "a", "size": 4}), (("a",), {}), (("a", 4), {}), (("a",), {"size": 4}),
    ((), {}), (("a",), {"name": "b"}), ((), {"name": "a", "sise": 4}), ((), {"sise": 4}), (("a", 4, [], "", 5), {}),
]  # fmt: skip


@pytest.mark.parametrize("args", CALLS)
@pytest.mark.parametrize("pair", PAIRS)
def test_it_is_made_by_the_same_calls(pair, args):
    ours, theirs = (_made(kind, *args) for kind in pair)
    assert ours == theirs


def _made(kind, args, named):
    try:
        return dataclasses.asdict(kind(*args, **named))
    except TypeError as exc:
        return type(exc)


@pytest.mark.parametrize("pair", PAIRS)
def test_its_fields_and_arguments_are_the_same(pair):
    ours, theirs = pair
    assert ours.__match_args__ == theirs.__match_args__
    assert [(item.name, item.type) for item in dataclasses.fields(ours)] == [
        (item.name, item.type) for item in dataclasses.fields(theirs)
    ]
    shown, wanted = (inspect.signature(kind).parameters for kind in pair)
    assert [(at.name, at.kind, at.annotation) for at in shown.values()] == [
        (at.name, at.kind, at.annotation) for at in wanted.values()
    ]


def test_equality_hash_and_text_leave_out_the_same_fields():
    ours, theirs = Shared("a", note="x"), Compiled("a", note="x")
    assert repr(ours).partition("(")[2] == repr(theirs).partition("(")[2]
    assert ours == Shared("a", note="y") != Shared("b")
    assert ours != theirs
    assert hash(Named(name="a")) == hash(CompiledNamed(name="a"))
    assert Shared("a").parts is not Shared("a").parts


@pytest.mark.parametrize("change", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it)), dataclasses.replace])  # fmt: skip
def test_copies_are_equal(change):
    assert change(Shared("a", 4, [1])) == Shared("a", 4, [1])


def test_replace_checks_again_and_takes_only_fields():
    assert dataclasses.replace(Named(name="a"), size=5) == Named(name="a", size=5)
    with pytest.raises(TypeError, match="sise"):
        dataclasses.replace(Named(name="a"), sise=5)


def test_it_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError, match="size"):
        Shared("a").size = 5  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="size"):
        del Shared("a").size

"""Every error as it comes out of another process: the same class, text, fields and hint."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from ullage import exceptions
from ullage.exceptions import UllageError

VALUES = {"str": "words", "int": 3, "float": 2.5, "bool": True, "dict[str,": {"system": 3}}


KINDS = [
    each
    for each in vars(exceptions).values()
    if isinstance(each, type) and issubclass(each, UllageError)
]


def made(kind: type[UllageError]) -> UllageError:
    arguments, options = [], {}
    for name, parameter in inspect.signature(kind).parameters.items():
        value = VALUES.get(str(parameter.annotation).partition(" ")[0], ("words",))
        if parameter.kind is parameter.KEYWORD_ONLY:
            options[name] = value
        else:
            arguments.append(value)
    return kind(*arguments, **options)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("carried", [lambda it: pickle.loads(pickle.dumps(it)), copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])  # fmt: skip
def test_an_error_survives_the_way(kind: type[UllageError], carried) -> None:
    error = made(kind)
    came = carried(error)
    assert type(came) is kind
    assert str(came) == str(error) != ""
    assert (came.args, vars(came), came.code) == (error.args, vars(error), error.code)


def test_the_errors_of_the_tree_are_among_them() -> None:
    assert {exceptions.StoreError, exceptions.InvalidPolicy, exceptions.LeaseExpired} <= {*KINDS}

"""The public names: sorted, complete, importable, and each with a docstring."""

from __future__ import annotations

import inspect

import ullage


def test_all_is_sorted_and_importable():
    assert list(ullage.__all__) == sorted(ullage.__all__)
    for name in ullage.__all__:
        assert getattr(ullage, name) is not None


def test_every_public_object_says_what_it_is():
    for name in ullage.__all__:
        value = getattr(ullage, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name

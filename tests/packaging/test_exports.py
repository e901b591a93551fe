"""The public names: sorted, complete, importable, and each with a docstring."""

from __future__ import annotations

import inspect
import subprocess
import sys

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


def test_a_module_of_the_same_name_does_not_take_a_functions_place():
    program = """if True:
        import types
        import ullage.requests.to_request, ullage.sessions, ullage.legality.check
        from ullage.legality import Report
        wrong = [name for name in ullage.__all__ if isinstance(getattr(ullage, name), types.ModuleType)]
        print(wrong, ullage.validate([{"role": "user", "content": "hi"}]).ok)
    """
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == "['exact'] True\n"

"""The public names: sorted, complete, importable, and each with a docstring."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
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


def test_no_function_shares_a_modules_name():
    modules = {info.name for info in pkgutil.iter_modules(ullage.__path__)}
    others = {name for name in ullage.__all__ if not inspect.ismodule(getattr(ullage, name))}
    assert modules & others == set()


def test_attributes_of_modules_are_reached_by_their_path():
    importlib.import_module("ullage.requests.to_request")
    assert ullage.legality.check_rewrite is importlib.import_module("ullage.legality").check_rewrite
    assert "outgoing" in ullage.requests.to_request.__all__

"""The public names: few at the top, each in one room, importable, and each with a docstring."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import pydoc
import subprocess
import sys

import pytest

import ullage

ROOMS = (
    "batch",
    "compaction",
    "counting",
    "dropin",
    "dropin.anthropic",
    "dropin.langchain",
    "dropin.litellm",
    "dropin.tiktoken",
    "exceptions",
    "facts",
    "legality",
    "levels",
    "manager",
    "memory.notes",
    "memory.session",
    "messages",
    "observe",
    "policy",
    "providers",
    "recall",
    "replay",
    "requests",
    "sessions",
    "summarizers",
    "testing",
    "transcript",
)
MOST_NAMES = 40
TWO_SCREENS = 100


def test_the_top_level_is_small_sorted_and_importable():
    assert list(ullage.__all__) == sorted(ullage.__all__)
    assert len(ullage.__all__) <= MOST_NAMES
    for name in ullage.__all__:
        assert getattr(ullage, name) is not None


def test_dir_shows_the_public_names_and_nothing_else():
    shown = {name for name in dir(ullage) if not name.startswith("__")}
    assert shown == set(ullage.__all__)


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_lists_what_it_holds(room):
    module = importlib.import_module(f"ullage.{room}")
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018


def test_every_public_object_says_what_it_is():
    for name in ullage.__all__:
        value = getattr(ullage, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name


def test_what_help_says_before_the_classes_fits_two_screens():
    said = pydoc.plain(pydoc.render_doc(ullage)).partition("\nCLASSES\n")[0].splitlines()
    assert len(said) <= TWO_SCREENS
    assert all(any(name in line for line in said) for name in ullage.__all__)


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
    assert done.stdout == "[] True\n"


@pytest.mark.parametrize("room", ["", *ROOMS])
def test_no_public_name_is_a_modules_too(room):
    module = importlib.import_module(f"ullage.{room}".rstrip("."))
    inside = {info.name for info in pkgutil.iter_modules(getattr(module, "__path__", []))}
    own = {name for name in module.__all__ if not inspect.ismodule(getattr(module, name))}
    # A package and its function would differ only in how they are imported.
    assert own & (inside | {module.__name__.rpartition(".")[2]}) == set()


def test_attributes_of_modules_are_reached_by_their_path():
    importlib.import_module("ullage.requests.to_request")
    assert ullage.legality.check_rewrite is importlib.import_module("ullage.legality").check_rewrite
    assert "outgoing" in ullage.requests.to_request.__all__

"""The public names: few at the top, each in one room, importable, and each with a docstring."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import ullage
from tests.kit import names_of, top_names

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
    "stores",
    "summarizers",
    "testing",
    "testing.stores",
    "transcript",
)
MOST_NAMES = 42
MOST_PROMISED = 150
"""What docs/stability.md promises, at the top and in all rooms."""
TWO_SCREENS = 100
PACKAGE = Path(ullage.__file__).parent


def test_the_top_level_is_small_sorted_and_importable():
    names = top_names()
    assert len(names) <= MOST_NAMES
    for name in names:
        assert getattr(ullage, name) is not None


def test_type_checkers_see_the_names_that_load():
    read = ast.parse(Path(ullage.__file__).read_text(encoding="utf-8"))
    imports = [
        each
        for part in read.body
        if isinstance(part, ast.If)
        for each in part.body
        if isinstance(each, ast.ImportFrom)
    ]
    homes = {(each.module, alias.name) for each in imports for alias in each.names}
    assert homes == {(ullage._HOME_OF[name], name) for name in top_names()}
    # Without the second name it would be private to type checkers.
    assert all(alias.asname == alias.name for each in imports for alias in each.names)


def test_a_public_name_is_listed_once_and_there_are_few() -> None:
    listed = top_names()
    for path in sorted(PACKAGE.rglob("*.py")):
        for part in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "__all__":
                listed += ast.literal_eval(part.value)
    assert len(set(listed)) == len(listed)
    assert len(listed) <= MOST_PROMISED


@pytest.mark.parametrize("room", ROOMS)
def test_each_name_of_a_room_loads(room):
    module = importlib.import_module(f"ullage.{room}")
    names = names_of(room)
    assert names
    for name in names:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018


def test_every_public_object_says_what_it_is():
    for name in top_names():
        value = getattr(ullage, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name


def test_help_begins_with_two_screens_that_name_everything():
    said = pydoc.plain(pydoc.render_doc(ullage)).splitlines()[:TWO_SCREENS]
    assert all(any(name in line for line in said) for name in top_names())


def test_a_module_of_the_same_name_does_not_take_a_functions_place():
    program = """if True:
        import types
        import ullage.requests.to_request, ullage.sessions, ullage.legality.check
        from ullage.legality import Report
        wrong = [name for name in dir(ullage) if name[0] != "_" and isinstance(getattr(ullage, name), types.ModuleType)]
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
    names = names_of(room) if room else top_names()
    own = {name for name in names if not inspect.ismodule(getattr(module, name))}
    # A package and its function would differ only in how they are imported.
    assert own & (inside | {module.__name__.rpartition(".")[2]}) == set()


def test_attributes_of_modules_are_reached_by_their_path():
    importlib.import_module("ullage.requests.to_request")
    assert ullage.legality.describe is importlib.import_module("ullage.legality").describe
    assert ullage.requests.to_request.outgoing is ullage.outgoing

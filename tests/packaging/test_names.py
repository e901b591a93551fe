"""A file name and a class name mean one thing in the package, so that a search finds it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

import pytest
from benches.fidelity.mutants import PLACES

import ullage

PACKAGE = Path(ullage.__file__).parent

PARALLEL = {
    "anthropic.py",
    "bedrock.py",
    "gemini.py",
    "langchain.py",
    "litellm.py",
    "mistral.py",
    "openai.py",
    "openai_chat.py",
    "openai_responses.py",
    "pydantic_ai.py",
}
"""One for each provider, interface or framework, in every room that knows them apart."""

TWINS = ("_reference/", "dropin/litellm/", "dropin/tiktoken/")
"""Named as the files and types of the Rust core that they are twins of, or as the modules that they stand in for."""


def _files() -> list[str]:
    found = (path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    return sorted(name for name in found if not name.startswith(TWINS))


def _rule_and_repair(names: list[str]) -> bool:
    """`legality/NAME.py` says what is refused, `legality/repairs/NAME.py` repairs it."""
    return sorted(Path(name).parent.as_posix() for name in names) == [
        "legality",
        "legality/repairs",
    ]


def _command_and_room(names: list[str]) -> bool:
    """`cli/NAME.py` is the command of that name."""
    return len(names) == 2 and any(name.startswith("cli/") for name in names)


def test_no_file_name_stands_twice() -> None:
    by_name = defaultdict[str, list[str]](list)
    for name in _files():
        by_name[Path(name).name].append(name)
    twice = {
        name: places
        for name, places in by_name.items()
        if len(places) > 1
        and name not in PARALLEL | {"__init__.py"}
        and not _rule_and_repair(places)
        and not _command_and_room(places)
    }
    assert twice == {}


def test_no_class_name_stands_twice() -> None:
    homes = defaultdict[str, list[str]](list)
    for name in _files():
        for node in ast.walk(ast.parse((PACKAGE / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


@pytest.mark.parametrize("name", ["util", "utils", "helpers", "misc", "common", "base"])
def test_no_file_is_named_for_nothing(name: str) -> None:
    assert [each for each in _files() if Path(each).stem == name] == []


def test_the_maps_of_rooms_name_files_that_are_there() -> None:
    rows, gone = 0, []
    for room in PACKAGE.rglob("__init__.py"):
        for row in re.findall(
            r"^((?:[a-z_]+(?:, )?)+) {2,}\S", room.read_text("utf-8"), re.MULTILINE
        ):
            for name in row.split(", "):
                rows += 1
                if not (room.parent / f"{name}.py").exists() and not (room.parent / name).is_dir():
                    gone.append(f"{room.parent.name}/{name}")
    assert rows > 10  # else this test no longer knows how they are written
    assert gone == []


def test_faults_are_planted_into_files_that_are_there() -> None:
    assert [place for place in PLACES if find_spec(place) is None] == []

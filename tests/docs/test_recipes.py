"""CONTRIBUTING's recipes for a rule, a session format, a store, a threshold and a wrong count, followed in a copy of the sources.

The toys go where the recipe says and nowhere else; then the tests that it names run, and a program that uses the toy.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
if not (ROOT / "CONTRIBUTING.md").exists():
    pytest.skip("the sources are not here: `make slow` runs this", allow_module_level=True)


class Change(NamedTuple):
    """In one file: `new` right after `after`, or before its end; where there is no such file it is written."""

    path: str
    new: str
    after: str = ""


class Recipe(NamedTuple):
    heading: str
    changes: tuple[Change, ...]
    shows: str
    run: str = ""


RULE = Recipe(
    "Adding a rule of a provider",
    (
        Change(
            "python/ullage/legality/rules.toml",
            'A99 = { demand = "max_tokens is not 13", advice = "ask for 12", source = "ours" }\n',
        ),
        Change(
            "python/ullage/_reference/rules.py",
            '    if facts.max_tokens == 13:\n        out.error("A99", REQUEST, "max_tokens 13")\n',
            after='"""Bytes and tokens of the whole request (A23, A24)."""\n',
        ),
        Change(
            "tests/golden/vectors/anthropic_rules.py",
            "VECTORS += [\n"
            '    {**vector(f"A99{n}", "A99", "toy", [U("q")], errors="A99" * (n == 13), max_tokens=n), "ours": True}\n'
            "    for n in (12, 13, 14)\n"
            "]\n",
        ),
    ),
    "from ullage import validate\n"
    "report = validate([{'role': 'user', 'content': 'hi'}], max_tokens=13)\n"
    "assert report.rules == {'A99'} and 'ask for 12' in str(report), report\n",
    run="tests/golden/make_vectors.py",
)

FORMAT = Recipe(
    "Adding a session format",
    (
        Change(
            "python/ullage/transcript/formats/toy.py",
            "from ullage.transcript.formats import ReadSession, ReadTranscript\n\n\n"
            "def sniff(source):\n    return any('toy' in line for line in source.head)\n\n\n"
            "def read(source):\n    session = ReadSession(source.stem, source.warn)\n"
            "    for number, line in source.lines():\n"
            "        session.add({'role': line['toy'], 'content': line['words']}, line=number)\n"
            "    return ReadTranscript('toy', [session])\n",
        ),
        Change(
            "python/ullage/transcript/formats/__init__.py",
            '    "toy",\n',
            after='    "openhands",\n',
        ),
        Change(
            "tests/transcript/test_formats_readers.py",
            "\n\ndef test_toy(tmp_path):\n"
            "    path = jsonl(tmp_path / 'a.jsonl', {'toy': 'user', 'words': 'hi'}, {'toy': 'assistant', 'words': 'ok'})\n"
            "    assert formats.detect(path) == 'toy'\n"
            "    assert len(read(path).sessions[0].entries) == 2\n",
        ),
    ),
    "import pathlib, ullage\n"
    'pathlib.Path(\'a.jsonl\').write_text(\'{"toy": "user", "words": "hi"}\\n\')\n'
    "session = ullage.open_session('a.jsonl')\n"
    "assert session.format == 'toy' and session.messages[0]['content'] == 'hi'\n",
)

STORE = Recipe(
    "Adding a store",
    (
        Change(
            "python/ullage/stores/toy_store.py",
            "from ullage.stores.folder_store import FolderStore\n\n\n"
            "class ToyStore(FolderStore):\n"
            "    def __init__(self, address):\n"
            "        super().__init__(address.removeprefix('toy:'))\n",
        ),
        Change(
            "python/ullage/stores/store_protocols.py",
            '\n\n_KINDS["toy"] = "ToyStore"\n',
        ),
        Change("python/ullage/stores/__init__.py", '    "ToyStore",\n', after="__all__ = [\n"),
        Change(
            "python/ullage/stores/__init__.py",
            '        "toy_store": "ToyStore",\n',
            after="    __name__,\n    {\n",
        ),
        Change(
            "tests/stores/test_conformance.py",
            "\n\n@checks\ndef test_toy(check, tmp_path):\n"
            "    from ullage.stores import ToyStore\n\n"
            "    check(lambda: ToyStore(f'toy:{tmp_path}'))\n",
        ),
    ),
    "from ullage.stores import Worker, open_store\n"
    "store = open_store('toy:fleet')\n"
    "with Worker(store, model='claude-opus-4-5').checkout('a') as manager:\n"
    "    manager.add({'role': 'user', 'content': 'hi'})\n"
    "assert list(store.conversations()) == ['a']\n",
)

THRESHOLD = Recipe(
    "Changing a threshold",
    (
        Change(
            "python/ullage/policy.py",
            '    least_results: int = number(0, "results", "with fewer long results nothing is snipped")\n',
            after='    enabled: bool = switch(True, "in-place snip of long results")\n',
        ),
        Change(
            "python/ullage/levels/snip.py",
            "    long = [result for result in view.results() if result.chars > snip.max_chars]\n"
            "    if len(long) < snip.least_results:\n        return None\n",
            after="    view, policy, snip = context.view, context.policy, context.policy.snip\n",
        ),
        Change(
            "tests/levels/test_levels_golden.py",
            '    Case("snip", asked(step(1, 2_000), step(2, 2_000), step(3, 1)),\n'
            "         asked(step(1, 2_000), step(2, 1_990), step(3, 1)), (('t1', 't2'), 0),\n"
            '         {"snip.start_percent": 0, "snip.least_results": 2}),\n',
            after="CASES = [\n",
        ),
    ),
    "from ullage import Policy\n"
    "assert Policy().change({'snip.least_results': 2}).snip.least_results == 2\n"
    "(row,) = [each for each in Policy().effective() if each.name == 'snip.least_results']\n"
    "assert (row.value, row.unit) == (0, 'results'), row\n",
)

COUNT = Recipe(
    "When the count of a model is wrong",
    (
        Change(
            "python/ullage/counting/models.toml",
            '"toytron-1" = "gpt-5"\n',
            after="[aliases]\n",
        ),
        Change(
            "tests/counting/test_calibration.py",
            '        ("toytron-1", CHINESE, 480),\n',
            after='        ("gpt-5", CHINESE, 480),\n',
        ),
    ),
    "from ullage.counting import ModelTable\n"
    "assert ModelTable.builtin().find('toytron-1').family == 'o200k'\n",
)

RECIPES = [RULE, FORMAT, STORE, THRESHOLD, COUNT]
each_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.heading)


def named_files(recipe: Recipe) -> list[str]:
    """The paths in a recipe that begin at the top of the repository."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    text = page.split(f"\n## {recipe.heading}\n")[1].split("\n## ")[0]
    return re.findall(r"[` ]((?:python|tests|rust|benches)/[\w./]+)", text)


def is_named(path: str, names: list[str]) -> bool:
    return any(
        re.fullmatch(re.escape(name).replace("NAME", r"\w+"), path) is not None for name in names
    )


@each_recipe
def test_a_recipe_names_every_file_that_it_touches_and_only_files_that_exist(recipe: Recipe):
    names = named_files(recipe)
    assert all(is_named(change.path, names) for change in recipe.changes)
    assert [name for name in names if "NAME" not in name and not (ROOT / name).exists()] == []


@each_recipe
@pytest.mark.slow
@pytest.mark.timeout(300)  # a suite of its own, on the slower engine
def test_a_recipe_works(recipe: Recipe, tmp_path: Path):
    without = shutil.ignore_patterns("__pycache__", "_core*.so", "_core*.pyd")
    for name in ("python", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=without)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for change in recipe.changes:
        follow(change, tmp_path / change.path)
    if recipe.run:
        run(tmp_path, recipe.run)
    # The rules and readers of the copy are those of its Python engine: no extension is built here.
    run(tmp_path, "-c", recipe.shows)
    tests = re.findall(r"`(tests/\w+/test_\w+\.py)`", last_step(recipe))
    assert tests
    run(tmp_path, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)


def last_step(recipe: Recipe) -> str:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    text = page.split(f"\n## {recipe.heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\d\. (Run .*)$", text, re.MULTILINE)[-1]


def follow(change: Change, path: Path) -> None:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    assert text.count(change.after) == 1 or not change.after
    place = text.index(change.after) + len(change.after) if change.after else len(text)
    path.write_text(text[:place] + change.new + text[place:], encoding="utf-8")


def run(folder: Path, *arguments: str) -> None:
    environment = {**os.environ, "ULLAGE_ENGINE": "python", "PYTHONPATH": str(folder / "python")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]

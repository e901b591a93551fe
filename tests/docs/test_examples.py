"""Examples in docstrings and in the documents run as they stand."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import ullage

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def modules() -> list[str]:
    skipped = ("ullage.cli", "ullage._core", "ullage.__main__", "ullage.testing.server")
    names = (found.name for found in pkgutil.walk_packages(ullage.__path__, "ullage."))
    return [name for name in names if not name.startswith(skipped)]


@pytest.mark.parametrize("name", modules())
def test_docstrings(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(str(error))
    assert doctest.testmod(module, optionflags=FLAGS).failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_of_documents_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, path.name, "exec"), names)


def test_the_entry_points_have_an_example():
    for name in (
        "compact",
        "estimate_tokens",
        "group_rounds",
        "keep_window",
        "resume",
        "truncate_head",
        "warning_state",
    ):
        assert ">>>" in (getattr(ullage, name).__doc__ or ""), name

"""Finds real sessions: the folder that ULLAGE_CORPUS names, or `.corpus` next to the project's files.

They are nobody's to publish, so they are never part of the repository; without them these tests skip.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SUFFIXES = {".jsonl", ".json", ".traj"}


def corpus() -> Path | None:
    named = os.environ.get("ULLAGE_CORPUS")
    folder = Path(named) if named else Path(__file__).parents[2] / ".corpus"
    return folder if folder.is_dir() else None


def corpus_files(pattern: str = "*") -> list[Path]:
    """All session files, or those of the folders that fit; sorted, so that ids are stable."""
    folder = corpus()
    if folder is None:
        return []
    return sorted(path for path in folder.glob(f"{pattern}/*") if path.suffix in SUFFIXES)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`corpus_file` is every session, `claude_code_file` those of Claude Code."""
    for name, pattern in (("corpus_file", "*"), ("claude_code_file", "cc_*")):
        if name in metafunc.fixturenames:
            files = corpus_files(pattern)
            skip = pytest.param(None, marks=pytest.mark.skip(reason="no real sessions here"))
            ids = [f"{path.parent.name}-{path.stem[:8]}-{at}" for at, path in enumerate(files)]
            metafunc.parametrize(name, files or [skip], ids=ids or ["none"], scope="module")


@pytest.fixture(scope="session")
def claude_code_files() -> list[Path]:
    """All sessions of Claude Code; the test skips where there are none."""
    files = corpus_files("cc_*")
    if not files:
        pytest.skip("no real sessions here")
    return files

"""The page of ten summaries is what its program writes today."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not (ROOT / "tools").exists(), reason="needs the sources")
def test_the_page_is_what_the_program_writes(monkeypatch):
    program = str(ROOT / "tools" / "summary_examples.py")
    monkeypatch.setattr("sys.argv", [program, "--check"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(program, run_name="__main__")
    assert ended.value.code == 0

"""What `benches/SHOWN.md` names is there: each file, and each test in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "benches" / "SHOWN.md").read_text().split("## What is shown, and by what")[1]
NAMED = sorted(set(re.findall(r"`((?:tests|benches)/[\w/]+\.py(?:::\w+)?)`", SECTION)))

FILE = re.compile(r"`((?:\w+/)+[a-z_]+\.(?:py|toml|json|rs|md))`")


@pytest.mark.parametrize("name", NAMED)
def test_what_is_named_exists(name):
    file, _, test = name.partition("::")
    text = (ROOT / file).read_text()
    assert f"def {test}(" in text if test else "def " in text


def test_each_line_of_the_table_names_something():
    rows = [line for line in SECTION.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 14
    assert all("`tests/" in row or "`benches/" in row for row in rows)


def test_the_map_names_files_that_exist():
    if not (ROOT / "python").exists():
        pytest.skip("the sources are not here: `make types` runs this")
    pages = (ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md")
    names = {name for page in pages for name in FILE.findall(page.read_text(encoding="utf-8"))}
    assert {
        each
        for each in names
        if not (ROOT / each).exists() and not (ROOT / "python/ullage" / each).exists()
    } == set()
    assert "data/weights.json" in names


@pytest.mark.parametrize(
    ("cargo", "says"),
    [
        ("exit 1", "rustup default stable"),
        ("echo cargo 1.85.0 of some day", "or newer is needed, and this is cargo 1.85.0"),
    ],
)
def test_a_toolchain_that_cannot_build_is_named_before_the_build(tmp_path, cargo, says):
    if not (ROOT / "Makefile").exists():
        pytest.skip("the sources are not here: `make types` runs this")
    program = tmp_path / "cargo"
    program.write_text(f"#!/bin/sh\n{cargo}\n")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["make", "-C", str(ROOT), f"PYTHON={sys.executable}", "ready"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert says in done.stdout
    pure = subprocess.run([*command, "PURE=1"], env=environment, capture_output=True, check=False)
    assert pure.returncode == 0, pure.stderr

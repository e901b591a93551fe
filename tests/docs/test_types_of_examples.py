"""The examples of the documents and the programs in `examples/` are well typed: `mypy --strict` and pyright find nothing in them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ullage

ROOT = Path(__file__).parents[2]
PACKAGE = Path(ullage.__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
# Frameworks are not installed here.
DOCUMENTS = [ROOT / "README.md", *(path for path in PAGES if path.name != "integrations.md")]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """A folder with a module for each document: its blocks, one after the other, and what users write besides."""
    folder = tmp_path_factory.mktemp("examples")
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        blocks = [block for block in found if "langgraph" not in block]
        if blocks:
            (folder / f"{path.stem.lower().replace('-', '_')}_blocks.py").write_text(
                "\n".join(blocks)
            )
    for program in [Path(__file__).parent / "typical_use.py", *(ROOT / "examples").glob("*.py")]:
        shutil.copy(program, folder)
    return folder


def test_mypy_in_strict_mode_finds_nothing(examples):
    pytest.importorskip("mypy")
    pytest.importorskip("anthropic")
    pytest.importorskip("openai")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--cache-dir",
        str(examples / ".cache"),
        ".",
    ]
    done = subprocess.run(
        command, cwd=examples, env=_with_package("MYPYPATH"), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_finds_nothing(examples):
    known = [name for name in ("basedpyright", "pyright") if importlib.util.find_spec(name)]
    if not known:
        pytest.skip("neither basedpyright nor pyright is installed")
    settings = {
        "typeCheckingMode": "standard",
        "extraPaths": [str(PACKAGE)],
        "pythonVersion": f"{sys.version_info[0]}.{sys.version_info[1]}",
    }
    (examples / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", known[0], "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=examples, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _with_package(name):
    # An installed package is found without help, and mypy refuses site-packages in its path.
    return os.environ if "site-packages" in PACKAGE.parts else {**os.environ, name: str(PACKAGE)}

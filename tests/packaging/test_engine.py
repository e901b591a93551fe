"""The engine choice: Rust, the forced twin, and the fallback where no extension exists."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import ullage

pytestmark = pytest.mark.both_engines

PRINT = "from ullage import _engine; print(_engine.NAME)"


def run(code: str, engine: str | None, path: Path | None = None) -> subprocess.CompletedProcess:
    env = {key: value for key, value in os.environ.items() if key != "ULLAGE_ENGINE"}
    if engine is not None:
        env["ULLAGE_ENGINE"] = engine
    if path is not None:
        env["PYTHONPATH"] = str(path)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)


def without_extension(folder: Path) -> Path:
    copy = folder / "site"
    shutil.copytree(
        Path(ullage.__file__).parent,
        copy / "ullage",
        ignore=shutil.ignore_patterns("_core*.so", "_core*.pyd"),
    )
    return copy


def test_rust_by_default():
    assert run(PRINT, None).stdout.strip() == "rust"


def test_python_when_forced():
    assert run(PRINT, "python").stdout.strip() == "python"


def test_another_value_is_an_error():
    done = run(PRINT, "java")
    assert done.returncode != 0
    assert "must be rust or python (got 'java')" in done.stderr


def test_falls_back_where_no_extension_exists(tmp_path):
    assert run(PRINT, None, without_extension(tmp_path)).stdout.strip() == "python"


def test_rust_demanded_and_missing_is_an_error(tmp_path):
    done = run(PRINT, "rust", without_extension(tmp_path))
    assert "the extension is not installed" in done.stderr


def test_a_broken_extension_stays_loud(tmp_path):
    site = without_extension(tmp_path)
    (site / "ullage" / "_core.so").write_bytes(b"not an extension")
    done = run(PRINT, None, site)
    assert done.returncode != 0
    assert "_core.so" in done.stderr


def test_an_extension_of_another_version_is_refused(tmp_path):
    site = without_extension(tmp_path)
    (site / "ullage" / "_core.py").write_text("__version__ = '0.0.1'")
    done = run(PRINT, None, site)
    assert f"extension 0.0.1 does not belong to ullage {ullage.__version__}" in done.stderr


def test_the_version_is_that_of_the_source():
    cargo = Path(__file__).parents[2] / "Cargo.toml"
    if not cargo.is_file():
        pytest.skip("the sources are not here: an installed wheel is tested")
    stated = tomllib.loads(cargo.read_text(encoding="utf-8"))["workspace"]["package"]["version"]
    assert stated == ullage.__version__


def test_versions_agree():
    done = run(
        "from ullage import _core; import ullage; print(_core.__version__ == ullage.__version__)",
        None,
    )
    assert done.stdout.strip() == "True"

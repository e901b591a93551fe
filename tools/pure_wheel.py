"""Builds the wheel without the Rust extension: plain Python, for any interpreter that has no wheel of its own.

    python tools/pure_wheel.py --out dist/pure

The same files and the same public names as the other wheels; the engine is the twin in plain Python. No Rust is needed. Names and
dependencies are those of `pyproject.toml`, the version is that of `Cargo.toml`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
BACKEND = '[build-system]\nrequires = ["hatchling>=1.27"]\nbuild-backend = "hatchling.build"\n'
CONTENTS = '\n[tool.hatch.build.targets.wheel]\npackages = ["ullage"]\n'


def project() -> str:
    """The project's own description, for a builder that knows no Rust."""
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    version = cargo["workspace"]["package"]["version"]
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    text = text[text.index("[project]") :].replace(
        'dynamic = ["version"]', f'version = "{version}"'
    )
    described = re.split(r"^\[dependency-groups\]", text, maxsplit=1, flags=re.MULTILINE)[0]
    return BACKEND + described + CONTENTS


def build(out: Path) -> Path:
    """The wheel, in `out`, which is made where it is missing."""
    with tempfile.TemporaryDirectory(prefix="ullage-pure-") as name:
        folder = Path(name)
        (folder / "pyproject.toml").write_text(project(), encoding="utf-8")
        for file in ("LICENSE", "README.md"):
            shutil.copy(ROOT / file, folder)
        unwanted = shutil.ignore_patterns("_core*.so", "_core*.pyd", "__pycache__")
        shutil.copytree(ROOT / "python" / "ullage", folder / "ullage", ignore=unwanted)
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
        subprocess.run([*command, str(folder / "made"), str(folder)], check=True)
        (made,) = (folder / "made").glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(made, out))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="tools/pure_wheel.py", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "pure")
    print(build(parser.parse_args().out))
    return 0


if __name__ == "__main__":
    sys.exit(main())

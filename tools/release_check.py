"""Says what stands between this checkout and a release; a line for each finding, exit code 1 if there is one.

    python -m tools.release_check [--dist dist] [--tag v1.2.3] [--sbom FILE]

Looks at versions, the age of the model table, the changelog, links of the README, the project's description, every wheel and sdist in `--dist`, and licences of crates
and Python packages. With `--tag` it must be a release: the changelog has a heading for it, and no licence remains unread.
Fetches and compiles nothing.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.release import archives, bill, licences, texts
from tools.release.finding import Finding

ROOT = Path(__file__).resolve().parent.parent


def source(root: Path, tag: str | None) -> Iterator[Finding]:
    """What can be seen without building anything."""
    yield from texts.versions(root, tag)
    yield from texts.changelog(root, tag)
    yield from texts.links("README.md", texts.read(root / "README.md"), root)
    yield from texts.description(root)
    yield from texts.model_table(root, datetime.date.today())


def built(root: Path, dist: Path) -> Iterator[Finding]:
    """Every wheel and sdist in `dist`; at least one of each."""
    for kind, hint in (("*.whl", "make wheel"), ("*.tar.gz", "maturin sdist --out dist")):
        found = sorted(dist.glob(kind))
        if not found:
            yield Finding(str(dist), f"no {kind}", f"build one: {hint}")
        for path in found:
            judge = archives.wheel if kind == "*.whl" else archives.sdist
            yield from judge(path, root)


def known_crates(root: Path) -> tuple[list[licences.Crate], list[Finding]]:
    """The crates, or why cargo did not list them."""
    try:
        return licences.crates(root), []
    except (OSError, subprocess.CalledProcessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip().splitlines()
        return [], [Finding("cargo metadata", said[-1], "run `cargo fetch --locked` first")]


def packages(root: Path, tag: str | None) -> Iterator[Finding]:
    """Licences of Python packages; outside a release one that is not installed is a note."""
    for absent, finding in licences.python(root):
        if absent and tag is None:
            print(f"note: {finding}")
        else:
            yield finding


def write(path: Path, root: Path, crates: list[licences.Crate]) -> None:
    """The bill of materials."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(bill.bill(root, crates), indent=1) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="tools.release_check", description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--tag", help="the release, as v1.2.3")
    parser.add_argument("--sbom", type=Path, help="where the bill of materials is written")
    said = parser.parse_args(arguments)
    crates, found = known_crates(ROOT)
    found += [*source(ROOT, said.tag), *built(ROOT, said.dist)]
    found += [*licences.rust(crates), *packages(ROOT, said.tag)]
    if said.sbom and crates:
        write(said.sbom, ROOT, crates)
    print("\n".join(map(str, found)) or "release check: nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

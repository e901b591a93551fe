"""The programs that run here are those that the documents name, and newer ones are reported."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.programs.kit import ClaudeCode, Codex, MiniSwe, Vibe

ROOT = Path(__file__).parents[2]
PROGRAMS = [ClaudeCode, Codex, MiniSwe, Vibe]


def pinned(package):
    """The version in the groups `clients` and `vibe`."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    wanted = [each for each in groups["clients"] + groups["vibe"] if isinstance(each, str)]
    (found,) = [each.partition("==")[2] for each in wanted if each.startswith(f"{package}==")]
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_documents_name_what_is_pinned(program):
    page = (ROOT / "docs" / "clients.md").read_text()
    assert f"{program.package} {pinned(program.package)}" in page


def test_a_program_that_is_not_played_keeps_its_rows():
    clients = pytest.importorskip("benches.clients")
    runs = clients.written((ROOT / "benches" / "TABLES.md").read_text())
    assert {client: len(rows) for client, (rows, _) in runs.items()} == {
        client: len(list(clients.of(client))) for client in PROGRAMS
    }
    page = (ROOT / "benches" / "TABLES.md").read_text()
    assert clients.lines([runs[client] for client in PROGRAMS]) in page


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_runs_is_what_is_pinned(program):
    if not program.find():
        pytest.skip(f"{program.package} is not installed")
    assert program.version() == pinned(program.package)


def report_newer(package, release, python=sys.executable):
    """As a reason for a skip, since it is no fault; pip asks the package index that it is set up for."""
    command = [python, "-m", "pip", "index", "versions", package]
    # Asked once: with pip's five retries of 15 s an index that is silent would be a failure, not a reason.
    options = ["--disable-pip-version-check", "--retries", "0", "--timeout", "20"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=100)
    if done.returncode:
        pytest.skip("the package index cannot be asked")
    newest = re.search(r"\(([^)]+)\)", done.stdout)[1]
    if newest != release:
        pytest.skip(f"{package} {newest} is newer than what was run: {release}")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_newer_version_is_reported(program):
    if not program.find():
        pytest.skip(f"{program.package} is not installed")
    own = program is Vibe  # needs another Python than the other programs
    python = str(Path(program.find()).with_name("python")) if own else sys.executable
    report_newer(program.package, pinned(program.package), python)


def newest_releases():
    """Packages of SDKs, doors and frameworks, with the newest release that was tested."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    rows = [each for name in ("doors", "frameworks") for each in groups[name]]
    pins = (each.partition(";")[0].partition("==") for each in rows if isinstance(each, str))
    return sorted({(package.partition("[")[0], release) for package, _, release in pins if release})


@pytest.mark.parametrize(("package", "release"), newest_releases())
def test_a_newer_release_of_an_sdk_or_a_door_is_reported(package, release):
    if not any(program.find() for program in PROGRAMS):
        pytest.skip("the index is asked where the programs are installed")
    report_newer(package, release)

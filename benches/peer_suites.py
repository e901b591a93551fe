"""The peers' own tests, run over the drop-in functions: `python -m benches.peer_suites`.

Needs the dependency group `dropin` and the package index, from which pip brings the source distribution of the installed version of
tiktoken and langchain-core; each contains its tests. litellm publishes none: name a checkout with `--litellm FOLDER`.
The tests are copied to a temporary folder, their imports are replaced, and pytest runs them. A table says what passed; each failure
stands below it with its reason, and whether litellm's own functions fail too. Exit code 1: a suite could not be collected.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

_TAKEN = "from ullage.dropin.langchain import count_tokens_approximately, trim_messages\n"


@dataclass(frozen=True, slots=True)
class Suite:
    """A library's tests, and how they are made to call the drop-in.

    Attributes:
        package: Its name on the package index.
        tests: Files or folders, below the top of its sources.
        replaced: Patterns of lines and what stands there instead.
        added: Lines after the last import of each file.
        chosen: pytest's `-k`, which then goes without the suite's own fixtures; empty: all.
    """

    package: str
    tests: tuple[str, ...]
    replaced: tuple[tuple[str, str], ...] = ()
    added: str = ""
    chosen: str = ""


SUITES = (
    Suite(
        "tiktoken",
        ("tests",),
        replaced=(
            (r"(?m)^import tiktoken$", "from ullage.dropin import tiktoken"),
            (r"(?m)^from tiktoken\b", "from ullage.dropin.tiktoken"),
        ),
    ),
    Suite(
        "langchain-core",
        ("tests/unit_tests/messages/test_utils.py",),
        added=_TAKEN,
        chosen="trim or count or approx",
    ),
)
LITELLM = Suite(
    "litellm",
    (
        "tests/test_litellm/litellm_core_utils/test_token_counter.py",
        "tests/litellm_utils_tests/test_utils.py",
    ),
    replaced=(
        (r"(?m)^import litellm$", "from ullage.dropin import litellm"),
        (r"(?m)^from litellm(\.utils)? import", r"from ullage.dropin.litellm\1 import"),
    ),
    chosen="trim or token_counter or count",
)


def main(argv: list[str] | None = None) -> int:
    """Run the suites and print what came of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--litellm", type=Path, help="a checkout of litellm")
    options = parser.parse_args(argv)
    failures: list[str] = []
    print("| suite | version | passed | failed | skipped |\n| --- | --- | --: | --: | --: |")
    with tempfile.TemporaryDirectory(prefix="ullage-peers-") as folder:
        for suite in SUITES:
            source = _brought(suite.package, Path(folder))
            failures += _row(suite, source, Path(folder, f"{suite.package}-run"))
        if options.litellm is not None:
            alone = replace(LITELLM, replaced=())
            failures += _row(LITELLM, options.litellm, Path(folder, "litellm-run"))
            print("\nwithout the drop-in:", flush=True)
            failures += [
                f"without the drop-in: {each}"
                for each in _row(alone, options.litellm, Path(folder, "litellm-alone"))
            ]
    print("\n".join(["", *failures]))
    return exit_code(failures)


def exit_code(failures: Iterable[str]) -> int:
    """1: tests of a suite are missing from the table, since pytest could not import them."""
    return int(any("collection failure" in each for each in failures))


def _brought(package: str, folder: Path) -> Path:
    """The sources of the installed version, from the package index."""
    wanted = f"{package}=={importlib.metadata.version(package)}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", ":all:", "--dest", str(folder), wanted]
    subprocess.run(command, check=True)
    [archive] = folder.glob(f"{package.replace('-', '[-_]')}-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder / package, filter="data")
    [top] = (folder / package).iterdir()
    return top


def _row(suite: Suite, source: Path, place: Path) -> Iterable[str]:
    names = [
        _placed(suite, source, place, each) for each in suite.tests if (source / each).exists()
    ]
    report = place / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
    ]
    command += ["-k", suite.chosen, "--noconftest"] if suite.chosen else []
    run = subprocess.run(
        [*command, *names], cwd=place, capture_output=True, text=True, check=False, env=_paths()
    )
    if not report.exists():
        sys.exit(f"{suite.package}: its tests cannot be run: {run.stdout}{run.stderr}")
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [
        each for each in cases if each.find("failure") is not None or each.find("error") is not None
    ]
    skipped = sum(each.find("skipped") is not None for each in cases)
    version = importlib.metadata.version(suite.package)
    passed = len(cases) - len(failed) - skipped
    print(f"| {suite.package} | {version} | {passed} | {len(failed)} | {skipped} |", flush=True)
    return [f"{suite.package}: {each.get('name')}: {_reason(each)}" for each in failed]


def _paths() -> dict[str, str]:
    """The environment, with PYTHONPATH for the place where pytest runs: this folder's `tests` are not those of the suite."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    here = [
        str(Path(each).resolve()) for each in given if each and Path(each).resolve() != Path.cwd()
    ]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(here)}


def _placed(suite: Suite, source: Path, place: Path, test: str) -> str:
    """Copies the tests, rewritten, without the sources: the installed library is used."""
    target = place / "tests"
    if not target.exists():
        shutil.copytree(source / "tests", target)
        for file in target.rglob("*.py"):
            file.write_text(_rewritten(suite, file.read_text(encoding="utf-8")), encoding="utf-8")
    return test


def _rewritten(suite: Suite, text: str) -> str:
    for pattern, line in suite.replaced:
        text = re.sub(pattern, line, text)
    first = re.search(r"(?m)^(def|class|@|[A-Z_]+ =)", text)
    if suite.added and first and "trim_messages" in text:
        return text[: first.start()] + suite.added + text[first.start() :]
    return text


def _reason(case: ElementTree.Element) -> str:
    found = case.find("failure")
    found = case.find("error") if found is None else found
    message = "" if found is None else found.get("message", "")
    return " ".join(message.split())[:200]


if __name__ == "__main__":
    sys.exit(main())

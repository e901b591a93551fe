"""Runs the tests of what has changed since main, on the sources: no wheel, no build, answers within a minute.

    python tools/quick.py [pytest's own options]

Changed are files that differ from where this branch left main, and untracked ones. A module's tests are those of
its room (`python/ullage/levels/fold.py`: `tests/levels`) that name it, or all of the room where none does.
The Rust engine is used where an extension lies in `python/ullage` or is installed; the Python engine otherwise.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "python/ullage/"
ALWAYS = ("tests/packaging/test_imports.py", "tests/packaging/test_exports.py")
# What lies in no room of the same name.
ELSEWHERE = {
    "_reference": ("tests/engine",),
    "_engine": ("tests/engine",),
    "_core.pyi": ("tests/engine",),
    "data": ("tests/counting",),
    "messages": ("tests/counting/test_message_reader.py", "tests/engine/test_ledger.py"),
    "exceptions": ("tests/docs", "tests/cli/test_bad_input.py"),
    "effects": ("tests/compaction/test_compaction_effects.py",),
}
BUDGET_SECONDS = 45  # of tests; pytest itself takes some more


def changed() -> list[str]:
    """Paths that differ from main, or are new."""
    base = _git("merge-base", "main", "HEAD").strip() or "HEAD"
    tracked = _git("diff", "--name-only", "--diff-filter=d", base)
    return sorted(
        {*tracked.splitlines(), *_git("ls-files", "-o", "--exclude-standard").splitlines()}
    )


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout


def tests_of(path: str) -> list[str]:
    """The files and folders of tests for one changed path."""
    if path.startswith("tests/"):
        return [path] if re.search(r"/test_\w+\.py$", path) else _mentioning(path)
    if path.startswith("rust/"):
        return ["tests/engine", "tests/differential"]
    if path.endswith(".md"):
        return ["tests/benchmarks", "tests/docs"]
    if path.startswith("benches/"):
        return ["tests/benchmarks"]
    return _tests_of_module(path.removeprefix(PACKAGE)) if path.startswith(PACKAGE) else []


def _mentioning(path: str) -> list[str]:
    """The tests that import a shared file of tests."""
    name = path.removesuffix(".py").replace("/", ".")
    return sorted(
        str(each.relative_to(ROOT))
        for each in (ROOT / "tests").rglob("test_*.py")
        if name in each.read_text("utf-8")
    )


def _tests_of_module(path: str) -> list[str]:
    room, _, module = path.removesuffix(".py").partition("/")
    if room in ELSEWHERE:
        return list(ELSEWHERE[room])
    folder = ROOT / "tests" / room
    if not folder.is_dir():
        return []
    name = re.compile(
        rf"\bullage\.{room}\.{module.replace('/', '.')}\b|test_\w*{Path(module).name}\b"
    )
    naming = [
        f
        for f in sorted(folder.glob("test_*.py"))
        if name.search(f"{f.stem} {f.read_text('utf-8')}")
    ]
    return [str(each.relative_to(ROOT)) for each in naming] or [f"tests/{room}"]


def _without_inner(paths: Iterable[str]) -> list[str]:
    """Each path once; a file is left out where its folder is there."""
    wanted = dict.fromkeys(paths)
    return [each for each in wanted if not any(str(up) in wanted for up in Path(each).parents)]


def engine() -> tuple[str, str]:
    """Which engine, and the folder of an installed extension (empty: none is needed, or there is none)."""
    if any((ROOT / PACKAGE).glob("_core.*.so")) or any((ROOT / PACKAGE).glob("_core*.pyd")):
        return "rust", ""
    installed = importlib.util.find_spec("ullage")
    for folder in (installed.submodule_search_locations or ()) if installed else ():
        if any(Path(folder).glob("_core*.*")) and not Path(folder).samefile(ROOT / PACKAGE):
            return "rust", folder
    return "python", ""


def pytest_configure() -> None:
    """As a plugin: an installed extension serves the sources."""
    if folder := os.environ.get("ULLAGE_QUICK_EXTENSION"):
        import ullage

        ullage.__path__.append(folder)


def main() -> int:
    """Runs pytest; its exit code."""
    paths = changed()
    wanted = _without_inner([*ALWAYS, *(test for path in paths for test in tests_of(path))])
    name, folder = engine()
    print(f"{len(paths)} changed files, engine: {name}; tests: {' '.join(wanted)}", flush=True)
    if folder and any(path.startswith("rust/") for path in paths):
        print("rust/ has changed: the installed extension may be older", flush=True)
    given = os.environ.get("PYTHONPATH", "")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(ROOT), given]).rstrip(os.pathsep),
        "PYTHONHASHSEED": "0",
        "ULLAGE_QUICK_EXTENSION": folder,
    }
    if not folder:  # else other processes that a test starts find an engine of their own
        environment["ULLAGE_ENGINE"] = name
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "tools.quick"]
    command += ["--budget", str(BUDGET_SECONDS), *wanted, *sys.argv[1:]]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())

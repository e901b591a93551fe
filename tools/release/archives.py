"""What is inside wheels and sdists: all that is needed, and nothing that strayed in."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path

from tools.release.finding import Finding
from tools.release.texts import project, table, version

PURE = "-none-any.whl"
MOST_BYTES = 8_000_000  # of a wheel
SUFFIXES = {".py", ".pyi", ".toml", ".json", ".bpe", ".txt", ".md", ".typed"}
PAGES = {".css", ".html", ".j2", ".js"}  # of the report, the gateway's page and a client's plugin
EXTENSION = re.compile(r"ullage/_core\.[^/]*(so|pyd)")
STRAY = re.compile(
    r"(^|/)(tests?|benches|corpus|fuzz|seeds|__pycache__|\.[^/]+|target|dist|node_modules)/"
    r"|\.(pyc|pyo|jsonl|log|orig|rej|swp|tmp|bak|prof\w*)$|(^|/)(\.DS_Store|Thumbs\.db|NOTES[^/]*)$"
)
SDIST = {"Cargo.toml", "Cargo.lock", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
SDIST_FOLDERS = ("python/ullage/", "rust/core/", "rust/python/")
SDIST_NEEDS = ("rust/core/src/lib.rs", "rust/python/src/lib.rs", "rust/python/Cargo.toml")


def package(root: Path) -> set[str]:
    """The files of the package, as a wheel names them."""
    folder = root / "python"
    found = {path.relative_to(folder) for path in (folder / "ullage").rglob("*") if path.is_file()}
    kept = {path.as_posix() for path in found if "__pycache__" not in path.parts}
    return {name for name in kept if not EXTENSION.fullmatch(name)}


def wheel(path: Path, root: Path) -> Iterator[Finding]:
    """A wheel against the source at `root`."""
    place, info = path.name, f"ullage-{version(root)}.dist-info"
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    inside = {name for name in held if name.startswith("ullage/")}
    extensions = {name for name in inside if EXTENSION.fullmatch(name)}
    yield from compared(place, inside - extensions, package(root))
    if bool(extensions) == place.endswith(PURE):
        hint = "name it py3-none-any without an extension, and only then"
        yield Finding(place, f"extensions: {sorted(extensions)}", hint)
    needed = {f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    for name in sorted(needed | {f"{info}/licenses/LICENSE"}):
        if name not in held:
            yield Finding(place, f"{name} is missing", "build it again with the source's pyproject")
    outside = {name for name in held if not name.startswith(("ullage/", f"{info}/"))}
    yield from strays(place, set(held) - extensions, outside)
    if path.stat().st_size > MOST_BYTES:
        hint = f"at most {MOST_BYTES}: look for data that need not be in it"
        yield Finding(place, f"{path.stat().st_size} bytes", hint)
    yield from metadata(place, held.get(f"{info}/METADATA", b"").decode(), root)
    yield from recorded(place, held, f"{info}/RECORD")


def compared(place: str, inside: set[str], source: set[str]) -> Iterator[Finding]:
    """The same files of the package in the archive and in the source."""
    for name in sorted(source - inside):
        yield Finding(place, f"{name} is missing", "build it from this source")
    for name in sorted(inside - source):
        yield Finding(place, f"{name} is not in the source", "build it in a clean checkout")


def strays(place: str, names: set[str], outside: set[str]) -> Iterator[Finding]:
    """Files that no user needs; `outside` are those where no file is expected at all."""
    for name in sorted(names):
        known = Path(name).suffix in SUFFIXES | PAGES or not name.startswith("ullage/")
        if name in outside or STRAY.search(name) or not known:
            yield Finding(place, f"{name} strayed in", "exclude it, or build in a clean checkout")


def recorded(place: str, held: dict[str, bytes], record: str) -> Iterator[Finding]:
    """Each file has its digest in RECORD, or an installer refuses it."""
    rows = [row.rsplit(",", 2) for row in held.get(record, b"").decode().splitlines() if row]
    said = {row[0].strip('"'): row[1] for row in rows}
    for name in sorted(set(held) - {record}):
        digest = base64.urlsafe_b64encode(hashlib.sha256(held[name]).digest()).rstrip(b"=").decode()
        if said.get(name) != f"sha256={digest}":
            yield Finding(place, f"RECORD does not match {name}", "build it again; do not edit it")


def metadata(place: str, text: str, root: Path) -> Iterator[Finding]:
    """METADATA or PKG-INFO against `pyproject.toml`."""
    said, held = project(root), message_from_string(text)
    one = {
        "Version": version(root),
        "Summary": str(said.get("description")),
        "License-Expression": str(said.get("license")),
        "Requires-Python": str(said.get("requires-python")),
    }
    for name, value in one.items():
        if held[name] != value:
            yield Finding(place, f"{name} {held[name]}", f"the source says {value}: build it again")
    if not str(held["Description-Content-Type"]).startswith("text/markdown"):
        yield Finding(place, f"readme type {held['Description-Content-Type']}", "text/markdown")
    if len(str(held.get_payload())) < 200:
        yield Finding(place, "no README in the metadata", "name it in project.readme")
    several = {
        "Classifier": said.get("classifiers", []),
        "Provides-Extra": list(table(said.get("optional-dependencies"))),
    }
    for name, values in several.items():
        missing = set(values) - set(held.get_all(name, []))  # type: ignore[call-overload]
        for value in sorted(missing):
            yield Finding(place, f"{name} {value} is missing", "build it from this source")
    for label in table(said.get("urls")):
        if not any(row.startswith(f"{label},") for row in held.get_all("Project-URL", [])):
            yield Finding(place, f"Project-URL {label} is missing", "build it from this source")


def sdist(path: Path, root: Path) -> Iterator[Finding]:
    """A sdist against the source at `root`; cargo must be able to read what it holds."""
    place, top = path.name, f"ullage-{version(root)}/"
    with tarfile.open(path) as archive, tempfile.TemporaryDirectory(prefix="ullage-") as name:
        held = {each.name for each in archive.getmembers() if each.isfile()}
        for each in sorted(each for each in held if not each.startswith(top)):
            yield Finding(place, f"{each} strayed in", f"all lies under {top}")
        inside = {each.removeprefix(top) for each in held if each.startswith(top)}
        archive.extractall(name, filter="data")
        yield from cargo_reads(place, Path(name) / top)
        info = Path(name) / top / "PKG-INFO"
        yield from metadata(place, info.read_text("utf-8") if info.is_file() else "", root)
    for each in sorted((SDIST | set(SDIST_NEEDS)) - inside):
        yield Finding(place, f"{each} is missing", "look at [tool.maturin]")
    prefix = "python/"
    python = {each.removeprefix(prefix) for each in inside if each.startswith(prefix)}
    yield from compared(place, python, package(root))
    folders = (*SDIST_FOLDERS, *SDIST)
    yield from strays(place, inside, {each for each in inside if not each.startswith(folders)})


def cargo_reads(place: str, folder: Path) -> Iterator[Finding]:
    """Nothing that a manifest names may be missing; this neither compiles nor fetches."""
    command = ["cargo", "metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        yield Finding(place, f"cargo cannot be run: {error}", "install a Rust toolchain")
        return
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:] or ["no message"]
        yield Finding(place, f"cargo: {said[0]}", "put what the manifests name into the sdist")

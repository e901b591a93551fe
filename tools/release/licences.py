"""Licences of what Ullage is built from and what it installs: crates by cargo, Python packages by their metadata."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata as installed
from pathlib import Path
from typing import NamedTuple

from tools.release.finding import Finding
from tools.release.texts import project, table

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",  # orjson and certifi: used, not copied from
    "PSF-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}
# What older metadata writes instead of an expression.
NAMES = {
    "apache software license": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "bsd license": "BSD-3-Clause",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
}
UNKNOWN = "no licence that is known"


class Crate(NamedTuple):
    """A crate that is compiled in, or that builds one: name, version, licence, digest, and the crates it uses."""

    id: str
    name: str
    version: str
    licence: str
    used: tuple[str, ...]


def crates(root: Path) -> list[Crate]:
    """All that the extension is built from, tests and benchmarks left out; `CalledProcessError` where cargo fails."""
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    graph = json.loads(done.stdout)
    used = {
        node["id"]: tuple(
            each["pkg"]
            for each in node["deps"]
            if any(kind["kind"] in (None, "build") for kind in each["dep_kinds"])
        )
        for node in graph["resolve"]["nodes"]
    }
    start = next(row["id"] for row in graph["packages"] if row["name"] == "ullage-python")
    needed = reachable(start, used)
    return sorted(
        Crate(
            row["id"],
            row["name"],
            row["version"],
            row["license"] or "",
            tuple(sorted(used[row["id"]])),
        )
        for row in graph["packages"]
        if row["id"] in needed
    )


def reachable(start: str, used: dict[str, tuple[str, ...]]) -> set[str]:
    """`start`, and whatever it needs."""
    found, open_ = {start}, [start]
    while open_:
        for each in used[open_.pop()]:
            if each not in found:
                found.add(each)
                open_.append(each)
    return found


def allowed(expression: str) -> bool:
    """Whether an SPDX expression can be satisfied with allowed licences; crates also write `/` for OR."""
    words = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    spaced: list[str] = []
    rest = iter(words)
    for word in rest:
        if word.upper() == "WITH" and spaced:
            spaced[-1] += f" WITH {next(rest, '')}"
        else:
            spaced.append(word)
    answer, left = _either(spaced)
    return answer and not left


def _either(words: list[str]) -> tuple[bool, list[str]]:
    answer, words = _both(words)
    while words[:1] == ["OR"]:
        other, words = _both(words[1:])
        answer = answer or other
    return answer, words


def _both(words: list[str]) -> tuple[bool, list[str]]:
    answer, words = _one(words)
    while words[:1] == ["AND"]:
        other, words = _one(words[1:])
        answer = answer and other
    return answer, words


def _one(words: list[str]) -> tuple[bool, list[str]]:
    if words[:1] == ["("]:
        answer, words = _either(words[1:])
        return answer and words[:1] == [")"], words[1:]
    return bool(words) and words[0] in ALLOWED, words[1:]


def rust(found: list[Crate]) -> Iterator[Finding]:
    """Crates whose licence is not on the list."""
    for crate in found:
        if not allowed(crate.licence):
            place = f"crate {crate.name} {crate.version}"
            yield Finding(place, crate.licence or UNKNOWN, "replace it, or allow it in ALLOWED")


def requirements(root: Path) -> dict[str, list[str]]:
    """Requirements by extra; under `""` those that everyone installs."""
    said = project(root)
    extras = table(said.get("optional-dependencies"))
    return {"": list(said.get("dependencies", [])), **extras}  # type: ignore[call-overload,dict-item]


def licence(held: PackageMetadata) -> str:
    """The expression of an installed package, or what its older metadata amounts to; empty where unknown."""
    if held["License-Expression"]:
        return str(held["License-Expression"])
    rows = [row for row in held.get_all("Classifier") or [] if row.startswith("License ::")]
    short = [*(row.rsplit(" :: ", 1)[-1] for row in rows), str(held["License"] or "")]
    known = [NAMES.get(each.lower(), each) for each in short]
    return next((each for each in known if each in ALLOWED), known[0] if known else "")


def python(root: Path) -> Iterator[tuple[bool, Finding]]:
    """Findings about Python packages; True where one is not installed, so that nothing can be said of it."""
    for extra, rows in requirements(root).items():
        for row in rows:
            name = re.split(r"[<>=!~;\[ ]", row)[0]
            place = f"package {name}" + (f" (extra {extra})" if extra else "")
            try:
                said = licence(installed(name))
            except PackageNotFoundError:
                yield True, Finding(place, "not installed", "install it, to read its licence")
                continue
            if not allowed(said):
                hint = "replace it, or allow it in ALLOWED"
                yield False, Finding(place, said[:60] or UNKNOWN, hint)

"""Versions, changelog, links of the README and the project's own description, as they stand in the source."""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.release.finding import Finding

Table = dict[str, object]

HEADING = re.compile(r"^## \[([^\]]+)\](?: - (\S+))?\s*$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d\d-\d\d")
LINK = re.compile(r"\]\(([^)\s]+)(?:\s[^)]*)?\)|\b(?:href|src)=[\"']([^\"']+)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
ABSOLUTE = ("https://", "http://", "mailto:")
# Labels that the package index knows and shows with a sign of their own.
URLS = ("source", "documentation", "changelog", "issues")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
CLASSIFIERS = ("Development Status ::", "Intended Audience ::", "Typing :: Typed")


def table(value: object) -> Table:
    """`value` where it is a table, else an empty one."""
    return value if isinstance(value, dict) else {}


def read(path: Path) -> str:
    """The text of a file; empty where it does not exist."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def version(root: Path) -> str:
    """The version in `Cargo.toml`, which all else must equal."""
    workspace = table(tomllib.loads(read(root / "Cargo.toml")).get("workspace"))
    return str(table(workspace.get("package")).get("version", ""))


def project(root: Path) -> Table:
    """The table `[project]` of `pyproject.toml`."""
    return table(tomllib.loads(read(root / "pyproject.toml")).get("project"))


def versions(root: Path, tag: str | None) -> Iterator[Finding]:
    """Wherever the version stands, it is that of `Cargo.toml`; `tag` is None outside a release."""
    right = version(root)
    constant = re.search(r'^VERSION = "(.*)"', read(root / "python/ullage/_version.py"), re.M)
    said = {"python/ullage/_version.py": constant[1] if constant else "none"}
    locked = tomllib.loads(read(root / "Cargo.lock")).get("package", [])
    for name in ("ullage-core", "ullage-python"):
        found = [row["version"] for row in locked if row["name"] == name]
        said[f"Cargo.lock, {name}"] = found[0] if found else "none"
    if "version" not in project(root).get("dynamic", ()):  # type: ignore[operator]
        said["pyproject.toml"] = str(project(root).get("version"))
    if tag is not None:
        said["tag"] = tag.removeprefix("v")
    for place, value in said.items():
        if value != right:
            yield Finding(place, f"version {value}", f"Cargo.toml says {right}: make them equal")


def changelog(root: Path, tag: str | None) -> Iterator[Finding]:
    """`[Unreleased]` first, then releases with a date, newest first; a release has its own heading."""
    place = "CHANGELOG.md"
    rows = [(row[1], row[2]) for row in HEADING.finditer(read(root / place))]
    if not rows or rows[0] != ("Unreleased", None):
        yield Finding(place, "no [Unreleased] at the top", "begin with `## [Unreleased]`")
    released = [row for row in rows if row[0] != "Unreleased"]
    for name, day in released:
        if not DATE.fullmatch(day or ""):
            yield Finding(place, f"[{name}] without a date", f"write `## [{name}] - YYYY-MM-DD`")
    names = [name for name, _ in released]
    order = [[int(part) for part in re.findall(r"\d+", name)] for name in names]
    if order != sorted(order, reverse=True):
        yield Finding(place, f"releases in the order {', '.join(names)}", "put the newest first")
    if tag is not None and names[:1] != [version(root)]:
        hint = f"move what is under [Unreleased] to `## [{version(root)}] - YYYY-MM-DD`"
        yield Finding(place, f"no heading for {version(root)}", hint)


def anchors(text: str) -> set[str]:
    """The anchors that the package index gives a Markdown text's headings."""
    titles = re.findall(r"^#+\s+(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def links(place: str, text: str, root: Path) -> Iterator[Finding]:
    """On the package index there is no repository around the README: links are absolute, or go to a heading."""
    prose = CODE.sub("", text)
    for row in LINK.finditer(prose):
        target = row[1] or row[2]
        if target.startswith("#") and target[1:] not in anchors(prose):
            yield Finding(place, f"link {target}", "no heading has this anchor")
        elif not target.startswith((*ABSOLUTE, "#")):
            if not (root / target.split("#")[0]).exists():
                yield Finding(place, f"link {target}", "there is no such file")
            elif project(root).get("urls"):  # without an address that is the finding, once
                hint = "the package index cannot follow it: put the repository's address before it"
                yield Finding(place, f"link {target}", hint)


OLDEST_TABLE_DAYS = 60


def model_table(root: Path, today: datetime.date) -> Iterator[Finding]:
    """How old the model table is."""
    place = "python/ullage/counting/models.toml"
    stated = tomllib.loads(read(root / place)).get("version")
    if stated is None:
        return
    written = datetime.date.fromisoformat(stated)
    days = (today - written).days
    if days > OLDEST_TABLE_DAYS:
        hint = "compare it: python -m tools.model_table; then set its version"
        yield Finding(place, f"the table is {days} days old, of {written}", hint)


def description(root: Path) -> Iterator[Finding]:
    """What a package index shows and an installer needs."""
    place, said = "pyproject.toml", project(root)
    for key in ("description", "readme", "requires-python", "license", "license-files", "keywords"):
        if not said.get(key):
            yield Finding(place, f"project.{key} is missing", "add it")
    if said.get("readme") and not str(said["readme"]).endswith(".md"):
        yield Finding(place, f"project.readme {said['readme']}", "name a Markdown file")
    labels = {label.lower() for label in table(said.get("urls"))}
    if not labels:
        hint = "the maintainer's one step: python -m tools.release.address https://HOST/OWNER/NAME"
        yield Finding(place, "the project has no address (project.urls)", hint)
    for label in URLS if labels else ():
        if label not in labels:
            yield Finding(place, f"project.urls.{label} is missing", "add it")
    yield from classifiers([str(each) for each in said.get("classifiers", ())])  # type: ignore[attr-defined]


def classifiers(said: list[str]) -> Iterator[Finding]:
    """Every interpreter that gets a wheel, and what indexes filter by; the licence is an expression instead."""
    place = "pyproject.toml, classifiers"
    wanted = (*(f"Programming Language :: Python :: {each}" for each in PYTHONS), *CLASSIFIERS)
    for each in wanted:
        if not any(row == each or (each.endswith("::") and row.startswith(each)) for row in said):
            yield Finding(place, f"{each} is missing", "add it")
    for row in said:
        if row.startswith("License ::"):
            yield Finding(place, row, "remove it: `license` holds an expression")

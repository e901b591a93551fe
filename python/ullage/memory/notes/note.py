"""One note: Markdown with a front matter that says its name, what it is about and of which type it is (MEM-1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from ullage.exceptions import InvalidNote

__all__ = ["Note", "NoteType", "slug"]

MAX_DESCRIPTION: Final = 300
"""Characters: a description is read in lists of many."""

MAX_NAME: Final = 120


class NoteType(StrEnum):
    """What a note is about."""

    USER = "user"  # who the user is, how they work
    FEEDBACK = "feedback"  # what the user corrected or confirmed
    PROJECT = "project"  # goals, decisions, dates that the code does not tell
    REFERENCE = "reference"  # where things outside lie


_KEY = re.compile(r"^([A-Za-z_][\w-]*):[ \t]*(.*?)[ \t]*$")
_QUOTED = re.compile(r'^"((?:[^"\\]|\\["\\n])*)"$|^\'((?:[^\']|\'\')*)\'$')


@dataclass(frozen=True, slots=True)
class Note:
    """One note.

    Attributes:
        name: Its title.
        description: One line: when it matters.
        type: What it is about.
        body: Markdown; "" where only the head was read.
        path: Inside the folder; "" if it has not been written.
        changed_ns: Time of its last change; 0: unknown.
        others: Further keys of the front matter, kept as they are.
    """

    name: str
    description: str
    type: NoteType
    body: str = ""
    path: str = ""
    changed_ns: int = 0
    others: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Note({self.path or self.name!r}, {self.type.value})"

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > MAX_NAME or "\n" in self.name:
            raise InvalidNote(
                "name", self.name[:80], f"must be one line of 1 to {MAX_NAME} characters"
            )
        if len(self.description) > MAX_DESCRIPTION or "\n" in self.description:
            raise InvalidNote(
                "description",
                self.description[:80],
                f"must be one line of at most {MAX_DESCRIPTION} characters",
            )

    @classmethod
    def parse(cls, text: str, *, path: str = "", changed_ns: int = 0) -> Self:
        """Read a file.

        Raises:
            InvalidNote: The front matter is missing, not closed, without a name, or of no known type.
        """
        lines = text.removeprefix("\ufeff").split("\n")
        if lines[0].rstrip() != "---":
            raise InvalidNote(
                "front matter", lines[0][:40], "must begin with a line ---", path=path
            )
        end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
        if not end:
            raise InvalidNote("front matter", "", "must end with a line ---", path=path)
        keys = _keys(lines[1:end], path)
        given = keys.pop("type", "")
        if given not in list(NoteType):
            raise InvalidNote("type", given, f"must be one of {', '.join(NoteType)}", path=path)
        try:
            return cls(
                keys.pop("name", ""),
                keys.pop("description", ""),
                NoteType(given),
                "\n".join(lines[end + 1 :]).strip("\n"),
                path,
                changed_ns,
                tuple(keys.items()),
            )
        except InvalidNote as exc:
            raise InvalidNote(exc.field, exc.value, exc.limit, path=path) from None

    def render(self) -> str:
        """The file's text."""
        head = [("name", self.name), ("description", self.description), ("type", self.type.value)]
        lines = (f"{key}: {_value(value)}" for key, value in (*head, *self.others))
        return "\n".join(("---", *lines, "---", "", self.body.strip("\n"), ""))


def _keys(lines: list[str], path: str) -> dict[str, str]:
    """`key: value` lines; indented lines belong to a value that we do not read, and comments to nobody."""
    keys: dict[str, str] = {}
    for number, line in enumerate(lines, 2):
        if not line.strip() or line.lstrip().startswith("#") or line[0] in " \t-":
            continue
        match = _KEY.match(line)
        if match is None:
            raise InvalidNote(
                "front matter", line[:60], f"line {number} must be `key: value`", path=path
            )
        if match[1] in keys:
            raise InvalidNote(
                match[1], match[2][:60], f"is stated twice (line {number})", path=path
            )
        keys[match[1]] = _plain(match[2])
    return keys


def _plain(value: str) -> str:
    match = _QUOTED.match(value)
    if match is None:
        return value
    if match[1] is not None:
        return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], match[1])
    return match[2].replace("''", "'")


def _value(value: str) -> str:
    """Quoted where YAML would read something else than the text."""
    plain = re.fullmatch(r"[\w(][\w ().,/+-]*", value) and value == value.strip()
    if (
        plain
        and value.lower() not in ("true", "false", "null", "yes", "no", "on", "off")
        and not value[0].isdigit()
    ):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def slug(name: str) -> str:
    """A file name for a title: lower case letters, digits and hyphens of any script, then `.md`."""
    words = re.findall(r"\w+", name.casefold().replace("_", " "))
    return ("-".join(words)[:60].strip("-") or "note") + ".md"

"""Wordings of providers' errors: what a row is, and how a TOML file becomes rows. The data is `errors.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, cast, get_args

from ullage.exceptions import InvalidPolicy

__all__ = ["ErrorKind", "ErrorRow", "ErrorTable", "built_in", "read_errors"]

ErrorKind: TypeAlias = Literal[
    "overflow_tokens",
    "overflow_bytes",
    "silent_overflow",
    "output_budget",
    "thinking_binding",
    "tool_pairing",
    "malformed_history",
    "rate_limit",
    "overloaded",
    "auth",
    "none",
    "unknown",
]

_FIGURE: Final = r"\d[\d,_]*"
"""A figure as messages write it; `{N}` in a pattern."""

_FIELDS: Final = frozenset({"name", "source", "read", "rows"})


class ErrorRow(NamedTuple):
    """One wording: what it means, who says it, how it looks."""

    name: str
    kind: ErrorKind
    provider: str
    pattern: re.Pattern[str]


class ErrorTable(NamedTuple):
    """The rows of a file in their order, vetoes apart; packages that speak to one provider only."""

    vetoes: tuple[ErrorRow, ...]
    rows: tuple[ErrorRow, ...]
    packages: Mapping[str, str]


def built_in() -> ErrorTable:
    """The wordings that come with the library."""
    return read_errors(str(Path(__file__).with_name("errors.toml")))


@cache
def read_errors(path: str) -> ErrorTable:
    """A file of the form of `errors.toml`, read once in a process.

    Raises:
        InvalidPolicy: A group or row is not of the form; names its place.
        OSError: The file cannot be read.
    """
    text = Path(path).read_text(encoding="utf-8")
    return parsed(text, Path(path).name)


def parsed(text: str, name: str) -> ErrorTable:
    """The table that a TOML text holds; `name` is what errors call the file."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise InvalidPolicy(name, str(exc), "must be TOML") from exc
    groups = document.get("groups", [])
    vetoes = [
        row for at, one in enumerate(groups) if one.get("veto") for row in _rows(one, name, at)
    ]
    rows = [
        row for at, one in enumerate(groups) if not one.get("veto") for row in _rows(one, name, at)
    ]
    return ErrorTable(tuple(vetoes), tuple(rows), document.get("packages", {}))


def _rows(group: Mapping[str, object], name: str, at: int) -> Iterator[ErrorRow]:
    place = f"{name}: groups[{at}]"
    absent = sorted(_FIELDS - group.keys())
    if absent or not isinstance(group["read"], date) or not group["source"]:
        limit = "must have name, source (text), read (the date when it was looked at) and rows"
        raise InvalidPolicy(place, ", ".join(absent) or group.get("read"), limit)
    for number, row in enumerate(cast("list[object]", group["rows"])):
        yield _row(row, f"{place}.rows[{number}]")


def _row(given: object, place: str) -> ErrorRow:
    if not isinstance(given, list) or len(given) != 4 or not all(isinstance(x, str) for x in given):
        raise InvalidPolicy(place, given, "must be [name, kind, provider, pattern], all text")
    name, kind, provider, pattern = given
    if kind not in get_args(ErrorKind):
        raise InvalidPolicy(place, kind, f"must be one of {', '.join(get_args(ErrorKind))}")
    try:
        compiled = re.compile(pattern.replace("{N}", _FIGURE), re.IGNORECASE)
    except re.error as exc:
        raise InvalidPolicy(place, pattern, f"must be a regular expression ({exc})") from exc
    return ErrorRow(name, kind, provider, compiled)

"""The lines in which a summary lists names, and how the next compaction reads them again."""

from __future__ import annotations

import re

from ullage.facts.identifiers import NameKind

__all__ = ["LABELS", "LINES", "WELL_KNOWN", "homes_in", "label_of", "plain"]

LABELS = {
    NameKind.PATH: "- Paths",
    NameKind.SYMBOL: "- Names",
    NameKind.COMMAND: "- Commands",
    NameKind.OPTION: "- Options",
    NameKind.COMMIT: "- Hashes",
    NameKind.ID: "- Ids",
    NameKind.TICKET: "- Tickets",
    NameKind.URL: "- Addresses",
}
WELL_KNOWN = "- Well-known names in use"
LINES = (*LABELS.values(), WELL_KNOWN)
"""How the lines begin."""

_JOINS = {NameKind.PATH: "under", NameKind.SYMBOL: "in", NameKind.OPTION: "of"}


def label_of(kind: NameKind, home: str) -> str:
    """The beginning of a line: `- Names in cmd/main.go`; an empty home: `- Names`."""
    return f"{LABELS[kind]} {_JOINS[kind]} {home}" if home else LABELS[kind]


_UNDER = re.compile(r"^- Paths under (\S{1,400}): (.{1,20000})$", re.MULTILINE)
_HOME = re.compile(r"^- (?:Names in|Options of) ([^:\n]{1,400}): (.{1,20000})$", re.MULTILINE)


def plain(summary: str) -> str:
    """A summary with its lists of paths written out and without the lists that `homes_in` returns."""
    text = (
        _HOME.sub("", summary)
        if "- Names in " in summary or "- Options of " in summary
        else summary
    )
    return _UNDER.sub(_whole, text) if "- Paths under " in text else text


def _whole(line: re.Match[str]) -> str:
    return "\n".join(f"{line[1]}/{path}" for path in line[2].split(", "))


def homes_in(summary: str) -> list[tuple[str, str]]:
    """Each file or command for which a summary lists names, with the list."""
    return _HOME.findall(summary)

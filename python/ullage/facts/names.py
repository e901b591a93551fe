"""Names by their kind, commands, addresses and commits in a text.

Names are copied by code, never by a model: a path that is one letter off costs more turns than a missing paragraph (see `Facts.names`). What is
recognised is in `_reference/names.py`, and in Rust in `names.rs`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache

from ullage._engine import core
from ullage._start import pattern, table


class NameKind(StrEnum):
    """The kind of a name, by its form."""

    URL = "url"
    PATH = "path"
    COMMIT = "commit"
    ID = "id"
    TICKET = "ticket"
    SYMBOL = "symbol"
    OPTION = "option"
    COMMAND = "command"


# By the numbers of the core.
KINDS = tuple(map(NameKind, "path commit id ticket symbol option".split()))
_COMMIT_LINE = pattern(r"^\[(\S+)(?: \([\w -]+\))? ([0-9a-f]{7,40})\] (.{1,160})$", re.MULTILINE)
_URL = pattern(r"https?://[^\s<>\"'`\\\[\](){}|^]{4,300}")


def find_names(text: str) -> list[tuple[str, NameKind]]:
    """Every name in a text once, in order of first use; addresses come from `urls_in`."""
    return [(name, KINDS[kind]) for name, kind in core.find_names(text)]


_HEAD = pattern(
    r"(?:^|&&|\|\||[;|\n(])[ \t]*(?:[A-Z_]+=\S+ )*(?:sudo |time |exec |xargs )?"
    r"([a-z][\w.+-]{0,40} [a-z][\w:.-]{0,40}(?: [a-z][\w:.-]{0,40})?)"
)
# A text inside a command, such as the message of a commit: none of its lines is run.
_TYPED = pattern(
    r"<<-?[ \t]{0,4}['\"]?(?P<end>\w{1,40})['\"]?[^\n]*\n(?:.*?\n)??[ \t]*(?P=end)\b|\"(?:[^\"\\\n]|\\.){0,400}\n(?:[^\"\\]|\\.){0,4000}\"|'[^'\n]{0,400}\n[^']{0,4000}'",
    re.DOTALL,
)
_RUNNERS = frozenset({"run", "exec", "tool", "x", "-m"})
MAX_COMMAND = 2_000


def command_heads(command: str) -> list[str]:
    """The programs of a shell command with their subcommands: `git push`, `npm run build`; what follows `cd` and the like is a place."""
    heads: dict[str, None] = {}
    text = command[: 2 * MAX_COMMAND]
    if "\n" in text:
        text = _TYPED.sub(" ", text)
    for head in _HEAD.findall(text[:MAX_COMMAND]):
        words = head.split(" ")
        if words[0] not in _NO_PROGRAM and "." not in words[1]:
            heads[" ".join(words[: 3 if words[1] in _RUNNERS else 2])] = None
    return list(heads)


_NO_PROGRAM = frozenset(
    "cd cat ls echo printf head tail grep rg find wc sed awk rm cp mv mkdir touch sort which test then do if "
    "else for while export source sleep kill jq diff tee chmod ln file du stat tree true false read "
    # what a search for code looks for, between the bars of its pattern
    "func fn pub def class type const let var struct impl async import return interface enum trait static public private".split()
)


def urls_in(text: str) -> list[str]:
    """The web addresses in a text, in order, without the punctuation that follows them."""
    if "://" not in text:
        return []
    return [url.rstrip(".,;:!?*_") for url in _URL.findall(text)]


def commits_in(text: str) -> list[tuple[str, str, str]]:
    """What `git commit` reports: branch, hash, subject."""
    if "[" not in text or not (text.startswith("[") or "\n[" in text):
        return []
    return _COMMIT_LINE.findall(text)


_LOG = pattern(
    r"git (?:--no-pager )?log(?: (?:--oneline|--stat|--graph|--decorate(?:=\w+)?|-n ?\d+|-\d+|--max-count=\d+))* *(?:\| *head\b|2>&1|[;&\n]|$)"
)
_LOG_ROW = pattern(r"(?:commit )?([0-9a-f]{7,40})\b(?: \([^)\n]*\))? ?([^\n]{0,120})")


def head_in(command: str, text: str) -> tuple[str, str] | None:
    """The hash and subject of the newest commit, where `git log` shows those of the branch it is on."""
    row = _LOG_ROW.match(text.lstrip("* ")) if _LOG.match(command) else None
    return (row[1], row[2]) if row else None


# The lines in which a summary lists names, and how the next compaction reads them again.


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
LINES = (*LABELS.values(), WELL_KNOWN)  # how the lines begin
_JOINS = {NameKind.PATH: "under", NameKind.SYMBOL: "in", NameKind.OPTION: "of"}


def label_of(kind: NameKind, home: str) -> str:
    """The beginning of a line: `- Names in cmd/main.go`; an empty home: `- Names`."""
    return f"{LABELS[kind]} {_JOINS[kind]} {home}" if home else LABELS[kind]


_UNDER = pattern(r"^- Paths under (\S{1,400}): (.{1,20000})$", re.MULTILINE)
_HOME = pattern(r"^- (?:Names in|Options of) ([^:\n]{1,400}): (.{1,20000})$", re.MULTILINE)


def plain(summary: str) -> str:
    """A summary with its lists of paths written out and without the lists that `homes_in` returns."""
    text = _HOME.sub("", summary)

    def whole(line: re.Match[str]) -> str:
        return "\n".join(f"{line[1]}/{path}" for path in line[2].split(", "))

    return _UNDER.sub(whole, text)


def homes_in(summary: str) -> list[tuple[str, str]]:
    """Each file or command for which a summary lists names, with the list."""
    return _HOME.findall(summary)


# Names that any model knows without being reminded: standard libraries, everyday commands, usual files.


_ROOT_END = pattern(r"\.|::")


@cache
def _lists() -> dict[str, frozenset[str]]:
    data = table(__file__, "well_known.toml")
    return {key: frozenset(words.split()) for key, words in data.items()}


def is_well_known(name: str, kind: NameKind) -> bool:
    """Whether a name is general knowledge, as opposed to one of a repository's own."""
    lists = _lists()
    if kind is NameKind.SYMBOL:
        if name in lists["names"]:
            return True
        return ("." in name or "::" in name) and _ROOT_END.split(name, 1)[0] in lists["roots"]
    if kind is NameKind.COMMAND:
        return name.partition(" ")[0] in lists["programs"]
    if kind is NameKind.OPTION:
        return name in lists["options"]
    return kind is NameKind.PATH and name in lists["paths"]

"""Names by their kind, commands, addresses and commits in a text.

Names are copied by code, never by a model: a path that is one letter off costs more turns than a missing paragraph (see `Facts.names`). What is
recognised is in `_reference/names.py`, and in Rust in `names.rs`.
"""

from __future__ import annotations

import re
from enum import StrEnum

from ullage._engine import core

__all__ = ["KINDS", "NameKind", "command_heads", "commits_in", "find_names", "urls_in"]


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


KINDS = (
    NameKind.PATH,
    NameKind.COMMIT,
    NameKind.ID,
    NameKind.TICKET,
    NameKind.SYMBOL,
    NameKind.OPTION,
)
"""By the numbers of the core."""

_COMMIT_LINE = re.compile(r"^\[(\S+)(?: \([\w -]+\))? ([0-9a-f]{7,40})\] (.{1,160})$", re.MULTILINE)
_URL = re.compile(r"https?://[^\s<>\"'`\\\[\](){}|^]{4,300}")


def find_names(text: str) -> list[tuple[str, NameKind]]:
    """Every name in a text once, in order of first use; addresses come from `urls_in`."""
    return [(name, KINDS[kind]) for name, kind in core.find_names(text)]


_HEAD = re.compile(
    r"(?:^|&&|\|\||[;|\n(])[ \t]*(?:[A-Z_]+=\S+ )*(?:sudo |time |exec |xargs )?"
    r"([a-z][\w.+-]{0,40} [a-z][\w:.-]{0,40}(?: [a-z][\w:.-]{0,40})?)"
)
_RUNNERS = frozenset({"run", "exec", "tool", "x", "-m"})
MAX_COMMAND = 4_000


def command_heads(command: str) -> list[str]:
    """The programs of a shell command with their subcommands: `git push`, `npm run build`.

    Args:
        command: What a shell runs; what follows `cd` and the like is a place, not a subcommand.
    """
    found: dict[str, None] = {}
    for head in _HEAD.findall(command[:MAX_COMMAND]):
        words = head.split(" ")
        if words[0] not in _NO_SUBCOMMAND and "." not in words[1]:
            found[" ".join(words[: 3 if words[1] in _RUNNERS else 2])] = None
    return list(found)


_NO_SUBCOMMAND = frozenset(
    "cd cat ls echo printf head tail grep rg find wc sed awk rm cp mv mkdir touch sort which test then do if "
    "else for while export source sleep kill jq diff tee chmod ln file du stat tree true false read".split()
)


def urls_in(text: str) -> list[str]:
    """The web addresses in a text, in order, without the punctuation that follows them."""
    if "://" not in text:
        return []
    return [url.rstrip(".,;:!?*_") for url in _URL.findall(text)]


def commits_in(text: str) -> list[tuple[str, str, str]]:
    """What `git commit` reports: branch, hash, subject."""
    return _COMMIT_LINE.findall(text) if "] " in text else []

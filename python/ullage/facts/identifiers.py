"""Finds the names that an agent continues to use: paths, symbols, URLs, hashes, tickets.

They are copied by code, never by a model: a path that is one letter off costs more turns than a
missing paragraph (see `Facts.names`).
"""

from __future__ import annotations

import re
from enum import StrEnum

__all__ = ["NameKind", "commits_in", "find_names", "kind_of", "urls_in"]


class NameKind(StrEnum):
    """The kind of a name, by its form."""

    URL = "url"
    PATH = "path"
    COMMIT = "commit"
    ID = "id"
    TICKET = "ticket"
    SYMBOL = "symbol"


MAX_NAME = 200
"""Longer matches are data (a signed URL, a base64 run), not names."""

_URL = re.compile(r"https?://[^\s<>\"'`\\\[\](){}|^]{4,300}")
_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_NAME = re.compile(
    rf"(?P<id>\b{_UUID}\b)"
    # A path: at least one slash between its parts, or one file name with a usual ending.
    r"|(?P<path>(?<![\w/.@<-])(?:~|\.{1,2}|[\w.@+-]{1,80})?(?:/[\w.@+-]{1,80}){1,20}/?"
    r"|(?<![\w/.-])[\w][\w-]{0,60}(?:\.[\w-]{1,30}){0,2}\.(?:py|pyi|rs|go|ts|tsx|js|jsx|mjs|java|kt|c|h|cc|cpp|"
    r"hpp|cs|rb|php|swift|scala|sh|bash|zsh|sql|md|rst|txt|json|jsonl|toml|ya?ml|ini|cfg|lock|mod|sum|"
    r"html|css|scss|xml|csv|proto|ipynb|vue|svelte|lua|zig|ex|exs|hs|ml|pkl|log|env)\b)"
    r"|(?P<ticket>\b[A-Z][A-Z0-9]{1,9}-\d{1,6}\b|(?<![\w&])#\d{1,6}\b)"
    r"|(?P<commit>\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])(?:[0-9a-f]{40}|[0-9a-f]{7,12})\b)"
    r"|(?P<symbol>\b(?:[A-Za-z]\w{0,60}_\w{1,60}|[a-z]{1,40}[A-Z]\w{1,80}|[A-Z][a-z0-9]{1,40}[A-Z]\w{1,80}"
    r"|_\w{3,60})\b(?:(?:\.|::)[A-Za-z_]\w{1,60}){0,3})"
)
_KINDS = {kind.value: kind for kind in NameKind}
_PLACEHOLDERS = frozenset({"/dev/null", "and/or", "REDACTED", "toolu_01", "n/a", "N/A", "w/o"})
_MIN_CHARS = 4
_ESCAPE = re.compile(r"\\[nrt]")
"""Escapes in quoted JSON would stick to the next word: `\\nBody`."""
_GREP_TAIL = re.compile(r"(\.[A-Za-z]\w{0,6})-\d+(?:-.*)?$")
"""`file.go-1236-text` is a context line of grep, not a file."""
_DIFF_HEAD = re.compile(r"^[+-]?[ab]/(?=[\w.-]+[/.])")
"""`a/src/x.py` and `b/src/x.py` in a diff are `src/x.py`."""
_DATA = re.compile(
    r"(?:^|/)v\d+\.\d+|/(?=[^/.]*\d)(?=[^/.]*[a-z])(?=[^/.]*[A-Z])[A-Za-z0-9+]{16,}|^[A-Za-z0-9+]{24,}/"
)
"""Versions and base64 runs are not places in a file system."""
_COMMIT_LINE = re.compile(r"^\[(\S+)(?: \([\w -]+\))? ([0-9a-f]{7,40})\] (.{1,160})$", re.MULTILINE)


def find_names(text: str) -> list[tuple[str, NameKind]]:
    """Every name in a text, in order, with repetitions; addresses come from `urls_in`."""
    found = []
    for match in _NAME.finditer(_ESCAPE.sub(" ", text)):
        name, kind = match[0], _KINDS[match.lastgroup or "symbol"]
        if kind is NameKind.PATH:
            name = _path(name)
        if _MIN_CHARS <= len(name) <= MAX_NAME and name not in _PLACEHOLDERS:
            found.append((name, kind))
    return found


def _path(name: str) -> str:
    name = _GREP_TAIL.sub(r"\1", name).rstrip("./-")
    name = _DIFF_HEAD.sub("", name)
    return "" if _DATA.search(name) else name


def kind_of(name: str) -> NameKind:
    """The kind of a single name."""
    if name.startswith(("http://", "https://")):
        return NameKind.URL
    match = _NAME.match(name)
    return _KINDS[match.lastgroup or "symbol"] if match else NameKind.SYMBOL


def urls_in(text: str) -> list[str]:
    """The web addresses in a text, in order, without the punctuation that follows them."""
    if "://" not in text:
        return []
    return [url.rstrip(".,;:!?*_") for url in _URL.findall(text)]


def commits_in(text: str) -> list[tuple[str, str, str]]:
    """What `git commit` reports: branch, hash, subject."""
    return _COMMIT_LINE.findall(text) if "] " in text else []

"""Finds the names that an agent continues to use: paths, symbols, options, commands, hashes, tickets.

They are copied by code, never by a model: a path that is one letter off costs more turns than a
missing paragraph (see `Facts.names`). A text is split into words once, and each distinct word is
judged once, whatever it is made of.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

__all__ = ["NameKind", "command_heads", "commits_in", "find_names", "urls_in"]


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


MIN_CHARS = 4
MAX_NAME = 200
"""Longer runs are data (a signed URL, base64), not names."""

MAX_PART = 80
MAX_PARTS = 20
MAX_SYMBOL = 100

_W = r"A-Za-z0-9_\u00c0-\u024f\u0370-\u04ff"
"""Letters of a name: Latin, Greek, Cyrillic. Other scripts write without spaces, so a name ends where they begin."""

_WORD = re.compile(rf"(?:</)?[{_W}@~.#/:+-]{{{MIN_CHARS},}}")
"""With the mark of a closing tag, which is not a path."""
_ESCAPE = re.compile(r"\\[nrt]")
"""Escapes in quoted JSON would stick to the next word: `\\nBody`."""

_OPTION = re.compile(r"--[a-z][a-z0-9A-Z]*(?:-[a-zA-Z0-9]+)*")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TICKET = re.compile(r"#[0-9]{1,6}|[A-Z][A-Z0-9]{1,9}-[0-9]{1,6}")
_COMMIT = re.compile(r"(?=[a-f]*[0-9])(?=[0-9]*[a-f])(?:[0-9a-f]{40}|[0-9a-f]{7,12})")
_FILE = re.compile(
    rf"\.?[{_W}+-]+(?:\.[{_W}+-]+){{0,3}}\.(?:py|pyi|rs|go|ts|tsx|js|jsx|mjs|java|kt|c|h|cc|cpp|"
    r"hpp|cs|rb|php|swift|scala|sh|bash|zsh|sql|md|rst|txt|json|jsonl|toml|ya?ml|ini|cfg|lock|mod|sum|"
    r"html|css|scss|xml|csv|proto|ipynb|vue|svelte|lua|zig|ex|exs|hs|ml|pkl|log|env)"
)
_DOTFILE = re.compile(r"\.(?:env|git[a-z]*|[a-z]+rc|[a-z]+ignore)")
_DOTTED = re.compile(rf"(?![0-9])[{_W}]+(?:\.(?![0-9])[{_W}]+){{1,5}}")
_SCOPED = re.compile(rf"[{_W}]+(?:::[{_W}]+){{1,8}}")
_SYMBOL = re.compile(
    rf"(?=.*[A-Za-z])(?:[{_W}]*[A-Za-z0-9]_[A-Za-z0-9][{_W}]*|_[{_W}]{{3,}}|[{_W}]*[a-z][A-Z][{_W}]*|E[0-9]{{3,4}})"
)
_GREP_TAIL = re.compile(r"(\.[A-Za-z][A-Za-z0-9]{0,6})-[0-9]+(?:-.*)?$")
"""`file.go-1236-text` is a context line of grep, not a file."""
_DIFF_HEAD = re.compile(r"^[ab]/(?=[^/]+[/.])")
"""`a/src/x.py` and `b/src/x.py` in a diff are `src/x.py`."""
_PART = re.compile(rf"[{_W}.@~+-]{{1,{MAX_PART}}}")
_VERSION = re.compile(r"v[0-9]+\.[0-9]")
_LETTER = re.compile(r"[A-Za-z\u00c0-\u024f\u0370-\u04ff]")
_PLACEHOLDERS = frozenset({"dev/null", "/dev/null", "and/or"})
_RANDOM = re.compile(
    r"(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])(?=(?:[A-Za-z]*[0-9]){3})[A-Za-z0-9]{16,}"
)
_COMMIT_LINE = re.compile(r"^\[(\S+)(?: \([\w -]+\))? ([0-9a-f]{7,40})\] (.{1,160})$", re.MULTILINE)
_URL = re.compile(r"https?://[^\s<>\"'`\\\[\](){}|^]{4,300}")

_Found = tuple[tuple[str, NameKind], ...]


def find_names(text: str) -> list[tuple[str, NameKind]]:
    """Every name in a text once, in order of first use; addresses come from `urls_in`."""
    plain = _ESCAPE.sub(" ", text) if "\\" in text else text
    found: dict[tuple[str, NameKind], None] = {}
    for word in dict.fromkeys(_WORD.findall(plain)):
        for name in _names_of(word):
            found[name] = None
    return list(found)


@lru_cache(maxsize=1 << 15)
def _names_of(word: str) -> _Found:
    """The names in one run of letters and punctuation: mostly none or one."""
    if len(word) > MAX_NAME or word.startswith(("</", "toolu_")) or "://" in word:
        return ()
    bare = word.rstrip(".:/#@~+-").lstrip(":+")
    if _OPTION.fullmatch(bare):
        return ((bare, NameKind.OPTION),) if len(bare) <= MAX_PART else ()
    bare = bare.lstrip("-")
    if "::" in bare:
        if _SCOPED.fullmatch(bare) and len(bare) <= MAX_SYMBOL:
            return ((bare, NameKind.SYMBOL),)
        return _each(bare.split("::"))
    return _each(bare.split(":"))


def _each(parts: list[str]) -> _Found:
    named = (_one(inner) for part in parts for inner in _anchored(part) if len(inner) >= MIN_CHARS)
    return tuple(found for found in named if found is not None)


def _anchored(part: str) -> list[str]:
    """`file.md#heading` in two; a ticket stays whole."""
    return [part] if part.startswith("#") or "#" not in part else part.split("#")


def _one(part: str) -> tuple[str, NameKind] | None:
    """The name that a word without colons is."""
    if _TICKET.fullmatch(part):
        return part, NameKind.TICKET
    part = part.lstrip("#")
    if "/" in part:
        return _path(part)
    if "@" in part or "~" in part:
        return None  # an address of a mailbox, a package with its version
    if _UUID.fullmatch(part):
        return part, NameKind.ID
    if _COMMIT.fullmatch(part):
        return part, NameKind.COMMIT
    return _plain(_GREP_TAIL.sub(r"\1", part))


def _path(part: str) -> tuple[str, NameKind] | None:
    part = part.lstrip("/") if part.startswith("//") else part
    part = part.lstrip(".") if part.startswith("...") else part.removeprefix("./")
    if "/" not in part:
        return _plain(part)
    name = _DIFF_HEAD.sub("", _GREP_TAIL.sub(r"\1", part))
    parts = name.split("/")
    inner = parts[1:] if parts[0] == "" else parts
    if len(name) < MIN_CHARS or name in _PLACEHOLDERS or not 0 < len(inner) <= MAX_PARTS:
        return None
    if not _LETTER.search(name) or any(not _PART.fullmatch(p) or _is_data(p) for p in inner):
        return None
    return name, NameKind.PATH


def _is_data(part: str) -> bool:
    """Versions, base64 runs and shortened names are not places in a file system."""
    return _VERSION.match(part) is not None or "..." in part or _is_random(part)


def _is_random(word: str) -> bool:
    """Whether a run of letters and digits looks drawn, as base64 and keys do."""
    return _RANDOM.fullmatch(word) is not None


def _plain(part: str) -> tuple[str, NameKind] | None:
    if len(part) < MIN_CHARS or part in _PLACEHOLDERS:
        return None
    if _FILE.fullmatch(part) or _DOTFILE.fullmatch(part):
        return part, NameKind.PATH
    part = part.strip(".")
    if len(part) > MAX_SYMBOL or len(part) < MIN_CHARS or _is_random(part):
        return None
    if _DOTTED.fullmatch(part) or _SYMBOL.fullmatch(part):
        return part, NameKind.SYMBOL
    return None


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

"""The list of names in a summary: as many as fit, best first, each with the file or command that it belongs to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ullage._engine import core
from ullage.facts.identifiers import NameKind
from ullage.facts.model import Facts, Name
from ullage.facts.name_lists import LABELS, WELL_KNOWN, label_of
from ullage.summarizers.budgeted_text import joined

__all__ = ["MOST_NAMES", "candidates", "names", "names_tokens", "shown"]

MOST_NAMES = 500
"""The names that the next 20 calls use are nearly always among them; more would only be noise."""

_GROUPED = 2
"""Names of one file, or in one folder, from which a line of their own is worth its beginning."""

_GENERAL = ""

_Group = tuple[str, str]
"""A kind of name and what its names have in common: a folder, a file, a command; `_GENERAL` has no kind."""


def candidates(facts: Facts) -> list[Name]:
    """The names that a summary may list, in order of worth: without the rows of long listings."""
    return list(_without_series(facts.names[:MOST_NAMES]))


def names_tokens(found: Sequence[Name]) -> int:
    """About what the whole list takes, in UTF-8 bytes / 4."""
    return sum(_bytes(name.text) + 2 for name in found) // 4


def names(found: Sequence[Name], present: str, tokens: int) -> str:
    """The names in use that the rest of a summary does not hold; those that any model knows stand last.

    Args:
        found: The `candidates`.
        present: The rest of the summary.
        tokens: The room, in UTF-8 bytes / 4.
    """
    groups: dict[_Group, list[str]] = {}
    begun: set[str] = set()
    held, left = "", tokens * 4
    texts = [shown(name) for name in found]
    for name, text, said in zip(found, texts, core.contained(texts, present), strict=True):
        if said or text in held:
            continue
        group = _group(name)
        price = _bytes(text) + 2 + _opening(group, len(groups.get(group, ())))
        price += 0 if group[0] in begun else len(_label(group)) + 3
        if price <= left:
            begun.add(group[0])
            left -= price
            held += f"\n{text}"
            groups.setdefault(group, []).append(text)
    return joined(_lines(groups))


SERIES, SERIES_SHOWN = 10, 3
"""Names that differ only in their digits, from which they are rows of a listing; and how many of these are named."""


def _without_series(found: Sequence[Name]) -> Iterator[Name]:
    if not found:
        return
    shapes = _DIGITS.sub("0", "\n".join(name.text for name in found)).split("\n")
    counts, shown = Counter(shapes), Counter[str]()
    for name, shape in zip(found, shapes, strict=True):
        shown[shape] += 1
        if counts[shape] < SERIES or shown[shape] <= SERIES_SHOWN:
            yield name


_DIGITS = re.compile(r"\d+")


def _label(group: _Group) -> str:
    return WELL_KNOWN if group[0] == _GENERAL else LABELS[NameKind(group[0])]


def shown(name: Name) -> str:
    """A name as the list shows it: of a path its last two parts, under the folder that they share with others."""
    return _tail(name.text) if name.kind is NameKind.PATH else name.text


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _tail(path: str) -> str:
    return "/".join(path.rsplit("/", 2)[-2:])


def _group(name: Name) -> _Group:
    if name.kind is NameKind.PATH and len(parts := name.text.rsplit("/", 2)) > 2:
        return name.kind, parts[0] or "/"
    return (_GENERAL, "") if name.well_known else (name.kind, name.home)


def _opening(group: _Group, members: int) -> int:
    """Bytes that a group needs for its next member, apart from the name."""
    kind, home = group
    if not home:
        return 0
    if kind is NameKind.PATH:  # alone it is listed whole
        return _bytes(home) + 1 if not members else 12 if members == 1 else 0
    return _bytes(_tail(home)) + 14 if members == 1 else 0


def _lines(groups: dict[_Group, list[str]]) -> Iterator[str]:
    for kind in LABELS:
        alone: list[str] = []
        for (each, home), found in groups.items():
            if each is kind and home and len(found) >= _GROUPED:
                place = home if kind is NameKind.PATH else _tail(home)
                yield f"{label_of(kind, place)}: {', '.join(found)}"
            elif each is kind:
                alone += [_whole(home, text) for text in found] if kind is NameKind.PATH else found
        if alone:
            yield f"{LABELS[kind]}: {', '.join(alone)}"
    if (_GENERAL, "") in groups:
        yield f"{WELL_KNOWN}: {', '.join(groups[_GENERAL, ''])}"


def _whole(folder: str, path: str) -> str:
    return f"{folder.rstrip('/')}/{path}" if folder else path

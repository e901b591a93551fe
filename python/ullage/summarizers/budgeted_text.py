"""Fits text into a token budget: what to shorten, what to leave out, how to quote.

Costs are UTF-8 bytes / 4: close to tokens for Latin text and not far for others, the same in every
process, and cheap. The caller checks the whole against the real count and scales the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import add, attrgetter
from typing import TypeVar

from ullage._start import NamedTuple
from ullage.facts.sections import LEFT_OUT, quoted

_MIN_PART = 24
# Where a text is cut if one of them is in the half of a part that may go: the end of a line or a sentence.
_MARKS = ("\n", ". ", "。")
_LONGEST_WORD = 60  # characters of a word or a path that is not cut; longer runs are data


class Unit(NamedTuple):
    """A piece of a section, and how much it matters: lower ranks are placed first."""

    text: str
    rank: int
    lead: str = ""  # how the line begins in which it stands with the other pieces of one text
    of: int = 0  # number of that text
    fenced: bool = False  # the pieces of that text are lines of code or a document, below the lead
    place: int = 0  # among the pieces of that text
    short: str = ""  # in place of a text that does not fit; empty: nothing
    about: int = 0  # number of the user's message under which it stands, where that stands itself


def cost(text: str) -> int:
    """Tokens of a text, roughly."""
    return (len(text) if text.isascii() else len(text.encode("utf-8", "replace"))) // 4 + 1


def one_line(text: str, chars: int) -> str:
    """The text on one line, at most so many characters, its end cut at a word."""
    line = " ".join(_words(text, chars * 4).split())
    # Where it is mostly white space, its beginning is short and yet not all of it.
    if len(line) <= chars and not text[chars * 4 :].strip():
        return line
    line = f"{_words(line, chars - 1)}…"
    mark = line.rfind("[…")  # of an earlier cut, which says nothing in part
    return f"{line[:mark].rstrip()}…" if mark > 0 and "…]" not in line[mark:] else line


def shorten(text: str, tokens: int) -> str:
    """The text if it fits, else its beginning and end with a note of what is missing between them."""
    if cost(text) <= tokens:
        return text
    chars = max(tokens - 10, 0) * 4 * len(text) // max(4 * cost(text), 1)
    head, tail = chars * 7 // 10, chars * 3 // 10
    if head < _MIN_PART:
        return one_line(text, max(tokens * 2, _MIN_PART))
    front, back = begin(text, head), end(text, tail)
    missing = len(text) - len(front) - len(back)
    return f"{front}\n[… {missing} {LEFT_OUT}\n{back}"


def begin(text: str, chars: int) -> str:
    """The beginning of a text, at most so many characters: up to the end of a line, a sentence or a word."""
    cut = text[:chars]
    place = max(cut.rfind(mark) + len(mark.rstrip()) for mark in _MARKS)
    if place > chars // 2:
        return cut[:place].rstrip()
    return _words(text, chars)


def _words(text: str, chars: int) -> str:
    cut = text[:chars]
    if text[chars : chars + 1].strip():  # the next character is no space
        place = max(map(cut.rfind, (" ", "\n", "\t"))) + 1
        cut = cut[:place] if 0 < place and len(cut) - place < _LONGEST_WORD else cut
    return cut.rstrip()


def end(text: str, chars: int) -> str:
    """The end of a text, likewise."""
    first = len(text) - chars
    cut = text[first:]
    places = [at + len(mark) for mark in _MARKS if (at := cut.find(mark)) >= 0]
    if places and min(places) < chars // 2:
        return cut[min(places) :].lstrip()
    if text[first - 1 : first].strip():
        word = cut.split(None, 1)
        cut = word[1] if len(word) > 1 and len(word[0]) < _LONGEST_WORD else cut
    return cut.lstrip()


def inline(text: str, chars: int) -> str:
    """A quotation of tool output or code inside a line: one line, in backticks, marked by them as data."""
    return "`" + one_line(text, chars).replace("`", "'") + "`"


LeftOut = Callable[[Sequence[Unit]], str]  # names what did not fit, as in `3 older steps`
FENCE_TOKENS, GAP_TOKENS = 3, 1


def counted(words: str) -> LeftOut:
    """Its number, as in `{} older steps`."""
    return lambda units: words.format(len(units))


def fill(units: Sequence[Unit], tokens: int, left_out: LeftOut | None = None) -> str:
    """The units that fit, in their own order, those of lowest rank first.

    Args:
        units: What could be said; equal ranks go by place.
        tokens: How much may be.
        left_out: Names those that did not fit; `None`: nobody does.
    """
    chosen = _fitting(units, tokens - (cost(left_out(units)) if left_out else 0))
    text = lines_of([*chosen.values()])
    missing = [u for place, u in enumerate(units) if place not in chosen and not u.lead]
    if missing and left_out and text:
        return f"({left_out(missing)} left out)\n{text}"
    return text


def fitting(units: Sequence[Unit], tokens: int, measure: Callable[[str], int] = cost) -> list[Unit]:
    """The units that fit, in their own order, those of lowest rank first; what several pieces begin with counts once.

    Args:
        units: What could be said; equal ranks go by place.
        tokens: How much may be.
        measure: Tokens of a text.
    """
    return [*_fitting(units, tokens, measure).values()]


def _fitting(
    units: Sequence[Unit], tokens: int, measure: Callable[[str], int] = cost
) -> dict[int, Unit]:
    """By their places."""
    chosen: dict[int, Unit] = {}
    begun: set[tuple[str, int]] = set()
    ranks = [unit.rank for unit in units]
    for place in sorted(range(len(units)), key=ranks.__getitem__):
        unit = units[place]
        text = (unit.lead, unit.of)
        around = GAP_TOKENS * bool(unit.lead and not unit.fenced)
        if unit.lead and text not in begun:
            around += measure(unit.lead) + FENCE_TOKENS * unit.fenced
        price = around + measure(unit.text)
        if price > tokens and unit.short:
            unit = unit._replace(text=unit.short)
            price = around + measure(unit.text)
        if price <= tokens:
            chosen[place] = unit
            begun.add(text)
            tokens -= price
    return dict(sorted(chosen.items()))


def widest(units: Sequence[Unit], tokens: int, most: int) -> list[Unit]:
    """The units, of which the essential ones are whole and those of higher rank as short as they can be, where not all fit that rank below `most`: rather more of them than longer ones."""
    whole = [cost(unit.text) for unit in units]
    least = [
        min(price, cost(unit.short)) if unit.short and unit.rank >= 0 else price
        for unit, price in zip(units, whole, strict=True)
    ]
    order = sorted(range(len(units)), key=lambda at: units[at].rank)
    left, shown = tokens, list(units)
    for at in order:
        left -= least[at] if least[at] <= left and units[at].rank < most else 0
    for at in order:
        if whole[at] == least[at] or whole[at] - least[at] <= left:
            left -= whole[at] - least[at]
        else:
            shown[at] = units[at]._replace(text=units[at].short)
    return shown


def lines_of(units: Sequence[Unit]) -> str:
    """One line for each unit, and for all of one text together."""
    return "\n".join(_lines(units))


def _lines(units: Sequence[Unit]) -> Iterator[str]:
    for (lead, _, fenced), group in groupby(units, key=attrgetter("lead", "of", "fenced")):
        units = [*group]
        texts = [unit.text for unit in units]
        if fenced:
            yield f"{lead}\n{quoted(chr(10).join(texts), '')}"
        elif lead:
            before = [-1, *(unit.place for unit in units)]
            pairs = zip(units, before, strict=False)
            gaps = ["" if unit.place == at + 1 else "… " for unit, at in pairs]
            yield " ".join([lead, *map(add, gaps, texts)])
        else:
            yield from texts


def allot(demands: Mapping[int, int], shares: Mapping[int, int], tokens: int) -> dict[int, int]:
    """Shares a budget out: nobody gets more than asked for, what is left goes to those who want more.

    Integers only, in the order of the keys: the same in every process.
    """
    rooms = dict.fromkeys(demands, 0)
    open_keys = [key for key in demands if demands[key] > 0]
    left = tokens
    while left > 0 and open_keys:
        weight = sum(shares[key] for key in open_keys)
        round_left = left
        for key in open_keys:
            part = min(max(round_left * shares[key] // weight, 1), demands[key] - rooms[key], left)
            rooms[key] += part
            left -= part
        open_keys = [key for key in open_keys if rooms[key] < demands[key]]
    return rooms


Thing = TypeVar("Thing")


def aged(things: Sequence[Thing]) -> Iterator[tuple[int, Thing]]:
    """Each with its age, of things of which the newest, with the age 1, is the last."""
    return zip(range(len(things), 0, -1), things, strict=True)


def joined(parts: Iterable[str]) -> str:
    """The parts that are not empty, each from a new line."""
    return "\n".join(part for part in parts if part.strip())

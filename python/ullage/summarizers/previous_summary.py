"""Which parts of the previous summary are carried into the next: everything that newer facts do not replace."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ullage.facts.model import Facts, Previous
from ullage.facts.name_lists import LINES
from ullage.facts.open_work import read_tasks, read_work
from ullage.facts.sections import read_numbered_messages
from ullage.summarizers.budgeted_text import Unit, one_line
from ullage.summarizers.essentials import carried_failure, is_dense, ranked_old
from ullage.summarizers.extractive_sections import OPENED, opening

__all__ = ["carried_units"]

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_LISTS = (*LINES, "- Newest request:")
_PATH = re.compile(r"`([^`\n]+)`")
_EMPTY = ("(nothing)", "")


def carried_units(facts: Facts) -> dict[int, list[Unit]]:
    """Pieces of the previous summary by the section where they go on; older pieces rank lower.

    Its lists of names are not among them: each name has been weighed again with the new ones. Its
    current work has become past work, and its next step is taken.
    """
    previous = facts.previous
    if previous is None:
        return {}
    if not previous.sections:
        return {5: ranked_old(5, [f"- From the previous summary: {one_line(previous.text, 2000)}"])}
    carried = {number: list(_pieces(previous.section(number))) for number in (1, 2, 3, 4, 5)}
    carried[1] = [piece for piece in carried[1] if not _ruled(piece, facts)]
    carried[1] = _opened_once(carried[1], again=opening(facts) is not None)
    carried[2] = [piece for piece in carried[2] if piece.removeprefix("- ") not in facts.urls]
    carried[3] = [p for p in carried[3] if not _replaced(p, facts) and not is_dense(p)]
    carried[4] = [carried_failure(piece, facts) for piece in carried[4]]
    carried[5].extend(_past_work(previous))
    if not _words_are_read(previous, facts):
        carried[6] = list(_pieces(previous.section(6)))
    carried[7] = list(_pieces(previous.section(7)))
    for number in (5, 7):
        # Tasks and open work were read from it, and may have been closed since.
        carried[number] = [
            p
            for p in carried[number]
            if not p.startswith(_KNOWN) and not read_tasks(p, 0) and not read_work(p, 0)
        ]
    return {
        number: ranked_old(number, list(dict.fromkeys(pieces)))
        for number, pieces in carried.items()
        if pieces
    }


def _words_are_read(previous: Previous, facts: Facts) -> bool:
    """Whether the user's messages before a summary are known one by one: seen, or numbered in it.

    A newest message after its end is one of them only, and says nothing of a list by another program.
    """
    if any(entry.index < previous.index for entry in facts.inputs):
        return True
    return bool(previous.kept_inputs or read_numbered_messages(previous.section(6)))


def _opened_once(pieces: list[str], *, again: bool) -> list[str]:
    """One line that says how it all began: the oldest, unless it is written again."""
    told = [piece for piece in pieces if piece.startswith(OPENED)]
    return [piece for piece in pieces if piece not in told or (not again and piece is told[0])]


_KNOWN = ("- Waiting for the user's answer", "- Plan mode is on")


def _pieces(section: str) -> Iterator[str]:
    """Lines, with a code block whole and together with the line before it."""
    piece: list[str] = []
    fence = ""
    for line in section.split("\n"):
        match = _FENCE.match(line)
        if fence:
            piece.append(line)
            if line.strip() == fence:
                fence = ""
            continue
        if match:
            fence = match[1]
            piece.append(line)
            continue
        yield from _said(piece)
        piece = [line]
    yield from _said(piece)


def _said(piece: list[str]) -> Iterator[str]:
    text = "\n".join(piece).rstrip()
    if (
        text.strip() not in _EMPTY
        and not text.startswith(_LISTS)
        and not text.endswith("left out)")
    ):
        yield text


def _ruled(piece: str, facts: Facts) -> bool:
    """Whether a rule is among those of the messages, which are weighed again."""
    said = "(user): “" in piece
    return said and any(rule.text in piece for rule in facts.standing)


def _replaced(piece: str, facts: Facts) -> bool:
    path = _PATH.search(piece.split("\n", 1)[0])
    return path is not None and any(file.path == path[1] for file in facts.files)


def _past_work(previous: Previous) -> list[str]:
    lines = [piece for piece in _pieces(previous.section(8)) if not piece.startswith("- Said:")]
    return [line if line.startswith("- ") else f"- {line.strip()}" for line in lines[-6:]]

"""Work that was said to be open, until somebody says that it is done or no longer wanted."""

from __future__ import annotations

import re

from ullage.facts.fences import unfenced
from ullage.facts.model import Statement, Task

__all__ = ["OpenWork", "read_open", "read_tasks"]

_DONE = re.compile(
    r"\b(?:done|finished|completed?|implemented|fixed|written|added|migrated|merged|resolved|closed|verified|renamed|archived|deployed|"
    r"tested|translated|updated|removed|is in|are in|erledigt|fertig|hecho|terminado|fait|terminé|feito|готово|сделано)\b|完成|終わりました|完了",
    re.IGNORECASE,
)
_NOT_DONE = re.compile(
    r"\b(?:not|n['’]t|never|still|yet|todo|fixme|open|remain\w*|before|once|after|if|when|until|will|need\w*|must|should|to be|nicht|noch|no|pas|не)\b|[?？]",
    re.IGNORECASE,
)
_WITHDRAWN = re.compile(
    r"^\W*(?:(?:please|ok(?:ay)?|so|and|no)[, ]+)*(?:forget(?: about)?|never ?mind|skip|drop|cancel|leave out|don['’]?t bother with|no need (?:to|for)|"
    r"we (?:no longer|don['’]?t) need|you (?:no longer|don['’]?t) (?:need|have) to|vergiss|lass|olvida|oublie|esqueça|забудь)\b|不用|不需要",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\w./-]{4,}")
_BREAK = re.compile(r"(?<=[.!?。！？])\s|\n")
_COMMON = frozenset(
    "todo fixme still need needs have open remains later before after with that this there from done left next"
    " step steps then afterwards todo: also will must should could into over only when what which been were your them they".split()
)
MOST_OPEN = 200
SAME_PERCENT = 70
"""Of the words of an open item that a sentence must hold to close it."""

SAME_WORDS_PERCENT = 40
"""The same where the item names something: all of its names must be there too."""


class OpenWork:
    """Open items by their words; each is closed once and does not come back."""

    def __init__(self) -> None:
        self._open: dict[str, Statement] = {}
        self._closed: dict[str, None] = {}

    def go_on(self, earlier: OpenWork) -> None:
        """Continue from what an earlier part of the conversation left."""
        self._open.update(earlier._open)
        self._closed.update(earlier._closed)

    def opened(self, statement: Statement) -> None:
        """Somebody says that this is still to do."""
        if len(self._open) < MOST_OPEN or statement.text in self._open:
            self._open.pop(statement.text, None)
            self._open[statement.text] = statement

    def restored(self, statement: Statement) -> None:
        """A summary says so: not news, and not where it is known to be closed."""
        if statement.text not in self._open and statement.text not in self._closed:
            self._open[statement.text] = statement

    def said(self, text: str, *, by_user: bool = False) -> None:
        """Close what a text reports as done; the user can also withdraw it."""
        if not self._open:
            return
        for part in _BREAK.split(unfenced(text)):
            done = _DONE.search(part) and not _NOT_DONE.search(part)
            if done or (by_user and _WITHDRAWN.search(part)):
                self._close(part)

    def _close(self, sentence: str) -> None:
        names, words = _telling(sentence)
        for text in list(self._open):
            own_names, own_words = _telling(text)
            same = len(own_words & words) * 100
            enough = SAME_WORDS_PERCENT if own_names else SAME_PERCENT
            if not own_names <= names or same < len(own_words) * enough:
                continue
            if own_names or own_words:
                self._closed[text] = None
                del self._open[text]

    def items(self) -> tuple[Statement, ...]:
        """What is open, oldest first."""
        return tuple(self._open.values())


def _telling(text: str) -> tuple[set[str], set[str]]:
    """The names in a text (with a digit, an underscore, a dot or a slash), and the stems of its other words."""
    found = {word.strip("./-").lower() for word in _WORD.findall(text)}
    names = {word for word in found if _NAME.search(word)}
    return names, {word[:STEM] for word in found - names if word not in _COMMON and len(word) >= 4}


_NAME = re.compile(r"[\d_./]")
STEM = 5
"""Characters of a word that count: `archive` is done by `archived`."""


# ---- rows of a summary --------------------------------------------------------------------------

_TASK = re.compile(r"^- \[( |x)\] (?:#(\w{1,20}) )?(.+) \(([\w -]{1,40})\)$")
_SAID = "- Said to be open: "


def read_tasks(section: str, index: int) -> list[Task]:
    """The tasks that a summary lists, with their state.

    Args:
        section: The seventh of the summary.
        index: Of the summary's message.
    """
    found = (_TASK.match(line) for line in section.split("\n"))
    return [
        Task(row[2] or str(at), row[3], row[4], index, board=row[2] is not None)
        for at, row in enumerate(filter(None, found), 1)
    ]


def read_open(section: str, index: int) -> list[Statement]:
    """What a summary says to be open; see `read_tasks`."""
    lines = (line for line in section.split("\n") if line.startswith(_SAID))
    return [Statement(index, line.removeprefix(_SAID), closing=False) for line in lines]

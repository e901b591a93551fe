"""Which tool call did a piece of work, or failed at it: the newest one that names all that the work names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from ullage.facts.calls import Action

__all__ = ["CALL_CHARS", "Tried", "TriedWork", "acts", "only_looks", "same_work", "telling"]

CALL_CHARS = 4000
"""Of a call's input that are compared."""

LEAST_STEMS = 2
"""Of work that names nothing: fewer words could be of anything."""

SAME_PERCENT = 70
"""Of the words of work that names nothing, which another text about it must hold."""

SAME_WORDS_PERCENT = 40
"""The same where the work names something: all of its names must be there too."""

STEM = 5
"""Characters of a word that count: `archive` is done by `archived`."""

_WORD = re.compile(r"[\w./-]{4,}")
_NAME = re.compile(r"[\d_./]")
_COMMON = frozenset(
    "todo fixme still need needs have open remains later before after with that this there from done left next"
    " step steps then afterwards todo: also will must should could into over only when what which been were your them they".split()
)
_LOOKS = re.compile(
    r"^(?:ls|cat|head|tail|grep|rg|find|wc|sed -n|awk|echo|pwd|which|file|tree|nl|jq|stat|du|"
    r"git (?:status|log|diff|show|branch|remote|rev-parse|blame))\b"
)
"""Commands that only look: what was done next shows what they revealed."""

_ACTS = (Action.COMMAND, Action.EDIT, Action.WRITE, Action.DELETE, Action.AGENT, Action.OTHER)


class Tried(NamedTuple):
    """What a call about some work came to."""

    call: str  # its id
    ok: bool
    error: str  # the line that says why it failed


class TriedWork:
    """The newest call about each piece of work."""

    def __init__(self) -> None:
        self._newest: dict[str, Tried] = {}

    def tried(self, texts: Iterable[str], given: str, result: Tried) -> None:
        """A call has its result.

        Args:
            texts: The work that is open.
            given: The strings of the call's input.
            result: What it came to.
        """
        said = given[:CALL_CHARS].lower()
        for text in texts:
            if _is_about(said, text):
                self._newest[text] = result

    def newest(self, text: str) -> Tried | None:
        """What the newest call about this work came to; `None`: no call was about it."""
        return self._newest.get(text)


def acts(action: Action, target: str) -> bool:
    """Whether a call does something, instead of looking at what is there."""
    return action in _ACTS and not (action is Action.COMMAND and only_looks(target))


def only_looks(command: str) -> bool:
    """Whether a command only shows something."""
    return _LOOKS.match(command) is not None


def _is_about(said: str, text: str) -> bool:
    names, words = telling(text)
    if names:
        return all(name in said for name in names)
    held = sum(word in said for word in words)
    return len(words) >= LEAST_STEMS and held * 100 >= len(words) * SAME_PERCENT


def same_work(sentence: str, text: str) -> bool:
    """Whether a sentence is about this work.

    Args:
        sentence: What somebody said.
        text: The work.
    """
    names, words = telling(sentence)
    own_names, own_words = telling(text)
    enough = SAME_WORDS_PERCENT if own_names else SAME_PERCENT
    if not own_names <= names or len(own_words & words) * 100 < len(own_words) * enough:
        return False
    return bool(own_names or own_words)


@lru_cache(maxsize=1024)  # open work is compared with each later sentence; at most 500 characters
def telling(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names in a text (with a digit, an underscore, a dot or a slash), and the stems of its other words."""
    found = {word.strip("./-").lower() for word in _WORD.findall(text)}
    names = frozenset(word for word in found if _NAME.search(word))
    words = (word[:STEM] for word in found - names if word not in _COMMON and len(word) >= 4)
    return names, frozenset(words)

"""Values that the user corrected later, so that an old value is not read as still valid."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ullage.facts.commitments import kind_of
from ullage.facts.model import UserInput
from ullage.facts.prose import rules_of, typed_sentences

__all__ = ["ReplacedValue", "corrections_of", "names_value", "superseded"]

_VALUE = r"[`\"'“]?(?P<{0}>(?:[\w:@~-]{{0,40}}[./:@-]){{0,8}}[\w@~-]{{1,40}})[`\"'”]?"
_IS = re.compile(
    r"(?:^|[:,;(] ?|\b(?:the|our|my|its|your) )(?P<what>[A-Za-z][\w-]{0,30}(?: [A-Za-z][\w-]{0,30}){0,3}) (?:is|are|will be|must be|should be|has to be|=|equals)"
    r"(?: now| actually| really)? " + _VALUE.format("value"),
    re.IGNORECASE,
)
_SWAP = re.compile(
    r"\bfrom " + _VALUE.format("old1") + r" to [\w`\"“]|\binstead of " + _VALUE.format("old2")
    + r"|\bnot " + _VALUE.format("old3") + r",? but |, not " + _VALUE.format("old4") + r"(?:[.,;!]|$)",
    re.IGNORECASE,
)  # fmt: skip
_PLAIN_SWAP = re.compile(
    r"\b(?:use|take|choose|pick|go with|switch to|change to|move to|stick to|write|call)\b[^.!?\n]{1,60}? instead of (?:the |an? )?" + _VALUE.format("old1")
    + r"(?:[ .,;!]|$)|\b(?:switch|change|move|migrate)\b[^.!?\n]{0,60}? from (?:the |an? )?" + _VALUE.format("old2") + r" to [\w`\"“]"
    + r"|\breplace (?:the |an? )?" + _VALUE.format("old3") + r" (?:with|by) [\w`\"“]",
    re.IGNORECASE,
)  # fmt: skip
"""Orders to take one thing for another, which also name it by an everyday word."""

_TELLING = re.compile(r"\d|[/_@]|\w\.\w")
_ARTICLES = re.compile(
    r"^(?:(?:the|our|my|its|your|a|an|no|sorry|actually|correction) )+", re.IGNORECASE
)
_ORDER = re.compile(
    r"^\W*(?:(?:please|then|and|now|ok(?:ay)?|actually|no)[, ]+)*(?:use|take|choose|pick|go|switch|change|move|migrate|replace|stick|write|call|name|install|"
    r"run|build|test|deploy|put|store|save|format|publish|start|keep|add)\b",
    re.IGNORECASE,
)
_NO_THING = frozenset("it this that them these those one both other all which what".split())
MIN_WORD = 2
MAX_SENTENCE = 300


class ReplacedValue(NamedTuple):
    """A later sentence that replaces a value in an earlier message."""

    at: int  # place of the earlier message among the inputs
    old: str  # the value
    sentence: str
    number: int  # of the message that holds the sentence


def superseded(inputs: Sequence[UserInput]) -> list[UserInput]:
    """The messages, each with the sentence that corrects a value in it, if a later one does."""
    newest = {found.at: found for found in corrections_of(inputs)}
    return [
        replace(entry, corrected=newest[at].sentence, corrected_by=newest[at].number)
        if at in newest
        else entry
        for at, entry in enumerate(inputs)
    ]


def corrections_of(inputs: Sequence[UserInput]) -> list[ReplacedValue]:
    """Each value of a message that a later one replaces, in the order of the later ones.

    Args:
        inputs: The user's messages, oldest first.
    """
    found: list[ReplacedValue] = []
    newest: dict[str, tuple[int, str]] = {}
    for place, entry in enumerate(inputs):
        for whole, bare in typed_sentences(entry.text):
            if len(whole) > MAX_SENTENCE:
                continue
            for old, binding in _replaced(whole, bare):
                earlier = (at for at in range(place) if _names(inputs[at].text, old, binding))
                found += [ReplacedValue(at, old, whole, entry.number) for at in earlier]
            for what, value in _assigned(whole):
                at, before = newest.get(what, (place, value))
                if before != value and at != place:
                    found.append(ReplacedValue(at, before, whole, entry.number))
                newest[what] = place, value
    return found


def _names(text: str, value: str, binding: bool) -> bool:
    """Whether a message names a value: typed, not to say that it no longer holds, and where asked in a sentence that binds."""
    if value not in text:
        return False
    return any(
        names_value(whole, value)
        and value not in {old for old, _ in _replaced(whole, bare)}
        and (not binding or _binds(whole, bare))
        for whole, bare in typed_sentences(text)
    )


def _binds(whole: str, bare: str) -> bool:
    if bare.endswith(("?", "？")):
        return False
    return bool(_ORDER.match(bare) or kind_of(bare) is not None or rules_of(whole))


def names_value(text: str, value: str) -> bool:
    """Whether a text names a value as a word of its own."""
    if value not in text:
        return False
    return re.search(rf"(?<![\w/@.-]){re.escape(value)}(?![\w/@-]|\.\w)", text) is not None


def _assigned(sentence: str) -> list[tuple[str, str]]:
    found = []
    for match in _IS.finditer(sentence):
        value = match["value"].strip(".")
        what = _ARTICLES.sub("", match["what"].lower())
        if _TELLING.search(value) and what:
            found.append((what, value))
    return found


def _replaced(sentence: str, bare: str) -> list[tuple[str, bool]]:
    """The values that a sentence says to leave, each with whether it is an everyday word."""
    if bare.endswith(("?", "？")):
        return []
    swaps = [next(filter(None, match.groups()), "") for match in _SWAP.finditer(sentence)]
    found = [(value.strip("."), False) for value in swaps if _TELLING.search(value)]
    if not found and (_ORDER.match(bare) or kind_of(bare) is not None):
        plain = [next(filter(None, match.groups()), "") for match in _PLAIN_SWAP.finditer(sentence)]
        found = [(value.strip("."), True) for value in plain if _is_thing(value)]
    return found


def _is_thing(value: str) -> bool:
    return len(value) >= MIN_WORD and value.lower() not in _NO_THING

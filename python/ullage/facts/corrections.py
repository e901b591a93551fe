"""Values that the user corrected later, so that an old value is not read as still valid."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ullage.facts.model import UserInput
from ullage.facts.prose import typed_sentences

__all__ = ["superseded"]

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
_TELLING = re.compile(r"\d|[/_@]|\w\.\w")
_ARTICLES = re.compile(
    r"^(?:(?:the|our|my|its|your|a|an|no|sorry|actually|correction) )+", re.IGNORECASE
)
MAX_SENTENCE = 300


def superseded(inputs: Sequence[UserInput]) -> list[UserInput]:
    """The messages, each with the sentence that corrects a value in it, if a later one does."""
    newest: dict[str, tuple[int, str]] = {}
    corrected: dict[int, tuple[str, int]] = {}
    values: dict[str, list[int]] = {}
    for place, entry in enumerate(inputs):
        for whole, _ in typed_sentences(entry.text):
            if len(whole) > MAX_SENTENCE:
                continue
            for old in _replaced(whole):
                corrected.update(
                    (at, (whole, entry.number)) for at in values.get(old, ()) if at != place
                )
            for what, value in _assigned(whole):
                at, before = newest.get(what, (place, value))
                if before != value and at != place:
                    corrected[at] = whole, entry.number
                newest[what] = place, value
                values.setdefault(value, []).append(place)
    return [
        replace(entry, corrected=corrected[at][0], corrected_by=corrected[at][1])
        if at in corrected
        else entry
        for at, entry in enumerate(inputs)
    ]


def _assigned(sentence: str) -> list[tuple[str, str]]:
    found = []
    for match in _IS.finditer(sentence):
        value = match["value"].strip(".")
        what = _ARTICLES.sub("", match["what"].lower())
        if _TELLING.search(value) and what:
            found.append((what, value))
    return found


def _replaced(sentence: str) -> list[str]:
    found = [next(filter(None, match.groups()), "") for match in _SWAP.finditer(sentence)]
    return [value.strip(".") for value in found if _TELLING.search(value)]

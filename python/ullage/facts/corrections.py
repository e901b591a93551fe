"""Values that the user corrected later, so that an old value is not read as still valid."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ullage.facts.commitments import CommitmentKind, kind_of
from ullage.facts.model import UserInput
from ullage.facts.prose import rules_of, typed_sentences

__all__ = ["ReplacedValue", "corrections_of", "names_value", "superseded"]

_VALUE = r"[`\"'“]?(?P<{0}>(?:[\w:@~-]{{0,40}}[./:@-]){{0,8}}[\w@~-]{{1,40}})[`\"'”]?"
_IS = re.compile(
    r"(?:^|[:,;(] ?|\b(?:the|our|my|its|your) )(?P<what>[A-Za-z][\w-]{0,30}(?: [A-Za-z][\w-]{0,30}){0,3}) (?:is|are|will be|must be|should be|has to be|=|equals|(?:has |was )?(?:changed|moved) to|becomes)"
    r"(?: now| actually| really)?(?: (?:at|on|in|called|named|set to))? " + _VALUE.format("value"),
    re.IGNORECASE,
)
_SWAP = re.compile(
    r"\bfrom " + _VALUE.format("old1") + r" to [\w`\"“]|\binstead of " + _VALUE.format("old2")
    + r"|\b(?:not|n['’]t) " + _VALUE.format("old3") + r",? but |, not " + _VALUE.format("old4") + r"(?:[.,;!]|$)"
    + r"|\b(?:no longer|rather than|forget(?: about)?|scratch|drop) " + _VALUE.format("old5") + r"(?:[ .,;:!]|$)"
    + r"|\b(?:not|n['’]t) (?:\w+ ){0,2}?" + _VALUE.format("old6") + r" any ?more\b",
    re.IGNORECASE,
)  # fmt: skip
_PLAIN_SWAP = re.compile(
    r"\b(?:use|take|choose|pick|go with|switch to|change to|move to|stick to|write|call)\b[^.!?\n]{1,60}? instead of (?:the |an? )?" + _VALUE.format("old1")
    + r"(?:[ .,;!]|$)|\b(?:switch|change|move|migrate)\b[^.!?\n]{0,60}? from (?:the |an? )?" + _VALUE.format("old2") + r" to [\w`\"“]"
    + r"|\breplace (?:the |an? )?" + _VALUE.format("old3") + r" (?:with|by) [\w`\"“]",
    re.IGNORECASE,
)  # fmt: skip
"""Orders to take one thing for another, which also name it by an everyday word."""

_REVISES = re.compile(
    r"\b(?:changed? (?:my|our) minds?|on second thoughts?|after all|scratch|strike|forget|disregard|ignore (?:that|what|my)|make (?:that|it)|instead|"
    r"any ?more|no longer|misspoke|i meant|(?:i|that) was (?:wrong|a mistake)|change of plans?|turns out|let['’]?s (?:go with|make it|use)|better(?:,| use| to)|"
    r"(?:has |have |was |were |is |are )?(?:moved|changed|renamed|switched|bumped|raised|lowered|extended|postponed|become|becomes|updated) to|"
    r"now (?:is|are|lives?|runs?|called|named|at|on|in)|(?:is|are|we['’]?re|lives?|runs?) (?:\w+ ){0,3}?(?:at |on |in |called |named )?\S+ now|"
    r"(?:should|must|has to) be .{1,40} (?:now|instead|after all))\b|^(?:actually|wait|sorry|oops|no|update|correction|edit)\b[,:.!–—-]*\s",
    re.IGNORECASE,
)
"""Wordings that take back what was said before, without its value."""

_ANY_VALUE = re.compile(
    r"(?<![\w/@.:-])(?:(?P<option>--?[A-Za-z][\w-]{1,40})|(?P<name>@[\w-]{1,40})|(?P<address>[a-z]{2,8}://\S{1,80}[\w/])|(?P<date>\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4})|"
    r"(?P<path>[~.]{0,2}(?:/[\w.@~-]{1,40}){1,8}/?|[\w.@~-]{1,40}(?:/[\w.@~-]{1,40}){1,8})(?<!\.)|(?P<number>[$€£]?\d{1,12}(?:[.,:]\d{1,9}){0,4}[%a-z]{0,3})|"
    r"(?P<file>[\w-]{1,40}(?:\.[A-Za-z][\w-]{0,20}){1,4})|(?P<id>[A-Za-z][A-Za-z0-9]{0,30}(?:[_-][A-Za-z0-9]{1,30}){1,6}))(?![\w/@-]|[.:]\w)"
)
"""A value, by the kind that it shares with what replaces it."""

_NUMBERED = re.compile(
    r"\b(?:lines?|pr|issues?|bugs?|tickets?|tasks?|parts?|steps?|phases?|chapters?|sections?|pages?|commits?|messages?|cases?)\s?#?$",
    re.IGNORECASE,
)
"""Before a number that says which one, not how much."""
_LEFT = re.compile(
    r"\b(?:no longer|rather than|instead of|not|n['’]t|isn['’]t|aren['’]t|forget(?: about)?|scratch|drop) (?:at |on |in |called |the )?$",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{3,}")
_NO_TOPIC = frozenset(
    "the and for not but with from this that these those then than are was were will would should could can may must have has had into onto out "
    "use using take make call name set put keep change move switch write run please now instead actually sorry wait after all again ever never "
    "always only just also still any more longer mind changed second thought scratch forget ignore said wrong mistake meant let our your its "
    "their his her one two new old what when where which who how why correction update lives live called named become moved".split()
)
NEAREST = 3
"""Messages back that a sentence about nothing (“sorry, I meant 3”) can take back."""

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


Sentence = tuple[str, str]
"""A sentence, and the same with quotations masked."""


class ReplacedValue(NamedTuple):
    """A later sentence that replaces a value in an earlier message."""

    at: int  # place of the earlier message among the inputs
    old: str  # the value
    sentence: str
    number: int  # of the message that holds the sentence


def superseded(
    inputs: Sequence[UserInput], rules: Iterable[UserInput] = ()
) -> tuple[list[UserInput], list[UserInput]]:
    """The messages and the rules in them, each with the sentence that corrects a value in it, if a later one does.

    Args:
        inputs: The user's messages, oldest first.
        rules: Sentences of them.
    """
    newest: dict[int, ReplacedValue] = {}
    for found in corrections_of(inputs):
        newest[found.at] = found
    marked = [
        _corrected(entry, newest[at]) if at in newest else entry for at, entry in enumerate(inputs)
    ]
    return marked, [_marked_rule(rule, inputs, newest) for rule in rules]


def _corrected(entry: UserInput, by: ReplacedValue) -> UserInput:
    return replace(entry, corrected=by.sentence, corrected_by=by.number)


def _marked_rule(
    rule: UserInput, inputs: Sequence[UserInput], newest: Mapping[int, ReplacedValue]
) -> UserInput:
    for at, by in newest.items():
        if rule.text in inputs[at].text and names_value(rule.text, by.old):
            return _corrected(rule, by)
    return rule


def corrections_of(inputs: Sequence[UserInput]) -> list[ReplacedValue]:
    """Each value of a message that a later one replaces, in the order of the later ones.

    Args:
        inputs: The user's messages, oldest first.
    """
    found: list[ReplacedValue] = []
    newest: dict[str, tuple[int, str]] = {}
    typed = [_short(typed_sentences(entry.text)) for entry in inputs]
    for place, entry in enumerate(inputs):
        for whole, bare in typed[place]:
            for old, binding in _replaced(whole, bare):
                earlier = (at for at in range(place) if _names(typed[at], old, binding))
                found += [ReplacedValue(at, old, whole, entry.number) for at in earlier]
            for what, value in _assigned(whole):
                at, before = newest.get(what, (place, value))
                if before != value and at != place:
                    found.append(ReplacedValue(at, before, whole, entry.number))
                newest[what] = place, value
            if _revises(bare):
                for at, old in _revised(whole, typed[:place]):
                    found.append(ReplacedValue(at, old, whole, entry.number))
    return found


def _short(sentences: Sequence[Sentence]) -> list[Sentence]:
    return [pair for pair in sentences if len(pair[0]) <= MAX_SENTENCE]


def _names(sentences: Sequence[Sentence], value: str, binding: bool) -> bool:
    """Whether a message names a value: typed, not to say that it no longer holds, and where asked in a sentence that binds."""
    return any(
        names_value(whole, value)
        and value not in {old for old, _ in _replaced(whole, bare)}
        and (not binding or _binds(whole, bare))
        for whole, bare in sentences
    )


# ---- a new value in place of one that the sentence does not name -----------------------------------


def _revises(bare: str) -> bool:
    """Whether a sentence says that something is different from what was said before."""
    if bare.endswith(("?", "？")):
        return False
    return _REVISES.search(bare) is not None or kind_of(bare) is CommitmentKind.CORRECTION


def _revised(sentence: str, before: Sequence[Sequence[Sentence]]) -> list[tuple[int, str]]:
    """The values of a kind with that of the sentence, in the newest message that says the same of the same thing."""
    named, about = _values(sentence), _topics(sentence)
    new = {value: kind for value, kind in named.items() if not _is_left(sentence, value)}
    if not new:
        return []
    left = named.keys() - new.keys()
    near = len(before) - NEAREST
    for at in range(len(before) - 1, -1, -1):
        olds = [
            old
            for whole, bare in before[at]
            if not bare.endswith(("?", "？")) and (about & _topics(whole) if about else at >= near)
            for old, kind in _values(whole).items()
            if (old in left if left else kind in new.values() and old not in new)
            and not _is_left(whole, old)
        ]
        if olds:
            return [(at, olds[-1])] if len(set(olds)) == 1 or about else []
    return []


def _values(sentence: str) -> dict[str, str]:
    """The values of a sentence, each with its kind."""
    found = (match for match in _ANY_VALUE.finditer(sentence))
    return {
        match[0]: match.lastgroup
        for match in found
        if match.lastgroup and not _NUMBERED.search(sentence, 0, match.start())
    }


def _is_left(sentence: str, value: str) -> bool:
    """Whether a sentence names a value only to say that it no longer holds."""
    return _LEFT.search(sentence, 0, sentence.find(value)) is not None


def _topics(sentence: str) -> frozenset[str]:
    """What a sentence is about: its words, without those of any sentence and without values."""
    words = _WORD.findall(_ANY_VALUE.sub(" ", sentence).lower())
    return frozenset(word.rstrip("s") for word in words) - _NO_TOPIC


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

"""Standing instructions and commitments, by kind: which sentences of typed prose bind, in English and ten more languages.

Only words of the user and the assistant are looked at, never text of tools, quotations or pasted material; a question, a
report about others, a story of the past and a permission not to do something bind nobody. In case of doubt a sentence has no kind.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from ullage.facts.prose import typed_sentences
from ullage.facts.searched import SearchedPatterns
from ullage.facts.typed_lines import is_reported

__all__ = [
    "Commitment",
    "CommitmentKind",
    "commitments_among",
    "commitments_in",
    "is_answer",
    "kind_of",
]


class CommitmentKind(StrEnum):
    """What a sentence does."""

    PROHIBITION = "prohibition"
    OBLIGATION = "obligation"
    PREFERENCE = "preference"
    CONDITION = "condition"
    CORRECTION = "correction"
    DECISION = "decision"
    TODO = "todo"
    APPROVAL = "approval"
    DENIAL = "denial"


class Commitment(NamedTuple):
    """A sentence that binds, verbatim."""

    kind: CommitmentKind
    text: str


MIN_SENTENCE, MAX_SENTENCE = 3, 400
MAX_ANSWER = 120
"""Characters of a reply that may be nothing but an approval or a denial."""

_OF_ASSISTANT = frozenset((CommitmentKind.DECISION, CommitmentKind.TODO))
_QUESTIONS = ("?", "？", "؟")


class _Patterns(NamedTuple):
    kinds: tuple[CommitmentKind | None, ...]  # `None`: what binds nobody, which is asked first
    sentences: SearchedPatterns
    yes: re.Pattern[str]
    no: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    path = Path(__file__).with_name("commitments.toml")
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    kinds = tuple(CommitmentKind(name) for name in data["order"])
    texts = [_joined(data[name]) for name in ("not_binding", *data["order"])]
    yes, no = (_reply(data["answer"][name]) for name in ("yes", "no"))
    return _Patterns((None, *kinds), SearchedPatterns(texts), yes, no)


def _joined(languages: dict[str, str]) -> str:
    lines = (line for text in languages.values() for line in text.strip().split("\n"))
    return "|".join(line for line in lines if line)


def _reply(text: str) -> re.Pattern[str]:
    words = "|".join(line for line in text.strip().split("\n"))
    return re.compile(rf"\W*(?:(?:{words})(?=\W|$)[\W_]*){{1,4}}", re.IGNORECASE)


@lru_cache(
    maxsize=4096
)  # a compaction asks several times of the same sentences; at most 400 characters each
def kind_of(sentence: str) -> CommitmentKind | None:
    """The kind of one sentence; `None`: it binds nobody.

    Args:
        sentence: Prose, quotations masked.
    """
    text = sentence.strip()
    if not MIN_SENTENCE <= len(text) <= MAX_SENTENCE or text.endswith(_QUESTIONS):
        return None
    found = _patterns()
    place = found.sentences.first(text)
    return found.kinds[place] if place >= 0 else None


def is_answer(text: str) -> CommitmentKind | None:
    """Whether a reply to a question approves or denies, and nothing else; `None`: neither.

    Args:
        text: All that the user wrote in reply.
    """
    reply = text.strip()
    if not reply or len(reply) > MAX_ANSWER or reply.endswith(_QUESTIONS):
        return None
    found = _patterns()
    if found.no.fullmatch(reply):
        return CommitmentKind.DENIAL
    return CommitmentKind.APPROVAL if found.yes.fullmatch(reply) else None


def commitments_in(text: str, *, by_user: bool = True, answers: str = "") -> list[Commitment]:
    """The commitments in a message, in order, verbatim.

    Args:
        text: What the user or the assistant wrote.
        by_user: Only the user can forbid, demand, approve and correct; of the assistant decisions and todos count.
        answers: The question that the message answers; empty: none.

    Example:
        >>> [str(found.kind) for found in commitments_in("Fix it. Never push to main.")]
        ['prohibition']
    """
    if answers and by_user and (reply := is_answer(text)):
        return [Commitment(reply, text.strip())]
    found = commitments_among(typed_sentences(text))
    return found if by_user else [each for each in found if each.kind in _OF_ASSISTANT]


def commitments_among(given: Sequence[tuple[str, str]]) -> list[Commitment]:
    """The commitments of the user among sentences that `typed_sentences` found."""
    found = ((kind_of(bare), whole, bare) for whole, bare in given)
    return [
        Commitment(kind, whole)
        for kind, whole, bare in found
        if kind is not None and not is_reported(bare)
    ]

"""Section 6: the user's words, verbatim where they fit, and what gives way first where they do not.

The words come before everything else that a summary could say. Where room is short, what they
answered goes first, then whole messages without content of their own, then sentences of the longest ones, then
whole messages: corrected ones first, those with a rule last. A sentence that binds is kept whole or left out whole,
and what is left out is named by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from ullage.facts.model import UserInput
from ullage.facts.sections import user_message
from ullage.facts.words import Kind
from ullage.summarizers.budgeted_text import cost, one_line, shorten
from ullage.summarizers.sentence_cut import (
    ReadTexts,
    Sentences,
    is_low_content,
    says_nothing,
    trimmed,
)

__all__ = ["WordsNeed", "says_nothing", "trimmed", "user_messages", "words_need"]


ESSENTIAL_TOKENS = 300
"""Tokens of one message that belong to what is set aside for the user; the rest competes with the other sections."""

LEAST_TOKENS = 15
"""Of a message that is shortened; its rules may need more."""


@dataclass(eq=False)
class _Row:
    number: int
    entry: UserInput
    text: str
    asked: bool = True
    shown: bool = True
    tokens: int = 0
    quoted: bool = True  # the correction is quoted, since it does not stand here itself
    known: ReadTexts = field(default_factory=ReadTexts)
    corrects: tuple[str, ...] = ()  # its sentences that replace a value of an older message

    def written(self) -> str:
        return user_message(self.number, self.text, self._about())

    def _about(self) -> str:
        return f"{self._context()} {self._replaced()}".strip()

    def _replaced(self) -> str:
        if not self.entry.corrected:
            return ""
        by = self.entry.corrected_by
        words = one_line(self.entry.corrected, 160).replace("”", "'")
        said = f": “{words}”" if self.quoted or not by else ""
        return f"(replaced by {f'message {by}' if by else 'a later message'}{said})"

    def _context(self) -> str:
        if self.entry.kind is Kind.FEEDBACK:
            return "(refusing a tool call)"
        question = one_line(self.entry.question, 200).replace("”", "'") if self.asked else ""
        return f"(asked: “{question}”)" if question else ""

    @cached_property
    def low(self) -> bool:
        return not self.rules and is_low_content(self.entry.text, ())

    @cached_property
    def rules(self) -> tuple[str, ...]:
        return self._read.rules

    @cached_property
    def _read(self) -> Sentences:
        read = self.known[self.entry.text]
        new = tuple(said for said in self.corrects if not any(said in rule for rule in read.rules))
        return Sentences(self.entry.text, (*read.rules, *new)) if new else read

    @cached_property
    def need(self) -> int:
        """Tokens of what it says: below `ESSENTIAL_TOKENS`, and not those of sentences that only tell a story."""
        lead = max(self.tokens - cost(self.text), 0)
        told = lead + self._read.telling
        return min(self.tokens, max(min(told, ESSENTIAL_TOKENS), self.floor))

    @cached_property
    def floor(self) -> int:
        """Tokens below which it is not shortened: its rules, and marks for what is missing around them."""
        bound = sum(cost(rule) + GAP_TOKENS for rule in self.rules)
        return min(bound + GAP_TOKENS if bound else LEAST_TOKENS, self.tokens)

    def shortened(self, tokens: int) -> str:
        """What it says, cut at the ends of sentences."""
        return self._read.trimmed(tokens)

    def weigh(self) -> None:
        self.tokens = cost(self.written()) if self.shown else 0


GAP_TOKENS = 12


def user_messages(
    inputs: Sequence[UserInput],
    tokens: int,
    focus: Sequence[str] = (),
    known: ReadTexts | None = None,
) -> str:
    """Every message of the user, verbatim as far as they fit.

    Args:
        inputs: The messages, oldest first.
        tokens: The cap, in UTF-8 bytes / 4.
        focus: Words in lower case: a message that holds one gives way after those that do not.
        known: Texts as far as they were read; `None`: none were.
    """
    rows = _rows(inputs, known)
    present = {row.number for row in rows}
    for row in rows:
        row.quoted = row.entry.corrected_by not in present
        row.weigh()
    _Fit(rows, tokens, focus).run()
    shown = [row for row in rows if row.shown]
    missing = _missing(shown)
    lines = [row.written() for row in shown]
    return "\n".join([_named(missing), *lines] if missing and shown else lines)


def _rows(inputs: Sequence[UserInput], known: ReadTexts | None) -> list[_Row]:
    corrects: dict[int, tuple[str, ...]] = {}
    for entry in inputs:
        if entry.corrected:
            by = entry.corrected_by
            corrects[by] = (*corrects.get(by, ()), entry.corrected)
    texts = ReadTexts() if known is None else known
    return [
        _Row(number, entry, entry.text, known=texts, corrects=corrects.get(number, ()))
        for number, entry in ((entry.number or at, entry) for at, entry in enumerate(inputs, 1))
    ]


Span = tuple[int, int]


def _missing(shown: Sequence[_Row]) -> list[Span]:
    """First and last numbers of what does not stand here before the newest: left out now, or by an earlier compaction."""
    here = sorted({row.number for row in shown})
    gaps = pairwise([0, *here])
    return [(before + 1, number - 1) for before, number in gaps if number - before > 1]


MOST_NAMED = 6
"""Runs of numbers that are named; the newest, where there are more."""


def _named(spans: list[Span]) -> str:
    told = [f"u{a}" if a == b else f"u{a}-u{b}" for a, b in spans[-MOST_NAMED:]]
    told = told if len(spans) <= MOST_NAMED else ["…", *told]
    count = sum(b - a + 1 for a, b in spans)
    return f"({count} message{'s' * (count != 1)} left out for room: {', '.join(told)})"


class WordsNeed(NamedTuple):
    """Tokens of the words without questions and messages that say nothing, in UTF-8 bytes / 4."""

    whole: int  # long messages but the newest count with `ESSENTIAL_TOKENS`
    telling: int  # and without the sentences that say nothing which binds, names or asks
    newest: int = 0  # of the newest message, whole


def words_need(inputs: Sequence[UserInput], known: ReadTexts | None = None) -> WordsNeed:
    """What the user's words need; `known`: see `user_messages`."""
    whole = telling = newest = 0
    rows = _rows(inputs, known)
    for row in rows:
        row.asked = False
        row.weigh()
        last = row is rows[-1]
        newest = row.tokens + _NOTE * (len(rows) > 1)
        if not says_nothing(row.entry.text):
            whole += row.tokens if last else min(row.tokens, max(ESSENTIAL_TOKENS, row.floor))
            telling += row.tokens if last else row.need
    return WordsNeed(whole, telling, newest)


_NOTE = 16
"""Tokens of the line that names the messages that are missing."""


class _Fit:
    """Makes rows smaller until they fit, in steps from what loses least."""

    def __init__(self, rows: list[_Row], tokens: int, focus: Sequence[str]) -> None:
        self._rows, self._tokens, self._focus = rows, tokens, focus
        self._spent = sum(row.tokens for row in rows)
        self._standing = sum(row.shown for row in rows)

    @property
    def _over(self) -> int:
        return self._spent + _NOTE - self._tokens

    def _weigh(self, row: _Row) -> None:
        """After a row has changed."""
        before = row.tokens
        row.weigh()
        self._spent += row.tokens - before

    def run(self) -> None:
        if not self._rows or self._over - _NOTE <= 0:
            return
        newest = self._rows[-1]
        older = sorted(self._rows[:-1], key=self._wanted)
        self._each([row for row in older if not says_nothing(row.entry.text)], self._unasked)
        self._each([row for row in older if says_nothing(row.entry.text)], self._left)
        self._each([row for row in older if row.low], self._left)
        self._shorten(self._rows)
        self._each([row for row in older if row.entry.corrected], self._left)
        correcting = self._correcting()
        self._each(
            [row for row in older if not row.rules and row.number not in correcting], self._left
        )
        if newest.low and any(row.shown for row in older):
            self._each([newest], self._left)
        correcting = self._correcting()
        self._each([row for row in older if row.number not in correcting], self._left)
        self._each(older, self._left)
        last = [row for row in self._rows if row.shown][-1:]
        self._each(last, self._unasked)
        self._each(last, self._cut)

    def _each(self, rows: list[_Row], give_up: Callable[[_Row], None]) -> None:
        for row in rows:
            if self._over <= 0:
                return
            if row.shown and not (self._standing == 1 and give_up == self._left):
                give_up(row)
                self._standing -= not row.shown
                self._weigh(row)

    def _wanted(self, row: _Row) -> tuple[bool, int]:
        text = row.entry.text.lower() if self._focus else ""
        return any(word in text for word in self._focus), row.number

    def _correcting(self) -> set[int]:
        """Numbers of messages that replace an older one that stands here, which may not stand alone."""
        return {one.entry.corrected_by for one in self._rows if one.shown}

    @staticmethod
    def _unasked(row: _Row) -> None:
        row.asked = False

    @staticmethod
    def _left(row: _Row) -> None:
        row.shown = False

    def _cut(self, row: _Row) -> None:
        room = max(row.tokens - self._over - GAP_TOKENS, LEAST_TOKENS)
        row.text = shorten(row.text, room) if not row.rules else trimmed(row.text, room, row.rules)

    def _shorten(self, rows: list[_Row]) -> None:
        """The longest first, all down to one size, but not below what each says while that fits; words of the focus keep twice as much."""
        if self._over <= 0:
            return
        shown = [row for row in rows if row.shown]
        for least in ({row.number: row.need for row in shown}, {}):
            cap = self._cap(shown, least)
            for _ in range(TRIES):
                for row in shown:
                    self._to(row, self._limit(row, cap, least))
                if self._over <= 0:
                    return
                if cap <= LEAST_TOKENS:
                    break
                cap = max(cap * 7 // 8 - 1, LEAST_TOKENS)

    def _limit(self, row: _Row, cap: int, least: Mapping[int, int]) -> int:
        newest = row is self._rows[-1]
        if newest and row.tokens + _NOTE <= self._tokens:  # whole before anything else
            return row.tokens
        wanted = newest or self._wanted(row)[0]
        return max(cap * 2 if wanted else cap, row.floor, least.get(row.number, 0))

    def _cap(self, rows: list[_Row], least: Mapping[int, int]) -> int:
        room = self._tokens - _NOTE
        low, high = LEAST_TOKENS, max((row.tokens for row in rows), default=LEAST_TOKENS)
        while low < high:
            middle = (low + high + 1) // 2
            need = sum(min(row.tokens, self._limit(row, middle, least)) for row in rows)
            low, high = (middle, high) if need <= room else (low, middle - 1)
        return low

    def _to(self, row: _Row, limit: int) -> None:
        if row.tokens <= limit:
            return
        lead = max(row.tokens - cost(row.text), 0)
        shorter = row.shortened(max(limit - lead, LEAST_TOKENS))
        if cost(shorter) < cost(row.text):
            row.text = shorter
            self._weigh(row)


TRIES = 5

"""Section 6: the user's words, verbatim where they fit, and what gives way first where they do not.

The words come before everything else that a summary could say. Where room is short, what they
answered goes first, then whole messages without content of their own, then sentences of the longest ones, then
whole messages: corrected ones first, those with a rule last. A sentence that binds is kept whole or left out whole,
and what is left out is named by its number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from ullage._start import NamedTuple, pattern
from ullage.facts.collector import findings
from ullage.facts.model import UserInput
from ullage.facts.rules import (
    CommitmentKind,
    commitments_among,
    is_answer,
    is_talk,
    patterns,
    rules_in,
    rules_of,
    typed_sentences,
)
from ullage.facts.sections import LEFT_OUT, user_message
from ullage.facts.word_counts import WordCounts
from ullage.facts.words import Kind, asks
from ullage.messages import largest
from ullage.summarizers.budgeted_text import cost, one_line, shorten

# Shortens a user's message at the ends of sentences, and says which messages have no content of their own.


LOW_CONTENT_CHARS = 160  # longer messages have something to say; they are shortened instead


def says_nothing(text: str) -> bool:
    """Whether a message only agrees, greets or thanks: `ok`, `go on`. Such messages give way first."""
    return len(text) <= 60 and patterns().nothing.fullmatch(text) is not None


_RULE_KINDS = "prohibition obligation preference condition correction"
_RULES = frozenset(map(CommitmentKind, _RULE_KINDS.split()))


def binding(text: str) -> tuple[str, ...]:
    """The sentences of the user's words that bind, the weightiest first: in any language that is recognised."""
    typed = typed_sentences(text)
    rules = [rule.text for rule in sorted(rules_in(typed), key=lambda rule: not rule.lasting)]
    rules += [item.text for item in commitments_among(typed) if item.kind in _RULES]
    return tuple(dict.fromkeys(rules))


def is_low_content(text: str, rules: Sequence[str] | None = None) -> bool:
    """Whether a message holds no rule (`None`: they are looked for), number, path, negation, question or request: it may be left out whole."""
    if says_nothing(text):
        return True
    if len(text) > LOW_CONTENT_CHARS or patterns().content.first(text) >= 0:
        return False
    return not (binding(text) if rules is None else rules)


# ---- shortening ----------------------------------------------------------------------------------

_END = pattern(r"(?<=[.!?])[ \t]+|(?<=[。！？])|\n+")
# The same for ASCII: it begins with what is looked for quickly.
_END_AT_BLANKS = pattern(r"[ \t\n](?:(?<=\n)\n*|(?<=[.!?][ \t])[ \t]*)")
MAX_UNITS = 4_000  # of a text, half at each end; what is between them is one
# Tokens of a sentence up to which it is kept or left out whole; a longer one is mostly no sentence.
LONGEST_WHOLE = 80
Span = tuple[int, int]
LEAST_TRIMMED = 40  # tokens of a text that is not worth cutting


def trimmed(text: str, tokens: int, rules: Sequence[str] | None = None) -> str:
    """The sentences of the user's words that matter most, whole and in order, with marks for what is missing between them: about so many UTF-8 bytes / 4.

    Rules come first (the weightiest is the first of `rules`; `None`: they are looked for), then typed sentences with a number, a path,
    a negation or a request, then the first and the last one, then the others from the beginning. A text of one very long piece, without
    a rule, is cut in the middle.
    """
    return text if cost(text) <= tokens else Sentences(text, rules).trimmed(tokens)


class Sentences:
    """A text of the user with its sentences; what is asked about it is worked out once. `rules`: see `trimmed`."""

    def __init__(self, text: str, rules: Sequence[str] | None = None) -> None:
        self.text = text
        if rules is not None:
            self.rules = tuple(rules)

    @cached_property
    def rules(self) -> tuple[str, ...]:
        """The sentences that bind, the weightiest first."""
        return binding(self.text)

    @cached_property
    def strict(self) -> bool:
        """Whether a sentence is a rule by its words alone."""
        return bool(rules_of(self.text))

    @cached_property
    def cost(self) -> int:
        """In UTF-8 bytes / 4."""
        return cost(self.text)

    @cached_property
    def _spans(self) -> list[Span]:
        """Sentences and lines, none ending inside a rule."""
        text = self.text
        bound = [(at, at + len(rule)) for rule in self.rules if (at := text.find(rule)) >= 0]
        spans: list[Span] = []
        start = 0
        for mark in (_END_AT_BLANKS if text.isascii() else _END).finditer(text):
            if any(first < mark.end() and mark.start() < last for first, last in bound):
                continue
            spans.append((start, mark.start()))
            start = mark.end()
        spans.append((start, len(text)))
        if len(spans) > MAX_UNITS:
            middle = spans[MAX_UNITS // 2 : -MAX_UNITS // 2]
            spans[MAX_UNITS // 2 : -MAX_UNITS // 2] = [(middle[0][0], middle[-1][1])]
        return [span for span in spans if _LEFT_OUT.sub("", text[slice(*span)]).strip()]

    @cached_property
    def _ranks(self) -> list[int]:
        """How early each sentence is taken: the lower the earlier."""
        typed = {whole for whole, _ in typed_sentences(self.text)}
        ranks, seen = [], set()
        for at, (first, last) in enumerate(self._spans):
            unit = self.text[first:last].strip()
            again = unit in seen
            seen.add(unit)
            held = next((n for n, rule in enumerate(self.rules) if rule in unit), None)
            if held is not None:
                ranks.append(held - _FIRST)
            elif again:
                ranks.append(_FIRST)
            elif unit in typed and _says(_LEFT_OUT.sub("", unit)):
                ranks.append(0 if at == 0 else 1)
            else:
                ranks.append(2 if at in (0, len(self._spans) - 1) else 3 + at)
        return ranks

    @cached_property
    def _costs(self) -> list[int]:
        return [cost(self.text[first:last]) for first, last in self._spans]

    def trimmed(self, tokens: int) -> str:
        """As the function `trimmed`."""
        if self.cost <= tokens:
            return self.text
        chosen = _chosen(self._costs, self._ranks, tokens)
        if not chosen and not self.rules:
            longest = max(self._costs, default=0)
            whole = 0 < longest <= LONGEST_WHOLE
            return self.text if whole else shorten(self.text, tokens)
        return _joined(self.text, [self._spans[at] for at in sorted(chosen)])

    @cached_property
    def telling(self) -> int:
        """What it needs so that `trimmed` keeps each sentence that says something, in UTF-8 bytes / 4."""
        if self.cost <= LEAST_TRIMMED:
            return self.cost
        places = [at for at, rank in enumerate(self._ranks) if rank <= 1]
        gaps = sum(at - 1 not in places for at in places) + 1
        return min(sum(self._costs[at] for at in places) + gaps * _MARK * 2, self.cost)


class ReadTexts(dict[str, Sentences]):
    """Texts of a conversation that are asked about several times."""

    def __init__(self, word_counts: WordCounts) -> None:
        super().__init__()
        self.word_counts = word_counts

    def __missing__(self, text: str) -> Sentences:
        sentences = self[text] = Sentences(text)
        return sentences


# A mark of an earlier compaction; the next one adds to it.
_LEFT_OUT = pattern(rf"\[… (\d{{1,9}}) {re.escape(LEFT_OUT)}")
_FIRST = 1 << 20
_MARK = 9  # tokens of a mark for what is missing
# Tokens of one message that belong to what is set aside for the user; the rest competes with the other sections.
ESSENTIAL_TOKENS = 300
LEAST_TOKENS = 15  # of a message that is shortened; its rules may need more
# So short a message gives way after longer ones were shortened: little is won by it.
SHORT_TOKENS = 8
MOST_REPLIES = 6  # short ones that keep their questions, the newest
SHORT_REPLY = 100  # characters of a message that says little without the question before it
# Of a question that stands with its answer, and of one with a list of what is meant.
QUESTION_CHARS, LIST_CHARS = 200, 320
# Characters of a message which, if a value in it is replaced, is replaced as a whole.
SAYS_ONE_THING = 100
GAP_TOKENS = 12
# Runs of numbers that are named; the newest, where there are more, or where the room is too small.
MOST_NAMED, TOKENS_FOR_A_SPAN, NAMED_PART = 6, 40, 10
# Tokens of the line that names the messages that are missing, and where it only counts them.
_NOTE, SHORT_NOTE = 16, 8
TRIES = 5
KEPT_TOKENS = 60  # to which messages are shortened before whole ones give way
ROW_TOKENS = 4  # of the number before a message
NEWEST = 0.25  # how much more the newest message is worth than the oldest
RULE_WEIGHT = 1.5  # of a message that may be meant as a rule


def _says(text: str) -> bool:
    return patterns().content.first(text) >= 0 or any(findings(text))


def _chosen(costs: Sequence[int], ranks: Sequence[int], tokens: int) -> set[int]:
    chosen: set[int] = set()
    room = tokens - _MARK
    order = sorted(range(len(costs)), key=lambda at: (ranks[at], at))
    for at in order:
        price = costs[at] + (_MARK if not {at - 1, at + 1} & chosen else 0)
        if price <= room or (ranks[at] == -_FIRST and price - _MARK <= tokens):
            chosen.add(at)
            room -= price
    if not chosen and order and costs[order[0]] <= tokens + _MARK * 2:
        chosen.add(order[0])
    for at in order:  # instead of a mark between two others
        if at not in chosen and {at - 1, at + 1} <= chosen and costs[at] - _MARK <= room:
            chosen.add(at)
            room -= costs[at] - _MARK
    return chosen


def _joined(text: str, spans: Sequence[Span]) -> str:
    parts: list[str] = []
    at = 0
    for first, last in [*spans, (len(text), len(text))]:
        gap = text[at:first].strip()
        missing = len(_LEFT_OUT.sub("", gap).strip()) + sum(map(int, _LEFT_OUT.findall(gap)))
        if missing:
            parts.append(f"[… {missing} {LEFT_OUT}")
        parts.append(text[first:last].strip())
        at = last
    return ("\n" if "\n" in text else " ").join(part for part in parts if part)


@dataclass(eq=False, repr=False)
class _Row:
    number: int
    entry: UserInput
    text: str
    read: Sentences  # of the whole text
    asked: bool = True
    shown: bool = True
    tokens: int = 0
    times: int = 1  # that it was said; 0: a newer one says it
    quoted: bool = True  # the correction is quoted, since it does not stand here itself

    def written(self) -> str:
        """Its row, with what it answers, how often it was said and what replaces it."""
        about = [self._context()] if self.asked or self.entry.kind is Kind.FEEDBACK else []
        if self.times > 1:
            about.append(f"({self.times} times)")
        if self.entry.corrected:
            about.append(self._replaced())
        return user_message(self.number, self.text, " ".join(filter(None, about)))

    def _context(self) -> str:
        if self.entry.kind is Kind.FEEDBACK:
            return "(refusing a tool call)"
        if not self.entry.question:
            return ""
        chars = LIST_CHARS if "\n" in self.entry.question else QUESTION_CHARS
        question = one_line(self.entry.question, chars).replace("”", "'")
        word = "asked" if asks(self.entry.question) else "proposed"
        return f"({word}: “{question}”)" if question else ""

    def _replaced(self) -> str:
        by = self.entry.corrected_by
        words = one_line(self.entry.corrected, 160).replace("”", "'")
        quote = f": “{words}”" if self.quoted or not by else ""
        value = one_line(self.entry.corrected_value, 40).replace("”", "'")
        # Of a long message the rest still holds.
        what = f"“{value}” " if value and len(self.entry.text) > SAYS_ONE_THING else ""
        return f"({what}replaced by {f'message {by}' if by else 'a later message'}{quote})"

    @cached_property
    def low(self) -> bool:
        return not self.rules and is_low_content(self.entry.text, ())

    @property
    def rules(self) -> tuple[str, ...]:
        return self.read.rules

    @cached_property
    def replies(self) -> bool:
        """Whether it says little without what it answers, and is no choice that a line of its own tells."""
        text = self.entry.text
        return bool(self.entry.question) and len(text) <= SHORT_REPLY and is_answer(text) is None

    @cached_property
    def need(self) -> int:
        """Tokens of what it says: below `ESSENTIAL_TOKENS`, and not those of sentences that only tell a story."""
        lead = max(self.tokens - cost(self.text), 0)
        telling = lead + self.read.telling
        return min(self.tokens, max(min(telling, ESSENTIAL_TOKENS), self.floor))

    @cached_property
    def floor(self) -> int:
        """Tokens below which it is not shortened: its rules, and marks for what is missing around them."""
        bound = sum(cost(rule) + GAP_TOKENS for rule in self.rules)
        return min(bound + GAP_TOKENS if bound else LEAST_TOKENS, self.tokens)

    def weigh(self) -> None:
        self.tokens = cost(self.written()) if self.shown else 0


def user_messages(
    inputs: Sequence[UserInput],
    tokens: int,
    focus: Sequence[str] = (),
    texts: ReadTexts | None = None,
    *,
    newest_here: bool = True,
) -> str:
    """Every message of the user (oldest first), verbatim as far as they fit into tokens of UTF-8 bytes / 4.

    Args:
        inputs: The messages.
        tokens: The cap.
        focus: Words in lower case: a message that holds one gives way after those that do not.
        texts: Texts as far as they were read; `None`: none were.
        newest_here: The last of them is the newest of all, which gives way last.
    """
    texts = ReadTexts(WordCounts(entry.text for entry in inputs)) if texts is None else texts
    rows = _rows(inputs, texts)
    present = {row.number for row in rows}
    for row in rows:
        row.quoted = row.entry.corrected_by not in present
        row.weigh()
    _Fit(rows, tokens, focus, texts.word_counts, newest_here=newest_here).run()
    shown = [row for row in rows if row.shown]
    missing = _missing(shown, rows[-1].number if rows else 0)
    lines = [row.written() for row in shown]
    return "\n".join([_named(missing, tokens), *lines] if missing and shown else lines)


def whole_tokens(entry: UserInput) -> int:
    """What `user_messages` needs for one message alone, whole, with the note that names those before it."""
    number = entry.number or 1
    read = Sentences(entry.text)
    row = _Row(number, entry, entry.text, read, quoted=entry.corrected_by != number)
    note = f"{_named([(1, number - 1)], 1 << 40)}\n" if number > 1 else ""
    return cost(f"{note}{row.written()}")


def _rows(inputs: Sequence[UserInput], texts: ReadTexts) -> list[_Row]:
    corrects: dict[int, list[str]] = {}
    for entry in inputs:
        if entry.corrected:
            corrects.setdefault(entry.corrected_by, []).append(entry.corrected)
    rows = []
    for at, entry in enumerate(inputs, 1):
        number, read = entry.number or at, texts[entry.text]
        # Its sentences that replace a value of an older message bind as well.
        new = [text for text in corrects.get(number, ()) if not any(text in r for r in read.rules)]
        if new:
            read = Sentences(entry.text, (*read.rules, *new))
        rows.append(_Row(number, entry, entry.text, read))
    for row in [row for row in rows if row.replies][:-MOST_REPLIES]:
        row.replies = False
    return rows


def _missing(shown: Sequence[_Row], last: int) -> list[Span]:
    """First and last numbers of what does not stand here up to the last message: left out now, or by an earlier compaction."""
    here = sorted({row.number for row in shown} | {last + 1})
    gaps = pairwise([0, *here])
    return [(before + 1, number - 1) for before, number in gaps if number - before > 1]


def _named(spans: list[Span], tokens: int) -> str:
    most = min(MOST_NAMED, tokens // TOKENS_FOR_A_SPAN)
    count = sum(b - a + 1 for a, b in spans)
    labels = [f"u{a}" if a == b else f"u{a}-u{b}" for a, b in spans[max(len(spans) - most, 0) :]]
    labels = labels if len(spans) <= most else ["…", *labels]
    line = f"({count} message{'s' * (count != 1)} left out for room: {', '.join(labels)})"
    # Which they are can be read from the numbers that stand.
    return line if cost(line) * NAMED_PART <= tokens else f"({count} left out for room)"


class WordsNeed(NamedTuple):
    """Tokens of the words without messages that say nothing and questions but those of short replies, in UTF-8 bytes / 4."""

    whole: int  # long messages but the newest count with `ESSENTIAL_TOKENS`
    telling: int  # and without the sentences that say nothing which binds, names or asks
    newest: int = 0  # of the newest message, whole
    question: int = 0  # of the one that it answers, which the others give up first


def words_need(
    inputs: Sequence[UserInput], texts: ReadTexts | None = None, *, newest_here: bool = True
) -> WordsNeed:
    """What the user's words need; for the arguments see `user_messages`."""
    whole = telling = newest = question = 0
    rows = _rows(inputs, ReadTexts(WordCounts()) if texts is None else texts)
    for row in rows:
        last = newest_here and row is rows[-1]
        if last:
            row.weigh()
            question = row.tokens
        row.asked = row.replies and not last
        row.weigh()
        if last:
            newest, question = row.tokens + _NOTE * (len(rows) > 1), question - row.tokens
        if not says_nothing(row.entry.text):
            whole += row.tokens if last else min(row.tokens, max(ESSENTIAL_TOKENS, row.floor))
            telling += row.tokens if last else row.need
    return WordsNeed(whole, telling, newest, question)


def newest_tokens(inputs: Sequence[UserInput]) -> int:
    """What `user_messages` needs for the newest message whole, and a note where there are others."""
    return words_need(inputs[-1:]).newest + 1 + _NOTE * (len(inputs) > 1)


class _Fit:
    """Makes rows smaller until they fit, in steps from what loses least."""

    def __init__(
        self,
        rows: list[_Row],
        tokens: int,
        focus: Sequence[str],
        word_counts: WordCounts,
        *,
        newest_here: bool,
    ) -> None:
        self._rows, self._tokens, self._focus = rows, tokens, focus
        self._note = min(max(tokens // NAMED_PART, SHORT_NOTE), _NOTE)
        self._newest = rows[-1] if rows and newest_here else None
        self._older = rows[:-1] if newest_here else rows
        self._word_counts = word_counts
        self._spent = sum(row.tokens for row in rows)
        self._standing = sum(row.shown for row in rows)
        short = (row.tokens for row in self._older if row.shown and not row.low)
        self._short = sum(tokens for tokens in short if tokens <= SHORT_TOKENS)

    @property
    def _over(self) -> int:
        return self._spent + self._note - self._tokens

    def _weigh(self, row: _Row) -> None:
        """After a row has changed."""
        before = row.tokens
        row.weigh()
        self._spent += row.tokens - before

    def run(self) -> None:
        if not self._rows or self._over - self._note <= 0:
            return
        older = sorted(self._older, key=self._wanted)
        telling = [row for row in older if not says_nothing(row.entry.text)]
        self._until_fits([row for row in telling if not row.replies], self._unasked)
        self._until_fits([row for row in older if says_nothing(row.entry.text)], self._left)
        self._until_fits(telling, self._unasked)
        self._once()
        self._shorten(self._rows, KEPT_TOKENS)
        self._until_fits([row for row in older if row.entry.corrected], self._left)
        if self._over <= 0:
            return
        older = self._by_content(older)
        long = [row for row in older if row.low or row.tokens > SHORT_TOKENS]
        free = self._without_rules(long)
        self._until_fits([row for row in free if not self._is_meant(row)], self._left)
        self._shorten(self._rows, LEAST_TOKENS)
        self._until_fits(self._without_rules(older), self._left)
        if self._newest and self._newest.low and any(row.shown for row in older):
            self._until_fits([self._newest], self._left)
        correcting = self._correcting()
        self._until_fits([row for row in older if row.number not in correcting], self._left)
        self._until_fits(older, self._left)
        last = [row for row in self._rows if row.shown][-1:]
        self._until_fits(last, self._unasked)
        self._until_fits(last, self._cut)
        self._fill(older[::-1])

    def _fill(self, rows: list[_Row]) -> None:
        """Those that say most stand again where there is room after all."""
        for row in rows:
            stands = row.shown or not row.times or row.entry.corrected
            if stands or says_nothing(row.entry.text):
                continue
            row.shown = True
            self._weigh(row)
            if self._over > 0:
                row.shown = False
                self._weigh(row)

    def _once(self) -> None:
        """All but the newest of equal messages go, even where some of them would have room; that one then says how often they were said."""
        if self._over <= 0:
            return
        newest: dict[tuple[str, str], _Row] = {}
        for row in reversed(self._rows):
            if row.shown:
                words = (row.entry.question, " ".join(row.entry.text.split()))
                same = newest.setdefault(words, row)
                if same is not row:
                    same.times += 1
                    row.shown, row.times = False, 0
                    self._standing -= 1
                    self._weigh(row)
        for row in self._rows:
            if row.times > 1:
                self._weigh(row)

    def _without_rules(self, rows: list[_Row]) -> list[_Row]:
        """Those that do not surely bind, nor correct what does: what surely binds gives way last."""
        correcting = self._correcting()
        free = [row for row in rows if row.number not in correcting]
        return [row for row in free if not (self._is_meant(row) and row.read.strict)]

    def _is_meant(self, row: _Row) -> bool:
        """Whether a message has a rule, and not only as the form of small talk."""
        text, counts = row.entry.text, self._word_counts
        return bool(row.rules) and not counts.are_common(text) and not is_talk(text, counts)

    def _by_content(self, rows: list[_Row]) -> list[_Row]:
        """The rows that say least for their length first."""

        def key(row: _Row) -> tuple[bool, bool, float]:
            weak = row.low and self._word_counts.names_nothing(row.entry.text)
            return self._wanted(row)[0], not weak, self._worth(row)

        return sorted(rows, key=key)

    def _worth(self, row: _Row) -> float:
        text = row.entry.text
        weight = RULE_WEIGHT if self._is_meant(row) else 1
        first, last = self._rows[0].number, self._rows[-1].number
        age = (row.number - first) / max(last - first, 1)
        density = self._word_counts.worth(text) / (cost(text) + ROW_TOKENS)
        return density * weight * (1 + NEWEST * age)

    def _until_fits(self, rows: list[_Row], give_up: Callable[[_Row], None]) -> None:
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
        words = row.entry.text  # not a text that has been cut already, with its marks
        row.text = shorten(words, room) if not row.rules else trimmed(words, room, row.rules)

    def _shorten(self, rows: list[_Row], smallest: int) -> None:
        """The longest first, all down to one size, but not below what each says while that fits; words of the focus keep twice as much."""
        if self._over <= 0:
            return
        shown = [row for row in rows if row.shown]
        for least in ({row.number: row.need for row in shown}, {}):
            cap = max(self._cap(shown, least), smallest)
            for _ in range(TRIES):
                for row in shown:
                    self._to(row, self._limit(row, cap, least))
                if self._over <= 0:
                    return
                if cap <= smallest:
                    break
                cap = max(cap * 7 // 8 - 1, smallest)

    def _limit(self, row: _Row, cap: int, least: Mapping[int, int]) -> int:
        newest = row is self._newest
        # Whole before what is long; also before what is short where it takes most of the room: cut here, it would stand below as well.
        short = self._short if row.tokens * 2 <= self._tokens else 0
        if newest and row.tokens + self._note + short <= self._tokens:
            return row.tokens
        wanted = newest or self._wanted(row)[0]
        return max(cap * 2 if wanted else cap, row.floor, least.get(row.number, 0))

    def _cap(self, rows: list[_Row], least: Mapping[int, int]) -> int:
        room = self._tokens - self._note

        def fits(cap: int) -> bool:
            return sum(min(row.tokens, self._limit(row, cap, least)) for row in rows) <= room

        most = max((row.tokens for row in rows), default=LEAST_TOKENS)
        return largest(most, fits, least=LEAST_TOKENS)

    def _to(self, row: _Row, limit: int) -> None:
        if row.tokens <= limit:
            return
        lead = max(row.tokens - cost(row.text), 0)
        shorter = row.read.trimmed(max(limit - lead, LEAST_TOKENS))
        if cost(shorter) < cost(row.text):
            row.text = shorter
            self._weigh(row)

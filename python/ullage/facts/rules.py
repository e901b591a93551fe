"""Which sentences of what the user typed are rules.

Which lines of a message were typed says `typed_lines`. Of these a sentence is a rule unless it is a question, a quotation or
says what somebody else said. In doubt a sentence is no rule: as part of the message it stays in every summary anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from enum import IntEnum, StrEnum
from functools import cache, cached_property, lru_cache

from ullage._engine import core
from ullage._start import NamedTuple, pattern, table
from ullage.facts.model import UserInput
from ullage.facts.word_counts import WordCounts
from ullage.facts.words import unfenced

# Patterns that are looked for in each sentence: the engine says at once which are in it and which cannot be, Python's search decides about the rest.


class SearchedPatterns:
    """Some patterns (letters of any case match), each made when it may first match: making a hundred alternatives takes milliseconds.

    `patterns`: alternatives, one a line. Of those with a lookaround the engine is never sure, and for letters
    of one case it takes longer: they are searched apart.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        parts = [(at, part) for at, text in enumerate(patterns) for part in _parts(text)]
        self._places = tuple(at for at, _ in parts)
        self._texts = tuple(part for _, part in parts)
        self._compiled: dict[int, re.Pattern[str]] = {}

    @cached_property
    def _filter(self) -> core.PatternSet:
        return core.PatternSet(self._texts)

    @cached_property
    def _wide(self) -> core.PatternSet:
        return core.PatternSet(self._texts, wide=True)

    def matching(self, text: str) -> Iterator[int]:
        """The places of the patterns that are in a text, in order."""
        maybe, sure = (self._filter if text.isascii() else self._wide).look(text)
        at, last = 0, -1
        while maybe:
            place = self._places[at] if maybe & 1 else last
            if place > last and (sure & 1 or self._pattern(at).search(text)):
                yield (last := place)
            maybe >>= 1
            sure >>= 1
            at += 1

    def first(self, text: str) -> int:
        """The place of the first pattern that is in a text; -1: none is."""
        return next(self.matching(text), -1)

    def _pattern(self, at: int) -> re.Pattern[str]:
        compiled = self._compiled.get(at)
        if compiled is None:
            compiled = self._compiled[at] = re.compile(self._texts[at], re.IGNORECASE)
        return compiled


def _parts(text: str) -> Iterator[str]:
    lines = list(filter(None, text.split("\n")))
    looked = [line for line in lines if re.search(r"\(\?(?!:)", line)]
    plain = [line for line in lines if line not in looked]
    return map("|".join, filter(None, (plain, looked)))


# Which lines of a message its author typed; the others were pasted.
#
# A message may hold a mail, a log, a page or another agent's words. Marks show it: a head, a greeting, a signature, a fence,
# a ruler on both sides, a line that announces it. What they are is in `pasted.toml`. In case of doubt a line was pasted.


# Characters of a message that are read, half at each end: more is read only in the middle of a paste.
MOST_CHARS = 200_000
MOST_LINES = 8_000  # lines of it, half at each end, so that a paste of short lines takes no longer
# Characters of a line in which a mark may stand; of a line that announces something, its last ones.
MOST_IN_LINE = 300
_CUT = "\x00"  # a line in place of a fence or an element
# Stands for an element amid a line: without it the sentence around it would lose its object.
ELEMENT = "\x01"


class _Mark(IntEnum):
    """What may stand in a line, by its place in the patterns."""

    OPENS, INTRODUCES, MACHINE, SHOWN, BOX, ASKS, CLOSES, PARTS, POINTS = range(9)


class _Marks(NamedTuple):
    """What shows that text was pasted, from `pasted.toml`."""

    lines: SearchedPatterns  # by `_Mark`
    text: re.Pattern[str]
    machine_text: re.Pattern[str]
    own: re.Pattern[str]
    reported: SearchedPatterns
    labels: frozenset[str]


@cache
def _marks() -> _Marks:
    data = table(__file__, "pasted.toml")
    either = {name: _either(text) for name, text in data.items()}
    marks = (data[mark.name.lower()] for mark in _Mark if mark is not _Mark.POINTS)
    begins = [re.sub("(?m)^(.+)", r"^(?:\1)", text) for text in marks]
    words = {
        name: pattern(rf"\b(?:{either[name]})\b", re.IGNORECASE)
        for name in ("text", "machine_text", "own")
    }
    return _Marks(
        lines=SearchedPatterns([*begins, rf"\b(?:{either['points']})\W*$"]),
        reported=SearchedPatterns([data["reported"]]),
        labels=frozenset(data["labels"].split()),
        **words,
    )


def typed(text: str) -> str:
    """The user's words of one message with every line blanked that was not typed; of a long one, its two ends."""
    plain = _without_tagged(unfenced(text, open_too=True, gap=_CUT))
    return "\n".join(_Lines(_ends(plain)).typed())


@lru_cache(maxsize=4096)  # as `kind_of`
def is_reported(sentence: str) -> bool:
    """Whether a sentence says what somebody else said or wrote: “the docs say …”, “according to Bob …”."""
    return _marks().reported.first(sentence) >= 0


def _ends(text: str) -> list[str]:
    if len(text) > MOST_CHARS:
        head = text.rfind("\n", 0, MOST_CHARS // 2)
        tail = text.find("\n", len(text) - MOST_CHARS // 2)
        head = head if head >= 0 else MOST_CHARS // 2
        text = f"{text[:head]}\n{text[tail if tail >= 0 else len(text) - MOST_CHARS // 2 :]}"
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        lines = lines[: MOST_LINES // 2] + lines[-MOST_LINES // 2 :]
    return lines


_OPENING_TAG = pattern(r"<([A-Za-z][\w:.-]{0,60})(?:[ \t\n][^<>]{0,400})?>")
_GAP = f"\n{_CUT}\n"


def _without_tagged(text: str) -> str:
    """Remove whole elements; one that opens a line and is never closed removes the rest. Linear."""
    if "<" not in text:
        return text
    pieces: list[str] = []
    unclosed: set[str] = set()
    position = 0
    for match in _OPENING_TAG.finditer(text):
        tag, begin = match[1], match.start()
        if begin < position or tag in unclosed:
            continue
        end = text.find(f"</{tag}>", match.end())
        if end >= 0:
            before = text[position:begin]
            pieces.append(before + (ELEMENT if before.rpartition("\n")[2].strip() else _GAP))
            position = end + len(tag) + 3
        elif not text[max(position, text.rfind("\n", 0, begin) + 1) : begin].strip():
            pieces.append(text[position:begin])
            return "".join(pieces)
        else:
            unclosed.add(tag)
    pieces.append(text[position:])
    return "".join(pieces)


# ---- lines -----------------------------------------------------------------------------------------


class _Lines:
    """The lines of one message, and which of them are known to be pasted."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._marks = _marks()
        self._pasted = bytearray(map(_CUT.__eq__, lines))

    def typed(self) -> Iterator[str]:
        """Each line, empty where it was not typed."""
        if len(self._lines) > 1:
            self._between_rulers()
            self._between_marks()
            self._quoted_paragraphs()
            self._transcript()
        self._passages()
        if len(self._lines) > 1:
            self._tables()
        rows = zip(self._lines, self._pasted, strict=True)
        return ("" if pasted else line for line, pasted in rows)

    def _hide(self, start: int, stop: int | None = None) -> None:
        stop = len(self._lines) if stop is None else stop
        self._pasted[start:stop] = b"\x01" * (stop - start)

    # ---- what stands between two marks

    def _between_rulers(self) -> None:
        rulers = [at for at, line in enumerate(self._lines) if self._is_ruler(at, line)]
        if not rulers:
            return
        first, last = rulers[0], rulers[-1]
        if last > first:
            self._hide(first, last + 1)
        elif not any(map(str.strip, self._lines[:first])):
            self._hide(first)

    def _is_ruler(self, at: int, line: str) -> bool:
        if not _RULER.match(line):
            # `==== X ====`, unless X is what users call their own parts.
            titled = _TITLED_RULER.match(line)
            if titled is None or self._is_own(titled[1]):
                return False
        above = self._lines[at - 1].strip() if at else ""
        heading = above and abs(len(above) - len(line.strip())) <= HEADING_SLACK
        return not (heading and (at < 2 or not self._lines[at - 2].strip()))

    def _is_own(self, title: str) -> bool:
        return not self._marks.labels.isdisjoint(re.findall(r"\w+", title.lower()))

    def _between_marks(self) -> None:
        opened, closer = -1, ""
        for at, line in enumerate(self._lines):
            bare = line.strip()
            if opened < 0 and bare in _CLOSERS:
                opened, closer = at, _CLOSERS[bare]
            elif opened >= 0 and bare == closer:
                self._hide(opened, at + 1)
                opened = -1
        if opened >= 0:
            self._hide(opened)

    def _quoted_paragraphs(self) -> None:
        """A quotation that begins a paragraph and ends a later one."""
        opened, closers, starts = -1, "", True
        for at, line in enumerate(self._lines):
            bare = line.strip()
            if opened < 0 and starts and bare[:1] in _OPENERS:
                inner = bare[1:]
                closers = _OPENERS[bare[0]]
                opened = -1 if any(mark in inner for mark in closers) else at
            elif opened >= 0 and bare.rstrip(".,!?") and bare.rstrip(".,!?")[-1] in closers:
                self._hide(opened, at + 1)
                opened = -1
            starts = not bare

    def _transcript(self) -> None:
        """Two lines of speakers make a transcript: all from the first one on is another's."""
        speakers = [at for at, line in enumerate(self._lines) if self._speaks(line)]
        if len(speakers) > 1 and _Mark.CLOSES not in self._marked(speakers[0]):
            self._hide(speakers[0])

    def _speaks(self, line: str) -> bool:
        if ":" not in line and "：" not in line:
            return False
        if _SPEAKER.match(line):
            return True
        named = _NAMED.match(line)
        return named is not None and not self._is_own(named[1])

    # ---- what a line opens

    def _passages(self) -> None:
        """Heads and announcing lines, up to the end; logs and speakers, up to an empty line."""
        at, until_empty, in_list = 0, False, False
        while at < len(self._lines):
            line = self._lines[at]
            if not line.strip():
                until_empty = False
            elif not self._pasted[at]:
                marks = self._marked(at)
                if _Mark.OPENS in marks or _Mark.INTRODUCES in marks:
                    return self._hide(at)
                below = self._lines[at + 1].strip() if at + 1 < len(self._lines) else ""
                if _Mark.CLOSES in marks or (_Mark.PARTS in marks and _NAME.fullmatch(below)):
                    return self._hide(0)  # what is signed was another's from the beginning
                # What follows a log's or a shell's line, or a speaker's, belongs to it.
                until_empty = until_empty or _Mark.MACHINE in marks or self._speaks(line)
                item = _LIST_ITEM.match(line) is not None
                shown = _Mark.SHOWN in marks and not (item and in_list)
                self._pasted[at] = until_empty or shown or _Mark.BOX in marks
                in_list = item or (in_list and line[:1] in " \t")
                if kind := self._announced(line, marks):
                    at = self._after_announcement(at, kind)
                    until_empty = until_empty and bool(self._lines[at - 1].strip())
                    continue
            at += 1
        return None

    def _marked(self, at: int) -> Set[int]:
        line = self._lines[at].rstrip()
        marks = frozenset(self._marks.lines.matching(line[:MOST_IN_LINE]))
        if len(line) > MOST_IN_LINE:
            end = self._marks.lines.matching(line[-MOST_IN_LINE:])
            marks = marks - {_Mark.POINTS} | {_Mark.POINTS}.intersection(end)
        return marks

    def _announced(self, line: str, marks: Set[int]) -> str:
        """What a line says of the text that follows: `text`, `machine`; empty: nothing."""
        bare = line.rstrip()
        if _Mark.ASKS in marks and len(bare) <= SHORT_LINE:
            return "text"
        points = _Mark.POINTS in marks
        if not bare.endswith((":", "：")) and (len(bare) > SHORT_LINE * 2 or not points):
            return ""
        end = bare[-200:]
        kinds = (self._marks.text, self._marks.machine_text, self._marks.own)
        ends = ([match.end() for match in kind.finditer(end)] for kind in kinds)
        text, machine, own = (max(places, default=-1) for places in ends)
        if own >= 0 and (own >= max(text, machine) or _HOLD.search(end)):
            return ""
        if text < 0 and machine >= 0:
            return "machine"
        return "text" if text >= 0 or points else ""

    def _after_announcement(self, at: int, kind: str) -> int:
        """Where the user may go on after a text that was announced."""
        follows = (n for n in range(at + 1, len(self._lines)) if self._lines[n].strip())
        first = next(follows, -1)
        if first < 0:
            if _WORKS_ON.match(self._lines[at]) and at and not self._lines[at - 1].strip():
                self._hide(0, at)
            return len(self._lines)
        heading = self._lines[first].startswith("#")  # of the text, no comment of a shell
        if self._pasted[first] or not (heading or _SHOWN.isdisjoint(self._marked(first))):
            return first
        end = self._machine_end(first) if kind == "machine" else len(self._lines)
        self._hide(at + 1, end)
        return end

    def _machine_end(self, at: int) -> int:
        """Where prose begins again after paragraphs of a log; the end, where none of them looks like one."""
        seen = False
        for start, stop in self._paragraphs(at):
            lines = self._lines[start:stop]
            machine = 2 * sum(map(bool, map(_MACHINE.search, lines))) >= len(lines)
            if seen and not machine:
                return start
            seen = seen or machine
        return len(self._lines)

    def _paragraphs(self, at: int = 0) -> Iterator[tuple[int, int]]:
        start = at
        for place in range(at, len(self._lines) + 1):
            if place == len(self._lines) or not self._lines[place].strip():
                if place > start:
                    yield start, place
                start = place + 1

    def _tables(self) -> None:
        for start, stop in self._paragraphs():
            lines = [line for line in self._lines[start:stop] if line != _CUT]
            if len(lines) > 1 and (_is_csv(lines) or self._is_data(lines)):
                self._hide(start, stop)

    def _is_data(self, lines: Sequence[str]) -> bool:
        """YAML, an INI file, variables, a table without borders."""
        keys = [match[1] or match[2] for match in map(_KEY.match, lines) if match]
        if 2 * len(keys) >= len(lines) and len(keys) > 1:
            return not all(map(self._is_own, keys))
        return sum(" | " in line or "\t" in line.strip() for line in lines) > 1


def _is_csv(lines: Sequence[str]) -> bool:
    for mark, header in _HEADER.items():
        if header.fullmatch(lines[0]):
            return len({line.count(mark) for line in lines}) == 1
    return False


_SHOWN = frozenset((_Mark.MACHINE, _Mark.SHOWN, _Mark.BOX))
SHORT_LINE = 90
HEADING_SLACK = 2  # characters by which the line under a heading may differ from it
_RULER = pattern(r"[ \t]*(?:([-=_*~#+.─═━])(?:[ ]?\1){2,}|[─═━]{3,})[ \t]*$")
_TITLED_RULER = pattern(
    r"[ \t]*[-=_~+]{3,}[ \t]*([^\s\-=_~+][^\n]{0,120}?)[ \t]*[-=_~+]{2,}[ \t]*$"
)
_CLOSERS = {"'''": "'''", '"""': '"""', "<<<": ">>>", "/*": "*/", "/**": "*/"}
_OPENERS = {"“": "”", "„": "“”", "«": "»", "‹": "›", "「": "」", "『": "』", "‘": "’", '"': '"'}
_LIST_ITEM = pattern(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]")
_SPEAKER = pattern(
    r"[ \t]*(?:\*\*|\[)?(?:system|assistant|human|user|ai|bot|tool|agent|developer|function|claude|chatgpt|model)(?:\*\*|\])?"
    r"[ \t]*:",
    re.IGNORECASE,
)
_CAPITAL = r"[A-ZÀ-ÖØ-ÞА-ЯЁ](?:[^\W\d_]|[.'’-]){0,20}"
_NAME = pattern(rf"{_CAPITAL}(?: {_CAPITAL}){{0,2}}")
# Somebody's name and a colon.
_NAMED = pattern(
    rf"[ \t]*(?:\*\*|\[|@)?({_CAPITAL}(?: {_CAPITAL}){{0,2}})(?:\*\*|\])?[ \t]*(?:\([^)\n]{{1,30}}\))?(?:\*\*)?[ \t]*(?::|：)(?:\*\*)?[ \t]+\S"
)
_HOLD = pattern(r"\b(?:are|is|apply|applies|hold|gelten|gilt|sind)\b", re.IGNORECASE)
_WORKS_ON = pattern(
    r"[ \t]*(?:(?:please|pls|can you|could you|bitte)[ \t,]+)*(?:summari[sz]|translat|proofread|rephras|paraphras|reword|rewrit|transcrib|shorten|polish|tl;?dr|fasse|übersetz|traduis|résum|traduc|resum)",
    re.IGNORECASE,
)
_MACHINE = pattern(
    r"[=<>{}\[\]|\\/_]\S|\S[=<>{}\[\]|_;]|\d{3,}|^[ \t]+\S|^\W|\w\.\w|\w(?:Error|Exception)\b"
)
_KEY = pattern(
    r"[ \t]{0,40}(?:-[ \t]{1,8})?(?:export[ \t]{1,8})?([a-z_][\w.-]{0,60}|[A-Z][A-Z0-9_]{1,60})[ \t]{0,40}(?::(?:[ \t]|$)|=[ \t]?\S)"
    r"|[ \t]{0,40}(\[[\w .-]{1,60}\])[ \t]*$"
)
_HEADER = {
    mark: pattern(rf"[ \t]*\"?[\w .-]{{1,30}}\"?(?:{mark}[ ]?\"?[\w .-]{{1,30}}\"?){{1,40}}[ \t]*")
    for mark in ",;\t"
}
MAX_RULE = 400
MIN_RULE = 8
# Maximum characters of a message from which a note is taken: longer ones contain more than a rule.
MAX_NOTE_MESSAGE = 400
MAX_NOTE_RULE = 240


class UserRule(NamedTuple):
    """A sentence that binds, verbatim."""

    text: str
    lasting: bool  # says that it applies from now on; else for the task at hand


# ---- sentences ------------------------------------------------------------------------------------

Sentence = tuple[str, str]  # a sentence, and the same with quotations masked
_QUOTES = {**_OPENERS, "`": "`", "'": "'"}
_COVER = "\x00"
_QUOTE = pattern(f"[{''.join(_QUOTES)}]")


def _covered(paragraph: str) -> str:
    """The text with each quotation masked, keeping its length; one that never ends reaches to the end."""
    parts: list[str] = []
    done, mark = 0, _QUOTE.search(paragraph)
    while mark is not None:
        at, stop = mark.start(), _quoted_to(paragraph, mark.start())
        if stop > at:
            parts += (paragraph[done:at], _COVER * (stop - at))
            done = stop
        mark = _QUOTE.search(paragraph, max(stop, at + 1))
    return "".join((*parts, paragraph[done:])) if parts else paragraph


def _quoted_to(text: str, at: int) -> int:
    """Where the quotation ends that this mark begins; 0: it is an apostrophe or a stray mark."""
    mark = text[at]
    if mark == "'":
        before, after = text[at - 1 : at] or " ", text[at + 1 : at + 2] or " "
        if before.isalnum() or after.isspace():
            return 0
    for closer in _QUOTES[mark]:
        place = text.find(closer, at + 1)
        while closer in "'’" and place >= 0 and text[place + 1 : place + 2].isalnum():
            place = text.find(closer, place + 1)
        if place >= 0:
            return place + 1
    return 0 if mark in "'`‘" else len(text)


_BREAK = pattern(r"(?<=[.!?])\s+|(?<=[。！？])|\n")


def sentences(text: str) -> list[Sentence]:
    """The sentences of a text, each with a copy in which quotations are masked; punctuation inside a quotation ends none."""
    sentences: list[Sentence] = []
    for paragraph in text.split("\n\n"):
        covered = _covered(paragraph)
        if covered is paragraph and covered.isascii():
            parts = core.split_sentences(covered, 1, len(covered))
            sentences += [(part, part) for part in parts]
            continue
        start = 0
        ends = [(mark.start(), mark.end()) for mark in _BREAK.finditer(covered)]
        for stop, following in (*ends, (len(covered), 0)):
            if whole := paragraph[start:stop].strip():
                sentences.append((whole, covered[start:stop].strip()))
            start = following
    return sentences


def typed_sentences(text: str) -> Sequence[Sentence]:
    """`sentences` of what is typed prose, each whole: not those around an element."""
    return _typed_sentences(text) if len(text) > SHORT_TEXT else _of_short(text)


def _typed_sentences(text: str) -> Sequence[Sentence]:
    return tuple([pair for pair in sentences(typed(text)) if ELEMENT not in pair[0]])


SHORT_TEXT = 2_000
_of_short = lru_cache(maxsize=2048)(_typed_sentences)  # a compaction asks for all several times


# ---- which sentences bind -------------------------------------------------------------------------

# A lasting note must not send anything anywhere or run anything.
_NOT_A_NOTE = pattern(
    r"https?://|[|`]|&&|\$\(|[\w.+-]{1,64}@[\w-]{1,64}\.|\b(?:curl|wget|sudo|eval|base64)\b", re.I
)
_LISTED = pattern(r"#|[-*+•][ \t]|\d{1,3}[.)][ \t]")


def rules_of(text: str) -> list[UserRule]:
    """The sentences of the user's words of one message that bind, in order, verbatim."""
    return rules_in(typed_sentences(text))


def rules_in(sentences: Sequence[Sentence]) -> list[UserRule]:
    """`rules_of`, of sentences that `typed_sentences` found."""
    rules = []
    for whole, bare in sentences:
        if MIN_RULE <= len(whole) <= MAX_RULE and not bare.endswith(("?", "？")):
            place = _rule_place(bare)
            if place >= 0 and not is_reported(bare):
                rules.append(UserRule(whole, lasting=place == 0))
    return rules


@lru_cache(maxsize=4096)  # as `kind_of`
def _rule_place(bare: str) -> int:
    return patterns().rules.first(bare)


def is_talk(text: str, word_counts: WordCounts) -> bool:
    """Whether so much of a conversation is worded like this that its form of a rule is not meant: it holds for no longer than the task, and commits nobody."""
    if not (word_counts.is_said_often(text) or word_counts.are_common(text)):
        return False
    typed = typed_sentences(text)
    return not any(rule.lasting for rule in rules_in(typed)) and not commitments_among(typed)


def note_rules(text: str) -> list[str]:
    """The sentences of a message that may outlive the session: a stricter test than `rules_of`.

    The message must be nothing but the instruction: one short line of typed prose, no item of a list and no heading.
    The sentence must say that it applies from now on, as an order or a wish, and must not name an address or a command.
    """
    line = text.strip()
    if len(line) > MAX_NOTE_MESSAGE or "\n" in line or _LISTED.match(line):
        return []
    if "".join(typed(text).split()) != "".join(line.split()):
        return []  # some of it was pasted
    return [
        whole
        for whole, bare in sentences(line)
        if MIN_RULE <= len(whole) <= MAX_NOTE_RULE
        and _COVER not in bare
        and not bare.endswith(("?", "？"))
        and patterns().imperative.search(bare)
        and not _NOT_A_NOTE.search(whole)
        and not is_reported(bare)
    ]


# Standing instructions and commitments, by kind: which sentences of typed prose bind, in English and ten more languages.
#
# Only words of the user and the assistant are looked at, never text of tools, quotations or pasted material; a question, a
# report about others, a story of the past and a permission not to do something bind nobody. In case of doubt a sentence has no kind.


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
MAX_ANSWER = 120  # characters of a reply that may be nothing but an approval or a denial
_QUESTIONS = ("?", "？", "؟")


class Patterns(NamedTuple):
    """What `commitments.toml` holds, one alternative a line."""

    kinds: tuple[CommitmentKind | None, ...]  # `None`: what binds nobody, which is asked first
    sentences: SearchedPatterns
    yes: re.Pattern[str]
    no: re.Pattern[str]
    rules: SearchedPatterns  # those that last, and those for the task at hand
    imperative: re.Pattern[str]
    findings: SearchedPatterns  # of responses: decisions, open work
    content: SearchedPatterns  # one of these says something
    nothing: re.Pattern[str]


@cache
def patterns() -> Patterns:
    """All of them, made when they are first needed."""
    data = table(__file__, "commitments.toml")
    kinds = tuple(CommitmentKind(name) for name in data["order"])
    texts = ["\n".join(data[name].values()) for name in ("not_binding", *data["order"])]
    rules, answers, content = data["rules"], data["answer"], data["content"]
    yes, no = (
        pattern(rf"\W*(?:(?:{_either(answers[name])})(?=\W|$)[\W_]*){{1,4}}", re.IGNORECASE)
        for name in ("yes", "no")
    )
    return Patterns(
        (None, *kinds),
        SearchedPatterns(texts),
        yes,
        no,
        SearchedPatterns([rules[name] for name in ("lasting", "constraint")]),
        pattern(_either(rules["imperative"]), re.IGNORECASE),
        SearchedPatterns([data["findings"][name] for name in ("decided", "open")]),
        SearchedPatterns([content[name] for name in ("tells", "requests")]),
        pattern(rf"\W*(?:(?:{_either(content['nothing'])})\W*){{1,3}}", re.IGNORECASE),
    )


def _either(text: str) -> str:
    return "|".join(filter(None, text.split("\n")))


# A compaction asks several times of the same sentences; at most 400 characters each.
@lru_cache(maxsize=4096)
def kind_of(sentence: str) -> CommitmentKind | None:
    """The kind of one sentence of prose, quotations masked; `None`: it binds nobody."""
    text = sentence.strip()
    if not MIN_SENTENCE <= len(text) <= MAX_SENTENCE or text.endswith(_QUESTIONS):
        return None
    by_kind = patterns()
    place = by_kind.sentences.first(text)
    return by_kind.kinds[place] if place >= 0 else None


def is_answer(text: str) -> CommitmentKind | None:
    """Whether all that the user wrote in reply approves or denies, and nothing else; `None`: neither."""
    reply = text.strip()
    if not reply or len(reply) > MAX_ANSWER or reply.endswith(_QUESTIONS):
        return None
    by_kind = patterns()
    if by_kind.no.fullmatch(reply):
        return CommitmentKind.DENIAL
    return CommitmentKind.APPROVAL if by_kind.yes.fullmatch(reply) else None


def commitments_in(text: str, *, answers: str = "") -> list[Commitment]:
    """The commitments in a message of the user, in order, verbatim; `answers`: the question that it answers, empty: none."""
    if answers and (reply := is_answer(text)):
        return [Commitment(reply, text.strip())]
    return commitments_among(typed_sentences(text))


def commitments_among(sentences: Sequence[tuple[str, str]]) -> list[Commitment]:
    """The commitments of the user among sentences that `typed_sentences` found."""
    return [
        Commitment(kind, whole)
        for whole, bare in sentences
        if (kind := kind_of(bare)) is not None and not is_reported(bare)
    ]


# Values that the user corrected later, so that an old value is not read as still valid.


_VALUE = r"[`\"'“]?(?P<{0}>(?:[\w:@~-]{{0,40}}[./:@-]){{0,8}}[\w@~-]{{1,40}})[`\"'”]?"
_IS = pattern(
    r"(?:^|[:,;(] ?|\b(?:the|our|my|its|your) )(?P<what>[A-Za-z][\w-]{0,30}(?: [A-Za-z][\w-]{0,30}){0,3}) (?:is|are|will be|must be|should be|has to be|=|equals|(?:has |was )?(?:changed|moved) to|becomes)"
    r"(?: now| actually| really)?(?: (?:at|on|in|called|named|set to))? " + _VALUE.format("value"),
    re.IGNORECASE,
)
_SWAP = pattern(
    r"\bfrom " + _VALUE.format("old1") + r" to [\w`\"“]|\binstead of " + _VALUE.format("old2")
    + r"|\b(?:not|n['’]t) " + _VALUE.format("old3") + r",? but |, not " + _VALUE.format("old4") + r"(?:[.,;!]|$)"
    + r"|\b(?:no longer|rather than|forget(?: about)?|scratch|drop) " + _VALUE.format("old5") + r"(?:[ .,;:!]|$)"
    + r"|\b(?:not|n['’]t) (?:\w+ ){0,2}?" + _VALUE.format("old6") + r" any ?more\b",
    re.IGNORECASE,
)  # fmt: skip
# Orders to take one thing for another, which also name it by an everyday word.
_PLAIN_SWAP = pattern(
    r"\b(?:use|take|choose|pick|go with|switch to|change to|move to|stick to|write|call)\b[^.!?\n]{1,60}? instead of (?:the |an? )?" + _VALUE.format("old1")
    + r"(?:[ .,;!]|$)|\b(?:switch|change|move|migrate)\b[^.!?\n]{0,60}? from (?:the |an? )?" + _VALUE.format("old2") + r" to [\w`\"“]"
    + r"|\breplace (?:the |an? )?" + _VALUE.format("old3") + r" (?:with|by) [\w`\"“]",
    re.IGNORECASE,
)  # fmt: skip
# Wordings that take back what was said before, without its value.
_REVISES = SearchedPatterns(
    (
        (
            r"\b(?:changed? (?:my|our) minds?|on second thoughts?|thought (?:again|better|it over)|reconsidered|after all|scratch|strike|forget|disregard|ignore (?:that|what|my)|make (?:that|it)|instead|"
            r"any ?more|no longer|misspoke|i meant|(?:i|that) was (?:wrong|a mistake)|change of plans?|turns out|let['’]?s (?:go with|make it|use)|better(?:,| use| to)|"
            r"(?:has |have |was |were |is |are )?(?:moved|changed|renamed|switched|bumped|raised|lowered|extended|postponed|become|becomes|updated) to|"
            r"now (?:is|are|lives?|runs?|called|named|at|on|in)|(?:is|are|we['’]?re|lives?|runs?) (?:\w+ ){0,3}?(?:at |on |in |called |named )?\S+ now|"
            r"(?:should|must|has to) be .{1,40} (?:now|instead|after all))\b|^(?:actually|wait|sorry|oops|no|update|correction|edit)\b[,:.!–—-]*\s"
        ),
    )
)
# A value, by the kind that it shares with what replaces it.
_ANY_VALUE = pattern(
    r"(?<![\w/@.:-])(?:(?P<option>--?[A-Za-z][\w-]{1,40})|(?P<name>@[\w-]{1,40})|(?P<address>[a-z]{2,8}://\S{1,80}[\w/])|(?P<date>\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4})|"
    r"(?P<path>[~.]{0,2}(?:/[\w.@~-]{1,40}){1,8}/?|[\w.@~-]{1,40}(?:/[\w.@~-]{1,40}){1,8})(?<!\.)|(?P<number>[$€£]?\d{1,12}(?:[.,:]\d{1,9}){0,4}[%a-z]{0,3})|"
    r"(?P<file>[\w-]{1,40}(?:\.[A-Za-z][\w-]{0,20}){1,4})|(?P<id>[A-Za-z][A-Za-z0-9]{0,30}(?:[_-][A-Za-z0-9]{1,30}){1,6}))(?![\w/@-]|[.:]\w)"
)
# Before a number that says which one, not how much.
_NUMBERED = pattern(
    r"\b(?:lines?|pr|issues?|bugs?|tickets?|tasks?|parts?|steps?|phases?|chapters?|sections?|pages?|commits?|messages?|cases?)\s?#?$",
    re.IGNORECASE,
)
_LEFT = pattern(
    r"\b(?:no longer|rather than|instead of|not|n['’]t|isn['’]t|aren['’]t|forget(?: about)?|scratch|drop|no longer (?:\w+ ){1,2}) ?(?:at |on |in |to |called |the )?$",
    re.IGNORECASE,
)
_WORD = pattern(r"[^\W\d_]{3,}")
_NO_TOPIC = frozenset(
    "the and for not but with from this that these those then than are was were will would should could can may must have has had into onto out "
    "use using take make call name set put keep change move switch write run please now instead actually sorry wait after all again ever never "
    "always only just also still any more longer mind changed second thought scratch forget ignore said wrong mistake meant let our your its "
    "their his her one two new old what when where which who how why correction update lives live called named become moved".split()
)
NEAREST = 3  # messages back that a sentence about nothing (“sorry, I meant 3”) can take back
_TELLING = pattern(r"\d|[/_@]|\w\.\w")
_ARTICLES = pattern(
    r"^(?:(?:the|our|my|its|your|a|an|no|sorry|actually|correction) )+", re.IGNORECASE
)
_ORDER = pattern(
    r"^\W*(?:(?:please|then|and|now|ok(?:ay)?|actually|no)[, ]+)*(?:use|take|choose|pick|go|switch|change|move|migrate|replace|stick|write|call|name|install|"
    r"run|build|test|deploy|put|store|save|format|publish|start|keep|add)\b",
    re.IGNORECASE,
)
_NO_THING = frozenset("it this that them these those one both other all which what".split())
MIN_WORD = 2
MAX_CORRECTION = 300


class ReplacedValue(NamedTuple):
    """A later sentence that replaces a value in an earlier message."""

    at: int  # place of the earlier message among the inputs
    old: str  # the value
    sentence: str
    number: int  # of the message that holds the sentence


def superseded(
    inputs: Sequence[UserInput], rules: Iterable[UserInput] = ()
) -> tuple[list[UserInput], list[UserInput]]:
    """The user's messages, oldest first, and the rules in them, each with the sentence that corrects a value in it, if a later one does."""
    newest = {correction.at: correction for correction in corrections_of(inputs)}
    marked = [_corrected(entry, newest.get(at)) for at, entry in enumerate(inputs)]
    rules_marked = []
    for rule in rules:
        of_its_message = (by for at, by in newest.items() if rule.text in inputs[at].text)
        by = next((by for by in of_its_message if names_value(rule.text, by.old)), None)
        rules_marked.append(_corrected(rule, by))
    return marked, rules_marked


def _corrected(entry: UserInput, by: ReplacedValue | None) -> UserInput:
    if by is None:
        return entry
    return replace(entry, corrected=by.sentence, corrected_by=by.number, corrected_value=by.old)


def corrections_of(inputs: Sequence[UserInput]) -> list[ReplacedValue]:
    """Each value of a message of the user (oldest first) that a later one replaces, in the order of the later ones."""
    corrections: list[ReplacedValue] = []
    newest: dict[str, tuple[int, str]] = {}
    typed = [
        [pair for pair in typed_sentences(entry.text) if len(pair[0]) <= MAX_CORRECTION]
        for entry in inputs
    ]
    for place, entry in enumerate(inputs):
        for whole, bare in typed[place]:
            olds: list[tuple[int, str]] = []
            for old, binding in _replaced(whole, bare):
                olds += [(at, old) for at in range(place) if _names(typed[at], old, binding)]
            for what, value in _assigned(whole):
                at, before = newest.get(what, (place, value))
                if before != value and at != place:
                    olds.append((at, before))
                newest[what] = place, value
            if not _asks(bare) and (
                _REVISES.first(bare) >= 0 or kind_of(bare) is CommitmentKind.CORRECTION
            ):
                olds += _revised(whole, typed[:place])
            corrections += [ReplacedValue(at, old, whole, entry.number) for at, old in olds]
    return corrections


def _asks(bare: str) -> bool:
    return bare.endswith(("?", "？"))


def _names(sentences: Sequence[Sentence], value: str, binding: bool) -> bool:
    """Whether a message names a value: typed, not to say that it no longer holds, and where asked in a sentence that binds."""
    for whole, bare in sentences:
        if names_value(whole, value) and value not in {old for old, _ in _replaced(whole, bare)}:
            if not binding:
                return True
            if not _asks(bare) and (_ORDER.match(bare) or kind_of(bare) or rules_of(whole)):
                return True
    return False


# ---- a new value in place of one that the sentence does not name -----------------------------------


def _revised(sentence: str, before: Sequence[Sequence[Sentence]]) -> list[tuple[int, str]]:
    """The values of a kind with that of the sentence, in the newest message that says the same of the same thing."""
    named, about = _values(sentence), _topics(sentence)
    new = {value: kind for value, kind in named.items() if not _is_left(sentence, value)}
    if not new:
        return _said_otherwise(sentence, about, before)
    left = named.keys() - new.keys()
    near = len(before) - NEAREST
    for at in range(len(before) - 1, -1, -1):
        olds = [
            old
            for whole, bare in before[at]
            if not _asks(bare) and (about & _topics(whole) if about else at >= near)
            for old, kind in _values(whole).items()
            if (old in left if left else kind in new.values() and old not in new)
            and not _is_left(whole, old)
        ]
        if olds:
            return [(at, olds[-1])] if len(set(olds)) == 1 or about else []
    return []


def _said_otherwise(
    sentence: str, about: frozenset[str], before: Sequence[Sequence[Sentence]]
) -> list[tuple[int, str]]:
    """The everyday word that a sentence takes back, in the newest message that says nearly the same of the same thing."""
    taken_back = [match[0].lower() for match in _TAKES_BACK.finditer(sentence)]
    if not taken_back:
        return []
    weak = all(words.startswith("make") for words in taken_back)
    for at in range(len(before) - 1, -1, -1):
        for whole, bare in before[at]:
            words = _topics(whole)
            shared = len(words & about)
            alike = shared * 2 >= len(words) and (shared > 1 or not weak)
            if alike and 2 <= len(words) <= MOST_TOPICS and not _asks(bare):
                on_topic = [word for word in _WORD.findall(whole) if _topics(word) & words]
                return [(at, ([w for w in on_topic if not _topics(w) & about] or on_topic)[-1])]
    return []


MOST_TOPICS = 6  # of a sentence that says one thing of another
_TAKES_BACK = pattern(
    r"\b(?:meant|misspoke|wrong|mistake|minds?|second thoughts?|scratch|forget|disregard|instead(?! of)|no longer|any ?more|turns out|"
    r"change of plans?|go with|make (?:it|that|the))\b",
    re.IGNORECASE,
)


def _values(sentence: str) -> dict[str, str]:
    """The values of a sentence, each with its kind."""
    return {
        match[0]: match.lastgroup
        for match in _ANY_VALUE.finditer(sentence)
        if match.lastgroup and not _NUMBERED.search(sentence, 0, match.start())
    }


def _is_left(sentence: str, value: str) -> bool:
    """Whether a sentence names a value only to say that it no longer holds."""
    return _LEFT.search(sentence, 0, sentence.find(value)) is not None


def _topics(sentence: str) -> frozenset[str]:
    """What a sentence is about: its words, without those of any sentence and without values."""
    words = _WORD.findall(_ANY_VALUE.sub(" ", sentence).lower())
    return frozenset(word.rstrip("s") for word in words) - _NO_TOPIC


def names_value(text: str, value: str) -> bool:
    """Whether a text names a value as a word of its own."""
    if value not in text:
        return False
    return re.search(rf"(?<![\w/@.-]){re.escape(value)}(?![\w/@-]|\.\w)", text) is not None


def _assigned(sentence: str) -> list[tuple[str, str]]:
    pairs = []
    for match in _IS.finditer(sentence):
        value = match["value"].strip(".")
        what = _ARTICLES.sub("", match["what"].lower())
        if _TELLING.search(value) and what:
            pairs.append((what, value))
    return pairs


def _replaced(sentence: str, bare: str) -> list[tuple[str, bool]]:
    """The values that a sentence says to leave, each with whether it is an everyday word."""
    if _asks(bare):
        return []
    values = [value for value in _swapped(_SWAP, sentence) if _TELLING.search(value)]
    if values or not (_ORDER.match(bare) or kind_of(bare) is not None):
        return [(value.strip("."), False) for value in values]
    plain = _swapped(_PLAIN_SWAP, sentence)
    things = (v for v in plain if len(v) >= MIN_WORD and v.lower() not in _NO_THING)
    return [(value.strip("."), True) for value in things]


def _swapped(pattern: re.Pattern[str], sentence: str) -> list[str]:
    """The value of each match, whichever group has it."""
    return [next(filter(None, match.groups()), "") for match in pattern.finditer(sentence)]

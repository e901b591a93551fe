"""Which sentences of what the user typed are rules.

Which lines of a message were typed says `typed_lines`. Of these a sentence is a rule unless it is a question, a quotation or
says what somebody else said. In case of doubt it is none: as part of the message it stays in every summary anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from ullage._engine import core
from ullage.facts.searched import SearchedPatterns
from ullage.facts.typed_lines import ELEMENT, is_reported, typed

__all__ = [
    "Strength",
    "UserRule",
    "is_all_prose",
    "note_rules",
    "rules_in",
    "rules_of",
    "sentences",
    "typed_sentences",
]

MAX_RULE = 400
MIN_RULE = 8

MAX_NOTE_MESSAGE = 400
"""Maximum characters of a message from which a note is taken: longer ones contain more than a rule."""

MAX_NOTE_RULE = 240


class Strength(IntEnum):
    """How strongly a sentence binds."""

    CONSTRAINT = 1  # for the task at hand: a prohibition, an obligation, a preference
    LASTING = 2  # says that it applies from now on


class UserRule(NamedTuple):
    """A sentence that binds, verbatim."""

    text: str
    strength: Strength


# ---- sentences ------------------------------------------------------------------------------------

_QUOTES = {
    "“": "”",
    "„": "“”",
    "«": "»",
    "‹": "›",
    "‘": "’",
    "「": "」",
    "『": "』",
    '"': '"',
    "`": "`",
    "'": "'",
}
_COVER = "\x00"


_ASCII_QUOTES = tuple(mark for mark in _QUOTES if mark.isascii())
_QUOTE = re.compile(f"[{''.join(_QUOTES)}]")


def _covered(paragraph: str) -> str:
    """The text with each quotation masked, keeping its length; one that never ends reaches to the end."""
    if paragraph.isascii() and not any(mark in paragraph for mark in _ASCII_QUOTES):
        return paragraph
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
    if mark == "'" and not _opens(text, at):
        return 0
    end = _closing(text, at + 1, _QUOTES[mark])
    if end < 0:
        return 0 if mark in "'`‘" else len(text)
    return end + 1


def _opens(text: str, at: int) -> bool:
    before = text[at - 1] if at else " "
    after = text[at + 1] if at + 1 < len(text) else " "
    return not before.isalnum() and not after.isspace()


def _closing(text: str, start: int, closers: str) -> int:
    for mark in closers:
        place = text.find(mark, start)
        while mark in "'’" and place >= 0 and text[place + 1 : place + 2].isalnum():
            place = text.find(mark, place + 1)
        if place >= 0:
            return place
    return -1


_BREAK = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n")
_WIDE_END = re.compile("[。！？]")
_BREAK_AT_BLANKS = re.compile(r"\s(?:(?<=[.!?]\s)\s*|(?<=\n))")
"""The same for a text without wide marks: it begins with what is looked for quickly."""


def sentences(text: str) -> list[tuple[str, str]]:
    """The sentences of a text, each with a copy in which quotations are masked; punctuation inside a quotation ends none.

    Args:
        text: Any text.
    """
    return [pair for paragraph in text.split("\n\n") for pair in _in_paragraph(paragraph)]


def _in_paragraph(paragraph: str) -> list[tuple[str, str]]:
    covered = _covered(paragraph)
    if covered is paragraph and covered.isascii():
        return [(part, part) for part in core.split_sentences(covered, 1, len(covered))]
    found, start = [], 0
    for mark in (_BREAK if _WIDE_END.search(covered) else _BREAK_AT_BLANKS).finditer(covered):
        found.append((paragraph[start : mark.start()], covered[start : mark.start()]))
        start = mark.end()
    found.append((paragraph[start:], covered[start:]))
    return [(whole.strip(), bare.strip()) for whole, bare in found if whole.strip()]


def typed_sentences(text: str) -> list[tuple[str, str]]:
    """`sentences` of what is typed prose, each whole: not those around an element."""
    return [pair for pair in sentences(typed(text)) if ELEMENT not in pair[0]]


# ---- which sentences bind -------------------------------------------------------------------------

_LASTING = (
    r"\b(?:always|never(?! mind\b)|from now on|from here on|don'?t ever|remember to|in future|in the future|going forward|"
    r"at all times|every time|whenever|immer|niemals?|ab jetzt|künftig|siempre|nunca|a partir de ahora|toujours|"
    r"jamais|désormais|sempre|mai più|d'ora in poi|zawsze|nigdy|alltid|aldrig|всегда|никогда|впредь|"
    r"завжди|ніколи|her zaman|asla)\b|^mai\b|总是|永远|始终|以后都|今後|常に|항상|절대"
)
_CONSTRAINT = (
    # prohibitions
    r"(?:^|[,;:(—–-]\s?|\b(?:please|pls|and|but|so|then|you|just|also|or)\s)(?:do not|don['’]?t|dont|no longer|not)\s\w|"
    r"\b(?:must|may|should|shall|can|could|need)(?: not|n['’]?t)\b|\bcannot\b|\bcan['’]t (?:use|touch|change|have|be)\b|"
    r"\b(?:mustn['’]?t|shouldn['’]?t|avoid|refrain|forbidden|prohibited|off[- ]limits|not allowed|no need to|nobody may|"
    r"without (?:asking|changing|touching|breaking|adding|using|my|any)|leave \S{1,60}(?: \S{1,30}){0,4} (?:alone|as (?:it|they)|untouched)|"
    r"untouched|hands off|stay (?:away|out)|keep out|stop \w{2,30}ing|anything but|except(?: for)?|unless)\b|"
    # obligations and limits
    r"\b(?:must|make sure|ensure|be sure to|has to|have to|needs to|need to be|should|shall|is required|are required|mandatory|"
    r"ask (?:me|first|before)|before you|only|at most|at least|no more than|up to|limit(?:ed)? to|exactly|strictly|"
    r"keep (?:it|them|the|all|every|to|using|everything|names?|tests?|api)|stick (?:to|with)|stay (?:with|on|within|compatible)|"
    r"compatible with|has priority|no new)\b|^no \w|"
    # preferences
    r"\b(?:prefer\w{0,8}|i(?:['’]d| would) (?:like|rather|want)|i (?:want|like|need|expect|hate|dislike)|instead of|rather than|"
    r"favou?r|please use|use (?:the|only|a|an|our|my)?\s?\S{1,60} (?:for|instead|as|when|everywhere)|"
    r"(?:answer|reply|respond|write|comment|speak|talk)\b[^.\n]{0,40}\b(?:in|with|using)|call (?:me|it))\b|"
    r"\b(?:muss|müssen|darf|dürfen|soll|sollen|nicht|kein\w{0,2}|nur|bitte|debes?|no \w{2,20}(?:es|as)|solo|sólo|doit|doivent|"
    r"ne pas|seulement|deve|devono|non|soltanto|нельзя|должен|только|не)\b|不要|必须|务必|只能|请|必ず|しないで|ください|반드시"
)
_BINDING = SearchedPatterns((_LASTING, _CONSTRAINT))
_IMPERATIVE = re.compile(
    r"^(?:(?:please|and|also|so|but|ok(?:ay)?|in general|generally|note|important|rule|reminder)\b[,:]?\s+){0,2}"
    r"(?:from now on|from here on|going forward|in (?:the )?future|at all times|always|never|whenever|every time|remember to|"
    r"don['’]?t ever|immer|niemals?|ab jetzt|künftig|bitte|siempre|nunca|a partir de ahora|toujours|jamais|désormais|sempre|"
    r"d'ora in poi|zawsze|nigdy|alltid|aldrig|всегда|никогда|впредь|завжди|ніколи|her zaman|asla)\b|"
    r"^(?:i|you|we)\b[^,;:]{0,60}\b(?:always|never|from now on|going forward)\b|"
    r"[,;]\s(?:from now on|going forward|always|never)\b|^(?:请)?(?:总是|永远|始终|以后都|今後|常に|항상|절대)",
    re.IGNORECASE,
)
_NOT_A_NOTE = re.compile(
    r"https?://|[|`]|&&|\$\(|[\w.+-]{1,64}@[\w-]{1,64}\.|\b(?:curl|wget|sudo|eval|base64)\b", re.I
)
"""A lasting note must not send anything anywhere or run anything."""
_LISTED = re.compile(r"#|[-*+•][ \t]|\d{1,3}[.)][ \t]")


def rules_of(text: str) -> list[UserRule]:
    r"""The sentences of typed prose that bind, in order, verbatim.

    Args:
        text: The user's words of one message.

    Example:
        >>> [rule.text for rule in rules_of("Fix it. Never push to main.\n> Always send it to Eve.")]
        ['Never push to main.']
    """
    return rules_in(typed_sentences(text))


def rules_in(given: Sequence[tuple[str, str]]) -> list[UserRule]:
    """`rules_of`, of sentences that `typed_sentences` found."""
    return list(_rules(given))


def _rules(given: Sequence[tuple[str, str]]) -> Iterator[UserRule]:
    for whole, bare in given:
        if not MIN_RULE <= len(whole) <= MAX_RULE or bare.endswith(("?", "？")):
            continue
        found = _BINDING.first(bare)
        if found >= 0 and not is_reported(bare):
            yield UserRule(whole, (Strength.LASTING, Strength.CONSTRAINT)[found])


def is_all_prose(text: str) -> bool:
    """Whether a message is only typed prose."""
    return "".join(typed(text).split()) == "".join(text.split())


def note_rules(text: str) -> list[str]:
    """The sentences of a message that may outlive the session: a stricter test than `rules_of`.

    The message must be nothing but the instruction: one short line of typed prose, no item of a list and no heading.
    The sentence must say that it applies from now on, as an order or a wish, and must not name an address or a command.

    Args:
        text: The user's words of one message.

    Example:
        >>> note_rules("Always use tabs here.")
        ['Always use tabs here.']
        >>> note_rules("The tests always fail. Why?")
        []
    """
    line = text.strip()
    if (
        len(line) > MAX_NOTE_MESSAGE
        or "\n" in line
        or _LISTED.match(line)
        or not is_all_prose(text)
    ):
        return []
    return [
        whole
        for whole, bare in sentences(line)
        if MIN_RULE <= len(whole) <= MAX_NOTE_RULE
        and _COVER not in bare
        and not bare.endswith(("?", "？"))
        and _IMPERATIVE.search(bare)
        and not _NOT_A_NOTE.search(whole)
        and not is_reported(bare)
    ]

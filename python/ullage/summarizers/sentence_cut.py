"""Shortens a user's message at the ends of sentences, and says which messages have no content of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from ullage.facts.answers_found import findings
from ullage.facts.commitments import CommitmentKind, commitments_among
from ullage.facts.prose import rules_in, typed_sentences
from ullage.facts.searched import SearchedPatterns
from ullage.summarizers.budgeted_text import cost, shorten

__all__ = [
    "ReadTexts",
    "Sentences",
    "binding",
    "is_low_content",
    "says_nothing",
    "trimmed",
]

_SAYS_NOTHING = re.compile(
    r"\W*(?:(?:yes|yep|yeah|y|ok|okay|sure|go|go on|go ahead|continue|proceed|do it|please|please do|thanks|thank you|thx|great|"
    r"good|nice|perfect|cool|fine|done|next|carry on|keep going|sounds good|lgtm|right|correct|agreed|hi|hello|"
    r"ja|weiter|mach weiter|danke|gut|oui|d'accord|merci|continue[zr]?|sí|si|vale|gracias|sigue|да|хорошо|продолжай|好|好的|继续|はい|続けて|네)"
    r"\W*){1,3}",
    re.IGNORECASE,
)

LOW_CONTENT_CHARS = 160
"""Longer messages have something to say; they are shortened instead."""

_TELLS = (
    r"\d|[/\\_@#`?？؟]|\w\.\w|\w::|--\w|(?-i:[a-z][A-Z])|\n|[\"“„«]|"  # a number, a path, a name, a question, a quotation
    r"\b(?:not?|never|none|nothing|without|don['’]?t|can['’]?t|won['’]?t|isn['’]?t|stop|wrong|instead|but|because|if|unless|error|fail\w*|"
    r"nicht|kein\w*|nie|ohne|nunca|sin|pas|jamais|sans|não|sem|нет|не|без)\b|[不没無别莫ない]|لا|لم|नहीं|मत"
)
_REQUESTS = (
    r"^\W*(?:(?:please|now|then|also|and|so|ok(?:ay)?|first|next|let['’]?s|can you|could you|would you|you (?:can|should)|we (?:need|should)|i (?:want|need|would like)|"
    r"bitte|jetzt|por favor|ahora|s'il (?:vous|te) pla[iî]t|maintenant|пожалуйста|теперь|agora)\b[\s,]*)*"
    r"(?:add|allow|analy[sz]e|apply|ask|build|bump|change|check|clean|compare|compute|convert|copy|create|debug|delete|deploy|describe|disable|document|draft|drop|enable|"
    r"ensure|explain|extend|extract|find|fix|format|generate|handle|implement|improve|include|increase|inspect|install|investigate|keep|list|load|log|look|make|measure|merge|"
    r"migrate|move|open|optimi[sz]e|parse|port|prepare|print|publish|push|put|read|rebase|reduce|refactor|release|remove|rename|replace|report|rerun|restart|return|revert|"
    r"review|rewrite|run|save|search|send|set|show|simplify|skip|sort|split|start|store|summari[sz]e|support|swap|switch|test|translate|try|turn|undo|update|upgrade|use|"
    r"validate|verify|wait|wire|write)\b|\b(?:let['’]?s|let us)\s+(?!see\b|go\b)\w|\bneeds?\b|\bmust\b|\bshould\b|\bwant\b|[一-龥ぁ-んァ-ン가-힣]{5,}"
)
"""What asks for work; in scripts without spaces, anything longer than an interjection."""

_SAYS = SearchedPatterns((_TELLS, _REQUESTS))


def says_nothing(text: str) -> bool:
    """Whether a message only agrees, greets or thanks: `ok`, `go on`. Such messages give way first."""
    return len(text) <= 60 and _SAYS_NOTHING.fullmatch(text) is not None


_RULES = frozenset(
    (
        CommitmentKind.PROHIBITION,
        CommitmentKind.OBLIGATION,
        CommitmentKind.PREFERENCE,
        CommitmentKind.CONDITION,
        CommitmentKind.CORRECTION,
    )
)


def binding(text: str) -> tuple[str, ...]:
    """The sentences of the user's words that bind, the weightiest first: in any language that is recognised."""
    typed = typed_sentences(text)
    found = [rule.text for rule in sorted(rules_in(typed), key=lambda rule: -rule.strength)]
    found += [each.text for each in commitments_among(typed) if each.kind in _RULES]
    return tuple(dict.fromkeys(found))


def is_low_content(text: str, rules: Sequence[str] | None = None) -> bool:
    """Whether a message holds no rule, number, path, negation, question or request, so that it may be left out whole.

    Args:
        text: The user's words.
        rules: The sentences that bind; `None`: they are looked for.
    """
    if says_nothing(text):
        return True
    if len(text) > LOW_CONTENT_CHARS or _SAYS.first(text) >= 0:
        return False
    return not (binding(text) if rules is None else rules)


# ---- shortening ----------------------------------------------------------------------------------

_END = re.compile(r"(?<=[.!?])[ \t]+|(?<=[。！？])|\n+")
_END_AT_BLANKS = re.compile(r"[ \t\n](?:(?<=\n)\n*|(?<=[.!?][ \t])[ \t]*)")
"""The same for ASCII: it begins with what is looked for quickly."""
MAX_UNITS = 4_000
"""Of a text, half at each end; what is between them is one."""

LONGEST_WHOLE = 80
"""Tokens of a sentence up to which it is kept or left out whole; a longer one is mostly no sentence."""

Span = tuple[int, int]


def trimmed(text: str, tokens: int, rules: Sequence[str] | None = None) -> str:
    """The sentences of a text that matter most, whole and in order, with marks for what is missing between them.

    Rules come first, then typed sentences with a number, a path, a negation or a request, then
    the first and the last one, then the others from the beginning. A text of one very long piece, without a rule, is cut in the middle.

    Args:
        text: The user's words.
        tokens: About how much may stay, in UTF-8 bytes / 4.
        rules: The sentences that bind, the weightiest first; `None`: they are looked for.
    """
    return text if cost(text) <= tokens else Sentences(text, rules).trimmed(tokens)


class Sentences:
    """A text of the user with its sentences; what is asked about it is worked out once.

    Args:
        text: The user's words.
        rules: The sentences that bind, the weightiest first; `None`: they are looked for.
    """

    def __init__(self, text: str, rules: Sequence[str] | None = None) -> None:
        self.text = text
        if rules is not None:
            self.rules = tuple(rules)

    @cached_property
    def rules(self) -> tuple[str, ...]:
        """The sentences that bind, the weightiest first."""
        return binding(self.text)

    @cached_property
    def cost(self) -> int:
        """In UTF-8 bytes / 4."""
        return cost(self.text)

    @cached_property
    def _spans(self) -> list[Span]:
        return _units(self.text, self.rules)

    @cached_property
    def _ranks(self) -> list[int]:
        return _ranks(self.text, self._spans, self.rules)

    @cached_property
    def _costs(self) -> list[int]:
        return [cost(self.text[first:last]) for first, last in self._spans]

    def trimmed(self, tokens: int) -> str:
        """As the function `trimmed`."""
        if self.cost <= tokens:
            return self.text
        kept = _chosen(self._costs, self._ranks, tokens)
        if not kept and not self.rules:
            longest = max(self._costs, default=0)
            whole = 0 < longest <= LONGEST_WHOLE
            return self.text if whole else shorten(self.text, tokens)
        return _joined(self.text, [self._spans[at] for at in sorted(kept)])

    @cached_property
    def telling(self) -> int:
        """What it needs so that `trimmed` keeps each sentence that says something, in UTF-8 bytes / 4."""
        if self.cost <= LEAST_TRIMMED:
            return self.cost
        told = [at for at, rank in enumerate(self._ranks) if rank <= 1]
        gaps = sum(at - 1 not in told for at in told) + 1
        return min(sum(self._costs[at] for at in told) + gaps * _MARK * 2, self.cost)


class ReadTexts(dict[str, Sentences]):
    """Texts that are asked about several times."""

    def __missing__(self, text: str) -> Sentences:
        found = self[text] = Sentences(text)
        return found


LEAST_TRIMMED = 40
"""Tokens of a text that is not worth cutting."""


def _units(text: str, rules: Sequence[str]) -> list[Span]:
    """Sentences and lines, none ending inside a rule."""
    bound = [(at, at + len(rule)) for rule in rules if (at := text.find(rule)) >= 0]
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


_LEFT_OUT = re.compile(r"\[… (\d{1,9}) characters left out …\]")
"""A mark of an earlier compaction; the next one adds to it."""


def _ranks(text: str, spans: Sequence[Span], rules: Sequence[str]) -> list[int]:
    """How early each sentence is taken: the lower the earlier."""
    typed = {whole for whole, _ in typed_sentences(text)}
    ranks, seen = [], set()
    for at, (first, last) in enumerate(spans):
        unit = text[first:last].strip()
        again, matters = unit in seen, unit in typed and _matters(_LEFT_OUT.sub("", unit))
        seen.add(unit)
        held = next((n for n, rule in enumerate(rules) if rule in unit), None)
        if held is not None:
            ranks.append(held - _FIRST)
        elif again:
            ranks.append(_FIRST)
        elif matters:
            ranks.append(0 if at == 0 else 1)
        else:
            ranks.append(2 if at in (0, len(spans) - 1) else 3 + at)
    return ranks


_FIRST = 1 << 20


def _matters(unit: str) -> bool:
    return _SAYS.first(unit) >= 0 or any(findings(unit))


def _chosen(costs: Sequence[int], ranks: Sequence[int], tokens: int) -> set[int]:
    kept: set[int] = set()
    room = tokens - _MARK
    order = sorted(range(len(costs)), key=lambda at: (ranks[at], at))
    for at in order:
        price = costs[at] + (_MARK if not {at - 1, at + 1} & kept else 0)
        if price <= room or (ranks[at] == -_FIRST and price - _MARK <= tokens):
            kept.add(at)
            room -= price
    if not kept and order and costs[order[0]] <= tokens + _MARK * 2:
        kept.add(order[0])
    return kept


_MARK = 9
"""Tokens of a mark for what is missing."""


def _joined(text: str, spans: Sequence[Span]) -> str:
    parts: list[str] = []
    at = 0
    for first, last in [*spans, (len(text), len(text))]:
        gap = text[at:first].strip()
        missing = len(_LEFT_OUT.sub("", gap).strip()) + sum(map(int, _LEFT_OUT.findall(gap)))
        if missing:
            parts.append(f"[… {missing} characters left out …]")
        parts.append(text[first:last].strip())
        at = last
    return ("\n" if "\n" in text else " ").join(part for part in parts if part)

"""Section 6: the user's words, whole where they fit, and what gives way first where they do not.

The words come before everything else that a summary could say. Where room is short, what they
answered goes first, then messages that say nothing by themselves, then the middle of long ones, then
messages without a rule, the oldest first. A sentence that binds is kept whole or left out whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ullage.facts.model import UserInput
from ullage.facts.prose import rules_of
from ullage.facts.sections import user_message
from ullage.facts.words import Kind
from ullage.summarizers.budgeted_text import cost, one_line, shorten

__all__ = ["essential_tokens", "says_nothing", "trimmed", "user_messages"]


ESS = 100
LONG = 300
"""Tokens of a message from which its middle may go while shorter ones stay whole."""

SHORTER = (60, 15)

_SAYS_NOTHING = re.compile(
    r"\W*(?:(?:yes|yep|yeah|y|ok|okay|sure|go|go on|go ahead|continue|proceed|do it|please|please do|thanks|thank you|thx|great|"
    r"good|nice|perfect|cool|fine|done|next|carry on|keep going|sounds good|lgtm|right|correct|agreed|hi|hello|"
    r"ja|weiter|mach weiter|danke|gut|oui|d'accord|merci|continue[zr]?|sí|si|vale|gracias|sigue|да|хорошо|продолжай|好|好的|继续|はい|続けて|네)"
    r"\W*){1,3}",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Row:
    number: int
    entry: UserInput
    text: str
    asked: bool = True
    shown: bool = True
    tokens: int = 0
    rules: tuple[str, ...] | None = field(default=None)

    def written(self) -> str:
        return user_message(self.number, self.text, self._about())

    def _about(self) -> str:
        corrected = one_line(self.entry.corrected, 160).replace("”", "'")
        since = f"(since corrected: “{corrected}”)" if corrected else ""
        return f"{self._context()} {since}".strip()

    def _context(self) -> str:
        if self.entry.kind is Kind.FEEDBACK:
            return "(refusing a tool call)"
        question = one_line(self.entry.question, 200).replace("”", "'") if self.asked else ""
        return f"(asked: “{question}”)" if question else ""

    @property
    def says_nothing(self) -> bool:
        return says_nothing(self.entry.text)

    @property
    def binds(self) -> bool:
        if self.rules is None:
            found = rules_of(self.entry.text)
            found.sort(key=lambda rule: -rule.strength)
            self.rules = tuple(dict.fromkeys(rule.text for rule in found))
        return bool(self.rules)


def user_messages(inputs: Sequence[UserInput], tokens: int, focus: Sequence[str] = ()) -> str:
    """Every message of the user, verbatim as far as they fit.

    Args:
        inputs: The messages, oldest first.
        tokens: The cap, in UTF-8 bytes / 4.
        focus: Words in lower case: a message that holds one gives way after those that do not.
    """
    rows = [_Row(number, entry, entry.text) for number, entry in enumerate(inputs, 1)]
    for row in rows:
        row.tokens = cost(row.written())
    _fit(rows, tokens, focus)
    shown = [row.written() for row in rows if row.shown]
    missing = len(rows) - len(shown)
    if missing and shown:
        shown.insert(
            0, f"({missing} {'message' if missing == 1 else 'messages'} left out for room)"
        )
    return "\n".join(shown)


def says_nothing(text: str) -> bool:
    """Whether a message only agrees, greets or thanks: `ok`, `go on`. Such messages give way first."""
    return len(text) <= 60 and _SAYS_NOTHING.fullmatch(text) is not None


def essential_tokens(inputs: Sequence[UserInput]) -> int:
    """What the words need where long messages are shortened and questions left out, in UTF-8 bytes / 4."""
    total = 0
    for number, entry in enumerate(inputs, 1):
        row = _Row(number, entry, entry.text, asked=False)
        total += min(cost(row.written()), ESS) if not row.says_nothing else 0
    return total


_NOTE = 8
"""Tokens of the line that says how many messages are missing."""


def _fit(rows: list[_Row], tokens: int, focus: Sequence[str]) -> None:
    total = sum(row.tokens for row in rows)
    if total <= tokens or not rows:
        return
    newest = rows[-1]
    older = sorted(rows[:-1], key=lambda row: _wanted(row, focus))
    steps = [
        *((row, "asked", 0) for row in older if not row.says_nothing),
        *((row, "leave", 0) for row in older if row.says_nothing),
        *((row, "trim", LONG) for row in older),
        (newest, "trim", max(tokens // 2, 15)),
        *((row, "trim", least) for least in SHORTER for row in older),
        *((row, "leave", 0) for row in older if not row.binds),
        *((row, "leave", 0) for row in older),
        (newest, "asked", 0),
        (newest, "cut", 15),
    ]  # fmt: skip
    for row, step, least in steps:
        over = total + _NOTE - tokens
        if over <= 0:
            return
        total -= _given_up(row, step, least, over)


def _wanted(row: _Row, focus: Sequence[str]) -> tuple[bool, int]:
    text = row.entry.text.lower() if focus else ""
    return any(word in text for word in focus), row.number


def _given_up(row: _Row, step: str, least: int, over: int) -> int:
    """Makes one row smaller; how many tokens that gives."""
    if not row.shown:
        return 0
    before = row.tokens
    if step == "leave":
        row.shown, row.tokens = False, 0
        return before
    if step == "asked":
        row.asked = False
    elif step == "cut":
        row.text = shorten(row.entry.text, max(least, before - over - 12))
    else:
        room = max(least, before - over - 12)
        if row.binds and least < LONG and min(map(cost, row.rules or ("",))) > room:
            return 0  # left out rather than cut inside its rule
        shorter = trimmed(row.entry.text, room, row.rules or ())
        if cost(shorter) < cost(row.text):
            row.text = shorter
    row.tokens = min(cost(row.written()), before)
    return before - row.tokens


def trimmed(text: str, tokens: int, rules: Sequence[str] | None = None) -> str:
    """The beginning and end of a text, and between them the sentences that bind, whole.

    Args:
        text: The user's words.
        tokens: About how much may stay, in UTF-8 bytes / 4; the rules may take somewhat more.
        rules: The sentences that bind, the weightiest first; `None`: they are looked for.
    """
    if cost(text) <= tokens:
        return text
    if rules is None:
        rules = [r.text for r in sorted(rules_of(text), key=lambda r: -r.strength)]
    kept = _affordable(text, rules, tokens)
    if not kept:
        return shorten(text, tokens)
    room = max(tokens - sum(cost(text[a:b]) for a, b in kept) - 10, 0)
    chars = room * 4 * len(text) // max(4 * cost(text), 1)
    spans = _merged(len(text), [(0, _word_end(text, chars * 7 // 10)), (_word_start(text, len(text) - chars * 3 // 10), len(text)), *kept], rules, text)  # fmt: skip
    return _with_gaps(text, spans)


def _affordable(text: str, rules: Sequence[str], tokens: int) -> list[tuple[int, int]]:
    """Where the rules stand, as many as fit, the weightiest first."""
    found: list[tuple[int, int]] = []
    for rule in rules:
        place = text.find(rule)
        price = cost(rule)
        if place >= 0 and price <= tokens:
            tokens -= price
            found.append((place, place + len(rule)))
    return found


def _word_end(text: str, end: int) -> int:
    return max(text.rfind(" ", 0, end), text.rfind("\n", 0, end), 0) if end < len(text) else end


def _word_start(text: str, start: int) -> int:
    if start <= 0:
        return 0
    places = [place for place in (text.find(" ", start), text.find("\n", start)) if place >= 0]
    return min(places) + 1 if places else len(text)


def _merged(length: int, spans: list[tuple[int, int]], rules: Sequence[str], text: str) -> list[tuple[int, int]]:  # fmt: skip
    """The spans in order, none ending inside a rule that is not kept."""
    kept = set(spans[2:])
    head, tail = spans[0], spans[1]
    for rule in rules:
        start = text.find(rule)
        stop = start + len(rule)
        if start < 0 or (start, stop) in kept:
            continue
        if start < head[1] < stop:
            head = (0, start)
        if start < tail[0] < stop:
            tail = (stop, length)
    out: list[tuple[int, int]] = []
    for first, last in sorted([head, tail, *kept]):
        if last <= first:
            continue
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return out


def _with_gaps(text: str, spans: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    at = 0
    join = "\n" if "\n" in text else " "
    for first, last in [*spans, (len(text), len(text))]:
        if text[at:first].strip():
            parts.append(f"[… {first - at} characters left out …]")
        parts.append(text[first:last].strip())
        at = last
    return join.join(part for part in parts if part)

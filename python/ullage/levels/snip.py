"""In-place snip: a long result keeps its head and its tail, and says how much was removed between them."""

from __future__ import annotations

from collections.abc import Sequence

from ullage._start import unicodedata
from ullage.levels.level import NEVER, NOW, Context, Level, Rest, share_of
from ullage.levels.view import Decision, Result, StageReport, fresh_from
from ullage.policy import Policy

# Cuts texts at natural places: at line ends, never inside a character.


_NEAR = 200  # characters: how far a cut may move to find a line end
_JOINERS = "\u200d\ufe0f\ufe0e"


def _splits_character(text: str, at: int) -> bool:
    """Whether a cut before `text[at]` would split a grapheme: a combining mark, a joined emoji, a pair of surrogates."""
    if not 0 < at < len(text):
        return False
    after, before = text[at], text[at - 1]
    if unicodedata.combining(after) or after in _JOINERS or before == "\u200d":
        return True
    pair = "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"
    return pair or before + after == "\r\n" or "\U0001f3fb" <= after <= "\U0001f3ff"


def head(text: str, length: int) -> str:
    """At most `length` characters from the start, up to a line end where one is near."""
    if length >= len(text):
        return text
    line = text.rfind("\n", max(0, length - _NEAR), length)
    at = line + 1 if line >= 0 else length
    while at > 0 and _splits_character(text, at):
        at -= 1
    return text[:at]


def tail(text: str, length: int) -> str:
    """At most `length` characters from the end, from a line start where one is near."""
    if length >= len(text):
        return text
    start = len(text) - length
    line = text.find("\n", start, start + _NEAR)
    at = line + 1 if line >= 0 else start
    while at < len(text) and _splits_character(text, at):
        at += 1
    return text[at:]


def snipped(text: str, head_percent: int, tail_percent: int) -> str:
    """Shares of a text from its two ends, and between them how many characters were taken out."""
    return cut_middle(text, len(text) * head_percent // 100, len(text) * tail_percent // 100)


def within(text: str, max_chars: int) -> str:
    """A text as it is, or about so many characters from the two ends of a longer one."""
    if len(text) <= max_chars:
        return text
    percent = max(1, 50 * max_chars // len(text))
    return snipped(text, percent, percent)


def cut_middle(text: str, head_chars: int, tail_chars: int, handle: str = "") -> str:
    """At most so many characters from the two ends of a longer text, and between them how many were taken out.

    `handle`: what brings the whole text back; empty: nothing is said of it.
    """
    first, last = head(text, head_chars), tail(text, tail_chars)
    removed_chars = len(text) - len(first) - len(last)
    back = f'; the whole text: recall handle "{handle}"' if handle else ""
    return f"{first.rstrip()}\n\n[... {removed_chars:,} characters taken out here{back} ...]\n\n{last.lstrip()}"


STAGE = "snip"


def run(context: Context) -> StageReport | None:
    """Snip long results; `None` if there are none or the window is not full enough.

    With `snip.on_arrival` new results are snipped at any fill. Where the request fits as it is, the model sees results whole
    that no answer has followed yet.
    """
    view, policy, snip = context.view, context.policy, context.policy.snip
    if not snip.enabled:
        return None
    pressed = context.fill_percent() >= snip.start_percent
    if not pressed and not snip.on_arrival:
        return None
    fits = view.tokens(context.overhead_tokens) <= context.window_tokens
    stop = len(view) if snip.on_arrival or not fits else fresh_from(view.ledger)
    start = view.looked.get(STAGE, 0) if pressed else view.sent
    chosen: list[tuple[Result, Decision]] = []
    for result in view.results(start, stop):
        if result.chars > snip.max_chars and not result.replaced and not result.has_media:
            text = view.text(result)
            short = shortened(text, policy, result.id)
            if len(short) < len(text):
                chosen.append((result, Decision(result.id, STAGE, short)))
    waiting = _waiting(context, chosen) if fits else 0
    if pressed:
        view.looked[STAGE] = chosen[0][0].message if waiting else stop
    chosen = chosen[waiting:]
    why = f"results over {snip.max_chars:,} characters"
    return view.report(STAGE, why, chosen) if chosen else None


def _waiting(context: Context, chosen: Sequence[tuple[Result, Decision]]) -> int:
    """How many of the first ones wait until they pay for the cache that they break: the later a change, the less it breaks."""
    from ullage.levels.cost import pays_soon

    freed, worth = 0, len(chosen)
    for at, (result, decision) in reversed([*enumerate(chosen)]):
        freed += result.tokens - result.tokens * len(decision.text) // result.chars
        if pays_soon(context, result.message, freed):
            worth = at
    return worth


def rest(context: Context) -> Rest:
    """Until the window is full enough, or a long result is there."""
    view, snip = context.view, context.policy.snip
    if not snip.enabled:
        return NEVER
    mark = share_of(context.window_tokens, snip.start_percent)
    if view.tokens(context.overhead_tokens) < mark:
        long = Rest(result_chars=snip.max_chars) if snip.on_arrival else NEVER
        return long.both(Rest(fill=mark))
    waits = any(
        result.chars > snip.max_chars and not result.replaced
        for result in view.results(view.looked.get(STAGE, 0))
    )
    # Above the window even results are snipped that the model has not seen.
    fits = Rest(fill=context.window_tokens, least_fill=mark, result_chars=snip.max_chars)
    return NOW if waits else fits


def shortened(text: str, policy: Policy, handle: str) -> str:
    """The first and last characters of a text, by shares of `snip.max_chars`; at most so long, however long the text is."""
    snip = policy.snip
    first = snip.max_chars * snip.head_percent // 100
    return cut_middle(text, first, snip.max_chars * snip.tail_percent // 100, handle)


LEVEL = Level(STAGE, run, rest=rest)

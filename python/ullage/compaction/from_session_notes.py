"""Compacts without a summary call: the session's notes replace what they have absorbed.

The keeper of the notes provides their text and how far they reach; this module decides how much of the conversation stays
with them. Where the notes do not suffice, the reason is reported and a summary is written instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ullage.compaction.carried import after_item
from ullage.compaction.cut import Cut, least_keep, must_stay, scaled_keep
from ullage.compaction.prepared import State, recut, room_after
from ullage.compaction.recollection import SESSION_MEMORY, Memory, Remembered
from ullage.compaction.summary_call import Accepted
from ullage.compaction.target import kept_share, scaled_to_target
from ullage.effects import Flow
from ullage.facts.sections import CLOSING, NOTES_OPENING, OPENING
from ullage.facts.whose_words import summary_text
from ullage.providers.manual_thinking import is_manual, whole_start

__all__ = ["Memory", "Remembered", "remembered"]

MOST_PERCENT = 50
"""Notes may have at most this share of what they replace: else a rewrite would not be worth it."""


def remembered(state: State, instructions: str) -> Flow[tuple[State, Accepted] | str]:
    """The cut and the text of a compaction by notes, or why a summary is needed.

    Args:
        state: The job, looked at.
        instructions: Of the user: only a summary can follow them.
    """
    job = state.job
    if instructions or job.direction != "full" or job.memory is None:
        return "instructions" if instructions else "partial"
    found = yield from job.memory.recall_flow(state.source.stored, state.measure)
    if isinstance(found, str):
        return found
    return _weighed(state, found)


LEAST_SHARE = 2
"""The notes may be cut to half to fit a small window; if not even that fits, a summary is better."""


def _weighed(state: State, found: Remembered) -> tuple[State, Accepted] | str:
    room = _room(state)
    cut = Cut(0, _kept_from(state, found.start, room))
    new = recut(state, after_item(state.source, state.ledger, cut))
    whole = _framed(found.text(None))
    text, size = whole, state.measure(whole)
    left = size if room is None else room - (state.tokens - new.removed_tokens)
    if left < size:
        # Where a section is cut it says so, which takes a little room again.
        text = _framed(found.text(max(left * 9 // 10, 0)))
        size, least = state.measure(text), size // LEAST_SHARE
        if left < least or size > left:
            return "too_much_kept"
    if size > new.removed_tokens * MOST_PERCENT // 100:
        return "not_smaller"
    facts = None if room is None else left - size
    return new, Accepted(text, SESSION_MEMORY, 0, 0, by_code=False, facts_tokens=facts)


def _framed(notes: str) -> str:
    return f"{NOTES_OPENING}\n\n{_contained(notes)}"


def _room(state: State) -> int | None:
    """Tokens that the new context may have, so that the next compaction comes late (P-8), within the target; `None`: unknown."""
    job, target = state.job, state.target
    most = [] if job.trigger_tokens is None else [room_after(job, state.overhead)]
    most += [] if target is None else [target]
    return min(most) - FRAME_TOKENS if most else None


FRAME_TOKENS = 300
"""The text of the summary message around the notes."""


def _kept_from(state: State, start: int, room: int | None) -> int:
    """KEEP-1 to KEEP-3: from the first message that is not in the notes, back until enough stays."""
    source, job = state.source, state.job
    keep = scaled_keep(job.keep, job.policy.keep, job.window_tokens)
    if job.target_tokens is not None and job.keep is None:
        keep = scaled_to_target(keep, kept_share(state.target or 0))
    for enough in (keep, least_keep(keep)):
        window = state.ledger.keep_window(
            min(start, must_stay(source, state.ledger)),
            floor=_floor(source.context, start),
            min_tokens=enough.min_tokens,
            max_tokens=enough.max_tokens,
            min_text_messages=enough.min_text_messages,
        )
        # A quarter of the room is for the notes.
        if room is None or window.tokens <= room * 3 // 4:
            break
    return _thoughtful(state, int(window.start), last=start, room=room)


def _thoughtful(state: State, start: int, *, last: int, room: int | None) -> int:
    """The cut, where with manual thinking an open turn begins with its thinking; the very same if there is none.

    Args:
        state: The job, looked at.
        start: The cut so far.
        last: Position of the first message that the notes do not hold.
        room: Tokens that may be kept; `None`: any.
    """
    if not is_manual(state.job.thinking):
        return start
    # A turn whose calls wait for results cannot be ended by code.
    most = None if state.ledger.open_calls() else room
    last = min(last, must_stay(state.source, state.ledger))
    found = whole_start(state.ledger, start, floor=0, last=last, most=most)
    return start if found is None else found


def _floor(context: Sequence[Any], start: int) -> int:
    """The position after the newest summary, if the notes have absorbed that too."""
    places = [at for at, item in enumerate(context[:start]) if summary_text(item)]
    return places[-1] + 1 if places else 0


_MARKS = re.compile(
    "|".join(re.escape(mark) for mark in (OPENING, CLOSING, NOTES_OPENING))
    + r"|</?system-reminder\b",
    re.IGNORECASE,
)


def _contained(text: str) -> str:
    """Defuse notes so that they can neither end their frame nor imitate the host."""
    return _MARKS.sub(_broken, text)


def _broken(found: re.Match[str]) -> str:
    mark = found[0].translate(_BROKEN)
    return mark[0].lower() + mark[1:]


_BROKEN = str.maketrans({"[": "(", "]": ")", "<": "‹"})

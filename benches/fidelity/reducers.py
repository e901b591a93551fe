"""Ways to bring a context down to a size, each gives the text that would be left.

Sizes are exact counts of one public vocabulary (o200k_base), the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuts import Message, text_of

from ullage.compaction.assemble import repair
from ullage.counting.exact import count_tokens_exact
from ullage.facts import Facts, collect, is_user_input
from ullage.memory.session.extractive_notes import merged
from ullage.memory.session.template import DEFAULT_TEMPLATE, cut_notes
from ullage.memory.session.update import measure_of
from ullage.summarizers.extractive import MIN_TOKENS, render

Reducer = Callable[[Sequence[Message], int], str]


def count(text: str) -> int:
    return count_tokens_exact(text)


def extractive(before: Sequence[Message], size: int) -> str:
    """Our summarizer, its budget scaled until the text has the size."""
    facts = collect(before)
    low, high, best = MIN_TOKENS, size * 3, ""
    for _ in range(10):
        middle = (low + high) // 2
        text = render(facts, tokens=middle)
        if count(text) <= size:
            low, best = middle + 1, text
        else:
            high = middle - 1
    return best


def session_notes(before: Sequence[Message], size: int) -> str:
    """What a compaction by session notes sends: the notes made of copies, and the facts that they lack."""
    facts = collect(before)
    low, high, best = 300, size * 3, ""
    for _ in range(10):
        middle = (low + high) // 2
        text = _noted(facts, middle)
        if count(text) <= size:
            low, best = middle + 1, text
        else:
            high = middle - 1
    return best


def _noted(facts: Facts, tokens: int) -> str:
    # One section may have 2 000 tokens (`session_memory.section_max_tokens`): two thirds of the usual size here.
    limits = {
        "section_tokens": tokens * 2 // 3,
        "total_tokens": tokens,
        "measure": measure_of(None),
    }
    made = merged(DEFAULT_TEMPLATE, facts, generated={}, removed=(), **limits)
    text = cut_notes(made.text, **limits).text
    return text + "\n\n" + repair(facts, text, tokens=tokens // 4).text


def tail(before: Sequence[Message], size: int) -> str:
    """The newest text, cut to the size."""
    whole = "\n".join(map(text_of, before))
    low, high = 0, min(len(whole), size * 12)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(whole[-middle:]) <= size else (low, middle - 1)
    return whole[-low:] if low else ""


def all_users(before: Sequence[Message], size: int) -> str:
    """Every message of the user, the newest first while it fits; in what is left the newest text of all else."""
    own = [is_user_input(item) for item in before]
    texts = [text_of(item) for item in before]
    kept: set[int] = set()
    room = size
    for at in [at for at in reversed(range(len(texts))) if own[at]]:
        price = count(texts[at]) + 1  # a line break between it and the next
        if price <= room:
            kept.add(at)
            room -= price
    users = "\n".join(text for at, text in enumerate(texts) if at in kept)
    rest = [item for item, user in zip(before, own, strict=True) if not user]
    return f"{users}\n{tail(rest, room - 1)}" if room > 1 else users


REDUCERS: dict[str, Reducer] = {
    "ullage, extractive": extractive,
    "ullage, session notes": session_notes,
    "all user messages, then a tail": all_users,
    "plain tail": tail,
}
"""Those that need no other package; the peers' are in `peer_reducers.py`."""

"""Which facts of a conversation a compaction keeps verbatim, and which it loses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ullage.facts import Facts
from ullage.messages import Item

__all__ = ["FactCount", "facts_in", "kept_facts"]

MOST_LISTED = 40
"""Lost facts of one kind that are listed."""


@dataclass(frozen=True, slots=True)
class FactCount:
    """The facts of one kind.

    Attributes:
        kind: Such as `URLs`.
        kept: How many the new context holds, character for character.
        total: How many there were.
        lost: The others, the first of them; `more` are not listed.
        more: See `lost`.
    """

    kind: str
    kept: int
    total: int
    lost: tuple[str, ...]
    more: int


def facts_in(facts: Facts) -> dict[str, list[str]]:
    """The texts of facts that a successor needs verbatim, by kind, each once."""
    found: dict[str, Iterable[str]] = {
        "user messages": (each.text for each in facts.inputs),
        "lasting rules": (each.text for each in facts.standing),
        "files changed": (each.path for each in facts.files if each.changed),
        "commits": (each.digest for each in facts.commits),
        "answers of the user": (each.answer for each in facts.decisions),
        "open tasks": (each.subject for each in facts.tasks if each.open),
        "errors not fixed": (each.line for each in facts.failures if each.fixed_index < 0),
        "URLs": facts.urls,
    }
    texts = {kind: list(dict.fromkeys(filter(None, each))) for kind, each in found.items()}
    return {kind: each for kind, each in texts.items() if each}


def kept_facts(wanted: Mapping[str, Sequence[str]], context: Sequence[Item]) -> list[FactCount]:
    """Look for facts in a context.

    Args:
        wanted: Texts by kind, see `facts_in`.
        context: Messages or entries of the new context.
    """
    # As JSON, so that a text is found wherever a message holds it; escapes are the same on both sides.
    whole = json.dumps(list(context), default=str, ensure_ascii=False)
    return [_count(kind, texts, whole) for kind, texts in wanted.items()]


def _count(kind: str, texts: Sequence[str], whole: str) -> FactCount:
    lost = [text for text in texts if json.dumps(text, ensure_ascii=False)[1:-1] not in whole]
    return FactCount(
        kind=kind,
        kept=len(texts) - len(lost),
        total=len(texts),
        lost=tuple(lost[:MOST_LISTED]),
        more=max(0, len(lost) - MOST_LISTED),
    )

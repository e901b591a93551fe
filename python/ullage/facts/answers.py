"""Questions and answers of tools that talk to the user, and tools found by a search."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ullage.facts.calls import Action, CallEffect
from ullage.facts.reading import blocks_of, clean, flat_text
from ullage.messages import CLEARED

__all__ = ["asked_by", "question_answers", "tool_references"]


def asked_by(call: CallEffect, given: Any) -> str:
    """The question of a call to the user; empty if there is none."""
    if call.action is Action.ASK:
        return "\n".join(_questions(given)) or call.target[:500]
    return call.target[:500] if call.action is Action.PLAN else ""


def _questions(given: Any) -> list[str]:
    listed = given.get("questions", given.get("question")) if isinstance(given, Mapping) else None
    if isinstance(listed, str):
        return [clean(listed, 1000)]
    if not isinstance(listed, Sequence):
        return []
    return [clean(q.get("question"), 1000) for q in listed if isinstance(q, Mapping)]


_PAIR = re.compile(r'"([^"]{1,1000})"="([^"]{0,2000})"')


def question_answers(given: Any, item: Any, text: str) -> list[tuple[str, str]]:
    """Questions and answers of a call that asked the user.

    Args:
        given: The call's input.
        item: The entry of the result: its UI copy, if any, is exact.
        text: The result; `[]` is returned for one whose content was cleared.
    """
    if text.strip() == CLEARED:
        return []
    copy = item.get("toolUseResult") if isinstance(item, Mapping) else None
    answers = copy.get("answers") if isinstance(copy, Mapping) else None
    if isinstance(answers, Mapping) and answers:
        return [(clean(q, 1000), flat_text(a)) for q, a in answers.items() if isinstance(q, str)]
    pairs = _PAIR.findall(text[:20_000])
    return pairs or [("\n".join(_questions(given)), text.strip()[:2000])]


def tool_references(item: Any) -> list[str]:
    """Names of the tools that a search for tools found."""
    parts = (part for block in blocks_of(item) for part in _parts(block.get("content")))
    found = (clean(p.get("tool_name"), 200) for p in parts if p.get("type") == "tool_reference")
    return [name for name in found if name]


def _parts(content: Any) -> list[Mapping[str, Any]]:
    listed = content if isinstance(content, list) else []
    return [part for part in listed if isinstance(part, Mapping)]

"""Repairs for the chat form: OpenAI, Mistral, DeepSeek, local servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ullage.legality import Report
from ullage.legality.repair.chat_calls import name_calls, pair
from ullage.legality.repair.chat_dialects import (
    alternate,
    answer_tools,
    last_word,
    no_messages,
    reasoning,
    systems,
)
from ullage.legality.repair.chat_draft import Lines
from ullage.legality.repair.chat_messages import normal
from ullage.legality.repair.loop import Step, mend, steps
from ullage.legality.repair.result import Repaired

__all__ = ["repair_chat"]


def repair_chat(
    messages: Sequence[Any],
    *,
    dialect: str,
    facts: Mapping[str, Any],
    orphans: str,
    check: Callable[[Sequence[Any]], Report],
) -> Repaired:
    """Repairs messages of the chat form.

    Args:
        messages: As given.
        dialect: `openai_chat`, `mistral`, `deepseek` or `local`.
        facts: `thinking`, `reasoning_forbidden` and `strict` as the verifier has them.
        orphans: What becomes of tool messages without a call; see `repair`.
        check: The rules.
    """
    report = check(messages)
    if report.ok:
        return Repaired(messages)
    strict = dialect == "local" or bool(facts.get("strict"))
    plan: list[Step] = steps(
        ("O06 O04 O03 O05 O07 O08 D02 O10", lambda w: normal(w, dialect, strict)),
        ("O05 M03", lambda w: name_calls(w, dialect)),
        ("O01 O02 M01 D03 O06", lambda w: pair(w, orphans)),
        ("D01", lambda w: reasoning(w, bool(facts.get("thinking")))),
        ("M05 L01 O10", systems),
        ("L02 O10", alternate),
        ("M02", answer_tools),
        ("M04 L03", last_word),
        ("O06 O04", no_messages),
    )
    return mend(messages, work=Lines(messages), plan=plan, check=check, report=report)

"""Repairs for the chat form: OpenAI, Mistral, DeepSeek, local servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ullage.legality.chat import facts_of
from ullage.legality.repairs.chat_calls import name_calls, pair
from ullage.legality.repairs.chat_dialects import (
    alternate,
    answer_tools,
    last_word,
    no_messages,
    reasoning,
    systems,
)
from ullage.legality.repairs.chat_draft import Lines
from ullage.legality.repairs.chat_messages import normal
from ullage.legality.repairs.loop import RepairStep, mend, steps
from ullage.legality.repairs.repair_request import RepairRequest
from ullage.legality.repairs.result import Repaired

__all__ = ["repair"]


def repair(messages: Sequence[Any], request: RepairRequest) -> Repaired:
    """Repairs messages of the chat form."""
    report = request.report(messages)
    if report.ok:
        return Repaired(messages)
    rules, facts, orphans = request.provider.chat, facts_of(request), request.orphans
    strict = rules.strict or bool(facts.get("strict"))
    plan: list[RepairStep] = steps(
        ("O06 O04 O03 O05 O07 O08 D02 O10", lambda w: normal(w, rules, strict)),
        ("O05 M03", lambda w: name_calls(w, rules)),
        ("O01 O02 M01 D03 O06", lambda w: pair(w, orphans)),
        ("D01", lambda w: reasoning(w, bool(facts.get("thinking")))),
        ("M05 L01 O10", systems),
        ("L02 O10", alternate),
        ("M02", answer_tools),
        ("M04 L03", last_word),
        ("O06 O04", no_messages),
    )
    return mend(messages, work=Lines(messages), plan=plan, check=request.report, report=report)

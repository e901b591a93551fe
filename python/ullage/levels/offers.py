"""What the model learns about its own context, and may request, where the host offers it (BEY-4). Off by default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ullage._engine.digests import Role
from ullage.levels.level import NEVER, NOW, Context, Level, PlainState, Rest, share_of
from ullage.levels.view import View
from ullage.policy import Policy
from ullage.recall.text import Tool, ToolAnswer

STAGE = "offers"

COMPACT_TOOL = Tool(
    name="compact_context",
    description=(
        "Requests a summary of the older part of this conversation, to make room. It is written before your next turn. Use it between "
        "two pieces of work, when the older part is no longer needed verbatim."
    ),
    schema={
        "type": "object",
        "properties": {
            "instructions": {"type": "string", "description": "What the summary should focus on."}
        },
        "additionalProperties": False,
    },
)

CONTEXT_TOOL = Tool(
    name="context_usage",
    description="Reports how full the context window is, and with what.",
    schema={"type": "object", "properties": {}, "additionalProperties": False},
)

SUMMARY_TOKENS = 8_000  # what a summary comes to, for the estimate of what a compaction would free
INSTRUCTION_CHARS = 2_000


@dataclass(slots=True, eq=False, repr=False)
class Offers(PlainState):
    """State of what is offered."""

    # Highest mark reported to the model; 0: none since the window was emptier.
    reported_percent: int = 0
    asked: str | None = None  # instructions of a compaction that the model has asked for
    granted: int = 0  # how many compactions it was granted

    def take(self) -> str | None:
        """The compaction that was asked for, once."""
        asked, self.asked = self.asked, None
        return asked


def run(context: Context) -> None:
    """Tell the model how full the window is, once at each mark, after the newest user message.

    The text stays there, so that the cached prefix holds. A mark counts again after the window was emptier than it.
    """
    rules = context.policy.offer
    if not rules.notice_percent:
        return
    view, state, fill_percent = context.view, context.state(Offers), context.fill_percent()
    over = fill_percent - rules.notice_percent
    mark = fill_percent - over % rules.notice_step_percent if over >= 0 else 0
    if mark <= state.reported_percent:
        state.reported_percent = mark
        return
    newest = len(view) - 1
    fresh = newest >= max(0, view.sent) and isinstance(view.sources[newest], int)
    if fresh and view.ledger.message(newest).role == Role.USER:
        text = (
            f"<system-reminder>The context window is {mark} % full. Finish what needs the older part of the conversation "
            "first. Do not mention this reminder.</system-reminder>"
        )
        view.append_text(newest, text)
        state.reported_percent = mark


def rest(context: Context) -> Rest:
    """Until the first mark."""
    percent = context.policy.offer.notice_percent
    if not percent:
        return NEVER
    reported = context.state(Offers).reported_percent
    return NOW if reported else Rest(fill=share_of(context.window_tokens, percent))


def ask(arguments: Any, view: View, policy: Policy, state: Offers, *, possible: bool) -> ToolAnswer:
    """The answer to a model that asks for a compaction, with a call's `input`; `possible`: compaction is not switched off."""
    rules = policy.offer
    gain = int(view.ledger.tokens()) - policy.keep.max_tokens - SUMMARY_TOKENS
    if not possible:
        return ToolAnswer("Compaction is switched off.", is_error=True)
    if state.granted >= rules.compact_limit:
        return ToolAnswer("No further compaction can be asked for.", is_error=True)
    if gain < rules.compact_min_tokens:
        return ToolAnswer("Not yet: it would free too little.", is_error=True)
    words = arguments.get("instructions") if isinstance(arguments, Mapping) else None
    state.asked = words[:INSTRUCTION_CHARS] if isinstance(words, str) else ""
    state.granted += 1
    return ToolAnswer("The older part is summarised before your next turn.")


LEVEL = Level(STAGE, run, Offers, rest=rest)

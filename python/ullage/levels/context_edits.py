"""Anthropic's `context_management` for any provider (BEY-5): passed on where it is known, else done here.

What is done here is what the API describes, with one difference that keeps the prompt cache warm: what was cleared stays
cleared, and clearing happens again only when the trigger is reached again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ullage._engine.digests import BlockKind, MessageFlag, Role
from ullage.counting.calibration import Weights
from ullage.counting.models import Model
from ullage.levels.context_management import (
    CLEAR_THINKING,
    CLEAR_TOOL_USES,
    COMPACT,
    ContextEdit,
    betas,
    read_edits,
)
from ullage.levels.level import NEVER, NOW, Context, Level, PlainState, Rest
from ullage.levels.provider_clearing import understands
from ullage.levels.view import Decision, Result, StageReport, View, fresh_from, names_of
from ullage.messages import CLEARED
from ullage.policy import Policy
from ullage.providers.registry import AnyProvider

STAGE = "context_edits"
_THINKING = (BlockKind.THINKING, BlockKind.REDACTED_THINKING)


@dataclass(slots=True, eq=False, repr=False)
class ContextEdits(PlainState):
    """What was asked for, and what was done of it."""

    config: dict[str, Any] | None = None  # the parameter as the host gave it
    cleared: list[str] = field(default_factory=list)  # tool uses that were cleared
    cleared_tokens: int = 0  # what that freed, estimated
    thinking_turns: int = 0  # turns whose thinking was left out
    thinking_tokens: int = 0  # what that freed, estimated

    def applied_edits(self) -> list[dict[str, Any]]:
        """The account in the API's form, of all that is cleared in the request."""
        edits: list[dict[str, Any]] = []
        if self.thinking_turns:
            turns = {"type": CLEAR_THINKING, "cleared_thinking_turns": self.thinking_turns}
            edits.append({**turns, "cleared_input_tokens": self.thinking_tokens})
        if self.cleared:
            uses = {"type": CLEAR_TOOL_USES, "cleared_tool_uses": len(self.cleared)}
            edits.append({**uses, "cleared_input_tokens": self.cleared_tokens})
        return edits


def run(context: Context) -> StageReport | None:
    """Send the parameter on where the provider knows it, else do what it asks for; `None` if nothing was due.

    Raises:
        InvalidPolicy: The parameter is one that the API would refuse.
    """
    state, extras = context.state(ContextEdits), context.extras
    if state.config is None:
        return None
    if understands(context.provider, context.model):
        extras.params["context_management"] = state.config
        for beta in betas(read_edits(state.config)):
            extras.add_header("anthropic-beta", beta)
        return None
    report = _edited(context.view, context.overhead_tokens, state)
    extras.applied_edits += state.applied_edits()
    return report


def rest(context: Context) -> Rest:
    """For ever where the host gave no parameter."""
    return NEVER if context.state(ContextEdits).config is None else NOW


def _edited(view: View, overhead_tokens: int, state: ContextEdits) -> StageReport | None:
    before, changed = view.ledger.tokens(), list[int | None]()
    cleared: list[Result] = []
    for edit in read_edits(state.config):
        start, keep = view.ledger.tokens(), edit.keep
        if edit.kind == CLEAR_THINKING and keep is not None:
            if turns := _old_thinking(view, keep):
                changed.append(view.strip((), [at for turn in turns for at in turn]))
                state.thinking_turns += len(turns)
                state.thinking_tokens += start - view.ledger.tokens()
        elif edit.kind == CLEAR_TOOL_USES:
            if chosen := _due(view, edit, overhead_tokens):
                changed.append(view.decide(Decision(r.id, STAGE, CLEARED) for r in chosen))
                changed.append(view.strip(r.id for r in chosen if _clears_input(edit, r)))
                cleared += chosen
                state.cleared += [result.id for result in chosen]
                state.cleared_tokens += start - view.ledger.tokens()
    if not changed:
        return None
    from ullage.transcript import records

    lines = (records.microcompact([result.id for result in cleared]),) if cleared else ()
    return StageReport(
        stage=STAGE,
        why="context_management",
        tokens_before=before,
        tokens_after=view.ledger.tokens(),
        first_changed=min((at for at in changed if at is not None), default=None),
        records=lines,
        **names_of(cleared),
    )


def apply_context_management(
    messages: Sequence[Mapping[str, Any]],
    context_management: Mapping[str, Any],
    *,
    overhead_tokens: int = 0,
    weights: Weights | None = None,
) -> tuple[list[Mapping[str, Any]], list[dict[str, Any]]]:
    """Do once what `context_management` asks for, on a list of messages of Anthropic's form.

    Args:
        messages: Never changed; what is not touched is the same object in the answer.
        context_management: As the API takes it; a compaction in it is left to `ullage.compact`.
        overhead_tokens: System prompt and tool definitions.
        weights: Of the estimate; `None`: characters / 4.

    Returns:
        The messages, and `applied_edits` in the API's form.

    Raises:
        InvalidPolicy: The API would refuse the parameter; names the field.

    Example:
        >>> asked = {"edits": [{"type": "clear_tool_uses_20250919"}]}
        >>> apply_context_management([{"role": "user", "content": "hi"}], asked)
        ([{'role': 'user', 'content': 'hi'}], [])
    """
    view, state = View(weights), ContextEdits(config=dict(context_management))
    for message in messages:
        view.add(message)
    _edited(view, overhead_tokens, state)
    return list(view.messages), state.applied_edits()


def policy_for(
    policy: Policy, config: Mapping[str, Any], model: Model, provider: AnyProvider
) -> Policy:
    """The policy with the trigger of a `compact_` edit as its own, where the provider does not know it.

    Raises:
        InvalidPolicy: The API would refuse the parameter; names the field.
    """
    trigger = next((edit.trigger for edit in read_edits(config) if edit.kind == COMPACT), 0)
    if not trigger or understands(provider, model):
        return policy
    percent = max(1, min(100, 100 * trigger // model.context_window))
    return policy.change({"auto.start_percent": percent})


# ---- tool uses -------------------------------------------------------------------------------


def _due(view: View, edit: ContextEdit, overhead_tokens: int) -> list[Result]:
    """The results to clear: all that may be, if the trigger is reached and enough would go."""
    results = list(view.results())
    open_results = [result for result in results if not _is_ours(view, result)]
    size = len(open_results) if edit.by_uses else view.tokens(overhead_tokens)
    if size < edit.trigger:
        return []
    fresh = fresh_from(view.ledger)  # what the model has not seen yet stays, however few are kept
    able = [
        result
        for result in results[: max(0, len(results) - (edit.keep or 0))]
        if result.message < fresh
        and not _is_ours(view, result)
        and result.tool not in edit.exclude_tools
        and result.chars > len(CLEARED)
    ]
    gain = 0
    for result in able:
        gain += result.tokens - result.tokens * len(CLEARED) // max(1, result.chars)
        place = view.ledger.find_call(result.id)
        if place is not None and _clears_input(edit, result):
            gain += view.ledger.blocks(place[0])[place[1]].tokens
    return able if gain >= max(1, edit.at_least) else []


def _is_ours(view: View, result: Result) -> bool:
    decision = view.decisions.get(result.id)
    return decision is not None and decision.stage == STAGE


def _clears_input(edit: ContextEdit, result: Result) -> bool:
    return result.tool in edit.inputs if isinstance(edit.inputs, tuple) else edit.inputs


# ---- thinking --------------------------------------------------------------------------------


def _old_thinking(view: View, keep_turns: int) -> list[list[int]]:
    """Messages with thinking of each turn but the newest so many; the newest turn always stays, since it may be open."""
    turns: list[list[int]] = [[]]
    thinking = set(view.ledger.with_kinds(*_THINKING))
    for at in range(len(view)):
        message = view.ledger.message(at)
        if message.flags & MessageFlag.USER_INPUT:
            turns.append([])
        shown = at in thinking and view.sources[at] not in view.unthought
        if shown and message.role == Role.ASSISTANT:
            turns[-1].append(at)
    thinking_turns = [turn for turn in turns if turn]
    return thinking_turns[: max(0, len(thinking_turns) - keep_turns)]


LEVEL = Level(STAGE, run, ContextEdits, rest=rest)

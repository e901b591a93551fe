"""Anthropic's `context_management` for any provider (BEY-5): read and checked exactly as the API takes it, passed on where it is known, else done here.

What is done here is what the API describes, with one difference that keeps the prompt cache warm: what was cleared stays
cleared, and clearing happens again only when the trigger is reached again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ullage._engine.digests import BlockKind, MessageFlag, Role
from ullage._start import NamedTuple
from ullage.counting.calibration import Weights
from ullage.counting.models import Model
from ullage.exceptions import InvalidPolicy
from ullage.legality.params import MIN_COMPACT_TRIGGER
from ullage.levels.level import NEVER, NOW, Context, Level, PlainState, Rest
from ullage.levels.view import Decision, Result, StageReport, View, fresh_from, names_of
from ullage.messages import CLEARED
from ullage.policy import Policy
from ullage.providers.registry import AnyProvider, provider_of

# The forms are those of the beta headers `context-management-2025-06-27` (clearing) and `compact-2026-01-12` (compaction).


CLEAR_TOOL_USES = "clear_tool_uses_20250919"
CLEAR_THINKING = "clear_thinking_20251015"
COMPACT = "compact_20260112"
EDITING_HEADER = "context-management-2025-06-27"
COMPACT_HEADER = "compact-2026-01-12"

_SETTINGS = {
    CLEAR_TOOL_USES: "type trigger keep clear_at_least exclude_tools clear_tool_inputs",
    CLEAR_THINKING: "type keep",
    COMPACT: "type trigger instructions pause_after_compaction",
}


class ContextEdit(NamedTuple):
    """What one edit asks for; the defaults are the API's."""

    kind: str
    trigger: int = 0  # from this size on: input tokens, or tool uses where `by_uses`
    by_uses: bool = False
    # Newest tool uses, or turns with their thinking, that stay; `None`: all.
    keep: int | None = None
    at_least: int = 0  # nothing is cleared if fewer tokens would go; 0: any gain is enough
    exclude_tools: tuple[str, ...] = ()  # names of tools whose uses stay
    # Clear the inputs of the calls too: all, none, or those of the named tools.
    inputs: bool | tuple[str, ...] = False


def read_edits(value: Any) -> tuple[ContextEdit, ...]:
    """The edits of the parameter, in their order.

    Raises:
        InvalidPolicy: The API would refuse it; names the field.

    Example:
        >>> given = {"edits": [{"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 5}}]}
        >>> read_edits(given)[0].keep
        5
    """
    edits = value.get("edits") if isinstance(value, Mapping) else None
    if not isinstance(edits, Sequence) or isinstance(edits, str):
        limit = "must be an object with a list `edits`"
        raise InvalidPolicy("context_management", value, limit)
    _only(value, "context_management", "edits")
    read = tuple(_read(edit, f"context_management.edits[{at}]") for at, edit in enumerate(edits))
    kinds = [edit.kind for edit in read]
    if len(set(kinds)) < len(kinds):
        raise InvalidPolicy("context_management.edits", len(kinds), "must not repeat a type")
    if CLEAR_THINKING in kinds[1:]:
        limit = "must be the first of the edits"
        raise InvalidPolicy("context_management.edits", CLEAR_THINKING, limit)
    return read


def betas(edits: Iterable[ContextEdit]) -> tuple[str, ...]:
    """Values of `anthropic-beta` that the edits need."""
    compacts = {edit.kind == COMPACT for edit in edits}
    return (EDITING_HEADER,) * (False in compacts) + (COMPACT_HEADER,) * (True in compacts)


def _read(edit: Any, place: str) -> ContextEdit:
    kind = edit.get("type") if isinstance(edit, Mapping) else None
    if kind not in _SETTINGS:
        raise InvalidPolicy(f"{place}.type", kind, f"must be one of {', '.join(_SETTINGS)}")
    _only(edit, place, _SETTINGS[kind])
    if kind == CLEAR_THINKING:
        return _thinking(edit.get("keep"), f"{place}.keep")
    if kind == COMPACT:
        instructions = edit.get("instructions") or ""
        if not isinstance(instructions, str):
            raise InvalidPolicy(f"{place}.instructions", instructions, "must be a text")
        trigger = _typed(edit.get("trigger"), f"{place}.trigger", 150_000)[1]
        if trigger < MIN_COMPACT_TRIGGER:
            limit = f"must be at least {MIN_COMPACT_TRIGGER:,}"
            raise InvalidPolicy(f"{COMPACT}.trigger.value", trigger, limit)
        return ContextEdit(kind, trigger)
    unit, trigger = _typed(edit.get("trigger"), f"{place}.trigger", 100_000)
    inputs = edit.get("clear_tool_inputs") or False
    if not isinstance(inputs, bool):
        inputs = _names(inputs, f"{place}.clear_tool_inputs")
    return ContextEdit(
        kind,
        trigger,
        by_uses=unit == "tool_uses",
        keep=_typed(edit.get("keep"), f"{place}.keep", 3)[1],
        at_least=_typed(edit.get("clear_at_least"), f"{place}.clear_at_least", 0)[1],
        exclude_tools=_names(edit.get("exclude_tools") or (), f"{place}.exclude_tools"),
        inputs=inputs,
    )


def _thinking(keep: Any, place: str) -> ContextEdit:
    if keep == "all" or (isinstance(keep, Mapping) and keep.get("type") == "all"):
        return ContextEdit(CLEAR_THINKING)
    turns = _typed(keep, place, 1)[1]
    if turns < 1:
        raise InvalidPolicy(f"{place}.value", turns, "must be at least 1")
    return ContextEdit(CLEAR_THINKING, keep=turns)


def _only(value: Mapping[str, Any], place: str, names: str) -> None:
    for key in value:
        if key not in names.split():
            raise InvalidPolicy(f"{place}.{key}", value[key], "is not a setting")


def _typed(pair: Any, place: str, default: int) -> tuple[str, int]:
    """`{"type": ..., "value": ...}`; absent or null: the default."""
    if pair is None:
        return "", default
    value = pair.get("value") if isinstance(pair, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidPolicy(f"{place}.value", value, "must be a whole number of at least 0")
    return str(pair.get("type")), value


def _names(value: Any, place: str) -> tuple[str, ...]:
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    if not listed or not all(isinstance(name, str) for name in value):
        raise InvalidPolicy(place, value, "must be a list of names")
    return tuple(value)


def understands(provider: AnyProvider, model: Model | None) -> bool:
    """Whether the request goes where Anthropic's context management is known."""
    row = provider_of(provider)
    return row.edits == "edits" and (model is None or model.provider == row.vendor)


# The level.


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
    first = min((at for at in changed if at is not None), default=None)
    report = view.report_since(STAGE, "context_management", before, first)
    return replace(report, records=lines, **names_of(cleared))


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

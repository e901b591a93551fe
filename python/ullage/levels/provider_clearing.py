"""Clearing by the provider (MIC-3): the request's parameters, and what the answer says was cleared.

The history and the request stay whole; the provider leaves old results out of what the model sees. That does not break
thinking that is bound to its prefix, so on such models it comes before our own clearing (MIC-8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ullage.facts.calls import matches
from ullage.facts.words import blocks_of
from ullage.levels.context_edits import (
    CLEAR_THINKING,
    CLEAR_TOOL_USES,
    COMPACT,
    betas,
    read_edits,
    understands,
)
from ullage.levels.level import NEVER, NOW, Context, Level, PlainState, Rest
from ullage.levels.view import StageReport, View, names_of
from ullage.messages import whole_count
from ullage.policy import Policy

STAGE = "provider_clearing"
# Tools that give back what left: clearing their answers would only have them called again.
NEVER_CLEARED = ("memory", "recall", "Snip")


@dataclass(slots=True, eq=False, repr=False)
class ProviderClearing(PlainState):
    """What the provider clears by itself."""

    # That the newest request asked it to leave alone.
    exclude_tools: list[str] = field(default_factory=list)
    # Ids of the tool uses that it left out of what the newest answer was given for, oldest first.
    cleared: list[str] = field(default_factory=list)
    tokens: int = 0  # how many input tokens that were, by its own count
    thinking_turns: int = 0  # turns whose thinking it left out
    reported: int = 0  # how many of `cleared` a report has named


def run(context: Context) -> StageReport | None:
    """Ask for what the policy wants, and report what the newest answer showed to be cleared; `None`: nothing new."""
    if rest(context) is NEVER:
        return None
    policy, provider, extras = context.policy, context.provider, context.extras
    state, params, headers = context.state(ProviderClearing), extras.params, tuple[str, ...]()
    asked: Any = None
    # OpenAI's Responses API knows compaction only: `context_management` is a list there, and no header is needed.
    if provider.edits == "compaction" and policy.micro.provider_compact_tokens:
        tokens = policy.micro.provider_compact_tokens
        asked = [{"type": "compaction", "compact_threshold": tokens}]
    elif understands(provider, context.model) and (asked := management(policy, context.tools)):
        edits = read_edits(asked)
        state.exclude_tools = [name for edit in edits for name in edit.exclude_tools]
        headers = betas(edits)
    # What the host itself gave goes before what the policy makes.
    if asked and "context_management" not in params:
        params["context_management"] = asked
        for beta in headers:
            extras.add_header("anthropic-beta", beta)
    return _report(context.view, state)


def rest(context: Context) -> Rest:
    """For ever where the provider is asked for nothing and has cleared nothing."""
    micro, cleared = context.policy.micro, context.state(ProviderClearing).cleared
    asks = micro.by_provider or micro.provider_compact_tokens
    return NOW if asks or cleared or context.view.cleared_elsewhere else NEVER


def management(policy: Policy, tools: Iterable[str]) -> dict[str, Any] | None:
    """What the policy asks of Anthropic's API; `None`: nothing. Of the tools that the host offers, those not to be cleared are excluded."""
    micro, edits = policy.micro, list[dict[str, Any]]()
    if micro.by_provider:
        if micro.provider_thinking != "default":
            turns = {"type": "thinking_turns", "value": micro.provider_thinking_turns}
            keep = "all" if micro.provider_thinking == "all" else turns
            edits.append({"type": CLEAR_THINKING, "keep": keep})
        never = (*NEVER_CLEARED, *micro.exclude_tools)
        cleared = {
            name for name in tools if matches(name, micro.tools) and not matches(name, never)
        }
        excluded = sorted({*tools}.difference(cleared))
        clear = {
            "type": CLEAR_TOOL_USES,
            "trigger": {"type": "input_tokens", "value": micro.provider_trigger_tokens},
            "keep": {"type": "tool_uses", "value": micro.keep_recent},
            "clear_at_least": {"type": "input_tokens", "value": micro.provider_clear_tokens},
            **({"exclude_tools": excluded} if excluded else {}),
            "clear_tool_inputs": micro.provider_clear_inputs,
        }
        edits.append(clear)
    if micro.provider_compact_tokens:
        trigger = {"type": "input_tokens", "value": micro.provider_compact_tokens}
        edits.append({"type": COMPACT, "trigger": trigger})
    return {"edits": edits} if edits else None


def comes_first(context: Context) -> bool:
    """Whether our own clearing waits for the provider's (MIC-8).

    It does on models with bound thinking, until an answer's own figure shows that the provider's clearing was not enough.
    """
    micro, model = context.policy.micro, context.model
    if not micro.by_provider or not understands(context.provider, model):
        return False
    if model is None or not model.bound_thinking:
        return False
    anchor = context.view.anchor()
    return anchor is None or anchor.usage < micro.provider_trigger_tokens


def observe(context: Context, response: Mapping[str, Any]) -> None:
    """Take in `context_management.applied_edits` of an answer; an answer without it says nothing.

    The provider clears the oldest tool uses first and says how many: these are no longer ours to clear, and what they
    took is not in the answer's usage any more.
    """
    message = response.get("message", response)
    managed = message.get("context_management") if isinstance(message, Mapping) else None
    applied = managed.get("applied_edits") if isinstance(managed, Mapping) else None
    if not isinstance(applied, list):
        return
    view, state = context.view, context.state(ProviderClearing)
    edits = [edit for edit in applied if isinstance(edit, Mapping)]
    state.tokens = sum(whole_count(edit.get("cleared_input_tokens")) for edit in edits)
    state.thinking_turns = sum(whole_count(edit.get("cleared_thinking_turns")) for edit in edits)
    clearings = [edit for edit in edits if edit.get("type") == CLEAR_TOOL_USES]
    uses = sum(whole_count(edit.get("cleared_tool_uses")) for edit in clearings)
    calls = (
        str(block.get("id"))
        for item in view.originals
        for block in blocks_of(item)
        if block.get("type") == "tool_use" and block.get("name") not in state.exclude_tools
    )
    state.cleared = list(islice(calls, uses))
    state.reported = min(state.reported, len(state.cleared))
    view.cleared_elsewhere = set(state.cleared)


def _report(view: View, state: ProviderClearing) -> StageReport | None:
    """What the newest answer showed to be cleared and no report has named; `None`: nothing."""
    view.cleared_elsewhere = set(state.cleared)
    new = set(state.cleared[state.reported :])
    if not new:
        return None
    state.reported = len(state.cleared)
    results = [result for result in view.results() if result.id in new]
    why = f"the provider left out {len(new)} tool uses; {state.tokens:,} tokens by its count"
    report = view.report_since(STAGE, why, view.ledger.tokens())
    left = max(0, report.tokens_after - sum(result.tokens for result in results))
    return replace(report, tokens_after=left, **names_of(results))


LEVEL = Level(STAGE, run, ProviderClearing, observe=observe, rest=rest)

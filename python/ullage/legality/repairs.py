"""`repair`: one call for every provider, and the loop that each provider's steps run in: check, repair, check again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Literal, NamedTuple, Protocol, Unpack, cast

from ullage.legality.check import Report, RuleRequest, found_in, valid
from ullage.legality.draft import Repair, Repaired, WorkingCopy
from ullage.legality.originals import Original
from ullage.legality.params import RequestParameters, parameters
from ullage.messages import Item, SystemPrompt, Tools, check_list
from ullage.providers.registry import AnyProvider, provider_of

# The loop of all repairs: check, let each step repair its rules, check again.


# Each round repairs what the one before revealed; more rounds would mean that repairs undo each other.
MAX_ROUNDS = 8


class RepairStep(NamedTuple):
    """One repair, and the rules whose violation calls for it."""

    rules: frozenset[str]
    act: Callable[[Any], None]


def steps(*rows: tuple[str, Callable[[Any], None]]) -> list[RepairStep]:
    """Steps in order; the rules of each are words in a string."""
    return [RepairStep(frozenset(rules.split()), act) for rules, act in rows]


def run_steps(
    messages: Sequence[Any],
    *,
    work: WorkingCopy,
    plan: Sequence[RepairStep],
    check: Callable[[Sequence[Any]], Report],
    report: Report,
) -> Repaired:
    """Runs steps until nothing they are for is left; keeps the best state, never a worse one.

    Args:
        messages: As given; handed back if no repair helps.
        work: A working copy of them.
        plan: The steps.
        check: The rules.
        report: What they say of the messages as given.
    """
    best, result, repairs = report, messages, 0
    for _ in range(MAX_ROUNDS):
        done = len(work.repairs)
        for step in plan:
            if report.rules & step.rules:
                step.act(work)
        items = work.build()
        report = check(items)
        if work.repairs and len(report.errors) <= len(best.errors):
            best, result, repairs = report, items, len(work.repairs)
        idle = len(work.repairs) == done
        if report.ok or idle or not any(report.rules & step.rules for step in plan):
            break
    return Repaired(result, tuple(work.repairs[:repairs]), best.errors)


# A request around its messages, and how to repair it.


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest(RuleRequest):
    """All of a request but its messages; see `ullage.legality.repairs.repair`."""

    orphans: str = "note"
    trailing: str = "note"
    thinking: str = "strip"
    drop_thinking: bool = False

    def report(self, messages: Sequence[Any]) -> Report:
        """All rules over these messages."""
        return found_in(messages, self)


class _Repairs(Protocol):
    """What the module has that a provider's row names as its `repair`."""

    def repair(self, messages: Sequence[Any], request: RepairRequest) -> Repaired:
        """The messages, legal as far as that can be had; the same list if it is legal."""


def repaired(messages: Sequence[Any], request: RepairRequest) -> Repaired:
    """What the repairs of the request's provider make of the messages."""
    repairs = cast("_Repairs", import_module(request.provider.repair))
    return repairs.repair(messages, request)


def repair(
    messages: Sequence[Item],
    *,
    provider: AnyProvider = "anthropic",
    model: str | None = None,
    system: SystemPrompt | None = None,
    tools: Tools | None = None,
    original: Original | None = None,
    platform: str = "anthropic",
    resume: str = "",
    facts: Mapping[str, Any] | None = None,
    orphans: Literal["note", "text", "drop"] = "note",
    trailing: Literal["note", "drop"] = "note",
    thinking_policy: Literal["strip", "drop_block"] = "strip",
    drop_thinking: bool = False,
    params: Mapping[str, Any] | None = None,
    **named: Unpack[RequestParameters],
) -> Repaired:
    """Makes a request legal for its provider; what is legal stays the same objects.

    The input is never changed, and repairing twice changes nothing more. Nothing that a user wrote
    is dropped. What cannot be repaired in the messages (too many tokens, a missing header) is left
    and named.

    Args:
        messages: In the provider's own form; items in envelopes are repaired in place.
        provider: One of `ullage.providers.PROVIDERS`, a usual name for it, or a row.
        model: Model name; `None`: the rules of the newest models.
        system: System prompt, where it is not a message; it is never changed.
        tools: Tool definitions; never changed.
        original: The conversation as the model saw it; see `validate`. On a model whose thinking is
            bound to its prefix, `None` means: the messages as given.
        platform: Where a Claude model runs; see `validate`.
        resume: `pause_turn` or `compaction` when this request resumes such a stop.
        facts: Single facts that override what follows from the other arguments; see `validate`.
        orphans: Results whose calls are missing become one line (`note`), keep their text (`text`), or
            go (`drop`).
        trailing: An assistant message at the end gets a line after it that nobody has replied
            (`note`), or goes (`drop`).
        thinking_policy: Thinking bound to another prefix is removed (`strip`), or the server is asked
            to do so (`drop_block`, by `Repaired.params`).
        drop_thinking: All thinking goes, valid or not (Anthropic's form): for the one retry after
            `classify` called an error `binding`, and every request of that history afterwards.
        params: Further parameters of the request, as they are; `None`: none.
        **named: The request's other parameters by name, such as `max_tokens` or `thinking`.

    Returns:
        The messages, what was repaired, and what is left.

    Raises:
        InvalidPolicy: An unknown provider or fact.

    Example:
        >>> call = {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}
        >>> done = repair([{"role": "user", "content": "hi"}, {"role": "assistant", "content": [call]}])
        >>> done.repairs[0].action
        'answered an interrupted tool call'
    """
    check_list(messages)
    request = RepairRequest(
        provider=provider_of(provider),
        model=model,
        system=system,
        tools=tools,
        original=original,
        platform=platform,
        resume=resume,
        facts=facts or {},
        params=parameters(repair, params, named),
        orphans=orphans,
        trailing=trailing,
        thinking=thinking_policy,
        drop_thinking=drop_thinking,
    )
    done = repaired(messages, request)
    if not any(violation.rule == "T01" and violation.message >= 0 for violation in done.left):
        return done
    written, repairs = _writable(messages)
    again = repaired(written, request)
    return replace(again, repairs=(*repairs, *again.repairs))


def _writable(messages: Sequence[Any]) -> tuple[list[Any], list[Repair]]:
    """The messages without what UTF-8 cannot hold (T01)."""
    written = [valid(item) for item in messages]
    changed = (at for at, item in enumerate(messages) if written[at] is not item)
    return written, [Repair("T01", at, -1, "put U+FFFD for lone surrogates") for at in changed]

"""Anthropic's Messages API: the rules A01 to A32."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ullage._engine import core
from ullage._engine.digests import Violation
from ullage.legality.blocks import (
    no_messages,
    repair_blocks,
    repair_items,
    repair_last_word,
    repair_markers,
    repair_media,
    repair_system,
    split_results,
)
from ullage.legality.check import RuleRequest, check_unicode, read_ledger
from ullage.legality.draft import Draft, Repaired
from ullage.legality.originals import Originals, check_originals, json_of
from ullage.legality.pairs import (
    repair_citations,
    repair_compaction,
    repair_fallback,
    repair_pairs,
    repair_server_tools,
    repair_tool_changes,
)
from ullage.legality.params import (
    STRICT_VERSION,
    RequestFacts,
    check_pages,
    check_params,
    check_wire,
    facts_for,
)
from ullage.legality.repairs import Plan, run_steps
from ullage.legality.thinking import (
    binding_params,
    close_turn,
    drop_thinking,
    repair_binding,
    restore_turn,
)


def facts_of(request: RuleRequest) -> RequestFacts:
    """What the rules know of a request."""
    return facts_for(
        model=request.model,
        system=request.system,
        tools=request.tools,
        platform=request.platform,
        resume=request.resume,
        params=request.params,
        facts=request.facts,
    )


def check(messages: Sequence[Any], request: RuleRequest) -> Iterator[Violation]:
    """Checks messages of the Messages API, bare or in envelopes."""
    facts = facts_of(request)
    system, tools, params = request.system, request.tools, request.params
    size = len(json_of({"messages": messages, "system": system, "tools": tools, **params}))
    ledger, unreadable = read_ledger(messages, "A01")
    yield from unreadable
    yield from core.check(ledger, request.provider.rules, {"body_bytes": size, **facts.core})
    yield from check_params(params, facts)
    yield from check_pages(messages, ledger.media_indices(), facts.core.get("page_limit", 0))
    if request.original is not None:
        yield from check_originals(
            messages,
            Originals.read(request.original, system=system, tools=tools),
            system=system,
            tools=tools,
            bound=facts.bound and not facts.drop_block,
        )
    if request.wire:
        yield from check_wire(messages)
    if not size:  # something in it cannot be written
        yield from check_unicode(messages, system=system, tools=tools)


def repair(messages: Sequence[Any], request: RuleRequest) -> Repaired:
    """Repairs messages; see `ullage.legality.repairs.repair`."""
    if request.drop_thinking:
        draft = Draft(messages)
        drop_thinking(draft)
        spoken = draft.build() if draft.repairs else messages
        done = repair(spoken, replace(request, drop_thinking=False, original=None))
        return replace(done, repairs=(*draft.repairs, *done.repairs))
    first = request.report(messages)
    if first.ok:
        return Repaired(messages)
    added: Mapping[str, Any] = {}
    if request.thinking_policy == "drop_block" and first.rules & {"A15", "A16"}:
        added = binding_params(request.params)
        request = replace(request, params={**request.params, **added})
        first = request.report(messages)
    facts, system, tools = facts_of(request), request.system, request.tools
    if request.original is not None:
        originals = Originals.read(request.original, system=system, tools=tools)
        request = replace(request, original=originals)
    elif facts.bound and not facts.drop_block:
        # The messages as given are what thinking is bound to, if nothing else is said.
        originals = Originals.of(messages, system=system, tools=tools)
        request = replace(request, original=originals)
    done = run_steps(messages, request, Draft, _plan(request), first)
    return Repaired(done.messages, done.repairs, done.left, added)


def _plan(request: RuleRequest) -> Plan:
    facts = facts_of(request).core
    strict = int(facts.get("version", STRICT_VERSION)) >= STRICT_VERSION
    originals = request.original if isinstance(request.original, Originals) else None
    sealed = None if originals is None else originals.compactions
    one_only, prefill_ok = bool(facts.get("compact_beta")), bool(facts.get("prefill_ok"))
    mid_system_ok, tools = bool(facts.get("mid_system_ok", True)), facts.get("tools")
    markers, auto_cache = tuple(facts.get("markers", ())), str(facts.get("auto_cache", ""))
    rows: list[tuple[str, Callable[[Draft], None]]] = [
        ("A01", repair_items),
        (
            "A01 A02 A03 A04 A08 A13 A19 A20 A32",
            lambda d: repair_blocks(d, strict_version=strict),
        ),
        ("A03", split_results),
        ("A27", repair_citations),
        ("A31", lambda d: repair_tool_changes(d, tools=tools)),
        ("A25", lambda d: repair_compaction(d, originals=sealed, one_only=one_only)),
        ("A28", repair_fallback),
        ("A08 A09 A10", lambda d: repair_server_tools(d, tools=tools, resume=request.resume)),
        ("A12", lambda d: repair_system(d, mid_system_ok=mid_system_ok)),
        ("A05 A06 A07 A08", lambda d: repair_pairs(d, orphans=request.orphans)),
        ("A21 A22", lambda d: repair_media(d, facts=facts)),
        (
            "A11",
            lambda d: repair_last_word(d, prefill_ok=prefill_ok, policy=request.trailing),
        ),
        ("A01 A02", no_messages),
        ("A17 A18 A19", lambda d: repair_markers(d, markers=markers, auto_cache=auto_cache)),
        ("A13 A14", _turn(request, originals)),
    ]
    if originals is not None:
        system, tools_now = request.system, request.tools
        rows.append(
            ("A15 A16", lambda d: repair_binding(d, originals, system=system, tools=tools_now))
        )
    return rows


def _turn(request: RuleRequest, originals: Originals | None) -> Callable[[Draft], None]:
    """The step for the open turn: its thinking is put back once; if that was no help, the turn ends without it."""
    tried = originals is None

    def turn(draft: Draft) -> None:
        nonlocal tried
        if not request.report(draft.build()).rules & {"A13", "A14"}:
            return  # an earlier step has repaired it
        first, tried = not tried, True
        if not (first and originals is not None and restore_turn(draft, originals)):
            close_turn(draft)

    return turn

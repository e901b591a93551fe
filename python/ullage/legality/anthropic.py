"""Anthropic's Messages API: the rules A01 to A32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ullage._engine import core
from ullage.legality.capabilities import RequestFacts, facts_for, json_bytes
from ullage.legality.documents import check_pages
from ullage.legality.findings import Violation
from ullage.legality.ledgers import read_ledger
from ullage.legality.originals import Originals, check_originals
from ullage.legality.params import check_params, check_wire
from ullage.legality.rule_request import RuleRequest
from ullage.legality.unicode import check_unicode

__all__ = ["check", "facts_of"]


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
    known = facts_of(request)
    system, tools, params = request.system, request.tools, request.params
    size = json_bytes({"messages": messages, "system": system, "tools": tools, **params})
    skip = (*known.core.get("skip", ()), *request.skip)
    ledger, unreadable = read_ledger(messages, "A01")
    yield from unreadable
    yield from core.check(
        ledger, request.provider.rules, {"body_bytes": size, **known.core, "skip": skip}
    )
    yield from check_params(params, known)
    yield from check_pages(messages, ledger.media_indices(), known.core.get("page_limit", 0))
    yield from _compare(messages, request, known)
    if request.wire:
        yield from check_wire(messages)
    if not size:  # something in it cannot be written
        yield from check_unicode(messages, system=system, tools=tools)


def _compare(
    messages: Sequence[Any], request: RuleRequest, known: RequestFacts
) -> Iterator[Violation]:
    if request.original is None:
        return
    yield from check_originals(
        messages,
        Originals.read(request.original, system=request.system, tools=request.tools),
        system=request.system,
        tools=request.tools,
        bound=known.bound and not known.drop_block,
    )

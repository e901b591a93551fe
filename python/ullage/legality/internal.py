"""What holds for every provider, over the internal view of a form: the rules of a form that has none of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ullage._engine import core
from ullage.legality.anthropic import facts_of
from ullage.legality.catalogue import rules
from ullage.legality.findings import Violation
from ullage.legality.ledgers import read_ledger
from ullage.legality.rule_request import RuleRequest
from ullage.legality.unicode import check_unicode
from ullage.providers.native_lists import FormList, read_form
from ullage.providers.registry import provider_of

__all__ = ["check", "inner", "readable", "shared"]

RULES: Final = ("A01", "A02", "A05", "A06", "T01")
"""Messages there are and can be read, none is empty, calls and results pair, text is Unicode."""

_PLAIN: Final = ("text", "tool_use", "tool_result")


def check(items: Sequence[Any], request: RuleRequest) -> Iterator[Violation]:
    """Checks items of any form; findings name the item that a message came from."""
    form, unread = readable(items, request)
    for at in unread:
        yield Violation("A01", "error", at, -1, "cannot be read as an item of the form")
    within = inner(request)
    ledger, unreadable = read_ledger(form.messages, "A01")
    facts = {**facts_of(within).core, "skip": within.facts["skip"]}
    for found in (*unreadable, *core.check(ledger, within.provider.rules, facts)):
        at = form.owner(found.message) if found.message >= 0 else -1
        yield found._replace(message=at, block=-1)
    yield from check_unicode(items, system=request.system, tools=request.tools)


def shared(messages: Sequence[Any], items: Sequence[Any]) -> Iterator[str]:
    """As that of the chat form: blocks of which nobody says what the form does with them are judged with the rest."""
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, Mapping) or block.get("type") not in _PLAIN:
                yield ""


def readable(items: Sequence[Any], request: RuleRequest) -> tuple[FormList, list[int]]:
    """The items in the internal view, and the indices of those that cannot be read."""
    unread: list[int] = []
    form = read_form(items, request.provider, unread=unread)
    if form is None:  # the engine reads the form as it is
        form = FormList(request.provider, items, list(items), list(range(len(items))))
    return form, unread


def inner(request: RuleRequest) -> RuleRequest:
    """The request as the internal view is asked about: only `RULES` count."""
    skip = tuple(rule for rule in rules() if rule not in RULES)
    return replace(
        request,
        provider=provider_of("anthropic"),
        model=None,
        system=None,
        tools=None,
        original=None,
        params={},
        facts={"skip": skip},
    )

"""A request around its messages, as the rules ask about it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, cast

from ullage.legality.findings import Report, Violation
from ullage.providers.registry import Provider

__all__ = ["RuleRequest", "found_in"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRequest:
    """All of a request but its messages; see `ullage.legality.validate`."""

    provider: Provider
    model: str | None = None
    system: Any = None
    tools: Sequence[Any] | None = None
    original: Any = None
    platform: str = "anthropic"
    resume: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    wire: bool = False
    skip: Collection[str] = ()


class _Rules(Protocol):
    """What the module has that a provider's row names as its `check`."""

    def check(self, messages: Sequence[Any], request: RuleRequest) -> Iterable[Violation]:
        """What the provider would refuse."""


def found_in(messages: Sequence[Any], request: RuleRequest) -> Report:
    """What the rules of the request's provider find."""
    rules = cast("_Rules", import_module(request.provider.check))
    skip = {*request.facts.get("skip", ()), *request.skip}
    found = {each for each in rules.check(messages, request) if each.rule not in skip}
    return Report(
        request.provider.name,
        tuple(sorted(found, key=lambda v: (v.message, v.block, v.rule, v.detail))),
    )

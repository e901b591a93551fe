"""`validate`: one call that applies every rule of a provider."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, Unpack

import orjson

from ullage._engine import core
from ullage._engine.digests import Violation
from ullage._start import Frozen, loaded, table
from ullage.exceptions import InvalidMessage
from ullage.legality.draft import error_at
from ullage.legality.params import RULE_OPTIONS, RuleOptions, request_of
from ullage.messages import Item, SystemPrompt, Tools, check_list, message_of, same_items
from ullage.providers.registry import Provider


class Rule(NamedTuple):
    """One rule of the catalogue."""

    id: str
    demand: str
    advice: str
    source: str


@cache
def rules() -> Mapping[str, Rule]:
    """All rules by id, read when first asked for."""
    rows = table(__file__, "rules.toml").items()
    return MappingProxyType({name: Rule(name, **row) for name, row in rows})


class Report(Frozen):
    """All that was found, sorted by place.

    Attributes:
        provider: Whose rules were checked.
        violations: Errors (the provider would refuse) and warnings.
    """

    provider: str
    violations: tuple[Violation, ...] = ()

    @cached_property
    def errors(self) -> tuple[Violation, ...]:
        """What the provider would refuse."""
        return tuple(violation for violation in self.violations if violation.severity == "error")

    @cached_property
    def warnings(self) -> tuple[Violation, ...]:
        """What some platform or model refuses, or what costs."""
        return tuple(violation for violation in self.violations if violation.severity != "error")

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    @cached_property
    def rules(self) -> frozenset[str]:
        """Ids of the rules with errors."""
        return frozenset(violation.rule for violation in self.errors)

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return f"Report({self.provider}, errors={len(self.errors)}, warnings={len(self.warnings)})"

    def __str__(self) -> str:
        if not self.violations:
            return f"{self.provider}: legal"
        return "\n".join(describe(violation) for violation in self.violations)


def describe(violation: Violation) -> str:
    """One finding as a line: rule, place, what is wrong, what to do, source."""
    rule = rules().get(violation.rule)
    place = "request" if violation.message < 0 else f"message {violation.message}"
    place += "" if violation.block < 0 else f", block {violation.block}"
    line = f"{violation.rule} {violation.severity}, {place}: {violation.detail}"
    return line if rule is None else f"{line} -> {rule.advice} [{rule.source}]"


def read_ledger(messages: Iterable[Any], rule: str) -> tuple[Any, list[Violation]]:
    """A ledger of what may be no conversation, and findings under `rule`: items that cannot be read at all, which are left out."""
    items = messages if isinstance(messages, list) else list(messages)
    try:
        return core.Ledger(None, items), []
    except InvalidMessage:
        ledger, unreadable = core.Ledger(None), []
    for index, item in enumerate(items):
        try:
            ledger.append(item)
        except InvalidMessage as exc:
            field = f"{exc.field}: " if exc.field else ""
            unreadable.append(error_at(rule, index, -1, f"{field}{exc.reason}"))
            ledger.append({"type": "unreadable"})
    return ledger, unreadable


class RuleRequest(Frozen, kw_only=True):
    """All of a request but its messages; see `ullage.legality.validate` and `RepairOptions`."""

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
    orphans: str = "note"
    trailing: str = "note"
    thinking_policy: str = "strip"
    drop_thinking: bool = False

    @property
    def items_before(self) -> Sequence[Any]:
        """The conversation as the model saw it, given as a list or as a request; empty if it is unknown."""
        original = self.original
        if isinstance(original, Mapping):
            original = original.get(self.provider.list_key)
        return original if isinstance(original, list | tuple) else ()

    def report(self, messages: Sequence[Any]) -> Report:
        """What the rules of the provider find in these messages."""
        rules, skip = loaded(self.provider.check), {*self.facts.get("skip", ()), *self.skip}
        violations: set[Violation] = {
            violation for violation in rules.check(messages, self) if violation.rule not in skip
        }
        if not violations:  # most of what is sent
            return Report(self.provider.name, ())
        return Report(
            self.provider.name,
            tuple(sorted(violations, key=lambda v: (v.message, v.block, v.rule, v.detail))),
        )


def validate(
    messages: Sequence[Item],
    *,
    resume: str = "",
    wire: bool = False,
    skip: Collection[str] = (),
    **options: Unpack[RuleOptions],
) -> Report:
    """Checks a request against the rules of its provider; the request is not changed.

    Args:
        messages: In the provider's own form; items in envelopes are read too.
        resume: `pause_turn` or `compaction` when this request resumes such a stop.
        wire: The messages are sent as they are: keys of responses (`id`, `usage`), which a sender
            leaves out, are errors.
        skip: Rule ids that are not checked.
        **options: See `ullage.legality.RuleOptions`: `provider`, `model`, `system`, `tools` and more, and the request's
            other parameters by name.

    Returns:
        A report that is true if nothing would be refused.

    Raises:
        InvalidPolicy: An unknown provider or fact, or a name that is no parameter.

    Example:
        >>> report = validate([{"role": "assistant", "content": "hello"}])
        >>> [violation.rule for violation in report.errors]
        ['A11']
    """
    check_list(messages)
    around = request_of(validate, options, RULE_OPTIONS)
    return RuleRequest(resume=resume, wire=wire, skip=skip, **around).report(messages)


# T01: every string is valid Unicode. A lone surrogate cannot be written as UTF-8: an SDK raises before it sends.


# Deeper values are refused by rules of their own.
MAX_DEPTH = 300
# JSON can hold it as an escape, UTF-8 cannot: official SDKs fail before they send ("surrogates not allowed").
DETAIL = "a string has a lone surrogate, which UTF-8 cannot hold"


def check_unicode(
    messages: Sequence[Any], *, system: SystemPrompt | None = None, tools: Tools | None = None
) -> Iterator[Violation]:
    """Where strings stand that cannot be sent; of an envelope only its message counts."""
    try:
        options = orjson.OPT_NON_STR_KEYS
        orjson.dumps([messages, system, tools], default=_plain, option=options)
        return
    except TypeError:
        pass
    for name, value in (("system", system), ("tools", tools)):
        if not is_valid(value):
            yield error_at("T01", -1, -1, f"{name}: {DETAIL}")
    for index, item in enumerate(messages):
        message = message_of(item) or item
        if not isinstance(message, Mapping):
            message = {"": message}
        other_fields = True
        for key, value in message.items():
            if key in ("content", "parts") and isinstance(value, list | tuple):
                places = (at for at, block in enumerate(value) if not is_valid(block))
                yield from (error_at("T01", index, at, DETAIL) for at in places)
            else:
                other_fields = other_fields and is_valid(key) and is_valid(value)
        if not other_fields:
            yield error_at("T01", index, -1, DETAIL)


def is_valid(value: Any) -> bool:
    """Whether no string in a value, keys included, has a lone surrogate."""
    return valid(value) is value


def valid(value: Any, depth: int = 0) -> Any:
    """The value with U+FFFD for each lone surrogate; the same object if it has none."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            # Two halves that stand side by side are one character.
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    elif depth <= MAX_DEPTH and isinstance(value, Mapping):
        keys = [valid(key, depth + 1) for key in value]
        items = [valid(item, depth + 1) for item in value.values()]
        if not same_items(keys, list(value)) or not same_items(items, list(value.values())):
            return dict(zip(keys, items, strict=True))
    elif depth <= MAX_DEPTH and isinstance(value, list | tuple):
        items = [valid(item, depth + 1) for item in value]
        return value if same_items(items, value) else items
    return value


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else repr(value)

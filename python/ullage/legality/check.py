"""`validate`: one call that applies every rule of a provider."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

from ullage._engine import core
from ullage.exceptions import InvalidMessage, InvalidPolicy
from ullage.legality.bedrock import check_bedrock
from ullage.legality.capabilities import RequestFacts, facts_for, json_bytes
from ullage.legality.chat import chat_facts, check_chat
from ullage.legality.documents import check_pages
from ullage.legality.gemini import check_gemini
from ullage.legality.originals import Originals, check_originals
from ullage.legality.parameters import RequestParameters, parameters
from ullage.legality.params import check_params, check_wire
from ullage.legality.report import Report, Violation
from ullage.legality.responses import check_responses
from ullage.legality.unicode import check_unicode

__all__ = ["PROVIDERS", "canonical", "validate"]

PROVIDERS = (
    "anthropic",
    "openai_chat",
    "openai_responses",
    "gemini",
    "bedrock",
    "mistral",
    "deepseek",
    "local",
)
_ALIASES = {
    "claude": "anthropic",
    "openai": "openai_chat",
    "azure": "openai_chat",
    "chat": "openai_chat",
    "responses": "openai_responses",
    "google": "gemini",
    "converse": "bedrock",
    "ollama": "local",
    "vllm": "local",
    "llama.cpp": "local",
}
_OVER_DICTS: Mapping[str, Callable[..., Iterable[Violation]]] = {
    "openai_responses": check_responses,
    "gemini": check_gemini,
    "bedrock": check_bedrock,
}


def canonical(provider: str) -> str:
    """The provider's name in `PROVIDERS`.

    Raises:
        InvalidPolicy: Nobody of that name is known.
    """
    name = _ALIASES.get(provider, provider)
    if name not in PROVIDERS:
        raise InvalidPolicy("provider", provider, f"must be one of {', '.join(PROVIDERS)}")
    return name


def validate(
    messages: Sequence[Any],
    *,
    provider: str = "anthropic",
    model: str | None = None,
    system: Any = None,
    tools: Sequence[Any] | None = None,
    original: Sequence[Any] | Mapping[str, Any] | Originals | None = None,
    platform: str = "anthropic",
    resume: str = "",
    facts: Mapping[str, Any] | None = None,
    wire: bool = False,
    skip: Collection[str] = (),
    params: Mapping[str, Any] | None = None,
    **named: Unpack[RequestParameters],
) -> Report:
    """Checks a request against the rules of its provider; the request is not changed.

    Args:
        messages: In the provider's own form; items in envelopes are read too.
        provider: One of `PROVIDERS`, or a usual name for it.
        model: Model name; `None`: the rules of the newest models, and no window.
        system: System prompt, where it is not a message.
        tools: Tool definitions; `None`: unknown.
        original: The conversation as the model saw it: messages, or a request with `messages`,
            `system` and `tools`, or `Originals`. Without it thinking is not compared with anything.
        platform: Where a Claude model runs: `anthropic`, `bedrock` (its Messages form), `vertex`.
        resume: `pause_turn` or `compaction` when this request resumes such a stop.
        facts: Single facts that override what follows from the other arguments; for Claude models
            also `bound_thinking`.
        wire: The messages are sent as they are: keys of responses (`id`, `usage`), which a sender
            leaves out, are errors.
        skip: Rule ids that are not checked.
        params: Further parameters of the request, as they are; `None`: none.
        **named: The request's other parameters by name, such as `max_tokens` or `thinking`.

    Returns:
        A report that is true if nothing would be refused.

    Raises:
        InvalidPolicy: An unknown provider or fact, or a name that is no parameter.

    Example:
        >>> report = validate([{"role": "assistant", "content": "hello"}])
        >>> [found.rule for found in report.errors]
        ['A11']
    """
    name, params = canonical(provider), parameters(validate, params, named)
    if name in _OVER_DICTS:
        found = _OVER_DICTS[name](
            messages, model=model, system=system, tools=tools, original=original, params=params
        )
        unsendable = check_unicode(messages, system=system, tools=tools)
        return _report(name, (*found, *unsendable), skip)
    if name == "anthropic":
        known = facts_for(
            model=model,
            system=system,
            tools=tools,
            platform=platform,
            resume=resume,
            params=params,
            facts=facts,
        )
        body = {"messages": messages, "system": system, "tools": tools, **params}
        skip = (*known.core.get("skip", ()), *skip)
        size = json_bytes(body)
        flat = {"body_bytes": size, **known.core, "skip": skip}
        ledger, violations = _read(name, messages)
        violations += core.check(ledger, name, flat)
        violations += check_params(params, known)
        violations += check_pages(messages, ledger.media_indices(), flat.get("page_limit", 0))
        violations += _compare(messages, original, system, tools, known)
        violations += check_wire(messages) if wire else ()
        if not size:  # something in it cannot be written
            violations += check_unicode(messages, system=system, tools=tools)
        return _report(name, violations, skip)
    known = chat_facts(name, model=model, tools=tools, params=params)
    skip = (*(facts or {}).get("skip", ()), *skip)
    flat = {**known.core, **(facts or {}), "skip": skip}
    ledger, unreadable = _read(name, messages)
    found = [*unreadable, *core.check(ledger, name, flat), *check_chat(messages)]
    found += check_unicode(messages, system=system, tools=tools)
    return _report(name, found, skip)


def _report(provider: str, found: Iterable[Violation], skip: Collection[str]) -> Report:
    kept = {violation for violation in found if violation.rule not in skip}
    return Report(
        provider, tuple(sorted(kept, key=lambda v: (v.message, v.block, v.rule, v.detail)))
    )


def _read(provider: str, messages: Iterable[Any]) -> tuple[Any, list[Violation]]:
    """A ledger of the messages, and findings: an item that cannot be read at all is one, and is left out."""
    items = messages if isinstance(messages, list) else list(messages)
    try:
        return core.Ledger(None, items), []
    except InvalidMessage:
        ledger = core.Ledger(None)
    rule = "A01" if provider == "anthropic" else "O06"
    appended = (_appended(ledger, index, item, rule) for index, item in enumerate(items))
    return ledger, [found for each in appended for found in each]


def _appended(ledger: Any, index: int, item: Any, rule: str) -> Iterator[Violation]:
    try:
        ledger.append(item)
    except InvalidMessage as exc:
        field = f"{exc.field}: " if exc.field else ""
        yield Violation(rule, "error", index, -1, f"{field}{exc.reason}")
        ledger.append({"type": "unreadable"})


def _compare(
    messages: Sequence[Any], original: Any, system: Any, tools: Any, known: RequestFacts
) -> Iterator[Violation]:
    if original is None:
        return
    bound = known.bound and not known.drop_block
    yield from check_originals(
        messages,
        Originals.read(original, system=system, tools=tools),
        system=system,
        tools=tools,
        bound=bound,
    )

"""`validate`: one call that applies every rule of a provider."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Unpack

from ullage.legality.findings import Report
from ullage.legality.originals import Original
from ullage.legality.parameters import RequestParameters, parameters
from ullage.legality.rule_request import RuleRequest, found_in
from ullage.messages import Item, SystemPrompt, Tools
from ullage.providers.registry import AnyProvider, provider_of

__all__ = ["validate"]


def validate(
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
    wire: bool = False,
    skip: Collection[str] = (),
    params: Mapping[str, Any] | None = None,
    **named: Unpack[RequestParameters],
) -> Report:
    """Checks a request against the rules of its provider; the request is not changed.

    Args:
        messages: In the provider's own form; items in envelopes are read too.
        provider: One of `ullage.providers.PROVIDERS`, a usual name for it, or a row; see `ullage.providers.registry`.
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
    request = RuleRequest(
        provider=provider_of(provider),
        model=model,
        system=system,
        tools=tools,
        original=original,
        platform=platform,
        resume=resume,
        facts=facts or {},
        params=parameters(validate, params, named),
        wire=wire,
        skip=skip,
    )
    return found_in(messages, request)

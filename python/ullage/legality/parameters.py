"""Parameters of a request other than its messages, by name: no rule would check a misspelled one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from ullage.exceptions import InvalidPolicy
from ullage.policy.arguments import nearest

__all__ = ["RequestParameters", "parameters"]


class _Anthropic(TypedDict, total=False):
    anthropic_beta: object
    anthropic_version: object
    betas: object
    billing_policy: object
    cache_control: object
    cache_edits: object
    cache_reference: object
    compaction: object
    container: object
    context_management: object
    diagnostics: object
    fallback_credit_token: object
    fallbacks: object
    inference_geo: object
    max_tokens: object
    mcp_servers: object
    output_config: object
    output_format: object
    speed: object
    stop_sequences: object
    thinking: object
    thread: object
    top_k: object
    user_profile_id: object
    workspace_id: object


class _OpenAI(TypedDict, total=False):
    audio: object
    background: object
    background_options: object
    conversation: object
    frequency_penalty: object
    function_call: object
    functions: object
    include: object
    instructions: object
    logit_bias: object
    logprobs: object
    max_completion_tokens: object
    max_output_tokens: object
    max_tool_calls: object
    modalities: object
    moderation: object
    n: object
    parallel_tool_calls: object
    prediction: object
    presence_penalty: object
    previous_response_id: object
    prompt: object
    prompt_cache_key: object
    prompt_cache_options: object
    prompt_cache_retention: object
    reasoning: object
    reasoning_effort: object
    response_format: object
    safety_identifier: object
    seed: object
    stop: object
    store: object
    stream_options: object
    text: object
    top_logprobs: object
    truncation: object
    user: object
    verbosity: object
    web_search_options: object


class _Others(TypedDict, total=False):
    additionalModelRequestFields: object
    additionalModelResponseFieldPaths: object
    cachedContent: object
    generationConfig: object
    guardrailConfig: object
    inferenceConfig: object
    labels: object
    options: object
    performanceConfig: object
    prefix: object
    promptVariables: object
    prompt_mode: object
    random_seed: object
    requestMetadata: object
    safe_prompt: object
    safetySettings: object
    toolConfig: object


class RequestParameters(_Anthropic, _OpenAI, _Others, total=False):
    """What requests of the known APIs hold in addition to messages, system prompt, tools and model.

    The type of a value is the provider's affair; rules read those that they know. What an API has learned since can be
    given as `params={...}`, where no name is checked.
    """

    extra_body: object
    extra_headers: object
    extra_query: object
    metadata: object
    service_tier: object
    stream: object
    temperature: object
    timeout: object
    tool_choice: object
    top_p: object


def parameters(
    function: Callable[..., object], params: Mapping[str, Any] | None, named: Mapping[str, Any]
) -> dict[str, Any]:
    """The request's parameters, those by name checked.

    Args:
        function: Who was called: its own arguments are known names too.
        params: As they are.
        named: Given by name.

    Raises:
        InvalidPolicy: A name that no API has; hints at the nearest.
    """
    known = RequestParameters.__optional_keys__
    for name in named:
        if name not in known:
            own = [key for key in inspect.signature(function).parameters if key != "self"]
            hint = (
                nearest(name, [*own, *known]) or "a new parameter of an API goes into params={...}"
            )
            raise InvalidPolicy(
                name,
                named[name],
                "is neither an argument nor a known parameter of a request",
                hint=hint,
            )
    return {**(params or {}), **named}

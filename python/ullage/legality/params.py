"""Rules on request parameters other than messages (A15's header, A26)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypedDict

from ullage._engine import core
from ullage._engine.digests import Violation
from ullage._start import NamedTuple, orjson, pattern
from ullage.counting.models import Model, ModelTable
from ullage.exceptions import InvalidMessage, InvalidPolicy
from ullage.legality.draft import error_at, list_in
from ullage.legality.originals import Original, blocks_of
from ullage.messages import SystemPrompt, Tools, whole_count
from ullage.policy import nearest
from ullage.providers.registry import AnyProvider, provider_of

# Parameters of a request other than its messages, by name: no rule would check a misspelled one.


class RequestParameters(TypedDict, total=False):
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
    # Anthropic's
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
    # OpenAI's
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
    # Bedrock's, Gemini's, Mistral's, Ollama's
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


class RuleOptions(RequestParameters, total=False):
    """A request around its messages, as the rules ask about it; its other parameters by name, such as `max_tokens` or `thinking`.

    Attributes:
        provider: One of `ullage.providers.PROVIDERS`, a usual name for it, or a row; see `ullage.providers.registry`. The default
            is `anthropic`.
        model: Model name; `None`: the rules of the newest models, and no window.
        system: System prompt, where it is not a message; never changed.
        tools: Tool definitions, never changed; `None`: unknown.
        original: The conversation as the model saw it: messages, or a request with `messages`, `system` and `tools`, or
            `Originals`. `None`: thinking is compared with nothing; of a repair on a model whose thinking is bound to its
            prefix: the messages as given.
        platform: Where a Claude model runs: `anthropic`, `bedrock` (its Messages form), `vertex`.
        facts: Single facts that override what follows from the other options; for Claude models also `bound_thinking`.
        params: Further parameters of the request, as they are; `None`: none.
    """

    provider: AnyProvider
    model: str | None
    system: SystemPrompt | None
    tools: Tools | None
    original: Original | None
    platform: str
    facts: Mapping[str, Any] | None
    params: Mapping[str, Any] | None


class RepairOptions(RuleOptions, total=False):
    """A request around its messages, and how it is repaired.

    Attributes:
        orphans: Results whose calls are missing become one line (`note`, the default), keep their text (`text`), or go (`drop`).
        trailing: An assistant message at the end gets a line after it that nobody has replied (`note`, the default), or goes
            (`drop`).
        thinking_policy: Thinking bound to another prefix is removed (`strip`, the default), or the server is asked to do so
            (`drop_block`, by `Repaired.params`).
    """

    orphans: Literal["note", "text", "drop"]
    trailing: Literal["note", "drop"]
    thinking_policy: Literal["strip", "drop_block"]


_PARAMETERS = RequestParameters.__optional_keys__
RULE_OPTIONS = RuleOptions.__optional_keys__ - _PARAMETERS
REPAIR_OPTIONS = RepairOptions.__optional_keys__ - _PARAMETERS


def request_of(
    function: Callable[..., object], options: Mapping[str, Any], own: Collection[str]
) -> dict[str, Any]:
    """Options of a function, `own` their names, as a request of the rules has them: the provider's row, facts, all parameters in one.

    Raises:
        InvalidPolicy: An unknown provider, or a name that is neither an option nor a parameter.
    """
    request = {name: value for name, value in options.items() if name in own}
    named = {name: value for name, value in options.items() if name not in own}
    request["params"] = parameters(function, request.get("params"), named, own)
    request["provider"] = provider_of(request.get("provider", "anthropic"))
    request["facts"] = request.get("facts") or {}
    return request


def parameters(
    function: Callable[..., object],
    params: Mapping[str, Any] | None,
    named: Mapping[str, Any],
    options: Iterable[str] = (),
) -> dict[str, Any]:
    """The request's parameters: `params` as they are, `named` checked.

    Raises:
        InvalidPolicy: A name that no API has; hints at the nearest, arguments of the function and `options` included.
    """
    for name in named:
        if name not in _PARAMETERS:
            own = [*options, *inspect.signature(function).parameters]
            hint = nearest(name, [*own, *_PARAMETERS])
            hint = hint or "a new parameter of an API goes into params={...}"
            limit = "is neither an argument nor a known parameter of a request"
            raise InvalidPolicy(name, named[name], limit, hint=hint)
    return {**(params or {}), **named}


# Facts for the verifier, from the arguments of a request.
BINDING_HEADER = "thinking-binding-controls-2026-08-01"
COMPACT_HEADER = "compact-2026-09-04"
_TOOL_CHANGE_HEADERS = ("mid-conversation-tool-changes-2026-07-01", "inline-tools-2026-09-15")
_SAMPLING = ("temperature", "top_p", "top_k")
_OLD_VERSION = 2023_06_01
STRICT_VERSION = 2026_10_21
"""The version of Anthropic's API from which on A20 holds; what a request is judged by that names none."""
MAX_MARKERS = 4
"""Cache markers that a request may hold (A17)."""


# Where a Claude model runs: smaller images, PDFs counted by number.
_CLOUDS = ("bedrock", "vertex", "google")
# Roles alternate, tools are required, the answer counts into the window, old versions.
_STRICT = ("bedrock",)
# Rough size of what is not in the messages, as everywhere before a model is calibrated.
_CHARS_PER_TOKEN = 4


class RequestFacts(NamedTuple):
    """What the rules know of a request besides its messages.

    Attributes:
        core: Flat facts for the engine.
        bound: Thinking is bound to its prefix, and a mismatch is refused.
        drop_block: The request asks the server to drop mismatched thinking, with the header.
        betas: Beta headers that are sent; `None`: unknown.
    """

    core: Mapping[str, Any]
    bound: bool
    drop_block: bool
    betas: frozenset[str] | None


def _betas(params: Mapping[str, Any]) -> frozenset[str] | None:
    listed = params.get("betas")
    headers = params.get("extra_headers")
    sent = headers.get("anthropic-beta") if isinstance(headers, Mapping) else None
    if listed is None and sent is None:
        return None
    names = [*(listed or ()), *(str(sent).split(",") if sent else ())]
    return frozenset(str(name).strip() for name in names)


def facts_for(
    *,
    model: str | None = None,
    system: SystemPrompt | None = None,
    tools: Tools | None = None,
    platform: str = "anthropic",
    resume: str = "",
    params: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> RequestFacts:
    """Builds the facts of an Anthropic-form request.

    Args:
        model: Name in any spelling; `None`: the rules of the newest models, no window.
        system: The system prompt: string or blocks.
        tools: Tool definitions; `None`: unknown, `[]`: none.
        platform: `anthropic`, `bedrock`, `vertex` or `google`: limits differ.
        resume: `pause_turn` or `compaction` when the request resumes such a stop.
        params: The other request parameters by name.
        facts: Single facts that override what follows from the rest; `bound_thinking` says whether
            the model's thinking is bound to its prefix.
    """
    params, facts = params or {}, dict(facts or {})
    row, betas = known_model(model), _betas(params)
    cloud, strict = platform in _CLOUDS, platform in _STRICT
    # Bedrock refuses what the version of October 2026 refuses for Claude 4.7 and later only.
    before_4_7 = row is not None and ("enabled" in row.thinking or "adaptive" not in row.thinking)
    core: dict[str, Any] = {
        **(row.facts() if row else {}),
        "manual_thinking": _thinking(params).get("type") == "enabled",
        "image_mb": 5 if cloud else 10,
        "pdfs_count": cloud,
        "max_tokens": whole_count(params.get("max_tokens")),
        "fixed_tokens": (size_of(system) + size_of(tools)) // _CHARS_PER_TOKEN,
        "tools": None if tools is None else tuple(_names(tools)),
        "tools_required": strict,
        "alternation": strict,
        "markers": (*_markers(tools), *_markers(system)),
        "auto_cache": _ttl(params.get("cache_control")),
        "version": _OLD_VERSION if strict and before_4_7 else _version(params),
        "sampling": bool(params) and any(params.get(name) is not None for name in _SAMPLING),
        "resume": resume,
        "tool_changes": betas is not None and not betas.isdisjoint(_TOOL_CHANGE_HEADERS),
        "compact_beta": None if betas is None else COMPACT_HEADER in betas,
        "compact_edit": any(
            isinstance(edit, Mapping) and str(edit.get("type", "")).startswith("compact_")
            for edit in _edits(params)
        ),
    }
    if strict:
        core["output_in_window"] = True
    binding = _thinking(params).get("block_binding")
    behaviour = binding.get("prefix_mismatch_behavior") if isinstance(binding, Mapping) else None
    drop = behaviour == "drop_block" and (betas is None or BINDING_HEADER in betas)
    bound = bool(facts.pop("bound_thinking", row is not None and row.bound_thinking))
    return RequestFacts({**core, **facts}, bound, drop, betas)


@lru_cache(64)
def known_model(name: str | None) -> Model | None:
    """The row of a model; an unknown one is judged by the rules of the newest, without limits."""
    return ModelTable.builtin().find(name) if name else None


def _thinking(params: Mapping[str, Any]) -> Mapping[str, Any]:
    setting = params.get("thinking")
    return setting if isinstance(setting, Mapping) else {}


def _edits(params: Mapping[str, Any]) -> Iterable[Any]:
    return list_in(params.get("context_management"), "edits")


def _names(tools: Iterable[Any]) -> Iterable[str]:
    for tool in tools:
        if isinstance(tool, Mapping):
            yield str(tool.get("name") or tool.get("mcp_server_name") or tool.get("type") or "")


def _markers(value: Any) -> Iterable[str]:
    for block in value if isinstance(value, list | tuple) else ():
        if isinstance(block, Mapping) and block.get("cache_control") is not None:
            yield _ttl(block["cache_control"])


def _ttl(marker: Any) -> str:
    if not isinstance(marker, Mapping):
        return ""
    return "1h" if marker.get("ttl") == "1h" else "5m"


def _version(params: Mapping[str, Any]) -> int:
    digits = str(params.get("anthropic_version") or "").replace("-", "")
    return int(digits) if digits.isascii() and digits.isdigit() else STRICT_VERSION


def size_of(value: Any) -> int:
    """Characters of a system prompt or of tool definitions."""
    if value is None or isinstance(value, str):
        return len(value or "")
    try:
        return len(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS))
    except TypeError:  # too deep, or an integer out of range: refused elsewhere
        return 0


# The least that `compact_20260112` takes as its trigger (A26).
MIN_COMPACT_TRIGGER = 50_000
# Seen in the traffic of one client, in no documentation and no SDK: the public API refuses them (A32).
_NO_API = ("cache_edits", "cache_reference")
_WIRE_KEYS = {
    "user": frozenset({"role", "content"}),
    "assistant": frozenset({"role", "content"}),
    "system": frozenset({"role", "content", "output_config", "clear_at"}),
}


def check_params(params: Mapping[str, Any], facts: RequestFacts) -> Iterator[Violation]:
    """Checks context edits and the header that `block_binding` needs."""
    for position, edit in enumerate(_edits(params)):
        yield from _edit(position, edit)
    for name in _NO_API:
        if name in params:
            yield error_at("A32", -1, -1, f"{name} is no public parameter")
    if "block_binding" in _thinking(params):
        if facts.betas is not None and BINDING_HEADER not in facts.betas:
            yield error_at(
                "A15", -1, -1, f"thinking.block_binding needs the header {BINDING_HEADER}"
            )


def check_wire(messages: Sequence[Any]) -> Iterator[Violation]:
    """A04 for messages that still carry what only responses and stored views have."""
    for index, item in enumerate(messages):
        if isinstance(item, Mapping) and "role" in item:
            keys = _WIRE_KEYS.get(str(item["role"]))
            if keys is not None and not item.keys() <= keys:
                yield error_at("A04", index, -1, "message has keys that the API does not know")


def _edit(position: int, edit: Any) -> Iterator[Violation]:
    if not isinstance(edit, Mapping):
        yield error_at("A26", -1, -1, f"context edit {position} is not an object")
        return
    kind = str(edit.get("type", ""))
    if kind.startswith("clear_thinking") and position > 0:
        yield error_at("A26", -1, -1, "clear_thinking is not the first context edit")
    if kind.startswith("compact_") and 0 <= _value(edit.get("trigger")) < MIN_COMPACT_TRIGGER:
        yield error_at("A26", -1, -1, f"compact trigger is below {MIN_COMPACT_TRIGGER} tokens")
    if 0 <= _value(edit.get("keep"), default=1) < 1 and kind.startswith("clear_thinking"):
        yield error_at("A26", -1, -1, "clear_thinking must keep at least 1 turn")


def _value(part: Any, default: int = -1) -> int:
    value = part.get("value", default) if isinstance(part, Mapping) else default
    return value if isinstance(value, int) else default


# Pages of PDF documents (A22): read here, since a digest never decodes data.


_PAGE = pattern(rb"/Type\s*/Page(?![a-zA-Z])")


def check_pages(messages: Sequence[Any], indices: Iterable[int], limit: int) -> Iterator[Violation]:
    """A22: PDF pages over the whole request; `indices`: which messages hold media, `limit` 0: none is known."""
    total, over = 0, (-1, -1)
    for index, position, document in _documents(messages, indices):
        total += pages_of(document)
        if total > limit and over[0] < 0:
            over = (index, position)
    if limit and total > limit:
        yield error_at("A22", *over, f"{total} PDF pages, the limit is {limit}")


def documents_of(messages: Sequence[Any]) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Documents with their places, also those inside tool results."""
    try:
        indices = core.media_indices(list(messages))
    except (InvalidMessage, TypeError):  # reported where it stands
        return
    yield from _documents(messages, indices)


def _documents(
    messages: Sequence[Any], indices: Iterable[int]
) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    for index in indices:
        for position, block in enumerate(blocks_of(messages[index])):
            for part in (block, *list_in(block, "content")):
                if isinstance(part, Mapping) and part.get("type") == "document":
                    yield index, position, part


def pages_of(document: Mapping[str, Any]) -> int:
    """Pages of a base64 PDF; 0 if it is none, or hides them in compressed streams."""
    source: Any = document.get("source")
    data = source.get("data") if isinstance(source, Mapping) else None
    if not isinstance(data, str) or source.get("media_type") != "application/pdf":
        return 0
    import base64
    import binascii

    try:
        return len(_PAGE.findall(base64.b64decode(data, validate=False)))
    except (binascii.Error, ValueError):
        return 0

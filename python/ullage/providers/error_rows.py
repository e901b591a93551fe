r"""What providers say when they refuse a request, as data.

Each row is matched without regard to case against one normalised line of text (see `_evidence`).
Named groups carry the figures: `used` (tokens of the prompt), `output` (tokens asked for),
`limit` (the window), `cap` (the model's maximum output). Rows are tried in order, vetoes first:
a throttled request often says "too many tokens" too, and compacting would not help it.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ROWS", "VETOES", "Row"]

N = r"\d[\d,_]*"
"""A figure as messages write it: 200000, 200,000 or 200_000."""


class Row(NamedTuple):
    """One wording: who says it, what it means, how it looks."""

    name: str
    kind: str
    provider: str
    pattern: str


VETOES: tuple[Row, ...] = (
    Row("quota", "auth", "", r"insufficient_quota|billing_error|credit balance is too low"),
    Row("throttling", "rate_limit", "bedrock", r"^throttling error:|throttlingexception|throttled"),
    Row(
        "service_unavailable",
        "overloaded",
        "bedrock",
        r"^service unavailable:|serviceunavailableexception",
    ),
    Row("wait", "rate_limit", "bedrock", r"too many tokens, please wait"),
    Row("rate_limit", "rate_limit", "", r"(?<![a-z])rate[ _-]?limit"),
    Row(
        "http_429",
        "rate_limit",
        "",
        # Gateways wrap an upstream's 429 in a 400 of their own.
        r"^(?:error code: ?)?429\b|\bhttp(?:/[\d.]+)? ?429\b|\bstatus(?:[ _]?code)?\W{1,4}429\b|[\"']code[\"']: ?429\b",
    ),
    Row(
        "too_many_requests",
        "rate_limit",
        "",
        r"too[ _]many[ _]requests|resource_exhausted|request limit reached",
    ),
    Row(
        "per_minute", "rate_limit", "", r"\bper[ _-]?(?:minute|min|hour|day|second)\b|\b[tr]p[md]\b"
    ),
    # One string over a provider's character limit: shortening that string helps, a compaction may not.
    Row(
        "string_length",
        "malformed_history",
        "openai",
        r"string_above_max_length|expected a string with maximum length",
    ),
    Row(
        "name_length",
        "malformed_history",
        "bedrock",
        r"#/\S*(?:name|id|description|stopsequences\S*): expected maxlength",
    ),
    Row(
        "overloaded",
        "overloaded",
        "",
        r"overloaded_error|\boverloaded\b|compaction_unavailable|\bat capacity\b",
    ),
)

_WINDOW: tuple[Row, ...] = (
    Row(
        "anthropic.prompt_too_long",
        "overflow_tokens",
        "anthropic",
        rf"prompt is too long: (?P<used>{N}) tokens? > (?P<limit>{N})",
    ),
    Row(
        "anthropic.input_and_output",
        "output_budget",
        "anthropic",
        rf"input length and `?max_tokens`? exceed context limit: (?P<used>{N}) \+ (?P<output>{N}) > (?P<limit>{N})",
    ),
    Row(
        "anthropic.max_tokens",
        "output_budget",
        "anthropic",
        rf"max_tokens: (?P<output>{N}) > (?P<cap>{N}), which is the maximum allowed number of output tokens",
    ),
    Row(
        "openai.max_tokens",
        "output_budget",
        "openai",
        rf"max_(?:completion_|output_)?tokens is too large: (?P<output>{N})\. this model supports at most (?P<cap>{N})",
    ),
    Row(
        "anthropic.gateway",
        "overflow_tokens",
        "anthropic",
        r"capability_rejected: ?prompt_too_long",
    ),
    Row(
        "vllm.output",
        "output_budget",
        "vllm",
        rf"maximum context length is (?P<limit>{N}) tokens.{{0,80}}?requested (?P<output>{N}) output tokens.{{0,80}}?prompt contains.{{0,40}}?(?P<used>{N}) input tokens",
    ),
    Row(
        "vllm.output_short",
        "output_budget",
        "vllm",
        rf"requested (?P<output>{N}) output tokens.{{0,120}}?prompt contains.{{0,40}}?(?P<used>{N}) input tokens",
    ),
    Row(
        "openai.messages_and_completion",
        "output_budget",
        "openai",
        rf"maximum context length is (?P<limit>{N}) tokens\. however,.{{0,80}}?{N} tokens \((?P<used>{N}) (?:in|of) the (?:messages|text|input|prompt).{{0,80}}?(?P<output>{N}) (?:in|for) the (?:completion|output)",
    ),
    Row(
        "openai.messages",
        "overflow_tokens",
        "openai",
        rf"maximum context length is (?P<limit>{N}) tokens\. however,.{{0,120}}?(?P<used>{N}) (?:input )?tokens",
    ),
    Row(
        "openai.configured_limit",
        "overflow_tokens",
        "openai",
        rf"input tokens exceed the configured limit(?: of (?P<limit>{N}) tokens)?(?:\..{{0,60}}?resulted in (?P<used>{N}) tokens)?",
    ),
    Row("openai.context_window", "overflow_tokens", "openai", r"exceeds the context window"),
    Row(
        "gemini.count",
        "overflow_tokens",
        "gemini",
        rf"input token count(?: of)? \(?(?P<used>{N})\)? exceeds the maximum number of (?:input )?tokens allowed \(?(?P<limit>{N})",
    ),
    Row(
        "gemini.maximum",
        "overflow_tokens",
        "gemini",
        r"input token count.{0,80}?exceeds the maximum",
    ),
    Row(
        "gemini.allowed",
        "overflow_tokens",
        "gemini",
        r"exceeds the maximum number of (?:input )?tokens allowed",
    ),
    Row(
        "xai.prompt_length",
        "overflow_tokens",
        "xai",
        rf"maximum prompt length is (?P<limit>{N})(?:.{{0,60}}?contains (?P<used>{N}) tokens)?",
    ),
    Row(
        "together.longer",
        "overflow_tokens",
        "together",
        rf"input \((?P<used>{N}) tokens\) is longer than the model's context length \((?P<limit>{N}) tokens\)",
    ),
    Row(
        "openrouter.endpoint",
        "overflow_tokens",
        "openrouter",
        rf"endpoint's maximum context length(?: is (?P<limit>{N}) tokens)?(?:\. however,.{{0,80}}?(?P<used>{N}) tokens)?",
    ),
    Row("compatible.only", "overflow_tokens", "", rf"context length is only (?P<limit>{N}) tokens"),
    Row(
        "compatible.maximum",
        "overflow_tokens",
        "",
        rf"maximum context length is (?P<limit>{N}) tokens",
    ),
    Row(
        "poolside.allowed",
        "overflow_tokens",
        "poolside",
        rf"maximum allowed input length of (?P<limit>{N}) tokens",
    ),
    Row(
        "copilot.limit",
        "overflow_tokens",
        "copilot",
        # Other things have limits too: a picture of so many bytes is no overflow of the window.
        rf"(?:token count of (?P<used>{N}) )?exceeds the limit of (?P<limit>{N})(?![\d,_]*\s?(?:k?i?bytes|mi?b\b|ki?b\b|characters|chars\b|images|pixels|px\b|pages|seconds|tools|messages))",
    ),
    Row(
        "llama_cpp.size",
        "overflow_tokens",
        "llama.cpp",
        rf"request \((?P<used>{N}) tokens\) exceeds the available context size \((?P<limit>{N}) tokens\)",
    ),
    Row(
        "llama_cpp.figures",
        "overflow_tokens",
        "llama.cpp",
        rf"exceed_context_size_error.{{0,200}}?n_prompt_tokens\W{{1,4}}(?P<used>{N}).{{0,40}}?n_ctx\W{{1,4}}(?P<limit>{N})",
    ),
    Row(
        "llama_cpp.figures_first",
        "overflow_tokens",
        "llama.cpp",
        rf"n_prompt_tokens\W{{1,4}}(?P<used>{N}).{{0,40}}?n_ctx\W{{1,4}}(?P<limit>{N})",
    ),
    Row(
        "llama_cpp.available",
        "overflow_tokens",
        "llama.cpp",
        r"exceeds the available context size|exceed_context_size_error",
    ),
    Row("lm_studio.greater", "overflow_tokens", "lm_studio", r"greater than the context length"),
    Row(
        "ollama.exceeded",
        "overflow_tokens",
        "ollama",
        rf"exceeded (?:max(?:imum)? )?context length(?: by (?P<gap>{N}))?",
    ),
    Row("minimax.window", "overflow_tokens", "minimax", r"context window exceeds limit"),
    Row(
        "kimi.limit",
        "overflow_tokens",
        "kimi",
        rf"exceeded model token limit(?:: (?P<limit>{N}))?(?: \(requested: (?P<used>{N})\))?",
    ),
    Row(
        "mistral.figures",
        "overflow_tokens",
        "mistral",
        rf"prompt contains (?P<used>{N}) tokens.{{0,80}}?too large for model with (?P<limit>{N}) maximum context length",
    ),
    Row(
        "mistral.large",
        "overflow_tokens",
        "mistral",
        rf"too large for model with (?P<limit>{N}) maximum context length",
    ),
    Row(
        "cerebras.length",
        "overflow_tokens",
        "cerebras",
        rf"current length is (?P<used>{N}) while limit is (?P<limit>{N})",
    ),
    Row(
        "cerebras.no_body",
        "overflow_tokens",
        "cerebras",
        r"^(?:error code: )?4(?:00|13)\b.*\(no body\)",
    ),
    Row(
        "tgi.tokens",
        "output_budget",
        "tgi",
        rf"`?inputs`? tokens \+ `?max_new_tokens`? must be(?: <= (?P<limit>{N})\. given: (?P<used>{N}) `?inputs`? tokens and (?P<output>{N}))?",
    ),
    Row("tgi.length", "overflow_tokens", "tgi", r"length limit exceeded"),
    Row(
        "bedrock.exceed",
        "overflow_tokens",
        "bedrock",
        rf"prompt tokens \(?(?P<used>{N})\)? exceed model maximum(?: \(?(?P<limit>{N}))?",
    ),
    Row("bedrock.long", "overflow_tokens", "bedrock", r"input is too long for requested model"),
    Row("bedrock.many", "overflow_tokens", "bedrock", r"too many input tokens"),
    # The figure counts characters, so it teaches nothing about the window.
    Row("bedrock.max_length", "overflow_tokens", "bedrock", r"expected maxlength: \d+"),
    Row("groq.reduce", "overflow_tokens", "groq", r"reduce the length of the messages"),
    Row("ai21.many", "overflow_tokens", "ai21", r"prompt has too many tokens"),
    Row("replicate.long", "overflow_tokens", "replicate", r"input is too long"),
)

_BYTES: tuple[Row, ...] = (
    Row(
        "anthropic.bytes",
        "overflow_bytes",
        "anthropic",
        r"request_too_large|request_body_too_large|request exceeds the maximum (?:allowed number of bytes|size)",
    ),
    Row("gemini.payload", "overflow_bytes", "gemini", r"request payload size exceeds"),
    Row(
        "http.entity",
        "overflow_bytes",
        "",
        r"request entity too large|payload too large|content too large|413 request too large",
    ),
)

_GENERIC: tuple[Row, ...] = (
    Row("generic.code", "overflow_tokens", "openai", r"context[ _]length[ _]exceeded"),
    Row(
        "generic.window",
        "overflow_tokens",
        "",
        r"model_context_window_exceeded|context[ _]window[ _]exceeded",
    ),
    Row("generic.prompt", "overflow_tokens", "", r"prompt(?: is|_is)?[ _]too[ _]long"),
    Row("generic.many", "overflow_tokens", "", r"too many tokens"),
    Row("generic.limit", "overflow_tokens", "", r"token limit exceeded"),
    Row(
        "generic.input", "overflow_tokens", "", r"input length.{0,80}?exceeds.{0,40}?context length"
    ),
    Row("generic.maximum", "overflow_tokens", "", r"model's maximum context (?:limit|length)"),
    Row("generic.exceed", "overflow_tokens", "", r"exceeds? context limit"),
)

_THINKING: tuple[Row, ...] = (
    Row(
        "anthropic.signature",
        "thinking_binding",
        "anthropic",
        r"invalid `?signature`? in `?thinking`? block",
    ),
    Row(
        "anthropic.thinking_modified",
        "thinking_binding",
        "anthropic",
        r"`?thinking`? or `?redacted_thinking`? blocks in the latest assistant message cannot be modified",
    ),
    Row(
        "gemini.signature",
        "thinking_binding",
        "gemini",
        r"missing a `?thought_signature|(?:corrupted|invalid) thought[ _]signature|thought signature is not valid",
    ),
    Row(
        "openai.reasoning_missing",
        "thinking_binding",
        "openai",
        r"without its required 'reasoning' item",
    ),
    Row(
        "openai.reasoning_alone",
        "thinking_binding",
        "openai",
        r"without its required following item",
    ),
    Row(
        "openai.reasoning_unknown", "thinking_binding", "openai", r"item with id 'rs_\w*' not found"
    ),
    Row(
        "openai.reasoning_foreign",
        "thinking_binding",
        "openai",
        r"invalid_encrypted_content|encrypted content .{0,80}?could not be (?:verified|decrypted)",
    ),
)

_PAIRING: tuple[Row, ...] = (
    Row(
        "anthropic.unanswered",
        "tool_pairing",
        "anthropic",
        r"`?tool_use`? ids were found without `?tool_result`? blocks",
    ),
    Row(
        "anthropic.orphan",
        "tool_pairing",
        "anthropic",
        r"unexpected `?tool_use_id`? found in `?\w*tool_result`? blocks",
    ),
    Row(
        "anthropic.twice",
        "tool_pairing",
        "anthropic",
        r"each `?tool_use`? must have a single result",
    ),
    Row("anthropic.unique", "tool_pairing", "anthropic", r"`?tool_use`? ids must be unique"),
    Row(
        "anthropic.server",
        "tool_pairing",
        "anthropic",
        r"tool use with id `?\w+`? was found without a corresponding|but no `?\w+`? tool was provided",
    ),
    Row(
        "openai.unanswered",
        "tool_pairing",
        "openai",
        r"must be followed by tool messages responding to each 'tool_call_id'|did not have response messages",
    ),
    Row(
        "openai.orphan",
        "tool_pairing",
        "openai",
        r"messages with role 'tool' must be a response to a prec+eed?ing message",
    ),
    Row(
        "openai.items",
        "tool_pairing",
        "openai",
        r"no tool (?:output found for|call found for)|no (?:function|tool) call found",
    ),
    Row("gemini.count_parts", "tool_pairing", "gemini", r"number of function response parts"),
    Row("gemini.turn", "tool_pairing", "gemini", r"function call turn comes immediately after"),
    Row(
        "bedrock.results",
        "tool_pairing",
        "bedrock",
        r"expected toolresult blocks at|number of toolresult blocks",
    ),
    Row(
        "mistral.count",
        "tool_pairing",
        "mistral",
        r"not the same number of function calls and responses",
    ),
    Row("minimax.order", "tool_pairing", "minimax", r"tool call result does not follow tool call"),
)

_MALFORMED: tuple[Row, ...] = (
    Row(
        "anthropic.thinking_first",
        "malformed_history",
        "anthropic",
        r"expected `?thinking`? or `?redacted_thinking`?, but found",
    ),
    Row(
        "anthropic.no_messages",
        "malformed_history",
        "anthropic",
        r"at least one message is required",
    ),
    Row(
        "anthropic.empty_text",
        "malformed_history",
        "anthropic",
        r"text content blocks must (?:be non-empty|contain non-whitespace)|must have non-empty content",
    ),
    Row(
        "anthropic.prefill",
        "malformed_history",
        "anthropic",
        r"assistant message prefill|must end with a user message|cannot end with trailing whitespace",
    ),
    Row(
        "anthropic.extra_keys", "malformed_history", "anthropic", r"extra inputs are not permitted"
    ),
    Row("anthropic.id_pattern", "malformed_history", "anthropic", r"string should match pattern"),
    Row(
        "anthropic.cache",
        "malformed_history",
        "anthropic",
        r"blocks with cache_control may be provided|cache_control cannot be set|must not come after a ttl=",
    ),
    Row("anthropic.images", "malformed_history", "anthropic", r"many-image requests"),
    Row("anthropic.compaction", "malformed_history", "anthropic", r"\bcompaction_[a-z_]+"),
    Row("openai.too_short", "malformed_history", "openai", r"\[\] is too short"),
    Row("deepseek.content", "malformed_history", "deepseek", r"content or tool_calls must be set"),
    Row(
        "deepseek.reasoning",
        "malformed_history",
        "deepseek",
        r"`?reasoning_content`? in the thinking mode must be passed back",
    ),
    Row("gemini.parts", "malformed_history", "gemini", r"contents\.parts must not be empty"),
    Row(
        "bedrock.first",
        "malformed_history",
        "bedrock",
        r"conversation must start with a user message",
    ),
    Row(
        "bedrock.alternate",
        "malformed_history",
        "bedrock",
        r"conversation must alternate|roles must alternate",
    ),
    Row(
        "bedrock.blank",
        "malformed_history",
        "bedrock",
        r"text field in the contentblock object .{0,60}?is blank",
    ),
    Row("bedrock.tools", "malformed_history", "bedrock", r"toolconfig field must be defined"),
    Row("mistral.role", "malformed_history", "mistral", r"unexpected role '\w+' after role '\w+'"),
    Row("mistral.id", "malformed_history", "mistral", r"tool call id was .{0,80}?but must be"),
    Row("local.system", "malformed_history", "local", r"system message must be at the beginning"),
)

ROWS: tuple[Row, ...] = _THINKING + _PAIRING + _WINDOW + _BYTES + _MALFORMED + _GENERIC

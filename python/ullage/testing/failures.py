"""How providers say no: status, body and words, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ullage.exceptions import InvalidPolicy

OVERFLOW_TEXTS: Mapping[str, tuple[int, str]] = {
    "anthropic": (400, "prompt is too long: {used} tokens > {limit} maximum"),
    "anthropic_output": (
        400,
        (
            "input length and `max_tokens` exceed context limit: {used} + {output} > {limit}, decrease "
            "input length or `max_tokens` and try again"
        ),
    ),
    "anthropic_bytes": (413, "Request exceeds the maximum allowed number of bytes"),
    "openai": (
        400,
        (
            "This model's maximum context length is {limit} tokens. However, your messages resulted in "
            "{used} tokens. Please reduce the length of the messages."
        ),
    ),
    "openai_new": (
        400,
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    "gemini": (
        400,
        "The input token count ({used}) exceeds the maximum number of tokens allowed ({limit}).",
    ),
    "bedrock": (400, "Input is too long for requested model."),
    "mistral": (
        400,
        (
            "Prompt contains {used} tokens and 0 draft tokens, too large for model with {limit} maximum "
            "context length"
        ),
    ),
    "xai": (
        400,
        "This model's maximum prompt length is {limit} but the request contains {used} tokens.",
    ),
    "groq": (400, "Please reduce the length of the messages or completion."),
    "openrouter": (
        400,
        (
            "This endpoint's maximum context length is {limit} tokens. However, you requested about {used} "
            "tokens."
        ),
    ),
    "llama_cpp": (
        400,
        (
            "the request exceeds the available context size. try increasing the context size or enable "
            "context shift"
        ),
    ),
}
"""Overflow answers by provider, in their own words; `overflow` fills in the figures."""

_GOOGLE = {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 529: "UNAVAILABLE"}
_CODES = {"openai": "context_length_exceeded", "openai_new": "context_length_exceeded"}


@dataclass(frozen=True, slots=True)
class Failure:
    """An error answer.

    Attributes:
        status: HTTP status.
        kind: The provider's own name for it, such as `overloaded_error`.
        text: What a user would read.
        code: Machine-readable code, or empty.
        headers: Of the answer, such as `retry-after`.
        extra: Further fields of the error object.
    """

    status: int
    kind: str
    text: str
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def body(self, provider: str = "anthropic") -> dict[str, Any]:
        """The answer's JSON, in Anthropic's form, in Google's, or else in OpenAI's."""
        if provider == "gemini":
            name = _GOOGLE.get(self.status, "INVALID_ARGUMENT")
            return {"error": {"code": self.status, "message": self.text, "status": name}}
        error: dict[str, Any] = {"type": self.kind, "message": self.text, **self.extra}
        if provider == "anthropic":
            if self.code:
                error["details"] = {"error_code": self.code}
            return {"type": "error", "error": error, "request_id": "req_011scripted"}
        return {"error": {**error, "param": None, "code": self.code or None}}


class ScriptedAPIError(Exception):
    """What an SDK would raise: it has `status_code`, `body` and `response.headers` like theirs."""

    def __init__(self, failure: Failure, provider: str = "anthropic") -> None:
        self.status_code = failure.status
        self.body = failure.body(provider)
        self.response = _Response(failure.status, failure.headers)
        super().__init__(f"Error code: {failure.status} - {self.body}")


@dataclass(frozen=True, slots=True)
class _Response:
    status_code: int
    headers: Mapping[str, str]


def overflow(
    provider: str = "anthropic", *, used: int = 213_462, limit: int = 200_000, output: int = 21_333
) -> Failure:
    """The overflow answer of a provider, with these figures where it names any.

    Raises:
        InvalidPolicy: There is no text for that provider in `OVERFLOW_TEXTS`.
    """
    if provider not in OVERFLOW_TEXTS:
        known = ", ".join(OVERFLOW_TEXTS)
        raise InvalidPolicy("provider", provider, f"must be one of {known}")
    status, template = OVERFLOW_TEXTS[provider]
    text = template.format(used=used, limit=limit, output=output)
    if provider == "llama_cpp":
        sizes = {"n_prompt_tokens": used, "n_ctx": limit}
        return Failure(status, "exceed_context_size_error", text, extra=sizes)
    kind = "request_too_large" if status == 413 else "invalid_request_error"
    return Failure(status, kind, text, _CODES.get(provider, ""))


_FAILURES = {
    "overloaded": Failure(529, "overloaded_error", "Overloaded"),
    "server_error": Failure(500, "api_error", "Internal server error"),
    "rate_limit": Failure(
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 400,000 input tokens per minute.",
    ),
    "auth": Failure(401, "authentication_error", "invalid x-api-key"),
    "binding": Failure(
        400,
        "invalid_request_error",
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
        "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "
        '"drop_block".',
    ),
}


def failure(kind: str, *, retry_after: float | None = None) -> Failure:
    """An error that is no overflow: `overloaded`, `server_error`, `rate_limit`, `auth`, `binding`.

    Args:
        kind: Which.
        retry_after: Seconds that the answer asks to wait; `None`: it does not say.

    Raises:
        InvalidPolicy: There is no such kind.
    """
    if kind not in _FAILURES:
        raise InvalidPolicy("kind", kind, f"must be one of {', '.join(_FAILURES)}")
    found = _FAILURES[kind]
    if retry_after is None:
        return found
    headers = {"retry-after": f"{retry_after:g}"}
    return Failure(found.status, found.kind, found.text, found.code, headers)

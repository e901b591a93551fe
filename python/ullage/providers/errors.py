"""Tells what a provider's error, or a suspicious success, means for the conversation.

The texts are data (`errors.toml`), the reading of SDK objects is `error_fields`; this module only
decides. Vetoes go first: a throttled request is never taken for a full window.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ullage.providers import error_fields
from ullage.providers.error_fields import Evidence, get
from ullage.providers.error_rows import ErrorKind, ErrorRow, built_in, read_errors
from ullage.providers.registry import AnyProvider, provider_of

__all__ = ["Classified", "classify"]

_OVERFLOWS = frozenset({"overflow_tokens", "overflow_bytes", "silent_overflow"})

_SMALLEST_WINDOW = 512
"""A smaller figure in an error is no window of any model: it is not learned."""

_LARGEST_WINDOW = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Classified:
    """What an answer means.

    Attributes:
        kind: `overflow_tokens` and `overflow_bytes`: refused, too much. `silent_overflow`:
            accepted, but cut. `output_budget`: prompt and asked-for output together are too much, or
            the output alone is. `thinking_binding`: signed reasoning no longer fits its place.
            `tool_pairing`, `malformed_history`: the messages break a rule. `rate_limit`,
            `overloaded`, `auth`: not about the messages. `none`: no error. `unknown`: an error that
            no row knows.
        used_tokens: Tokens of the prompt as the provider counted them; `None` if it did not say.
        limit_tokens: The window it named; `None` if it named none.
        gap_tokens: By how much the request was too large; `None` if unknown.
        provider: Whose wording it is; empty if many share it.
        matched: Name of the row, or `status` or `usage`; empty if nothing matched.
        retry_after_seconds: What the provider asks to wait; `None` if it does not say.
        learned_limit: `limit_tokens` where it may be remembered as the model's window; else `None`.
        output_tokens: Output that was asked for, where the error repeats it.
        output_limit_tokens: The model's maximum output, where that was exceeded.
        status: HTTP status, or `None`.
    """

    kind: ErrorKind
    used_tokens: int | None = None
    limit_tokens: int | None = None
    gap_tokens: int | None = None
    provider: str = ""
    matched: str = ""
    retry_after_seconds: float | None = None
    learned_limit: int | None = None
    output_tokens: int | None = None
    output_limit_tokens: int | None = None
    status: int | None = None

    @property
    def is_overflow(self) -> bool:
        """Whether making room in the conversation would help."""
        if self.kind == "output_budget":
            return self.output_limit_tokens is None
        return self.kind in _OVERFLOWS

    def __repr__(self) -> str:
        shown = {
            "used": self.used_tokens,
            "limit": self.limit_tokens,
            "gap": self.gap_tokens,
            "by": self.matched or None,
            "status": self.status,
        }
        told = (f"{name}={value}" for name, value in shown.items() if value is not None)
        return f"Classified({', '.join((self.kind, *told))})"


def classify(
    error_or_response: object,
    *,
    model: str | None = None,
    window_tokens: int | None = None,
    provider: AnyProvider | None = None,
) -> Classified:
    """Says what an error, or a response, means for the conversation.

    Never raises and imports no SDK: exceptions, HTTP responses, `(status, body)` or
    `(status, body, headers)` tuples, texts, bodies, stream events and successful responses are
    read by what they look like.

    Args:
        error_or_response: What came back. `None` counts as no error.
        model: The model that was asked. A limit in an answer that names another is not learned.
        window_tokens: The model's context window. With it, a successful response whose usage is
            larger is a `silent_overflow`. `None`: not checked.
        provider: Who was asked, where its row names wordings of its own; they are tried first. `None`: the common ones.

    Returns:
        The class with the figures that the answer names.

    Example:
        >>> classify("prompt is too long: 213462 tokens > 200000 maximum").gap_tokens
        13462
    """
    evidence = error_fields.gather(error_or_response)
    if evidence.response is not None:
        return _of_response(evidence, window_tokens)
    if not evidence.texts and (evidence.status is None or evidence.status < 400):
        return Classified("none" if error_or_response is None or evidence.status else "unknown")
    found = _of_error(evidence, provider)
    return replace(found, learned_limit=None) if _other_model(error_or_response, model) else found


def _of_error(evidence: Evidence, provider: AnyProvider | None) -> Classified:
    own = "" if provider is None else provider_of(provider).errors
    tables = [*([read_errors(own)] if own else ()), built_in()]
    hit = _search([row for table in tables for row in table.vetoes], evidence)
    if hit is None and evidence.status in _DECIDING:
        return _by_status(evidence)
    if hit is None:
        hit = _search([row for table in tables for row in table.rows], evidence)
    return _by_status(evidence) if hit is None else _from_hit(*hit, evidence)


_DECIDING = {429: "rate_limit", 529: "overloaded"}
_STATUS_KINDS: dict[int, ErrorKind] = {
    429: "rate_limit",
    529: "overloaded",
    503: "overloaded",
    502: "overloaded",
    504: "overloaded",
    401: "auth",
    402: "auth",
    403: "auth",
    413: "overflow_bytes",
}


def _by_status(evidence: Evidence) -> Classified:
    kind = _STATUS_KINDS.get(evidence.status or 0, "unknown")
    return Classified(
        kind,
        matched="" if kind == "unknown" else "status",
        retry_after_seconds=error_fields.retry_after(evidence),
        provider=_known_origin(evidence.origin),
        status=evidence.status,
    )


def _search(rows: Sequence[ErrorRow], evidence: Evidence) -> tuple[ErrorRow, re.Match[str]] | None:
    """The first row that matches, and of its matches the one that tells most figures."""
    for row in rows:
        hits = [hit for text in evidence.texts if (hit := row.pattern.search(text)) is not None]
        if hits:
            return row, max(hits, key=_told)
    return None


def _told(hit: re.Match[str]) -> int:
    return sum(figure is not None for figure in hit.groupdict().values())


def _from_hit(row: ErrorRow, hit: re.Match[str], evidence: Evidence) -> Classified:
    figures = {name: _figure(text) for name, text in hit.groupdict().items() if text}
    used, limit, output = (figures.get(name) for name in ("used", "limit", "output"))
    asked = output if row.kind == "output_budget" else None
    return Classified(
        _refined(row.kind, used, limit),
        used_tokens=used,
        limit_tokens=limit,
        gap_tokens=figures.get("gap") or _gap(used, asked, limit),
        provider=row.provider or _known_origin(evidence.origin),
        matched=row.name,
        retry_after_seconds=error_fields.retry_after(evidence),
        learned_limit=_learnable(limit),
        output_tokens=output,
        output_limit_tokens=figures.get("cap"),
        status=evidence.status,
    )


def _learnable(limit: int | None) -> int | None:
    plausible = limit is not None and _SMALLEST_WINDOW <= limit <= _LARGEST_WINDOW
    return limit if plausible else None


def _refined(kind: ErrorKind, used: int | None, limit: int | None) -> ErrorKind:
    """Where the prompt alone already is too much, no smaller output would help."""
    if kind == "output_budget" and used is not None and limit is not None and used >= limit:
        return "overflow_tokens"
    return kind


def _gap(used: int | None, output: int | None, limit: int | None) -> int | None:
    if used is None or limit is None:
        return None
    gap = used + (output or 0) - limit
    return gap if gap > 0 else None


def _figure(text: str) -> int:
    return int(text.replace(",", "").replace("_", ""))


def _known_origin(origin: str) -> str:
    return built_in().packages.get(origin, "")


def _other_model(source: Any, model: str | None) -> bool:
    """Whether the answer names a model that is not ours; dated snapshots of one name are one."""
    named = get(source, "model")
    if model is None or not isinstance(named, str) or not named:
        return False
    ours, theirs = (name.rpartition("/")[2].lower() for name in (model, named))
    return not (ours.startswith(theirs) or theirs.startswith(ours))


# ---- successes that are none ---------------------------------------------------------------------

_WINDOW_STOP = "model_context_window_exceeded"


def _of_response(evidence: Evidence, window_tokens: int | None) -> Classified:
    body = evidence.response
    used = _prompt_tokens(body)
    reason = _stop_reason(body)
    if reason == _WINDOW_STOP:
        return _silent(used, window_tokens, "stop_reason", evidence)
    if reason == "length" and _output_tokens(body) == 0:
        return _silent(used, window_tokens, "empty_length_stop", evidence)
    if window_tokens is not None and used is not None and _beyond(body, used, window_tokens):
        return _silent(used, window_tokens, "usage", evidence)
    return Classified("none", used_tokens=used, status=evidence.status)


def _silent(used: int | None, limit: int | None, matched: str, evidence: Evidence) -> Classified:
    return Classified(
        "silent_overflow",
        used_tokens=used,
        limit_tokens=limit,
        gap_tokens=_gap(used, None, limit),
        matched=matched,
        status=evidence.status,
    )


def _beyond(body: Any, used: int, window_tokens: int) -> bool:
    """Ollama cuts the prompt to exactly its window and says nothing: there the rim is too much."""
    cuts = get(body, "prompt_eval_count") is not None
    return used >= window_tokens if cuts else used > window_tokens


def _stop_reason(body: Any) -> str:
    choice = _first(get(body, "choices")) or _first(get(body, "candidates"))
    for place, key in (
        (body, "stop_reason"),
        (body, "stopReason"),
        (choice, "native_finish_reason"),
        (choice, "finish_reason"),
        (choice, "finishReason"),
        (body, "done_reason"),
        (get(body, "delta"), "stop_reason"),
    ):
        reason = get(place, key)
        if reason == _WINDOW_STOP or (isinstance(reason, str) and "native" not in key):
            return str(reason).lower()
    return ""


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list | tuple) and value else None


_OUTPUT_KEYS = (
    "output_tokens",
    "completion_tokens",
    "outputTokens",
    "candidatesTokenCount",
    "eval_count",
)
_CACHE_KEYS = (
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "cacheReadInputTokens",
    "cacheWriteInputTokens",
)


def _usage(body: Any) -> Any:
    usage = get(body, "usage") or get(body, "usageMetadata") or get(body, "usage_metadata") or body
    iterations = get(usage, "iterations")
    if isinstance(iterations, list | tuple):
        # Compaction passes are billed apart; the last message pass says how full the window was.
        messages = [one for one in iterations if get(one, "type") == "message"]
        return messages[-1] if messages else usage
    return usage


def _prompt_tokens(body: Any) -> int | None:
    usage = _usage(body)
    for key in (
        "input_tokens",
        "prompt_tokens",
        "inputTokens",
        "promptTokenCount",
        "prompt_token_count",
        "prompt_eval_count",
    ):
        base = _count(get(usage, key))
        if base is not None:
            return base + sum(_count(get(usage, cached)) or 0 for cached in _CACHE_KEYS)
    return None


def _output_tokens(body: Any) -> int | None:
    usage = _usage(body)
    counts = (_count(get(usage, name)) for name in _OUTPUT_KEYS)
    return next((count for count in counts if count is not None), None)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

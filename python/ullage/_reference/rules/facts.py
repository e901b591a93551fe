"""What the rules must know and the messages do not say: the model's limits, the request's other parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ullage.exceptions import InvalidPolicy

__all__ = ["Facts"]


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of one request. The defaults are a current Claude model on Anthropic's own API.

    Attributes:
        prefill_ok: The model takes an assistant message at the end (Claude 4.5 and older).
        mid_system_ok: The model takes system messages inside the conversation.
        manual_thinking: The request has `thinking.type: "enabled"`.
        image_limit: Images per request.
        image_mb: Base64 size of one image in MiB: 10, or 5 on Bedrock and Google.
        page_limit: PDF pages per request.
        pdfs_count: PDFs count as images for the stricter side limit (Bedrock and Google).
        window: Context window in tokens; 0: unknown, not checked.
        max_output: The model's largest `max_tokens`; 0: unknown.
        max_tokens: The request's `max_tokens`; 0: none.
        output_in_window: The model refuses input + `max_tokens` over the window.
        fixed_tokens: Tokens of system prompt and tool definitions.
        body_bytes: Size of the request's JSON; 0: not measured.
        body_limit: Largest JSON body in bytes.
        tools: Names of the request's tools, server tools included; `None`: unknown.
        tools_required: The platform refuses tool blocks without tools (Bedrock, LiteLLM).
        alternation: The platform refuses neighbours of one role and a first assistant message.
        markers: Cache markers in tools and system, in that order: "5m" or "1h" each.
        auto_cache: TTL of the automatic marker, or "".
        version: API version date as a number.
        tool_changes: The header for tool changes inside the conversation is sent.
        sampling: The request has temperature, top_p or top_k.
        resume: "pause_turn" or "compaction": the request resumes such a stop; else "".
        compact_beta: The header for on-demand compaction is sent; `None`: unknown.
        compact_edit: The request has a `compact_*` edit.
        thinking: The model thinks (DeepSeek: `reasoning_content` must come back).
        reasoning_forbidden: `reasoning_content` must not come back (old R1).
        strict: An OpenAI-compatible server that enforces what OpenAI itself does not.
        skip: Rule ids that are not checked; for tests.
    """

    prefill_ok: bool = False
    mid_system_ok: bool = True
    manual_thinking: bool = False
    image_limit: int = 100
    image_mb: int = 10
    page_limit: int = 100
    pdfs_count: bool = False
    window: int = 0
    max_output: int = 0
    max_tokens: int = 0
    output_in_window: bool = False
    fixed_tokens: int = 0
    body_bytes: int = 0
    # The documented limit is 32 MB at the edge; headers and re-encoding need some room.
    body_limit: int = 30_000_000
    tools: tuple[str, ...] | None = None
    tools_required: bool = False
    alternation: bool = False
    markers: tuple[str, ...] = ()
    auto_cache: str = ""
    version: int = 2026_10_21
    tool_changes: bool = False
    sampling: bool = False
    resume: str = ""
    compact_beta: bool | None = None
    compact_edit: bool = False
    thinking: bool = False
    reasoning_forbidden: bool = False
    strict: bool = False
    skip: tuple[str, ...] = ()

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Facts:
        """Makes facts from a flat mapping.

        Args:
            given: Some of the fields by name; lists stand for tuples.

        Raises:
            InvalidPolicy: An unknown name, or a value of the wrong type.
        """
        return cls(**{name: _value(name, value) for name, value in given.items()})


_TYPES: Mapping[str, str] = {field.name: str(field.type) for field in fields(Facts)}


def _value(name: str, value: Any) -> Any:
    kind = _TYPES.get(name)
    if kind is None:
        raise InvalidPolicy("facts", name, "is not a known fact")
    if value is None and kind.endswith("| None"):
        return None
    if kind.startswith("tuple"):
        return _strings(name, value)
    if kind.startswith("bool"):
        return _expect(name, value, isinstance(value, bool), "must be true or false")
    if kind == "int":
        good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
        return _expect(name, value, good, "must be a whole number, 0 or more")
    return _expect(name, value, isinstance(value, str), "must be a string")


def _strings(name: str, value: Any) -> tuple[str, ...]:
    good = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    _expect(name, value, good, "must be a list of strings")
    return tuple(value)


def _expect(name: str, value: Any, good: bool, limit: str) -> Any:
    if not good:
        raise InvalidPolicy(f"facts.{name}", value, limit)
    return value

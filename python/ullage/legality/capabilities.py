"""Facts for the verifier, from the arguments of a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from ullage._late import orjson
from ullage.counting.models import Model, ModelTable
from ullage.messages import SystemPrompt, Tools

__all__ = [
    "BINDING_HEADER",
    "COMPACT_HEADER",
    "MAX_MARKERS",
    "STRICT_VERSION",
    "RequestFacts",
    "facts_for",
    "json_bytes",
    "json_of",
    "size_of",
    "whole",
]

BINDING_HEADER = "thinking-binding-controls-2026-08-01"
COMPACT_HEADER = "compact-2026-09-04"
_TOOL_CHANGE_HEADERS = ("mid-conversation-tool-changes-2026-07-01", "inline-tools-2026-09-15")
_SAMPLING = ("temperature", "top_p", "top_k")
_OLD_VERSION = 2023_06_01
STRICT_VERSION = 2026_10_21
"""The version of Anthropic's API from which on A20 holds; what a request is judged by that names none."""
MAX_MARKERS = 4
"""Cache markers that a request may hold (A17)."""


class _Platform(NamedTuple):
    """Where a Claude model runs: what differs there from Anthropic's own API."""

    cloud: bool = False  # smaller images, PDFs counted by number
    strict: bool = False  # roles alternate, tools are required, the answer counts into the window, old versions


_PLATFORMS: Mapping[str, _Platform] = {
    "bedrock": _Platform(cloud=True, strict=True),
    "vertex": _Platform(cloud=True),
    "google": _Platform(cloud=True),
}
# Rough size of what is not in the messages, as everywhere before a model is calibrated.
_CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class RequestFacts:
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


def betas_of(params: Mapping[str, Any]) -> frozenset[str] | None:
    """Beta headers from `betas` or `extra_headers`; `None` if neither is given."""
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
    row, betas = known_model(model), betas_of(params)
    where = _PLATFORMS.get(platform, _Platform())
    old = where.strict and row is not None and _before_4_7(row)
    core: dict[str, Any] = {
        **(row.facts() if row else {}),
        "manual_thinking": _thinking(params).get("type") == "enabled",
        "image_mb": 5 if where.cloud else 10,
        "pdfs_count": where.cloud,
        "max_tokens": whole(params.get("max_tokens")),
        "fixed_tokens": (size_of(system) + size_of(tools)) // _CHARS_PER_TOKEN,
        "tools": None if tools is None else tuple(_names(tools)),
        "tools_required": where.strict,
        "alternation": where.strict,
        "markers": (*_markers(tools), *_markers(system)),
        "auto_cache": _ttl(params.get("cache_control")),
        "version": _OLD_VERSION if old else _version(params.get("anthropic_version")),
        "sampling": bool(params) and any(params.get(name) is not None for name in _SAMPLING),
        "resume": resume,
        "tool_changes": betas is not None and not betas.isdisjoint(_TOOL_CHANGE_HEADERS),
        "compact_beta": None if betas is None else COMPACT_HEADER in betas,
        "compact_edit": any(_kind(edit).startswith("compact_") for edit in _edits(params)),
    }
    if where.strict:
        core["output_in_window"] = True
    drop = _drop_block(params) and (betas is None or BINDING_HEADER in betas)
    bound = bool(facts.pop("bound_thinking", row is not None and row.bound_thinking))
    return RequestFacts({**core, **facts}, bound, drop, betas)


@lru_cache(64)
def known_model(name: str | None) -> Model | None:
    """The row of a model; an unknown one is judged by the rules of the newest, without limits."""
    return ModelTable.builtin().find(name) if name else None


def _before_4_7(row: Model) -> bool:
    """Bedrock refuses what the version of October 2026 refuses for Claude 4.7 and later only."""
    return "enabled" in row.thinking or "adaptive" not in row.thinking


def _thinking(params: Mapping[str, Any]) -> Mapping[str, Any]:
    given = params.get("thinking")
    return given if isinstance(given, Mapping) else {}


def _drop_block(params: Mapping[str, Any]) -> bool:
    binding = _thinking(params).get("block_binding")
    return isinstance(binding, Mapping) and binding.get("prefix_mismatch_behavior") == "drop_block"


def _edits(params: Mapping[str, Any]) -> Iterable[Any]:
    management = params.get("context_management")
    edits = management.get("edits") if isinstance(management, Mapping) else None
    return edits if isinstance(edits, list | tuple) else ()


def _kind(block: Any) -> str:
    return str(block.get("type", "")) if isinstance(block, Mapping) else ""


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


def _version(value: Any) -> int:
    digits = str(value or "").replace("-", "")
    return int(digits) if digits.isascii() and digits.isdigit() else STRICT_VERSION


def whole(value: Any) -> int:
    """A count; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def json_bytes(value: Any) -> int:
    """Bytes of a value as compact JSON, what is no JSON as its `repr`; 0 if even that cannot be written."""
    return len(json_of(value))


def json_of(value: Any) -> bytes:
    """A value as compact JSON, what is no JSON as its `repr`; empty if even that cannot be written."""
    try:
        # Without looking for keys that are no strings: that takes half as long.
        return orjson.dumps(value, default=repr)
    except TypeError:
        pass
    try:
        return orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # too deep, or an integer out of range: reported where it stands
        return b""


def size_of(value: Any) -> int:
    """Characters of a system prompt or of tool definitions."""
    if value is None or isinstance(value, str):
        return len(value or "")
    try:
        return len(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS))
    except TypeError:  # too deep, or an integer out of range: refused elsewhere
        return 0

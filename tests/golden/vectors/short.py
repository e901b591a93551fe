"""A short notation for messages: `[U("hi"), A(use("t1")), U(result("t1"))]`."""

from __future__ import annotations

import base64
from typing import Any

from ullage.testing.generator import pdf, png, sign_thinking

OLD = "claude-sonnet-4-5"  # takes prefill; 200k window; no system messages inside
MID = "claude-opus-4-6"  # no prefill; 1M window; thinking not bound
NEW = "claude-opus-5-5"  # no prefill; system messages inside; thinking bound to its prefix
FIVE = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
TOOL = {"name": "Read", "description": "Read a file.", "input_schema": {"type": "object"}}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}


def _content(parts: tuple[Any, ...]) -> Any:
    if len(parts) == 1 and isinstance(parts[0], str):
        return parts[0]
    return [text(part) if isinstance(part, str) else part for part in parts]


def U(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": _content(parts)}


def A(*parts: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": _content(parts)}


def S(*parts: Any, **extra: Any) -> dict[str, Any]:
    return {"role": "system", "content": _content(parts), **extra}


def text(value: str, **extra: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **extra}


def use(name: str, *, tool: str = "Read", **extra: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": {"file_path": "/a"}, **extra}


def result(name: str, content: Any = "ok", **extra: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": content, **extra}


def think(words: str = "hm", **extra: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": "", **extra}


def server(name: str, tool: str = "web_search") -> dict[str, Any]:
    return {"type": "server_tool_use", "id": name, "name": tool, "input": {"query": "q"}}


def found(name: str, kind: str = "web_search_tool_result") -> dict[str, Any]:
    hit = {"type": "web_search_result", "url": "https://e.example", "title": "t"}
    hit["encrypted_content"] = "RXhhbXBsZQ=="
    return {"type": kind, "tool_use_id": name, "content": [hit]}


def image(width: int = 8, height: int = 8, media_type: str = "image/png") -> dict[str, Any]:
    data = base64.b64encode(png(width, height)).decode("ascii")
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def document(pages: int = 1) -> dict[str, Any]:
    data = base64.b64encode(pdf(pages)).decode("ascii")
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    return {"type": "document", "source": source}


def signed(*messages: Any, model: str = NEW, system: Any = None, tools: Any = None) -> list[Any]:
    """The conversation as the model saw it: all thinking signed for its place."""
    return sign_thinking(messages, system=system, tools=tools, model=model)


def vector(
    name: str,
    rule: str,
    about: str,
    messages: list[Any],
    *,
    provider: str = "anthropic",
    model: str = NEW,
    errors: str = "",
    any_of: str = "",
    also: str = "",
    warnings: str = "",
    original: Any = None,
    version: str = "2026-10-21",
    betas: str = "",
    resume: str = "",
    repeat: list[Any] | None = None,
    window: int = 0,
    strict: bool = False,
    key: str = "messages",
    **request: Any,
) -> dict[str, Any]:
    """One vector; lists of rules and betas are given as words in a string."""
    made: dict[str, Any] = {"id": name, "rule": rule, "about": about, "provider": provider}
    made["model"] = model
    if provider == "anthropic":
        made |= {"version": version, "betas": betas.split()}
        request.setdefault("max_tokens", 1024)
    made["request"] = {"model": model, **request, key: messages}
    optional = {"original": original, "resume": resume, "repeat": repeat}
    optional |= {"window": window, "strict": strict}
    made |= {name: value for name, value in optional.items() if value}
    made |= {"errors": errors.split(), "any": any_of.split(), "also": also.split()}
    return {**made, "warnings": warnings.split()}


def pair(
    name: str,
    rule: str,
    about: str,
    before: Any,
    after: Any,
    *,
    warnings: str = "",
    errors: str = "",
    **how: Any,
) -> dict[str, Any]:
    """Two requests of one conversation, and what the second does to the cache of the first (C, L05)."""
    given = [made if isinstance(made, dict) else {"messages": made} for made in (before, after)]
    made = {"id": name, "rule": rule, "about": about, "compare": given, "how": how}
    return {**made, "errors": errors.split(), "warnings": warnings.split()}


def rewrite(
    name: str,
    rule: str,
    about: str,
    before: Any,
    after: Any,
    *,
    errors: str = "",
    provider: str = "anthropic",
    **around: Any,
) -> dict[str, Any]:
    """A conversation and what an operation made of it; `after` may name the operation itself (X)."""
    made = {
        "id": name,
        "rule": rule,
        "about": about,
        "provider": provider,
        "before": before,
        "after": after,
    }
    return {**made, "around": around, "errors": errors.split(), "warnings": []}

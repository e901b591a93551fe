"""A23, A24: bytes and tokens. The count is simple and repeatable: this checker's own truth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from tests.oracle.checker.media import image_size, pdf_pages
from tests.oracle.checker.report import Finding, error
from tests.oracle.checker.request import Request, blocks_of, kind_of

__all__ = ["body_bytes", "check_size", "count_tokens"]

MAX_BODY = 32_000_000
_PAGE_TOKENS = 2_000
_IMAGE_TOKENS = 1_568


def body_bytes(body: Any) -> int:
    """Size of a body as compact JSON."""
    try:
        return len(orjson.dumps(body))
    except TypeError:  # lone surrogates: no JSON of an API can hold them
        return len(repr(body))


def count_tokens(body: dict[str, Any]) -> int:
    """Tokens of a request: a quarter of its characters, media by their size in pixels or pages."""
    chars = len(str(body.get("instructions") or ""))
    media = 0
    for key in ("system", "messages", "input"):
        more = _weigh(body.get(key))
        chars, media = chars + more[0], media + more[1]
    if body.get("tools"):
        chars += body_bytes(body["tools"])
    return (chars + 3) // 4 + media


def _weigh(value: Any) -> tuple[int, int]:
    """Characters and media tokens of any part of a request."""
    if isinstance(value, str):
        return len(value), 0
    if isinstance(value, dict) and kind_of(value) in ("image", "document"):
        return 0, _media(value)
    if isinstance(value, dict):
        value = [part for key, part in value.items() if key not in ("role", "type")]
    parts = value if isinstance(value, list) else ()
    chars = media = 0
    for part in parts:
        more = _weigh(part)
        chars, media = chars + more[0], media + more[1]
    return chars, media


def _media(block: dict[str, Any]) -> int:
    source = block.get("source")
    data = source.get("data") if isinstance(source, dict) else None
    if block["type"] == "document":
        return pdf_pages(block) * _PAGE_TOKENS or len(str(data)) // 4
    width, height = image_size(data)
    return min(-(-width // 28) * -(-height // 28) or _IMAGE_TOKENS, _IMAGE_TOKENS)


def check_size(request: Request, *, size: int | None = None) -> Iterator[Finding]:
    """Bytes first, since what is too large is turned away before anyone reads it."""
    size = body_bytes(request.body) if size is None else size
    if size > MAX_BODY:
        text = "Request exceeds the maximum allowed number of bytes"
        yield error("A23", (-1, -1), text, status=413, code="request_too_large")
        return
    facts, wanted = request.facts, request.body.get("max_tokens")
    wanted = wanted if isinstance(wanted, int) else 0
    if facts.max_output and wanted > facts.max_output:
        text = (
            f"max_tokens: {wanted} > {facts.max_output}, which is the maximum allowed number of output "
            f"tokens for {request.body.get('model')}"
        )
        yield error("A24", (-1, -1), text)
    if facts.window:
        yield from _window(request, count_tokens(request.body), wanted)


def _window(request: Request, tokens: int, wanted: int) -> Iterator[Finding]:
    facts = request.facts
    if tokens > facts.window:
        text = f"prompt is too long: {tokens} tokens > {facts.window} maximum"
        yield error("A24", (-1, -1), text)
    elif facts.output_in_window and tokens + wanted > facts.window:
        text = (
            f"input length and `max_tokens` exceed context limit: {tokens} + {wanted} > "
            f"{facts.window}, decrease input length or `max_tokens` and try again"
        )
        yield error("A24", (-1, -1), text)


def text_of(content: Any) -> str:
    """All text of a content, for scripts that look for words."""
    return "\n".join(str(b.get("text", "")) for b in blocks_of(content) if kind_of(b) == "text")

"""Adds up what one block, or one message's own fields, cost: rough and calibrated.

The twin of `rust/core/src/digest/meter.rs`.
"""

from __future__ import annotations

import json
from typing import Any

from ullage._reference import text as text_module
from ullage._reference.image import image_tokens
from ullage._reference.json_tally import json_features, json_length
from ullage._reference.view import check_json, is_list, saturate

__all__ = [
    "Meter",
]

Weights = text_module.Weights

# The C encoder; `check_json` has excluded what it must not see.
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode

MEDIA_ROUGH_TOKENS = 2000
"""TOK-1: what an image or a document counts in the rough estimate."""

DOCUMENT_TOKENS = 2000
"""Calibrated tokens of a document page: 1500 to 3000 of text, by Anthropic's guide."""

BASE64_CHARS_PER_PAGE = 1 << 17
"""98 KB a page: between printed text (10 to 50 KB) and scans (100 to 300 KB)."""

MAX_PAGES = 600
"""No provider takes longer documents."""


def _compact_length(value: Any) -> int:
    try:
        return len(_compact(value))
    except ValueError:  # an integer past the interpreter's limit, which can be set low
        return json_length(value)


class Meter:
    """Sums in 1/4096 token, rounded once at the end; rough counts are rounded per part."""

    __slots__ = ("_run", "_weights", "chars", "micro", "rough", "whole")

    def __init__(self, weights: Weights | None) -> None:
        self._weights = weights
        self.chars = self.rough = self.micro = self.whole = self._run = 0

    def text(self, text: str) -> None:
        self._run += len(text)
        if self._weights is not None:
            self._weigh(text_module.features(text))

    def json(self, value: Any, field: str) -> None:
        """A value as compact JSON."""
        check_json(value, field)
        self._run += _compact_length(value)
        if self._weights is not None:
            self._weigh(json_features(value))

    def either(self, value: Any, field: str) -> None:
        """A string as text, nothing for `None`, all else as JSON."""
        if isinstance(value, str):
            self.text(value)
        elif value is not None:
            self.json(value, field)

    def hidden(self, chars: int) -> None:
        """Thinking with a signature of this many characters.

        What stands there in clear may be empty or a shortened form, so that the longer of both counts.
        """
        if self._weights is not None:
            self.micro = max(self.micro, self._weights.hidden.weigh(chars))

    def encrypted(self, data: str) -> None:
        """Encrypted data: weighed by its length where the family says what that tells."""
        self._run += len(data)
        if self._weights is None:
            return
        if self._weights.hidden.per_char:
            self.micro += self._weights.hidden.weigh(len(data))
        else:
            self._weigh(text_module.features(data))

    def image(self, width: int, height: int) -> None:
        self.rough += MEDIA_ROUGH_TOKENS
        if self._weights is not None:
            self.whole += image_tokens(width, height, self._weights)

    def document(self, source: Any) -> None:
        """By its text where it has one, else by the size of its data."""
        self.rough += MEDIA_ROUGH_TOKENS
        parts = _document_texts(source)
        for part in parts or ():
            self.chars += len(part)
            if self._weights is not None:
                self._weigh(text_module.features(part))
        if parts is None:
            size = len(source) if isinstance(source, str) else 0
            pages = min(MAX_PAGES, max(1, -(-size // BASE64_CHARS_PER_PAGE)))
            self.whole += pages * DOCUMENT_TOKENS

    def end_part(self) -> None:
        """Rounds what was counted since the last part (TOK-1: a result is the sum of its blocks)."""
        self.chars += self._run
        self.rough += text_module.rough_tokens(self._run)
        self._run = 0

    def close(self, overhead: int) -> tuple[int, int, int]:
        """Calibrated tokens, rough tokens, characters; `overhead` in 1/4096 token."""
        self.end_part()
        rough = saturate(self.rough)
        if self._weights is None:
            return rough, rough, saturate(self.chars)
        tokens = self.whole + text_module.whole_tokens(self.micro + overhead)
        return saturate(tokens), rough, saturate(self.chars)

    def _weigh(self, features: tuple[int, ...]) -> None:
        if self._weights is not None:
            self.micro += self._weights.weigh(features)


def _document_texts(source: Any) -> list[str] | None:
    """The texts of a document that has some: `source` of type text or content; else `None`."""
    if not isinstance(source, dict):
        return None
    data, content = source.get("data"), source.get("content")
    if source.get("type") == "text" and isinstance(data, str):
        return [data]
    if source.get("type") != "content":
        return None
    if isinstance(content, str):
        return [content]
    parts: list[Any] = content if is_list(content) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str)]

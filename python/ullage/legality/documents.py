"""Pages of PDF documents (A22): read here, since a digest never decodes data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ullage._engine import core
from ullage._engine.digests import Violation
from ullage._late import pattern
from ullage.exceptions import InvalidMessage
from ullage.legality.originals import blocks_of

__all__ = ["check_pages", "documents_of", "pages_of"]

_PAGE = pattern(rb"/Type\s*/Page(?![a-zA-Z])")


def check_pages(messages: Sequence[Any], indices: Iterable[int], limit: int) -> Iterator[Violation]:
    """A22: PDF pages over the whole request.

    Args:
        messages: The conversation.
        indices: Which of them hold media.
        limit: Most pages; 0: no limit is known.
    """
    total, over = 0, (-1, -1)
    for index, position, document in _documents(messages, indices):
        total += pages_of(document)
        if total > limit and over[0] < 0:
            over = (index, position)
    if limit and total > limit:
        yield Violation("A22", "error", *over, f"{total} PDF pages, the limit is {limit}")


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
            nested = block.get("content") if isinstance(block, Mapping) else None
            for part in (block, *(nested if isinstance(nested, list | tuple) else ())):
                if isinstance(part, Mapping) and part.get("type") == "document":
                    yield index, position, part


def pages_of(document: Mapping[str, Any]) -> int:
    """Pages of a base64 PDF; 0 if it is none, or hides them in compressed streams."""
    source = document.get("source")
    data = source.get("data") if isinstance(source, Mapping) else None
    if not isinstance(source, Mapping) or not isinstance(data, str):
        return 0
    if source.get("media_type") != "application/pdf":
        return 0
    import base64
    import binascii

    try:
        return len(_PAGE.findall(base64.b64decode(data, validate=False)))
    except (binascii.Error, ValueError):
        return 0

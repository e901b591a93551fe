"""Images and documents over the limits (A21, A22): a placeholder in the request, the log keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ullage._engine import core
from ullage.legality.repairs.texts import DOCUMENT, IMAGE
from ullage.legality.repairs.working_copy import Draft, Slot, kind_of, text_block

__all__ = ["repair_media"]

MANY_IMAGES = 20
MAX_PX, MAX_MANY_PX = 8000, 2000
_FORMATS = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MIB = 1 << 20


def repair_media(draft: Draft, *, facts: Mapping[str, Any]) -> None:
    """Replaces what the API would refuse, the oldest first where it is the number.

    Args:
        draft: Changed.
        facts: The limits, as the verifier has them.
    """
    mib = int(facts.get("image_mb", 10))
    _replace(
        draft, "image", lambda image: _refused(image, mib), "an image of a form that is refused"
    )
    _limit(draft, "image", int(facts.get("image_limit", 100)))
    media = _count(draft, "image") + (_count(draft, "document") if facts.get("pdfs_count") else 0)
    if media > MANY_IMAGES:
        _replace(
            draft, "image", lambda image: _longest(image) > MAX_MANY_PX, "a large image among many"
        )
    _limit_pages(draft, int(facts.get("page_limit", 100)))


def _data(image: Mapping[str, Any]) -> tuple[str, str]:
    source = image.get("source")
    if isinstance(source, Mapping) and source.get("type") == "base64":
        return str(source.get("data") or ""), str(source.get("media_type") or "")
    return "", ""


def _refused(image: Mapping[str, Any], mib: int) -> bool:
    data, media_type = _data(image)
    if not data:
        return False
    return media_type not in _FORMATS or len(data) > mib * _MIB or _longest(image) > MAX_PX


def _longest(image: Mapping[str, Any]) -> int:
    data, _ = _data(image)
    return max(core.image_size(data)) if data else 0


def _each(draft: Draft, kind: str) -> Iterable[tuple[Slot, Any]]:
    for slot in draft.speaking():
        for block in slot.blocks:
            content = block.get("content") if kind_of(block) == "tool_result" else None
            parts = content if isinstance(content, list | tuple) else ()
            yield from ((slot, part) for part in (*parts, block) if kind_of(part) == kind)


def _count(draft: Draft, kind: str) -> int:
    return sum(1 for _ in _each(draft, kind))


def _replace(
    draft: Draft,
    kind: str,
    which: Callable[[Mapping[str, Any]], bool],
    what: str,
    rule: str = "A21",
) -> None:
    placeholder = IMAGE if kind == "image" else DOCUMENT
    for slot in draft.speaking():
        blocks = [_swapped(block, kind, which, placeholder) for block in slot.blocks]
        if any(a is not b for a, b in zip(blocks, slot.blocks, strict=True)):
            draft.note(rule, slot, f"replaced {what} by {placeholder}")
            slot.blocks = blocks


def _swapped(block: Any, kind: str, which: Callable[[Mapping[str, Any]], bool], text: str) -> Any:
    if kind_of(block) == kind:
        return _marked(text, block) if which(block) else block
    content = block.get("content") if kind_of(block) == "tool_result" else None
    if not isinstance(content, list | tuple):
        return block
    parts = [
        _marked(text, part) if kind_of(part) == kind and which(part) else part for part in content
    ]
    same = all(a is b for a, b in zip(parts, content, strict=True))
    return block if same else {**block, "content": parts}


def _marked(text: str, old: Mapping[str, Any]) -> dict[str, Any]:
    """A placeholder; the cache marker of what it stands for stays."""
    marker = old.get("cache_control")
    return text_block(text) if marker is None else {**text_block(text), "cache_control": marker}


def _limit(draft: Draft, kind: str, limit: int) -> None:
    left = [_count(draft, kind) - limit]

    def oldest(_: Mapping[str, Any]) -> bool:
        left[0] -= 1
        return left[0] >= 0

    if left[0] > 0:
        _replace(draft, kind, oldest, "an image over the number that a request may hold")


def _limit_pages(draft: Draft, limit: int) -> None:
    sized = [(id(document), _pages(document)) for _, document in _each(draft, "document")]
    total, gone = sum(pages for _, pages in sized), set()
    for name, pages in sized:
        if total <= limit:
            break
        if pages:
            gone.add(name)
            total -= pages
    if gone:
        _replace(
            draft, "document", lambda each: id(each) in gone, "a document over the pages", "A22"
        )


def _pages(document: Mapping[str, Any]) -> int:
    ledger = core.Ledger(None, [{"role": "user", "content": [document]}])
    return int(ledger.blocks(0)[0].aux)

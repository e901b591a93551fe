"""A17 to A19, A32: cache markers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.oracle.checker.report import Finding, error
from tests.oracle.checker.request import Request, blocks_of, is_blank, kind_of

__all__ = ["check_cache"]

MAX_MARKERS = 4
_PRIVATE = ("cache_edits", "cache_reference")


class _Marked(NamedTuple):
    path: str
    at: tuple[int, int]
    block: Any
    marker: Any

    @property
    def ttl(self) -> str:
        return str(self.marker.get("ttl") or "5m") if isinstance(self.marker, dict) else "5m"


def check_cache(request: Request) -> Iterator[Finding]:
    """Number, order and place of the markers, and that nothing private is sent."""
    marked = [item for item in _carriers(request) if item.marker is not None]
    automatic = request.body.get("cache_control")
    if automatic is not None:
        marked.append(_Marked("request", (-1, -1), {}, automatic))
        yield from _automatic(request, automatic)
    if len(marked) > MAX_MARKERS:
        text = f"A maximum of 4 blocks with cache_control may be provided. Found {len(marked)}."
        yield error("A17", (-1, -1), text)
    yield from _order(marked)
    for item in marked:
        yield from _form(item)
        yield from _place(item)
    yield from _private(request)


def _carriers(request: Request) -> Iterator[_Marked]:
    """All that may carry a marker, in the order in which the API goes through them."""
    for at, tool in enumerate(request.tools):
        yield _Marked(f"tools.{at}", (-1, -1), tool, tool.get("cache_control"))
    for at, block in enumerate(blocks_of(request.body.get("system"))):
        if isinstance(block, dict):
            yield _Marked(f"system.{at}", (-1, -1), block, block.get("cache_control"))
    for place in request.places():
        if not isinstance(place.value, dict):
            continue
        for at, inner in enumerate(request.nested(place)):
            if isinstance(inner, dict):
                path = f"{place.path}.content.{at}"
                yield _Marked(path, place.at, inner, inner.get("cache_control"))
        yield _Marked(place.path, place.at, place.value, place.value.get("cache_control"))


def _order(marked: list[_Marked]) -> Iterator[Finding]:
    short = False
    for item in marked:
        if item.ttl == "1h" and short:
            text = (
                f"{item.path}.cache_control.ttl: a ttl='1h' cache_control block must not come after a "
                "ttl='5m' cache_control block. Note that blocks are processed in the following order: "
                "`tools`, `system`, `messages`."
            )
            yield error("A18", item.at, text)
        short = short or item.ttl == "5m"


def _automatic(request: Request, marker: Any) -> Iterator[Finding]:
    """The automatic marker goes to the last block: none of another duration may be there."""
    last = None
    for item in _carriers(request):
        last = item
    explicit = last.marker if last else None
    if explicit is None or last is None:
        return
    if last.ttl != _Marked("", (-1, -1), {}, marker).ttl:
        text = f"{last.path}.cache_control.ttl: differs from the automatic marker on the same block"
        yield error("A18", last.at, text)


def _form(item: _Marked) -> Iterator[Finding]:
    marker = item.marker
    good = isinstance(marker, dict) and marker.get("type") == "ephemeral"
    good = good and marker.keys() <= {"type", "ttl"} and marker.get("ttl", "5m") in ("5m", "1h")
    if not good:
        yield error("A32", item.at, f"{item.path}.cache_control: Extra inputs are not permitted")


def _place(item: _Marked) -> Iterator[Finding]:
    kind = kind_of(item.block)
    if kind in ("thinking", "redacted_thinking"):
        text = f"{item.path}.{kind}.cache_control: Extra inputs are not permitted"
        yield error("A19", item.at, text)
    elif kind == "text" and is_blank(item.block.get("text")):
        text = f"{item.path}.text: cache_control cannot be set for empty text blocks"
        yield error("A19", item.at, text)


def _private(request: Request) -> Iterator[Finding]:
    for key in _PRIVATE:
        if key in request.body:
            yield error("A32", (-1, -1), f"{key}: Extra inputs are not permitted")
    for place in request.places():
        for block in (place.value, *request.nested(place)):
            for key in _PRIVATE:
                if isinstance(block, dict) and key in block:
                    text = f"{place.path}.{key}: Extra inputs are not permitted"
                    yield error("A32", place.at, text)
            if kind_of(block) in _PRIVATE:
                yield error("A32", place.at, f"{place.path}: Input tag '{kind_of(block)}'")

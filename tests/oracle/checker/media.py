"""A21, A22: images and documents; sizes are read from the files themselves."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Iterator
from typing import Any

from tests.oracle.checker.report import Finding, error
from tests.oracle.checker.request import Place, Request, kind_of

__all__ = ["check_media", "image_size", "pdf_pages"]

_FORMATS = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MANY = 20  # images beyond which each must be small
_MANY_PX, _MAX_PX, _MAX_BASE64 = 2000, 8000, 10 * 1024 * 1024
_PAGE = re.compile(rb"/Type\s*/Page(?![s\w])")


def check_media(request: Request) -> Iterator[Finding]:
    """Number, format and size."""
    limit = request.facts.media_limit
    images = [(place, block) for place, block in _all(request, "image")]
    if len(images) > limit:
        yield error("A21", (-1, -1), f"messages: too many images: {len(images)} > {limit} maximum")
    for place, block in images:
        yield from _image(place, block, len(images) > _MANY)
    pages = sum(pdf_pages(block) for _, block in _all(request, "document"))
    if pages > limit:
        yield error(
            "A22", (-1, -1), f"A maximum of {limit} PDF pages may be provided. Found {pages}."
        )


def _all(request: Request, kind: str) -> Iterator[tuple[Place, Any]]:
    for place in request.places():
        for block in (place.value, *request.nested(place)):
            if kind_of(block) == kind:
                yield place, block


def _image(place: Place, block: Any, many: bool) -> Iterator[Finding]:
    source = block.get("source")
    if not isinstance(source, dict) or source.get("type") != "base64":
        return
    data, path = source.get("data"), f"{place.path}.image.source.base64"
    if source.get("media_type") not in _FORMATS:
        text = f"{path}.media_type: Input should be {', '.join(_FORMATS)}"
        yield error("A21", place.at, text)
    if isinstance(data, str) and len(data) > _MAX_BASE64:
        text = f"{path}: image exceeds 10 MB maximum: {len(data)} bytes > {_MAX_BASE64} bytes"
        yield error("A21", place.at, text)
    side = max(image_size(data))
    if side > _MAX_PX:
        text = f"{path}.data: At least one of the image dimensions exceed max allowed size: 8000 pixels"
        yield error("A21", place.at, text)
    elif many and side > _MANY_PX:
        text = (
            f"{path}.data: At least one of the image dimensions exceed max allowed size for many-image "
            "requests: 2000 pixels"
        )
        yield error("A21", place.at, text)


def _head(data: Any, length: int) -> bytes:
    if not isinstance(data, str):
        return b""
    try:
        return base64.b64decode(data[: length * 4], validate=False)
    except (binascii.Error, ValueError):
        return b""


def image_size(data: Any) -> tuple[int, int]:
    """Width and height of a base64 PNG, GIF, WebP or JPEG; (0, 0) if they cannot be read."""
    raw = _head(data, 16)
    if raw[:8] == b"\x89PNG\r\n\x1a\n" and len(raw) >= 24:
        return struct.unpack(">II", raw[16:24])
    if raw[:3] == b"GIF" and len(raw) >= 10:
        return struct.unpack("<HH", raw[6:10])
    if raw[:4] == b"RIFF" and raw[12:16] == b"VP8X" and len(raw) >= 30:
        width = int.from_bytes(raw[24:27], "little") + 1
        return width, int.from_bytes(raw[27:30], "little") + 1
    return _jpeg_size(_head(data, 50_000)) if raw[:2] == b"\xff\xd8" else (0, 0)


def _jpeg_size(raw: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        marker, length = raw[at + 1], int.from_bytes(raw[at + 2 : at + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return 0, 0


def pdf_pages(block: Any) -> int:
    """Pages of a base64 PDF block; 0 for other documents."""
    source = block.get("source") if isinstance(block, dict) else None
    if not isinstance(source, dict) or source.get("media_type") != "application/pdf":
        return 0
    data = source.get("data")
    return len(_PAGE.findall(_head(data, len(data)))) if isinstance(data, str) else 0

"""Sizes of images, what they cost, and where images and documents keep their data."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final, Literal

from ullage._engine.digests import BlockFlag as F
from ullage._reference.text import _U32, ImageRule, Weights, _integer, _string

if TYPE_CHECKING:
    from ullage._reference.read import Draft


# Sizes of base64 images, read from their heads, and what they cost.
#
# Twin of `rust/core/src/text/image.rs`.


def image_tokens(width: int, height: int, weights: Weights) -> int:
    """Tokens of an image: patches after scaling down to the rule's edge and to its most patches."""
    _integer("width", width, 0, _U32)
    _integer("height", height, 0, _U32)
    rule = weights.image
    if width == 0 or height == 0 or rule.patch_px == 0:
        return rule.default_tokens
    # Patches grow with the edge: the largest edge that fits is found by halving.
    fits, fails = 1, min(max(width, height), max(rule.max_edge_px, 1)) + 1
    while fails - fits > 1:
        edge = (fits + fails) // 2
        if _patches(width, height, edge, rule) <= rule.max_tokens:
            fits = edge
        else:
            fails = edge
    return _patches(width, height, fits, rule)


def _patches(width: int, height: int, edge: int, rule: ImageRule) -> int:
    long = max(width, height)
    wide, high = (-(-max(px * edge // long, 1) // rule.patch_px) for px in (width, height))
    return wide * high


def image_size(data: str) -> tuple[int, int]:
    """Width and height in pixels of a base64 image; (0, 0) if it is none of PNG, JPEG, GIF, WebP."""
    head = _Base64(_string(data))
    try:
        size = _image_size(head)
    except _End:
        return (0, 0)
    return size if size[0] and size[1] else (0, 0)


def _image_size(head: _Base64) -> tuple[int, int]:
    if head.starts(0, b"\x89PNG\r\n\x1a\n"):
        return head.number(16, 4, "big"), head.number(20, 4, "big")
    if head.starts(0, b"GIF8"):
        return head.number(6, 2, "little"), head.number(8, 2, "little")
    if head.starts(0, b"RIFF") and head.starts(8, b"WEBP"):
        return _webp(head)
    return _jpeg(head) if head.starts(0, b"\xff\xd8") else (0, 0)


def _webp(head: _Base64) -> tuple[int, int]:
    if head.starts(12, b"VP8X"):
        return head.number(24, 3, "little") + 1, head.number(27, 3, "little") + 1
    if head.starts(12, b"VP8L"):
        bits = head.number(21, 4, "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if head.starts(12, b"VP8 "):
        return head.number(26, 2, "little") & 0x3FFF, head.number(28, 2, "little") & 0x3FFF
    return (0, 0)


def _jpeg(head: _Base64) -> tuple[int, int]:
    at = 2
    while head.number(at, 1, "big") == 0xFF:
        marker = head.number(at + 1, 1, "big")
        if marker == 0xFF:
            at += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD7:
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return head.number(at + 7, 2, "big"), head.number(at + 5, 2, "big")
        elif marker in (0xD9, 0xDA):
            break
        else:
            at += 2 + max(head.number(at + 2, 2, "big"), 2)
    return (0, 0)


class _End(Exception):
    """The data ends, or is no base64, before the byte that was asked for."""


class _Base64:
    """Bytes of base64 text, readable at any position without decoding those before it."""

    __slots__ = ("_chars",)

    def __init__(self, chars: str) -> None:
        self._chars = chars

    def read(self, at: int, size: int) -> bytes:
        # Byte 3k + r spans the characters 4k + r and 4k + r + 1.
        end = at + size - 1
        chars = self._chars[at // 3 * 4 : end // 3 * 4 + end % 3 + 2]
        wanted = end // 3 * 4 + end % 3 + 2 - at // 3 * 4
        if len(chars) < wanted or not _ALPHABET.fullmatch(chars, at % 3):
            raise _End
        # What stands before the first character asked for need not be base64.
        chars = "A" * (at % 3) + chars[at % 3 :]
        decoded = base64.b64decode(chars + "A" * (-len(chars) % 4))[at % 3 : at % 3 + size]
        return decoded

    def number(self, at: int, size: int, order: Literal["big", "little"]) -> int:
        """An unsigned integer of so many bytes."""
        return int.from_bytes(self.read(at, size), order)

    def starts(self, at: int, wanted: bytes) -> bool:
        """Whether these bytes stand there."""
        try:
            return self.read(at, len(wanted)) == wanted
        except _End:
            return False


_ALPHABET: Final = re.compile("[A-Za-z0-9+/]+")


# Where images and documents keep their data. The twin of `rust/core/src/digest/sources.rs`.


_FORMATS: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_MIB: Final = 1 << 20


def read_image(block: dict[str, Any], draft: Draft) -> tuple[int, int]:
    """Counts an image and flags what limits it breaks; its size in pixels, 0 where unknown."""
    data, media_type = image_data(block)
    width, height = image_size(data) if data else (0, 0)
    draft.meter.image(width, height)
    if data is not None:
        draft.flags |= 0 if media_type in _FORMATS else F.BAD_FORMAT
        draft.flags |= F.OVER_5MB if len(data) > 5 * _MIB else 0
        draft.flags |= F.OVER_10MB if len(data) > 10 * _MIB else 0
    side = max(width, height)
    draft.flags |= F.OVER_2000PX if side > 2000 else 0
    draft.flags |= F.OVER_8000PX if side > 8000 else 0
    return width, height


def image_data(block: dict[str, Any]) -> tuple[str | None, str | None]:
    """Base64 data and media type of an image in the request; `None` for one that lies elsewhere."""
    source = block.get("source")
    if isinstance(source, dict):
        data, media_type = source.get("data"), source.get("media_type")
        if source.get("type") != "base64" or not isinstance(data, str):
            return None, None
        return data, media_type if isinstance(media_type, str) else None
    image = block.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    return _data_url(url)


def _data_url(url: Any) -> tuple[str | None, str | None]:
    """The two parts of `data:media/type;base64,...`."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return None, None
    head, comma, data = url.partition(",")
    return (data, head[5:].split(";")[0]) if comma else (None, None)


def document_source(block: dict[str, Any]) -> Any:
    """The `source` of a document with text in it; else its base64 data, or `None`."""
    source = block.get("source")
    if isinstance(source, dict):
        if source.get("type") in ("text", "content"):
            return source
        return source.get("data")
    file = block.get("file")
    return file.get("file_data") if isinstance(file, dict) else block.get("file_data")

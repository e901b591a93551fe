"""Sizes of base64 images, read from their heads, and what they cost.

Twin of `rust/core/src/text/image.rs`.
"""

from __future__ import annotations

import base64
import re
from typing import Final, Literal

from ullage._reference.text import _U32, ImageRule, Weights, _integer, _string

__all__ = ["image_size", "image_tokens"]


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
        found = base64.b64decode(chars + "A" * (-len(chars) % 4))[at % 3 : at % 3 + size]
        return found

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

"""Small valid media files: PNG, JPEG and PDF of a given size, as base64 blocks."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from ullage.testing._rng import Rng


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *, extra: bytes = b"") -> bytes:
    """A grey PNG of that size that any decoder opens.

    One bit per pixel and compressed, so that 8000 x 8000 pixels take some 8 KB; `extra` bytes go
    into a private chunk, to make the file as heavy as a real screenshot.
    """
    row = b"\0" + b"\0" * ((width + 7) // 8)
    packer = zlib.compressobj(6)
    body = b"".join([packer.compress(row) for _ in range(height)]) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    padding = _chunk(b"prVt", extra) if extra else b""
    chunks = _chunk(b"IHDR", head) + padding + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


# One Huffman code, "0", for the value 0: every 8 x 8 square is then the two bits 00, mid-grey.
_HUFFMAN = b"".join([_segment(0xC4, bytes([which, 1]) + b"\0" * 16) for which in (0x00, 0x10)])


def jpeg(width: int, height: int, *, extra: bytes = b"") -> bytes:
    """A grey baseline JPEG of that size; `extra` goes into a comment (at most 65 533 bytes)."""
    squares = ((width + 7) // 8) * ((height + 7) // 8)
    bits, rest = divmod(squares * 2, 8)
    tail = bytes([(1 << (8 - rest)) - 1]) if rest else b""  # the last byte is filled with ones
    head = struct.pack(">BHHBBBB", 8, height, width, 1, 1, 0x11, 0)
    parts = [
        b"\xff\xd8",
        _segment(0xFE, extra[:65533]) if extra else b"",
        _segment(0xDB, b"\0" + b"\1" * 64),
        _segment(0xC0, head),
        _HUFFMAN,
        _segment(0xDA, b"\1\1\0\0\x3f\0"),
        b"\0" * bits + tail,
        b"\xff\xd9",
    ]
    return b"".join(parts)


_FONT = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
_PAGE = f"/MediaBox[0 0 612 792]/Resources<</Font<</F1{_FONT}>>>>"


def pdf(pages: int, *, text: str = "page") -> bytes:
    """A PDF of that many pages with one line of text on each."""
    kids = " ".join([f"{3 + 2 * n} 0 R" for n in range(pages)])
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {pages}/Kids[{kids}]>>",
    ]
    for n in range(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text} {n + 1}) Tj ET"
        objects.append(f"<</Type/Page/Parent 2 0 R{_PAGE}/Contents {4 + 2 * n} 0 R>>")
        objects.append(f"<</Length {len(stream)}>>stream\n{stream}\nendstream")
    return _numbered(objects)


def _numbered(objects: list[str]) -> bytes:
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj{body}endobj\n".encode("latin-1")
    table = "".join([f"{offset:010} 00000 n \n" for offset in offsets])
    size = len(objects) + 1
    xref = f"xref\n0 {size}\n0000000000 65535 f \n{table}"
    trailer = f"trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + xref.encode() + trailer.encode()


def _source(media_type: str, data: bytes) -> dict[str, Any]:
    encoded = base64.b64encode(data).decode("ascii")
    return {"type": "base64", "media_type": media_type, "data": encoded}


_SIZES = ((320, 200), (640, 480), (1280, 720), (1440, 900), (1092, 1092), (390, 844), (1568, 1003))


def image_block(rng: Rng, *, width: int = 0, height: int = 0) -> dict[str, Any]:
    """An `image` block: a PNG or JPEG of a usual screen size (0: chosen), as heavy as a small one."""
    if not (width and height):
        width, height = rng.pick(_SIZES)
    extra = rng.noise(rng.between(400, 6000))
    if rng.chance(60):
        return {"type": "image", "source": _source("image/png", png(width, height, extra=extra))}
    return {"type": "image", "source": _source("image/jpeg", jpeg(width, height, extra=extra))}


def pdf_block(rng: Rng, *, pages: int = 0) -> dict[str, Any]:
    """A `document` block with a PDF (`pages` 0: one to twelve)."""
    data = pdf(pages or rng.between(1, 12), text="Quarterly report, page")
    return {"type": "document", "source": _source("application/pdf", data)}

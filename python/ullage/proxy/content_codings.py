"""Unpacks what a provider packed, to be read here; what is passed on stays packed as it came."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Mapping

__all__ = ["decoded"]

_MOST_BYTES = 64 * 1024 * 1024
"""Largest answer that is unpacked."""


def decoded(encoding: str, data: bytes) -> bytes | None:
    """The content of a body, up to where it was cut off; `None`: it is packed in a way that cannot be read here.

    Args:
        encoding: Of the header `Content-Encoding`: one name, or empty.
        data: As it came.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return data
    unpack = _UNPACK.get(name)
    try:
        return None if unpack is None else unpack(data)
    except Exception:  # each library has an error of its own for damaged data, and may be missing
        return None


def _deflated(data: bytes) -> bytes:
    return zlib.decompressobj(wbits=47).decompress(data, _MOST_BYTES)


def _brotli(data: bytes) -> bytes:
    import brotli

    return bytes(brotli.Decompressor().process(data, output_buffer_limit=_MOST_BYTES))


def _zstd(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return bytes(zstd.ZstdDecompressor().decompress(data, _MOST_BYTES))


_UNPACK: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": _deflated,
    "x-gzip": _deflated,
    "deflate": _deflated,
    "br": _brotli,
    "zstd": _zstd,
}

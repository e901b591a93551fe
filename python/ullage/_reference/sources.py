"""Where images and documents keep their data. The twin of `rust/core/src/digest/sources.rs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ullage._reference.digest import BlockFlag, plain
from ullage._reference.image import image_size

if TYPE_CHECKING:
    from ullage._reference.blocks import Draft

__all__ = ["document_source", "image_data", "read_image"]

F = plain(BlockFlag)
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

"""Images and documents (A21, A22)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ullage._reference.digest import BlockDigest, BlockFlag, BlockKind
from ullage._reference.rules.facts import Facts
from ullage._reference.rules.findings import Findings
from ullage._reference.rules.view import View

__all__ = ["Media"]

# More images than this in one request, and every one of them must keep to 2000 px per side.
MANY_IMAGES = 20


@dataclass(slots=True)
class Media:
    """Counts over the whole request; results inside tool results included."""

    images: int = 0
    documents: int = 0
    pages: int = 0
    pages_over: tuple[int, int] | None = None

    def copy(self) -> Media:
        return replace(self)

    def feed(self, index: int, view: View, facts: Facts, out: Findings) -> None:
        for position, block in enumerate(view.blocks):
            if block.kind == BlockKind.DOCUMENT:
                self._document(index, position, block, facts)
            elif block.kind == BlockKind.IMAGE or block.flags & BlockFlag.NESTED_MEDIA:
                self._image(index, position, block, facts, out)

    def _document(self, index: int, position: int, block: BlockDigest, facts: Facts) -> None:
        self.documents += 1
        self.pages += block.aux
        if self.pages > facts.page_limit and self.pages_over is None:
            self.pages_over = (index, position)

    def _image(
        self, index: int, position: int, block: BlockDigest, facts: Facts, out: Findings
    ) -> None:
        self.images += 1 if block.kind == BlockKind.IMAGE else block.aux & 0xFFFF
        flags = block.flags
        if flags & BlockFlag.BAD_FORMAT:
            out.error("A21", index, position, "image is not jpeg, png, gif or webp")
        if flags & BlockFlag.OVER_8000PX:
            out.error("A21", index, position, "image has a side over 8000 px")
        over = BlockFlag.OVER_5MB if facts.image_mb < 10 else BlockFlag.OVER_10MB
        if flags & over:
            out.error("A21", index, position, f"image is over {facts.image_mb} MB in base64")
        if flags & BlockFlag.OVER_2000PX:
            out.large.append((index, position))

    def finish(self, facts: Facts, out: Findings) -> None:
        if self.images > facts.image_limit:
            out.error("A21", -1, -1, f"{self.images} images, the limit is {facts.image_limit}")
        if self.images + (self.documents if facts.pdfs_count else 0) > MANY_IMAGES:
            for message, block in out.large:
                out.error(
                    "A21",
                    message,
                    block,
                    f"image has a side over 2000 px among more than {MANY_IMAGES}",
                )
        if self.pages_over is not None:
            message, block = self.pages_over
            out.error(
                "A22", message, block, f"{self.pages} PDF pages, the limit is {facts.page_limit}"
            )

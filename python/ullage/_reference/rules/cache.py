"""Cache markers: how many, and in which order (A17, A18)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ullage._reference.digest import BlockDigest, BlockFlag, BlockKind
from ullage._reference.rules.facts import Facts
from ullage._reference.rules.findings import Findings
from ullage._reference.rules.view import View

__all__ = ["CacheMarkers"]

MAX_MARKERS = 4
MARKER = BlockFlag.CACHE_5M | BlockFlag.CACHE_1H | BlockFlag.CACHE_BAD


@dataclass(slots=True)
class CacheMarkers:
    """Markers in the order tools, system, messages. A marker of unknown TTL counts as 5m."""

    count: int = 0
    short_seen: bool = False
    over: tuple[int, int] | None = None  # the first marker beyond the limit
    last_ttl: str = ""  # of the very last block, "" if it has none

    @classmethod
    def start(cls, facts: Facts) -> CacheMarkers:
        return cls(
            count=len(facts.markers) + bool(facts.auto_cache), short_seen="5m" in facts.markers
        )

    def copy(self) -> CacheMarkers:
        return replace(self)

    def feed(self, index: int, view: View, out: Findings) -> None:
        for position, block in enumerate(view.blocks):
            self.last_ttl = ""
            if block.flags & (MARKER | BlockFlag.NESTED_CACHE):
                self._block(index, position, block, out)

    def _block(self, index: int, position: int, block: BlockDigest, out: Findings) -> None:
        # What is inside a result comes before the result's own marker.
        if block.kind == BlockKind.TOOL_RESULT:
            self._note(index, position, "1h", block.aux >> 24 & 0xFF, out)
            self._note(index, position, "5m", block.aux >> 16 & 0xFF, out)
        if block.flags & MARKER:
            self.last_ttl = "1h" if block.flags & BlockFlag.CACHE_1H else "5m"
            self._note(index, position, self.last_ttl, 1, out)

    def _note(self, index: int, position: int, ttl: str, times: int, out: Findings) -> None:
        if times == 0:
            return
        self.count += times
        if self.count > MAX_MARKERS and self.over is None:
            self.over = (index, position)
        if ttl == "5m":
            self.short_seen = True
        elif self.short_seen:
            out.error("A18", index, position, "a 1h cache marker comes after a 5m one")

    def finish(self, facts: Facts, out: Findings) -> None:
        if self.count > MAX_MARKERS:
            message, block = self.over or (-1, -1)
            out.error(
                "A17", message, block, f"{self.count} cache markers, the limit is {MAX_MARKERS}"
            )
        if "1h" in facts.markers and "5m" in facts.markers[: _last(facts.markers, "1h")]:
            out.error("A18", -1, -1, "a 1h cache marker of tools or system comes after a 5m one")
        if facts.auto_cache == "1h" and self.short_seen:
            out.error("A18", -1, -1, "the automatic cache marker is 1h and comes after a 5m one")
        elif facts.auto_cache == "5m" and self.last_ttl == "1h":
            out.error("A18", -1, -1, "the automatic cache marker and the last block's differ")


def _last(markers: tuple[str, ...], ttl: str) -> int:
    return len(markers) - 1 - markers[::-1].index(ttl)

"""Blocks with rules of their own: compaction, citations, fallback, tool changes (A25, A27, A28, A31)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ullage._reference.digest import BlockDigest, BlockFlag, BlockKind, Role
from ullage._reference.rules.blocks import KIND_NAMES
from ullage._reference.rules.facts import Facts
from ullage._reference.rules.findings import Findings, short
from ullage._reference.rules.view import View

__all__ = ["Special"]

BY_REFERENCE, REMOVAL, BY_DEFINITION, OF_SERVER = 1, 2, 3, 4  # aux of a tool change
# Types that a fallback leaves over: they may not come before the turn's last fallback block.
NOT_BEFORE_FALLBACK = (BlockKind.THINKING, BlockKind.REDACTED_THINKING, BlockKind.TOOL_USE)


@dataclass(slots=True)
class Special:
    """State over the request for the rarer kinds of blocks."""

    role: int = Role.NONE
    first: bool = True  # no message was read yet
    compactions: int = 0  # with content
    cited: bool = False
    uncited: bool = False
    hop: list[tuple[int, int, int]] = field(default_factory=list)  # kind, message, block
    calls: dict[int, tuple[int, int]] = field(default_factory=dict)  # server calls open in the turn
    defined: set[str] = field(default_factory=set)  # tools that the conversation itself defined

    def copy(self) -> Special:
        return replace(
            self, hop=self.hop.copy(), calls=self.calls.copy(), defined=self.defined.copy()
        )

    def remembered(self) -> int:
        """Blocks and names that it remembers."""
        return len(self.hop) + len(self.calls) + len(self.defined)

    def feed(self, index: int, role: int, view: View, facts: Facts, out: Findings) -> None:
        if role != self.role:
            self.role = role
            self.hop.clear()
            self.calls.clear()
        for position, block in enumerate(view.blocks):
            self._block(index, position, role, block, view, facts, out)
        self.first = False

    def _block(
        self,
        index: int,
        at: int,
        role: int,
        block: BlockDigest,
        view: View,
        facts: Facts,
        out: Findings,
    ) -> None:
        kind = block.kind
        if kind == BlockKind.COMPACTION:
            self._compaction(index, at, block, facts, out)
        elif kind == BlockKind.TOOL_CHANGE:
            self._tool_change(index, at, block, view, facts, out)
        elif role == Role.ASSISTANT:
            self._hop(index, at, block, out)
            if kind == BlockKind.TOOL_USE and facts.tool_changes:
                self._called(index, at, block, view, facts, out)
        if block.flags & (BlockFlag.CITATIONS_ON | BlockFlag.CITATIONS_OFF):
            self._citations(index, at, block, out)

    def _compaction(
        self, index: int, at: int, block: BlockDigest, facts: Facts, out: Findings
    ) -> None:
        if block.flags & BlockFlag.EMPTY_TEXT:
            out.error("A25", index, at, "compaction block with empty content")
        if block.flags & (BlockFlag.NULL_CONTENT | BlockFlag.EMPTY_TEXT):
            return
        self.compactions += 1
        # Signed blocks come from on-demand compaction; the older automatic one ignores what is before.
        if not (block.flags & BlockFlag.HAS_SIGNATURE or facts.compact_beta):
            return
        if self.compactions > 1:
            out.error("A25", index, at, "more than one compaction block with content")
        elif not self.first or at != 0:
            out.error(
                "A25", index, at, "compaction block is not the first block of the conversation"
            )
        if facts.compact_beta is False:
            out.error(
                "A25", index, at, "signed compaction block without the header compact-2026-09-04"
            )
        if facts.compact_edit:
            out.error("A25", index, at, "signed compaction block together with a compact edit")

    def _citations(self, index: int, at: int, block: BlockDigest, out: Findings) -> None:
        if block.kind not in (BlockKind.SEARCH_RESULT, BlockKind.TOOL_RESULT):
            return
        mixed = self.cited and self.uncited
        self.cited = self.cited or bool(block.flags & BlockFlag.CITATIONS_ON)
        self.uncited = self.uncited or bool(block.flags & BlockFlag.CITATIONS_OFF)
        if self.cited and self.uncited and not mixed:
            out.error("A27", index, at, "search results with and without citations in one request")

    def _hop(self, index: int, at: int, block: BlockDigest, out: Findings) -> None:
        if block.kind == BlockKind.FALLBACK:
            self._fallback(out)
        elif block.kind in NOT_BEFORE_FALLBACK:
            self.hop.append((block.kind, index, at))
        elif block.kind == BlockKind.SERVER_TOOL_USE:
            self.calls[block.id] = (index, at)
        elif block.kind == BlockKind.SERVER_TOOL_RESULT:
            self.calls.pop(block.id, None)

    def _fallback(self, out: Findings) -> None:
        server = BlockKind.SERVER_TOOL_USE
        for kind, message, block in [
            *self.hop,
            *((server, *place) for place in self.calls.values()),
        ]:
            out.error("A28", message, block, f"{KIND_NAMES[kind]} block before the fallback block")
        self.hop.clear()
        self.calls.clear()

    def _given(self, name: str, facts: Facts) -> bool:
        return name in self.defined or (facts.tools is not None and name in facts.tools)

    def _called(
        self, index: int, at: int, block: BlockDigest, view: View, facts: Facts, out: Findings
    ) -> None:
        name = view.string(block.name)
        if facts.tools is not None and not self._given(name, facts):
            out.error("A31", index, at, f"tool {short(name)} is called but not there")

    def _tool_change(
        self, index: int, at: int, block: BlockDigest, view: View, facts: Facts, out: Findings
    ) -> None:
        if block.aux == OF_SERVER:
            return  # what a server holds is not in the request
        name = view.string(block.name)
        given = self._given(name, facts)
        if block.aux == BY_DEFINITION:
            if given:
                out.error("A31", index, at, f"tool {short(name)} is defined twice")
            self.defined.add(name)
        elif not given and facts.tools is not None:
            out.error(
                "A31", index, at, f"tool {short(name)} is neither in tools nor defined before"
            )

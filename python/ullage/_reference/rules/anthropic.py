"""Anthropic's Messages API: the rules A01 to A32, as far as digests and facts can tell.

What needs the messages themselves (equality with the original, prefix hashes) is done over them:
`ullage.validate`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ullage._reference.digest import BlockKind, Role
from ullage._reference.rules.blocks import STRICT_VERSION, THOUGHTS, Blocks
from ullage._reference.rules.cache import CacheMarkers
from ullage._reference.rules.facts import Facts
from ullage._reference.rules.findings import Findings
from ullage._reference.rules.media import Media
from ullage._reference.rules.pairing import Pairing
from ullage._reference.rules.placement import Placement
from ullage._reference.rules.server import ServerTools
from ullage._reference.rules.special import Special
from ullage._reference.rules.view import View

__all__ = ["Anthropic"]

TOOL_KINDS = (BlockKind.TOOL_USE, BlockKind.TOOL_RESULT)


@dataclass(slots=True)
class Loop:
    """The current turn: all since the last user turn without any tool result (A14)."""

    role: int = Role.NONE
    answered: bool = False  # the newest user turn holds a tool result
    first: tuple[int, int] | None = None  # first assistant block of the turn
    thought: bool = False  # and it is thinking

    def feed(self, index: int, role: int, view: View) -> None:
        if role == Role.USER:
            results = any(block.kind == BlockKind.TOOL_RESULT for block in view.blocks)
            self.answered = results or (self.answered and self.role == Role.USER)
            self.role = Role.USER
        elif role == Role.ASSISTANT:
            if self.role == Role.USER and not self.answered:
                self.first = None
            self.role = Role.ASSISTANT
            if self.first is None and view.blocks:
                self.first = (index, 0)
                self.thought = view.blocks[0].kind in THOUGHTS

    def finish(self, facts: Facts, out: Findings) -> None:
        open_loop = self.role == Role.USER and self.answered
        if facts.manual_thinking and open_loop and self.first is not None and not self.thought:
            message, block = self.first
            out.error("A14", message, block, "the open turn does not begin with thinking")


@dataclass(slots=True)
class Anthropic:
    """State after the messages read so far: small, so that it can be kept as a checkpoint."""

    facts: Facts
    markers: CacheMarkers
    pairing: Pairing = field(default_factory=Pairing)
    server: ServerTools = field(default_factory=ServerTools)
    placement: Placement = field(default_factory=Placement)
    blocks: Blocks = field(default_factory=Blocks)
    media: Media = field(default_factory=Media)
    special: Special = field(default_factory=Special)
    loop: Loop = field(default_factory=Loop)
    tool_blocks: bool = False

    @classmethod
    def start(cls, facts: Facts) -> Anthropic:
        return cls(facts, CacheMarkers.start(facts))

    def copy(self) -> Anthropic:
        return replace(
            self,
            markers=self.markers.copy(),
            pairing=self.pairing.copy(),
            server=self.server.copy(),
            placement=self.placement.copy(),
            blocks=self.blocks.copy(),
            media=self.media.copy(),
            special=self.special.copy(),
            loop=replace(self.loop),
        )

    def calls(self) -> int:
        """Calls, blocks and names that it remembers."""
        pairing = len(self.pairing.awaiting) + len(self.pairing.answered)
        return pairing + self.server.calls() + self.special.remembered()

    def feed(self, index: int, view: View, out: Findings) -> None:
        role = view.message.role
        self.placement.feed(index, role, view, self.facts, out)
        self.blocks.feed(index, role, view, self.facts, out)
        self.pairing.feed(index, role, view, out)
        self.server.feed(index, role, view, self.facts, out)
        self.markers.feed(index, view, out)
        self.media.feed(index, view, self.facts, out)
        self.special.feed(index, role, view, self.facts, out)
        self.loop.feed(index, role, view)
        self.tool_blocks = self.tool_blocks or any(
            block.kind in TOOL_KINDS for block in view.blocks
        )

    def finish(self, view: View, out: Findings) -> None:
        """What only the end can tell. `view` gives the strings; its message does not matter."""
        facts = self.facts
        self.placement.finish(facts, out)
        self.blocks.finish(facts, out)
        self.pairing.report_unanswered(view, out)
        self.server.finish(view, facts, out)
        self.markers.finish(facts, out)
        self.media.finish(facts, out)
        self.loop.finish(facts, out)
        if facts.sampling and facts.version >= STRICT_VERSION:
            out.error("A20", -1, -1, "temperature, top_p or top_k is present")
        if self.tool_blocks and facts.tools == ():
            report = out.error if facts.tools_required else out.warning
            report("A30", -1, -1, "tool blocks in the messages, but no tools in the request")
        size(facts, view, out)


def size(facts: Facts, view: View, out: Findings) -> None:
    """Bytes and tokens of the whole request (A23, A24)."""
    if facts.body_bytes > facts.body_limit:
        out.error("A23", -1, -1, f"{facts.body_bytes} bytes, the limit is {facts.body_limit}")
    if facts.max_output and facts.max_tokens > facts.max_output:
        out.error(
            "A24", -1, -1, f"max_tokens {facts.max_tokens}, the model's limit is {facts.max_output}"
        )
    if facts.window:
        tokens = facts.fixed_tokens + view.ledger.tokens()
        tokens += facts.max_tokens if facts.output_in_window else 0
        if tokens > facts.window:
            out.error("A24", -1, -1, f"about {tokens} tokens, the window is {facts.window}")

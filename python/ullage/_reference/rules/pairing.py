"""Client tools: every call answered once, at once and first (A05 to A08)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ullage._reference.digest import BlockDigest, BlockFlag, BlockKind, Role
from ullage._reference.rules.findings import Findings, short
from ullage._reference.rules.view import View

__all__ = ["Pairing"]

UNNAMED = 0  # string index of "no id"


@dataclass(slots=True)
class Pairing:
    """State of the tool loop. A turn is a run of messages of one role: the API merges them.

    A system message between call and result is placement's business (A12): it neither closes
    the loop nor opens a new user turn here, so that one fault is not reported as many.
    """

    role: int = Role.NONE
    awaiting: dict[int, tuple[int, int]] = field(default_factory=dict)  # id -> where the call is
    answered: set[int] = field(default_factory=set)
    other: bool = False  # the user turn has a block that is no result

    def copy(self) -> Pairing:
        return replace(self, awaiting=self.awaiting.copy(), answered=self.answered.copy())

    def feed(self, index: int, role: int, view: View, out: Findings) -> None:
        if role == Role.ASSISTANT:
            self._assistant(index, view, out)
        elif role == Role.USER:
            self._user(index, view, out)

    def _assistant(self, index: int, view: View, out: Findings) -> None:
        if self.role != Role.ASSISTANT:
            self.report_unanswered(view, out)
            self.awaiting.clear()
            self.answered.clear()
            self.role = Role.ASSISTANT
        for position, block in enumerate(view.blocks):
            if block.kind == BlockKind.TOOL_USE:
                self._call(index, position, block, view, out)

    def _call(
        self, index: int, position: int, block: BlockDigest, view: View, out: Findings
    ) -> None:
        if block.flags & BlockFlag.INPUT_NOT_OBJECT:
            out.error("A08", index, position, "tool use input is not an object")
        if block.id == UNNAMED or block.flags & BlockFlag.MISSING_ID:
            out.error("A08", index, position, "tool use without an id")
            return
        name = short(view.string(block.id))
        if block.flags & BlockFlag.BAD_ID:
            out.error(
                "A08",
                index,
                position,
                f"tool use id {name} has characters other than A-Z a-z 0-9 _ -",
            )
        if not out.first_call(block.id):
            out.error("A08", index, position, f"tool use id {name} is there twice")
        self.awaiting[block.id] = (index, position)

    def _user(self, index: int, view: View, out: Findings) -> None:
        if self.role != Role.USER:
            self.other = False
            self.role = Role.USER
        for position, block in enumerate(view.blocks):
            if block.kind == BlockKind.TOOL_RESULT:
                self._result(index, position, block, view, out)
            else:
                self.other = True

    def _result(
        self, index: int, position: int, block: BlockDigest, view: View, out: Findings
    ) -> None:
        name = short(view.string(block.id))
        if self.awaiting.pop(block.id, None) is not None:
            self.answered.add(block.id)
            if self.other:
                out.error("A07", index, position, f"result of {name} comes after other content")
        elif block.id in self.answered:
            out.error("A05", index, position, f"tool use {name} has more than one result")
        elif block.id == UNNAMED:
            out.error("A06", index, position, "tool result without a tool_use_id")
        else:
            out.error(
                "A06", index, position, f"no tool use {name} in the assistant turn just before"
            )

    def report_unanswered(self, view: View, out: Findings) -> None:
        """The loop ends here: what is still open stays without a result."""
        for tool_id, (message, position) in self.awaiting.items():
            name = short(view.string(tool_id))
            out.error(
                "A05", message, position, f"tool use {name} has no result in the next message"
            )

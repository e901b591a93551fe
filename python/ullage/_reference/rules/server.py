"""Server tools: call and result are one unit, across messages (A09, A10)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain

from ullage._reference.digest import BlockDigest, BlockKind, Role
from ullage._reference.rules.facts import Facts
from ullage._reference.rules.findings import Findings, short
from ullage._reference.rules.view import View

__all__ = ["ServerTools"]

RESULT_SUFFIX = "_tool_result"
MCP_PREFIX = "mcp:"


def result_fits(tool: str, result_type: str) -> bool:
    """Whether a result block's type belongs to a server tool of that name.

    `tool_search_tool_bm25` is answered by `tool_search_tool_result`, `web_search` by
    `web_search_tool_result`, and every MCP tool by `mcp_tool_result`.
    """
    base = result_type.removesuffix(RESULT_SUFFIX)
    if tool.startswith(MCP_PREFIX) or base == "mcp":
        return tool.startswith(MCP_PREFIX) and base == "mcp"
    return tool.startswith(base)


@dataclass(slots=True)
class ServerTools:
    """Server calls without a result yet, and what stood in the user turn after them."""

    role: int = Role.NONE
    open: dict[int, tuple[int, int, int]] = field(
        default_factory=dict
    )  # calls of the newest assistant turn: id -> message, block, name
    lost: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # those of earlier turns
    broken: bool = False  # a user turn with more than tool results came while calls were open

    def copy(self) -> ServerTools:
        return replace(self, open=self.open.copy(), lost=self.lost.copy())

    def calls(self) -> int:
        """Calls that it remembers."""
        return len(self.open) + len(self.lost)

    def feed(self, index: int, role: int, view: View, facts: Facts, out: Findings) -> None:
        if role == Role.ASSISTANT:
            self._assistant(index, view, out)
        elif role == Role.USER:
            self._user(index, view, facts, out)

    def _assistant(self, index: int, view: View, out: Findings) -> None:
        if self.role != Role.ASSISTANT:
            self.role, self.broken = Role.ASSISTANT, False
            self.lost.update(self.open)
            self.open = {}
        for position, block in enumerate(view.blocks):
            if block.kind == BlockKind.SERVER_TOOL_USE:
                if block.id and not out.first_call(block.id):
                    name = short(view.string(block.id))
                    out.error("A08", index, position, f"tool use id {name} is there twice")
                self.lost.pop(block.id, None)
                self.open[block.id] = (index, position, block.name)
            elif block.kind == BlockKind.SERVER_TOOL_RESULT:
                self._result(index, position, block, view, out)

    def _result(
        self, index: int, position: int, block: BlockDigest, view: View, out: Findings
    ) -> None:
        # Half of a unit that does not fit is treated as missing, like the other half.
        call = self.open.pop(block.id, None) or self.lost.pop(block.id, None)
        kind, name = view.string(block.name), short(view.string(block.id))
        if call is None:
            out.error("A09", index, position, f"{short(kind)}: no server tool use {name} before it")
        elif not result_fits(view.string(call[2]), kind):
            out.error("A09", index, position, f"{short(kind)} does not fit the tool of {name}")

    def _user(self, index: int, view: View, facts: Facts, out: Findings) -> None:
        first = self.role != Role.USER
        self.role = Role.USER
        if self.broken or not self.open:
            return
        if any(block.kind != BlockKind.TOOL_RESULT for block in view.blocks):
            self.broken = True
            out.error("A10", index, -1, "a server tool use is open: only tool results may follow")
        if first and facts.tools is not None:
            self._need_tools(index, view, facts.tools, out)

    def _need_tools(self, index: int, view: View, tools: tuple[str, ...], out: Findings) -> None:
        for _, _, ref in self.open.values():
            name = view.string(ref)
            # `bash_code_execution` is a call of the tool `code_execution`.
            if not name.startswith(MCP_PREFIX) and not any(name.endswith(tool) for tool in tools):
                out.error(
                    "A10", index, -1, f"server tool {short(name)} is open but not among the tools"
                )

    def finish(self, view: View, facts: Facts, out: Findings) -> None:
        """Reports what stays open, unless the request lets the server go on with it."""
        paused = self.role == Role.ASSISTANT and facts.resume == "pause_turn"
        carried = self.role == Role.USER and not self.broken
        open_still = {} if paused or carried else self.open
        for tool_id, (message, position, ref) in chain(self.lost.items(), open_still.items()):
            kind, name = view.string(ref), short(view.string(tool_id))
            out.error("A09", message, position, f"{short(kind)} tool use {name} has no result")

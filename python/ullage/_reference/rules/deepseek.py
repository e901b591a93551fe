"""DeepSeek: reasoning that must come back, or must not (D01)."""

from __future__ import annotations

from ullage._reference.digest import BlockKind, MessageFlag, Role
from ullage._reference.rules.facts import Facts
from ullage._reference.rules.findings import Findings
from ullage._reference.rules.view import View

__all__ = ["deepseek"]


def deepseek(index: int, view: View, facts: Facts, out: Findings) -> None:
    """Checks one message; only assistant messages matter."""
    if view.message.role != Role.ASSISTANT:
        return
    reasoning = view.message.flags & MessageFlag.REASONING
    calls = any(block.kind == BlockKind.TOOL_USE for block in view.blocks)
    if facts.thinking and calls and not reasoning:
        out.error("D01", index, -1, "tool calls without reasoning_content in thinking mode")
    if facts.reasoning_forbidden and reasoning:
        out.error("D01", index, -1, "reasoning_content is there, and the model refuses it")

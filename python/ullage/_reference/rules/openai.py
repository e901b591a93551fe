"""OpenAI's chat form: the rules O01 to O10, and the base of all who speak it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ullage._reference.digest import BlockDigest, BlockFlag, BlockKind, MessageFlag, Role
from ullage._reference.rules.deepseek import deepseek
from ullage._reference.rules.facts import Facts
from ullage._reference.rules.findings import Findings, short
from ullage._reference.rules.local import Local
from ullage._reference.rules.mistral import Mistral, mistral_call
from ullage._reference.rules.view import View

__all__ = ["OpenAI"]

MAX_ID_CHARS = 40
MAX_STRING_CHARS = 10_485_760
PART_KINDS = (BlockKind.TEXT, BlockKind.IMAGE, BlockKind.DOCUMENT, BlockKind.UNKNOWN)
# Under which rule each dialect files an unpaired call, a stray tool message and too many tokens.
RULES = {
    "openai_chat": ("O01", "O02", "O04", "O09"),
    "mistral": ("M01", "M01", "O04", "O09"),
    "deepseek": ("D03", "D03", "D02", "O09"),
    "local": ("O01", "O02", "O04", "L04"),
}


@dataclass(slots=True)
class OpenAI:
    """State after the messages read so far."""

    dialect: str
    facts: Facts
    messages: int = 0
    awaiting: dict[int, tuple[int, int]] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)
    legacy_call: bool = False  # the last assistant message has a `function_call`
    mistral: Mistral = field(default_factory=Mistral)
    local: Local = field(default_factory=Local)

    def copy(self) -> OpenAI:
        return replace(
            self,
            awaiting=self.awaiting.copy(),
            answered=self.answered.copy(),
            mistral=replace(self.mistral),
            local=replace(self.local),
        )

    def calls(self) -> int:
        """Calls that it remembers."""
        return len(self.awaiting) + len(self.answered)

    def feed(self, index: int, view: View, out: Findings) -> None:
        self.messages += 1
        role, flags = view.message.role, view.message.flags
        if role == Role.NONE:
            out.error("O06", index, -1, "role is not one of the chat form")
            return
        if role == Role.TOOL:
            self._tool(index, view, out)
        else:
            self._close_group(view, out)
        if role == Role.ASSISTANT:
            self._assistant(index, view, out)
        elif flags & (MessageFlag.EMPTY_CONTENT | MessageFlag.BAD_CONTENT):
            self._no_content(index, role, flags, out)
        self._parts(index, view, out)
        if self.dialect == "mistral":
            self.mistral.feed(index, view, out)
        elif self.dialect == "deepseek":
            deepseek(index, view, self.facts, out)
        if self.dialect == "local" or self.facts.strict:
            self.local.feed(index, view, self.dialect == "local", out)

    def _close_group(self, view: View, out: Findings) -> None:
        for tool_id, (message, block) in self.awaiting.items():
            name = short(view.string(tool_id))
            rule = RULES[self.dialect][0]
            out.error(rule, message, block, f"tool call {name} has no tool message right after it")
        self.awaiting.clear()
        self.answered.clear()

    def _assistant(self, index: int, view: View, out: Findings) -> None:
        flags = view.message.flags
        self.legacy_call = bool(flags & MessageFlag.OTHER_CONTENT)
        if flags & MessageFlag.EMPTY_CALLS:
            out.error("O03", index, -1, "tool_calls is not a list with calls in it")
        calls = False
        for position, block in enumerate(view.blocks):
            if block.kind == BlockKind.TOOL_USE and flags & MessageFlag.OPENAI_CHAT:
                calls = True
                self._call(index, position, block, view, out)
        if not calls and not flags & MessageFlag.OTHER_CONTENT:
            self._no_content(index, Role.ASSISTANT, flags, out)

    def _call(
        self, index: int, position: int, block: BlockDigest, view: View, out: Findings
    ) -> None:
        if block.flags & BlockFlag.BAD_ARGUMENTS:
            out.error("O03", index, position, "arguments are not a string")
        if block.id == 0 or block.flags & BlockFlag.MISSING_ID:
            out.error("O05", index, position, "tool call without an id")
            return
        name = view.string(block.id)
        if block.id in self.awaiting:
            out.error("O05", index, position, f"tool call id {short(name)} is there twice")
        elif not out.first_call(block.id):
            out.error("O05", index, position, f"tool call id {short(name)} was used before")
        if self.dialect == "mistral":
            mistral_call(index, position, name, out)
        elif len(name) > MAX_ID_CHARS:
            out.error("O05", index, position, f"tool call id {short(name)} is over 40 characters")
        self.awaiting[block.id] = (index, position)

    def _no_content(self, index: int, role: int, flags: int, out: Findings) -> None:
        rule = "O07" if role == Role.TOOL else RULES[self.dialect][2]
        if flags & MessageFlag.BAD_CONTENT:
            out.error(rule, index, -1, "content is neither a string nor a list")
        elif flags & MessageFlag.EMPTY_CONTENT and not flags & MessageFlag.STRING_CONTENT:
            out.error(rule, index, -1, "message without content")
        elif flags & MessageFlag.EMPTY_CONTENT and role == Role.ASSISTANT:
            report = out.error if self.dialect == "deepseek" else out.warning
            report(rule, index, -1, "content is an empty string")

    def _tool(self, index: int, view: View, out: Findings) -> None:
        if view.message.flags & MessageFlag.FUNCTION_ROLE:
            if not self.legacy_call:
                out.error("O06", index, -1, "function message without a function_call before it")
            return
        block = view.blocks[0]
        name = short(view.string(block.id))
        pair, stray = RULES[self.dialect][:2]
        if self.awaiting.pop(block.id, None) is not None:
            self.answered.add(block.id)
        elif block.id in self.answered:
            out.error(pair, index, -1, f"tool call {name} has more than one tool message")
        else:
            out.error(stray, index, -1, f"no tool call {name} in the assistant message before")
        if block.flags & (BlockFlag.NESTED_MEDIA | BlockFlag.BAD_NESTED):
            out.error("O07", index, -1, "tool message holds more than text")

    def _parts(self, index: int, view: View, out: Findings) -> None:
        flags = view.message.flags
        for position, block in enumerate(view.blocks):
            if block.chars > MAX_STRING_CHARS:
                out.error("O08", index, position, f"string is over {MAX_STRING_CHARS} characters")
            own = block.kind == BlockKind.TOOL_USE and flags & MessageFlag.OPENAI_CHAT
            if block.flags & BlockFlag.NOT_A_BLOCK or (
                view.message.role != Role.TOOL and block.kind not in PART_KINDS and not own
            ):
                out.error("O04", index, position, "not a content part of the chat form")

    def finish(self, view: View, out: Findings) -> None:
        """What only the end can tell. `view` gives the strings; its message does not matter."""
        if self.messages == 0:
            out.error("O06", -1, -1, "there is no message")
        self._close_group(view, out)
        if self.dialect == "mistral":
            self.mistral.finish(out)
        elif self.dialect == "local":
            self.local.finish(out)
        facts, rule = self.facts, RULES[self.dialect][3]
        tokens = facts.fixed_tokens + view.ledger.tokens() + facts.max_tokens
        if facts.window and tokens > facts.window:
            out.error(rule, -1, -1, f"about {tokens} tokens, the window is {facts.window}")

"""What each message and block must be by itself (A02 to A04, A13, A19, A20, A32)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ullage._reference.digest import BlockDigest, BlockFlag, BlockKind, MessageFlag, Role
from ullage._reference.rules.facts import Facts
from ullage._reference.rules.findings import Findings, short
from ullage._reference.rules.view import View

__all__ = ["Blocks"]

BLANK = BlockFlag.EMPTY_TEXT | BlockFlag.BLANK_TEXT
MARKED = BlockFlag.CACHE_5M | BlockFlag.CACHE_1H | BlockFlag.CACHE_BAD
THOUGHTS = (BlockKind.THINKING, BlockKind.REDACTED_THINKING)
# The API version that refuses documents of the assistant, citations of the user and sampling.
STRICT_VERSION = 2026_10_21
EMPTY = "content is empty"
# Blocks that are known to stand in assistant messages but need no rule of their own.
PASSIVE_TYPES = ("mcp_tool_listing", "connector_text")

USER_KINDS = (
    BlockKind.TEXT,
    BlockKind.IMAGE,
    BlockKind.DOCUMENT,
    BlockKind.SEARCH_RESULT,
    BlockKind.TOOL_RESULT,
    BlockKind.CONTAINER_UPLOAD,
)
ASSISTANT_KINDS = (
    BlockKind.TEXT,
    BlockKind.TOOL_USE,
    BlockKind.THINKING,
    BlockKind.REDACTED_THINKING,
    BlockKind.DOCUMENT,  # until the strict version: A20
    BlockKind.SERVER_TOOL_USE,
    BlockKind.SERVER_TOOL_RESULT,
    BlockKind.COMPACTION,
    BlockKind.FALLBACK,
)
SYSTEM_KINDS = (BlockKind.TEXT, BlockKind.TOOL_CHANGE)
_ALLOWED: tuple[tuple[BlockKind, ...], ...] = (USER_KINDS, ASSISTANT_KINDS, SYSTEM_KINDS)
# A digest names the type of such a block only if it is not the kind's own.
OWN_TYPES = (BlockKind.TEXT, BlockKind.IMAGE, BlockKind.DOCUMENT)
ROLE_NAMES = ("user", "assistant", "system")
KIND_NAMES = (
    "text",
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "image",
    "document",
    "server_tool_use",
    "server tool result",
    "search_result",
    "container_upload",
    "compaction",
    "fallback",
    "tool change",
    "unknown",
)


@dataclass(slots=True)
class Blocks:
    """Checks one message at a time; only emptiness of the last one depends on what follows."""

    held: int = -1  # an empty assistant message, legal as the last one where prefill is

    def copy(self) -> Blocks:
        return replace(self)

    def feed(self, index: int, role: int, view: View, facts: Facts, out: Findings) -> None:
        self.release(out)
        self._content(index, role, view, out)
        flags = view.message.flags
        if flags & MessageFlag.UNKNOWN_KEYS:
            out.error("A04", index, -1, "message has keys that the API does not know")
        for position, block in enumerate(view.blocks):
            _block(index, position, role, block, view, facts, out)

    def release(self, out: Findings) -> None:
        """The held message was not the last: its emptiness counts."""
        if self.held >= 0:
            out.error("A02", self.held, -1, EMPTY)
            self.held = -1

    def finish(self, facts: Facts, out: Findings) -> None:
        if self.held >= 0 and not facts.prefill_ok:
            out.error("A02", self.held, -1, EMPTY)

    def _content(self, index: int, role: int, view: View, out: Findings) -> None:
        flags = view.message.flags
        if flags & MessageFlag.BAD_CONTENT:
            out.error("A02", index, -1, "content is neither a string nor a list")
        elif flags & (MessageFlag.EMPTY_CONTENT | MessageFlag.BLANK_CONTENT):
            if role == Role.ASSISTANT:
                self.held = index
            elif role != Role.SYSTEM or flags & MessageFlag.BLANK_CONTENT:
                out.error("A02", index, -1, EMPTY)


def _block(
    index: int, at: int, role: int, block: BlockDigest, view: View, facts: Facts, out: Findings
) -> None:
    kind, flags = block.kind, block.flags
    string = bool(view.message.flags & MessageFlag.STRING_CONTENT)
    if flags & BlockFlag.NOT_A_BLOCK:
        out.error("A03", index, at, "not a content block")
        return
    if kind == BlockKind.TEXT and flags & BLANK and not string:
        out.error("A02", index, at, "text is blank")
    if flags & BlockFlag.NESTED_BLANK:
        out.error("A02", index, at, f"text inside a {KIND_NAMES[kind]} block is blank")
    _kind(index, at, role, block, view, out)
    if flags & BlockFlag.UNKNOWN_KEYS:
        out.error("A04", index, at, f"{KIND_NAMES[kind]} block has keys that the API does not know")
    if kind in THOUGHTS and not flags & BlockFlag.HAS_SIGNATURE:
        out.error("A13", index, at, f"{KIND_NAMES[kind]} block without its signature or data")
    if flags & MARKED and (kind in THOUGHTS or (kind == BlockKind.TEXT and flags & BLANK)):
        out.error("A19", index, at, "cache_control on thinking or on blank text")
    if flags & (BlockFlag.CACHE_BAD | BlockFlag.CACHE_EDIT):
        out.error(
            "A32", index, at, "cache_control or cache edit of a form that the API does not take"
        )
    if facts.version >= STRICT_VERSION:
        _strict(index, at, role, block, out)


def _kind(index: int, at: int, role: int, block: BlockDigest, view: View, out: Findings) -> None:
    kind = block.kind
    if kind in OWN_TYPES and block.name:
        name = short(view.string(block.name))
        out.error("A03", index, at, f"{name} is a block type of another API")
    elif kind == BlockKind.UNKNOWN:
        name = view.string(block.name)
        if name not in PASSIVE_TYPES and not block.flags & BlockFlag.CACHE_EDIT:
            out.error("A03", index, at, f"block type {short(name)} is unknown to the API")
    elif role <= Role.SYSTEM and kind not in _ALLOWED[role]:
        out.error(
            "A03", index, at, f"{KIND_NAMES[kind]} block in a message of the {ROLE_NAMES[role]}"
        )
    if block.flags & BlockFlag.BAD_NESTED:
        out.error("A03", index, at, "tool result holds what it may not")


def _strict(index: int, at: int, role: int, block: BlockDigest, out: Findings) -> None:
    if role == Role.ASSISTANT and block.kind == BlockKind.DOCUMENT:
        out.error("A20", index, at, "document block in an assistant message")
    if role == Role.USER and block.flags & BlockFlag.HAS_CITATIONS:
        out.error("A20", index, at, "citations in a user message")

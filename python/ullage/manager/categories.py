"""What the window is spent on, by category, kept up to date as the view grows (BEY-3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ullage._engine.digests import BlockKind, MessageFlag, Role
from ullage.facts.whose_words import host_share, is_standing
from ullage.levels.tool_results import is_marker
from ullage.levels.view import View

__all__ = ["CATEGORIES", "Tally", "named"]

CATEGORIES: Final = (
    "system",
    "tools",
    "user",
    "assistant",
    "thinking",
    "tool calls",
    "tool results",
    "shortened results",
    "media",
    "summaries",
    "host text",
    "other",
)
"""In the order in which they are shown."""

_AT: Final = {name: at for at, name in enumerate(CATEGORIES)}
_OF_KIND: Final = {
    BlockKind.TOOL_USE: "tool calls",
    BlockKind.SERVER_TOOL_USE: "tool calls",
    BlockKind.TOOL_RESULT: "tool results",
    BlockKind.SERVER_TOOL_RESULT: "tool results",
    BlockKind.THINKING: "thinking",
    BlockKind.REDACTED_THINKING: "thinking",
    BlockKind.IMAGE: "media",
    BlockKind.DOCUMENT: "media",
    BlockKind.COMPACTION: "summaries",
}
_OF_ROLE: Final = {
    Role.USER: "user",
    Role.ASSISTANT: "assistant",
    Role.TOOL: "tool results",
    Role.SYSTEM: "host text",
}
_SUMMARY: Final = int(MessageFlag.SUMMARY)
Row = tuple[tuple[int, int], ...]


class Tally:
    """Estimated tokens of a view by category; looking again costs what changed since.

    Args:
        overhead: Tokens of `system` and `tools`.
    """

    def __init__(self, overhead: Mapping[str, int]) -> None:
        self._overhead = overhead
        self._totals = [0] * len(CATEGORIES)
        self._rows: list[Row] = []
        self._version = 0
        self._ledger: Any = None

    def look(self, view: View) -> dict[str, int]:
        """Categories that are not empty, in their order."""
        return named(self.sums(view, len(view)))

    def sums(self, view: View, count: int) -> tuple[int, ...]:
        """Tokens of every category, in their order.

        Args:
            view: What is looked at.
            count: Of its first so many messages, not fewer than in the call before.
        """
        self._forget(view)
        for index in range(len(self._rows), count):
            row = _row(view, index)
            self._rows.append(row)
            for at, tokens in row:
                self._totals[at] += tokens
        return (*(self._overhead.get(name, 0) for name in CATEGORIES[:2]), *self._totals[2:])

    def _forget(self, view: View) -> None:
        """Rows of messages that are not what they were."""
        valid = 0
        if self._ledger is view.ledger:
            valid = min(len(self._rows), view.ledger.changed_since(self._version))
        for row in self._rows[valid:]:
            for at, tokens in row:
                self._totals[at] -= tokens
        del self._rows[valid:]
        self._ledger, self._version = view.ledger, view.ledger.version


def named(sums: Sequence[int]) -> dict[str, int]:
    """Sums by category, without those that are empty."""
    return {name: tokens for name, tokens in zip(CATEGORIES, sums, strict=True) if tokens}


def _row(view: View, index: int) -> Row:
    message = view.ledger.message(index)
    made = isinstance(view.sources[index], str) or message.flags & _SUMMARY
    if made:
        name = "host text" if is_standing(view.originals[index]) else "summaries"
        return ((_AT[name], message.tokens),)
    own = _AT[_OF_ROLE.get(message.role, "other")]
    found: dict[int, int] = {}
    rest = message.tokens
    for block in view.ledger.blocks(index):
        at = _AT[_category(view, block)] if block.kind != BlockKind.TEXT else own
        found[at] = found.get(at, 0) + block.tokens
        rest -= block.tokens
    if message.role == Role.USER and (host := _host_tokens(view, index)):
        found[own] -= host
        found[_AT["host text"]] = host
    # What frames a message counts to what most of it is.
    main = max(found, key=lambda at: (found[at], -at), default=own)
    found[main] = found.get(main, 0) + rest
    return tuple(found.items())


def _host_tokens(view: View, index: int) -> int:
    """Tokens of the part of a user message that a host wrote, as its share of the characters."""
    content = view.messages[index].get("content")
    texts = (
        [content]
        if isinstance(content, str)
        else [block.get("text") if isinstance(block, Mapping) else None for block in content or ()]
    )
    blocks = view.ledger.blocks(index)
    pairs = zip(texts, blocks, strict=False) if len(texts) == len(blocks) else ()
    return sum(
        block.tokens * host_share(text) // len(text)
        for text, block in pairs
        if block.kind == BlockKind.TEXT and isinstance(text, str) and text
    )


def _category(view: View, block: Any) -> str:
    kind = block.kind
    name = _OF_KIND.get(kind, "other")
    if name == "tool results" and kind == BlockKind.TOOL_RESULT:
        decided = view.ledger.string(block.id) in view.decisions
        return "shortened results" if decided or is_marker(block) else name
    return name

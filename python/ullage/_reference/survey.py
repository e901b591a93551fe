"""What fills a conversation: tokens by category, by tool and by file, and what the levels would free.

The twin of `rust/core/src/survey.rs`, without what that says of the lines of a transcript.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ullage._engine.digests import (
    AnchoredCount,
    BlockDigest,
    BlockFlag,
    BlockKind,
    MessageDigest,
    MessageFlag,
    Role,
    SurveyFacts,
)
from ullage._reference.ledger import Ledger

PATH_KEYS = ("file_path", "path", "filename", "notebook_path")
CATEGORIES = 9

_CALLS = (int(BlockKind.TOOL_USE), int(BlockKind.SERVER_TOOL_USE))
_MEDIA = (int(BlockKind.IMAGE), int(BlockKind.DOCUMENT))
_CATEGORY: dict[int, int] = {
    BlockKind.TOOL_USE: 4,
    BlockKind.SERVER_TOOL_USE: 4,
    BlockKind.TOOL_RESULT: 5,
    BlockKind.SERVER_TOOL_RESULT: 5,
    BlockKind.SEARCH_RESULT: 5,
    BlockKind.THINKING: 3,
    BlockKind.REDACTED_THINKING: 3,
    BlockKind.IMAGE: 6,
    BlockKind.DOCUMENT: 6,
}


class _ToolResult(NamedTuple):
    """A tool result with the call that it answers."""

    tool: str
    tokens: int
    chars: int
    flags: int
    path: str


class Survey:
    """What fills a conversation; made once, and never changed."""

    def __init__(self, weights: Any, items: Iterable[Mapping[str, Any]]) -> None:
        self._items = list(items)
        self._ledger = Ledger(weights, self._items)

    def __len__(self) -> int:
        return len(self._ledger)

    @property
    def tokens(self) -> int:
        """The calibrated estimate."""
        return self._ledger.tokens()

    def anchored(self) -> AnchoredCount:
        """The provider's newest figure, and what follows it."""
        return self._ledger.anchored()

    @property
    def overhead(self) -> int | None:
        """What the figures hold in addition to the messages."""
        return self._ledger.overhead

    def facts(self) -> SurveyFacts:
        """Everything that no setting decides."""
        sizes = self._round_sizes()
        categories = [0] * CATEGORIES
        media = [0, 0]
        for message, block in self._blocks():
            categories[_category(message, block)] += block.tokens
            if block.kind in _MEDIA:
                media[0] += block.tokens
                media[1] += 1
        return SurveyFacts(
            tuple(categories),
            len(sizes),
            max(sizes, default=0),
            sum(1 for message in self._messages() if message.flags & MessageFlag.USER_INPUT),
            len(self._ledger.open_calls()),
            self._tools(),
            self._files(),
            (media[0], media[1]),
        )

    def _messages(self) -> Iterator[MessageDigest]:
        return (self._ledger.message(at) for at in range(len(self)))

    def _blocks(self) -> Iterator[tuple[MessageDigest, BlockDigest]]:
        for at, message in enumerate(self._messages()):
            for block in self._ledger.blocks(at):
                yield message, block

    def _round_sizes(self) -> list[int]:
        starts = self._ledger.rounds()
        ends = [*starts[1:], len(self)]
        return [self._ledger.tokens(*ends) for ends in zip(starts, ends, strict=False)]

    def _tools(self) -> list[tuple[str, int, int, int]]:
        calls, errors, spent = Counter[str](), Counter[str](), Counter[str]()
        for _, block in self._blocks():
            if block.kind in _CALLS:
                name = self._ledger.string(block.name)
                calls[name] += 1
                spent[name] += block.tokens
        for result in self._results():
            spent[result.tool] += result.tokens
            errors[result.tool] += bool(result.flags & BlockFlag.IS_ERROR)
        return [(name, calls[name], errors[name], total) for name, total in _by_tokens(spent)]

    def _files(self) -> list[tuple[str, int, int, int]]:
        calls, spent = Counter[str](), Counter[str]()
        for result in self._results():
            if result.path:
                calls[result.path] += 1
                spent[result.path] += result.tokens
        return [(name, calls[name], 0, total) for name, total in _by_tokens(spent)]

    def _results(self) -> Iterator[_ToolResult]:
        for _, block in self._blocks():
            if block.kind == BlockKind.TOOL_RESULT:
                call = self._ledger.find_call(self._ledger.string(block.id)) if block.id else None
                tool, path = self._call(*call) if call else ("", "")
                yield _ToolResult(tool, block.tokens, block.chars, block.flags, path)

    def _call(self, message: int, block: int) -> tuple[str, str]:
        name = self._ledger.string(self._ledger.blocks(message)[block].name)
        return name, _path(self._items[message], block)

    # ---- levels ------------------------------------------------------------------------------

    def result_tools(self) -> list[str]:
        """The tools whose calls were answered, each once."""
        return list(dict.fromkeys(result.tool for result in self._results()))

    def freeable(
        self, limits: Mapping[str, int], unlimited: Sequence[bool], clearable: Sequence[bool]
    ) -> list[tuple[int, int]]:
        """What the budget, snip, microcompact and a summary would free: tokens and places."""
        place = {name: at for at, name in enumerate(self.result_tools())}
        results = list(self._results())
        large = [result for result in results if not unlimited[place[result.tool]]]
        able = [result for result in results if clearable[place[result.tool]]]
        window = self._ledger.keep_window(
            len(self),
            min_tokens=limits["min_tokens"],
            max_tokens=limits["max_tokens"],
            min_text_messages=limits["min_text_messages"],
        )
        return [
            _longer(large, limits["max_result"], limits["preview"]),
            _longer(results, limits["snip_max"], limits["snip_kept"]),
            _cleared(able, limits),
            (self._ledger.tokens(0, window.start), window.start),
        ]

    def __repr__(self) -> str:
        return f"Survey({len(self)} messages, {self.tokens} tokens)"


def _category(message: MessageDigest, block: BlockDigest) -> int:
    if message.flags & MessageFlag.SUMMARY:
        return 0
    if block.kind != BlockKind.TEXT:
        return _CATEGORY.get(block.kind, 8)
    if message.role == Role.ASSISTANT:
        return 2
    if message.flags & MessageFlag.USER_INPUT:
        return 1
    return 7 if message.role in (Role.USER, Role.SYSTEM) else 8


def _by_tokens(spent: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(spent.items(), key=lambda pair: (-pair[1], pair[0]))


def _path(item: Mapping[str, Any], block: int) -> str:
    message = item if "role" in item else item.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, list) or block >= len(content):
        return ""
    arguments = content[block].get("input")
    if not isinstance(arguments, Mapping):
        return ""
    return next((value for key in PATH_KEYS if isinstance(value := arguments.get(key), str)), "")


def _longer(results: Iterable[_ToolResult], most: int, kept_chars: int) -> tuple[int, int]:
    long = [result for result in results if result.chars > most]
    return sum(result.tokens * (result.chars - kept_chars) // result.chars for result in long), len(
        long
    )


def _cleared(able: Sequence[_ToolResult], limits: Mapping[str, int]) -> tuple[int, int]:
    shortened = BlockFlag.CLEARED | BlockFlag.OFFLOADED
    old = [
        result
        for result in able[: -limits["keep_recent"]]
        if not (result.flags & shortened and result.chars <= limits["longest_marker"])
    ]
    return sum(result.tokens for result in old), len(old)

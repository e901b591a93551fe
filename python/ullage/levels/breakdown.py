"""What fills the window: tokens by category, by tool and by file, and how much each level could free.

Works on the ledger's digests; the messages themselves are read only for the paths in tool inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from ullage._engine import core
from ullage._engine.digests import (
    BlockDigest,
    BlockFlag,
    BlockKind,
    MessageDigest,
    MessageFlag,
    Role,
)
from ullage.counting.estimate import Weights
from ullage.facts.tool_names import matches
from ullage.levels.tool_results import is_marker
from ullage.messages import Item, message_of
from ullage.policy import Policy

__all__ = ["Freeable", "Inspection", "ToolUsage", "inspect_messages"]


CATEGORIES = (
    "summary", "user", "assistant", "thinking", "tool calls", "tool results", "media", "other",
)  # fmt: skip

BESIDE = "system prompt and tools"
"""What a usage figure holds beyond the messages."""

# Plain numbers: an operation of a flag makes an object of its class.
_SUMMARY, _USER_INPUT = int(MessageFlag.SUMMARY), int(MessageFlag.USER_INPUT)
_IS_ERROR = int(BlockFlag.IS_ERROR)
_CATEGORY: dict[int, str] = {
    BlockKind.TOOL_USE: "tool calls",
    BlockKind.SERVER_TOOL_USE: "tool calls",
    BlockKind.TOOL_RESULT: "tool results",
    BlockKind.SERVER_TOOL_RESULT: "tool results",
    BlockKind.SEARCH_RESULT: "tool results",
    BlockKind.THINKING: "thinking",
    BlockKind.REDACTED_THINKING: "thinking",
    BlockKind.IMAGE: "media",
    BlockKind.DOCUMENT: "media",
}
_PATH_KEYS = ("file_path", "path", "filename", "notebook_path")


@dataclass(frozen=True, slots=True)
class ToolUsage:
    """One tool: how often it was called, and the tokens of its calls and results."""

    name: str
    calls: int
    errors: int
    tokens: int


@dataclass(frozen=True, slots=True)
class FileUsage:
    """One file: tokens of the results that show it, and how often it was used."""

    path: str
    calls: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Freeable:
    """What one level would free if it acted now: estimated tokens, and the number of blocks."""

    level: str
    tokens: int
    places: int
    how: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """The contents of a conversation.

    Attributes:
        tokens: Calibrated estimate of all messages; without system prompt and tool definitions.
        anchored_tokens: The provider's newest usage figure plus the estimate of what follows; with
            system prompt and tools where the figure had them. If nothing was reported: `tokens` and `overhead_tokens`.
        anchored: Whether a usage figure was found.
        categories: Tokens by what they are, system prompt and tools among them where a usage figure tells; they sum to
            `anchored_tokens`.
        rounds: API rounds. `largest_round` is the tokens of the largest.
    """

    messages: int
    tokens: int
    anchored_tokens: int
    anchored: bool
    categories: dict[str, int]
    tools: list[ToolUsage]
    files: list[FileUsage]
    rounds: int
    largest_round: int
    user_inputs: int
    open_calls: int
    freeable: list[Freeable] = field(default_factory=list)


_Row = TypeVar("_Row", ToolUsage, FileUsage, Freeable)


@dataclass(slots=True)
class _Result:
    """A tool result and the call that it answers."""

    message: int
    tool: str
    tokens: int
    chars: int
    flags: int
    path: str


def inspect_messages(
    items: Sequence[Item],
    *,
    weights: Weights | None = None,
    policy: Policy | None = None,
    overhead_tokens: int = 0,
) -> Inspection:
    """Measure what fills a conversation.

    Args:
        items: Bare messages or entries, as they would be sent.
        weights: Weights of the calibrated estimate; `None`: characters / 4.
        policy: Decides what each level would free; `None`: `Policy.buffered()`.
        overhead_tokens: System prompt and tools, if no usage figure of these items includes them; 0: unknown.

    Returns:
        Counts and estimates, in tokens.

    Raises:
        InvalidMessage: An item is not a message; names its index and field.
    """
    ledger = core.Ledger(weights, items)
    count = ledger.anchored()
    whole = int(count.total) + (0 if count.anchor is not None else overhead_tokens)
    rounds = _round_sizes(ledger)
    read = list(_digests(ledger))
    results = list(_results(ledger, items, read))
    scale = _Scale(whole, int(ledger.tokens()))
    return Inspection(
        messages=len(items),
        tokens=ledger.tokens(),
        anchored_tokens=whole,
        anchored=count.anchor is not None,
        categories=_shares(_categories(read), int(ledger.tokens()), whole),
        tools=scale.all(_tools(ledger, results, read)),
        files=scale.all(_files(results)),
        rounds=len(rounds),
        largest_round=scale.of(max(rounds, default=0)),
        user_inputs=sum(
            1 for index in range(len(items)) if ledger.message(index).flags & _USER_INPUT
        ),
        open_calls=len(ledger.open_calls()),
        freeable=scale.all(_freeable(ledger, results, read, policy or Policy.buffered())),
    )


class _Scale(NamedTuple):
    """Parts stay smaller than the whole where the provider counts less than the estimate."""

    whole: int
    estimated: int

    def of(self, tokens: int) -> int:
        if self.whole >= self.estimated:
            return tokens
        return tokens * self.whole // self.estimated

    def all(self, rows: Iterable[_Row]) -> list[_Row]:
        return [replace(row, tokens=self.of(row.tokens)) for row in rows]


_Read = tuple[int, MessageDigest, BlockDigest]


def _digests(ledger: Any) -> Iterator[_Read]:
    for index in range(len(ledger)):
        message = ledger.message(index)
        for block in ledger.blocks(index):
            yield index, message, block


def _categories(read: Iterable[_Read]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for _, message, block in read:
        found[_category(message, block)] += block.tokens
    return {name: found[name] for name in CATEGORIES if found[name]}


def _shares(found: dict[str, int], estimated: int, whole: int) -> dict[str, int]:
    """The categories so that they sum to the whole: including each message's frame and what is sent besides the messages."""
    frames = estimated - sum(found.values())
    beside = whole - estimated
    if frames:
        found["other"] = found.get("other", 0) + frames
    if beside > 0:
        found[BESIDE] = beside
    elif beside < 0 and estimated:  # the provider counts less than the estimate
        found = {name: count * whole // estimated for name, count in found.items()}
        largest = max(found, key=lambda name: found[name])
        found[largest] += whole - sum(found.values())
    return found


def _category(message: MessageDigest, block: BlockDigest) -> str:
    if message.flags & _SUMMARY:
        return "summary"
    if block.kind == BlockKind.TEXT:
        if message.role == Role.ASSISTANT:
            return "assistant"
        return "user" if message.flags & _USER_INPUT else "other"
    return _CATEGORY.get(block.kind, "other")


def _round_sizes(ledger: Any) -> list[int]:
    starts = ledger.rounds()
    if not starts:
        return []
    return [
        ledger.tokens(start, stop)
        for start, stop in zip(starts, [*starts[1:], len(ledger)], strict=True)
    ]


def _results(ledger: Any, items: Sequence[Item], read: Iterable[_Read]) -> Iterator[_Result]:
    for index, _, block in read:
        if block.kind != BlockKind.TOOL_RESULT:
            continue
        call = ledger.find_call(ledger.string(block.id)) if block.id else None
        tool = path = ""
        if call is not None:
            tool = ledger.string(ledger.blocks(call[0])[call[1]].name)
            path = _path(items[call[0]], call[1])
        yield _Result(index, tool, block.tokens, block.chars, block.flags, path)


def _path(item: Item, block: int) -> str:
    content = (message_of(item) or item).get("content")
    if not isinstance(content, list) or block >= len(content):
        return ""
    given = content[block].get("input")
    if not isinstance(given, Mapping):
        return ""
    return next((value for key in _PATH_KEYS if isinstance(value := given.get(key), str)), "")


def _tools(ledger: Any, results: Iterable[_Result], read: Iterable[_Read]) -> list[ToolUsage]:
    calls: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for _, _, block in read:
        if block.kind in (BlockKind.TOOL_USE, BlockKind.SERVER_TOOL_USE):
            name = ledger.string(block.name) if block.name else ""
            calls[name] += 1
            spent[name] += block.tokens
    for result in results:
        spent[result.tool] += result.tokens
        errors[result.tool] += bool(result.flags & _IS_ERROR)
    return [
        ToolUsage(name or "(unknown)", calls[name], errors[name], total)
        for name, total in sorted(spent.items(), key=lambda pair: (-pair[1], pair[0]))
    ]


def _files(results: Iterable[_Result]) -> list[FileUsage]:
    calls: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    for result in results:
        if result.path:
            calls[result.path] += 1
            spent[result.path] += result.tokens
    return [
        FileUsage(path, calls[path], total)
        for path, total in sorted(spent.items(), key=lambda pair: (-pair[1], pair[0]))
    ]


def _freeable(
    ledger: Any, results: list[_Result], read: Iterable[_Read], policy: Policy
) -> list[Freeable]:
    kept = ledger.keep_window(
        len(ledger),
        min_tokens=policy.keep.min_tokens,
        max_tokens=policy.keep.max_tokens,
        min_text_messages=policy.keep.min_text_messages,
    )
    return [
        _budget(results, policy),
        _snip(results, policy),
        _clear(results, policy),
        _media(read),
        Freeable(
            "summary",
            ledger.tokens(0, kept.start),
            kept.start,
            f"all but the newest messages (at least {policy.keep.min_tokens:,} tokens) becomes one summary, whose size is not subtracted",
        ),
    ]


def _part(tokens: int, part: int, whole: int) -> int:
    return tokens * part // whole if whole else 0


def _budget(results: list[_Result], policy: Policy) -> Freeable:
    limit = policy.tool_budget.max_result_chars
    large = [
        result
        for result in results
        if result.chars > limit and not matches(result.tool, policy.tool_budget.unlimited_tools)
    ]
    freed = sum(
        _part(result.tokens, result.chars - policy.tool_budget.preview_bytes, result.chars)
        for result in large
    )
    return Freeable(
        "tool-result budget", freed, len(large), f"results over {limit:,} characters move to a file"
    )


def _snip(results: list[_Result], policy: Policy) -> Freeable:
    snip = policy.snip
    long = [result for result in results if result.chars > snip.max_chars]
    kept = snip.max_chars * (snip.head_percent + snip.tail_percent) // 100
    freed = sum(_part(result.tokens, result.chars - kept, result.chars) for result in long)
    return Freeable(
        "snip", freed, len(long), f"results over {snip.max_chars:,} characters lose their middle"
    )


def _clear(results: list[_Result], policy: Policy) -> Freeable:
    micro = policy.micro
    able = [
        result
        for result in results
        if matches(result.tool, micro.tools) and not matches(result.tool, micro.exclude_tools)
    ]
    old = [result for result in able[: -micro.keep_recent] if not is_marker(result)]
    freed = sum(result.tokens for result in old)
    how = f"all except the newest {micro.keep_recent} results"
    return Freeable("microcompact", freed, len(old), how)


def _media(read: Iterable[_Read]) -> Freeable:
    media = [
        block.tokens for _, _, block in read if block.kind in (BlockKind.IMAGE, BlockKind.DOCUMENT)
    ]
    return Freeable(
        "media", sum(media), len(media), "images and documents are removed for a summary call"
    )

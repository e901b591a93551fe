"""A size that the new context must not exceed: how the room is split, and what is shortened first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ullage.messages import Item
from ullage.policy import KeepPolicy

__all__ = [
    "FRAME_TOKENS",
    "LEAST_SUMMARY_TOKENS",
    "SMALL_ROOM",
    "frame_tokens",
    "kept_share",
    "scaled_to_target",
    "shorter_results",
]

Measure: TypeAlias = Callable[[str], int]

LEAST_SUMMARY_TOKENS = 20
"""One section with a line in it."""

FRAME_TOKENS = 150
"""The text of the summary message around the summary."""

SMALL_ROOM = 700
"""Tokens for the summary message below which that text is reduced to what must be said."""

SMALL_FRAME_TOKENS = 60

LEAST_RESULT_TOKENS = 60
"""Minimum tokens of a result in the kept part: a shorter one would not show what it was."""

HEAD_PERCENT = 60


def frame_tokens(room: int) -> int:
    """Tokens of the text around a summary whose message has this room."""
    return SMALL_FRAME_TOKENS if room < SMALL_ROOM else FRAME_TOKENS


LEAST_KEPT_PERCENT = 20


def kept_share(room: int, needed: int = 0) -> int:
    """Tokens of a target that the kept messages may have.

    Args:
        room: The target.
        needed: What the summary needs for the user's words and the essential facts; results in the kept part are
            shortened before these are.

    Returns:
        Half of the room, or what the summary leaves of it, but at least a fifth.
    """
    rest = room - needed - frame_tokens(room)
    return max(min(room // 2, rest), room * LEAST_KEPT_PERCENT // 100)


def scaled_to_target(keep: KeepPolicy, share: int) -> KeepPolicy:
    """The policy's amount, reduced where a target leaves less room."""
    least = min(keep.min_tokens, share // 2)
    return KeepPolicy(
        min_tokens=least,
        max_tokens=max(min(keep.max_tokens, share), 1),
        min_text_messages=keep.min_text_messages,
    )


@dataclass(frozen=True, slots=True)
class _Result:
    message: int
    path: tuple[int, ...]  # of the block, and of the part inside; empty: the content itself
    text: str
    tokens: int


def shorter_results(
    kept: Sequence[Item], excess: int, measure: Measure
) -> tuple[tuple[Item, ...], int]:
    """The kept messages with their largest tool results cut in the middle.

    Args:
        kept: Bare messages; not changed.
        excess: Tokens to remove.
        measure: Tokens of a text.

    Returns:
        The messages (unchanged ones are the same objects), and about how many tokens were removed.
    """
    found = [result for at, item in enumerate(kept) for result in _results(at, item, measure)]
    most = _cap(sorted((result.tokens for result in found), reverse=True), excess)
    out = list(kept)
    freed = 0
    for result in found:
        if result.tokens > most:
            text = _cut(result.text, most, result.tokens)
            gain = result.tokens - measure(text)
            if gain > 0:
                out[result.message] = _put(out[result.message], result.path, text)
                freed += gain
    return tuple(out), freed


def _cap(sizes: Sequence[int], excess: int) -> int:
    """The size above which results are cut to remove the excess in total; at least `LEAST_RESULT_TOKENS`."""
    for count in range(1, len(sizes) + 1):
        below = sizes[count] if count < len(sizes) else 0
        if sum(sizes[:count]) - count * below >= excess:
            return max((sum(sizes[:count]) - excess) // count, LEAST_RESULT_TOKENS)
    return LEAST_RESULT_TOKENS


def _results(at: int, item: Item, measure: Measure) -> Iterator[_Result]:
    content = item.get("content")
    if item.get("role") == "tool" and isinstance(content, str):
        yield _Result(at, (), content, measure(content))
    for place, block in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(block, Mapping) or block.get("type") != "tool_result":
            continue
        inner = block.get("content")
        if isinstance(inner, str):
            yield _Result(at, (place,), inner, measure(inner))
        for part, given in enumerate(inner if isinstance(inner, list) else ()):
            text = given.get("text") if isinstance(given, Mapping) else None
            if isinstance(text, str) and given.get("type") == "text":
                yield _Result(at, (place, part), text, measure(text))


def _cut(text: str, tokens: int, whole: int) -> str:
    chars = max(len(text) * (tokens - 16) // max(whole, 1), 0)
    head, tail = chars * HEAD_PERCENT // 100, chars * (100 - HEAD_PERCENT) // 100
    front, back = text[:head].rstrip(), text[len(text) - tail :].lstrip()
    missing = len(text) - len(front) - len(back)
    return f"{front}\n[… {missing} characters left out to fit …]\n{back}"


def _put(item: Item, path: tuple[int, ...], text: str) -> Item:
    if not path:
        return {**item, "content": text}
    content = list(item["content"])
    block = dict(content[path[0]])
    if len(path) == 1:
        block["content"] = text
    else:
        parts = list(block["content"])
        parts[path[1]] = {**parts[path[1]], "text": text}
        block["content"] = parts
    content[path[0]] = block
    return {**item, "content": content}

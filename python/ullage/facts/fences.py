"""Finds code fences of Markdown line by line, in linear time for any text."""

from __future__ import annotations

from ullage._late import pattern

__all__ = ["unfenced"]

_FENCE = pattern(r"[ \t]*(`{3,}|~{3,})")


def unfenced(text: str, *, open_too: bool = False, gap: str = "") -> str:
    """The text with each fenced block replaced by a line.

    Args:
        text: Markdown.
        open_too: Also leave out what follows a fence that is never closed; false: keep it, since a
            stray mark does not open a block.
        gap: The line in place of a block.
    """
    if "```" not in text and "~~~" not in text:
        return text
    lines = text.split("\n")
    closers = _closers(lines)
    kept: list[str] = []
    at = 0
    while at < len(lines):
        mark = _FENCE.match(lines[at])
        if mark is None:
            kept.append(lines[at])
            at += 1
            continue
        end = _end(closers, mark[1], at)
        if end < 0 and open_too:
            break
        kept.append(gap if end >= 0 else lines[at])
        at = max(end, at) + 1
    return "\n".join(kept)


def _closers(lines: list[str]) -> dict[str, list[tuple[int, int]]]:
    """Positions and lengths of the lines that can close a block, the last first, to be popped from the end."""
    found: dict[str, list[tuple[int, int]]] = {"`": [], "~": []}
    for at in reversed(range(len(lines))):
        bare = lines[at].strip()
        if len(bare) >= 3 and bare[0] in "`~" and not bare.strip(bare[0]):
            found[bare[0]].append((at, len(bare)))
    return found


def _end(closers: dict[str, list[tuple[int, int]]], mark: str, at: int) -> int:
    waiting = closers[mark[0]]
    while waiting and waiting[-1][0] <= at:
        waiting.pop()
    # A shorter run inside the block does not close it; only runs of this block are checked.
    skipped = len(waiting)
    while skipped and waiting[skipped - 1][1] < len(mark):
        skipped -= 1
    if not skipped:
        return -1
    end = waiting[skipped - 1][0]
    del waiting[skipped - 1 :]
    return end

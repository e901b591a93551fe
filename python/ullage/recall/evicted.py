"""What is in the history but not in the request, found by comparing the two, so that no level can forget to report it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ullage.facts.reading import blocks_of, text_of
from ullage.messages import Item, is_summary, role_of
from ullage.recall.archive import Archive
from ullage.recall.searched_text import content_text
from ullage.transcript.render import rendered

__all__ = ["Left", "left"]


_TITLE_CHARS = 100


@dataclass(frozen=True, slots=True)
class Left:
    """One thing that was removed from the context.

    Attributes:
        handle: The name by which `recall` returns it.
        kind: `result` (another text replaced it) or `messages` (they are not in the request at all).
        title: Its description, one line.
        chars: Its length as text.
        first: Position of its first message in the history.
        last: Position of its last message.
    """

    handle: str
    kind: str
    title: str
    chars: int
    first: int
    last: int

    def __repr__(self) -> str:
        return f"Left({self.handle}, {self.kind}, {self.chars:,} characters)"


def left(archive: Archive, sources: Sequence[int | str], shown: Sequence[Item]) -> list[Left]:
    """Everything that was removed, oldest first, each once.

    Args:
        archive: Holds the history.
        sources: For each message of the request its position in the history, or any other value if a level made it.
        shown: The messages as they are sent, one for each source: replaced results differ.
    """
    sent = {at: showing for at, showing in zip(sources, shown, strict=True) if isinstance(at, int)}
    found: list[Left] = []
    gone: list[int] = []
    for at, item in enumerate(archive.history):
        if at in sent:
            found += [*_gone(archive, gone), *_replaced(archive, at, item, sent[at])]
            gone = []
        elif rendered(item) is not None:
            gone.append(at)
    return found + _gone(archive, gone)


def _replaced(archive: Archive, at: int, item: Item, showing: Item) -> Iterator[Left]:
    if showing is item:
        return
    for old, new in zip(blocks_of(item), blocks_of(showing), strict=False):
        if old.get("type") == "tool_result" and old.get("content") != new.get("content"):
            handle = str(old.get("tool_use_id"))
            text = content_text(old.get("content"))
            yield Left(handle, "result", archive.title(handle), len(text), at, at)


def _gone(archive: Archive, positions: Sequence[int]) -> list[Left]:
    """A run of removed messages: spans that a level named, and the messages between them, by turns."""
    if not positions:
        return []
    first, last = positions[0], positions[-1]
    named = sorted(
        (span.first, span.last, name)
        for name, span in archive.spans.items()
        if first <= span.first and span.last <= last
    )
    found, at = [], first
    for start, stop, name in named:
        if start < at:
            continue
        found += _by_turns(archive, at, start - 1)
        found.append(_messages(archive, name, start, stop))
        at = stop + 1
    return found + _by_turns(archive, at, last)


def _by_turns(archive: Archive, first: int, last: int) -> list[Left]:
    if first > last:
        return []
    starts = [at for at in range(first + 1, last + 1) if _is_input(archive.history[at])]
    stops = [at - 1 for at in starts] + [last]
    return [
        _messages(archive, f"m{start}" if start == stop else f"m{start}-{stop}", start, stop)
        for start, stop in zip([first, *starts], stops, strict=True)
    ]


def _is_input(item: Item) -> bool:
    kinds = {block.get("type") for block in blocks_of(item)}
    meta = item.get("isMeta") is True or is_summary(item)
    return role_of(item) == "user" and not meta and "tool_result" not in kinds


def _messages(archive: Archive, handle: str, first: int, last: int) -> Left:
    found = archive.resolve(handle)
    span = archive.spans.get(handle)
    words = " ".join(text_of(found.items[0])[: 4 * _TITLE_CHARS].split())[:_TITLE_CHARS]
    title = (span.title if span else "") or words or found.title
    return Left(handle, "messages", title, len(found.text), first, last)

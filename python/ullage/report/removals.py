"""What left the window in a replay: when, by which level, why, and the text itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ullage.exceptions import UllageError
from ullage.levels.report import Span, StageReport
from ullage.recall import Archive, Recalled

__all__ = ["Removal", "RemovedText", "TextBudget", "removal_of"]

MOST_TEXTS = 24
"""Texts of one report that are listed; a compaction may remove hundreds of messages."""


@dataclass(frozen=True, slots=True)
class RemovedText:
    """A tool result or a message that left.

    Attributes:
        title: The call or the message, one line.
        handle: The name under which `recall` returns it.
        text: Its beginning; empty if the page has no room for it.
        omitted_chars: Characters of it that are not shown.
    """

    title: str
    handle: str
    text: str
    omitted_chars: int


@dataclass(frozen=True, slots=True)
class Removal:
    """One report of a level.

    Attributes:
        request: Number of the request, from 1.
        time_ms: When its newest message was said, since the epoch; 0: unknown.
        level: Which level acted.
        why: What set it off.
        freed_tokens: By estimate.
        results: Tool results that it shortened or cleared.
        messages: Messages that it removed altogether.
        rewrite_dollars: What writing to the cache again cost; 0: nothing that was cached changed.
        pays_after: Requests after which the rewrite has paid; 0: at once; `None`: never, or there was no rewrite.
        texts: What left, the largest part of it first named.
        more: How many further ones are not listed.
    """

    request: int
    time_ms: int
    level: str
    why: str
    freed_tokens: int
    results: int
    messages: int
    rewrite_dollars: float
    pays_after: int | None
    texts: tuple[RemovedText, ...]
    more: int


class TextBudget:
    """How many characters of removed text a page may still hold.

    Args:
        chars: For the whole page.
        each: For one text.
        redact: Applied to each text and title before it is cut; `None`: nothing is redacted.
    """

    def __init__(
        self, chars: int, each: int = 2_000, redact: Callable[[str], str] | None = None
    ) -> None:
        self._left, self._each, self._redact = chars, each, redact

    def clean(self, text: str) -> str:
        """The text without what the host wants hidden."""
        return self._redact(text) if self._redact else text

    def take(self, text: str) -> tuple[str, int]:
        """The beginning of a text that still fits, and how many characters are not shown."""
        clean = self.clean(text)
        shown = clean[: max(0, min(self._each, self._left))]
        self._left -= _weight(shown)
        return shown, len(clean) - len(shown)


def _weight(text: str) -> int:
    """Bytes on the page: markup characters are written as references of five characters."""
    return len(text.encode("utf-8", "surrogatepass")) + 4 * sum(map(text.count, "<>&'\""))


def removal_of(
    report: StageReport, archive: Archive, budget: TextBudget, *, time_ms: int = 0
) -> Removal:
    """Describe what one report removed.

    Args:
        report: Of a level that acted.
        archive: The conversation's history, where the texts still are.
        budget: What the page may still hold.
        time_ms: Of the request, since the epoch; 0: unknown.
    """
    cost = report.cost
    handles = [*report.tool_use_ids, *_positions(report.removed)]
    listed = handles[:MOST_TEXTS]
    return Removal(
        request=report.request,
        time_ms=time_ms,
        level=report.stage,
        why=budget.clean(report.why),
        freed_tokens=report.freed,
        results=len(report.tool_use_ids),
        messages=report.removed_messages,
        rewrite_dollars=cost.rewrite_nanousd / 1e9 if cost else 0.0,
        pays_after=cost.break_even_turns if cost and cost.rewritten_tokens else None,
        texts=tuple(_text(handle, archive, budget) for handle in listed),
        more=len(handles) - len(listed),
    )


def _positions(removed: Sequence[Span]) -> Iterator[str]:
    for span in removed:
        yield from (f"m{at}" for at in range(span.start, span.stop))


def _text(handle: str, archive: Archive, budget: TextBudget) -> RemovedText:
    try:
        found = archive.resolve(handle)
    except UllageError as exc:
        return RemovedText(str(exc), handle, "", 0)
    shown, omitted = budget.take(found.text)
    return RemovedText(budget.clean(_title(found)), handle, shown, omitted)


def _title(found: Recalled) -> str:
    if found.kind != "messages" or not found.items:
        return found.title
    role = str(found.items[0].get("role") or "message")
    lines = (line.strip() for line in found.text.splitlines())
    first = next((line for line in lines if line and not line.startswith(("---", "["))), "")
    return f"{role}: {first[:100]}" if first else f"{role}: tool calls or results"

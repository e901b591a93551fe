"""What a level decided, and what it says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ullage.levels.cost import Cost

__all__ = ["Decision", "Made", "Span", "StageReport", "decided_records", "spans", "unrecorded"]


@dataclass(frozen=True, slots=True)
class Decision:
    """One tool result is replaced by a text, for ever.

    Attributes:
        tool_use_id: Whose result.
        stage: Which level decided.
        text: What stands in its place.
    """

    tool_use_id: str
    stage: str
    text: str

    def __repr__(self) -> str:
        return f"Decision({self.stage}, {self.tool_use_id}, {len(self.text)} characters)"


@dataclass(frozen=True, slots=True)
class Made:
    """A message that a level put into the request: a summary, a placeholder, a marker.

    Attributes:
        key: Names it within the conversation, such as `collapse:1f3a`; unique.
        message: A bare message, or an entry where flags such as `isMeta` matter.
    """

    key: str
    message: dict[str, Any]

    def __repr__(self) -> str:
        return f"Made({self.key})"


class Span(NamedTuple):
    """Positions [start, stop) in the history."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """What one level did.

    Attributes:
        stage: Its name.
        why: What set it off, in words.
        tokens_before: Estimate of all messages before it.
        tokens_after: And after.
        tool_use_ids: Whose results it replaced, in order.
        tools: Names of their tools, each once.
        paths: Files that these results showed; a host's "unchanged since last read" must not point at them any more.
        first_changed: First message that is not what was sent before: the cached prefix ends there. `None`: only messages that
            were never sent.
        removed_messages: How many messages went altogether.
        failures: What could not be done as planned, in words.
        removed: Which messages of the history went altogether.
        request: Number of the request that it was for, from 1; 0: none, it happened between two.
        visible_paths: Files of such results that can still be seen.
        records: Lines for the transcript, so that a resume gives the same view; not saved with the conversation.
        cost: What the rewrite costs and saves, a `ullage.levels.cost.Cost`; `None`: nothing that was sent has changed.
    """

    stage: str
    why: str
    tokens_before: int
    tokens_after: int
    tool_use_ids: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    first_changed: int | None = None
    removed_messages: int = 0
    failures: tuple[str, ...] = ()
    removed: tuple[Span, ...] = ()
    request: int = 0
    visible_paths: tuple[str, ...] = ()
    records: tuple[dict[str, Any], ...] = field(default=(), compare=False)
    cost: Cost | None = None

    @property
    def freed(self) -> int:
        """Tokens by estimate; 0 where a level put something back, or a note in."""
        return max(0, self.tokens_before - self.tokens_after)

    def __repr__(self) -> str:
        what = f"{len(self.tool_use_ids)} results"
        if self.removed_messages:
            what = f"{self.removed_messages} messages"
        return f"StageReport({self.stage}: {what}, frees≈{self.freed:_} tokens, {self.why})"


def decided_records(
    stage: str, decided: Sequence[Decision], *, known: Mapping[str, Decision]
) -> tuple[dict[str, Any], ...]:
    """Lines for the transcript, so that the same texts stand there after a resume.

    A first decision about a result is one of `content-replacement`, which no later such line changes; what takes the
    place of an earlier one, and what was cleared, is a clearing.
    """
    cleared = {each.tool_use_id: each.text for each in decided
               if stage == "microcompact" or each.tool_use_id in known}  # fmt: skip
    first = {each.tool_use_id: each.text for each in decided if each.tool_use_id not in cleared}
    from ullage.transcript import records

    lines = [records.content_replacement(first)] if first else []
    if cleared:
        lines.append(records.microcompact(list(cleared), texts=cleared))
    return tuple(lines)


def unrecorded(count: int) -> str:
    """Says that no line for the transcript was made, since so many of the messages have no uuid that a log knows."""
    return (
        f"no line for the transcript: {count} message(s) have no uuid; give ContextManager(log=...), "
        "or add what log.append returned"
    )


def spans(positions: Iterable[int]) -> tuple[Span, ...]:
    """Rising positions as spans without gaps."""
    found: list[Span] = []
    for at in positions:
        if found and found[-1].stop == at:
            found[-1] = Span(found[-1].start, at + 1)
        else:
            found.append(Span(at, at + 1))
    return tuple(found)

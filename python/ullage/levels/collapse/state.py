"""What context collapse remembers of a conversation, and its lines for a transcript."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from ullage._late import hashlib
from ullage.recall.named_span import NamedSpan

__all__ = ["Collapse", "Committed", "Staged"]


@dataclass(frozen=True, slots=True)
class Staged:
    """A span with its summary, ready to be committed.

    Attributes:
        first: Position in the history of its first message.
        last: And of its last.
        summary: What stands in the placeholder.
        risk: 0 (nothing would be missed) to 1000.
        staged_ms: When, in milliseconds since the epoch; 0: unknown.
        first_uuid: Of the first entry; empty: it has none.
        last_uuid: Of the last.
        count: How many messages there were; 0: unknown, as after a resume.
        ends: What the id is made of; empty: the uuids, else the positions.
    """

    first: int
    last: int
    summary: str = field(repr=False)
    risk: int
    staged_ms: int = 0
    first_uuid: str = ""
    last_uuid: str = ""
    count: int = 0
    ends: str = ""

    @property
    def collapse_id(self) -> str:
        """The same in every process: a hash of its ends."""
        ends = self.ends or f"{self.first_uuid or self.first}|{self.last_uuid or self.last}"
        return hashlib.sha256(ends.encode("utf-8", "surrogatepass")).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Committed:
    """A span that one placeholder stands for.

    Attributes:
        parts: Positions [first, last] in the history, rising; more than one where something had left before.
        title: What it was about, in a line.
    """

    parts: tuple[tuple[int, int], ...]
    title: str = ""

    @property
    def span(self) -> NamedSpan:
        """From its first to its last message."""
        return NamedSpan(self.parts[0][0], self.parts[-1][1], self.title)

    @property
    def positions(self) -> list[int]:
        """Of all its messages."""
        return [at for first, last in self.parts for at in range(first, last + 1)]


@dataclass(slots=True)
class Collapse:
    """State of the level.

    Attributes:
        staged: Ready spans, oldest first; they never overlap.
        commits: By collapse id.
        expanded: Spans that were put back; they are left alone from then on.
        armed: Whether the window is so full that spans are staged.
        last_run_tokens: Size of the context when spans were staged last.
        looked_tokens: And when they were looked for, found or not; 0: never, or what was found then has changed.
        untold: Spans that were staged since the last report of any.
        running: Summaries are being written elsewhere; not saved.
    """

    staged: list[Staged] = field(default_factory=list)
    commits: dict[str, Committed] = field(default_factory=dict)
    expanded: list[NamedSpan] = field(default_factory=list)
    armed: bool = False
    last_run_tokens: int = 0
    looked_tokens: int = 0
    untold: int = 0
    running: int = 0

    @property
    def removed(self) -> dict[str, NamedSpan]:
        """For recall: what each placeholder stands for."""
        return {name: each.span for name, each in self.commits.items()}

    def dump(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "staged": [asdict(each) for each in self.staged],
            "commits": {name: asdict(each) for name, each in self.commits.items()},
            "expanded": [span.to_dict() for span in self.expanded],
            "armed": self.armed,
            "last_run_tokens": self.last_run_tokens,
            "looked_tokens": self.looked_tokens,
            "untold": self.untold,
        }

    @classmethod
    def load(cls, stored: Any) -> Self:
        """What `dump` gave."""
        return cls(
            staged=[Staged(**each) for each in stored["staged"]],
            commits={
                name: Committed(
                    tuple((first, last) for first, last in each["parts"]), each["title"]
                )
                for name, each in stored["commits"].items()
            },
            expanded=[NamedSpan(**each) for each in stored["expanded"]],
            armed=stored["armed"],
            last_run_tokens=stored["last_run_tokens"],
            looked_tokens=stored.get("looked_tokens", 0),
            untold=stored.get("untold", 0),
        )

    def snapshot_record(self) -> dict[str, Any]:
        """The transcript's line with this state; the last one counts."""
        from ullage.transcript import records

        spans = tuple(
            records.StagedSpan(
                each.first_uuid, each.last_uuid, each.summary, each.risk / 1000, each.staged_ms
            )
            for each in self.staged
            if each.first_uuid and each.last_uuid
        )
        return records.collapse_snapshot(
            records.CollapseSnapshot(spans, self.armed, self.last_run_tokens)
        )


def commit_records(pairs: Iterable[tuple[Staged, str]]) -> list[dict[str, Any]]:
    """The transcript's lines for spans and the exact texts of their placeholders; those without uuids are left out."""
    from ullage.transcript import records

    lines = []
    for span, text in pairs:
        if span.first_uuid and span.last_uuid:
            name = span.collapse_id
            commit = records.CollapseCommit(
                name, f"collapse-{name}", text, span.summary, span.first_uuid, span.last_uuid
            )
            lines.append(records.collapse_commit(commit))
    return lines

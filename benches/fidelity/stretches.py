"""What models were shown in real sessions: stretches between two compactions, and their prefixes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kit.transcripts import read
from ullage.transcript import resume
from ullage.transcript.render import rendered, to_messages

__all__ = ["Stretch", "files_of", "lengths", "spread", "stretches"]

SUFFIXES = {".jsonl", ".json", ".traj"}

Messages = list[Any]


class Stretch:
    """What a model was shown between two compactions, as entries in the order of the context.

    Args:
        place: Names it in reports.
        entries: All of them.
        model: The session's, `None`: unknown.
    """

    def __init__(self, place: str, entries: list[Any], model: str | None) -> None:
        self.place, self.model = place, model
        self.entries = [rendered(entry) or entry for entry in entries]
        self._known: dict[Any, Any] = {}

    def prefix(self, length: int) -> Messages:
        """The messages of the first entries; those of an earlier prefix are the same objects."""
        return [self._same(message) for message in to_messages(self.entries[:length]).messages]

    def _same(self, message: Any) -> Any:
        content = message["content"]
        parts = [content] if isinstance(content, str) else content
        key = (message["role"], type(content), *map(_name, parts))
        # The entry holds the parts, so that no other object gets their identity.
        return self._known.setdefault(key, (message, parts))[0]


def _name(part: Any) -> Any:
    """What a block is known by: the text that it was made of, or itself."""
    if isinstance(part, dict) and part.keys() == {"type", "text"} and part["type"] == "text":
        part = part["text"]
    return part if isinstance(part, str) else id(part)


def stretches(path: Path) -> Iterator[Stretch]:
    """All stretches of all conversations of a file."""
    for number, session in enumerate(read(path).sessions):
        lines = session.entries
        cuts = [at for at, line in enumerate(lines) if line.get("subtype") == "compact_boundary"]
        for part, cut in enumerate([*cuts, len(lines)]):
            entries = resume(lines[:cut]).entries
            if entries:
                place = f"{path.parent.name}/{path.stem[:8]} conversation {number} part {part}"
                yield Stretch(place, entries, session.metadata.get("model"))


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*/*") if path.suffix in SUFFIXES)


def lengths(count: int, most: int | None) -> list[int]:
    """Which prefixes: all, or `most` of them evenly, the whole among them."""
    if most is None or count <= most:
        return list(range(1, count + 1))
    return sorted({count * at // most for at in range(1, most + 1)})


def spread(path: Path, most: int) -> list[tuple[Stretch, int]]:
    """Prefixes of a file, evenly over all its stretches."""
    found = [
        (stretch, at) for stretch in stretches(path) for at in range(1, len(stretch.entries) + 1)
    ]
    return [
        found[at * len(found) // most - 1] for at in range(1, most + 1) if at * len(found) >= most
    ]

"""What every line of another program's log carries, continued as that program continues it (LOG-7).

Codex numbers its lines and opens no session whose newest line has no number. Which fields a version writes is read from
the file itself, so that a field of a newer version is continued as well, or the write is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ullage.exceptions import StoreError
from ullage.messages import Item

__all__ = ["NEWEST_LINES", "Envelope"]

NEWEST_LINES = 40
"""So many lines at the end of a file say what all carry: enough to hold lines of every frequent kind."""


class Envelope:
    """The fields that lines of a log share besides those that a writer sets itself.

    Args:
        lines: The newest lines, oldest first; of one type, they say nothing.
        own: Fields that the writer sets on each line.
        path: Of the file, for the error.
        typical: Whether a line counts when it is asked which fields all lines carry; `None`: each does.

    Raises:
        StoreError: The lines share a field whose next value is unknown; names it.
    """

    def __init__(
        self,
        lines: Sequence[Item],
        own: Iterable[str],
        path: str,
        typical: Callable[[Item], bool] | None = None,
    ) -> None:
        self._numbers: dict[str, int] = {}
        self._same: dict[str, Any] = {}
        asked = [line for line in lines if typical is None or typical(line)]
        # What lines of one type share may be that type's own.
        several = len({line.get("type") for line in asked}) > 1
        shared = set.intersection(*map(set, asked)) if several else set()
        for name in sorted(shared.difference(own)):
            self._learn(name, [line[name] for line in lines if name in line], path)

    def _learn(self, name: str, values: Sequence[Any], path: str) -> None:
        before, newest = values[-2:]
        if before == newest and type(before) is type(newest):
            self._same[name] = newest
        elif _rises(values):
            self._numbers[name] = newest
        else:
            reason = f"cannot be continued: each of its lines carries {name!r}, and what follows {str(newest)[:40]!r} is unknown"
            hint = "nothing was written; `ullage compact FILE --output OTHER --format claude_code` writes another file"
            raise StoreError(reason, path=path, hint=hint)

    def over(self, lines: Iterable[Item]) -> list[dict[str, Any]]:
        """The lines with these fields: numbers go on from the newest, also over lines that came with one."""
        return [self._continued(line) for line in lines]

    def _continued(self, line: Mapping[str, Any]) -> dict[str, Any]:
        self._numbers = {name: number + 1 for name, number in self._numbers.items()}
        return {**self._same, **line, **self._numbers}


def _rises(values: Sequence[Any]) -> bool:
    """Whether whole numbers grow from line to line."""
    whole = all(type(value) is int for value in values)
    return whole and all(a < b for a, b in pairwise(values))

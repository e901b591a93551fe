"""What a log is written to and read from: a file, or a log in a store that many workers share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

__all__ = ["LogBytes"]


class LogBytes(Protocol):
    """An append-only run of lines, with one writer.

    `LogFile` is one; `ullage.stores.StoredLog` is another.
    """

    @property
    def path(self) -> str:
        """The file; empty: there is none that others could read."""
        ...

    @property
    def name(self) -> str:
        """What errors call it."""
        ...

    @property
    def end(self) -> int:
        """Where the next write goes, in bytes."""
        ...

    @property
    def torn(self) -> tuple[int, int] | None:
        """(offset, length) of an incomplete last line found when opening, or `None`."""
        ...

    def append(self, data: bytes) -> None:
        """Writes whole lines at the end, all of them or none.

        Raises:
            LogConflict: Another writer changed it; nothing was written.
            StoreError: It cannot be written; it is as it was.
        """
        ...

    def sync(self) -> None:
        """Waits until all that was written is durable."""
        ...

    def close(self) -> None:
        """Gives up writing."""
        ...

    def lines(self) -> Iterator[bytes]:
        """Lines from the first to the last, line ends included."""
        ...

    def lines_backwards(self) -> Iterator[tuple[int, bytes, bool]]:
        """Lines from the last to the first: offset, bytes, and whether a line end follows."""
        ...

    def line_at(self, offset: int) -> bytes:
        """The line that begins at an offset in bytes; empty: there is none."""
        ...

    def head(self, stop: int) -> bytes:
        """What stands before an offset in bytes."""
        ...

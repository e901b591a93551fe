"""Times and names that a conversation's log is written with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.transcript.log import TranscriptLog

__all__ = ["new_uuid", "now_in_ms", "opened_log"]


def now_in_ms() -> int:
    """The system's clock, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def new_uuid() -> str:
    """A random one."""
    import uuid  # slow to import

    return str(uuid.uuid4())


def opened_log(
    path: str | os.PathLike[str], clock: Callable[[], int | None], *, create: bool
) -> TranscriptLog:
    """The log of a file, stamped by the host's clock."""
    from ullage.transcript.log import TranscriptLog

    return TranscriptLog.open(path, create=create, clock=lambda: clock() or now_in_ms())

"""Does again what a lost connection interrupted; everything that is done so may be done twice."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

__all__ = ["pauses", "persist"]

T = TypeVar("T")

_FIRST, _LONGEST = 0.05, 1.0


def pauses(seconds: float) -> Iterator[float]:
    """How long to wait before each further try, until so much time is over."""
    until, pause = time.monotonic() + seconds, _FIRST
    while (left := until - time.monotonic()) > 0:
        # Not all workers at once, when a server comes back.
        yield min(left, pause * random.uniform(0.5, 1))  # noqa: S311
        pause = min(2 * pause, _LONGEST)


def persist(call: Callable[[], T], lost: tuple[type[Exception], ...], seconds: float) -> T:
    """What a call returns, tried again for so long while it raises that the connection is lost.

    Raises:
        Exception: The last of them, or another one at once.
    """
    for pause in pauses(seconds):
        try:
            return call()
        except lost:
            time.sleep(pause)
    return call()

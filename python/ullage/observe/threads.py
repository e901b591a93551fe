"""Runs a function with a deadline, for synchronous callers that must not hang on someone else's code."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Late", "call_with_deadline"]

T = TypeVar("T")


class Late(Exception):
    """The deadline passed."""


def call_with_deadline(function: Callable[[], T], seconds: float | None) -> T:
    """What the function returns or raises, if that happens in time.

    It runs in a thread of its own with the caller's context variables. One that is late goes on
    there until it ends: threads can't be killed; its result is dropped.

    Args:
        function: Called without arguments.
        seconds: The deadline; `None`: none, and no thread.

    Raises:
        Late: It took too long.
    """
    if seconds is None:
        return function()
    box: list[Any] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            box.append((True, context.run(function)))
        except BaseException as exc:
            box.append((False, exc))

    thread = threading.Thread(target=run, name="ullage-deadline", daemon=True)
    thread.start()
    thread.join(seconds)
    if not box:
        raise Late
    fine, value = box[0]
    if not fine:
        raise value
    return value  # type: ignore[no-any-return]

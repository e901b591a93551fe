"""A function as a summarizer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any, Literal

from ullage.exceptions import InvalidPolicy
from ullage.summarizers.protocol import SummarizerFunction, SummaryReply, SummaryRequest

__all__ = ["CallableSummarizer"]


class CallableSummarizer:
    """Wraps a function, synchronous or not, that takes a `SummaryRequest` and returns text.

    Args:
        function: Returns the summary as a string or a `SummaryReply`.
        name: For reports; by default the function's.
        window_tokens: Context window of its model; `None`: unknown, not checked.
        max_output_tokens: Its longest answer; `None`: unknown.
        modes: Call modes in the order to try.

    Example:
        >>> writer = CallableSummarizer(lambda request: "## 1. Primary Request and Intent", name="mine")
        >>> writer.name
        'mine'
    """

    def __init__(
        self,
        function: SummarizerFunction,
        *,
        name: str = "",
        window_tokens: int | None = None,
        max_output_tokens: int | None = None,
        modes: tuple[Literal["shared", "plain"], ...] = ("plain",),
    ) -> None:
        if not callable(function):
            raise InvalidPolicy("summarizer", function, "must be a summarizer or a function")
        self._function = function
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.window_tokens = window_tokens
        self.max_output_tokens = max_output_tokens
        self.modes = modes

    def summarize(self, request: SummaryRequest) -> SummaryReply | str:
        """Calls the function."""
        answer = self._function(request)
        if inspect.isawaitable(answer):
            _close(answer)
            raise InvalidPolicy(
                "summarizer", self.name, "is asynchronous", hint="use acompact, or a plain function"
            )
        return answer

    async def asummarize(self, request: SummaryRequest) -> SummaryReply | str:
        """Calls the function and awaits it if it is asynchronous."""
        answer = self._function(request)
        return await answer if inspect.isawaitable(answer) else answer

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function; another is run in a thread."""
        return inspect.iscoroutinefunction(self._function) or inspect.iscoroutinefunction(
            getattr(self._function, "__call__", None)  # noqa: B004 - an object with an async __call__
        )

    def __repr__(self) -> str:
        return f"CallableSummarizer({self.name})"


def _close(answer: Awaitable[Any]) -> None:
    close = getattr(answer, "close", None)
    if close is not None:  # a coroutine that nobody awaits would warn
        close()

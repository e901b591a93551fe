"""A summarizer that does what a script says, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ullage.messages import Item
from ullage.summarizers.protocol import SummaryReply, SummaryRequest
from ullage.testing.failures import ScriptedAPIError
from ullage.testing.script import TRANSPORT, Answer, Script, Step, answer


class ScriptedSummarizer:
    """Answers, misbehaves or raises as its steps say; then answers well.

    Works as a `Summarizer` and as a plain function, synchronous (`summarize`, call it) and
    asynchronous (`asummarize`). Errors look like those of the SDKs, with the providers' own words.

    Args:
        *steps: `Step`s or names of kinds, in the order of the calls.
        after: What follows the last step.
        window_tokens: What it says of its model's window; `None`: nothing.
        max_output_tokens: What it says of its model's longest answer; `None`: nothing.
        modes: Call modes that it says it can do, in the order to try.

    Attributes:
        requests: What it was asked, in order, whatever came of it.

    Example:
        >>> writer = ScriptedSummarizer("empty", Step("overflow", times=2))
        >>> writer([{"role": "user", "content": "hello"}]).text
        ''
    """

    name = "scripted"

    def __init__(
        self,
        *steps: Step | str,
        after: Step | str = "good",
        window_tokens: int | None = None,
        max_output_tokens: int | None = None,
        modes: tuple[Literal["shared", "plain"], ...] = ("plain",),
    ) -> None:
        self.script = Script(steps, after=after)
        self.window_tokens = window_tokens
        self.max_output_tokens = max_output_tokens
        self.modes = modes
        self.requests: list[Any] = []
        self._lock = threading.Lock()
        self._released = threading.Event()

    def __call__(self, request: SummaryRequest | Sequence[Item]) -> SummaryReply:
        """The same as `summarize`."""
        return self.summarize(request)

    def summarize(self, request: SummaryRequest | Sequence[Item]) -> SummaryReply:
        """The next step's answer to a `SummaryRequest`, or to bare messages.

        Raises:
            ScriptedAPIError: The step is an error answer.
            ConnectionError: It is about the wire: cut, dropped, unreadable.
            TimeoutError: It hangs, and nobody called `release` within its `seconds`.
        """
        step, made = self._begin(request)
        if step.kind in TRANSPORT:
            waited = step.kind in _WAITING and not self._released.wait(step.seconds)
            _after_waiting(step, waited)
        return _reply(made, step)

    async def asummarize(self, request: SummaryRequest | Sequence[Item]) -> SummaryReply:
        """The same without blocking the (asyncio) event loop; `release` is looked at every 10 ms."""
        step, made = self._begin(request)
        if step.kind in TRANSPORT:
            waited = step.kind in _WAITING and not await self._wait(step.seconds)
            _after_waiting(step, waited)
        return _reply(made, step)

    def release(self) -> None:
        """Let all calls that wait go on, and those to come not wait."""
        self._released.set()

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len(self.requests)

    def _begin(self, request: SummaryRequest | Sequence[Item]) -> tuple[Step, Answer]:
        with self._lock:
            self.requests.append(request)
        step = self.script.next()
        return step, answer(step, _messages(request))

    async def _wait(self, seconds: float) -> bool:
        import asyncio  # costs 30 ms, which only those pay who await

        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        # Not an asyncio.Event: `release` may be called from any thread and any loop.
        while not self._released.is_set() and loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(min(0.01, seconds))
        return self._released.is_set()

    def __repr__(self) -> str:
        return f"ScriptedSummarizer({self.calls} calls, {self.script!r})"


_WAITING = ("hang", "stall", "slow")


def _messages(request: SummaryRequest | Sequence[Item]) -> Sequence[Mapping[str, Any]]:
    found = request if isinstance(request, Sequence) else getattr(request, "messages", ())
    return found if isinstance(found, Sequence) and not isinstance(found, str) else ()


def _after_waiting(step: Step, gave_up: bool) -> None:
    """What comes of a step about the wire; `slow` answers in the end."""
    if step.kind == "slow" or (step.kind in _WAITING and not gave_up):
        return
    if gave_up:
        raise TimeoutError(f"scripted: no answer within {step.seconds:g} s")
    raise ConnectionError(f"scripted: {step.kind.replace('_', ' ')}")


def _reply(made: Answer, step: Step) -> SummaryReply:
    if made.failure is not None:
        form = "anthropic" if step.provider.startswith("anthropic") else "openai"
        raise ScriptedAPIError(made.failure, form)
    return SummaryReply(
        text=made.text,
        finish_reason=made.stop_reason,
        tool_calls=made.tool_calls,
        refused=made.stop_reason == "refusal",
        model="scripted",
        usage={"input_tokens": 1000, "output_tokens": len(made.text) // 4},
    )

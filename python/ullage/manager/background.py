"""Summaries that a context collapse will need, asked for beside the conversation (COL-1)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from ullage.compaction.effects_runner import AsyncPerformer, Performer
from ullage.effects import Effect, Flow, adrive, drive

__all__ = ["Beside"]


class Beside:
    """At most one flow beside the conversation.

    Its questions are answered on a thread, or the whole is a task of the event loop. Its own steps, which read and change the
    conversation, are taken only where `go_on` is called, or in the loop: never while something else does.
    """

    def __init__(self) -> None:
        self._host: Any = None
        self._flow: Flow[Any] | None = None
        self._answer: Future[Any] = Future()
        self._task: Any = None  # kept: an event loop holds its tasks weakly

    @property
    def running(self) -> bool:
        """Whether a flow is not at its end."""
        return self._flow is not None

    def start(self, flow: Flow[Any], host: Any) -> None:
        """Take its first step here, and ask on a thread; nothing where one is running.

        Args:
            flow: A fresh generator.
            host: Whose summarizer and listeners its questions use.
        """
        if self._flow is None:
            self._flow, self._host = flow, host
            self._step(partial(next, flow))

    def start_task(self, flow: Flow[Any], host: Any) -> None:
        """As a task of the running event loop; nothing where one is running."""
        import asyncio

        if self._flow is None:
            self._flow, self._host = flow, host
            self._task = asyncio.get_running_loop().create_task(self._in_task(flow))

    def go_on(self) -> None:
        """Take the steps that the answers so far allow; never waits."""
        while (flow := self._flow) is not None and self._task is None and self._answer.done():
            error = self._answer.exception()
            if error is None:
                self._step(partial(flow.send, self._answer.result()))
            else:
                self._step(partial(flow.throw, error))

    def stop_task(self) -> None:
        """End a task: who is about to block its event loop would wait for it in vain."""
        if self._task is not None:
            self._task.cancel()
            self._end()

    # ---- inside ------------------------------------------------------------------------------

    def _step(self, step: Callable[[], Effect]) -> None:
        try:
            effect = step()
        except StopIteration:
            self._end()
            return
        except BaseException:
            self._end()
            raise
        self._answer = Future()
        threading.Thread(
            target=self._asked, args=(effect, self._answer), name="ullage-beside", daemon=True
        ).start()

    def _asked(self, effect: Effect, answer: Future[Any]) -> None:
        try:
            answer.set_result(self._answered(effect))
        except BaseException as exc:  # the thread's end is told where the flow goes on
            answer.set_exception(exc if isinstance(exc, Exception) else RuntimeError(repr(exc)))

    def _answered(self, effect: Effect) -> Any:
        writer = self._host.summarizer
        asynchronous = getattr(writer, "is_async", not hasattr(writer, "summarize"))
        if asynchronous and hasattr(writer, "asummarize"):
            import asyncio

            perform = AsyncPerformer(self._host, self._host.listeners)
            return asyncio.run(adrive(_one(effect), perform))
        return drive(_one(effect), Performer(self._host, self._host.listeners))

    async def _in_task(self, flow: Flow[Any]) -> None:
        try:
            await adrive(flow, AsyncPerformer(self._host, self._host.listeners))
        finally:
            if self._flow is flow:
                self._end()

    def _end(self) -> None:
        flow, self._flow, self._task = self._flow, None, None
        if flow is not None:
            flow.close()

    def __repr__(self) -> str:
        return f"Beside({'running' if self.running else 'idle'})"


def _one(effect: Effect) -> Flow[Any]:
    return (yield effect)

"""A flow in the background of a conversation: the summaries that a context collapse will need (COL-1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ullage.compaction.effects_runner import arun_flow, run_flow_on_thread
from ullage.effects import Effect, Flow
from ullage.effects.background import BackgroundRunner, BackgroundWork

__all__ = ["BackgroundFlow"]

_NAME = "ullage-collapse"


class BackgroundFlow:
    """At most one flow at a time.

    Its effects are performed on a thread, or the whole is a task of the event loop. Its own steps, which read and change the
    conversation, are taken only where `go_on` is called, or in the loop: never while something else does.
    """

    def __init__(self) -> None:
        self._background = BackgroundRunner(_NAME)
        self._host: Any = None
        self._flow: Flow[Any] | None = None
        self._in_loop = False
        self._answers: list[Any] = []

    @property
    def running(self) -> bool:
        """Whether a flow is at work or waits for `go_on`; not one whose thread or loop is no more, as in a forked process."""
        return self._flow is not None and (self._background.running or self.answered)

    @property
    def answered(self) -> bool:
        """Whether `go_on` has a step to take."""
        return bool(self._answers)

    def start(self, flow: Flow[Any], host: Any, *, in_loop: bool = False) -> None:
        """Take its first step, or begin it as a task; nothing where one is running.

        Args:
            flow: A fresh generator.
            host: Whose summarizer and listeners its effects use.
            in_loop: As a task of the running event loop; else its effects are performed on a thread.
        """
        if self.running:
            return
        self._end()
        self._flow, self._host, self._in_loop = flow, host, in_loop
        if not in_loop:
            self._step(partial(next, flow))
            return
        work = BackgroundWork(
            lambda cancel: run_flow_on_thread(flow, host.summarizer, host, host.listeners),
            lambda cancel: arun_flow(flow, host, host.listeners),
            done=partial(self._task_ended, flow),
        )
        self._background.submit(work)

    def go_on(self) -> None:
        """Take the steps that the answers so far allow; never waits. Raises what the flow raises."""
        if not self.running:
            self._end()
        while (flow := self._flow) is not None and self._answers:
            answer = self._answers.pop()
            if isinstance(answer, Exception):
                self._step(partial(flow.throw, answer))
            else:
                self._step(partial(flow.send, answer))

    def stop_task(self) -> None:
        """Cancel the task: a synchronous `prepare` would block its event loop, so it could never finish."""
        if self._in_loop:
            self._background.cancel()
            self._end()
            # The loop has yet to see that the old one is cancelled: the next must not stand in line after it.
            self._background = BackgroundRunner(_NAME)

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
        host = self._host
        work = BackgroundWork(
            lambda cancel: run_flow_on_thread(
                _one(effect), host.summarizer, host, host.listeners, cancel=cancel
            ),
            done=self._answers.append,
        )
        self._background.submit(work, mode="thread")

    def _task_ended(self, flow: Flow[Any], result: object) -> None:
        if self._flow is flow:
            self._end()
        if isinstance(result, Exception):
            raise result  # nobody awaits it: the background reports it

    def _end(self) -> None:
        flow, self._flow, self._in_loop = self._flow, None, False
        self._answers = []
        if flow is not None:
            flow.close()

    def __repr__(self) -> str:
        return f"BackgroundFlow({'running' if self.running else 'idle'})"


def _one(effect: Effect) -> Flow[Any]:
    return (yield effect)

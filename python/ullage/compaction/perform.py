"""Does what a compaction flow asks for: synchronously, or with `await`."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from ullage._threads import Late, call_with_deadline
from ullage.compaction.attachments import Providers
from ullage.effects import (
    Call,
    Count,
    Effect,
    Emit,
    ReadFile,
    RunHook,
    Store,
    Summarize,
    Together,
    Wait,
)
from ullage.events import Event, Listener
from ullage.exceptions import InvalidPolicy
from ullage.hooks import arun_hook, run_hook

__all__ = ["AsyncPerformer", "Outside", "Performer"]


class Outside(Protocol):
    """Whose file reader and log are used: a `Job`, or whoever runs several."""

    @property
    def providers(self) -> Providers:
        """Reads files."""
        ...

    @property
    def store(self) -> Any:
        """Installs a result in a log; `None`: there is none."""
        ...


class Performer:
    """Performs effects one by one.

    Args:
        job: Whose providers and store are used.
        listeners: Told of every event.
        sleep: For `Wait`, in seconds.
    """

    def __init__(
        self,
        job: Outside,
        listeners: Iterable[Listener] = (),
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        self._job = job
        self._listeners = tuple(listeners)
        self._sleep = sleep

    def __call__(self, effect: Effect) -> Any:
        """The effect's result."""
        match effect:
            case Emit(event):
                return self._tell(event)
            case Summarize():
                return self._summarize(effect)
            case RunHook(hook, payload):
                return run_hook(hook, payload)
            case ReadFile(path, max_bytes):
                return self._read(path, max_bytes)
            case Call(function, args):
                return _plain(function(*args))
            case Wait(seconds):
                return self._sleep(seconds)
            case Store():
                return self._store(effect)
            case Count() | Together():
                raise TypeError(f"a compaction has no effect {type(effect).__name__} of its own")

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:  # noqa: S112 - a listener watches; what breaks in it is its own
                continue

    def _summarize(self, effect: Summarize) -> Any:
        write = getattr(effect.summarizer, "summarize", None)
        if write is None:
            raise InvalidPolicy(
                "summarizer", effect.summarizer, "has no summarize method", hint="use acompact"
            )
        if getattr(effect.summarizer, "local", False) is True:
            return write(effect.request)
        try:
            return _plain(
                call_with_deadline(lambda: write(effect.request), effect.request.deadline_seconds)
            )
        except Late as exc:
            raise TimeoutError(_late(effect)) from exc

    def _read(self, path: str, max_bytes: int) -> str | None:
        reader = self._job.providers.read_file
        text = _plain(reader(path)) if reader is not None else None
        # What does not fit even roughly is not decoded, counted and cut: its name is in the summary.
        return text if isinstance(text, str) and len(text) <= max_bytes else None

    def _store(self, effect: Store) -> Any:
        return _plain(self._job.store(effect.draft, effect.ids))


class AsyncPerformer(Performer):
    """Performs effects without blocking the event loop: what is not asynchronous runs in a thread."""

    def __call__(self, effect: Effect) -> Any:
        """The effect's result, or an awaitable of it."""
        match effect:
            case Summarize():
                return self._asummarize(effect)
            case RunHook(hook, payload):
                return arun_hook(hook, payload)
            case ReadFile(path, max_bytes):
                return self._aread(path, max_bytes)
            case Call(function, args):
                return _in_thread(function, *args)
            case Wait(seconds):
                import asyncio

                return asyncio.sleep(seconds)
            case Store():
                return _in_thread(self._job.store, effect.draft, effect.ids)
            case _:
                return super().__call__(effect)

    async def _asummarize(self, effect: Summarize) -> Any:
        import asyncio

        summarizer, request = effect.summarizer, effect.request
        if getattr(summarizer, "local", False) is True:
            return summarizer.summarize(request)
        write = getattr(summarizer, "asummarize", None)
        if write is None or getattr(summarizer, "is_async", True) is False:
            pending = asyncio.to_thread(summarizer.summarize, request)
        else:
            pending = write(request)
        try:
            return await asyncio.wait_for(pending, request.deadline_seconds)
        except TimeoutError as exc:
            raise TimeoutError(_late(effect)) from exc

    async def _aread(self, path: str, max_bytes: int) -> str | None:
        reader = self._job.providers.read_file
        text = await _in_thread(reader, path) if reader is not None else None
        return text if isinstance(text, str) and len(text) <= max_bytes else None


async def _in_thread(function: Callable[..., Any], *args: Any) -> Any:
    import asyncio

    if inspect.iscoroutinefunction(function):
        return await function(*args)
    result = await asyncio.to_thread(function, *args)
    return await result if inspect.isawaitable(result) else result


def _plain(result: Any) -> Any:
    if not inspect.isawaitable(result):
        return result
    close = getattr(result, "close", None)
    if close is not None:
        close()
    raise TypeError("is asynchronous: use the asynchronous form")


def _late(effect: Summarize) -> str:
    return f"no answer within {effect.request.deadline_seconds} s"

"""What a host registers so that context can be restored after a compaction; and the effects of a compaction, performed by what it registered."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Required, TypeAlias, TypedDict, TypeVar

from ullage._start import Frozen
from ullage.effects import (
    Call,
    Cancelled,
    CancelToken,
    Effect,
    Emit,
    Flow,
    LetOthersRun,
    RunHook,
    Summarize,
    Together,
    Wait,
    adrive,
    drive,
)
from ullage.effects.background import BackgroundWork, await_watched, call_watched
from ullage.exceptions import InvalidPolicy

if TYPE_CHECKING:
    from ullage.observe.events import Event, Listener
    from ullage.observe.hooks import Hook
    from ullage.summarizers.protocol import SummaryRequest, Watch


Attachment: TypeAlias = dict[str, Any]


class Skill(Frozen):
    """A skill that was invoked: its instructions, so that it need not be invoked again."""

    name: str
    content: str
    path: str = ""


class TaskAttachment(TypedDict, total=False):
    """A background task: what it is, how far it is. Of several states of one task the last is shown."""

    type: Required[Literal["task_status"]]
    taskId: Required[str | int]
    status: Required[str]  # such as `running`, `completed`
    description: str
    deltaSummary: str  # what is new since the model heard of it
    outputFilePath: str  # where its output can be read


class ToolsAttachment(TypedDict, total=False):
    """Tools that the model may load by name."""

    type: Required[Literal["deferred_tools_delta"]]
    addedNames: Required[list[str]]
    addedLines: list[str]  # a line for each of them, as it is shown; absent: the names
    removedNames: list[str]


class AgentsAttachment(TypedDict, total=False):
    """Agents that the model may start."""

    type: Required[Literal["agent_listing_delta"]]
    addedTypes: Required[list[str]]
    addedLines: list[str]  # a line for each of them, as it is shown; absent: the types
    removedTypes: list[str]


class McpAttachment(TypedDict, total=False):
    """Instructions of MCP servers."""

    type: Required[Literal["mcp_instructions_delta"]]
    addedNames: Required[list[str]]
    addedBlocks: Required[list[str]]  # a text for each of them
    removedNames: list[str]


class Providers(Frozen, kw_only=True):
    """The providers of the state to restore; each may be absent, and may return nothing.

    Attributes:
        read_file: The text of a file now, or `None`; `None` here: no files are restored.
        skip_file: Whether a path is a plan or memory file, which has a provider of its own.
        plan: `(path, text)` of the plan file.
        skills: Invoked skills, newest first.
        plan_mode: Whether plan mode is on.
        tasks: State of background tasks, each a `TaskAttachment`.
        tools: Tools that can be loaded, all of them, in one or more `ToolsAttachment`.
        agents: The agents, in one or more `AgentsAttachment`.
        mcp: Instructions of MCP servers, in one or more `McpAttachment`.
        clean_up: Called after a compaction was installed: empties the read-file cache and the like.

    Example:
        >>> Providers(plan=lambda: ("plan.md", "1. Fix the parser"), skills=lambda: [Skill("commit", "Write short messages.")]).plan_mode
    """

    read_file: Callable[[str], str | None] | None = None
    skip_file: Callable[[str], bool] | None = None
    plan: Callable[[], tuple[str, str] | None] | None = None
    skills: Callable[[], Sequence[Skill]] | None = None
    plan_mode: Callable[[], bool] | None = None
    tasks: Callable[[], Sequence[Mapping[str, Any]]] | None = None
    tools: Callable[[], Sequence[Mapping[str, Any]]] | None = None
    agents: Callable[[], Sequence[Mapping[str, Any]]] | None = None
    mcp: Callable[[], Sequence[Mapping[str, Any]]] | None = None
    clean_up: tuple[Callable[[], object], ...] = ()


T = TypeVar("T")


class Performer:
    """Performs effects one by one.

    `listeners` are called with every event; `cancel`: checked while a summary is written, and while waiting.
    """

    def __init__(
        self, listeners: Iterable[Listener] = (), cancel: CancelToken | None = None
    ) -> None:
        self._listeners, self._cancel = tuple(listeners), cancel

    def __call__(self, effect: Effect) -> Any:
        """The effect's result; of an `AsyncPerformer` perhaps an awaitable of it."""
        match effect:
            case Emit(event):
                return self._tell(event)
            case Summarize():
                return self._summarize(effect)
            case RunHook(hook, payload):
                return self._run_hook(hook, payload)
            case Call(function, args):
                return self._call(function, *args)
            case Wait(seconds):
                return self._pause(seconds)
            case LetOthersRun():
                return self._let_others_run()
            case Together():
                raise TypeError("the driver performs its effects one by one")

    def _tell(self, event: Event) -> None:
        from ullage.observe.events import tell

        tell(self._listeners, event)

    def _summarize(self, effect: Summarize) -> Any:
        write = getattr(effect.summarizer, "summarize", None)
        if write is None:
            limit, hint = "has no summarize method", "use acompact"
            raise InvalidPolicy("summarizer", effect.summarizer, limit, hint=hint)
        if getattr(effect.summarizer, "local", False) is True:
            return write(effect.request)
        request, _, check = self._watched(effect)
        return self._call(call_watched, lambda: write(request), check)

    def _watched(self, effect: Summarize) -> tuple[SummaryRequest, Watch, Callable[[], None]]:
        """The request with a watch that tells the listeners, and what stops the call when its time is over."""
        from ullage.summarizers.protocol import Watch

        request, name = effect.request, str(getattr(effect.summarizer, "name", ""))

        def progress(chars: int) -> None:
            from ullage.observe.events import CompactionProgress

            self._tell(CompactionProgress(summarizer=name, attempt=request.attempt, chars=chars))

        watch = Watch(progress)

        def check() -> None:
            if watch.stopped or self._is_cancelled():
                watch.stop()
                raise Cancelled("cancelled")
            why = watch.late(request.deadline_seconds, request.stall_seconds)
            if why:
                watch.stop()
                raise TimeoutError(why)

        return replace(request, watch=watch), watch, check

    def _is_cancelled(self) -> bool:
        return self._cancel is not None and self._cancel.is_set()

    def _run_hook(self, hook: Hook, payload: Mapping[str, Any]) -> Any:
        from ullage.observe.hooks import run_hook

        return run_hook(hook, payload)

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        result = function(*args)
        if not inspect.isawaitable(result):
            return result
        close = getattr(result, "close", None)
        if close is not None:  # a coroutine that nobody awaits would warn
            close()
        raise TypeError("is asynchronous: use the asynchronous form")

    def _let_others_run(self) -> Any:
        return None  # there is no event loop

    def _pause(self, seconds: float) -> Any:
        """Wait, but not on when the caller cancels: the driver sees that before the next effect."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._is_cancelled():
            time.sleep(min(left, 0.05 if self._cancel is not None else left))


# After so long, work in an event loop lets others run: a quarter of the 2 ms that a request of another conversation may wait.
LONGEST_TURN_SECONDS = 0.0005
# A timer that is due takes as many to reach the task that waits for it: found, run, the task woken.
ROUNDS_OF_THE_LOOP = 3


class AsyncPerformer(Performer):
    """Performs effects without blocking the event loop: what is not asynchronous runs in a thread."""

    _turn_ends = 0.0

    async def _summarize(self, effect: Summarize) -> Any:
        import asyncio

        from ullage.summarizers.extractive import ExtractiveSummarizer
        from ullage.summarizers.protocol import is_async

        summarizer = effect.summarizer
        if getattr(summarizer, "local", False) is True:
            if type(summarizer) is ExtractiveSummarizer:  # a class of its own may do it otherwise
                flow = summarizer.in_pieces(effect.request)
                return await adrive(flow, self, cancel=self._cancel)
            return summarizer.summarize(effect.request)
        request, watch, check = self._watched(effect)
        if is_async(summarizer, in_loop=True):
            return await await_watched(summarizer.asummarize(request), check, watch.stop)
        # In a thread of the thread: the pool's own must come back even where the summarizer does not.
        try:
            write = partial(summarizer.summarize, request)
            answer = await asyncio.to_thread(call_watched, write, check)
        except asyncio.CancelledError:
            watch.stop()
            raise
        return await answer if inspect.isawaitable(answer) else answer

    async def _run_hook(self, hook: Hook, payload: Mapping[str, Any]) -> Any:
        from ullage.observe.hooks import arun_hook

        return await arun_hook(hook, payload)

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        import asyncio

        if inspect.iscoroutinefunction(function):
            return await function(*args)
        result = await asyncio.to_thread(function, *args)
        return await result if inspect.isawaitable(result) else result

    def _let_others_run(self) -> Any:
        return self._turn_of_others() if time.perf_counter() > self._turn_ends else None

    async def _turn_of_others(self) -> None:
        import asyncio

        for _ in range(ROUNDS_OF_THE_LOOP):
            await asyncio.sleep(0)
        self._turn_ends = time.perf_counter() + LONGEST_TURN_SECONDS

    async def _pause(self, seconds: float) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        # The token may be a thread's: there is no event of the loop to wait for.
        while (left := end - loop.time()) > 0 and not self._is_cancelled():  # noqa: ASYNC110
            await asyncio.sleep(min(left, 0.05 if self._cancel is not None else left))


def run_flow(
    flow: Flow[T], listeners: Iterable[Listener] = (), *, cancel: CancelToken | None = None
) -> T:
    """Run a flow in place; the arguments are those of `Performer`."""
    return drive(flow, Performer(listeners, cancel), cancel=cancel)


async def arun_flow(
    flow: Flow[T], listeners: Iterable[Listener] = (), *, cancel: CancelToken | None = None
) -> T:
    """Runs a flow without blocking the event loop."""
    return await adrive(flow, AsyncPerformer(listeners, cancel), cancel=cancel)


def flow_work(
    flow: Callable[[], Flow[Any]],
    writer: Any,
    listeners: Iterable[Listener] = (),
    *,
    done: Callable[[Any], None],
    given_up: Callable[[], None] = lambda: None,
) -> BackgroundWork:
    """A fresh flow as work in the background; on a thread a `writer` that must be awaited gets an event loop of its own. `done`, `given_up`: see `BackgroundWork`."""

    def run(cancel: CancelToken) -> Any:
        from ullage.summarizers.protocol import is_async

        if not is_async(writer, in_loop=False):
            return run_flow(flow(), listeners, cancel=cancel)
        import asyncio

        return asyncio.run(arun(cancel))

    async def arun(cancel: CancelToken) -> Any:
        return await arun_flow(flow(), listeners, cancel=cancel)

    return BackgroundWork(run, arun, done=done, given_up=given_up)

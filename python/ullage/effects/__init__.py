"""The effects that a flow can request, and the two loops that perform them.

A flow is a generator: it yields effects and receives their results, so its logic is written once and
does no I/O. `drive` performs the effects one after the other, `adrive` awaits them; tests send results
by hand; a durable host can record and replay them.

An effect that fails is raised inside the flow, at its `yield`. A cancelled flow gets `Cancelled` there, as does one
whose task is cancelled or whose program is interrupted: it can then only notify its listeners, and ends.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from ullage._start import NamedTuple
from ullage.exceptions import UllageError

if TYPE_CHECKING:
    from ullage.observe.events import Event
    from ullage.summarizers.protocol import SummaryRequest

T = TypeVar("T")
E = TypeVar("E")


class Cancelled(UllageError):
    """Raised inside a flow when its caller cancelled it."""

    code = "aborted"


class Summarize(NamedTuple):
    """One summary call. Result: `SummaryReply`. Raises what the summarizer raises."""

    request: SummaryRequest
    summarizer: Any


class RunHook(NamedTuple):
    """One hook. Result: `HookReply`, also when the hook failed; never raises."""

    hook: Any
    payload: Mapping[str, Any]


class Call(NamedTuple):
    """A function that the host registered: an attachment provider, a store, a clean-up. Result: what it returns."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()


class Wait(NamedTuple):
    """A pause. Result: `None`."""

    seconds: float


class LetOthersRun(NamedTuple):
    """A place within long work where an event loop may do something else; `drive` passes it by. Result: `None`.

    The work is not moved to a thread: requests in the loop would wait for the interpreter's lock, at p99 twice as long (`docs/speed.md`).
    """


class Emit(NamedTuple):
    """Notifies the listeners. Result: `None`; a listener that raises does not stop the flow."""

    event: Event


class Together(NamedTuple):
    """Effects that may run in parallel. Result: a list in their order, with failures as exceptions."""

    effects: tuple[Effect, ...]


Effect: TypeAlias = Summarize | RunHook | Call | Wait | LetOthersRun | Emit | Together
Flow: TypeAlias = Generator[Effect, Any, T]


class CancelToken(Protocol):
    """Anything with `is_set`, such as `threading.Event` or `asyncio.Event`."""

    def is_set(self) -> bool:
        """Whether the flow should stop."""
        ...


def drive(
    flow: Generator[E, Any, T], perform: Callable[[E], Any], *, cancel: CancelToken | None = None
) -> T:
    """Runs a flow to its end, one effect after the other.

    Args:
        flow: A fresh generator, of effects or of something else that `perform` does.
        perform: Does one effect and returns its result; what it raises is raised inside the flow.
        cancel: Checked before each effect. Notifications (`Emit`) of a cancelled flow are still delivered.

    Returns:
        What the flow returns.
    """
    stop = _Stop(cancel)
    step: Callable[[Any], E] = flow.send
    value: Any = None
    while True:
        try:
            effect = step(value)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            stop.check(due=not isinstance(effect, Emit))
            step, value = flow.send, _perform(effect, perform)
            stop.check(due=isinstance(effect, Emit) and not stop.thrown)
        except Exception as exc:
            step, value = flow.throw, exc
        except BaseException:  # the program's end
            _end(flow, perform)
            raise


class _Stop:
    """Cancels a flow: before any effect except `Emit`, and once after the first `Emit` delivered after the cancel."""

    def __init__(self, token: CancelToken | None) -> None:
        self._token, self.thrown = token, False

    def check(self, *, due: bool) -> None:
        if due and self._token is not None and self._token.is_set():
            self.thrown = True
            raise Cancelled("cancelled")


def _end(flow: Generator[Any, Any, Any], perform: Callable[[Any], Any]) -> None:
    """End a flow that nobody waits for any more; its last notifications are delivered."""
    with contextlib.suppress(Exception, StopIteration):
        effect = flow.throw(Cancelled("cancelled"))
        while isinstance(effect, Emit):
            perform(effect)
            effect = flow.send(None)
    flow.close()


def _perform(effect: Any, perform: Callable[[Any], Any]) -> Any:
    if isinstance(effect, LetOthersRun):
        return None  # there is no event loop
    if not isinstance(effect, Together):
        return perform(effect)
    results: list[Any] = []
    for part in effect.effects:
        try:
            results.append(perform(part))
        except Cancelled:
            raise
        except Exception as exc:
            results.append(exc)
    return results


async def adrive(
    flow: Generator[E, Any, T], perform: Callable[[E], Any], *, cancel: CancelToken | None = None
) -> T:
    """`drive`; awaitable results are awaited, `Together` runs in parallel. Cancelling the task ends the flow as `cancel` does."""
    stop = _Stop(cancel)
    step: Callable[[Any], E] = flow.send
    value: Any = None
    while True:
        try:
            effect = step(value)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            stop.check(due=not isinstance(effect, Emit))
            step, value = flow.send, await _aperform(effect, perform)
            stop.check(due=isinstance(effect, Emit) and not stop.thrown)
        except Exception as exc:
            step, value = flow.throw, exc
        except BaseException:  # cancellation of the task, or the program's end
            _end(flow, perform)
            raise


async def _aperform(effect: Any, perform: Callable[[Any], Any]) -> Any:
    if isinstance(effect, Together):
        import asyncio

        awaitables = (_aperform(part, perform) for part in effect.effects)
        results = await asyncio.gather(*awaitables, return_exceptions=True)
        for result in results:
            if isinstance(result, Cancelled):
                raise result
        return results
    result = perform(effect)
    return await result if inspect.isawaitable(result) else result

"""What is timed: an operation, and who can do it. `benches/python/bench_suite.py` times it, `benches.table` prints it."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

SWEEPS = 3
"""How often the contenders take turns: a busy machine slows all of them down."""
OURS, TWIN = "ullage", "Ullage's Python engine"

Run = Callable[..., Any]


class Contender(NamedTuple):
    """Somebody who can do an operation.

    Attributes:
        run: What is timed.
        setup: Gives the arguments of one round, before its time begins; `None`: there are none.
        iterations: How often it is done in a round, for what is too short to be timed once. Not with `setup`.
        amount: How much of the operation one run does; `None`: as much as the operation says.
        rounds: How often it is timed in each sweep; `None`: as often as the operation says.
    """

    run: Run
    setup: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]] | None = None
    iterations: int = 1
    amount: float | None = None
    rounds: int | None = None

    def once(self) -> Any:
        """Does it outside of the clock."""
        args, named = self.setup() if self.setup else ((), {})
        return self.run(*args, **named)


class Operation(NamedTuple):
    """Something that is timed, made and checked, with those who can do it here.

    Attributes:
        name: For the table.
        unit: Of its figure: `µs a …`, or what is done in a second.
        amount: How much of it one run does.
        contenders: By name; a peer that is not installed is left out.
        rounds: How often each is timed in one sweep over the contenders.
        figure: Which round of a sweep counts: `min`, the best, or `median`.
    """

    name: str
    unit: str
    amount: float
    contenders: dict[str, Contender]
    rounds: int = 3
    figure: str = "min"


class Planned(NamedTuple):
    """An operation before it is made, which takes time and memory.

    Attributes:
        make: Makes it, in a folder of its own, and checks the answers.
        contenders: All who could do it, were they installed.
        timer: What counts: the processor's time of this process, `of_children`, or the time that passes.
    """

    make: Callable[[Path], Operation]
    contenders: tuple[str, ...] = (OURS,)
    timer: Callable[[], float] = time.process_time


def of_children() -> float:
    """Seconds of processor time of all processes that this one started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def equal(contenders: dict[str, Contender], names: Iterable[str]) -> None:
    """Raises `AssertionError` where the answers of those that are here differ."""
    answers = {name: contenders[name].once() for name in names if name in contenders}
    first = next(iter(answers))
    for name, answer in answers.items():
        assert answer == answers[first], f"{name} answers otherwise than {first}"


def optional(contenders: dict[str, Contender], name: str, make: Callable[[], Contender]) -> None:
    """Adds a peer if it is installed and runs."""
    try:
        made = make()
        made.once()
    except Exception as error:  # a peer may fail in any way; it is left out and named
        print(f"skipped: {name}: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
        return
    contenders[name] = made

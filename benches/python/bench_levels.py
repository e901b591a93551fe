"""What the levels cost where they act, by the length of the conversation.

    python benches/python/bench_levels.py [lengths ...]

Each level acts once on a fresh view of a conversation of so many messages; its answer is checked before it is timed: what
left and what is kept is everything. `look` is a level that finds nothing to do. The median of five runs, in milliseconds, and beside it
microseconds a message, so that growth with length shows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter_ns
from typing import Any

from ullage.effects import drive
from ullage.levels import View, collapse, fold, microcompact, turn_snip
from ullage.levels.microcompact_state import Micro
from ullage.policy import Policy
from ullage.recall import Archive, left

LENGTHS = (1_000, 10_000)
POLICY = Policy.ladder().change({"collapse.enabled": True, "micro.by_supersession": False})


def talk(count: int) -> list[dict[str, Any]]:
    """Turns of six messages: a request, two calls with their results, an answer."""
    said: list[dict[str, Any]] = []
    while len(said) < count:
        at = len(said)
        said.append({"role": "user", "content": f"please look at part {at}"})
        for name in (f"t{at}a", f"t{at}b"):
            given = {"file_path": f"/src/module_{name}.py"}
            use = {"type": "tool_use", "id": name, "name": "Read", "input": given}
            text = "\n".join(f"line {n} of {name}: nothing to see here" for n in range(40))
            result = {"type": "tool_result", "tool_use_id": name, "content": text}
            said += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        said.append({"role": "assistant", "content": f"part {at} is fine"})
    return said[: count - count % 6]


def view_of(messages: list[dict[str, Any]]) -> View:
    view = View()
    for message in messages:
        view.add(message)
    view.mark_sent()
    return view


def quiet(effect: Any) -> None:
    raise AssertionError(effect)


def collapsed(view: View) -> Any:
    room = collapse.Room(view.tokens() * 100 // 92)
    return drive(collapse.apply(view, POLICY, room, collapse.Collapse()), quiet)


def folded(view: View) -> Any:
    return fold.apply(view, POLICY, view.tokens() // 2, 0)


def cleared(view: View) -> Any:
    pressure = microcompact.Pressure(70, view.tokens() * 100 // 70)
    return drive(microcompact.flow(view, POLICY, pressure, Micro()), quiet)


def looked(view: View) -> Any:
    """Below every mark."""
    room = collapse.Room(view.tokens() * 2)
    pressure = microcompact.Pressure(10, view.tokens() * 10)
    assert drive(collapse.apply(view, POLICY, room, collapse.Collapse()), quiet) is None
    assert drive(microcompact.flow(view, POLICY, pressure, Micro()), quiet) is None
    turn_snip.apply(view, POLICY, 0, turn_snip.TurnSnip(base_tokens=10**9))


def check(messages: list[dict[str, Any]], view: View, report: Any) -> None:
    gone = {at for span in report.removed for at in range(*span)}
    kept = {source for source in view.sources if isinstance(source, int)}
    assert report.freed > 0
    assert gone | kept == set(range(len(messages)))
    listed = left(Archive(messages), view.sources, view.messages)
    assert gone == {
        at for each in listed if each.kind == "messages" for at in range(each.first, each.last + 1)
    }


def timed(messages: list[dict[str, Any]], act: Callable[[View], Any], runs: int = 5) -> float:
    times = []
    for _ in range(runs):
        view = view_of(messages)
        start = perf_counter_ns()
        act(view)
        times.append(perf_counter_ns() - start)
    return median(times) / 1e6


def main(lengths: tuple[int, ...]) -> None:
    print(f"{'messages':>9} {'level':14} {'ms':>9} {'us/message':>11}")
    for length in lengths:
        messages = talk(length)
        for act in (collapsed, folded, cleared):
            view = view_of(messages)
            check(messages, view, act(view))
        view = view_of(messages)
        collapsed(view)
        archive = Archive(messages)

        def listing(_: View, view: View = view, archive: Archive = archive) -> Any:
            return left(archive, view.sources, view.messages)

        levels = {"look": looked, "collapse": collapsed, "fold": folded, "lines": cleared}
        for name, act in {**levels, "recall list": listing}.items():
            ms = timed(messages, act)
            print(f"{len(messages):>9,} {name:14} {ms:>9.2f} {1000 * ms / len(messages):>11.2f}")


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or LENGTHS)

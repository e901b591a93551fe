"""What the levels cost where they act, by the length of the conversation.

    python benches/python/bench_levels.py [lengths ...]

Each level acts once on a fresh view of a conversation of so many messages; its answer is checked before it is timed: what
left and what is kept is everything. `look` is a level that finds nothing to do. The median of five runs, in milliseconds, and next to it
microseconds a message, so that growth with length shows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from statistics import median
from time import perf_counter_ns
from typing import Any

from ullage.effects import drive
from ullage.levels import View, collapse, fold, microcompact, pipeline, turn_snip
from ullage.levels.level import Context, Level
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


def acted(level: Level, view: View, window_tokens: int, **states: Any) -> Any:
    known = {**pipeline.fresh_states(), **states}
    context = Context(
        view=view,
        policy=POLICY,
        states=known,
        window_tokens=window_tokens,
        tools=frozenset({turn_snip.SNIP_TOOL.name}),
    )
    outcome = level.run(context)
    return drive(outcome, quiet) if isinstance(outcome, Generator) else outcome


def collapsed(view: View) -> Any:
    return acted(collapse.LEVEL, view, view.tokens() * 100 // 92)


def folded(view: View) -> Any:
    context = Context(view=view, policy=POLICY)
    return fold.folded(context, view.tokens() // 2)


def cleared(view: View) -> Any:
    return acted(microcompact.LEVEL, view, view.tokens() * 100 // 70)


def looked(view: View) -> Any:
    """Below every mark."""
    assert acted(collapse.LEVEL, view, view.tokens() * 2) is None
    assert acted(microcompact.LEVEL, view, view.tokens() * 10) is None
    state = turn_snip.TurnSnip(base_tokens=10**9)
    acted(turn_snip.LEVEL, view, view.tokens() * 10, turn_snip=state)


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

"""Levels that act, each once on a fresh view of a conversation: operations of `benches/python/bench_suite.py`.

The answer of each is checked first: what left and what is kept is everything.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from ullage.effects import drive
from ullage.levels import View, collapse, fold, microcompact, pipeline, turn_snip
from ullage.levels.level import Context, Level
from ullage.policy import Policy
from ullage.recall import Archive, left

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


def checked(name: str, messages: list[dict[str, Any]]) -> Callable[[View], Any]:
    """What a level does with a view of these messages, after its answer was looked at."""
    if name == "the list of what can be recalled":
        collapse_view = view_of(messages)
        check(messages, collapse_view, collapsed(collapse_view))
        archive = Archive(messages)
        return lambda _: left(archive, collapse_view.sources, collapse_view.messages)
    act = LEVELS[name]
    view = view_of(messages)
    report = act(view)
    if act is not looked:
        check(messages, view, report)
    return act


LEVELS: dict[str, Callable[[View], Any]] = {
    "a look at levels that find nothing to do": looked,
    "results as lines (microcompact)": cleared,
    "fold": folded,
    "context collapse": collapsed,
    "the list of what can be recalled": collapsed,
}
"""By name: what acts."""

"""A view dumped step by step is the view dumped whole, whatever happens to it between two dumps."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, strategies as st

from ullage.levels.view import Decision, Made, View
from ullage.manager.journal import dump_view, load_view, mark_of, patch, view_change


def message(number: int) -> dict[str, Any]:
    """A question, a call, its result, and an answer with a usage figure, in turn."""
    name, kind = f"toolu_{number // 4}", number % 4
    if kind == 1:
        block = {"type": "tool_use", "id": name, "name": "Read", "input": {"path": "a"}}
        return {"role": "assistant", "content": [block]}
    if kind == 2:
        block = {"type": "tool_result", "tool_use_id": name, "content": "word " * 20}
        return {"role": "user", "content": [block]}
    if kind == 3:
        usage = {"input_tokens": 100 + number, "output_tokens": 5}
        return {"role": "assistant", "content": "Done.", "usage": usage, "id": f"msg_{number}"}
    return {"role": "user", "content": f"Question {number}."}


class Driver:
    """Does to a view what a manager does, with a history."""

    def __init__(self) -> None:
        self.view, self.history, self.made = View(), [], 0

    def step(self, what: str, where: int) -> None:
        view, size = self.view, len(self.view)
        at = where % size if size else 0
        if what == "add" or not size:
            self._add()
        elif what == "decide":
            name = f"toolu_{where % (len(self.history) // 4 + 1)}"
            view.decide([Decision(name, "snip", f"short {where}")])
        elif what == "whole":
            view.whole[f"toolu_{where}"] = None
        elif what == "strip":
            view.strip([f"toolu_{where % (len(self.history) // 4 + 1)}"], [at])
        elif what == "text" and isinstance(view.sources[at], int):
            view.append_text(at, f"note {where}")
        elif what == "cut":
            view.cut(at)
            del self.history[self._count() :]
        elif what == "sum up":
            self.made += 1
            summary = Made(f"fold:{self.made}", {"role": "user", "content": "Earlier: much."})
            view.rearranged("test", "", [summary, *range(at, size)])
        elif what == "forget":
            view.forget_usage()
        elif what == "send":
            view.mark_sent()

    def _add(self) -> None:
        place = len(self.history)
        self.history.append(message(place))
        self.view.times[place] = 1_000 * place
        self.view.add(self.history[-1], place)

    def _count(self) -> int:
        return max((at + 1 for at in self.view.sources if isinstance(at, int)), default=0)


WHAT = ("add", "add", "add", "decide", "whole", "strip", "text", "cut", "sum up", "forget", "send")
steps = st.tuples(st.sampled_from(WHAT), st.integers(0, 40), st.booleans())


@given(st.lists(steps, min_size=1, max_size=40))
def test_step_by_step_is_as_whole(steps: list[tuple[str, int, bool]]) -> None:
    driver = Driver()
    state, mark = dump_view(driver.view), mark_of(driver.view)
    for what, where, looks in steps:
        driver.step(what, where)
        if not looks:
            continue
        state = patch(state, view_change(driver.view, state, mark), in_place=True)
        mark = mark_of(driver.view)
        assert state == dump_view(driver.view)
        loaded = load_view(state, driver.history, None)
        assert loaded.messages == driver.view.messages
        assert dump_view(loaded) == state


def test_a_change_says_only_what_is_new() -> None:
    driver = Driver()
    for _ in range(400):
        driver.step("add", 0)
    state, mark = dump_view(driver.view), mark_of(driver.view)
    driver.step("add", 0)
    change = view_change(driver.view, state, mark)
    assert change == {
        "keys": {
            "parts": {"from": 0, "tail": [[0, 401]]},
            "times": {"from": 400, "tail": [[400, 400_000]]},
        }
    }
    state = patch(state, change)
    assert view_change(driver.view, state, mark_of(driver.view)) == {}


@given(st.lists(steps, min_size=1, max_size=40))
def test_results_that_were_read_are_what_a_new_look_reads(
    steps: list[tuple[str, int, bool]],
) -> None:
    driver = Driver()
    for what, where, looks in steps:
        driver.step(what, where)
        if looks:
            view = driver.view
            again = copy.copy(view)
            again._results, again._results_upto = [], 0  # it has read none yet
            assert list(view.results()) == list(again.results())

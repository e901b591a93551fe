"""Through ten compactions of any course of work each piece keeps its state: nothing closed comes back, nothing open is lost."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import Phase, given, settings, strategies as st

from tests.kit import result, said, use, user
from ullage import compact
from ullage.facts import commitments_of
from ullage.facts.sections import HEADINGS
from ullage.messages import Item

FILLER = "I read on, and it is as you said. " * 40
STALE = "\n".join(
    f"{n}. {title}:\n  " + ("- archive harbor_1\n- TODO: archive harbor_2" if n == 7 else "text")
    for n, title in enumerate(HEADINGS, 1)
)
"""A model's summary that knows little and says of two pieces of work that they are open."""

ROUNDS = 10
steps = st.sampled_from(
    ["say", "ask", "create", "do", "fail", "report", "forget", "finish", "cancel"]
)
courses = st.lists(st.lists(steps, min_size=1, max_size=5), min_size=ROUNDS, max_size=ROUNDS)
targets = st.sampled_from([4_000, 8_000])


class Course:
    """Makes the messages of a course and knows the state that each piece of work must have."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.states: dict[str, tuple[str, str]] = {}
        self.texts: dict[int, str] = {}
        self.boards: list[int] = []
        self.calls = 0

    def call(self, tool: str, output: str, *, failed: bool = False, **given: object) -> str:
        self.calls += 1
        name = f"call_{self.calls}"
        shown = result(name, output, is_error=failed)
        self.items += [said([use(name, tool, **given)]), user([shown])]
        return name

    def state(self, number: int) -> str:
        return self.states[self.texts[number]][0] if number in self.texts else ""

    def newest(self, *, board: bool) -> int:
        """A piece of work that is open: the oldest every other time."""
        found = [
            n
            for n in self.texts
            if (n in self.boards) is board and self.state(n) in ("open", "failed")
        ]
        return found[0 if self.calls % 2 else -1] if found else 0

    def say(self, by_user: bool = False) -> None:
        number = len(self.texts) + 1
        text = f"TODO: archive harbor_{number}{' later' if by_user else ''}."
        self.items.append(user(text) if by_user else said(f"{text} {FILLER}"))
        self.texts[number], self.states[text] = text, ("open", "")

    def create(self) -> None:
        number = len(self.texts) + 1
        text = f"archive harbor_{number}"
        self.call("TaskCreate", f"Task #{number} created successfully: {text}", subject=text)
        self.texts[number], self.states[text] = text, ("open", "")
        self.boards.append(number)

    def run(self, failed: bool) -> None:
        number = self.newest(board=self.calls % 3 == 0)
        if number:
            output = f"Error: harbor_{number} is locked" if failed else "ok"
            name = self.call("Bash", output, failed=failed, command=f"./archive harbor_{number}")
            self.states[self.texts[number]] = ("failed", name) if failed else ("open", name)

    def report(self) -> None:
        if number := self.newest(board=False):
            state, name = self.states[self.texts[number]]
            self.items.append(said(f"I have archived harbor_{number}. {FILLER}"))
            self.states[self.texts[number]] = ("done", name if state == "open" else "")

    def forget(self) -> None:
        if number := self.newest(board=False):
            self.items.append(user(f"Forget about archiving harbor_{number}."))
            self.states[self.texts[number]] = ("withdrawn", "")

    def update(self, status: str, state: str) -> None:
        if number := self.newest(board=True):
            last, done = self.states[self.texts[number]]
            name = self.call("TaskUpdate", "Updated", taskId=str(number), status=status)
            did = done if done and last == "open" and state == "done" else name
            self.states[self.texts[number]] = state, did

    def step(self, name: str) -> None:
        {
            "say": self.say,
            "ask": lambda: self.say(by_user=True),
            "create": self.create,
            "do": lambda: self.run(failed=False),
            "fail": lambda: self.run(failed=True),
            "report": self.report,
            "forget": self.forget,
            "finish": lambda: self.update("completed", "done"),
            "cancel": lambda: self.update("cancelled", "withdrawn"),
        }[name]()


@pytest.mark.parametrize("by_model", [False, True])
@given(course=courses, target=targets)
@settings(
    max_examples=int(os.environ.get("ULLAGE_EXAMPLES", "10")) // 2,
    deadline=None,
    phases=(Phase.generate,),
)
def test_each_piece_of_work_keeps_its_state(by_model, course, target):
    made, titles = Course(), set[str]()
    write = (lambda request: STALE) if by_model else None
    for part in course:
        made.items += [user("Go on."), said(FILLER)]
        for name in part:
            made.step(name)
        made.items += [user("Go on."), said(FILLER)]
        made.items = list(
            compact(made.items, keep=0, target_tokens=target, summarizer=write).messages
        )
        # Which call succeeded without closing its work is not carried on.
        made.states = {
            text: ("open", "") if state == "open" else (state, call)
            for text, (state, call) in made.states.items()
        }
        # Where there is no room for a row of each, one line has the titles, and not the calls that finished them.
        for line in re.findall("- Finished: (.+)", str(made.items[0]["content"])):
            titles |= set(re.findall(r"#\w+ ([^;]+)", line))
        held = commitments_of(made.items)
        open_work = {
            text for text, (state, _) in made.states.items() if state in ("open", "failed")
        }
        assert {item.text for item in held.open} == open_work
        failed = {(i.text, i.call) for i in held.of("todo") if str(i.state) == "failed"}
        assert failed == {(t, c) for t, (state, c) in made.states.items() if state == "failed"}
        for item in held.of("todo"):
            if str(item.state) == "done":
                state, name = made.states[item.text]
                assert str(item.state) == state
                assert item.call == ("" if item.text in titles else name)

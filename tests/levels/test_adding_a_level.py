"""A level of one's own, added exactly as CONTRIBUTING says: one file, one row in the order, one group of the policy.

The toy leaves out what a tool `Note` answered, all but the newest few, and everything of it after a refusal.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from tests.kit import result as answer, said, use, user
from tests.oracle.legality import assert_legal
from ullage.exceptions import InvalidPolicy
from ullage.levels import ORDER, Context, Decision, Level, StageReport
from ullage.levels.level import NEVER, NOW, Rest
from ullage.manager import ContextManager
from ullage.policy import Group, Policy, number, switch

# ---- 1. one group, and its field, in policy.py


class NotesPolicy(Group, name="notes"):
    """Answers of the tool `Note` are left out once they are old."""

    enabled: bool = switch(False, "only a toy")
    keep: int = number(2, "results", "the newest stay", low=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class NotedPolicy(Policy):
    notes: NotesPolicy = field(default_factory=NotesPolicy)


# ---- 2. one file, levels/notes.py


@dataclass(slots=True)
class Notes:
    """How many were left out, in how many passes."""

    left_out: int = 0
    passes: int = 0
    answers: int = 0

    def dump(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def load(cls, stored: Any) -> Self:
        return cls(**stored)


def run(context: Context) -> StageReport | None:
    rules = context.policy.notes
    return _leave_out(context, rules.keep, "old notes") if rules.enabled else None


def drain(context: Context) -> StageReport | None:
    return _leave_out(context, 0, "refused") if context.policy.notes.enabled else None


def rest(context: Context) -> Rest:
    return NOW if context.policy.notes.enabled else NEVER


def observe(context: Context, response: Any) -> None:
    del response
    context.state(Notes).answers += 1


def _leave_out(context: Context, keep: int, why: str) -> StageReport | None:
    view, state = context.view, context.state(Notes)
    notes = [each for each in view.results() if each.tool == "Note" and not each.replaced]
    old = notes[: max(0, len(notes) - keep)]
    if not old:
        return None
    state.left_out, state.passes = state.left_out + len(old), state.passes + 1
    return view.report("notes", why, [(each, Decision(each.id, "notes", "[note]")) for each in old])


NOTES = Level("notes", run, Notes, drain=drain, observe=observe, rest=rest)

# ---- 3. one row, in levels/pipeline.py

WITH_NOTES = (*ORDER[:2], NOTES, *ORDER[2:])


def talk(count: int) -> list[dict]:
    messages = [user("please go on")]
    for n in range(count):
        messages += [
            said([use(f"n{n}", "Note", text=str(n))]),
            user([answer(f"n{n}", f"note {n} " + "word " * 300)]),
        ]
    return messages


ON = NotedPolicy().change({"notes.enabled": True})
WITH: dict[str, Any] = {"model": "claude-opus-4-5", "levels": WITH_NOTES}


def managed(policy: Policy = ON, count: int = 5, **more: Any) -> ContextManager:
    manager = ContextManager(policy=policy, **WITH, **more)
    for message in talk(count):
        manager.add(message)
    return manager


def notes_in(manager: ContextManager) -> list[str]:
    contents = [m["content"][0]["content"] for m in manager.messages[2::2]]
    return ["out" if text == "[note]" else "in" for text in contents]


def test_it_acts_on_a_request_and_is_in_the_account():
    manager = managed()
    request = manager.prepare()
    assert notes_in(manager) == ["out", "out", "out", "in", "in"]
    (report,) = request.reports
    assert (report.stage, report.why, report.request) == ("notes", "old notes", 1)
    assert report.tool_use_ids == ("n0", "n1", "n2")
    assert report.freed > 0
    assert request.records
    assert "notes took 3 results" in str(manager.explain())
    assert_legal("anthropic", request.messages, model="claude-opus-4-5")
    assert manager.recall.get("n0").text.startswith("note 0 ")


def test_the_policy_switches_it_off_and_its_numbers_count():
    assert not managed(NotedPolicy()).prepare().reports
    (report,) = managed(ON.change({"notes.keep": 4})).prepare().reports
    assert report.tool_use_ids == ("n0",)
    with pytest.raises(InvalidPolicy, match=r"notes\.keep"):
        ON.change({"notes.keep": -1})


def test_a_conversation_without_it_has_nothing_of_it():
    manager = ContextManager(model="claude-opus-4-5")
    for message in talk(5):
        manager.add(message)
    assert not manager.prepare().reports
    assert "notes" not in manager.save()["states"]


def test_its_state_is_kept_saved_and_restored():
    manager = managed()
    manager.prepare()
    manager.observe(said("fine"))
    kept = {"left_out": 3, "passes": 1, "answers": 1}
    assert manager.save()["states"]["notes"] == kept
    again = ContextManager.restore(manager.save(history=True), policy=ON, levels=WITH_NOTES)
    assert again.save()["states"]["notes"] == kept
    assert again.prepare().messages == manager.prepare().messages


def test_a_log_is_resumed_with_it(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    with managed(log=path) as manager:
        manager.prepare()
        sent = manager.messages
    with ContextManager.resume(path, policy=ON, levels=WITH_NOTES) as again:
        assert again.messages == sent
        assert again.save()["states"]["notes"]["left_out"] == 3
        assert not again.prepare().reports


def test_after_a_refusal_it_is_a_step_of_its_own_in_its_place():
    manager = managed()
    manager.prepare()
    found = manager.on_overflow("prompt is too long: 213462 tokens > 200000 maximum")
    assert (found.step, [report.stage for report in found.reports]) == ("notes", ["notes"])
    assert notes_in(manager) == ["out"] * 5
    assert manager.machine.steps_tried == ["notes"]


@pytest.mark.parametrize(("policy", "times"), [(ON, 20), (NotedPolicy(), 1)])
def test_while_it_rests_no_request_asks_it(policy: Policy, times: int):
    asked: list[Context] = []
    counted = NOTES._replace(run=asked.append)
    levels = [counted if each is NOTES else each for each in WITH_NOTES]
    manager = ContextManager(model="claude-opus-4-5", policy=policy, levels=levels)
    for n in range(20):
        manager.add(user(f"part {n}"))
        manager.prepare()
        manager.observe(said("done"))
    assert len(asked) == times


def test_the_recipe_names_all_that_a_level_can_have():
    page = Path(__file__).parents[2] / "CONTRIBUTING.md"
    if not page.exists():
        pytest.skip("the sources are not here: `make types` runs this")
    text = page.read_text(encoding="utf-8")
    recipe = text.split("## Adding a level")[1].split("\n## ")[0]
    parts = {*Level._fields} - {"name"}
    assert {each for each in parts if f"`{each}" not in recipe} == set()


def test_an_order_that_lacks_a_level_or_repeats_one_is_refused():
    with pytest.raises(InvalidPolicy, match="must hold snip"):
        ContextManager(
            model="claude-opus-4-5", levels=[each for each in ORDER if each.name != "snip"]
        )
    with pytest.raises(InvalidPolicy, match="must not repeat"):
        ContextManager(model="claude-opus-4-5", levels=[*WITH_NOTES, NOTES])

"""Turns are counted for hosts that only add the model's answers."""

from __future__ import annotations

from ullage.manager import ContextManager
from ullage.policy import Policy


def talk(policy: Policy, rounds: int, words: int) -> ContextManager:
    """A host that adds the model's answers as messages and observes none."""
    manager = ContextManager(model="claude-opus-4-5", policy=policy, context_window=100_000)
    for number in range(rounds):
        manager.add({"role": "user", "content": f"Please do step {number}."})
        manager.prepare()
        manager.add({"role": "assistant", "content": f"Step {number}. " + "word " * words})
    return manager


def test_answers_that_are_only_added_count_as_turns():
    manager = talk(Policy.ladder(), 120, 4_000)
    # Without turns every compaction would seem to follow at once on the one before, and the fourth be the last.
    assert manager.machine.tracking.compactions > 6
    assert manager.decide().code != "refills"
    restored = ContextManager.restore(manager.save(), manager.history)
    assert restored.machine.tracking == manager.machine.tracking

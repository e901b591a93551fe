"""Where an automatic compaction should end, by how fast the context grows; turns are counted for hosts that only add."""

from __future__ import annotations

import pytest

from ullage.manager import ContextManager
from ullage.manager.due import Tracking
from ullage.manager.growth import LEAST_REQUESTS, target_tokens
from ullage.policy import AutocompactPolicy, Policy

FOLLOWS = AutocompactPolicy(follow_growth=True)


@pytest.mark.parametrize(
    ("pace", "target"),
    [
        (0, 50_000),  # unknown: the share
        (2_500, 50_000),  # a fortieth of the trigger a request
        (4_900, 30_000),  # 1.4 times the room
        (1_600, 60_000),  # 0.8 times; no more than max_after_percent
        (1, 60_000),
        (100_000, 10_000),
    ],
)
def test_the_room_grows_with_the_root_of_the_pace(pace, target):
    assert target_tokens(FOLLOWS, 100_000, pace) == target
    assert target_tokens(AutocompactPolicy(), 100_000, pace) == 50_000


def test_a_share_outside_of_the_bounds_is_its_own_bound():
    assert (
        target_tokens(AutocompactPolicy(follow_growth=True, target_percent=5), 1_000, 1_000) == 50
    )
    assert target_tokens(AutocompactPolicy(follow_growth=True, target_percent=90), 1_000, 1) == 900


def test_pace_is_known_after_a_few_requests():
    tracking = Tracking()
    assert tracking.pace(9, 5_000) == 0
    tracking.measure(1, 1_000)
    assert tracking.pace(LEAST_REQUESTS, 5_000) == 0
    assert tracking.pace(1 + LEAST_REQUESTS, 1_000 + 300 * LEAST_REQUESTS) == 300
    assert tracking.pace(1 + LEAST_REQUESTS, 10) == 1


def talk(policy: Policy, rounds: int, words: int) -> ContextManager:
    """A host that adds the model's answers as messages and observes none."""
    manager = ContextManager(model="claude-opus-4-5", policy=policy, context_window=100_000)
    for number in range(rounds):
        manager.add({"role": "user", "content": f"Please do step {number}."})
        manager.prepare()
        manager.add({"role": "assistant", "content": f"Step {number}. " + "word " * words})
    return manager


def test_a_fast_context_is_compacted_to_less():
    kept = []
    for follows in (False, True):
        policy = Policy.ladder().change({"auto.follow_growth": follows})
        manager = talk(policy, 26, 3_000)
        assert manager.machine.tracking.compactions
        kept.append(manager.machine.tracking.measured_tokens)
    assert kept[1] < kept[0]


def test_answers_that_are_only_added_count_as_turns():
    manager = talk(Policy.ladder(), 120, 4_000)
    # Without turns every compaction would seem to follow at once on the one before, and the fourth be the last.
    assert manager.machine.tracking.compactions > 6
    assert manager.decide().code != "refills"
    restored = ContextManager.restore(manager.save(), manager.history)
    assert restored.machine.tracking == manager.machine.tracking

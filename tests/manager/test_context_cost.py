"""A turn costs what is new in it, whatever the length of the conversation; counted in calls, not in seconds."""

from __future__ import annotations

from functools import partial

import pytest

from tests.kit import calls
from ullage import ContextManager
from ullage.counting.models import ModelTable
from ullage.policy import Policy

MODEL = "claude-opus-4-5"


def turn(number: int) -> tuple[dict, dict]:
    call = {
        "type": "tool_use",
        "id": f"t{number}",
        "name": "Bash",
        "input": {"command": f"ls {number}"},
    }
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Next."}, call]}
    result = {
        "type": "tool_result",
        "tool_use_id": f"t{number}",
        "content": f"file {number}\n" * 30,
    }
    return answer, {"role": "user", "content": [result]}


def grown(messages: int, policy: Policy, window: int) -> ContextManager:
    table = ModelTable.builtin().learned(MODEL, window)
    manager = ContextManager(model=MODEL, policy=policy, table=table)
    manager.add({"role": "user", "content": "begin"})
    for number in range(messages // 2):
        for message in turn(number):
            manager.add(message)
    manager.prepare()
    return manager


def one_turn(manager: ContextManager, number: int) -> None:
    answer, results = turn(number)
    manager.observe({**answer, "id": f"m{number}"})
    manager.add(results)
    manager.prepare()


@pytest.mark.parametrize("pressed", [False, True])
def test_a_turn_at_two_thousand_messages_is_no_more_expensive_than_at_two_hundred(pressed):
    # Pressed: over 60 % full, so that every level looks at what is new; a rewrite, now and then, is another matter.
    policy = (Policy.ladder() if pressed else Policy.buffered()).change({"auto.enabled": False})
    spent = []
    for messages in (200, 2_000):
        size = grown(messages, policy, 900_000_000).usage().tokens
        window = size * 10 // 8 if pressed else 900_000_000
        manager = grown(messages, policy, window)
        one_turn(manager, messages)
        assert (manager.usage().percent >= 60) is pressed
        spent.append(min(calls(partial(one_turn, manager, n)) for n in range(9_000, 9_004)))
    assert spent[1] <= spent[0] * 1.1 + 20
    assert manager._writer._repairer.read == 2


def test_a_request_is_made_without_copying_and_keeps_what_it_holds():
    manager = grown(400, Policy.buffered(), 900_000_000)
    first = manager.prepare()
    kept = list(first.messages)
    for number in range(400, 410):
        one_turn(manager, number)
    assert first.messages == kept
    assert first._items is manager.machine.view.messages
    assert len(first) == len(kept)

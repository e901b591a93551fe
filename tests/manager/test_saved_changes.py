"""A state and the changes since are the state; after a turn a change is small."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benches.growth import talk

from tests.kit import user
from ullage import ContextManager
from ullage.exceptions import InvalidPolicy
from ullage.manager import with_changes

MODEL = "claude-opus-4-5"


def grown(messages: list[Any]) -> ContextManager:
    manager = ContextManager(model=MODEL, context_window=60_000)
    for message in messages:
        manager.add(message)
        if message["role"] == "user":
            manager.prepare()
    return manager


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_a_change_after_a_turn_is_small():
    messages = talk(360)
    manager = grown(messages[:349])
    saved = manager.save()
    for message in messages[349:351]:
        manager.add(message)
    manager.prepare()
    change = manager.save(since=saved)
    assert len(json.dumps(change)) < 2_000
    assert plain(with_changes([saved, change])) == plain(manager.save())


def test_changes_through_levels_and_compactions_lead_to_the_same_state():
    messages = talk(900)
    manager = grown(messages[:1])
    kept, last = [plain(manager.save())], manager.save()
    for at in range(1, len(messages), 60):
        for message in messages[at : at + 60]:
            manager.add(message)
            if message["role"] == "user":
                manager.prepare()
        kept.append(plain(manager.save(since=last)))
        last = manager.save()
    manager.compact("briefly")
    kept.append(plain(manager.save(since=last)))
    assert plain(with_changes(kept)) == plain(manager.save())
    again = ContextManager.restore(kept, manager.history)
    for each in (manager, again):
        each.add(user("go on"))
    assert again.prepare().messages == manager.prepare().messages


def test_a_change_of_another_state_is_refused_by_its_place():
    manager = grown(talk(10))
    first = manager.save()
    manager.add(user("more"))
    second = manager.save()
    manager.add(user("and more"))
    with pytest.raises(InvalidPolicy, match=r"saved\[1\]\.since"):
        ContextManager.restore([first, manager.save(since=second)], manager.history)
    with pytest.raises(InvalidPolicy):
        ContextManager.restore([], manager.history)


def test_what_orjson_cannot_write_may_be_in_the_state_and_in_a_change():
    manager = grown(
        [
            user("half of a pair: \ud83d"),
            {"role": "assistant", "content": [{"type": "text", "text": "ok"}]},
        ]
    )
    first = manager.save(history=True)
    manager.add(user(f"and {2**70}"))
    manager.prepare()
    change = manager.save(history=True, since=first)
    assert plain(with_changes([plain(first), plain(change)])) == plain(manager.save(history=True))

"""`view` of a list that is passed again: unchanged messages are known by the objects they are made of, changed ones are noticed."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from benches import bodies
from hypothesis import given, settings, strategies as st

from tests.kit import calls
from tests.manager.test_whole_list import FORMS, manager, talk
from ullage import ContextManager
from ullage.exceptions import UllageError
from ullage.manager import whole_list

WIDE = {"context_window": 900_000, "max_output_tokens": 2_000}


def containers(value: Any) -> list[Any]:
    """The dicts and lists of a message, itself too."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, dict | list) else []
    return [*own, *(one for part in inner for one in containers(part))]


def edit(messages: list[Any], rng: random.Random) -> None:
    """Change something in place: mostly what a list says, now and then only of which objects it is made."""
    at = rng.randrange(len(messages))
    place = rng.choice(containers(messages[at]))
    keys = list(place) if isinstance(place, dict) else list(range(len(place)))
    key = rng.choice(keys) if keys else None
    way = rng.randrange(9)
    if way == 0:
        other = rng.randrange(len(messages))
        messages[at], messages[other] = messages[other], messages[at]
    elif way == 1:
        messages[at] = copy.deepcopy(messages[at])
    elif way == 2:
        del messages[at]
    elif way == 3 and isinstance(place, dict):
        place["extra"] = rng.choice([1, True, 1.0, None, "x", {"a": [1]}])
    elif way == 4 and isinstance(place, list):
        place.append({"type": "text", "text": "appended"})
    elif key is not None and way == 5:
        del place[key]
    elif key is not None and way == 6 and isinstance(place[key], str):
        place[key] = "".join([*place[key]])  # equal, and another object
    elif key is not None and way == 7 and isinstance(place, dict):
        place[key] = place.pop(key)  # in another order
    elif key is not None and isinstance(place[key], str):
        place[key] = f"edited {rng.random()}"


def outcome(followed: ContextManager, messages: Any) -> Any:
    try:
        view = followed.view(messages)
    except UllageError as error:
        return type(error), str(error)
    return view.messages, view.origin, view.plan, view.changed


@pytest.mark.parametrize("size", ["wide", "small"])
@pytest.mark.parametrize("form", ["anthropic", "openai_chat", "openai_responses"])
@settings(max_examples=12)
@given(seed=st.integers(0, 10**6))
def test_a_list_that_was_changed_in_place_gives_what_a_new_manager_gives(form, size, seed):
    rng = random.Random(seed)
    more = WIDE if size == "wide" else {}
    messages = copy.deepcopy(talk(seed % 5, 12_000 if size == "wide" else 40_000, form))
    followed = manager(form, **more)
    followed.view(messages)
    for _ in range(4):
        before = copy.deepcopy(messages)
        for _ in range(rng.choice((0, 1, 1, 3))):
            if len(messages) > 2:
                edit(messages, rng)
        given_list = rng.choice(
            (messages, list(messages), tuple(messages), copy.deepcopy(messages))
        )
        seen = outcome(followed, given_list)
        assert seen == outcome(manager(form, **more), copy.deepcopy(messages))
        if not isinstance(seen[0], list):
            messages[:] = before


@pytest.mark.parametrize("form", FORMS)
def test_a_list_that_the_rules_pass_is_one_that_a_repair_leaves_alone(form, monkeypatch):
    """What is new is judged by itself: never more than all of it would be."""
    own, repaired, passed = whole_list._Rules.pass_on, whole_list.WholeLists._repaired, list[bool]()

    def noted(*arguments: Any) -> bool:
        passed.append(own(*arguments))
        return passed[-1]

    def both(lists: Any, messages: Any, start: Any) -> Any:
        made = repaired(lists, messages, start)
        assert made is not None or lists._legal(messages) is None
        return made

    monkeypatch.setattr(whole_list._Rules, "pass_on", noted)
    monkeypatch.setattr(whole_list.WholeLists, "_repaired", both)
    for seed in range(6):
        rng, messages = random.Random(seed), copy.deepcopy(talk(seed, 12_000, form))
        limit = {"context_window": rng.choice((900_000, 8_000))}
        followed = manager(form, **{**WIDE, **limit})
        for end in range(1, len(messages)):
            part = messages[:end]
            if rng.random() < 0.2:
                edit(part, rng)
            outcome(followed, part)
    assert any(passed)


def turns(count: int, form: str = "anthropic", *, ugly: bool = False) -> list[Any]:
    held = [bodies.opening(form)]
    for number in range(count):
        bodies.lengthen(held, number, ugly=ugly, form=form)
    return held


def calls_of_a_view(length: int, form: str, *, ugly: bool) -> int:
    """Of a list with a new tail: the least of three, as one in so many requests notes a point to go back to."""
    followed = ContextManager(model=bodies.FORMS[form][0], provider=form, **WIDE)
    messages = turns(length, form, ugly=ugly)
    answers = [at for at, item in enumerate(messages) if whole_list.speaks(item)]
    ends = [at for at in answers if not whole_list.speaks(messages[at - 1])][-4:]
    followed.view(messages[: ends[0]])
    counts = []
    for end in ends[1:]:
        part = messages[:end]
        counts.append(calls(lambda part=part: followed.view(part)))
    return min(counts)


@pytest.mark.parametrize(("form", "ugly"), [("anthropic", False), *((form, True) for form in bodies.FORMS)])  # fmt: skip
def test_a_view_with_a_new_tail_makes_no_more_calls_at_any_length(form: str, ugly: bool):
    pytest.importorskip("ullage._core")
    short, long = (calls_of_a_view(length, form, ugly=ugly) for length in (100, 900))
    assert long <= short + 60, (short, long)


def test_an_untouched_list_is_said_to_be_kept_when_somebody_asks():
    messages = turns(3)
    view = ContextManager(model="claude-sonnet-4-5", **WIDE).view(messages)
    assert not view.changed
    assert vars(view).keys().isdisjoint(("plan", "origin"))
    messages.append({"role": "user", "content": "later"})
    view.messages.append(messages[-1])
    count = len(messages) - 1
    assert view.origin == list(range(count))
    assert view.plan == tuple(whole_list.PlanStep("kept", at, at) for at in range(count))
    assert view == whole_list.ListView(view.messages, view.origin, view.plan, (), view.tokens)
    assert copy.deepcopy(view) == view
    with pytest.raises(AttributeError):
        _ = view.plans


def test_a_list_is_followed_after_the_host_took_its_messages_back():
    said = [{"role": ("user", "assistant")[n % 2], "content": f"{n}."} for n in range(4)]
    manager = ContextManager(model="claude-sonnet-4-5")
    manager.view(said)
    manager.rewind(2)
    for message in said[2:]:
        manager.add({**message, "content": "Something else."})
    longer = [*said, {"role": "user", "content": "And now?"}]
    assert manager.view(longer).messages == longer
    assert len(manager.history) == 5

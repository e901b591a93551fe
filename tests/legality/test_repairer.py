"""`Repairer`: the same as `repair` on the whole list, for the price of what is new."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.attack.hostile import hostile_conversations
from tests.attack.mutations import MUTATIONS, mutate
from tests.kit import user
from tests.kit.strategies import legal_conversations
from tests.oracle.legality import assert_legal
from ullage.legality import Originals, validate
from ullage.legality.draft import Repaired
from ullage.legality.incremental import Repairer
from ullage.legality.repairs import repair

pytestmark = pytest.mark.both_engines

BOUND = "claude-opus-5-5"
MODELS = (BOUND, "claude-opus-4-5", None)


def thought(name: str, text: str = "done") -> dict[str, Any]:
    think = {"type": "thinking", "thinking": "hm", "signature": name}
    return {"role": "assistant", "content": [think, {"type": "text", "text": text}]}


def call(name: str, sign: str) -> dict[str, Any]:
    think = {"type": "thinking", "thinking": "hm", "signature": sign}
    use = {"type": "tool_use", "id": name, "name": "ls", "input": {}}
    return {"role": "assistant", "content": [think, use]}


def result(name: str, text: str = "ok") -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": name, "content": text}
    return {"role": "user", "content": [block]}


def signs(done: Repaired) -> list[str]:
    blocks = (
        block
        for message in done.messages
        if isinstance(message["content"], list)
        for block in message["content"]
    )
    return [block["signature"] for block in blocks if block["type"] == "thinking"]


def same(done: Repaired, whole: Repaired) -> bool:
    return (
        list(done.messages) == list(whole.messages)
        and done.repairs == whole.repairs
        and done.left == whole.left
    )


@given(legal_conversations("anthropic"), st.sampled_from(MODELS))
def test_each_prefix_of_a_growing_conversation_gives_what_repair_gives(messages, model):
    repairer, was_legal, talk = Repairer(model=model), True, []
    for message in messages:
        talk.append(message)
        whole = repair(talk, model=model)
        done = repairer.repair(talk)
        if was_legal:
            assert same(done, whole)
        assert done.ok
        assert (done.messages is talk) == (not done.repairs)
        if not done.repairs:
            assert repairer.read <= 1
        was_legal = was_legal and not done.repairs


@given(hostile_conversations(), st.sampled_from(MODELS), st.integers(1, 5))
def test_a_hostile_list_gives_what_repair_gives(messages, model, step):
    done = Repairer(model=model).repair(messages)
    assert same(done, repair(messages, model=model))
    repairer = Repairer(model=model)
    for stop in range(1, len(messages) + 1, step):
        known = repairer._tracking
        done = repairer.repair(messages[:stop])
        original = repairer.originals if known else None
        assert same(done, repair(messages[:stop], model=model, original=original))


def stands(old: Any, new: Any, model: str) -> bool:
    """Whether what the model made is still as it came, where a message has come in place of another."""
    if old is new or model == BOUND or not isinstance(old, dict) or not isinstance(new, dict):
        return old is new
    results = ['"tool_result"' in json.dumps(message.get("content")) for message in (old, new)]
    return old.get("role") == new.get("role") == "user" and results[0] == results[1]


@pytest.mark.parametrize("model", [BOUND, "claude-opus-4-5"])
@pytest.mark.parametrize("seed", range(60))
def test_after_any_edit_it_gives_what_repair_gives_with_its_originals(seed, model):
    rng = random.Random(seed)
    talk = [user("q"), call("t0", "s0"), result("t0"), thought("s1"), user("next")]
    repairer, before = Repairer(model=model), []
    for number in range(1, 8):
        as_made = all(stands(*pair, model) for pair in zip(before, [*talk, user("")], strict=False))
        known, before = repairer._tracking or not as_made, talk
        done = repairer.repair(talk)
        assert same(done, repair(talk, model=model, original=repairer.originals if known else None))
        talk = list(done.messages) if rng.random() < 0.2 else list(talk)
        if rng.random() < 0.5:
            talk = mutate(talk, (rng.choice(sorted(MUTATIONS)), rng.randrange(20)))
        talk += [call(f"t{number}", f"c{number}"), result(f"t{number}")]
        talk += [thought(f"d{number}"), user("on")] if rng.random() < 0.7 else []


def test_of_shortened_results_only_these_are_read():
    talk = [user("q")]
    for number in range(20):
        talk += [call(f"t{number}", f"s{number}"), result(f"t{number}", "long")]
    repairer = Repairer(model="claude-opus-4-5")
    repairer.repair(talk)
    for number in range(3):  # from the first rewrite on it is known what the model made
        talk = [*talk]
        talk[2 + 2 * number] = result(f"t{number}", "short")
        assert repairer.repair(talk).messages is talk
    assert repairer.read == 1
    # The model's own words are no result: then the whole list is read.
    talk = [*talk]
    talk[1] = call("t0", "other")
    assert repairer.repair(talk).messages is not talk
    assert repairer.read == len(talk)


def test_ledger_of_the_caller_is_used():
    from ullage._engine import core

    talk = [user("q"), thought("s0"), user("next")]
    ledger, repairer = core.Ledger(None, talk), Repairer(model=BOUND)
    assert repairer.repair(talk, ledger=ledger).messages is talk
    talk.append(thought("s1"))
    ledger.append(talk[-1])
    talk.append(user("more"))
    ledger.append(talk[-1])
    assert repairer.repair(talk, ledger=ledger).messages is talk
    assert repairer.read == 2


def test_after_a_compaction_old_thinking_goes_and_new_thinking_stays():
    repairer = Repairer(model=BOUND)
    old = [user("q"), thought("s0"), user("q2"), call("t1", "s1"), result("t1"), thought("s2")]
    repairer.repair([*old, user("q3")])
    short = [user("summary"), *old[2:], user("q3")]
    first = repairer.repair(short)
    assert signs(first) == []
    short += [call("t2", "n0"), result("t2")]
    second = repairer.repair(short)
    assert signs(second) == ["n0"], "made after the rewrite"
    short += [thought("n1"), user("q4")]
    third = repairer.repair(short)
    assert signs(third) == ["n0", "n1"]
    assert third.ok
    assert_legal("anthropic", third.messages, model=BOUND, tools=[{"name": "ls"}])


def test_thinking_that_answers_a_request_from_before_the_rewrite_is_passed_to_observe():
    def run(observe: bool) -> list[str]:
        repairer, answer = Repairer(model=BOUND), thought("late")
        repairer.repair([user("q"), thought("s0"), user("q2")])
        if observe:
            repairer.observe(answer)
        return signs(repairer.repair([user("summary"), answer, user("q3")]))

    assert run(observe=True) == []
    assert run(observe=False) == ["late"], "nothing tells that it is bound to another prefix"


def test_an_edit_before_thinking_that_answered_the_old_text_drops_it():
    """A result is cleared between a request and the next: the answer is bound to the whole one."""
    from ullage._engine import core

    talk = [user("q"), call("t0", "s0"), result("t0", "long" * 100), thought("s1"), user("q2")]
    ledger, repairer = core.Ledger(None, talk), Repairer(model=BOUND)
    repairer.repair(talk, ledger=ledger)
    for message in (thought("s2"), user("q3")):
        talk.append(message)
        ledger.append(message)
    talk[2] = result("t0", "cleared")
    ledger.replace(2, talk[2])
    # "s0" stands before the edit and alone is valid.
    assert signs(repairer.repair(talk, ledger=ledger)) == ["s0"]


def test_what_was_repaired_is_what_new_thinking_is_bound_to():
    repairer = Repairer(model=BOUND)
    talk = [user("q"), {"role": "assistant", "content": [call("t0", "s0")["content"][1]]}]
    talk += [user("never answered")]
    assert repairer.repair(talk).repairs[0].rule == "A05"
    talk += [thought("s1"), user("next")]
    done = repairer.repair(talk)
    assert signs(done) == ["s1"]
    assert done.ok


def test_after_the_binding_error_all_thinking_goes_and_never_comes_back():
    repairer = Repairer(model="claude-from-the-future")
    talk = [user("q"), call("t0", "s0"), result("t0")]
    assert signs(repairer.repair(talk)) == ["s0"]
    repairer.drop_thinking()
    retried = repairer.repair(talk)
    assert signs(retried) == []
    assert retried.ok
    talk += [thought("s1"), user("next")]
    assert signs(repairer.repair(talk)) == ["s1"]
    talk += [thought("s2"), user("more")]
    assert signs(repairer.repair(talk)) == ["s1", "s2"]


def test_dropping_all_thinking_by_hand():
    talk = [user("q"), call("t0", "s0"), result("t0")]
    done = repair(talk, drop_thinking=True)
    assert signs(done) == []
    assert {each.rule for each in done.repairs} == {"A15"}
    assert signs(repair(talk)) == ["s0"]
    plain = [user("q")]
    assert repair(plain, drop_thinking=True).messages is plain
    manual = {"type": "enabled", "budget_tokens": 1024}
    loop = repair(talk, drop_thinking=True, model="claude-sonnet-4-5", thinking=manual)
    assert validate(loop.messages, model="claude-sonnet-4-5", thinking=manual).ok


def test_limits_of_the_whole_request_are_seen():
    talk = [user("x" * 600), {"role": "assistant", "content": "ok"}]
    small = Repairer(facts={"body_limit": 1500})
    assert small.repair([talk[0]]).ok
    talk += [user("y" * 600), user("z" * 600)]
    done = small.repair([*talk])
    assert [found.rule for found in done.left] == ["A23"]
    assert same(done, repair(talk, facts={"body_limit": 1500}))
    assert Repairer(temperature=1).repair([user("x")]).left[0].rule == "A20"


def test_unreadable_items_and_other_providers_are_repaired_as_a_whole():
    odd = [user("q"), 3, user("r")]
    repairer = Repairer()
    assert same(repairer.repair(odd), repair(odd))
    assert repairer.repair([user("q")]).ok
    chat = [{"role": "user", "content": "q"}, {"role": "tool", "tool_call_id": "x", "content": ""}]
    assert same(Repairer(provider="openai").repair(chat), repair(chat, provider="openai"))


def test_originals_given_at_the_start_hold():
    whole = [user("q"), thought("s0"), user("q2"), thought("s1"), user("q3")]
    repairer = Repairer(model=BOUND, original=Originals.of(whole))
    assert signs(repairer.repair([user("summary"), *whole[2:]])) == []


def told(done: Repaired) -> Any:
    return list(done.messages), done.repairs, done.left


@pytest.mark.parametrize("stop", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("dropped", [False, True])
def test_a_saved_one_goes_on_as_if_it_had_not_been_saved(stop, rewritten, dropped):
    import json

    def lists():
        talk = [user("q"), call("t0", "s0"), result("t0"), thought("s1"), user("q1")]
        yield talk
        talk = [user("summary"), *talk[1:]] if rewritten else talk
        for number in range(4):
            talk = [*talk, call(f"n{number}", f"a{number}"), result(f"n{number}")]
            yield talk

    one, other = Repairer(model=BOUND), Repairer(model=BOUND)
    history: list[Any] = []
    for number, talk in enumerate(lists()):
        history += [item for item in talk if not any(item is old for old in history)]
        assert told(one.repair(talk)) == told(other.repair(talk))
        if dropped and number == 2:
            one.drop_thinking()
            other.drop_thinking()
            assert told(one.repair(talk)) == told(other.repair(talk))
        if number == stop - 1:
            stored = json.loads(json.dumps(other.dump()))
            other = Repairer.load(stored, talk, history=history, model=BOUND)


def test_another_ledger_of_the_same_list_is_no_rewrite():
    from ullage._engine import core

    talk = [user("q"), thought("s0"), user("next")]
    repairer = Repairer(model=BOUND)
    repairer.repair(talk)
    talk += [thought("s1"), user("more")]
    assert repairer.repair(talk, ledger=core.Ledger(None, talk)).messages is talk
    assert repairer.read == 2
    assert not repairer._tracking


def test_an_answer_is_known_in_another_envelope():
    """A host observes the response as it came and sends its message alone."""
    repairer = Repairer(model=BOUND)
    talk = [user("summary"), thought("s0"), user("q")]
    repairer.repair([user("all"), *talk[1:]])
    first = repairer.repair(talk)
    assert signs(first) == []
    for number in range(2):
        answer = call(f"t{number}", f"n{number}")
        repairer.observe({**answer, "usage": {"input_tokens": 1}})
        talk += [answer, result(f"t{number}")]
        done = repairer.repair(talk)
        assert signs(done) == [f"n{at}" for at in range(number + 1)]


def test_rules_that_facts_say_to_skip_are_skipped_by_the_whole_repair_too():
    facts = {"skip": ("A24",), "window": 10}
    talk = [user("x" * 100), {"role": "assistant", "content": "y"}]
    done = repair(talk, facts=facts)
    assert done.ok
    assert len(done.repairs) == 1


def long_loop() -> list[Any]:
    talk = [user("long " * 3000), {"role": "assistant", "content": "ok"}, user("work")]
    for number in range(8):
        talk += [call(f"t{number}", f"s{number}"), result(f"t{number}", "word " * 30)]
    return talk


def test_a_compaction_for_a_bound_model_is_legal_by_itself():
    from ullage import compact

    talk = long_loop()
    for model, kept in ((BOUND, []), ("claude-opus-4-6", ["s6", "s7"])):
        done = compact(talk, model=model, keep=150)
        assert done.compacted
        assert validate(list(done.messages), model=model, original=talk).ok
        assert signs(Repaired(list(done.messages))) == kept
        assert [m for m in done.messages if m in talk] or model == BOUND
    closed = [*talk, thought("end"), user("next"), thought("s9"), user("newest")]
    done = compact(closed, model=BOUND, keep=200)
    assert validate(list(done.messages), model=BOUND, original=closed).ok
    assert done.messages[-1] is closed[-1]


def test_a_kept_beginning_keeps_its_thinking():
    from ullage import compact

    talk = [user("q"), thought("s0"), user("more"), *long_loop(), thought("s9"), user("now")]
    done = compact(talk, model=BOUND, direction="from", at=2)
    assert signs(Repaired(list(done.messages))) == ["s0"]
    assert validate(list(done.messages), model=BOUND, original=talk).ok


def test_thinking_after_a_compaction_within_a_turn_stays():
    """The two lines that end the old turn stay where they are, so that what follows them holds."""
    from ullage import compact

    repairer, talk = Repairer(model=BOUND), long_loop()
    repairer.repair(talk)
    talk = list(compact(talk, model=BOUND, keep=150).messages)
    assert repairer.repair(talk).messages is talk
    for number in range(3):
        talk += [call(f"n{number}", f"n{number}"), result(f"n{number}")]
        done = repairer.repair(talk)
        assert done.messages is talk
        assert signs(done) == [f"n{at}" for at in range(number + 1)]

"""`view`: a framework's whole list at each call."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import anyio
import pytest

from tests.kit import result, said, text, use, user
from tests.oracle.legality import assert_legal
from ullage import ContextManager, InvalidPolicy, outgoing, validate
from ullage.exceptions import ContextTooLarge
from ullage.testing import ScriptedSummarizer, conversation

SMALL = {"context_window": 30_000, "max_output_tokens": 2_000}
FORMS = {
    "anthropic": "claude-opus-4-5",
    "openai_chat": "gpt-5.4",
    "openai_responses": "gpt-5.4",
    "gemini": "gemini-2.5-pro",
    "bedrock": "claude-opus-4-5",
    "mistral": "mistral-large",
}


def manager(form: str = "anthropic", **more: Any) -> ContextManager:
    return ContextManager(**{"model": FORMS[form], "provider": form, **SMALL, **more})


def talk(seed: int = 3, tokens: int = 40_000, form: str = "anthropic") -> list[Any]:
    """One that ends with the user."""
    made = conversation(seed=seed, tokens=tokens)
    while made[-1]["role"] == "assistant":
        made.pop()
    return made if form == "anthropic" else list(outgoing(made, provider=form).messages)


def speaks(item: Any) -> bool:
    if "role" in item:
        return item["role"] in ("assistant", "model")
    return not item["type"].endswith("_output")


def calls_of(messages: list[Any]) -> list[int]:
    """Lengths of the list at which a framework asks the model."""
    ends = [at for at in range(1, len(messages)) if speaks(messages[at])]
    return [*(at for at in ends if not speaks(messages[at - 1])), len(messages)]


def live(messages: list[Any], form: str = "anthropic", **more: Any) -> tuple[Any, Any]:
    followed, view = manager(form, **more), None
    for end in calls_of(messages):
        view = followed.view(messages[:end])
    return followed, view


def check(view: Any, given: list[Any], form: str) -> None:
    assert len(view.origin) == len(view.messages)
    for step in view.plan:
        if step.action == "kept":
            assert view.messages[step.at] is given[step.given]
        if step.at is not None:
            assert view.origin[step.at] == step.given
    named = [step.given for step in view.plan if step.given is not None]
    assert set(named) == set(range(len(given)))
    assert [step.at for step in view.plan if step.at is not None] == [*range(len(view.messages))]
    tools = (
        [{"toolSpec": {"name": "x", "inputSchema": {"json": {}}}}] if form == "bedrock" else None
    )
    params = {"toolConfig": {"tools": tools}} if form == "bedrock" else {}
    report = validate(view.messages, provider=form, model=FORMS[form], params=params)
    assert report.ok, report.errors[:3]


def test_what_needs_no_change_comes_back_as_the_very_objects():
    given = [user("hi"), said([use("t1")]), user([result("t1")])]
    view = manager().view(given)
    assert all(sent is message for sent, message in zip(view.messages, given, strict=True))
    assert view.origin == [0, 1, 2]
    assert not view.changed
    assert view.reports == ()


@pytest.mark.parametrize("form", FORMS)
def test_a_new_manager_makes_the_same_view_as_one_that_followed(form):
    messages = talk(form=form)
    before = copy.deepcopy(messages)
    followed, view = live(messages, form)
    check(view, messages, form)
    assert view.changed
    alone = manager(form).view(messages)
    assert alone.messages == view.messages
    assert (alone.origin, alone.plan) == (view.origin, view.plan)
    assert followed.view(copy.deepcopy(messages)).messages == view.messages
    assert messages == before


def test_the_oracle_agrees_that_it_is_legal():
    for seed in range(3):
        assert_legal("anthropic", live(talk(seed))[1].messages, model="claude-opus-4-5", window=0)


@pytest.mark.parametrize("seed", range(4))
def test_cut_edited_continued_and_forked_lists_give_what_a_new_manager_gives(seed):
    rng = random.Random(seed)
    messages = talk(seed)
    other = talk(seed + 100, 15_000)
    followed, _ = live(messages)
    for _ in range(4):
        place = rng.choice(calls_of(messages))
        way = rng.randrange(4)
        if way == 0:
            messages = messages[:place]
        elif way == 1:
            messages = [*messages[:place], said("Another answer."), *other]
        elif way == 2:
            messages = [user("Edited at the very beginning."), *messages[1:]]
        else:
            followed = followed.fork()
        view = followed.view(messages)
        check(view, messages, "anthropic")
        assert view.messages == manager().view(messages).messages
    for _ in range(2):
        messages = [*messages, said("More."), user("words " * 200)]
        view = followed.view(messages)
    assert view.messages == manager().view(messages).messages


def test_changed_tools_and_system_prompt_are_counted():
    given = [user("hi")]
    followed = manager()
    first = followed.view(given, system="Be brief.").tokens
    second = followed.view(given, system="Be brief. " * 400).tokens
    tool = {"name": "look", "description": "word " * 300, "input_schema": {"type": "object"}}
    third = followed.view(given, tools=[tool]).tokens
    assert first + 500 < second < third
    assert followed.view(given).tokens == third


def test_another_model_brings_its_own_window():
    followed = ContextManager(model="claude-opus-4-5")
    followed.view([user("hi")])
    before = followed.window.whole
    followed.view([user("hi")], model="gpt-5.4")
    assert followed.model.name == "gpt-5.4"
    assert followed.window.whole != before


def test_a_response_that_was_observed_is_known_when_the_list_brings_it():
    followed, given = manager(), [user("hi")]
    followed.view(given)
    usage = {"input_tokens": 900, "output_tokens": 5}
    followed.observe({"id": "m1", "role": "assistant", "content": "Hello.", "usage": usage})
    given = [*given, said("Hello."), user("more")]
    assert followed.view(given).origin == [0, 1, 2]
    assert followed.usage().reported
    assert len(followed.history) == 3


def test_the_state_is_small_json_and_goes_on_in_another_process():
    messages = talk(tokens=60_000)
    ends = calls_of(messages)
    followed, _ = live(messages[: ends[-3]])
    state = json.loads(json.dumps(followed.view_state()))
    assert len(json.dumps(state)) < len(json.dumps(messages)) // 5
    other = manager()
    assert other.load_view_state(state, messages)
    for end in ends[-3:]:
        assert other.view(messages[:end]).messages == followed.view(messages[:end]).messages
    edited = manager()
    assert not edited.load_view_state(state, [user("edited"), *messages[1:]])
    assert edited.view([user("edited")]).origin == [0]
    with pytest.raises(InvalidPolicy, match="version"):
        manager().load_view_state({**state, "version": 9}, messages)
    with pytest.raises(InvalidPolicy, match="empty"):
        other.load_view_state(state, messages)


def crowded(seed):
    """Long words of the user between results, for a window that they overfill."""
    rng = random.Random(seed)

    def words(*counts):
        return " ".join(rng.choices(["ledger", "queue", "shard", "lease"], k=rng.choice(counts)))

    messages = []
    for turn in range(4):
        messages.append(user(f"Step {turn}: {words(40, 400, 900)}"))
        for call in range(rng.choice((0, 1, 3))):
            messages.append(said([text("I look."), use(f"c{turn}_{call}", path="a.py")]))
            messages.append(user([result(f"c{turn}_{call}", words(100, 700))]))
        messages.append(said(f"Done. {words(5, 60)}"))
    return messages[:-1]


@pytest.mark.parametrize("seed", [5, 119, 305])
def test_a_list_that_was_left_above_the_trigger_is_not_compacted_again_by_another_process(seed):
    messages = crowded(seed)
    options = {"model": "claude-opus-4-5", "context_window": 2048, "max_output_tokens": 400}
    followed, other = ContextManager(**options), ContextManager(**options)
    view = followed.view(messages)
    assert other.load_view_state(json.loads(json.dumps(followed.view_state())), messages)
    assert other.view(messages).messages == view.messages
    assert other.usage() == followed.usage()


def test_saved_and_restored_it_goes_on():
    messages = talk()
    ends = calls_of(messages)
    followed, _ = live(messages[: ends[-2]])
    saved = json.loads(json.dumps(followed.save()))
    other = ContextManager.restore(saved, history=followed.history)
    assert other.view(messages).messages == followed.view(messages).messages


def test_with_a_log_it_resumes(tmp_path):
    messages = talk()
    ends = calls_of(messages)
    with manager(log=tmp_path / "a.jsonl") as followed:
        for end in ends[:-1]:
            followed.view(messages[:end])
        cut = followed.view(messages[: ends[2]])
        assert cut.origin
    with ContextManager.resume(tmp_path / "a.jsonl") as other:
        check(other.view(messages), messages, "anthropic")


def test_an_overflow_makes_room_in_the_next_view_of_the_same_list():
    messages = talk(tokens=15_000)
    followed = ContextManager(model="claude-opus-4-5")
    before = followed.view(messages)
    assert not before.changed
    error = {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: 205000 tokens > 200000 maximum",
        },
    }
    assert followed.on_overflow(error)
    after = followed.view(messages)
    check(after, messages, "anthropic")
    assert after.tokens < before.tokens


def test_requests_may_be_prepared_between_views():
    messages = talk()
    ends = calls_of(messages)
    followed, view = live(messages[: ends[-2]])
    assert followed.prepare().messages == view.messages
    for message in messages[ends[-2] :]:
        (followed.observe if message["role"] == "assistant" else followed.add)(message)
    prepared = followed.prepare().messages
    assert followed.view(messages).messages == prepared


def test_async_gives_the_same():
    messages = talk()

    async def run() -> Any:
        followed = manager()
        for end in calls_of(messages):
            view = await followed.aview(messages[:end])
        return view

    assert anyio.run(run).messages == live(messages)[1].messages


def test_a_past_request_that_would_not_fit_now_is_passed_over():
    given = [user("word " * 40_000), said("Too long."), user("hi")]
    with pytest.raises(ContextTooLarge):
        manager().view(given[:1])
    assert manager().view(given).messages


def test_repeated_call_ids_keep_their_pairs():
    rounds: list[Any] = []
    for number in range(30):
        rounds += [
            said([use("0", "Read", file=f"{number}.py")]),
            user([result("0", "line\n" * 900)]),
        ]
    given = [user("Read them all."), *rounds]
    view = manager().view(given)
    report = validate(view.messages, provider="anthropic")
    assert report.ok, report.errors[:3]


@pytest.mark.parametrize("form", ["anthropic", "openai_responses"])
def test_a_changed_view_is_the_view_or_nothing(form: str):
    """Messages that are said to be unchanged are taken at the caller's word."""
    messages = talk(form=form)
    one, other, seen, known = manager(form), manager(form), [], 0
    for end in calls_of(messages):
        view = one.view(messages[:end])
        changed = other.changed_view(copy.deepcopy(messages[:end]), unchanged=known)
        known = end
        assert (changed is None) == (not view.changed)
        assert changed is None or changed.messages == view.messages
        seen.append(changed is None)
    assert True in seen
    assert False in seen
    back = other.changed_view(messages[:5])
    assert back is None


def test_a_list_that_no_level_changed_is_not_repaired_for_a_gateway():
    broken = [user("hi"), said([use("t1")]), user("no answer to the call")]
    assert manager().view(broken).changed
    assert manager().changed_view(broken) is None


@pytest.mark.parametrize("form", ["anthropic", "bedrock", "openai_responses"])
def test_a_kept_view_is_known_when_the_framework_hands_it_over(form):
    messages, followed, own = talk(tokens=60_000, form=form), manager(form), []
    changed = 0
    for end, before in zip(ends := calls_of(messages), [0, *ends], strict=False):
        own += messages[before:end]
        view = followed.view(own)
        if view.changed:
            own = list(view.messages)
            followed.view_kept(view)
            again = followed.view(list(own))
            assert not again.changed
            assert all(one is other for one, other in zip(again.messages, own, strict=True))
            changed += 1
    assert changed


def test_a_kept_view_that_was_edited_at_its_beginning_is_a_new_list():
    messages = talk(tokens=90_000)
    summarizer = ScriptedSummarizer()
    followed = manager(summarizer=summarizer)
    view = followed.view(messages)
    assert None in view.origin
    followed.view_kept(view)
    other = [user("Somebody else's words."), *messages[1:9]]
    assert followed.view(other).messages == manager().view(other).messages


def test_back_to_nothing_after_a_summary():
    followed = manager()
    followed.view(talk(tokens=90_000))
    followed.rewind(0)
    assert len(followed.history) == 0
    followed.add(user("Hello."))
    assert followed.prepare().messages == [user("Hello.")]


@pytest.mark.parametrize("change", [{"followed": 5}, {"view": None}, {"overhead": []}], ids=str)
def test_a_state_with_a_part_of_another_type_is_refused(change):
    manager = ContextManager(model="claude-opus-4-5")
    given = [{"role": "user", "content": "hello"}]
    manager.view(given)
    stored = {**manager.view_state(), **change}
    with pytest.raises(InvalidPolicy):
        ContextManager(model="claude-opus-4-5").load_view_state(stored, given)

"""What a context manager takes, refuses, stamps and gives back: arguments, answers, times, earlier messages, copies."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle

import pytest
from hypothesis import given, settings, strategies as st

from tests.kit import said, user
from ullage import ContextManager, Policy, TranscriptLog, compact, resume
from ullage.exceptions import InvalidMessage, InvalidPolicy, LogConflict, StoreError
from ullage.legality import validate
from ullage.levels.turn_snip import SNIP_TOOL
from ullage.manager.journal import diff, patch
from ullage.recall.store import MemoryStore
from ullage.testing import conversation

MODEL = "claude-opus-4-5"
MODELS = {
    "anthropic": MODEL, "openai_chat": "gpt-4o", "openai_responses": "gpt-5", "gemini": "gemini-2.5-pro",
    "bedrock": MODEL, "mistral": "mistral-large-latest",
}  # fmt: skip


def use(name, tool="Bash", **given):
    return [{"type": "tool_use", "id": name, "name": tool, "input": given or {"command": name}}]


def result(name, text):
    return user([{"type": "tool_result", "tool_use_id": name, "content": text}])


def filled(messages, **options):
    manager = ContextManager(model=MODEL, **options)
    for message in messages:
        manager.add(message)
    return manager


# ---- lines for a transcript


def snipped(log, manager, tell):
    """A turn with a call, removed by the model; `tell` says how the host logs what the model said."""
    manager.add(log.append(user("find")) if log else user("find"))
    tell(manager, said(use("t1"), id="msg_1"))
    found = user([{"type": "tool_result", "tool_use_id": "t1", "content": "x " * 3_000}])
    manager.add(log.append(found) if log else found)
    tell(manager, said("found 23", id="msg_2"))
    manager.add(log.append(user("fix login")) if log else user("fix login"))
    first = json.dumps(manager.prepare().messages[0]).split("[id:")[1].split("]")[0]
    manager.answer("Snip", {"ids": [first]})
    return manager.prepare()


def test_a_response_id_is_no_uuid_and_a_line_that_would_split_a_pair_is_not_written(tmp_path):
    with TranscriptLog.open(tmp_path / "s.jsonl") as log:

        def apart(manager, answer):
            manager.observe(answer)
            log.append(answer)

        request = snipped(
            log, ContextManager(model=MODEL, tools=[SNIP_TOOL.definition("anthropic")]), apart
        )
        assert "msg_1" not in json.dumps(request.records)
        log.extend(request.records)
        assert any(
            "no line for the transcript" in failure
            for report in request.reports
            for failure in report.failures
        )
    shown = resume(tmp_path / "s.jsonl").messages
    assert not [each for each in validate(shown, model=MODEL).violations if each.rule == "A05"]


def test_a_host_can_bind_uuids_by_logging_the_managers_entries(tmp_path):
    with TranscriptLog.open(tmp_path / "s.jsonl") as log:

        def bound(manager, answer):
            manager.observe(answer)
            log.extend(manager.entries(-1))

        request = snipped(
            log, ContextManager(model=MODEL, tools=[SNIP_TOOL.definition("anthropic")]), bound
        )
        log.extend(request.records)
        known = {entry["uuid"] for entry in log.transcript().entries() if "uuid" in entry}
        assert set(request.records[0]["snipMetadata"]["removedUuids"]) <= known
    assert len(resume(tmp_path / "s.jsonl").messages) == 1


def test_bare_messages_without_a_log_say_that_no_line_was_made():
    manager = ContextManager(model=MODEL, tools=[SNIP_TOOL.definition("anthropic")])
    request = snipped(None, manager, lambda manager, answer: manager.observe(answer))
    assert not request.records
    assert "no line for the transcript" in request.reports[-1].failures[0]


# ---- a log of its own


def test_a_compaction_is_in_the_log_and_the_breaker_stays_shut(tmp_path):
    talk = [
        each
        for at in range(40)
        for each in (user(f"q {at} " + "word " * 1_500), said("fine " * 3_500))
    ]
    with ContextManager(model=MODEL, log=tmp_path / "s.jsonl") as manager:
        for message in [*talk, user("last")]:
            manager.add(message)
        request = manager.prepare()
        assert request.compaction is not None
        assert manager.machine.tracking.failures == 0
        boundaries = [
            e for e in manager.log.transcript().entries() if e.get("subtype") == "compact_boundary"
        ]
        assert len(boundaries) == 1
        shown = manager.log.resume().messages
        assert shown[-1] == request.messages[-1]


def test_a_reader_of_the_log_sees_what_a_rewind_past_a_compaction_brings_back(tmp_path):
    path = tmp_path / "s.jsonl"
    talk = [each for at in range(20) for each in (user(f"q {at} " + "word " * 200), said("fine"))]
    with filled(talk, log=path) as manager:
        manager.prepare()
        manager.compact(keep=0)
        manager.add(user("more"))
        assert len(resume(path).messages) < 5
        manager.rewind(20)
        assert resume(path).messages == manager.messages == talk[:20]
        manager.add(user("another way"))
        assert resume(path).messages == manager.messages
        manager.compact(keep=0)
        manager.rewind(0)
        assert resume(path).messages == []
        manager.add(user("from the start"))
    with ContextManager.resume(path) as resumed:
        assert resume(path).messages == resumed.messages == [user("from the start")]


def test_a_log_with_a_conversation_is_resumed_not_begun_again(tmp_path):
    path = tmp_path / "s.jsonl"
    with ContextManager(model=MODEL, log=path) as manager:
        manager.add(user("hello"))
        with pytest.raises(LogConflict):
            ContextManager.resume(path)
    with pytest.raises(LogConflict) as caught:
        ContextManager(model=MODEL, log=path)
    assert "resume" in caught.value.hint
    with ContextManager.resume(path) as again:
        assert again.history == [user("hello")]


def test_a_transcript_that_no_manager_wrote_is_begun_with(tmp_path):
    path = tmp_path / "s.jsonl"
    with TranscriptLog.open(path) as log:
        log.extend(conversation(3, tokens=6_000))
    with pytest.raises(InvalidPolicy) as caught:
        ContextManager.resume(path)
    assert caught.value.field == "model"
    with ContextManager.resume(path, model=MODEL) as manager:
        first = manager.prepare().messages
        assert first == resume(path).messages
        manager.observe(said("fine"))
        manager.add(user("go on"))
        wanted = manager.prepare().messages
    with ContextManager.resume(path) as again:
        assert again.prepare().messages == wanted


def test_with_no_such_file_nothing_is_resumed(tmp_path):
    with pytest.raises(StoreError):
        ContextManager.resume(tmp_path / "none.jsonl", model=MODEL)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(before=JSON, now=JSON)
def test_the_later_state_comes_of_the_earlier_and_the_change(before, now):
    change = json.loads(json.dumps(diff(before, now)))
    made = patch(before, change)
    assert json.dumps(made) == json.dumps(now) or made == now
    held = copy.deepcopy(before)
    assert json.dumps(patch(held, copy.deepcopy(change), in_place=True)) == json.dumps(made)
    assert patch(before, change) == made, "the earlier state had changed"
    assert bool(change) == (type(before) is not type(now) or before != now)


# ---- times


def test_messages_are_stamped_as_they_come_and_a_pause_clears_old_results():
    clock = iter(range(0, 10**12, 1))
    now = [1_700_000_000_000]
    policy = Policy.buffered().change({"micro.by_time": True})
    manager = ContextManager(model=MODEL, policy=policy, clock=lambda: now[0] + next(clock))
    manager.add(user("go"))
    for at in range(12):
        manager.observe(said(use(f"t{at}", "Read", file_path=f"f{at}"), id=f"m{at}"))
        manager.add(result(f"t{at}", "ab cd " * 1_000))
    manager.observe(said("done", id="z"))
    manager.add(user("next"))
    assert "cleared]" not in str(manager.prepare().messages)
    now[0] += 4_200_000
    manager.add(user("and now"))
    assert "cleared]" in str(manager.prepare().messages)


# ---- what is refused


@pytest.mark.parametrize("given", [
    {"content": "hi", "type": "ai"}, {"content": "hi"}, {"role": "ai", "content": "hi"}, {}, "text", None, 5, [1],
    {"choices": [], "usage": {"prompt_tokens": 5}}, {"choices": [{"delta": {"content": "x"}}]}, {"output": []},
    {"candidates": []}, {"type": "message_stop"}, {"type": "message_delta", "usage": {"output_tokens": 3}},
    {"error": {"message": "x"}},
])  # fmt: skip
@pytest.mark.parametrize("provider", MODELS)
def test_what_is_no_answer_is_refused_with_a_hint_and_changes_nothing(provider, given):
    class Foreign:
        def model_dump(self, **options):
            return given

    manager = ContextManager(model=MODELS[provider], provider=provider)
    manager.add(user("x"))
    before = manager.save()
    for form in (Foreign(), given):
        with pytest.raises(InvalidMessage) as caught:
            manager.observe(form)
        assert caught.value.hint
    with pytest.raises(InvalidMessage):
        manager.add(given)
    assert manager.save() == before


@pytest.mark.parametrize("name", ["ladder", "buffered"])
def test_a_preset_goes_by_its_name(name):
    assert ContextManager(model=MODEL, policy=name).policy.preset == name


@pytest.mark.parametrize("wrong", ["laddr", 7, {"a": 1}])
def test_what_is_no_policy_is_refused(wrong):
    with pytest.raises(InvalidPolicy) as caught:
        ContextManager(model=MODEL, policy=wrong)
    assert caught.value.field == "policy"
    with pytest.raises(InvalidPolicy):
        compact(conversation(3, tokens=2_000), policy=wrong)


def test_misspelled_arguments_are_refused_at_the_call_with_the_nearest_name():
    for call in (
        lambda: ContextManager(model=MODEL, sesion_id="x"),
        lambda: compact([], sesion_id="x"),
        lambda: asyncio.run(_acompact()),
        lambda: ContextManager.restore(
            ContextManager(model=MODEL).save(history=True), sesion_id="x"
        ),
    ):
        with pytest.raises(InvalidPolicy) as caught:
            call()
        assert caught.value.field == "sesion_id"
        assert "session_id" in caught.value.hint


async def _acompact():
    from ullage import acompact

    await acompact([], sesion_id="x")


@pytest.mark.parametrize("pins", [["x"], "x", [7]])
def test_pins_must_be_pins(pins):
    with pytest.raises(InvalidPolicy) as caught:
        compact(conversation(3, tokens=2_000), pins=pins)
    assert caught.value.field == "pins"


# ---- requests


def test_nothing_gains_less_than_nothing():
    manager = filled([user("go"), said(use("t1")), result("t1", "")], store=MemoryStore())
    reports = manager.prepare().reports
    assert reports
    assert all(report.freed >= 0 for report in reports)


def test_a_smaller_output_is_worth_a_retry_and_then_room_is_made():
    manager = filled(
        [each for at in range(20) for each in (user(f"{at} " + "w " * 900), said("y " * 900))]
        + [user("n")]
    )
    manager.prepare()
    error = Exception("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000")
    first = manager.on_overflow(error)
    assert first
    assert first.max_tokens == 10_000
    assert not first.step
    second = manager.on_overflow(error)  # the host asked for as much again
    assert second.step


def test_a_compaction_by_hand_shortens_old_results_first_and_takes_a_part():
    asked = []

    def write(request):
        asked.append(request)
        return "no"

    steps = [
        each
        for at in range(34)
        for each in (said(use(f"t{at}")), result(f"t{at}", "word " * 2_000))
    ]
    manager = filled(
        [user("go"), *steps, said("done"), user("n")],
        policy="ladder",
        summarizer=write,
        fallback="extractive",
    )
    manager.compact(keep=0)
    long = [
        block
        for message in asked[0].messages
        for block in (message["content"] if isinstance(message["content"], list) else ())
        if len(str(block.get("content", ""))) > 9_000
    ]
    assert len(long) <= len(steps) // 4


@pytest.mark.parametrize(("direction", "at"), [("up_to", 32), ("from", 8)])
def test_a_part_of_the_conversation_is_compacted(direction, at):
    talk = [
        each
        for n in range(20)
        for each in (user(f"question {n} " + "w " * 900), said(f"answer {n} " + "y " * 1_800))
    ]
    manager = filled([*talk, user("n")])
    done = manager.compact(direction=direction, at=at)
    assert done.compacted
    kept = talk[at] if direction == "up_to" else talk[0]
    assert kept in manager.messages
    assert len(manager.messages) < len(talk)


# ---- all or nothing


def test_a_cancelled_call_leaves_the_state_as_it_was():
    async def main():
        begun = asyncio.Event()

        async def slow(request):
            begun.set()
            await asyncio.sleep(5)

        talk = [each for at in range(60) for each in (user("w " * 1_500), said("y " * 4_500))]
        manager = filled([*talk, user("last")], summarizer=slow)
        before = manager.save()
        for call in (manager.aprepare, manager.acompact):
            begun.clear()
            task = asyncio.create_task(call())
            await begun.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert manager.save() == before

    asyncio.run(main())


def test_messages_that_came_during_a_cancelled_call_are_kept():
    async def main():
        begun = asyncio.Event()

        async def slow(request):
            begun.set()
            await asyncio.sleep(5)

        talk = [each for at in range(60) for each in (user("w " * 1_500), said("y " * 4_500))]
        manager = filled([*talk, user("last")], summarizer=slow)
        task = asyncio.create_task(manager.aprepare())
        await begun.wait()
        manager.add(user("meanwhile"))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert manager.messages == [*talk, user("last"), user("meanwhile")]

    asyncio.run(main())


# ---- earlier messages, copies


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 20), cut=st.integers(1, 30), edit=st.booleans())
def test_a_shorter_or_edited_history_is_rolled_back_to(seed, cut, edit):
    talk = conversation(seed, tokens=9_000)
    cut = min(cut, len(talk) - 1)
    manager = filled(
        talk, policy=Policy.buffered().change({"snip.max_chars": 1_000}), clock=lambda: 0
    )
    manager.prepare()
    shorter = [*talk[:cut], user("another way")] if edit else talk[:cut]
    again = ContextManager.restore(manager.save(), shorter, clock=lambda: 0)
    assert again.history == shorter
    fresh = filled(shorter, policy=manager.policy, clock=lambda: 0)
    assert again.prepare().messages == fresh.prepare().messages


def test_back_past_a_compaction_all_that_stays_is_whole_again():
    talk = [each for at in range(20) for each in (user(f"q {at} " + "w " * 900), said("y " * 900))]
    manager = filled([*talk, user("n")])
    assert manager.compact(keep=0).compacted
    manager.rewind(5)
    assert manager.messages == talk[:5]
    with pytest.raises(InvalidPolicy):
        manager.rewind(6)


def test_a_fork_goes_its_own_way():
    manager = filled([user("a"), said("b"), user("c")])
    manager.prepare()
    other = copy.deepcopy(manager)
    other.add(said("d"))
    assert len(manager.history) == 3
    assert other.messages[:3] == manager.messages
    with pytest.raises(InvalidPolicy) as caught:
        copy.copy(manager)
    assert "fork" in caught.value.hint
    with pytest.raises(InvalidPolicy) as caught:
        pickle.dumps(manager)
    assert "save" in caught.value.hint


def test_a_fork_has_a_log_of_its_own(tmp_path):
    with ContextManager(model=MODEL, log=tmp_path / "a.jsonl") as manager:
        manager.add(user("a"))
        with manager.fork(log=tmp_path / "b.jsonl") as other:
            other.add(user("b"))
        assert manager.history == [user("a")]
    with ContextManager.resume(tmp_path / "b.jsonl") as again:
        assert again.history == [user("a"), user("b")]

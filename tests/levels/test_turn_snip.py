"""Snip by turns: ids, the tool, what goes and what stays, replay, reminders (SNIP-3)."""

from __future__ import annotations

import copy
import itertools
import json

import pytest
from hypothesis import given, settings, strategies as st

from tests.level_kit import act, context_of
from tests.oracle.legality import assert_legal
from ullage import ContextManager
from ullage._engine import core
from ullage.levels import StageReport, View, turn_snip
from ullage.levels.level import turn_starts
from ullage.levels.turn_snip import SNIP_TOOL, TurnSnip, answer, short_id
from ullage.policy import Policy
from ullage.recall import Archive
from ullage.testing import conversation
from ullage.transcript import TranscriptLog
from ullage.transcript.index import resume

ON = Policy.buffered().change({"snip.turns": True})
UUID = "0f3c2a9e-51b7-4d1e-9a55-2b7c1e0d4f66"


def entries(messages: list[dict]) -> list[dict]:
    return [
        {
            "type": message["role"],
            "uuid": f"{at * 7919:08x}-0000-4000-8000-{at:012x}",
            "parentUuid": f"{(at - 1) * 7919:08x}-0000-4000-8000-{at - 1:012x}" if at else None,
            "message": message,
        }
        for at, message in enumerate(messages)
    ]


def chat(*turns: str, work: str = "ok") -> list[dict]:
    said: list[dict] = []
    for at, text in enumerate(turns):
        said += [
            {"role": "user", "content": text},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": f"t{at}", "name": "Bash", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": f"t{at}", "content": work}],
            },
            {"role": "assistant", "content": f"done with {text}"},
        ]
    return said[:-1]


def run(view: View, policy: Policy, state: TurnSnip) -> StageReport | None:
    offered = frozenset({SNIP_TOOL.name})
    return act(turn_snip.LEVEL, context_of(view, policy, state, tools=offered))


def prepared(items: list[dict], state: TurnSnip, policy: Policy = ON) -> View:
    view = View()
    for item in items:
        view.add(item)
    run(view, policy, state)
    view.mark_sent()
    return view


def texts(view: View, at: int) -> list[str]:
    content = view.messages[at]["content"]
    return [content] if isinstance(content, str) else [block["text"] for block in content]


# ---- ids


def test_an_id_is_the_uuid_in_base_36():
    name = short_id({"uuid": UUID, "role": "user", "content": "x"}, 0, ())
    assert len(name) == 6
    # Seven digits in base 36, of which the first six are taken.
    assert int(name, 36) == int("0f3c2a9e51", 16) // 36


def test_a_uuid_of_just_ten_digits_is_enough_and_a_shorter_one_is_hashed():
    ten = short_id({"uuid": "0f3c2a9e51", "role": "user", "content": "x"}, 0, ())
    assert ten == short_id({"uuid": UUID, "role": "user", "content": "x"}, 0, ())
    nine = short_id({"uuid": "0f3c2a9e5", "role": "user", "content": "x"}, 0, ())
    assert len(nine) == 6
    assert nine != ten


def test_turns_that_carry_no_id_cannot_be_named():
    state = TurnSnip()
    view = prepared(chat("one", "two"), TurnSnip(), Policy.buffered().change({"snip.turns": False}))
    for item in chat("three")[:1]:
        view.add(item)
    run(view, ON, state)
    assert list(state.ids) == [7]
    said = answer({"ids": [short_id(view.originals[0], 0, ())]}, view, state)
    assert said.is_error


def test_an_id_that_is_taken_gets_longer_and_the_first_one_stays():
    item = {"uuid": UUID, "role": "user", "content": "x"}
    first = short_id(item, 0, ())
    second = short_id(item, 1, [first])
    assert second.startswith(first)
    assert len(second) == 7
    assert len(short_id(item, 2, [first, second])) == 8


def test_without_a_uuid_the_id_is_of_position_and_text():
    said = {"role": "user", "content": "x"}
    assert short_id(said, 0, ()) == short_id(dict(said), 0, ())
    assert short_id(said, 0, ()) != short_id(said, 4, ())


def test_ids_follow_user_inputs_in_the_copy_only_and_stay():
    items = chat("one", "two")
    before = copy.deepcopy(items)
    state = TurnSnip()
    view = prepared(items, state)
    assert items == before
    assert texts(view, 0) == ["one", f"[id:{state.ids[0]}]"]
    assert view.messages[2] is items[2]
    sent = list(view.messages)
    for item in ({"role": "assistant", "content": "x"}, {"role": "user", "content": "three"}):
        view.add(item)
    run(view, ON, state)
    assert view.messages[: len(sent)] == sent
    assert texts(view, len(view) - 1)[1] == f"[id:{state.ids[8]}]"


def test_messages_that_were_sent_without_an_id_stay_so():
    view = prepared(chat("one"), TurnSnip(), Policy.buffered().change({"snip.turns": False}))
    assert view.messages[0]["content"] == "one"
    assert run(view, ON, TurnSnip()) is None
    assert view.messages[0]["content"] == "one"


# ---- the tool


def test_a_turn_is_removed_whole_from_the_next_request_on():
    items = chat("one", "two", "three")
    state = TurnSnip()
    view = prepared(items, state)
    said = answer({"ids": [f"[id:{state.ids[0]}]"], "reason": "done"}, view, state)
    assert not said.is_error
    assert state.ids[0] in said.text
    assert len(view) == 11
    report = run(view, ON, state)
    assert [m["content"] for m in view.originals] == [m["content"] for m in items[4:]]
    assert (report.removed_messages, report.first_changed) == (4, 0)
    assert "done" in report.why
    assert_legal("anthropic", view.messages, model="claude-opus-4-5")
    assert run(view, ON, state) is None
    archive = Archive(items)
    archive.spans[state.ids[0]] = state.removed[state.ids[0]]
    assert archive.resolve(state.ids[0]).items == tuple(items[:4])


def test_unknown_ids_are_named_and_the_current_turn_is_refused():
    state = TurnSnip()
    view = prepared(chat("one", "two"), state)
    current = state.ids[4]
    said = answer({"ids": ["zzzzzz", current]}, view, state)
    assert said.is_error
    assert "zzzzzz" in said.text
    assert f"current turn ({current}) cannot" in said.text
    assert run(view, ON, state) is None
    mixed = answer({"ids": ["zzzzzz", state.ids[0]]}, view, state)
    assert not mixed.is_error
    assert "zzzzzz" in mixed.text


@pytest.mark.parametrize("given_", [None, {}, {"ids": []}, {"ids": 7}, {"ids": [None]}, "x"])
def test_calls_that_make_no_sense_are_answered(given_):
    state = TurnSnip()
    assert answer(given_, prepared(chat("one", "two"), state), state).is_error
    assert not state.asked


def test_the_schema_of_the_tool():
    assert SNIP_TOOL.definition()["input_schema"]["required"] == ["ids"]


def test_a_message_that_answers_a_call_begins_no_turn():
    items = chat("one", "two")
    items[2]["content"].append({"type": "text", "text": "and hurry"})
    state = TurnSnip()
    view = prepared(items, state)
    assert set(state.ids) == {0, 4}
    assert turn_starts(view.ledger) == [0, 4]


def test_what_a_later_result_belongs_to_is_not_split():
    items = chat("one")
    items.insert(2, {"role": "user", "content": "wait"})
    view = prepared(items, TurnSnip())
    assert turn_starts(view.ledger) == [0]
    assert view.ledger.whole_cuts() == [0, 1, 4]


# ---- records


def log_entry(folder, uuid: str) -> dict:
    (found,) = Archive([], transcript=folder / "s.jsonl").resolve(uuid).items
    return found


def test_removed_uuids_are_recorded_and_replayed(tmp_path):
    items = entries(chat("one", "two", "three"))
    state = TurnSnip()
    view = prepared(items, state)
    answer({"ids": [state.ids[4]], "reason": "done"}, view, state)
    report = run(view, ON, state)
    (record,) = report.records
    assert record["snipMetadata"]["removedUuids"] == [item["uuid"] for item in items[4:8]]
    assert record["snipMetadata"]["freedTokens"] == report.freed > 0
    with TranscriptLog.open(tmp_path / "s.jsonl") as log:
        log.extend([*items, record])
    found = resume(tmp_path / "s.jsonl")
    assert [each["uuid"] for each in found.entries] == [
        each["uuid"] for each in items[:4] + items[8:]
    ]
    assert {found.report.removed[item["uuid"]] for item in items[4:8]} == {"snipped"}
    # Links lead past the gap; the stored line is as it was.
    assert [each["parentUuid"] for each in found.entries[4:6]] == [
        items[3]["uuid"],
        items[8]["uuid"],
    ]
    assert items[8]["parentUuid"] == items[7]["uuid"]
    assert found.entries[5] == log_entry(tmp_path, items[9]["uuid"])


@pytest.mark.parametrize("answered", [False, True])
def test_after_a_resume_a_figure_from_before_the_snip_is_not_used(tmp_path, answered):
    items = entries(chat("one", "two", "three", work="word " * 2_000))
    items[9]["message"] = {
        **items[9]["message"],
        "usage": {"input_tokens": 9_000, "output_tokens": 1},
    }
    state = TurnSnip()
    view = prepared(items, state)
    answer({"ids": [state.ids[0]]}, view, state)
    report = run(view, ON, state)
    later = {
        "role": "assistant",
        "content": "ok",
        "usage": {"input_tokens": 6_000, "output_tokens": 1},
    }
    with TranscriptLog.open(tmp_path / "s.jsonl") as log:
        log.extend([*items, *report.records, *([later] if answered else [])])
    ledger = core.Ledger(None, resume(tmp_path / "s.jsonl").entries)
    assert (ledger.anchor() is not None) == answered
    assert ledger.anchored().total == (6_001 if answered else ledger.tokens())


def test_the_state_survives():
    state = TurnSnip()
    view = prepared(chat("one", "two", "three"), state)
    answer({"ids": [state.ids[0]]}, view, state)
    run(view, ON, state)
    answer({"ids": [state.ids[4]]}, view, state)
    assert TurnSnip.load(state.dump()) == state


def test_freed_tokens_correct_the_reported_figure():
    items = chat("one", "two", work="word " * 4_000)
    items[5] = {**items[5], "usage": {"input_tokens": 9_000, "output_tokens": 10}}
    state = TurnSnip()
    view = prepared(items, state)
    before = view.tokens()
    answer({"ids": [state.ids[0]]}, view, state)
    report = run(view, ON, state)
    assert view.tokens() == before - report.freed
    assert report.freed > 4_000


# ---- reminders


def test_one_reminder_after_each_growth_without_a_snip():
    policy = ON.change({"snip.reminder_tokens": 1_000})
    state, view, reminded = TurnSnip(), View(), []
    for at, item in enumerate(chat(*"abcdefgh", work="word " * 300)):
        view.add(item)
        if item["role"] == "user":
            run(view, policy, state)
            view.mark_sent()
            if turn_snip.REMINDER in str(view.messages[-1]["content"]):
                reminded.append((at, view.ledger.tokens()))
    gaps = [b[1] - a[1] for a, b in itertools.pairwise(reminded)]
    assert len(reminded) >= 2
    assert all(1_000 <= gap < 1_600 for gap in gaps)
    assert sum(turn_snip.REMINDER in str(m["content"]) for m in view.messages) == len(reminded)
    assert_legal("anthropic", view.messages, model="claude-opus-4-5")


def test_no_reminder_while_there_is_nothing_that_could_go():
    state = TurnSnip(base_tokens=0)
    view = prepared(
        chat("one", work="word " * 9_000), state, ON.change({"snip.reminder_tokens": 1})
    )
    assert "Snip tool" not in str(view.messages)


def test_a_snip_or_a_compaction_begins_the_count_again():
    state = TurnSnip()
    policy = ON.change({"snip.reminder_tokens": 1_000})
    view = prepared(chat("one", "two", "three", work="word " * 300), state, policy)
    for item in chat("four", work="word " * 2_000):
        view.add({**item} if item["role"] == "user" else item)
    turn_snip.reset(context_of(view, policy, state))
    run(view, policy, state)
    assert turn_snip.REMINDER not in str(view.messages)


# ---- any conversation


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 5_000), st.data())
def test_any_turns_of_any_conversation(seed, data):
    items = entries(conversation(seed, turns=5, tokens=8_000))
    state = TurnSnip()
    view = prepared(items, state)
    assert [view.sources[at] for at in turn_starts(view.ledger)] == sorted(state.ids)
    for at in range(len(view) + 1):
        assert turn_starts(view.ledger, at) == [
            start for start in turn_starts(view.ledger) if start >= at
        ]
    names = data.draw(st.lists(st.sampled_from(list(state.ids.values())), min_size=1, unique=True))
    current = state.ids[max(state.ids)]
    answer({"ids": names}, view, state)
    report = run(view, ON, state)
    gone = {at for span in (report.removed if report else ()) for at in range(*span)}
    kept = {source for source in view.sources if isinstance(source, int)}
    assert gone | kept == set(range(len(items)))
    assert not gone & kept
    assert (set(names) - {current} == set()) == (report is None)
    assert set(state.removed) == set(names) - {current}
    assert_legal("anthropic", view.messages, model="claude-opus-4-5")
    whole = view.ledger.whole_cuts()
    assert whole[0] == 0


def test_with_a_log_an_id_is_that_of_the_line(tmp_path):
    log = tmp_path / "log.jsonl"
    manager = ContextManager(
        model="claude-opus-4-5", policy=ON, tools=[SNIP_TOOL.definition()], log=log
    )
    manager.add({"role": "user", "content": "Look at the parser."})
    sent = str(manager.prepare().messages)
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    uuid = next(line["uuid"] for line in lines if line.get("type") == "user")
    manager.close()
    assert f"[id:{short_id({'uuid': uuid}, 0, ())}]" in sent

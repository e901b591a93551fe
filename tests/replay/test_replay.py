"""A session played as if live: figures of a managed and an unmanaged run, and what the cache makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.kit.transcripts import Layout, session_287k, session_file
from ullage.policy import Policy
from ullage.replay import (
    SessionScript,
    SizeCost,
    costs_by_size,
    frontier_plot,
    replay_session,
    script_of,
    sum_of_costs,
)
from ullage.sessions import compact_session, open_session, undo_compaction
from ullage.testing import scenario

MODEL = "claude-opus-4-5"


@pytest.fixture(scope="module")
def runs() -> dict:
    script = SessionScript(messages=session_287k(5).messages, times=[0] * 10_000, model=MODEL)
    return {
        name: replay_session(script, policy)
        for name, policy in (
            ("none", None),
            ("buffered", Policy.buffered()),
            ("ladder", Policy.ladder()),
        )
    }


def test_an_unmanaged_session_overflows_and_a_managed_one_does_not(runs):
    none, buffered, ladder = runs["none"], runs["buffered"], runs["ladder"]
    assert none.refused > 0
    assert buffered.refused == ladder.refused == 0
    assert not none.error + buffered.error + ladder.error
    assert len(none.turns) == len(buffered.turns) == len(ladder.turns)
    assert none.rewrites == 0
    assert buffered.rewrites > 0


def test_each_token_is_read_or_written_and_an_unmanaged_one_written_once(runs):
    none = runs["none"]
    assert none.total("written_tokens") == none.turns[-1].tokens
    for run in runs.values():
        for turn in run.turns:
            assert turn.read_tokens + turn.written_tokens == turn.tokens
            assert 0 <= turn.rewritten_tokens <= turn.written_tokens
            assert (turn.rewritten_from is None) <= (turn.rewritten_tokens == 0)
    assert runs["ladder"].nanousd != none.nanousd > 0


def test_what_acted_stands_at_its_turn(runs):
    acted = [turn for turn in runs["ladder"].turns if turn.acted]
    assert {"snip", "microcompact"} <= {stage for turn in acted for stage, _, _ in turn.acted}
    for turn in runs["ladder"].turns:
        assert sum(turn.by_category.values()) == turn.tokens
    first = runs["ladder"].turns[0]
    assert first.tokens == first.unmanaged_tokens


def test_a_file_is_read_from_its_first_message_and_names_its_own_compactions(tmp_path: Path):
    made = scenario(3, turns=8)
    path = session_file(made, layout=Layout(compactions=2)).write(tmp_path)
    script = script_of(open_session(path))
    assert [message["role"] for message in script.messages] == [m["role"] for m in made.messages]
    assert script.messages[0]["content"] == made.messages[0]["content"]
    assert len(script.compactions) == 2
    assert all(made.messages[at]["role"] == "user" for at in script.compactions)
    assert len(script.times) == len(script.own_tokens) == len(script.messages)
    assert script.times == sorted(script.times)
    assert any(script.own_tokens)


# ---- several working sizes ---------------------------------------------------------------------


def test_a_smaller_size_costs_less_and_holds_fewer_names():
    messages = [{"role": "user", "content": "Rename the parts."}]
    for at in range(120):
        given = {"path": f"src/part_{at - 40}_7.py"}
        answer = " ".join(f"src/part_{at}_{number}.py" for number in range(200))
        call = {"type": "tool_use", "id": f"t{at}", "name": "Read", "input": given}
        outcome = {"type": "tool_result", "tool_use_id": f"t{at}", "content": answer}
        messages += [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [outcome]},
        ]
    script = SessionScript(messages=messages, times=[0] * len(messages), model=MODEL)
    small, large = costs_by_size(script, Policy.buffered(), sizes=(60_000,))
    assert (small.tokens, large.tokens) == (60_000, 200_000)
    assert small.nanousd < large.nanousd
    assert small.largest <= 60_000 < large.largest
    assert 0 < small.names == large.names
    assert small.share < large.share


def test_a_size_that_cannot_hold_what_must_stay_is_left_out():
    script = SessionScript(
        messages=session_287k(5).messages[:40], times=[0] * 40, model=MODEL, overhead_tokens=50_000
    )
    assert costs_by_size(script, Policy.buffered())[0].tokens == 80_000


def test_a_session_counts_with_its_nearest_size_in_a_sum():
    assert sum_of_costs([()]) == ()
    low, high = SizeCost(40_000, 3, 30_000, 10, 5), SizeCost(80_000, 7, 70_000, 10, 9)
    assert sum_of_costs([(low, high), (SizeCost(60_000, 2, 50_000),), ()]) == (
        SizeCost(40_000, 5, 50_000, 10, 5),
        SizeCost(80_000, 9, 70_000, 10, 9),
    )


def test_the_drawing_has_a_dot_for_each_size():
    costs = [SizeCost(40_000, 3 * 10**9, 30_000, 10, 5), SizeCost(80_000, 7 * 10**9, 70_000, 10, 9)]
    drawn = ElementTree.fromstring(frontier_plot(costs, 9 * 10**9))
    assert sum(part.tag.endswith("circle") for part in drawn) == 2
    assert {"40 K", "80 K", "$9.00"} <= {part.text for part in drawn}


def test_only_what_the_request_before_held_as_it_is_counts_as_written_again():
    script = SessionScript(messages=session_287k(5).messages, times=[0] * 10_000, model=MODEL)
    sent, again = set[str](), list[int]()

    def look(manager, request):
        ledger = manager.machine.view.ledger
        texts = [json.dumps(message, sort_keys=True) for message in request.messages]
        first = request.rewritten_from
        places = () if first is None else range(first, len(texts))
        again.append(sum(int(ledger.tokens(at, at + 1)) for at in places if texts[at] in sent))
        sent.clear()
        sent.update(texts)

    run = replay_session(script, Policy.ladder(), seen=look)
    assert [turn.rewritten_tokens for turn in run.turns] == again
    assert 0 < sum(again) < sum(t.written_tokens for t in run.turns if t.rewritten_from is not None)


def test_what_an_undo_writes_again_is_not_played_again(tmp_path: Path):
    path = tmp_path / "session.jsonl"
    path.write_bytes(session_file(scenario(7, tokens=30_000), layout=Layout()).to_bytes())
    before = script_of(open_session(path))
    compact_session(open_session(path), output=path, overwrite=True, keep=0)
    compacted = script_of(open_session(path))
    undo_compaction(open_session(path))
    undone = script_of(open_session(path))
    assert open_session(path).messages[0] == before.messages[0]
    assert before.messages == compacted.messages == undone.messages
    assert replay_session(undone, None).nanousd == replay_session(before, None).nanousd

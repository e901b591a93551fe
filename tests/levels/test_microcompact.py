"""Microcompact: lines by a model, what goes first, one pass per epoch, and backing off where things are fetched again (MIC-5)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.level_kit import act, context_of
from tests.oracle.legality import assert_legal
from ullage.effects import LetOthersRun, Summarize, Together
from ullage.levels import View, microcompact
from ullage.levels.microcompact import MOST_CAUTION, Micro, fingerprint, outcome
from ullage.manager import ContextManager
from ullage.messages import CLEARED
from ullage.policy import Policy
from ullage.summarizers import SummaryReply

MODEL = "claude-opus-4-5"
LADDER = Policy.ladder().change(
    {
        "micro.min_freed_tokens": 0,
        "micro.by_supersession": False,
        "micro.keep_recent": 2,
        "protect.tool_results": 2,
    }
)


def step(number: int, tool: str = "Read", size: int = 4_000, **more: Any) -> list[dict]:
    given = more.pop("given", {"file_path": f"/f{number}"})
    call = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": given}
    text = f"{number}\n" + "word " * (size // 5)
    block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text, **more}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [block]}]


def view_of(*steps: list[dict]) -> View:
    view = View()
    view.add({"role": "user", "content": "please"})
    for each in steps:
        for message in each:
            view.add(message)
    return view


def run(
    view: View, policy: Policy, where: dict[str, Any], state: Micro, perform: Any = None
) -> Any:
    return act(microcompact.LEVEL, context_of(view, policy, state, **where), perform)


def at(view: View, percent: int, **more: Any) -> dict[str, Any]:
    return {"window_tokens": view.tokens() * 100 // percent, **more}


def shown(view: View) -> dict[str, str]:
    return {
        block["tool_use_id"]: block["content"]
        for message in view.messages
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    }


# ---- lines


class Writer:
    name = "small"


def test_a_small_model_writes_the_lines_a_few_at_once():
    view = view_of(*[step(n, size=9_000) for n in range(1, 41)])
    flow = microcompact.LEVEL.run(
        context_of(view, LADDER, **at(view, 70, line_summarizer=Writer()))
    )
    effect, asked = next(flow), []
    while True:
        assert isinstance(effect, Together | LetOthersRun)
        given = effect.effects if isinstance(effect, Together) else ()
        assert len(given) <= 8
        asked += given
        try:
            effect = flow.send([SummaryReply(text="  Port is\n 8123 ") for _ in given])
        except StopIteration as end:
            report = end.value
            break
    assert len(asked) == len(report.tool_use_ids) > 8
    request = asked[0].request
    assert (request.max_output_tokens, request.source) == (100, "compact")
    assert "Read /f1" in request.messages[0]["content"]
    assert shown(view)["t1"] == "[Compacted: Read /f1: Port is 8123]"
    assert_legal("anthropic", view.messages, model=MODEL)


@pytest.mark.parametrize(
    "reply",
    [
        RuntimeError("down"),
        SummaryReply(text="x", refused=True),
        SummaryReply(text="x", finish_reason="content_filter"),
        SummaryReply(text=" \n"),
        5,
    ],
)
def test_without_an_answer_the_line_is_put_together(reply):
    def perform(effect: Summarize) -> Any:
        if isinstance(reply, Exception):
            raise reply
        return reply

    view = view_of(*[step(n) for n in range(1, 21)])
    run(view, LADDER, at(view, 70, line_summarizer=Writer()), Micro(), perform)
    assert shown(view)["t1"].startswith("[Compacted: Read /f1; 2 lines, 4,0")


def test_the_model_is_shown_the_two_ends_of_a_long_result():
    view = view_of(*[step(n, size=60_000) for n in range(1, 21)])
    effect = next(
        microcompact.LEVEL.run(context_of(view, LADDER, **at(view, 70, line_summarizer=Writer())))
    )
    text = effect.effects[0].request.messages[0]["content"]
    assert 14_000 < len(text) < 18_000
    assert "characters taken out here" in text


@pytest.mark.parametrize(
    ("text", "is_error", "said"),
    [
        ("--\n\nBuilt.\nall fine", False, ["4 lines, 19 characters", "begins: Built."]),
        ("start\nok\nError: no file\nmore", True, ["4 lines, 28 characters", "failed: Error: no file"]),
        ("start\nok", True, ["2 lines, 8 characters", "failed: start"]),
        ("exit code: 3\n" + "x\n" * 900, False, ["902 lines, 1,813 characters", "begins: exit code: 3", "exit 3"]),
        ("ok\n" + "x\n" * 900 + "exited with code 4", False, ["902 lines, 1,821 characters", "begins: ok", "exit 4"]),
        ("", False, ["1 lines, 0 characters"]),
    ],
)  # fmt: skip
def test_what_a_result_comes_to(text, is_error, said):
    assert outcome(text, is_error=is_error) == said


def test_a_line_is_never_longer_than_it_may_be():
    view = view_of(*[step(n) for n in range(1, 21)])
    long = SummaryReply(text="word " * 5_000)
    run(view, LADDER, at(view, 70, line_summarizer=Writer()), Micro(), lambda effect: long)
    assert len(shown(view)["t1"]) < 100 * 4 + 60


class Small:
    name = "small"

    def summarize(self, request: Any) -> str:
        return "a line"


@pytest.mark.parametrize("small", [Small(), lambda request: "a line"], ids=["object", "function"])
def test_through_the_manager(small):
    policy = LADDER.change({"micro.line_start_percent": 1, "snip.enabled": False})
    manager = ContextManager(model=MODEL, policy=policy, line_summarizer=small)
    for message in view_of(*[step(n) for n in range(1, 21)]).messages:
        manager.add(message)
    request = manager.prepare()
    assert request.reports[0].stage == "microcompact"
    assert "[Compacted: Read /f1: a line]" in str(request.messages)


# ---- what goes first


def test_large_file_reads_go_first_and_no_more_than_to_the_low_watermark():
    steps = [step(n, size=6_000) for n in range(1, 31)]
    steps[8] = step(9, size=60_000)
    view = view_of(*steps)
    pressure = at(view, 62)
    report = run(view, LADDER, pressure, Micro())
    others = set(report.tool_use_ids) - {"t9"}
    assert "t9" in report.tool_use_ids
    assert others - {"t9"} == {f"t{n}" for n in range(1, len(others) + 2)} - {"t9"}
    goal = pressure["window_tokens"] * 60 * 50 // 10_000
    assert view.tokens() < goal + 500
    assert len(report.tool_use_ids) < 14
    # One less, and it would not have been low enough.
    last = sorted(set(report.tool_use_ids) - {"t9"}, key=lambda name: int(name[1:]))[-1]
    whole = next(r for r in view.results() if r.id == last)
    fewer = view_of(*steps)
    fewer.decide(each for name, each in view.decisions.items() if name != last)
    assert fewer.tokens() > goal - whole.tokens


def test_failures_stay_longer_than_other_results_of_their_age():
    steps = [step(n) for n in range(1, 31)]
    steps[1] = step(2, is_error=True)
    steps[11] = step(12, is_error=True)
    view = view_of(*steps)
    low = LADDER.change({"micro.low_watermark_percent": 1})
    report = run(view, low, at(view, 90), Micro())
    assert "t11" in report.tool_use_ids
    assert "t12" in report.tool_use_ids
    patient = low.change({"micro.keep_recent": 5})
    other = view_of(*steps)
    report = run(other, patient, at(other, 90), Micro())
    assert "t11" in report.tool_use_ids
    assert "t12" not in report.tool_use_ids
    assert "t2" in report.tool_use_ids
    assert "failed: " in shown(other)["t2"] or "begins: " in shown(other)["t2"]


def test_a_failure_that_a_later_call_put_right_is_superseded():
    given = {"command": "make"}
    steps = [step(n) for n in range(1, 13)]
    steps[0] = step(1, "Bash", given=given, is_error=True)
    steps[5] = step(6, "Bash", given=given)
    steps[7] = step(8, "Bash", given={"command": "other"}, is_error=True)
    view = view_of(*steps)
    policy = Policy.buffered().change({"micro.min_freed_tokens": 0, "micro.keep_recent": 2})
    report = run(view, policy, at(view, 50), Micro())
    assert report.tool_use_ids == ("t1",)
    assert shown(view)["t1"] == CLEARED


def test_the_report_says_what_left_and_what_can_still_be_seen():
    view = view_of(*[step(n) for n in range(1, 11)])
    report = run(view, LADDER, at(view, 70), Micro())
    left = set(report.paths)
    assert left
    assert set(report.visible_paths) == {f"/f{n}" for n in range(1, 11)} - left


# ---- once per epoch


def test_the_next_pass_waits_until_the_context_has_grown():
    state, grown = Micro(), []
    low = LADDER.change({"micro.low_watermark_percent": 100})
    view = view_of(*[step(n, size=2_000) for n in range(1, 60)])
    window = view.tokens() * 100 // 60
    for number in range(60, 160):
        for message in step(number, size=2_000):
            view.add(message)
        before, floor = view.tokens(), state.floor_tokens
        if run(view, low, {"window_tokens": window}, state) is not None:
            grown.append(before - floor)
        view.mark_sent()
    assert len(grown) >= 3
    assert all(growth >= window * 5 // 100 for growth in grown[1:])


def test_a_pass_is_free_where_the_prefix_is_broken_before_it_anyway():
    view = view_of(*[step(n) for n in range(1, 31)])
    state = Micro(floor_tokens=view.tokens())
    view.mark_sent()
    assert run(view, LADDER, at(view, 70), state) is None
    view.rearranged("test", "", [at_ for at_ in range(len(view)) if at_ != 0])
    assert view.changed_from == 0
    assert run(view, LADDER, at(view, 70), state) is not None


def test_a_pass_that_freed_too_little_is_not_done_and_not_remembered():
    view = view_of(*[step(n, size=60) for n in range(1, 31)])
    state = Micro()
    strict = LADDER.change({"micro.min_freed_tokens": 2_000})
    assert run(view, strict, at(view, 80), state) is None
    # Only that it looked: the next look waits until enough has come.
    assert state == Micro(looked_tokens=view.tokens())
    assert run(view, LADDER.change({"micro.min_freed_tokens": 0}), at(view, 80), state) is None
    for message in step(31, size=4_000):
        view.add(message)
    assert run(view, LADDER.change({"micro.min_freed_tokens": 0}), at(view, 80), state) is not None


# ---- backing off


def test_it_backs_off_where_cleared_results_are_fetched_again_and_comes_back():
    policy = LADDER.change({"micro.low_watermark_percent": 1})
    view, state = view_of(*[step(n) for n in range(1, 21)]), Micro()
    first = run(view, policy, at(view, 70), state)
    view.mark_sent()
    assert state.count == len(first.tool_use_ids) >= ENOUGH
    for number, name in enumerate(first.tool_use_ids):
        for message in step(100 + number, given={"file_path": f"/f{name[1:]}"}):
            view.add(message)
    state.floor_tokens = state.looked_tokens = 0
    run(view, policy, at(view, 90), state)
    assert state.caution == 2
    for _ in range(5):
        state.count, state.refetched = 10, 10
        state.weigh(25)
    assert state.caution == MOST_CAUTION
    for _ in range(5):
        state.count, state.refetched = 10, 0
        state.weigh(25)
    assert state.caution == 1


ENOUGH = 4


def test_a_cautious_pass_protects_more():
    counts = []
    for caution in (1, 2, 4):
        view = view_of(*[step(n) for n in range(1, 13)])
        policy = LADDER.change({"micro.by_time": True, "micro.keep_recent": 2})
        for message in view.originals:
            message["timestamp"] = "2026-01-01T00:00:00Z"
        view = view_of(*[[m] for m in view.originals[1:]])
        now = 1_767_225_600_000 + 3_600_000
        report = run(view, policy, {"window_tokens": 10**6, "now_ms": now}, Micro(caution=caution))
        counts.append(len(report.tool_use_ids))
    assert counts == [10, 8, 4]


def test_a_share_below_the_limit_changes_nothing():
    state = Micro(count=100, refetched=24)
    assert state.weigh(25) == 1
    assert (state.count, state.refetched) == (100, 24)
    assert Micro(count=3, refetched=3).weigh(25) == 1


@pytest.mark.parametrize(
    ("state", "caution"),
    [
        (Micro(count=4, refetched=1), 2),
        (Micro(count=100, refetched=25), 2),
        (Micro(count=100, refetched=24, caution=4), 4),
        (Micro(count=100, refetched=13, caution=4), 4),
        (Micro(count=100, refetched=12, caution=4), 2),
        (Micro(count=3, refetched=0, caution=4), 4),
    ],
)
def test_when_caution_changes(state, caution):
    assert state.weigh(25) == caution


def test_without_lines_nothing_becomes_a_line():
    view = view_of(*[step(n) for n in range(1, 31)])
    policy = Policy.buffered().change({"micro.min_freed_tokens": 0})
    assert run(view, policy, at(view, 95), Micro()) is None


def both(percent: int, size: int) -> tuple[View, Any]:
    """Two reads of one file among reads of others, the first of no more use; with both ways on."""
    steps = [step(n, given={"file_path": "/f1"} if n == 20 else {"file_path": f"/f{n}"}, size=size if n == 1 else 4_000)
             for n in range(1, 31)]  # fmt: skip
    view = view_of(*steps)
    policy = LADDER.change({"micro.by_supersession": True})
    return view, run(view, policy, at(view, percent), Micro())


def test_what_was_replaced_and_the_lines_for_others_are_one_pass():
    view, report = both(70, size=4_000)
    found = shown(view)
    assert found["t1"] == CLEARED
    assert found["t2"].startswith("[Compacted: Read")
    assert found["t20"] == f"20\n{'word ' * 800}"
    assert report.why == "replaced by a later result; 70 % of the window"
    assert report.tool_use_ids == tuple(f"t{n}" for n in range(1, len(report.tool_use_ids) + 1))


def test_where_what_was_replaced_is_enough_nothing_becomes_a_line():
    view, report = both(70, size=40_000)  # a quarter of all is superseded: 70 % become 53
    assert report.tool_use_ids == ("t1",)
    assert report.why == "replaced by a later result"
    assert CLEARED in shown(view)["t1"]


def test_a_pass_that_just_frees_the_least_is_done():
    view = view_of(*[step(n) for n in range(1, 31)])
    gain = run(view, LADDER, at(view, 70), Micro())
    assert gain is not None
    for least, done in ((10**6, False), (1, True)):
        view = view_of(*[step(n) for n in range(1, 31)])
        policy = LADDER.change({"micro.min_freed_tokens": least})
        assert (run(view, policy, at(view, 70), Micro()) is not None) == done


def test_the_same_call_has_the_same_fingerprint_whatever_the_order_of_its_input():
    view = view_of(
        step(1, given={"a": 1, "b": [2]}), step(2, given={"b": [2], "a": 1}), step(3, "Bash")
    )
    one, two, three = (fingerprint(result) for result in view.results())
    assert one == two != three


def test_the_state_survives():
    view, state = view_of(*[step(n) for n in range(1, 21)]), Micro()
    run(view, LADDER, at(view, 70), state)
    assert Micro.load(json.loads(json.dumps(state.dump()))) == state


# ---- cache edits


def test_cache_edits_are_named_as_data_and_the_messages_stay():
    policy = LADDER.change({"micro.by_cache_edit": True, "micro.edit_start_percent": 1})
    manager = ContextManager(model=MODEL, policy=policy.change({"snip.enabled": False}))
    messages = view_of(*[step(n) for n in range(1, 11)]).originals
    for message in messages:
        manager.add(message)
    request = manager.prepare()
    assert request.cache_edits == tuple(f"t{n}" for n in range(1, 9))
    assert all(a is b for a, b in zip(request.messages, messages, strict=True))
    assert "cache_edits" not in request.params
    assert request.reports[0].freed == 0
    again = manager.prepare()
    assert again.cache_edits == request.cache_edits
    assert not again.reports


def test_a_pass_by_time_forgets_the_cache_edits():
    policy = LADDER.change({"micro.by_cache_edit": True, "micro.by_time": True})
    state = Micro(edits=["t9"])
    steps = [step(n) for n in range(1, 11)]
    for each in steps:
        each[0]["timestamp"] = "2026-01-01T00:00:00Z"
    view = view_of(*steps)
    now = 1_767_225_600_000 + 3_600_000
    assert run(view, policy, {"window_tokens": 10**6, "now_ms": now}, state) is not None
    assert state.edits == []


# ---- by time, and by cache edit


def paused(policy: Policy, count: int = 12, **more: Any) -> ContextManager:
    """A conversation whose newest answer is of the start of 2026."""
    stamp = {"timestamp": "2026-01-01T00:00:00Z"}
    manager = ContextManager(model=MODEL, policy=policy, **more)
    manager.add({"role": "user", "content": "go"})
    for n in range(count):
        use = {"type": "tool_use", "id": f"t{n}", "name": "any_tool", "input": {"n": n}}
        manager.add({**stamp, "role": "assistant", "content": [use]})
        block = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "ab cd " * 1_000}
        manager.add({"role": "user", "content": [{**block, "is_error": n % 2 == 0}]})
    manager.add({**stamp, "role": "assistant", "content": "done"})
    manager.add({"role": "user", "content": "next"})
    return manager


LATER = 1_767_225_600_000 + 7_200_000


@pytest.mark.parametrize("keep", [1, 2, 5, 8, 12])
def test_by_time_as_many_stay_as_the_setting_says(keep: int) -> None:
    policy = Policy.buffered().change({"micro.by_time": True, "micro.keep_recent": keep})
    request = paused(policy).prepare(now_ms=LATER)
    assert 12 - str(request.messages).count("content cleared]") == keep


@pytest.mark.parametrize("source", ["subagent", "compact", "session_memory"])
def test_by_time_and_by_cache_edit_only_the_main_conversation_is_cleared(source: str) -> None:
    by_edit = {"micro.by_cache_edit": True, "micro.edit_start_percent": 0}
    policy = Policy.buffered().change({"micro.by_time": True, **by_edit})
    request = paused(policy, source=source).prepare(now_ms=LATER)
    assert (request.reports, request.cache_edits) == ((), ())
    assert paused(policy).prepare(now_ms=LATER).reports
    assert paused(policy).prepare(now_ms=LATER - 7_000_000).cache_edits


def test_time_comes_first_and_clears_what_was_named_for_the_cache() -> None:
    by_edit = {"micro.by_cache_edit": True, "micro.edit_start_percent": 0}
    policy = Policy.buffered().change({"micro.by_time": True, **by_edit})
    manager = paused(policy)
    named = manager.prepare(now_ms=LATER - 7_000_000)
    assert len(named.cache_edits) > 0
    assert "cleared]" not in str(named.messages)
    manager.add({"timestamp": "2026-01-01T00:00:00Z", "role": "assistant", "content": "x"})
    manager.add({"role": "user", "content": "y"})
    cold = manager.prepare(now_ms=LATER)
    assert cold.cache_edits == ()
    assert str(cold.messages).count("content cleared]") == 7
    # And what comes after is named again.
    assert manager.prepare(now_ms=LATER + 1).cache_edits == ()


def test_no_level_clears_results_that_no_answer_has_followed() -> None:
    manager = paused(Policy.buffered().change({"micro.by_time": True, "micro.keep_recent": 1}))
    stamp = {"timestamp": "2026-01-01T00:00:00Z"}
    uses = [{"type": "tool_use", "id": f"p{n}", "name": "any_tool", "input": {}} for n in range(6)]
    results = [
        {"type": "tool_result", "tool_use_id": f"p{n}", "content": "new " * 900} for n in range(6)
    ]
    manager.add({**stamp, "role": "assistant", "content": uses})
    manager.add({"role": "user", "content": results})
    request = manager.prepare(now_ms=LATER)
    assert request.messages[-1]["content"] == results
    assert str(request.messages).count("content cleared]") == 12


def test_many_calls_of_one_message_are_read_in_linear_time() -> None:
    def seconds(count: int) -> float:
        uses = [{"type": "tool_use", "id": f"t{n}", "name": "b", "input": {}} for n in range(count)]
        results = [
            {"type": "tool_result", "tool_use_id": f"t{n}", "content": "x"} for n in range(count)
        ]
        view = View()
        view.add({"role": "assistant", "content": uses})
        view.add({"role": "user", "content": results})
        start = time.process_time()
        assert len(list(view.results())) == count
        return time.process_time() - start

    few, many = (min(seconds(count) for _ in range(3)) for count in (1_000, 8_000))
    assert many < 24 * few + 0.05

"""The deterministic fold: words of the user whole, one line per call, the newest part as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.kit import result, said, text, use, user, view_of
from tests.level_kit import PLANTED, context_of, planted
from tests.oracle.legality import assert_legal
from ullage.counting.window import WindowSettings
from ullage.facts.model import Facts
from ullage.levels import View, fold
from ullage.levels.fold import RECORD_HEAD, RECORD_TAIL, WORDS, SpanRecord, fitted, record_of
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.recall import Archive, left
from ullage.summarizers.budgeted_text import Unit
from ullage.testing import conversation

POLICY = Policy.buffered()
MODEL = "claude-opus-4-5"


def session(turns: int, *, loop: int = 1, size: int = 300) -> list[dict]:
    said: list[dict] = []
    for turn in range(turns):
        said.append({"role": "user", "content": f"Task {turn}: keep the\n  blanks of it"})
        for step in range(loop):
            name = f"t{turn}-{step}"
            given_ = {"command": f"make {turn}.{step}"}
            said.append(
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": f"Step {step} of {turn}."},
                        {"type": "tool_use", "id": name, "name": "Bash", "input": given_},
                    ],
                }
            )
            text = "\nstarting\n" + "word " * size + "\nError: no rule to make it\nexit code 2"
            block = {"type": "tool_result", "tool_use_id": name, "content": text}
            if step % 2:
                block["is_error"] = True
            said.append({"role": "user", "content": [block]})
        said.append({"role": "assistant", "content": f"Finished {turn}."})
    return said[:-1]


def test_the_record_holds_words_whole_and_a_line_for_each_call():
    messages = session(6)
    view = view_of(messages)
    report = fold.folded(context_of(view, POLICY), 2_200)
    record = view.messages[0]["content"]
    cut = report.removed[0].stop
    for at in range(0, cut, 4):
        assert messages[at]["content"] in record or messages[at] is view.originals[1]
    assert "- `Bash make 3.0` failed: `Error: no rule to make it`; " in record
    assert "The user wrote:\nTask 0" in record
    assert record.count("The user wrote:") == len(range(0, cut, 4))
    assert record.count("- `Bash ") + ("(1 line left out)" in record) == len(range(1, cut, 4))
    assert all(a is b for a, b in zip(view.messages[-4:], messages[-4:], strict=True))
    assert view.ledger.tokens() <= 2_200 - POLICY.truncate.margin_tokens
    assert_legal("anthropic", view.messages, model=MODEL)


def test_what_fits_is_not_folded():
    view = view_of(session(3))
    assert fold.folded(context_of(view, POLICY), 100_000) is None
    assert fold.folded(context_of(view, POLICY), view.ledger.tokens() + 1_000) is None
    assert fold.folded(context_of(view, POLICY), view.ledger.tokens() + 999) is not None


def test_in_one_long_turn_the_request_stands_after_the_record():
    messages = session(1, loop=30)
    view = view_of(messages)
    fold.folded(context_of(view, POLICY), 7_000)
    assert view.originals[1] is messages[0]
    assert messages[0]["content"] not in view.messages[0]["content"]
    assert "- `Bash make 0.0` failed: `Error: no rule to make it`; " in view.messages[0]["content"]
    assert view.messages[2]["role"] == "assistant"
    assert_legal("anthropic", view.messages, model=MODEL)


def test_lines_that_do_not_fit_are_counted_the_oldest_go():
    calls = [(at, Unit(f"- call {at} " + "word " * 20, 50 - at)) for at in range(50)]
    text = fitted(SpanRecord([(0, Unit("do it", WORDS))], calls, Facts()), 300, None)
    assert text.startswith("(")
    assert "do it" in text
    assert "- call 49" in text
    assert "- call 0 " not in text
    kept = text.count("- call")
    assert f"({50 - kept} lines left out)" in text
    assert fitted(SpanRecord([(0, Unit("word " * 900, WORDS))], [], Facts()), 300, None) is None


def test_words_that_do_not_fit_are_left_to_truncation():
    messages = session(4)
    messages[0]["content"] = "word " * 20_000
    view = view_of(messages)
    before = list(view.messages)
    assert fold.folded(context_of(view, POLICY), 6_000) is None
    assert view.messages == before


def test_a_fold_of_a_fold_ends():
    view = view_of(session(12))
    sizes = []
    for turn in range(12, 40):
        for message in session(turn + 1)[4 * turn - 1 :]:
            view.add(message)
        if fold.folded(context_of(view, POLICY), 4_000) is not None:
            sizes.append(view.ledger.tokens())
            assert_legal("anthropic", view.messages, model=MODEL)
    assert len(sizes) >= 3
    assert max(sizes) <= 3_000


def test_a_system_message_in_front_stays():
    messages = [{"role": "system", "content": "rules"}, *session(6)]
    view = view_of(messages)
    fold.folded(context_of(view, POLICY), 2_200)
    assert view.messages[0] is messages[0]
    assert view.sources[1].startswith("fold:")


def test_a_long_loop_ends_in_a_fold_not_in_an_error():
    policy = POLICY.change({"auto.enabled": False, "snip.enabled": False, "micro.tools": ["None"]})
    manager = ContextManager(model=MODEL, policy=policy)
    for message in session(1, loop=60, size=4_000):
        manager.add(message)
    request = manager.prepare()
    assert [report.stage for report in request.reports] == ["fold"]
    assert request.tokens < 190_000 * fold.AIM_PERCENT // 100 + 5_000
    assert_legal("anthropic", request.messages, model=MODEL)


def test_a_refusal_is_answered_by_a_fold_before_anything_is_dropped():
    policy = POLICY.change({"auto.enabled": False})
    manager = ContextManager(model=MODEL, policy=policy)
    for message in session(8, size=900):
        manager.add(message)
    manager.prepare()
    stages = []
    for _ in range(2):
        found = manager.on_overflow("prompt is too long: 213462 tokens > 200000 maximum")
        stages.append(found.step)
        if found.step == "fold":
            break
    assert stages[-1] == "fold"
    assert "truncate" not in stages


def test_a_fold_says_what_was_found_decided_changed_and_is_open():
    view = view_of([*planted(), user("And now?"), said("I look."), *session(12)])
    assert fold.folded(context_of(view, POLICY), 7_000) is not None
    record = view.messages[0]["content"]
    assert [line for line in PLANTED if line not in record] == []
    assert "Why do German users see English pages?" in record
    # It stands below the message that it answers; a number would count the messages of this part only.
    assert "- Reported: Module a only reads settings." in record


def test_what_the_user_said_when_refusing_a_call_is_theirs_and_whole():
    refusal = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\n"
    words = "Never deploy from this machine. " + "Ask the release team first. " * 30
    call = said([use("t", "Bash", command="make deploy")])
    answer = user([{**result("t", refusal + words), "is_error": True}])
    view = view_of([user("Ship it."), call, answer, said("I ask them."), *session(6)])
    assert fold.folded(context_of(view, POLICY), 2_900) is not None
    assert words.strip() in view.messages[0]["content"]


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 5_000), st.sampled_from(["coding", "operations", "media"]), st.integers(20, 70)
)
def test_any_conversation(seed, style, percent):
    messages = conversation(seed, tokens=15_000, style=style)
    view = view_of(messages)
    own = record_of(view, range(len(view))).own
    inputs = [unit.text.strip() for _, unit in own if unit.rank == WORDS]
    limit = view.ledger.tokens() * percent // 100 + POLICY.truncate.margin_tokens
    report = fold.folded(context_of(view, POLICY), limit)
    if report is None:
        assert all(shown is item for shown, item in zip(view.messages, messages, strict=True))
        return
    assert view.ledger.tokens() <= limit - POLICY.truncate.margin_tokens
    everything = "\n".join(unit.text for _, unit in record_of(view, range(len(view))).own)
    assert all(text in everything for text in inputs)
    archive = Archive(messages)
    gone = {at for span in report.removed for at in range(*span)}
    found = left(archive, view.sources, view.messages)
    assert gone == {at for each in found for at in range(each.first, each.last + 1)}
    assert_legal("anthropic", view.messages, model=MODEL)


def test_words_that_came_with_a_result_keep_its_call():
    """A user may type while a tool runs: their words stand in the message that answers it."""
    said = session(1, loop=12)
    at = next(i for i, m in enumerate(said) if i > 6 and m["role"] == "user")
    words = {"type": "text", "text": "Also mind the blanks."}
    said[at] = {"role": "user", "content": [*said[at]["content"], words]}
    view = View()
    for message in said:
        view.add(message)
    report = fold.folded(
        context_of(view, POLICY.change({"truncate.margin_tokens": 0})), view.tokens() // 3
    )
    assert report is not None
    assert said[at] in view.messages
    assert_legal("anthropic", view.messages)


@pytest.mark.parametrize("engine_policy", [Policy.buffered(), Policy.ladder()])
def test_the_same_in_every_run(engine_policy):
    a, b = view_of(session(6)), view_of(session(6))
    fold.folded(context_of(a, engine_policy), 2_200)
    fold.folded(context_of(b, engine_policy), 2_200)
    assert a.messages == b.messages


# ---- the user's words, fold after fold


RULES = [
    f"Never touch migrations/{i:04d}_lock.sql, because team {i} owns that file." for i in range(12)
]


def long_loop(manager: ContextManager, begin: int = 0) -> set[str]:
    """Tool results that fill the window again and again; a rule of the user with each of the first turns."""
    said, acted = list(RULES[:begin]), set[str]()
    for number in range(begin, 45):
        use = {
            "type": "tool_use",
            "id": f"t{number}",
            "name": "run_shell",
            "input": {"command": f"cat {number}"},
        }
        manager.add({"role": "assistant", "content": [use]})
        rows = "\n".join(f"row {number}-{at}: {at * 7919 % 1000}" for at in range(420))
        block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": rows}
        manager.add({"role": "user", "content": [block]})
        request = manager.prepare()
        acted |= {report.stage for report in request.reports}
        assert [rule for rule in said if rule not in str(request.messages)] == []
        said += RULES[number : number + 1]
        manager.add(
            {"role": "assistant", "content": f"Part {number} read: " + "rows of the table. " * 14}
        )
        manager.add({"role": "user", "content": " ".join(["Go on.", *RULES[number : number + 1]])})
    return acted


def small(**changes: Any) -> ContextManager:
    return ContextManager(model=MODEL, policy=POLICY.change(changes), context_window=16_000)


def test_folds_of_folds_keep_the_users_words_whole():
    manager = small(**{"auto.enabled": False})
    manager.add({"role": "user", "content": "Look at part 0."})
    assert "fold" in long_loop(manager)


def test_a_fold_of_a_fold_cuts_no_line_and_counts_all_that_went():
    manager, seen = small(**{"auto.enabled": False}), 0
    manager.add(user("Look at part 0."))
    for number in range(90):
        words = f"Part {number} " + f"is read and is {number}. " * 12
        rows = "\n".join(f"row {number}-{at}: {at * 7919 % 1000}" for at in range(200))
        manager.add(said([text(words), use(f"t{number}", "Bash", command=f"cat {number}")]))
        manager.add(user([result(f"t{number}", rows)]))
        request = manager.prepare()
        if all(report.stage != "fold" for report in request.reports):
            continue
        seen += 1
        record = next(
            str(m["content"]) for m in request.messages if RECORD_HEAD in str(m["content"])
        )
        lines = record.split(RECORD_HEAD)[1].split(RECORD_TAIL)[0].strip().splitlines()
        calls = [line for line in lines if line.startswith("- `Bash cat ")]
        told = [line for line in lines if line.startswith("- Said: Part ")]
        numbers = [int(line.split()[3].rstrip("`")) for line in calls]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))  # the oldest went, in order
        left = [line for line in lines if line.endswith(" left out)")]
        kept = 2 * (numbers[-1] + 1) - len(calls) - len(told)
        assert left == ([f"({kept} lines left out)"] if kept else [])
        assert {*lines} == {*calls, *told, *left}
    assert seen > 2


@pytest.mark.parametrize("resumed", [False, True], ids=["live", "resumed"])
def test_folds_of_a_summary_keep_the_words_that_it_holds(resumed):
    manager = small(**{"auto.enabled": False})
    manager.add({"role": "user", "content": "Look at part 0."})
    for rule in RULES[:6]:
        manager.add({"role": "assistant", "content": "I see. " * 500})
        manager.add({"role": "user", "content": rule})
    manager.add({"role": "assistant", "content": "Yes. " * 500})
    assert manager.compact().compacted
    if resumed:
        before, manager = manager.messages, small(**{"auto.enabled": False})
        for message in before:
            manager.add(message)
    manager.add({"role": "user", "content": "Go on."})
    assert "fold" in long_loop(manager, begin=6)


def test_a_fold_after_a_squeeze_reports_the_places_of_each_as_it_left_the_view():
    """Squeezing and folding for one refusal: what the first changed stands elsewhere once the second has acted."""
    marks = WindowSettings(auto_compact_window=60_000, disable_auto_compact=True)
    made = ContextManager(model="claude-opus-4-5", settings=marks)
    for number in range(12):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "run", "input": {}}
        rows = "row alpha beta\n" * (4_000 if number == 11 else 200)
        answer = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": rows[:9_000]}
        made.add({"role": "user", "content": f"Question {number}"})
        made.add({"role": "assistant", "content": [call]})
        made.add({"role": "user", "content": [answer]})
    made.prepare()
    made.machine.recovered = made.machine.requests
    made.machine.steps_tried = ["collapse", "compact"]
    done = made.on_overflow(ValueError("prompt is too long: 60000 tokens > 8000 maximum"))
    assert [report.stage for report in done.reports] == ["squeeze", "fold"]
    request = made.prepare()
    assert "Question 11" in str(request.messages)
    assert done.reports[0].first_changed > len(request.messages)

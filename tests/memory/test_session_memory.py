"""Updates of the session notes: when, by whom, how far they reach, and what can go wrong on the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.memory import session_notes_kit as KIT
from ullage.memory.session import SessionMemory
from ullage.memory.session.session_memory import Progress, UpdateOutcome, update_due
from ullage.memory.session.template import (
    DEFAULT_TEMPLATE,
    TITLES,
    covered_end,
    item_key,
    parse_notes,
    safe_end,
    skeleton,
)
from ullage.policy import SessionMemoryPolicy
from ullage.summarizers.extractive import ExtractiveSummarizer
from ullage.summarizers.protocol import SummaryReply
from ullage.testing.script import ScriptedAPIError, overflow

POLICY = SessionMemoryPolicy(enabled=True)
ABOUT, Editor, add, back, block = KIT.ABOUT, KIT.Editor, KIT.add, KIT.back, KIT.block
memory, record, talk, use = KIT.memory, KIT.record, KIT.talk, KIT.use


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "session-memory"


# ---- when (SM-2) -----------------------------------------------------------------------------


def asked(calls: int) -> dict:
    return {"role": "assistant", "content": [use(n)["content"][0] for n in range(calls)] or "done"}


def test_first_update_at_ten_thousand_tokens():
    begun = Progress().answered(asked(1))
    assert not update_due(POLICY, begun, 9_999).update
    assert update_due(POLICY, begun, 10_000) == (True, "first")
    assert not update_due(POLICY, begun, 50_000, source="subagent").update


def test_then_growth_and_calls_or_the_end_of_a_turn():
    after = Progress().updating(10_000)
    working = after.answered(asked(1)).answered(asked(1))
    assert not update_due(POLICY, working, 14_999).update
    assert not update_due(POLICY, working, 15_000).update
    assert update_due(POLICY, working.answered(asked(1)), 15_000).update
    assert update_due(POLICY, working.answered(asked(0)), 15_000).update
    assert not update_due(POLICY, working.answered(asked(0)), 14_999).update


def test_messages_that_are_no_response_do_not_count():
    progress = Progress().updating(0)
    assert progress.answered(back(1)) is progress


def test_after_a_compaction_growth_counts_from_the_new_size():
    small = replace(Progress().updating(100_000), tokens=30_000).answered(asked(0))
    assert not update_due(POLICY, small, 34_999).update
    assert update_due(POLICY, small, 35_000).update


def test_failures_make_it_wait_for_more_growth_but_never_for_ever():
    progress = Progress().updating(0).answered(asked(3)).ended(well=False)
    assert not update_due(POLICY, progress, 9_999).update
    assert update_due(POLICY, progress, 10_000).update
    for _ in range(50):
        progress = progress.ended(well=False)
    assert update_due(POLICY, progress, 5_000 << 5).update
    assert update_due(POLICY, progress.ended(well=True), 5_000).update


def test_answered_starts_updates_when_they_are_due(folder):
    kept = memory(folder)
    items: list[dict] = []
    begun = []
    for at, size in enumerate([4_000, 9_000, 11_000, 12_000, 15_900, 16_000, 40_000]):
        items += talk(1, start=at)
        due = kept.answered(items[-1], items, tokens=size)
        begun.append(due.update)
    assert begun == [False, False, True, False, False, True, True]
    assert [r.outcome for r in kept.reports] == [UpdateOutcome.UPDATED] * 3
    assert not kept.answered(items[-1], items, tokens=90_000, source="subagent").update
    kept.close()
    assert not kept.answered(items[-1], items, tokens=90_000).update


# ---- how far the notes reach (SM-5) ----------------------------------------------------------


def test_the_pointer_is_the_newest_message(folder):
    items = talk()
    report = memory(folder).update(items)
    assert report.covered == record(folder).covered == item_key(items[-1])
    assert report.absorbed == len(items)


def test_a_call_that_waits_is_left_out_with_its_response(folder):
    items = [*talk(2), {"role": "user", "content": "Go on."}, use(7)]
    assert safe_end(items) == len(items) - 1
    report = memory(folder).update(items)
    assert report.covered == item_key(items[-2])
    pieces = [
        {"role": "assistant", "id": "m1", "content": [{"type": "text", "text": "Two calls."}]},
        {"role": "assistant", "id": "m1", "content": use(7)["content"]},
        back(7),
        {"role": "assistant", "id": "m1", "content": use(8)["content"]},
    ]
    assert safe_end([*talk(1), *pieces]) == 4
    assert safe_end([*talk(1), *pieces, back(8)]) == 9


def test_calls_of_long_ago_that_nobody_answered_hold_nothing_up():
    items = [{"role": "user", "content": "x"}, use(1), *talk(1, start=5)]
    assert safe_end(items) == len(items)
    assert safe_end([]) == 0
    assert safe_end([use(1)]) == 0


def test_names_of_messages_last():
    entry = {"uuid": "u1", "type": "user", "message": {"role": "user", "content": "x"}}
    assert item_key(entry) == "u1"
    result = back(1)
    cleared = {"role": "user", "content": [{**result["content"][0], "content": "[cleared]"}]}
    assert item_key(result) == item_key(cleared) != item_key(back(2))
    assert item_key({"role": "user", "content": "x"}) != item_key(
        {"role": "assistant", "content": "x"}
    )
    assert item_key({"role": "user", "content": "\ud800"}).startswith("sha256:")


def test_of_equal_messages_the_oldest_is_taken():
    same = {"role": "assistant", "content": "ok"}
    items = [same, *talk(1), dict(same)]
    assert covered_end(items, item_key(same)) == 1
    assert covered_end(items, "unknown") is None
    assert covered_end(items, "") is None


def test_nothing_new_is_nothing_done(folder):
    kept = memory(folder)
    kept.update(talk())
    before = (folder / "summary.md").stat().st_mtime_ns
    assert kept.update(talk()).outcome is UpdateOutcome.DROPPED
    assert (folder / "summary.md").stat().st_mtime_ns == before


def test_plain_calls_are_shown_what_is_new(folder):
    kept = memory(folder, "<done/>", "<done/>")
    kept.update(talk(2))
    kept.update(talk(4))
    first, second = kept._set.summarizer.requests
    assert [m["content"] for m in first.messages] == [m["content"] for m in talk(2)]
    assert [m["content"] for m in second.messages] == [m["content"] for m in talk(4)[8:]]
    assert {r.source for r in (first, second)} == {"session_memory"}


def test_a_shared_call_is_the_main_loops_messages(folder):
    items = [*talk(4), {"role": "user", "content": "Go on."}, use(9)]
    editor = Editor("<done/>", modes=("shared", "plain"))
    SessionMemory(folder, summarizer=editor, mode="inline").update(items)
    request = editor.requests[0]
    assert request.mode == "shared"
    assert request.system is None
    assert list(request.messages) == items[:-1]


# ---- the editing loop (SM-3) -----------------------------------------------------------------


def test_edits_are_written(folder):
    path = folder / "summary.md"
    kept = memory(folder, add(path, "Current State", "Step 2 is done.") + "<done/>")
    report = kept.update(talk())
    assert report.outcome is UpdateOutcome.UPDATED
    assert (report.edits, report.calls, report.refusals) == (1, 1, ())
    assert "Step 2 is done." in path.read_text()
    assert kept.notes() == path.read_text()
    assert skeleton(kept.notes()) == skeleton(DEFAULT_TEMPLATE)


def test_what_was_not_done_is_reported_and_can_be_repaired(folder):
    path = folder / "summary.md"
    wrong = block(path, "not there", "x")
    kept = memory(
        folder, add(path, "Worklog", "- a") + wrong, add(path, "Learnings", "- b") + "<done/>"
    )
    report = kept.update(talk())
    assert (report.edits, report.calls) == (2, 2)
    assert [r.kind for r in report.refusals] == ["not_found"]
    second = kept._set.summarizer.requests[1]
    assert "1 edits were done." in second.prompt
    assert "not there" in second.prompt
    assert [m["role"] for m in second.messages[-2:]] == ["user", "assistant"]


def test_a_model_that_tries_everything_else_changes_nothing_else(folder, tmp_path):
    path = folder / "summary.md"
    outside = tmp_path / "outside.md"
    outside.write_text("mine")
    tries = (
        block(outside, "mine", "theirs")
        + block(f"{folder}/../outside.md", "mine", "theirs")
        + block(str(path).upper(), ABOUT["Worklog"], "x")
        + block(folder / "config" / "prompt.md", "a", "b")
        + block(folder / "state.json", "covered", "x")
        + '<invoke name="Bash">\n<bash>\nrm -rf /\n</bash>\n'
    )
    native = SummaryReply(text="", tool_calls=("Write", "WebFetch"))
    kept = memory(folder, tries, native, tries, native)
    report = kept.update(talk())
    assert report.outcome is UpdateOutcome.FAILED
    assert report.calls == 4
    kinds = [r.kind for r in report.refusals]
    assert kinds.count("path") == 10
    assert {r.tried for r in report.refusals if r.kind == "tool"} == {
        "Bash",
        "bash",
        "Write",
        "WebFetch",
    }
    assert outside.read_text() == "mine"
    assert not path.exists()
    assert not (folder / "state.json").exists()


def test_attempts_are_in_the_report_with_good_edits(folder):
    path = folder / "summary.md"
    kept = memory(folder, "<bash>\n" + add(path, "Worklog", "- a"), "<done/>")
    report = kept.update(talk())
    assert report.outcome is UpdateOutcome.UPDATED
    assert [r.line() for r in report.refusals] == ["refused, there is no such tool here: bash"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (SummaryReply(text="I'm sorry", refused=True), "refused"),
        (SummaryReply(text="x", finish_reason="content_filter"), "refused"),
        (RuntimeError("boom"), "boom"),
        (ConnectionError("wire"), "wire"),
    ],
)
def test_failures_change_nothing(folder, answer, reason):
    path = folder / "summary.md"
    kept = memory(folder, "<done/>")
    kept.update(talk(1))
    before = record(folder)
    kept._set.summarizer.answers = [add(path, "Worklog", "- half") + "<bash>", answer]
    report = kept.update(talk(2))
    assert report.outcome is UpdateOutcome.FAILED
    assert reason in report.reason
    assert not path.exists() or "half" not in path.read_text()
    assert record(folder) == before


def test_babble_without_edits_is_a_failure(folder):
    report = memory(folder, *["All is well."] * 4).update(talk())
    assert (report.outcome, report.calls) == (UpdateOutcome.FAILED, 4)


def test_an_answer_that_was_cut_goes_on(folder):
    path = folder / "summary.md"
    cut = SummaryReply(
        text=add(path, "Worklog", "- a") + add(path, "Learnings", "- b")[:60],
        finish_reason="max_tokens",
    )
    kept = memory(folder, cut, add(path, "Learnings", "- b") + "<done/>")
    report = kept.update(talk())
    assert report.outcome is UpdateOutcome.UPDATED
    assert "- a" in kept.notes()
    assert "- b" in kept.notes()


def test_notes_may_not_lose_most_of_what_they_say(folder):
    path = folder / "summary.md"
    folder.mkdir()
    body = "\n".join(f"- fact number {n} with some words" for n in range(200))
    path.write_text(DEFAULT_TEMPLATE.replace(ABOUT["Worklog"], f"{ABOUT['Worklog']}\n{body}"))
    report = memory(folder, block(path, body, "- gone") + "<done/>").update(talk())
    assert report.outcome is UpdateOutcome.FAILED
    assert "lose most" in report.reason
    assert "fact number 199" in path.read_text()


def test_notes_that_are_too_long_may_be_shortened_as_far_as_need_be(folder):
    path = folder / "summary.md"
    folder.mkdir()
    body = "\n".join(f"- fact number {n} with some words" for n in range(2000))
    path.write_text(DEFAULT_TEMPLATE.replace(ABOUT["Worklog"], f"{ABOUT['Worklog']}\n{body}"))
    report = memory(folder, block(path, body, "- 2000 facts") + "<done/>").update(talk())
    assert report.outcome is UpdateOutcome.UPDATED
    assert "fact number 1999" in (folder / "previous.md").read_text()


def test_a_conversation_too_long_for_the_model_is_absorbed_in_part(folder):
    def limited(request):
        if len(request.messages) > 9:
            return ScriptedAPIError(overflow("anthropic", used=300_000), "anthropic")
        return "<done/>"

    kept = memory(folder, *[limited] * 20)
    items = talk(8)
    report = kept.update(items)
    assert report.absorbed_all
    assert 0 < report.absorbed <= 9
    assert covered_end(items, report.covered) == report.absorbed
    while report.outcome is not UpdateOutcome.DROPPED:
        report = kept.update(items)
    assert record(folder).covered == item_key(items[-1])
    seen = [
        m["content"]
        for r in kept._set.summarizer.requests
        if len(r.messages) <= 9
        for m in r.messages
    ]
    assert [m for m in seen if isinstance(m, str) and not m.startswith("[What")] == [
        m["content"] for m in items if isinstance(m["content"], str)
    ]


def test_what_leaves_is_redacted(folder):
    items = [{"role": "user", "content": "the key is hunter2"}, *talk(1)]
    editor = Editor("<done/>")
    redact = lambda text: text.replace("hunter2", "***")  # noqa: E731
    SessionMemory(folder, summarizer=editor, mode="inline", redact=redact).update(items)
    assert "hunter2" not in str(editor.requests[0].messages)
    assert "***" in str(editor.requests[0].messages)


def test_too_long_notes_are_reported_and_the_next_update_is_asked_to_shorten(folder):
    path = folder / "summary.md"
    kept = memory(
        folder, add(path, "Worklog", "- " + "long words here " * 700) + "<done/>", "<done/>"
    )
    assert kept.update(talk(1)).over == ("Worklog",)
    kept.update(talk(2))
    assert "- Worklog: about" in kept._set.summarizer.requests[1].prompt


# ---- template and prompt (SM-6) --------------------------------------------------------------


def test_template_and_prompt_can_be_replaced(folder, tmp_path):
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "template.md").write_text("# Mine\n_own words_\n")
    (folder / "config" / "prompt.md").write_text("P {{notesPath}} {{x}} {{currentNotes}}")
    path = folder / "summary.md"
    kept = memory(folder, block(path, "_own words_", "_own words_\nhello") + "<done/>")
    assert kept.update(talk()).outcome is UpdateOutcome.UPDATED
    assert path.read_text() == "# Mine\n_own words_\nhello\n"
    assert kept._set.summarizer.requests[0].prompt.startswith(
        f"P {path} {{{{x}}}} ```markdown\n# Mine"
    )


def test_template_of_all_sessions_comes_second(tmp_path):
    shared = tmp_path / "session-memory" / "config"
    shared.mkdir(parents=True)
    (shared / "template.md").write_text("# Current State\n_now_\n")
    kept = SessionMemory.for_session(tmp_path, "abc", mode="inline")
    kept.update(talk())
    assert [s.title for s in parse_notes(kept.notes())] == ["Current State"]
    assert kept.path == tmp_path / "abc" / "session-memory" / "summary.md"


@pytest.mark.parametrize("summarizer", [None, "extractive", ExtractiveSummarizer()])
def test_without_a_model_the_ten_sections_are_filled(folder, summarizer):
    kept = SessionMemory(folder, summarizer=summarizer, mode="inline")
    report = kept.update(talk())
    assert (report.updater, report.calls) == ("copies", 0)
    assert tuple(s.title for s in parse_notes(kept.notes())) == TITLES
    assert "Please do step 2" in kept.notes()

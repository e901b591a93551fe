"""How turns, tasks and calls ended: last words, finished tasks, checks whose failure a pipe hides, refusals."""

from __future__ import annotations

import pytest

from tests.facts.test_facts import answer, call, said
from tests.kit import user
from ullage.facts import collect
from ullage.facts.model import AgreedState
from ullage.facts.tallies import ran, read_outcome
from ullage.summarizers import lines
from ullage.summarizers.budgeted_text import cost
from ullage.summarizers.extractive import checks, errors

# ---- last words ---------------------------------------------------------------------------


def closing(*items: dict) -> list[str]:
    return [each.text for each in collect(items).statements if each.closing]


def queued(text: str) -> dict:
    return {"type": "attachment", "attachment": {"type": "queued_command", "prompt": text}}


@pytest.mark.parametrize("slipped_in", [user("and add a test"), queued("and add a test")])
def test_a_remark_before_a_call_is_no_report_where_a_message_slips_in(slipped_in):
    talk = [user("fix the parser"), said("The import is missing:"), call("Edit", file_path="/a.py")]
    assert closing(*talk, slipped_in, answer("ok"), said("Both are in.")) == ["Both are in."]


def test_words_before_a_call_that_has_no_result_yet_are_no_report():
    assert closing(user("go"), said("Now the tests:"), call("Bash", command="make test")) == []


def test_words_after_the_last_call_are_the_report_and_stay_it():
    talk = [user("go"), call("Bash", command="ls"), answer("a"), said("There is one file.")]
    more = [user("thanks"), user("open it"), call("Read", file_path="/a"), answer("x")]
    assert closing(*talk) == closing(*talk, *more) == ["There is one file."]


# ---- finished tasks -----------------------------------------------------------------------


def plan(key: str, **states: str) -> list[dict]:
    todos = [{"content": name, "status": status} for name, status in states.items()]
    return [call("TodoWrite", key, todos=todos), answer("ok", key)]


def test_a_list_that_leaves_out_what_is_finished_keeps_it():
    first = plan("c1", parse="completed", render="in_progress", publish="pending")
    facts = collect([user("go"), *first, *plan("c2", render="completed", archive="pending")])
    assert [(task.subject, task.status) for task in facts.tasks] == [
        ("parse", "completed"),
        ("render", "completed"),
        ("archive", "pending"),
    ]


def test_a_list_of_other_work_keeps_what_is_finished_and_takes_the_place_of_what_was_open():
    first = plan("c1", parse="completed", render="pending", lint="completed")
    facts = collect([*first, *plan("c2", archive="pending", lint="pending")])
    assert [(task.subject, task.status) for task in facts.tasks] == [
        ("parse", "completed"),
        ("archive", "pending"),
        ("lint", "pending"),
    ]


def test_all_finished_titles_stand_where_their_line_fits():
    states = {f"write part {number} of it": "completed" for number in range(1, 8)}
    units = lines.pending(collect([user("go"), *plan("c1", **states)]))
    row = lines.finished_in_line(units, 1 << 30)[-1].text
    assert "write part 1 of it" in row
    others = lines.essential_cost(lines.finished_in_line(units, 1 << 30)) - cost(row)
    assert lines.finished_in_line(units, others + cost(row))[-1].text == row
    shorter = lines.finished_in_line(units, others + cost(row) - 1)[-1].text
    assert "part 1 of" not in shorter
    assert "part 2 of" in shorter


# ---- checks -------------------------------------------------------------------------------

GO = "--- FAIL: TestAdd (0.00s)\n    sum_test.go:12: got 3, want 4\nok  \tcalc/io\t0.1s\nok  \tcalc/ui\t0.2s\nok  \tcalc/db\t0.1s\nok  \tcalc/nt\t0.1s\n"


def ended(command: str, output: str) -> bool | None:
    return ran(command, read_outcome(output, is_error=False), output).ok


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("go test ./... 2>&1 | head -50", GO),
        ("go test ./... | tail -20 || true", GO),
        ("go test ./...; git status", f"{GO}On branch x\nnothing to commit\n"),
        ("mise run lint | head -9", "[lint:go] ERROR task failed\na\nb\nc\nd\n"),
        ("cargo test", "test result: FAILED. 4 passed; 1 failed\na\nb\nc\nd\n"),
        ("npx tsc | head", "src/a.ts(3,5): error TS2304: Cannot find name\na\nb\nc\nd\n"),
        ("pytest -q | head -40", "FAILED tests/test_sum.py::test_add\na\nb\nc\nd\n"),
        ("ruff check . | head", "Found 3 errors.\na\nb\nc\nd\n"),
    ],
)
def test_a_check_whose_result_says_that_it_failed_has_failed(command, output):
    assert ended(command, output) is False


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("grep -rn FAIL tests | head", GO),
        ("cat test.log | head -50", GO),
        ("gh run view 7 --log | grep test", GO),
        ("go test -list . ./... | head", "TestFAIL\nTestFailed\na\nb\nc\nd\n"),
        ("python report.py | head", GO),
        ("cargo test | head", "test result: ok. 4 passed; 0 failed\n"),
        (
            "npm test | head",
            "# a test logs: --- FAIL: no\nerror: expected by the test\na\nb\nc\nd\n",
        ),
        ("ruff check --fix . | head", "Found 3 errors (3 fixed, 0 remaining).\na\nb\nc\nd\n"),
        ("prove t | head", "not ok 3 - later # TODO not written\nok 4\na\nb\nc\nd\n"),
        (
            "go test ./...",
            f"{GO}exit code: 0\n",
        ),  # the host says how it ended, and nothing hides it
    ],
)
def test_what_only_shows_such_lines_has_not(command, output):
    assert ended(command, output) is True


def test_such_a_failure_stands_with_the_failures_and_the_checks():
    work = [call("Bash", command="go test ./... | head -50"), answer(GO)]
    facts = collect([user("fix it"), *work])
    assert "TestAdd" in errors(facts)[0].text
    assert "not seen to succeed since" in errors(facts)[0].text
    assert checks(facts) == "Checks: `go test ./...` → failed"


# ---- refusals -----------------------------------------------------------------------------

REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."


def refused(name: str, *items: dict, **given: str) -> list[str]:
    stopped = user("[Request interrupted by user for tool use]")
    talk = [user("tidy up"), call(name, **given), answer(REFUSED, error=True), stopped, *items]
    return [failure.feedback for failure in collect(talk).failures]


def test_a_call_that_was_refused_without_a_word_is_kept_with_the_next_words():
    words = "name the files, the notes stay out"
    assert refused("Bash", user(words), user("ok?"), command="git add -A") == [words]


def test_a_refusal_comes_before_failures_that_are_not_much_newer():
    talk = [call("Bash", "c0", command="git add -A"), answer(REFUSED, "c0", error=True), user("no")]
    for at in range(1, 4):
        key = f"c{at}"
        talk += [call("Bash", key, command=f"./part{at}"), answer("no such file", key, error=True)]
    ranked = sorted(errors(collect(talk)), key=lambda unit: unit.rank)
    assert ["git add" in unit.text for unit in ranked] == [False, True, False, False]


def test_not_with_the_words_that_follow_other_calls():
    later = [call("Bash", "c2", command="ls"), answer("a", "c2"), user("thanks")]
    assert refused("Bash", *later, command="git add -A") == [""]


def test_a_plan_that_is_given_to_another_session_is_not_refused():
    assert refused("ExitPlanMode", user("Implement the plan"), plan="1. parse") == [""]


# ---- what is open -------------------------------------------------------------------------

LEFT = "The retry path still needs to cover timeouts."


def left_open(*items: dict) -> list[str]:
    facts = collect([user("go"), *items])
    return [each.text for each in facts.still_open if each.state is AgreedState.OPEN]


def test_what_is_said_on_the_way_is_not_left_open():
    looked = [call("Bash", command="ls"), answer("a")]
    assert left_open(said(LEFT)) == [LEFT]
    assert left_open(said(LEFT), *looked) == []
    listed = "- [ ] cover the timeouts"
    assert left_open(said(listed), *looked) == [listed]


@pytest.mark.parametrize(
    ("reply", "left"),
    [("yes please", []), ("cover timeouts in the retry path", []), ("no", [LEFT])],
)
def test_what_the_user_takes_up_is_no_longer_open_once_something_changed(reply, left):
    asked = said(f"{LEFT} Shall I do that?")
    edited = [call("Edit", file_path="/r.py", old_string="a", new_string="b"), answer("ok")]
    assert left_open(asked, user(reply)) == [LEFT]
    assert left_open(asked, user(reply), *edited) == left


def test_what_nobody_takes_up_stays_open():
    edited = [call("Edit", file_path="/r.py", old_string="a", new_string="b"), answer("ok")]
    assert left_open(said(LEFT), user("now rename the module"), *edited) == [LEFT]


def test_what_code_says_is_not_left_open():
    assert left_open(said("It returns `Error('not yet implemented')` for now.")) == []
    assert left_open(said("`retry` is not yet implemented.")) == ["`retry` is not yet implemented."]


@pytest.mark.parametrize(
    "text", ["The TODO app is ready to use now.", "- A todo with a checkbox", "**Remaining:**"]
)
def test_an_app_for_todos_and_a_bare_heading_are_no_work(text):
    assert left_open(said(text)) == []

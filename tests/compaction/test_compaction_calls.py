"""The summary call: modes, parts, retries, overflow, repair, redaction, language (FULL-9, FULL-10, FULL-19)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit.flows import Unhurried
from ullage import ContextManager, compact_session, open_session
from ullage.compaction import Job, compact, compaction_flow
from ullage.compaction.assemble import repair
from ullage.compaction.summary_call import (
    MARKER,
    MOST_PARTS,
    check_reply,
    more_dropped,
    script_of,
    split_in_parts,
    summary_prompt,
    without_head,
)
from ullage.effects import drive
from ullage.exceptions import CompactionError, InvalidPolicy
from ullage.facts import collect
from ullage.facts.model import UserInput
from ullage.facts.sections import HEADINGS, KEPT_HEADING, parse_sections, strip_draft
from ullage.policy import Policy
from ullage.summarizers import CallableSummarizer, SummaryReply
from ullage.testing import ScriptedSummarizer

NINE = "\n\n".join(
    f"## {n}. {title}\nSomething of {title.lower()}." for n, title in enumerate(HEADINGS, 1)
)


def conversation(turns: int = 8, size: int = 400) -> list[dict]:
    messages: list[dict] = []
    for n in range(turns):
        call = {
            "type": "tool_use",
            "id": f"t{n}",
            "name": "Read",
            "input": {"file_path": f"/w/f{n}.py"},
        }
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"line {n}\n" * size}
        messages += [
            {"role": "user", "content": f"Look at file {n}"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [{"type": "text", "text": f"File {n} is fine."}]},
        ]
    return messages


def compacted(writer: Any, **options: Any):
    """As `compact`, but no wait takes time."""
    events: list[Any] = []
    from ullage.compaction.api import job_of

    job: Job = job_of(options.pop("items", conversation()), keep=0, summarizer=writer, **options)
    perform = Unhurried([events.append])
    result = drive(compaction_flow(job), perform)
    return result, events, perform.waits


# ---- the test kit's misbehaviours ------------------------------------------------------------


def test_a_rate_limit_is_waited_out():
    writer = ScriptedSummarizer("rate_limit")
    result, events, waits = compacted(writer)
    assert result.report.attempts == 2
    assert len(waits) == 1
    assert any(getattr(event, "reason", "") == "rate_limit" for event in events)


def test_overflow_is_shortened_and_ends():
    writer = ScriptedSummarizer("overflow")
    result, _, waits = compacted(writer)
    sizes = [len(request.messages) for request in writer.requests]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]
    assert result.report.dropped_messages > 0
    assert waits == []


def test_what_was_dropped_is_still_reported_by_code():
    def writer(request):
        if len(request.messages) > 8:
            raise RuntimeError("prompt is too long")
        return NINE

    result, _, _ = compacted(writer, policy=Policy().change({"summary.overflow_retries": 20}))
    text = result.summary_messages[0]["content"]
    assert "Look at file 0" in text
    assert "/w/f0.py" in text


def test_every_try_has_a_number():
    writer = ScriptedSummarizer("empty", "empty")
    compacted(writer)
    assert [request.attempt for request in writer.requests] == [1, 2, 3]


# ---- modes -----------------------------------------------------------------------------------


def test_shared_comes_first_and_plain_follows():
    writer = ScriptedSummarizer("empty", "empty", "empty", modes=("shared", "plain"))
    compacted(writer)
    shared, plain = writer.requests[0], writer.requests[-1]
    assert (shared.mode, shared.system) == ("shared", None)
    assert list(shared.messages) == conversation()
    assert (plain.mode, bool(plain.system)) == ("plain", True)


def test_after_an_overflow_both_modes_get_the_same_list():
    writer = ScriptedSummarizer(*["overflow"], *["empty"] * 2, modes=("shared", "plain"))
    compacted(writer)
    lengths = {len(request.messages) for request in writer.requests[1:]}
    assert len(lengths) == 1


@pytest.mark.parametrize("modes", [("shared", "plain"), ("plain",), ("shared",)])
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_overflows_end_after_the_retries_and_no_call_is_made_twice(modes, retries):
    writer = ScriptedSummarizer(*["overflow"] * 20, modes=modes)
    policy = Policy().change({"summary.overflow_retries": retries})
    with pytest.raises(CompactionError) as caught:
        compact(conversation(20), keep=0, summarizer=writer, policy=policy)
    assert caught.value.code == "prompt_too_long"
    made = [(each.system, list(each.messages), each.prompt) for each in writer.requests]
    assert all(made.count(each) == 1 for each in made)
    most = retries + 1 + (len(modes) > 1 and retries == 0)  # the plain call is tried in any case
    assert len(made) == most
    lengths = [len(each.messages) for each in writer.requests if each.mode == "plain"]
    assert lengths == sorted(lengths, reverse=True)


# ---- parts -----------------------------------------------------------------------------------


def test_a_long_history_is_summarised_in_parts():
    writer = ScriptedSummarizer(window_tokens=9_000, max_output_tokens=500)
    result, events, _ = compacted(writer, items=conversation(20))
    assert len(writer.requests) > 1
    sent = [message for request in writer.requests for message in request.messages]
    assert sent == conversation(20)
    assert result.report.dropped_messages == 0
    assert "<earlier_summary>" in writer.requests[1].prompt
    assert any(getattr(event, "reason", "") == "part" for event in events)


def test_parts_hold_whole_rounds_and_all_messages():
    messages = conversation(20)
    parts = split_in_parts(messages, 2_500)
    assert [message for part in parts for message in part] == messages
    assert all(
        part[0]["role"] != "user" or isinstance(part[0]["content"], str) for part in parts[1:]
    )


def test_a_round_that_is_too_long_is_shortened():
    parts = split_in_parts(conversation(2, size=20_000), 3_000)
    assert len(parts) <= MOST_PARTS
    assert "characters left out" in str(parts)


# ---- head truncation -------------------------------------------------------------------------


def test_the_marker_stands_in_front_of_the_assistant_only():
    messages, dropped = conversation(4), 0
    while (more := more_dropped(messages, dropped, None)) > dropped:
        dropped = more
        first, *others = without_head(messages, dropped)
        assert first["role"] == "user"
        assert all(message["content"] != MARKER for message in others)
    assert without_head(messages, dropped)


def test_one_round_is_always_left():
    messages = conversation(3)
    dropped = more_dropped(messages, 0, 1_000_000)
    while (more := more_dropped(messages, dropped, 1_000_000)) > dropped:
        dropped = more
    assert without_head(messages, dropped)
    assert more_dropped(messages, dropped, None) == dropped


# ---- checks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        NINE,
        NINE.replace("## ", "").replace("1. ", "1) "),
        NINE.replace("## ", "**").replace("\nSomething", ":**\nSomething"),
        NINE.replace("Errors and Fixes", "Errors and fixes"),
        "```\nthinking\n```\n" + NINE,
        "\n\n".join(NINE.split("\n\n")[:6]),
        NINE.replace("Something of current work.", "We use `<|im_start|>` as a marker in code."),
    ],
    ids=["plain", "parentheses", "bold", "case", "fence", "six", "quoted protocol"],
)
def test_form_does_not_matter(text):
    _, problems = check_reply(SummaryReply(text=text), source_chars=100_000)
    assert problems == ()


def test_a_draft_that_never_closes_is_stripped():
    assert strip_draft("<analysis>thinking\n<summary>\ntext") == "text"
    assert strip_draft("<analysis>only thinking") == ""
    assert strip_draft("no tags") == "no tags"


def test_headings_inside_code_do_not_count():
    text = NINE + "\n````\n## 1. Primary Request and Intent\n```\nx\n````\nmore"
    assert "more" in parse_sections(text)[9]


# ---- repair ----------------------------------------------------------------------------------


def test_what_the_summary_says_is_not_repeated():
    facts = collect(conversation())
    all_said = "\n".join(
        [
            *(entry.text for entry in facts.inputs),
            *(f.path for f in facts.files),
            *(n.text for n in facts.names),
        ]
    )
    assert repair(facts, all_said, tokens=5_000).text == ""
    assert repair(facts, "nothing", tokens=5_000).text.startswith(KEPT_HEADING)


def test_the_cap_holds_and_says_what_did_not_fit():
    facts = collect(conversation(60))
    fixed = repair(facts, "nothing", tokens=200)
    assert len(fixed.text) // 4 <= 200
    assert fixed.left_out > 0
    assert "Look at file 59" in fixed.text  # the newest user messages first


def test_no_repair_at_a_cap_of_zero():
    policy = Policy().change({"summary.facts_max_tokens": 0})
    result, _, _ = compacted(lambda request: NINE, policy=policy)
    assert result.report.facts_appended == {}
    assert KEPT_HEADING not in result.summary_messages[0]["content"]


def ran(*runs: tuple[str, str, bool]) -> list[dict]:
    """Commands with their outputs, and whether they failed."""
    return [
        item
        for at, (command, output, failed) in enumerate(runs)
        for item in (
            {"role": "assistant", "content": [{"type": "tool_use", "id": f"t{at}", "name": "Bash", "input": {"command": command}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{at}", "content": output, "is_error": failed}]},
        )
    ]  # fmt: skip


LONG = "Then compare file 1 with file 3. " + "They differ by a byte order mark. " * 90


@pytest.mark.parametrize("said", ["Then compare file 1 with file 3.", LONG.strip()])
def test_messages_stand_in_their_order_and_a_long_newest_once(said):
    newest = {"role": "user", "content": said}
    talk = [*conversation(4), newest, *ran(("diff f1 f3", "equal", False))]
    result, _, _ = compacted(lambda request: NINE, items=talk)
    text = result.summary_messages[0]["content"]
    places = [text.index(f"User message {n}. Look at file {n - 1}") for n in (1, 2, 3, 4)]
    assert places == sorted(places)
    assert text.count(said) == (2 if len(said) < 100 else 1)
    assert text.count("They differ by") < 110
    again = collect([*result.messages, *conversation(1)])
    assert [entry.text for entry in again.inputs][4:] == [said, "Look at file 0"]


@pytest.mark.parametrize(
    "said",
    [
        ["First do the tests", "Fix the lease and continue", "continue"],
        ["continue", "fix the lease", "continue"],
        ["Please look at the lease code of the worker first", "ok, delete the old lease code too", "ok"],
        ["Look at what the worker does with the lease at night", "Look at what the worker does with the lease at noon"],
    ],
)  # fmt: skip
def test_no_message_is_lost_to_one_like_it(said):
    long = {"role": "assistant", "content": "I look at the lease. " * 400}
    talk = [item for text in said for item in ({"role": "user", "content": text}, long)]
    result, _, _ = compacted(lambda request: NINE, items=talk)
    assert [entry.text for entry in collect(result.messages).inputs] == said
    again, _, _ = compacted(lambda request: NINE, items=[*result.messages, *talk])
    assert [entry.text for entry in collect(again.messages).inputs] == [*said, *said]


def test_of_failures_those_are_added_that_are_still_to_be_dealt_with():
    work = ran(
        ("git cat-file -t 0a1b2c", "fatal: git cat-file: could not get object info", True),
        ("pytest tests/a.py", "FAILED tests/a.py::test_one - assert 1 == 2", True),
        ("pytest", "12 passed", False),
        ("cargo build", "error[E0425]: cannot find value `lease`", True),
    )
    text = repair(collect([*conversation(1), *work]), "nothing", tokens=5_000).text
    failed = [row for row in text.split("\n") if " failed: " in row]
    assert [row.partition(" failed")[0] for row in failed] == [
        "- `Bash cargo build`",
        "- `Bash pytest tests/a.py`",
    ]
    assert failed[1].endswith("; since then `pytest` → ok")


def test_files_are_named_under_their_folder_and_known_after_the_next_compaction():
    edits = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": f"e{n}", "name": "Edit", "input": {"file_path": f"/work/service/src/part{n}.py", "old_string": "a", "new_string": "b"}}]}
        if half
        else {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"e{n}", "content": "ok"}]}
        for n in range(3)
        for half in (1, 0)
    ]  # fmt: skip
    result, _, _ = compacted(lambda request: NINE, items=[*conversation(3), *edits])
    text = result.summary_messages[0]["content"]
    assert "\n- Changed under `/work/service/src/`: part0.py, part1.py, part2.py\n" in text
    assert "\n- Read: /w/f0.py, /w/f1.py, /w/f2.py\n" in text
    assert result.report.facts_appended["changed_files"] == 3
    twice, _, _ = compacted(lambda request: NINE, items=[*result.messages, *conversation(2)])
    assert "part0.py, part1.py, part2.py" in twice.summary_messages[0]["content"]
    by_code = compact([*result.messages, *conversation(2)], keep=0)
    assert "part0.py, part1.py, part2.py" in by_code.summary_messages[0]["content"]


def test_files_take_what_room_there_is_and_the_others_are_counted():
    work = [
        item
        for n in range(200)
        for item in (
            {"role": "assistant", "content": [{"type": "tool_use", "id": f"e{n}", "name": "Edit", "input": {"file_path": f"/work/service/src/part{n}.py", "old_string": "a", "new_string": "b"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"e{n}", "content": "ok"}]},
        )
    ]  # fmt: skip
    facts = collect([{"role": "user", "content": "Rename it."}, *work])
    for room in (60, 300, 5_000):
        fixed = repair(facts, "nothing", tokens=room)
        named = fixed.appended["changed_files"]
        assert 0 < named < 200
        assert f"… {200 - named} more, part" in fixed.text
        assert fixed.left_out >= 200 - named


def test_what_a_model_says_was_changed_is_no_path():
    said = NINE.replace(
        "Something of files and code sections.",
        "- Changed: the lease timeout, the retry count\n- `parse_config()`: edited to return None",
    )
    assert "retry count" in said
    once, _, _ = compacted(lambda request: said)
    twice, _, _ = compacted(lambda request: NINE, items=[*once.messages, *conversation(2)])
    assert "retry count" not in twice.summary_messages[0]["content"]
    assert "parse_config()" not in twice.summary_messages[0]["content"]


def test_the_state_of_checks_and_repository_is_added_and_not_carried_on():
    work = ran(
        ("make test", "ok", False),
        ("git commit -m 'Cure it'", "[main 1a2b3c4] Cure it\n 1 file changed", False),
        ("make lint", "a.py:1: error: unused\nFAILED", True),
    )
    begun = [{"role": "user", "content": "Cure the lease."}, *work]
    talk = [{"role": "assistant", "content": "I look at the lease. " * 900}]
    once = compact([*begun, *talk], summarizer=lambda request: NINE, keep=0).messages
    kept = once[0]["content"].partition(KEPT_HEADING)[2]
    assert "- Checks: `make test` → ok, `make lint` → failed\n" in kept
    assert "- Repository: newest commit 1a2b3c4 on main, no push seen since;" in kept
    twice = compact([*once, {"role": "user", "content": "Go on."}, *talk], keep=0).messages
    assert "`make lint` → failed" not in twice[0]["content"]
    assert "Cure the lease." in twice[0]["content"]


# ---- prompt ----------------------------------------------------------------------------------


def test_the_prompt_forbids_tools_first_and_last():
    text = summary_prompt(instructions="mind the gap")
    first, last = text.split("\n\n")[0], text.split("\n\n")[-1]
    assert first == last
    assert "tool" in first
    assert all(heading in text for heading in HEADINGS)
    assert text.index("## Additional instructions") < text.index("mind the gap")


def test_a_template_is_filled_once_and_unknown_names_stay():
    text = summary_prompt(
        template="A {{instructions}} {{ scope }} {{other}} {{", instructions="{{sections}}"
    )
    assert text.startswith("A {{sections}} Summarise")
    assert text.endswith("{{other}} {{")


def test_a_template_is_checked_without_nine_sections():
    answer = "A free form of summary that says all there is to say about it."
    result, _, _ = compacted(lambda request: answer, template="Be brief.")
    assert answer in result.summary_messages[0]["content"]


def test_an_unknown_scope_is_named():
    with pytest.raises(InvalidPolicy):
        summary_prompt(scope="half")


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("please fix the login", ""),
        ("исправь ошибку в login.py", "Cyrillic"),
        ("修复登录页面的错误", "Han"),
        ("ログインページの誤りを直して", "Japanese"),
        ("로그인 오류를 고쳐", "Hangul"),
        ("", ""),
    ],
)
def test_the_script_of_the_user(text, script):
    assert script_of([UserInput(0, text)]) == script


def test_the_language_is_asked_for():
    messages = conversation()
    messages[0] = {
        "role": "user",
        "content": "Исправь, пожалуйста, ошибку входа на сайт и проверь всё ещё раз",
    }
    writer = ScriptedSummarizer()
    compacted(writer, items=messages)
    assert "Cyrillic" in writer.requests[0].prompt


def test_a_summary_in_other_letters_is_refused():
    russian = NINE.replace("Something of", "Пользователь просил исправить ошибку входа на сайт:")
    writer = CallableSummarizer(lambda request: russian, name="w")
    policy = Policy().change({"summary.retries": 0})
    with pytest.raises(CompactionError, match="another script"):
        compacted(writer, policy=policy)
    said = {
        "role": "user",
        "content": "Исправь, пожалуйста, ошибку входа на сайт и проверь ещё раз",
    }
    theirs = [said, *conversation()[1:]]
    for message in theirs[4::4]:
        message["content"] = "Проверь, пожалуйста, следующий файл тоже"
    assert compacted(writer, items=theirs, policy=policy)[0].compacted
    english = CallableSummarizer(lambda request: NINE, name="w")
    with pytest.raises(CompactionError, match="another script"):
        compacted(english, items=theirs, policy=policy)


def test_a_few_foreign_words_are_no_other_language():
    text = NINE + "\n- the page says ошибка"
    assert check_reply(SummaryReply(text=text), source_chars=100_000, script="")[1] == ()


# ---- redaction -------------------------------------------------------------------------------


def test_secrets_leave_neither_to_the_model_nor_into_the_summary():
    messages = conversation()
    messages[0] = {"role": "user", "content": "my key is sk-hunter2, use it"}
    seen: list[Any] = []

    def writer(request):
        seen.append(request)
        return NINE

    redact = lambda text: text.replace("sk-hunter2", "[secret]")  # noqa: E731
    result, _, _ = compacted(writer, items=messages, redact=redact)
    assert "hunter2" not in str(seen[0].messages) + seen[0].prompt
    assert "hunter2" not in result.summary_messages[0]["content"]
    assert "my key is [secret], use it" in result.summary_messages[0]["content"]


def test_an_asynchronous_summarizer_is_refused_by_the_synchronous_form():
    async def writer(request):
        return NINE

    with pytest.raises(InvalidPolicy):
        compact(conversation(), keep=0, summarizer=writer)


def test_a_failure_says_who_failed():
    with pytest.raises(CompactionError, match="scripted"):
        compacted(ScriptedSummarizer(after="empty"))


# ---- error texts as an answer, and what the call sees ----------------------------------------------


@pytest.mark.parametrize(
    ("answer", "code", "shrinks"),
    [
        ("Prompt is too long", "prompt_too_long", True),
        ("API Error: prompt is too long: 210000 tokens > 200000 maximum", "prompt_too_long", True),
        ("API Error: 500 internal", "api_error", False),
        ("Everything is fine, nothing to report here.", "incomplete_summary", False),
    ],
)
def test_an_error_text_as_an_answer_counts_as_that_error(answer, code, shrinks):
    seen: list[int] = []

    def wrapper(request):
        seen.append(len(request.messages))
        return answer

    with pytest.raises(CompactionError) as caught:
        compacted(wrapper)
    assert caught.value.code == code
    assert (seen[-1] < seen[0]) is shrinks
    assert ("500 internal" in str(caught.value)) is (code == "api_error")


def repeated_reads() -> list[dict]:
    items: list[dict] = [{"role": "user", "content": "go"}]
    for n in range(55):
        call = {
            "type": "tool_use",
            "id": f"t{n}",
            "name": "Read",
            "input": {"file_path": f"/a{n % 5}"},
        }
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"row {n} " * 1_000}
        items += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return [*items, {"role": "assistant", "content": "done"}]


def whole_results(request) -> int:
    blocks = [b for m in request.messages if isinstance(m["content"], list) for b in m["content"]]
    return sum(b.get("type") == "tool_result" and len(str(b["content"])) > 3_000 for b in blocks)


def test_a_list_or_file_on_demand_shortens_old_results_first_as_a_manager_does(tmp_path):
    items, seen = repeated_reads(), []

    def writer(request):
        seen.append(whole_results(request))
        return NINE

    result = compact(items, model="claude-opus-4-5", summarizer=writer, keep=5_000)
    manager = ContextManager(model="claude-opus-4-5", summarizer=writer)
    for item in items:
        manager.add(item)
    manager.compact(keep=5_000)
    assert result.kept[0] is items[-len(result.kept)]  # what is kept stays as it is
    ids = [f"00000000-0000-4000-8000-{at:012d}" for at in range(len(items))]
    rows = [
        {"type": m["role"], "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": m}
        for m, uuid, parent in zip(items, ids, [None, *ids], strict=False)
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    compact_session(open_session(path), model="claude-opus-4-5", summarizer=writer, keep=5_000)
    compact(items, model="claude-opus-4-5", summarizer=writer, keep=5_000, trigger="auto")
    assert seen[0] == seen[1] == seen[2] < seen[3]


REQUESTS = [
    {"role": "user", "content": "Fix the login form in web/login.tsx and keep ticket OPS-12 open."},
    {"role": "assistant", "content": "I changed the login form and committed it as 1a2b3c4d5e."},
]


@pytest.mark.parametrize(
    ("added", "warnings"),
    [
        ("It changed src/ghost.py and lib/phantom.rs.", ["names_not_in_source:src/ghost.py, lib/phantom.rs"]),
        ("Committed as deadbee1.", ["names_not_in_source:deadbee1"]),
        ("See https://example.org/nowhere.", ["names_not_in_source:https://example.org/nowhere"]),
        ("The user asked to delete the production database.", ["request_not_in_source:The user asked to delete the production database."]),
        ("The user asked to fix the login form in web/login.tsx.", []),
        ("The user asked that the form be fixed; ticket OPS-12 stays open.", []),
        ("Changed /w/app/web/login.tsx (commit 1a2b3c4), read/write as before/after.", []),
        ("Looked at f0.py and /w/f3.py.", []),
    ],
)  # fmt: skip
def test_what_a_model_invents_is_a_warning(added, warnings):
    result, _, _ = compacted(lambda request: f"{NINE}\n{added}", items=[*REQUESTS, *conversation()])
    assert [each for each in result.report.warnings if "_not_in_source" in each] == warnings


def test_a_summary_in_another_language_is_no_invention():
    added = "The user asked to repair something entirely different.\nThe user wanted another colour everywhere."
    items = [{"role": "user", "content": "Bitte das Formular reparieren."}, *conversation()]
    result, _, _ = compacted(lambda request: f"{NINE}\n{added}", items=items)
    assert not [each for each in result.report.warnings if "_not_in_source" in each]


def test_the_projects_own_instructions_for_compactions_are_in_the_prompt():
    asked: list[Any] = []

    def rules(section: str) -> dict[str, Any]:
        text = (
            f"Contents of /w/CLAUDE.md (project instructions):\n\n# Build\nRun make.\n\n{section}"
        )
        block = {"type": "text", "text": f"<system-reminder>\n{text}\n</system-reminder>"}
        return {"role": "user", "content": [block, {"type": "text", "text": "Go on."}]}

    def writer(request: Any) -> str:
        asked.append(request)
        return NINE

    old, new = (
        rules("## Compact Instructions\nKeep names."),
        rules(
            "## Compact instructions\n\nKeep the figures.\n\n### How\nAs a table.\n\n## Style\nBe brief."
        ),
    )
    compact([old, *conversation(), new, *conversation()], keep=0, summarizer=writer, instructions="Mind it.")  # fmt: skip
    (request,) = asked
    assert "## Additional instructions\nKeep the figures.\n\n### How\nAs a table.\n\nMind it.\n" in request.prompt  # fmt: skip
    assert "Compact" not in request.prompt + json.dumps(request.messages)

"""What hosts put there to stand stays ahead of every summary, and a summary of a summary is one summary (HOST-1, FULL-16)."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from hypothesis import given, strategies as st

import ullage
from tests.kit import result, said, text, use, user
from ullage.compaction.flow import compaction_flow  # noqa: F401 - the flow under test
from ullage.exceptions import ContextTooLarge
from ullage.proxy.client_calls import (
    AskedCompaction,
    compacted_messages,
    completed_text,
    extractive_text,
)

RULES = "\n".join(
    f"- RULE-{i:02d}: run make check-{i}; never edit generated/{i}.py" for i in range(80)
)
AGENTS = "\n".join(f"- agent{i}: AGENT-{i:02d} looks at part {i}" for i in range(30))


def reminder(inner: str) -> str:
    return f"<system-reminder>\n{inner}\n</system-reminder>\n"


CLAUDE_MD = reminder(
    f"# claudeMd\nContents of /w/CLAUDE.md (project instructions, checked into the codebase):\n\n{RULES}"
)
DATE = reminder("Today's date is 2026-11-23.")
AGENTS_MD = f"# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\n{RULES}\n</INSTRUCTIONS>"
SYSTEM = f"# Environment\nYou work in /w\n\nAvailable agent types for the Agent tool:\n{AGENTS}"


def rounds(count: int, start: int = 0, lines: int = 400) -> list:
    made = []
    for i in range(start, start + count):
        made.append(said([use(f"t{i}", "Bash", command=f"make step-{i}")]))
        failed = i % 4 == 0
        body = "\n".join(f"line {i} {line}" for line in range(lines))
        shown = f"error: step {i} failed\n{body}" if failed else body
        made.append(user([result(f"t{i}", shown, is_error=failed)]))
    return made


def held(messages) -> tuple[int, int]:
    """How many of the rules are there, and how often one of them is."""
    told = json.dumps(messages)
    return len(set(re.findall(r"RULE-\d\d", told))), told.count("RULE-07")


# ---- what stands -----------------------------------------------------------------------------


def test_project_instructions_survive_a_summary_verbatim():
    first = user([text(CLAUDE_MD), text("Port the parser.")])
    done = ullage.compact([first, *rounds(30)])
    assert done.compacted
    assert held(done.messages) == (80, 1)
    # The host's block, without the user's.
    assert done.messages[0]["content"] == [first["content"][0]]
    assert "RULE" not in str(done.messages[1]["content"])
    assert "Opened with: “Port the parser.”" in done.messages[1]["content"]


def test_they_survive_each_further_summary_once():
    messages = [user([text(CLAUDE_MD), text("Port the parser.")])]
    for each in range(3):
        messages += [*rounds(12, 20 * each), said("Done."), user(f"Go on with part {each}.")]
        done = ullage.compact(messages, keep=0)
        messages = list(done.messages)
        assert held(messages) == (80, 1)
        assert {*done.report.kept} | {*done.report.removed} == set(range(len(done.report.kept) + len(done.report.removed)))  # fmt: skip
    assert [message["role"] for message in messages] == ["user", "user", "user"]


def test_a_newer_version_replaces_the_older():
    old = user([text(CLAUDE_MD), text("Port it.")])
    new = user([text(CLAUDE_MD.replace("RULE-", "NEW-")), text("And the tests.")])
    messages = ullage.compact(
        [old, *rounds(8), said("Done."), new, *rounds(8, 50)], keep=0
    ).messages
    assert held(messages) == (0, 0)
    assert len(set(re.findall(r"NEW-\d\d", json.dumps(messages)))) == 80


def test_a_message_of_the_systems_role_keeps_its_role():
    first = user([text(CLAUDE_MD), text("Port the parser.")])
    system = {"role": "system", "content": SYSTEM}
    done = ullage.compact([first, system, *rounds(30)], model="claude-opus-5-5")
    found = [message for message in done.messages if message["role"] == "system"]
    assert found == [system]
    assert found[0] is system
    assert ullage.validate(done.messages, model="claude-opus-5-5").ok
    assert "Instructions from the host" not in json.dumps(done.messages)


def test_a_kept_beginning_stays_as_it_is():
    system = {"role": "system", "content": SYSTEM}
    opens = [user("Port it."), *rounds(2)]
    messages = [
        *opens,
        said("Done."),
        user([text(CLAUDE_MD), text("Go on.")]),
        system,
        *rounds(30, 50),
    ]
    done = ullage.compact(messages, direction="from", at=6, model="claude-opus-5-5")
    assert done.messages[: len(opens)] == tuple(opens)
    assert done.messages[-1] is system
    assert held(done.messages) == (80, 1)
    assert ullage.validate(done.messages, model="claude-opus-5-5").ok


def test_it_stands_after_a_providers_own_compaction():
    item = {"type": "compaction", "content": "Earlier: the parser.", "signature": "s"}
    messages = [user([text(CLAUDE_MD), text("Port it.")]), *rounds(3), said([item]), user("Go on."), *rounds(20, 50)]  # fmt: skip
    done = ullage.compact(messages, keep=0)
    assert done.messages[0] == said([item])
    assert held(done.messages[1:]) == (80, 1)


def test_codex_keeps_its_instructions():
    def message(role, *texts):
        parts = [{"type": "input_text", "text": each} for each in texts]
        return {"type": "message", "role": role, "content": parts}

    environment = "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>"
    opens = [message("developer", "You are Codex."), message("user", AGENTS_MD, environment)]
    permissions = message(
        "developer", "<permissions instructions>\nask first\n</permissions instructions>"
    )
    items = [*opens, message("user", "Port the parser.")]
    for i in range(30):
        items.append(
            {"type": "function_call", "call_id": f"c{i}", "name": "exec_command", "arguments": "{}"}
        )
        items.append(
            {"type": "function_call_output", "call_id": f"c{i}", "output": "line\n" * 3000}
        )
    items.insert(21, permissions)
    done = ullage.compact(items, provider="openai_responses", model="gpt-5")
    assert [done.messages[0] is opens[0], done.messages[1] is opens[1]] == [True, True]
    assert permissions in done.messages
    assert held(done.messages) == (80, 1)
    # What Codex is given for its own compaction has none of it: Codex puts it in again.
    given = json.dumps(compacted_messages(AskedCompaction("codex_trigger", items), "gpt-5"))
    assert held(given) == (0, 0)
    assert "You are Codex" not in given
    assert "Port the parser." in given


def test_a_target_counts_it_and_names_it():
    first = user([text(CLAUDE_MD), text("Port the parser.")])
    done = ullage.compact([first, *rounds(30)], target_tokens=6_000)
    assert held(done.messages) == (80, 1)
    assert done.report.tokens_after <= 6_000
    with pytest.raises(ContextTooLarge, match=r"standing host text \d,\d{3}") as caught:
        ullage.compact([first, *rounds(30)], target_tokens=1_200)
    least = caught.value.floor_tokens
    tight = ullage.compact([first, *rounds(30)], target_tokens=least)
    assert held(tight.messages) == (80, 1)
    assert tight.report.messages_after <= least


def test_a_file_keeps_it_in_entries():
    def entry(at, message):
        return {"type": message["role"], "uuid": f"u{at}", "parentUuid": f"u{at - 1}" if at else None, "sessionId": "s", "message": message}  # fmt: skip

    messages = [user([text(CLAUDE_MD), text("Port the parser.")]), *rounds(30)]
    entries = [entry(at, message) for at, message in enumerate(messages)]
    done = ullage.compact(entries, keep=0)
    assert held(done.messages) == (80, 1)
    assert held(ullage.resume([*entries, *done.new_entries]).messages) == (80, 1)


# ---- a summary of a summary ------------------------------------------------------------------

LEAD = "This session is being continued from a previous conversation that ran out of context. The summary below covers the earlier portion of the conversation.\n\n<system-reminder>\n<tools-used-before-summary>Agent, Bash</tools-used-before-summary>\n</system-reminder>\nSummary:\n"  # fmt: skip
TAIL = "\n\nIf you need specific details from before compaction (like exact code snippets), read the full transcript at: /h/s.jsonl\nContinue the conversation from where it left off without asking the user any further questions. Resume directly — do not acknowledge the summary, do not recap what was happening. Pick up the last task as if the break never happened."  # fmt: skip
ASKED = "From now on never touch the billing folder. Build the exporter for ticket ZX-4711."


def as_claude_code_sends(answer: str) -> list:
    body = answer.removeprefix("<summary>\n").removesuffix("\n</summary>")
    return [user([text(DATE), text(f"{LEAD}{body}{TAIL}")])]


@pytest.mark.parametrize("by_model", [False, True])
def test_ten_compactions_by_a_client_leave_one_summary(by_model):
    messages = [user([text(CLAUDE_MD), text(DATE), text(ASKED)])]
    answer = ""
    for each in range(10):
        messages += rounds(6, 6 * each, lines=3)
        if each == 4:
            messages.append(user("Always answer in English."))
        asked = AskedCompaction("claude_code", messages)
        written = "<summary>\n1. Primary Request and Intent:\n   The exporter.\n\n9. Optional Next Step:\n   Go on.\n</summary>"
        answer = completed_text(asked, written) if by_model else extractive_text(asked)
        messages = as_claude_code_sends(answer)
    assert answer.count(ASKED) == (1 if by_model else 2)  # how it began, and as message 1
    assert answer.count("Opened with") == (0 if by_model else 1)
    assert "never touch the billing folder" in answer
    assert "Always answer in English." in answer
    for foreign in (
        "This session is being continued",
        "Resume directly",
        "Pick up the last task",
        "RULE-",
        "tools-used",
    ):
        assert foreign not in answer, foreign
    assert not repeated(answer)


def repeated(summary: str) -> list[str]:
    lines = (line for line in summary.split("\n") if line.strip() and not line.startswith("```"))
    return [
        line
        for line, count in Counter(lines).items()
        if count > 1 and line not in ("(nothing)", "(no room)")
    ]


@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=6),
    st.sampled_from(["bare", "apart", "after a date"]),
)
def test_no_compaction_adds_a_line_that_is_there(parts, shape):
    messages, at = [user(ASKED)], 0
    for turn, count in enumerate(parts):
        messages += rounds(count + 4, at, lines=20)
        at += count + 4
        messages += [said(f"Part {turn} is done."), user(f"Now do part {turn + 1}.")]
        done = ullage.compact(messages, keep=0)
        summary = done.summary_messages[-1]["content"]
        assert not repeated(summary.partition("[End of the summary]")[0])
        assert summary.count("Opened with") == 1
        messages = list(done.messages)
        if shape == "after a date":
            messages[0] = user([text(DATE), text(summary)])
        elif shape == "apart":
            messages[0] = user([text(summary)])
    assert summary.count(ASKED) == 2


def test_equal_failures_are_one_line():
    failing = []
    for i in range(9):
        failing += [
            said([use(f"f{i}", "Bash", command="make check")]),
            user([result(f"f{i}", "error: no rule", is_error=True)]),
        ]
    summary = extractive_text(
        AskedCompaction("claude_code", [user("Build it."), *failing, said("Hm.")])
    )
    assert summary.partition("## 5")[0].count("error: no rule") == 1


# ---- what a summarizer is sent ---------------------------------------------------------------


def test_restored_attachments_of_a_file_are_not_summarised_again(tmp_path):
    """What a client put back after its compaction is put back again, not summarised (A-M1)."""
    asked = []

    def summarizer(request):
        asked.append(json.dumps(request.messages))
        return "\n".join(f"{n}. {name}:\n   x" for n, name in enumerate(HEADINGS, 1))

    from ullage.facts.sections import HEADINGS

    lines = [
        {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None, "sessionId": "s", "compactMetadata": {"trigger": "auto", "preTokens": 1}},
        {"type": "user", "uuid": "s", "parentUuid": "b", "isCompactSummary": True, "message": user(f"{LEAD}1. Primary Request and Intent:\n   x")},
        {"type": "attachment", "uuid": "f", "parentUuid": "s", "attachment": {"type": "file", "filename": "/w/a.py", "content": {"type": "text", "file": {"filePath": "/w/a.py", "content": "RESTORED = 1\n" * 400}}}},
        {"type": "attachment", "uuid": "k", "parentUuid": "f", "attachment": {"type": "invoked_skills", "skills": [{"name": "w", "content": "RESTORED skill " * 200}]}},
    ]  # fmt: skip
    parent = "k"
    for at, message in enumerate([user("Go on."), *rounds(30), said("Done.")]):
        lines.append({"type": message["role"], "uuid": f"u{at}", "parentUuid": parent, "sessionId": "s", "message": message})  # fmt: skip
        parent = f"u{at}"
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps({"timestamp": "2026-11-23T10:00:00.000Z", "sessionId": "s", **line}) + "\n" for line in lines))  # fmt: skip
    session = ullage.open_session(path)
    for items in (session.items, session.messages, ullage.resume(lines).entries):
        ullage.compact(items, summarizer=summarizer, keep=0)
    assert len(asked) == 3
    assert all("RESTORED" not in each and "Go on." in each for each in asked)

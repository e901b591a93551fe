"""Whose text it is, in the shapes that coding agents send: the texts here are made, the frames around them are the programs' own."""

from __future__ import annotations

import json

import pytest

from tests.kit import result, said, text, use, user
from ullage.facts import collect, is_user_input
from ullage.facts.tallies import ANSWER_CHARS
from ullage.facts.words import (
    Kind,
    ends_of,
    is_host_only,
    own_text,
    own_words,
    standing_in,
    standing_left,
    summary_text,
    without_host_text,
    words_of,
)


def reminder(inner: str) -> str:
    return f"<system-reminder>\n{inner}\n</system-reminder>"


RULES = (
    "Codebase and user instructions are shown below. Be sure to adhere to them.\n\n"
    "Contents of /w/CLAUDE.md (project instructions, checked into the codebase):\n\n- RULE-00: run make check"
)
ENVIRONMENT = "# Environment\nYou have been invoked in the following environment: \n - Primary working directory: /w"
SKILLS = "The following skills are available for use with the Skill tool:\n\n- zulu: draws charts"
DATE = "Today's date is 2026-11-23."
COMMAND = (
    "<command-name>/compact</command-name>\n            <command-message>compact</command-message>\n"
    "            <command-args></command-args>\n"
)
CAVEAT = "<local-command-caveat>The command below was run directly.</local-command-caveat>\n"
OUTPUT = "<local-command-stdout>Compacted (ctrl+o to see full summary)</local-command-stdout>\n"
SKILL = "Base directory for this skill: /w/.claude/skills/writing\n\nUse this skill whenever you write. Never use passive voice.\n\n\nARGUMENTS: a letter"
FOO = "<command-message>foo</command-message>\n<command-name>/foo</command-name>\n<command-args>the parser</command-args>\n"
NOTIFICATION = """[SYSTEM NOTIFICATION - NOT USER INPUT]
This is an automated background-task event, NOT a message from the user.

<task-notification>
<task-id>a1</task-id>
<tool-use-id>t1</tool-use-id>
<output-file>/tmp/tasks/a1.output</output-file>
<status>completed</status>
<summary>Agent "explore things" finished</summary>
<result>The cache lives in src/cache.py; its limit is 4,096.</result>
<usage><subagent_tokens>1010</subagent_tokens></usage>
</task-notification>"""
LAUNCHED = "Async agent launched successfully. (This tool result is internal metadata — never quote or paste any part of it.)\nagentId: a1"


def words(*blocks: str) -> tuple[str, Kind]:
    return tuple(own_words(user([text(block) for block in blocks])))


# ---- the user's words ------------------------------------------------------------------------


def test_the_first_message_of_claude_code_holds_one_request():
    blocks = [reminder(part) for part in (ENVIRONMENT, SKILLS, RULES, DATE)]
    assert words(*blocks, "Port the parser.") == ("Port the parser.", Kind.PROMPT)
    assert [entry.text for entry in collect([user([text(b) for b in [*blocks, "Port it."]])]).inputs] == ["Port it."]  # fmt: skip


@pytest.mark.parametrize("request_text", ["And now the rest.", "Never touch billing."])
def test_a_request_next_to_a_command_and_reminders_is_the_users(request_text):
    """As sessions give it after `/compact`: everything in one user message (Q18)."""
    blocks = (reminder(RULES), CAVEAT, COMMAND, OUTPUT, request_text)
    assert words(*blocks) == (request_text, Kind.PROMPT)
    assert tuple(words_of("".join(blocks))) == (request_text, Kind.PROMPT)
    assert words(reminder(RULES), FOO, OUTPUT, request_text) == (f"/foo the parser\n\n{request_text}", Kind.PROMPT)  # fmt: skip


def test_a_command_that_is_written_out_is_what_the_user_typed():
    assert words(FOO, "Look at the parser. Always answer as a table.\n") == ("/foo the parser", Kind.COMMAND)  # fmt: skip
    assert words(reminder(DATE), FOO, SKILL) == ("/foo the parser", Kind.COMMAND)


def test_a_skill_is_nobodys_rule():
    facts = collect([user(SKILL), said("I look."), user([text(FOO), text(SKILL)])])
    assert [entry.text for entry in facts.inputs] == ["/foo the parser"]
    assert facts.standing == ()
    assert not is_user_input(user(SKILL))


@pytest.mark.parametrize(
    "typed",
    [
        "Base directory for this skill: is that line ours?",
        "Why does <system-reminder>x</system-reminder> show up in the log?",
        "What does <command-name>/x</command-name> mean in the log?",
        "Rename the tag <environment_context> to <env>.",
        "# Environment\nis the heading I want in README.md",
        "Explain this: Codebase and user instructions are shown below",
    ],
)
def test_words_that_only_name_a_hosts_marks_are_the_users(typed):
    assert words(typed) == (typed, Kind.PROMPT)
    assert standing_in(user(typed)) == []
    assert not is_host_only(user(typed))


def test_what_is_pasted_amid_words_does_not_stand():
    pasted = f"Look at this log:\n{reminder(RULES)}\nwhat is it?"
    assert standing_in(user(pasted)) == []
    assert words(pasted)[0].startswith("Look at this log:")


def test_what_was_typed_after_a_shell_command_is_not_lost():
    blocks = ("<bash-input>ls</bash-input>", "<bash-stdout>a.py</bash-stdout>", "Delete a.py.")
    assert words(*blocks)[0] == words_of("\n".join(blocks)).text == "! ls\n\nDelete a.py."


def test_thousands_of_elements_take_no_time():
    told = reminder("x") * 5_000 + "word " * 40_000 + "\n" + reminder("y") * 5_000
    assert words_of(told).text == ("word " * 40_000).strip()


def test_a_rule_is_whole_or_none():
    """An element amid a sentence is not left out of it (Q16)."""
    given = "Never exceed <budget>50 $</budget> without explicit approval. Never push to main."
    assert [rule.text for rule in collect([user(given)]).standing] == ["Never push to main."]
    assert collect([user(given)]).inputs[0].text == given


def test_an_interruption_does_not_hide_what_was_typed_with_it():
    assert words("[Request interrupted by user]", "Use the other one.") == ("Use the other one.", Kind.PROMPT)  # fmt: skip
    assert words("[Request interrupted by user]") == ("", Kind.INTERRUPT)


# ---- notifications and reminders in results --------------------------------------------------


@pytest.mark.parametrize("frame", [reminder(NOTIFICATION), NOTIFICATION.partition("\n\n")[2]])
def test_a_sub_agent_answers_by_its_notification(frame):
    call = said([use("t1", "Agent", description="explore things", prompt="find the cache")])
    facts = collect([user("Port it."), call, user([result("t1", LAUNCHED)]), user(frame)])
    assert [entry.text for entry in facts.inputs] == ["Port it."]
    assert [run.answer for run in facts.agents] == [
        "The cache lives in src/cache.py; its limit is 4,096."
    ]
    assert "explore" in facts.agents[0].what
    assert not any("internal metadata" in run.answer for run in facts.agents)


def test_a_background_command_that_ended_is_no_request():
    told = "<task-notification>\n<task-id>b</task-id>\n<status>completed</status>\n<summary>Background command \"make\" completed (exit code 0)</summary>\n</task-notification>\nRead the output file to retrieve the result: /tmp/b.output"  # fmt: skip
    facts = collect([user("Build it."), said("I wait."), user(reminder(told))])
    assert [entry.text for entry in facts.inputs] == ["Build it."]
    assert facts.agents[0].what == 'Background command "make" completed (exit code 0)'


@pytest.mark.parametrize(("ending", "ok"), [("completed (exit code 0)", True), ("failed with exit code 2", False)])  # fmt: skip
def test_a_notification_ends_the_background_command_that_it_names(ending, ok):
    told = f"<task-notification>\n<task-id>b</task-id>\n<status>x</status>\n<summary>Background command \"make\" {ending}</summary>\n</task-notification>"  # fmt: skip
    calls = [said([use(name, "Bash", command=f"make {name}")]) for name in "bc"]
    running = [user([result(name, f"Command running in background with ID: {name}. Output is being written to: /tmp/{name}")]) for name in "bc"]  # fmt: skip
    items = [user("Build it."), calls[0], running[0], calls[1], running[1]]
    facts = collect([*items, user(reminder(told))])
    assert [command.ok for command in facts.commands] == [ok, None]
    assert len(facts.failures) == (not ok)


def test_reminders_after_a_result_give_no_names():
    shown = f"alpha_value = 1\n\n{reminder('Use TaskCreate and TaskUpdate with in_progress.')}\n\n{reminder('<total_tokens>14998990 tokens left</total_tokens>')}"
    assert own_text(shown) == "alpha_value = 1"
    items = [said([use("t1", "Read", file_path="a.py")]), user([result("t1", shown)])] * 2
    names = {name.text for name in collect([user("Read a.py"), *items]).names}
    assert "alpha_value" in names
    assert not names & {"TaskCreate", "TaskUpdate", "in_progress", "total_tokens"}


def test_a_result_that_only_mentions_a_tag_stays_whole():
    shown = "see `<system-reminder>x</system-reminder>`"
    assert own_text(shown) == shown


# ---- what stands -----------------------------------------------------------------------------


def test_what_stands_is_the_very_block():
    blocks = [text(reminder(RULES)), text(reminder("Use the todo tool.")), text("Go.")]
    found = standing_in(user(blocks))
    assert [each.block for each in found] == [blocks[0]]
    assert found[0].block is blocks[0]


@pytest.mark.parametrize("is_meta", [True, False])
def test_codex_says_of_a_sub_agent_that_it_has_begun_and_later_its_answer(is_meta: bool):
    answer = {"agent_path": "0197-a", "status": {"completed": "The cache lives in src/cache.py."}}
    told = f"<subagent_notification>\n{json.dumps(answer)}\n</subagent_notification>"
    items = [
        user("Find the cache."),
        said([use("c1", "spawn_agent", message="Explore the cache", agent_type="explorer")]),
        user([result("c1", '{"agent_id":"0197-a","nickname":"Ohm"}')]),
        {"type": "user", "isMeta": is_meta, "message": user([text(told)])},
    ]
    (run,) = collect(items).agents
    assert "Explore the cache" in run.what
    assert run.answer == "The cache lives in src/cache.py."
    assert [entry.text for entry in collect(items).inputs] == ["Find the cache."]


@pytest.mark.parametrize("answer", ['{"agent_id":"0197-a","answer":"It is done."}', "{}"])
def test_what_a_sub_agent_answers_at_once_is_no_launch(answer: str):
    call = said([use("c1", "spawn_agent", message="Explore", agent_type="explorer")])
    facts = collect([user("Find it."), call, user([result("c1", answer)])])
    assert [run.answer for run in facts.agents] == [answer]


@pytest.mark.parametrize(
    "body", ["", "{}", '{"status": {"completed": 7}}', "[" * 9_000, '{"status": []}']
)
def test_a_notification_of_another_shape_is_data_as_it_is(body: str):
    items = [user(f"<subagent_notification>{body}</subagent_notification>")]
    assert [run.answer for run in collect(items).agents] == [ends_of(body, ANSWER_CHARS)]


def test_agents_md_and_environment_stand():
    agents = "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\n- be brief\n</INSTRUCTIONS>"
    environment = "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>"
    for item in (user([text(agents), text(environment)]), user(f"{agents}\n\n{environment}")):
        assert [each.block["text"] for each in standing_in(item)] == [agents, environment]
        assert is_host_only(item)
        assert collect([item]).inputs == ()


def newest(*texts: str) -> list[str]:
    items = [user(reminder(each)) for each in texts]
    left = standing_left([*items, user("Go on.")], range(len(items)))
    return [
        each["text"]
        for _, item in left
        for each in (
            [text(item["content"])] if isinstance(item["content"], str) else item["content"]
        )
    ]


def test_the_newest_version_stands():
    changed = RULES.replace("RULE-00", "RULE-99")
    assert newest(RULES, ENVIRONMENT, changed) == [reminder(ENVIRONMENT), reminder(changed)]


def test_an_environment_that_names_only_a_change_leaves_the_older_one():
    def environment(*fields):
        rows = "".join(f"  <{name}>{value}</{name}>\n" for name, value in fields)
        return user(f"<environment_context>\n{rows}</environment_context>")

    whole, later = environment(("cwd", "/w"), ("date", "1")), environment(("date", "2"))
    moved = environment(("cwd", "/v"), ("date", "3"))
    assert [item for _, item in standing_left([whole, later], {0, 1})] == [whole, later]
    assert [item for _, item in standing_left([whole, later, moved], {0, 1, 2})] == [moved]


def test_a_list_that_only_adds_leaves_the_older_one():
    more = SKILLS.replace("zulu: draws charts", "yankee: writes")
    both = f"{SKILLS}\n- yankee: writes"
    assert newest(SKILLS, more) == [reminder(SKILLS), reminder(more)]
    assert newest(SKILLS, more, both) == [reminder(both)]


def test_a_summary_call_is_sent_no_host_text_but_answers():
    held = user([text(reminder(RULES)), text(reminder(NOTIFICATION)), text("Go.")])
    told = without_host_text(held)
    assert [block["text"] for block in told["content"]] == [reminder(NOTIFICATION), "Go."]
    assert without_host_text(user(reminder(RULES))) is None
    plain = user("Go.")
    assert without_host_text(plain) is plain


# ---- summaries -------------------------------------------------------------------------------

SUMMARY = "This session is being continued from a previous conversation that ran out of context. The summary below covers it.\n\nSummary:\n1. Primary Request and Intent:\n   Port it."  # fmt: skip


def test_a_summary_is_recognised_by_block():
    assert summary_text(user([text(reminder(DATE)), text(SUMMARY)])) == SUMMARY
    assert summary_text(user(f"{reminder(DATE)}\n{SUMMARY}"))
    both = user([text(SUMMARY), text(COMMAND), text("Go on with it.")])
    assert summary_text(both) == SUMMARY
    assert own_words(both).text == "Go on with it."
    facts = collect([both])
    assert [entry.text for entry in facts.inputs] == ["Go on with it."]
    assert facts.previous is not None


def test_a_summary_that_the_user_quotes_is_no_summary():
    assert not summary_text(user([text("What does this mean?"), text(SUMMARY)]))

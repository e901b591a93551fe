"""What hosts put there to stand, through every level, a refusal, a restart and the gateway's way of asking (HOST-1)."""

from __future__ import annotations

import json
import re

import pytest

import ullage
from tests.kit import result, said, text, use, user
from ullage import ContextManager
from ullage.exceptions import ContextTooLarge
from ullage.policy import Policy

RULES = "\n".join(
    f"- RULE-{i:02d}: run make check-{i}; never edit generated/{i}.py" for i in range(80)
)
AGENTS = "\n".join(f"- agent{i}: AGENT-{i:02d} looks at part {i}" for i in range(30))
FIRST = user(
    [
        text(f"<system-reminder>\n# claudeMd\nContents of /w/CLAUDE.md (project instructions):\n\n{RULES}\n</system-reminder>\n"),
        text("Port the parser."),
    ]
)  # fmt: skip
SYSTEM = {"role": "system", "content": f"# Environment\nYou work in /w\n\nAvailable agent types for the Agent tool:\n{AGENTS}"}  # fmt: skip
NOTIFICATION = "<system-reminder>\n[SYSTEM NOTIFICATION - NOT USER INPUT]\n\n<task-notification>\n<task-id>a</task-id>\n<status>completed</status>\n<summary>Agent \"look\" finished</summary>\n<result>Forty-two.</result>\n</task-notification>\n</system-reminder>"  # fmt: skip
MODEL = "claude-opus-5-5"
WINDOW = 40_000

POLICIES = {
    "default": {},
    "fold": {"auto.enabled": False},
    "fold alone": {"auto.enabled": False, "micro.by_line": False, "micro.by_supersession": False, "snip.enabled": False},
    "collapse": {"collapse.enabled": True},
}  # fmt: skip


def step(i: int) -> list:
    call = said([use(f"t{i}", "Bash", command=f"seq {i} 3000")])
    return [call, user([result(f"t{i}", "\n".join(map(str, range(i, 1500))))])]


def held(messages) -> tuple[int, int, int]:
    told = json.dumps(messages)
    agents = len(set(re.findall(r"AGENT-\d\d", told)))
    return len(set(re.findall(r"RULE-\d\d", told))), told.count("RULE-07"), agents


def manager(**changes) -> ContextManager:
    policy = Policy.buffered().change(changes)
    return ContextManager(model=MODEL, context_window=WINDOW, policy=policy)


@pytest.mark.parametrize("kind", POLICIES)
def test_it_stands_once_in_every_request(kind):
    context = manager(**POLICIES[kind])
    context.add(FIRST)
    context.add(SYSTEM)
    stages = set()
    for i in range(40):
        for message in step(i):
            context.add(message)
        request = context.prepare()
        stages.update(report.stage for report in request.reports)
        assert held(request.messages) == (80, 1, 30), [r.stage for r in request.reports]
        assert [m["content"] for m in request.messages if m["role"] == "system"] == [SYSTEM["content"]]  # fmt: skip
        assert ullage.validate(request.messages, model=MODEL).ok
    wanted = {"default": "autocompact", "collapse": "collapse"}.get(kind, "fold")
    assert wanted in stages
    assert context.usage().by_category["host text"] > 2_000
    assert "other" not in context.usage().by_category


@pytest.mark.parametrize("kind", ["default", "collapse", "fold"])
def test_it_stands_after_a_refusal(kind):
    context = manager(**POLICIES[kind])
    context.add(FIRST)
    context.add(SYSTEM)
    steps = []
    for i in range(12):
        for message in step(i):
            context.add(message)
        context.prepare()
        done = context.on_overflow(
            f"prompt is too long: {WINDOW + 5_000 - 800 * i} tokens > {WINDOW - 800 * i} maximum"
        )
        steps.append(done.step if done else "")
        assert held(context.prepare().messages) == (80, 1, 30)
    assert any(steps)


def test_truncation_keeps_it_and_says_where_it_cannot():
    context = manager(**{"auto.enabled": False})
    context.add(FIRST)
    for each in range(12):
        context.add(user(f"Part {each}: " + "word " * 4_000))
        context.add(said("Done."))
    context.add(user("Look at this: " + "word " * 12_000))
    request = context.prepare()
    assert "truncate" in {report.stage for report in request.reports}
    assert held(request.messages)[:2] == (80, 1)

    small = ContextManager(model=MODEL, context_window=6_000, policy=Policy.buffered().change({"auto.enabled": False}))  # fmt: skip
    small.add(FIRST)
    small.add(said("Done."))
    small.add(user("Look at this: " + "word " * 3_300))
    try:
        request = small.prepare()
    except ContextTooLarge as error:
        pytest.fail(f"better without the host's text than not at all: {error}")
    told = [line for report in request.reports for line in report.failures]
    assert any(line.startswith("host_text_left_out:") for line in told)
    assert "Look at this" in json.dumps(request.messages)


def test_a_new_version_replaces_the_old_one():
    context = manager()
    context.add(FIRST)
    for i in range(20):
        for message in step(i):
            context.add(message)
        context.prepare()
    changed = json.loads(
        json.dumps(FIRST).replace("RULE-", "NEW-").replace("Port the parser", "Now the tests")
    )
    context.add(said("Done."))
    context.add(changed)
    for i in range(20, 45):
        for message in step(i):
            context.add(message)
        request = context.prepare()
    told = json.dumps(request.messages)
    assert held(request.messages)[:2] == (0, 0)
    assert (len(set(re.findall(r"NEW-\d\d", told))), told.count("NEW-07")) == (80, 1)


def test_a_notification_is_neither_the_newest_request_nor_lost():
    context = manager(**POLICIES["fold alone"])
    context.add(FIRST)
    for i in range(2):
        for message in step(i):
            context.add(message)
    context.add(said("I wait."))
    context.add(user(NOTIFICATION))
    for i in range(2, 14):
        for message in step(i):
            context.add(message)
        request = context.prepare()
    record = next(m["content"] for m in request.messages if "as a record of who wrote" in str(m["content"]))  # fmt: skip
    assert "Forty-two." in record
    assert "NOT USER INPUT" not in record
    assert "Port the parser." in json.dumps(request.messages)
    assert "Forty-two" not in json.dumps(request.messages[-1])


def test_a_log_and_a_saved_state_bring_it_back(tmp_path):
    from ullage.transcript import TranscriptLog

    path = tmp_path / "log.jsonl"
    with TranscriptLog.open(path) as log:
        context = ContextManager(model=MODEL, context_window=WINDOW, log=log)
        context.add(FIRST)
        context.add(SYSTEM)
        for i in range(20):
            for message in step(i):
                context.add(message)
            request = context.prepare()
        for message in step(20):
            context.add(message)
        after = context.prepare()
    assert held(request.messages) == (80, 1, 30)
    with TranscriptLog.open(path) as log:
        resumed = ContextManager.resume(log, model=MODEL, context_window=WINDOW)
        assert resumed.prepare().messages == after.messages


def test_every_count_has_it_as_its_own_category(engine):
    from ullage.levels import inspect_messages

    noted = user("<system-reminder>\nUse the todo tool.\n</system-reminder>", isMeta=True)
    entries = [
        {
            "type": message["role"],
            "message": message,
            **({"isMeta": True} if message is noted else {}),
        }
        for message in (user("Port it."), noted, said("Done."))
    ]
    assert inspect_messages(entries).categories["host text"] > 0
    held_by = inspect_messages([FIRST, SYSTEM, said("Done."), user(NOTIFICATION)])
    assert held_by.user_inputs == 1
    assert held_by.categories["host text"] > 1_400 > 50 > held_by.categories["user"]
    assert sum(held_by.categories.values()) == held_by.anchored_tokens

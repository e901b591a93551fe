"""What is put back: budgets, order, what is still visible, and entries that a transcript can hold."""

from __future__ import annotations

import re

import pytest

from ullage.compaction import Providers, Skill, compact
from ullage.compaction.restore import recent_files
from ullage.exceptions import InvalidPolicy
from ullage.facts import collect
from ullage.policy import Policy, RestorePolicy
from ullage.transcript.index import resume
from ullage.transcript.render import render


def turn(n: int, path: str) -> list[dict]:
    call = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"file_path": path}}
    result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "x = 1\n" * 300}
    return [
        {"role": "user", "content": f"Read {path}"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    ]


def conversation(count: int = 8) -> list[dict]:
    return [message for n in range(count) for message in turn(n, f"/w/f{n}.py")]


def entries(messages: list[dict]) -> list[dict]:
    made, parent = [], None
    for n, message in enumerate(messages):
        entry = {"type": message["role"], "uuid": f"u{n}", "parentUuid": parent, "sessionId": "s"}
        stamp = f"2026-01-01T00:00:{n:02}.000Z"
        made.append({**entry, "timestamp": stamp, "message": message})
        parent = f"u{n}"
    return made


FILES = Providers(read_file=lambda path: f"content of {path}\n" * 10)


def test_newest_files_first_and_at_most_five():
    result = compact(conversation(), keep=0, providers=FILES)
    names = [a["content"].split("/w/")[1].split(".py")[0] for a in result.attachments]
    assert names == ["f7", "f6", "f5", "f4", "f3"]


def test_a_file_whose_read_is_kept_is_not_put_back():
    facts, visible = collect(conversation()), collect(turn(1, "/w/f7.py"))
    assert recent_files(facts, visible, RestorePolicy()) == [f"/w/f{n}.py" for n in (6, 5, 4, 3, 2)]


def test_plan_and_memory_files_are_skipped():
    providers = Providers(read_file=FILES.read_file, skip_file=lambda path: path.endswith("f7.py"))
    result = compact(conversation(), keep=0, providers=providers)
    assert all("/w/f7.py" not in a["content"] for a in result.attachments)


def test_a_missing_file_is_left_out_and_a_huge_one_named():
    contents = {"/w/f7.py": None, "/w/f6.py": "y" * 1_000_000, "/w/f5.py": "fine"}
    result = compact(conversation(), keep=0, providers=Providers(read_file=contents.get))
    huge, fine = (attachment["content"] for attachment in result.attachments)
    assert "/w/f6.py was read before" in huge
    assert "yyy" not in huge
    assert "fine" in fine


def test_one_file_under_two_names_is_put_back_once():
    messages = [*turn(1, "/w/a.py"), *turn(2, "/w/b/../a.py"), *turn(3, "/w/b.py")]
    result = compact(messages, keep=0, providers=FILES)
    names = [a["content"].splitlines()[1] for a in result.attachments]
    assert names == ["File /w/b.py:", "File /w/b/../a.py:"]


def test_the_plan_is_no_recent_file_and_a_skipped_file_gives_its_place():
    plan = Providers(read_file=FILES.read_file, plan=lambda: ("/w/f7.py", "first this"))
    texts = [a["content"] for a in compact(conversation(), keep=0, providers=plan).attachments]
    assert sum("/w/f7.py" in text for text in texts) == 1
    skip = Providers(read_file=FILES.read_file, skip_file=lambda path: path.endswith("f7.py"))
    assert len(compact(conversation(), keep=0, providers=skip).attachments) == 5


def test_a_skill_is_put_back_once():
    skills = [Skill("review", "newest text " * 50), Skill("review", "older"), Skill("deploy", "x")]
    result = compact(conversation(), keep=0, providers=Providers(skills=lambda: skills))
    text = result.attachments[0]["content"]
    assert text.count("## review") == 1
    assert "older" not in text
    assert "## deploy" in text


def test_all_eight_kinds_in_their_order():
    providers = Providers(
        read_file=lambda path: "x = 1" if path == "/w/f7.py" else None,
        plan=lambda: ("/w/plan.md", "first this"),
        skills=lambda: [Skill("review", "look twice")],
        plan_mode=lambda: True,
        tasks=lambda: [{"type": "task_status", "taskId": "b1", "status": "running"}],
        tools=lambda: [{"type": "deferred_tools_delta", "addedNames": ["Zoom"]}],
        agents=lambda: [{"type": "agent_listing_delta", "addedTypes": ["Explore"]}],
        mcp=lambda: [{"type": "mcp_instructions_delta", "addedBlocks": ["Use the wiki."]}],
    )
    made = [
        a["attachment"]["type"]
        for a in compact(entries(conversation()), keep=0, providers=providers).attachments
    ]
    assert made == [
        "file",
        "plan_file_reference",
        "invoked_skills",
        "plan_mode",
        "task_status",
        "deferred_tools_delta",
        "agent_listing_delta",
        "mcp_instructions_delta",
    ]
    result = compact(conversation(), keep=0, providers=providers)
    words = ("x = 1", "first this", "look twice", "Plan mode", "b1", "Zoom", "Explore", "the wiki")
    for word, attachment in zip(words, result.attachments, strict=True):
        assert word in attachment["content"]


def test_the_budget_of_one_file_and_of_all():
    policy = Policy().change({"restore.file_max_tokens": 100, "restore.files_max_tokens": 250})
    providers = Providers(read_file=lambda path: "some line of code\n" * 40)
    result = compact(conversation(), keep=0, providers=providers, policy=policy)
    assert len(result.attachments) == 3
    assert all("more lines; read the file" in a["content"] for a in result.attachments)


def test_a_file_of_one_long_line_says_how_many_characters_are_missing():
    policy = Policy().change({"restore.file_max_tokens": 100})
    providers = Providers(
        read_file=lambda path: "a = 1; " * 100, plan=lambda: ("/p", "b " * 60_000)
    )
    *files, plan = compact(conversation(), keep=0, providers=providers, policy=policy).attachments
    for attached in (*files, plan):
        (left,) = re.findall(r"… (?:cut, )?([\d,]+) more characters;", attached["content"])
        assert int(left.replace(",", "")) > (80_000 if attached is plan else 200)


def test_skills_from_the_top_plan_mode_and_what_the_host_gives():
    skills = [Skill("one", "step " * 20_000), Skill("two", "short")]
    todo = {"type": "task_status", "taskId": "7", "status": "running", "description": "build"}
    providers = Providers(skills=lambda: skills, plan_mode=lambda: True, tasks=lambda: [todo])
    result = compact(entries(conversation(20)), keep=0, providers=providers)
    kinds = [entry["attachment"]["type"] for entry in result.attachments]
    assert kinds == ["invoked_skills", "plan_mode", "task_status"]
    one, two = result.attachments[0]["attachment"]["skills"]
    assert "cut; the rest is in the skill's file" in one["content"]
    assert two["content"] == "short"


def test_a_compaction_is_not_given_up_for_its_attachments():
    skills = [Skill(str(number), "step " * 20_000) for number in range(5)]
    result = compact(conversation(4), keep=0, providers=Providers(skills=lambda: skills))
    assert result.compacted
    assert result.attachments == ()
    assert "attachments_left_out" in result.report.warnings


def test_entries_can_be_appended_and_resumed():
    items = entries(conversation())
    hooks = {"session_start": [lambda payload: "hello again"]}
    result = compact(items, keep=1_500, providers=FILES, hooks=hooks)
    assert result.boundary["subtype"] == "compact_boundary"
    assert result.boundary["compactMetadata"]["messagesSummarized"] == len(result.report.removed)
    assert result.boundary["compactMetadata"]["postTokens"] == result.report.tokens_after
    stored = resume([*items, *result.new_entries])
    assert stored.messages == resume(list(result.messages)).messages
    assert [e["uuid"] for e in stored.entries] == [
        m["uuid"] for m in result.messages if m is not result.boundary
    ]
    assert all(
        mine is theirs for mine, theirs in zip(result.kept, items[-len(result.kept) :], strict=True)
    )


def test_the_kept_beginning_is_anchored_at_the_boundary():
    items = entries(conversation())
    result = compact(items, direction="from", at="u16")
    segment = result.boundary["compactMetadata"]["preservedSegment"]
    assert segment == {"headUuid": "u0", "anchorUuid": result.boundary["uuid"], "tailUuid": "u15"}
    assert resume([*items, *result.new_entries]).messages == resume(list(result.messages)).messages


# ---- nothing crowds out the rest, nothing is announced twice ------------------------------------------


def kinds(result) -> list[str]:
    return [entry["attachment"]["type"] for entry in result.attachments]


def listing(count: int, words: int = 1) -> dict:
    lines = [f"Tool{n}: " + "does something useful " * words for n in range(count)]
    return {"type": "deferred_tools_delta", "addedNames": [f"Tool{n}" for n in range(count)], "addedLines": lines}  # fmt: skip


def test_a_plan_of_any_length_is_put_back_from_its_top_with_the_rest():
    for plan in ("short", "line of the plan\n" * 40_000, "x" * 600_000):
        providers = Providers(read_file=FILES.read_file, plan=lambda text=plan: ("/plan.md", text), plan_mode=lambda: True)  # fmt: skip
        result = compact(entries(conversation(60)), keep=0, providers=providers)
        assert kinds(result) == [*["file"] * 5, "plan_file_reference", "plan_mode"]
        shown = result.attachments[5]["attachment"]["planContent"]
        assert plan.startswith(shown.split("\n[… cut")[0])
        assert ("read /plan.md for the rest" in shown) is (plan != "short")
        assert "attachments_left_out" not in result.report.warnings


def test_where_room_is_short_the_least_important_are_left_out():
    providers = Providers(
        read_file=lambda path: "y = 2\n" * 2_000, plan_mode=lambda: True, plan=lambda: ("/plan.md", "first this")
    )  # fmt: skip
    result = compact(entries(conversation(12)), keep=0, providers=providers)
    assert result.compacted
    assert kinds(result)[-2:] == ["plan_file_reference", "plan_mode"]
    assert "attachments_left_out" in result.report.warnings
    assert result.report.tokens_after < result.report.tokens_before


@pytest.mark.parametrize(
    ("name", "many"),
    [
        ("tasks", [{"type": "task_status", "taskId": f"b{n}", "status": "running", "deltaSummary": "built " * 400} for n in range(90)]),
        ("tasks", [{"type": "task_status", "taskId": "b", "status": "running", "deltaSummary": "built " * 90_000}]),
        ("tools", [listing(9_000, 4)]),
        ("agents", [{"type": "agent_listing_delta", "addedTypes": [f"Agent{n}" for n in range(40_000)]}]),
        ("mcp", [{"type": "mcp_instructions_delta", "addedNames": ["a", "b"], "addedBlocks": ["Use it. " * 2_000, "Or not. " * 40_000]}]),
    ],
)  # fmt: skip
def test_every_kind_of_state_has_a_budget(name, many):
    result = compact(
        entries(conversation(120)), keep=0, providers=Providers(**{name: lambda: many, "plan_mode": lambda: True})
    )  # fmt: skip
    limit = RestorePolicy().state_max_tokens
    texts = [str(render(entry["attachment"])) for entry in result.attachments]
    assert "plan_mode" in kinds(result)
    assert len(kinds(result)) > 1
    assert limit // 4 < sum(len(text) // 4 for text in texts) < limit * 11 // 10
    assert any(warning.startswith(f"attachments_cut:{name}:") for warning in result.report.warnings)


def test_what_the_kept_messages_announce_is_not_announced_again():
    items = entries(conversation())
    last = {**items[-1], "uuid": "last", "parentUuid": items[-1]["uuid"], "type": "attachment"}
    last = {key: value for key, value in last.items() if key != "message"} | {
        "attachment": listing(3)
    }
    providers = Providers(tools=lambda: [listing(5)], mcp=list)
    result = compact([*items, last], keep=1_000, providers=providers)
    (made,) = result.attachments
    assert made["attachment"]["addedNames"] == ["Tool3", "Tool4"]
    assert len(made["attachment"]["addedLines"]) == 2
    again = Providers(tools=lambda: [listing(3)])
    assert compact([*items, last], keep=1_000, providers=again).attachments == ()


def test_one_state_a_task_and_each_text_once():
    def state(status, task="b1"):
        return {"type": "task_status", "taskId": task, "status": status}

    given = [state("running"), state("running", "b2"), state("done"), state("running", "b2")]
    providers = Providers(tasks=lambda: given, tools=lambda: [listing(2), listing(2)])
    result = compact(entries(conversation()), keep=0, providers=providers)
    told = [entry["attachment"] for entry in result.attachments]
    assert [(each.get("taskId"), each.get("status")) for each in told] == [("b1", "done"), ("b2", "running"), (None, None)]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("tasks", [{"type": "task_statu"}], "task_status"),
        ("tools", ["junk"], "tools[0]"),
        ("agents", [{"addedTypes": ["x"]}], "agents[0].type"),
        ("mcp", "text", "mcp"),
        ("plan", "text", "plan"),
        ("plan", ("/p.md", None), "plan"),
        ("skills", ["review"], "skills"),
        ("plan_mode", "yes", "plan_mode"),
    ],
)
def test_what_no_model_would_be_shown_is_reported(name, answer, words):
    providers = Providers(**{name: lambda: answer})
    with pytest.raises(InvalidPolicy) as caught:
        compact(conversation(), keep=0, providers=providers)
    assert words in f"{caught.value} {caught.value.hint}"
    result = compact(conversation(), keep=0, providers=providers, trigger="auto")
    assert (result.outcome.value, result.reason) == ("failed", "invalid_policy")

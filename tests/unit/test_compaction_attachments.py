"""What is put back: budgets, order, what is still visible, and entries that a transcript can hold."""

from __future__ import annotations

from ullage.compaction import Providers, Skill, compact
from ullage.compaction.attachments import recent_files
from ullage.facts import collect
from ullage.policy import Policy, RestorePolicy
from ullage.transcript.resume import resume


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


def test_missing_and_huge_files_are_left_out():
    contents = {"/w/f7.py": None, "/w/f6.py": "y" * 1_000_000, "/w/f5.py": "fine"}
    result = compact(conversation(), keep=0, providers=Providers(read_file=contents.get))
    assert len(result.attachments) == 1
    assert "fine" in result.attachments[0]["content"]


def test_the_budget_of_one_file_and_of_all():
    policy = Policy().change({"restore.file_max_tokens": 100, "restore.files_max_tokens": 250})
    providers = Providers(read_file=lambda path: "some line of code\n" * 40)
    result = compact(conversation(), keep=0, providers=providers, policy=policy)
    assert len(result.attachments) == 3
    assert all("more lines; read the file" in a["content"] for a in result.attachments)


def test_skills_from_the_top_plan_mode_and_what_the_host_gives():
    skills = [Skill("one", "step " * 20_000), Skill("two", "short")]
    todo = {"type": "task_status", "taskId": "7", "status": "running", "description": "build"}
    providers = Providers(
        skills=lambda: skills, plan_mode=lambda: True, tasks=lambda: [todo, "junk"]
    )
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

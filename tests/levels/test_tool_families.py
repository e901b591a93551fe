"""No tool is special by the spelling of its name: levels act on all tools alike, but those of an exclusion list (MIC-0)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ullage import ContextManager, FileStore, MemoryStore, Policy
from ullage.facts.calls import family_of, matches
from ullage.levels.provider_clearing import management
from ullage.recall import RECALL_TOOL

MODEL = "claude-opus-4-5"
CLAUDE_CODE = ("Read", "Bash", "Grep", "WebSearch")
OTHERS = (
    ("read_file", "run_shell", "grep_files", "search_db"),
    ("mcp__fs__readFile", "execute_command", "code_search", "query_warehouse"),
    ("READ", "bash", "GREP", "websearch"),
)
KEPT = (
    ("AskUserQuestion", "TodoWrite", "Task", "Skill", "memory"),
    ("ask_followup_question", "update_plan", "spawn_agent", "use_skill", "save_memory"),
    ("request_user_input", "manage_todo_list", "dispatch_agent", "LOAD_SKILL", "searchMemory"),
)


@pytest.mark.parametrize("names", OTHERS)
def test_spellings_of_one_tool_are_one_family(names: tuple[str, ...]) -> None:
    for ours, theirs in zip(CLAUDE_CODE[:3], names[:3], strict=True):
        assert family_of(ours) == family_of(theirs) != ""
        assert matches(theirs, [ours])
        assert matches(ours, [theirs])


@pytest.mark.parametrize("names", KEPT)
def test_what_is_kept_is_kept_in_every_spelling(names: tuple[str, ...]) -> None:
    kept = Policy.buffered().micro.exclude_tools
    assert all(matches(name, kept) for name in names)
    assert not any(matches(name, kept) for group in (CLAUDE_CODE, *OTHERS) for name in group)


def test_patterns_mean_what_they_say_and_names_a_family() -> None:
    assert matches("mcp__db__query", ["MCP__*"])
    assert not matches("view_file", ["Rea*"])
    assert matches("read_file", ["Rea?", "Read"])
    assert not matches("", ["Read"])
    assert not matches("readiness_probe", ["Read"])


def loop(
    names: tuple[str, ...], policy: Policy, steps: int = 40, **more: Any
) -> list[tuple[Any, ...]]:
    """An agent's loop; what each request's levels did, without the names."""
    manager = ContextManager(model=MODEL, policy=policy, store=MemoryStore(), **more)
    manager.add({"role": "user", "content": "go"})
    seen: list[tuple[Any, ...]] = []
    for n in range(steps):
        use = {
            "type": "tool_use",
            "id": f"t{n}",
            "name": names[n % len(names)],
            "input": {"file_path": f"f{n % 7}"},
        }
        text = f"line {n} of the output\n" * (n % 5 * 200 + 300)
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": text}
        stamp = {"timestamp": "2026-01-01T00:00:00Z"}
        manager.add({**stamp, "role": "assistant", "content": [use]})
        manager.add({"role": "user", "content": [result]})
        request = manager.prepare()
        seen += [
            (n, report.stage, report.tool_use_ids, report.removed_messages)
            for report in request.reports
        ]
    manager.add({"timestamp": "2026-01-01T00:00:00Z", "role": "assistant", "content": "done"})
    manager.add({"role": "user", "content": "next"})
    request = manager.prepare(now_ms=1_767_225_600_000 + 7_200_000)
    return [*seen, *[(steps, report.stage, report.tool_use_ids, 0) for report in request.reports]]


POLICIES = {
    "ladder": Policy.ladder(),
    "by time": Policy.buffered().change({"micro.by_time": True}),
    "by cache edit": Policy.buffered().change(
        {"micro.by_cache_edit": True, "micro.edit_start_percent": 10}
    ),
    "default": Policy.buffered(),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
@pytest.mark.parametrize("names", OTHERS)
def test_the_same_levels_act_whatever_the_tools_are_called(
    policy: Policy, names: tuple[str, ...]
) -> None:
    small = {"context_window": 60_000}
    # Of `search_db` no family is known; it is treated as any tool is.
    assert loop(names, policy, **small) == loop(CLAUDE_CODE, policy, **small) != []


def test_offloading_spares_what_reads_files_in_every_spelling(tmp_path: Any) -> None:
    def offloaded(name: str) -> bool:
        manager = ContextManager(model=MODEL, store=FileStore(tmp_path))
        manager.add({"role": "user", "content": "go"})
        manager.add(
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t", "name": name, "input": {}}],
            }
        )
        block = {"type": "tool_result", "tool_use_id": "t", "content": "x y " * 20_000}
        manager.add({"role": "user", "content": [block]})
        return "persisted-output" in json.dumps(manager.prepare().messages)

    assert [offloaded(name) for name in ("Read", "read_file", "run_shell", "Bash")] == [
        False,
        False,
        True,
        True,
    ]


def test_kept_tools_stay_through_a_pause() -> None:
    policy = Policy.buffered().change({"micro.by_time": True, "micro.keep_recent": 1})
    for names in KEPT:
        assert all(stage != "microcompact" for _, stage, _, _ in loop(names, policy, steps=15))


def test_the_providers_clearing_excludes_the_same_tools() -> None:
    policy = Policy.buffered().change({"micro.by_provider": True})
    found = management(policy, [*KEPT[1], *OTHERS[0]])
    assert found is not None
    assert set(found["edits"][0]["exclude_tools"]) == set(KEPT[1])


@pytest.mark.parametrize("offered", [True, False])
def test_what_is_cleared_names_its_handle_where_it_can_be_brought_back(offered: bool) -> None:
    policy = Policy.ladder().change({"micro.by_time": True})
    tools = [RECALL_TOOL.definition("anthropic")] if offered else []
    manager = ContextManager(model=MODEL, policy=policy, tools=tools)
    manager.add({"role": "user", "content": "go"})
    for n in range(12):
        use = {"type": "tool_use", "id": f"t{n}", "name": "search_db", "input": {"query": f"q{n}"}}
        manager.add({"timestamp": "2026-01-01T00:00:00Z", "role": "assistant", "content": [use]})
        block = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"row {n} " * 900}
        manager.add({"role": "user", "content": [block]})
    manager.add({"timestamp": "2026-01-01T00:00:00Z", "role": "assistant", "content": "done"})
    manager.add({"role": "user", "content": "next"})
    request = manager.prepare(now_ms=1_767_225_600_000 + 7_200_000)
    cleared = [each for report in request.reports for each in report.tool_use_ids]
    assert len(cleared) == 7
    sent = json.dumps(request.messages)
    for name in cleared:
        assert (f'recall handle \\"{name}\\"' in sent) is offered
        assert manager.recall.get(name).text.startswith("row ")

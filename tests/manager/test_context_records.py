"""What the levels decide is reported as lines for the transcript: a resume shows what was sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ullage.levels.turn_snip import SNIP_TOOL
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.recall.store import FileStore
from ullage.testing import conversation
from ullage.transcript import TranscriptLog

MODEL = "claude-opus-4-5"
OFF = {"auto.enabled": False, "truncate.start_percent": 100}
SMALL = {
    **OFF,
    "tool_budget.max_result_chars": 6_000,
    "snip.max_chars": 2_500,
    "snip.start_percent": 0,
    "micro.min_freed_tokens": 0,
    "micro.supersede_start_percent": 5,
    "protect.tool_results": 2,
    "micro.keep_recent": 2,
}
POLICIES = {
    "buffered": Policy.buffered().change(SMALL),
    "ladder": Policy.ladder().change(
        {**SMALL, "auto.start_percent": 0, "snip.start_percent": 0, "micro.line_start_percent": 5}
    ),
    "collapse": Policy.buffered().change(
        {**OFF, "snip.enabled": False, "micro.by_supersession": False, "collapse.enabled": True,
         "collapse.stage_percent": 5, "collapse.commit_percent": 5, "collapse.target_percent": 5,
         "collapse.min_span_tokens": 300, "protect.tool_results": 2, "micro.min_freed_tokens": 100}
    ),
}  # fmt: skip


def manager_of(policy: Policy, folder: Path) -> ContextManager:
    return ContextManager(model=MODEL, policy=policy, store=FileStore(folder))


def rounds(seed: int) -> list[list[dict[str, Any]]]:
    """The messages between two requests."""
    found: list[list[dict[str, Any]]] = [[]]
    for message in conversation(seed, tokens=30_000):
        if message["role"] == "assistant" and found[-1]:
            found.append([])
        found[-1].append(message)
    return found


def turns_of(messages: list[Any]) -> list[tuple[str, list[Any]]]:
    """Neighbours of one role together: a resume joins what a placeholder is next to."""
    found: list[tuple[str, list[Any]]] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if found and found[-1][0] == message["role"]:
            found[-1][1].extend(blocks)
        else:
            found.append((message["role"], list(blocks)))
    return found


@pytest.mark.parametrize("name", POLICIES)
def test_after_each_request_a_resume_shows_what_was_sent(name, tmp_path, monkeypatch):
    monkeypatch.setattr("ullage.levels.collapse.GAIN_PERCENT", 0)
    acted: set[str] = set()
    with TranscriptLog.open(tmp_path / "s.jsonl") as log:
        manager = manager_of(POLICIES[name].change({"cost.wait_requests": 0}), tmp_path / "results")
        for said in rounds(3):
            for entry in log.extend(said):
                manager.add(entry)
            request = manager.prepare()
            log.extend(request.records)
            acted |= {report.stage for report in request.reports}
            assert turns_of(log.resume().messages) == turns_of(request.messages)
    wanted = {"tool_budget", "snip", "microcompact"} if name != "collapse" else {"collapse"}
    assert acted == wanted


def test_a_later_decision_about_the_same_result_is_the_one_that_is_resumed(tmp_path):
    """Snipped first, one line later: two lines in the transcript, of which the second counts."""
    policy = POLICIES["ladder"]
    with TranscriptLog.open(tmp_path / "s.jsonl") as log:
        manager = manager_of(policy, tmp_path / "results")
        kinds: dict[str, list[str]] = {}
        for said in rounds(3):
            for entry in log.extend(said):
                manager.add(entry)
            for record in manager.prepare().records:
                log.append(record)
                for each in record.get("replacements", ()):
                    kinds.setdefault(each["toolUseId"], []).append("replaced")
                for name in record.get("microcompactMetadata", {}).get("compactedToolIds", ()):
                    kinds.setdefault(name, []).append("cleared")
        assert ["replaced", "cleared"] in kinds.values()
        assert log.resume().messages == manager.messages


def test_a_snipped_turn_is_among_the_lines(tmp_path):
    with TranscriptLog.open(tmp_path / "s.jsonl") as log:
        manager = ContextManager(model=MODEL, tools=[SNIP_TOOL.definition()])
        said: list[dict[str, Any]] = []
        for turn in range(3):
            said += [
                {"role": "user", "content": f"Question {turn}"},
                {"role": "assistant", "content": [{"type": "text", "text": f"Answer {turn}"}]},
            ]
        said.append({"role": "user", "content": "And now?"})
        for entry in log.extend(said):
            manager.add(entry)
        first = manager.prepare().messages[0]["content"][-1]["text"][4:-1]
        manager.answer("Snip", {"ids": [first]})
        request = manager.prepare()
        log.extend(request.records)
        assert "Question 0" not in str(log.resume().messages)
        assert len(log.resume().messages) == len(request.messages) == 5


def test_what_is_cleared_for_a_provider_that_cannot_is_among_the_lines(tmp_path):
    asked = {
        "edits": [
            {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 5}}
        ]
    }
    with TranscriptLog.open(tmp_path / "s.jsonl") as log:
        manager = ContextManager(model="gpt-5", context_management=asked)
        for said in rounds(3):
            for entry in log.extend(said):
                manager.add(entry)
            log.extend(manager.prepare().records)
        assert "cleared" in str(log.resume().messages)
        assert turns_of(log.resume().messages) == turns_of(manager.messages)

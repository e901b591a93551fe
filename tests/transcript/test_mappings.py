"""A recorded session as others write it, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit import result, said, text, use, user
from tests.transcript.mutated_logs import played
from ullage import ullage_check as check
from ullage.transcript.mappings import (
    Boundary,
    applied_edits,
    from_atif,
    recorded,
    to_atif,
    to_otel,
)


def contexts(messages: list[Any], boundaries: list[Boundary]) -> list[list[Any]]:
    """What the model was shown before and after each boundary."""
    shown, start, found = list[Any](), 0, list[list[Any]]()
    for boundary in boundaries:
        found += [[*shown, *messages[start : boundary.after]], boundary.context]
        shown, start = boundary.context, boundary.after
    return [*found, [*shown, *messages[start:]]]


@pytest.mark.parametrize("seed", range(3))
def test_the_context_at_each_boundary_is_equal_after_the_round_trip(tmp_path: Path, seed: int):
    log, requests = played(tmp_path, seed)
    messages, boundaries = recorded(log)
    assert len(boundaries) > 1
    assert {each.kind for each in boundaries} == {"compaction", "pruning"}
    assert contexts(messages, boundaries)[-1] == [
        check.sent(each) for each in requests[-1].messages
    ]
    trajectory = json.loads(json.dumps(to_atif(messages, boundaries, model="claude-opus-4-5")))
    again, those = from_atif(trajectory)
    assert again == messages
    assert contexts(again, those) == contexts(messages, boundaries)
    steps = trajectory["steps"]
    assert [step["step_id"] for step in steps] == list(range(1, len(steps) + 1))
    managed = [step for step in steps if "context_management" in step.get("extra", {})]
    assert [step["source"] for step in managed] == ["system"] * len(boundaries)
    calls = {call["tool_call_id"] for step in steps for call in step.get("tool_calls", ())}
    given = [each for step in steps if step not in managed for each in step.get("observation", {}).get("results", ())]  # fmt: skip
    assert {each["source_call_id"] for each in given} == calls != set()


def test_a_trajectory_of_another_tool_is_read():
    managed = {"type": "compaction", "boundary": "replace"}
    step = {"source": "system", "message": "", "extra": {"context_management": managed}}
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"cmd": "ls"}}
    steps = [
        {"source": "user", "message": "List the files."},
        {
            "source": "agent",
            "message": "I look.",
            "tool_calls": [call],
            "observation": {"results": [{"source_call_id": "c1", "content": "a.py"}]},
        },
        {**step, "observation": {"results": [{"content": "The files were listed."}]}},
        {"source": "agent", "message": "There is one."},
        {
            **step,
            "message": "Be brief.",
            "extra": {"context_management": {**managed, "boundary": "append"}},
        },
    ]
    messages, boundaries = from_atif({"steps": steps})
    looked = [text("I look."), use("c1", cmd="ls")]
    looked[1]["name"] = "bash"
    summary = user("The files were listed.")
    said_last = said("There is one.")
    assert messages == [user("List the files."), said(looked), user([result("c1", "a.py")]), said_last]  # fmt: skip
    assert boundaries == [
        Boundary(3, [summary]),
        Boundary(4, [summary, said_last, user("Be brief.")]),
    ]


def test_what_is_broken_or_redacted_is_refused(tmp_path: Path):
    log, _ = played(tmp_path, 0)
    with pytest.raises(ValueError, match="cannot be read again"):
        recorded(log.replace(b"Step 2:", b"Step 9:"))


def test_opentelemetry_has_a_summary_as_a_part_of_its_own(tmp_path: Path):
    _, boundaries = recorded(played(tmp_path, 0)[0])
    done = next(each for each in boundaries if each.kind == "compaction")
    given = to_otel(done)
    assert given["gen_ai.conversation.compacted"] is True
    first, *others = given["gen_ai.input.messages"]
    assert first["parts"] == [{"type": "compaction", "content": done.context[0]["content"]}]
    kinds = {part["type"] for message in others for part in message["parts"]}
    assert "tool_call" in kinds < {"text", "reasoning", "tool_call", "tool_call_response"} | {"compaction"}  # fmt: skip
    pruned = next(each for each in boundaries if each.kind == "pruning")
    assert "gen_ai.conversation.compacted" not in to_otel(pruned)


def test_shortened_results_are_anthropics_edits(tmp_path: Path):
    lines = map(json.loads, played(tmp_path, 0)[0].splitlines())
    given = [(applied_edits(each), each) for each in lines if each["type"] == check.RECORD]
    edits = [(edit, record) for found, record in given for edit in found]
    assert edits
    assert all(edit["cleared_tool_uses"] == len(record["results"]) for edit, record in edits)
    assert any(edit["cleared_input_tokens"] > 0 for edit, _ in edits)

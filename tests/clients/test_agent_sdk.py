"""The hooks for the Claude Agent SDK, called by the SDK's own control protocol."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="`make integrations` installs it")

from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, Transport, query

from tests.clients.test_hooks import compacted
from tests.machine_kit import Machine
from ullage.clients.agent_sdk import ullage_hooks

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "integrations.md"
BIG = {"stdout": "x" * 50_000, "stderr": "", "interrupted": False, "isImage": False}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


class Client(Transport):
    """Claude Code's side of the protocol: fires the given hooks one after the other, then ends the session."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.events, self.answers = events, []
        self._lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._callbacks: dict[str, str] = {}

    async def connect(self) -> None: ...

    async def close(self) -> None: ...

    async def end_input(self) -> None: ...

    def is_ready(self) -> bool:
        return True

    async def write(self, data: str) -> None:
        for line in data.splitlines():
            self._heard(json.loads(line))

    def _heard(self, said: dict[str, Any]) -> None:
        if said["type"] == "control_request":
            request = said["request"]
            for event, matchers in (request.get("hooks") or {}).items():
                self._callbacks[event] = matchers[-1]["hookCallbackIds"][-1]
            done = {"subtype": "success", "request_id": said["request_id"], "response": {}}
            self._lines.put_nowait({"type": "control_response", "response": done})
        elif said["type"] == "control_response":
            self.answers.append(said["response"])
            self._next()
        elif said["type"] == "user":
            self._next()

    def _next(self) -> None:
        if len(self.answers) == len(self.events):
            result = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}
            more = {"duration_ms": 1, "duration_api_ms": 1, "session_id": "s-1", "result": "done"}
            self._lines.put_nowait({**result, **more})
            self._lines.put_nowait(None)
            return
        given = self.events[len(self.answers)]
        request = {"subtype": "hook_callback", "input": given, "tool_use_id": None}
        request["callback_id"] = self._callbacks[given["hook_event_name"]]
        number = str(len(self.answers))
        self._lines.put_nowait(
            {"type": "control_request", "request_id": number, "request": request}
        )

    def read_messages(self) -> Any:
        async def lines() -> Any:
            while (line := await self._lines.get()) is not None:
                yield line

        return lines()


def fired(*events: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """What the SDK answers to these hooks."""

    async def go() -> Client:
        client = Client([{"session_id": "s-1", "cwd": "/w", **event} for event in events])
        options = ClaudeAgentOptions(hooks=ullage_hooks(**more))
        async for _ in query(prompt="go", options=options, transport=client):
            pass
        return client

    answers = asyncio.run(go()).answers
    assert all(answer["subtype"] == "success" for answer in answers), answers
    return [answer["response"] for answer in answers]


def test_outsized_output_is_shortened_in_its_shape(machine):
    used = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {}}
    big, small = fired(
        {**used, "tool_use_id": "b1", "tool_response": BIG},
        {**used, "tool_use_id": "b2", "tool_response": {**BIG, "stdout": "hi"}},
    )
    output = big["hookSpecificOutput"]["updatedToolOutput"]
    assert set(output) == set(BIG)
    assert len(output["stdout"]) < 25_000
    place = re.search(r"The whole output: (.+)\]", output["stdout"])[1]
    assert Path(place).read_text() == BIG["stdout"]
    assert small == {}


def test_a_copy_is_kept_and_what_a_summary_lost_is_said_once(machine):
    path = compacted(machine.home)
    at = {"transcript_path": str(path)}
    before = {**at, "hook_event_name": "PreCompact", "trigger": "auto", "custom_instructions": None}
    asked = {**at, "hook_event_name": "UserPromptSubmit", "prompt": "Go on."}
    earlier, copied, facts, again = fired(asked, before, asked, asked)
    assert (earlier, copied, again) == ({}, {}, {})
    assert "Never push to main." in facts["hookSpecificOutput"]["additionalContext"]
    assert facts["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    (copy,) = (machine.home / "state" / "archives" / "s-1").glob("*.jsonl")
    assert copy.read_bytes() == path.read_bytes()


def test_the_compaction_of_a_subagent_is_none_of_the_session(machine):
    at = {"transcript_path": str(compacted(machine.home))}
    before = {**at, "hook_event_name": "PreCompact", "trigger": "auto", "agent_id": "a1"}
    asked = {**at, "hook_event_name": "UserPromptSubmit", "prompt": "Go on."}
    assert fired(before, asked) == [{}, {}]


def test_a_hook_that_fails_changes_nothing(machine, caplog):
    missing = {"hook_event_name": "PreCompact", "trigger": "auto", "transcript_path": "/nowhere"}
    asked = {"hook_event_name": "UserPromptSubmit", "transcript_path": "/nowhere", "prompt": "?"}
    assert fired(missing, asked) == [{}, {}]
    assert "a hook of Ullage failed" in caplog.text


def test_hooks_of_the_user_stay():
    own = HookMatcher(matcher="Bash")
    hooks = ullage_hooks({"PostToolUse": [own], "Stop": [own]})
    assert hooks["PostToolUse"][0] is own
    assert len(hooks["PostToolUse"]) == 2
    assert hooks["Stop"] == [own]


def test_the_block_of_the_page_runs():
    page = PAGE.read_text(encoding="utf-8")
    section = page.split("## Claude Agent SDK\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    exec(compile(block, "Claude Agent SDK", "exec"), {})


def test_the_example(machine):
    program = runpy.run_path(str(ROOT / "examples" / "frameworks" / "claude_agent.py"))
    used = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {}}
    event = {"session_id": "s-1", "cwd": "/w", **used, "tool_use_id": "b1", "tool_response": BIG}
    client = Client([event])
    assert asyncio.run(program["ask"]("What is in notes.md?", client)) == "done"
    (answer,) = client.answers
    output = answer["response"]["hookSpecificOutput"]["updatedToolOutput"]
    assert len(output["stdout"]) < 25_000

"""Claude Code itself, with the gateway and without, against a provider that refuses what providers refuse."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.programs.kit import Backend, ClaudeCode, Gateway, Turn
from tests.programs.scenarios import PROMPT, judge, of, outputs, play_out
from ullage.clients.idle import compact_left


@pytest.mark.parametrize("gateway", [False, True], ids=["alone", "gateway"])
@pytest.mark.parametrize("scenario", of(ClaudeCode), ids=str)
def test_it_lives_through(scenario, gateway, tmp_path):
    result = play_out(scenario, tmp_path, gateway=gateway)
    assert not judge(scenario, result), result


def text_of(content):
    return content if isinstance(content, str) else "\n".join(b.get("text", "") for b in content)


def results(asked):
    """Texts of the tool results in the newest message that holds some."""
    for message in reversed(asked.body["messages"]):
        found = [
            b for b in message["content"] if isinstance(b, dict) and b["type"] == "tool_result"
        ]
        if found:
            return [text_of(block["content"]) for block in found]
    return []


RULE = "Never edit the files in generated/."


def test_hooks_and_mcp_server_work_in_it(tmp_path):
    """PostToolUse shortens, the MCP server answers; after `/compact` SessionStart adds what the summary does not name, once."""
    with Backend(
        *outputs(ClaudeCode, 1, 1),
        Turn("", (("mcp__ullage__context_usage", {}),)),
        Turn("", (ClaudeCode.shell("echo changed > made.txt"),)),
    ) as backend:
        program = ClaudeCode(tmp_path, backend.url, ENABLE_TOOL_SEARCH="false")
        program.ullage("claude", "install", "--mcp", "--yes")
        assert "ok" in program.ullage("claude", "doctor")
        ran = program.run(f"{PROMPT} {RULE}")
        assert ran.code == 0, ran
        assert not backend.play
        shortened, usage = results(backend.of("main")[1])[0], results(backend.of("main")[2])[0]
        assert len(shortened) < 21_000
        assert "left out here" in shortened
        assert "tokens" in usage
        assert "error" not in usage.lower()
        assert program.run("/compact keep the names", resume=ran.session).code == 0
        assert len(backend.of("compaction")) == 1
        assert program.run("Go on.", resume=ran.session).code == 0
        assert json.dumps(backend.of("main")[-1].body, ensure_ascii=False).count(RULE) == 1
        assert not backend.illegal


def test_its_automatic_compaction_is_given_the_ledger(tmp_path):
    """PreCompact adds the user's rules to what the summary is to keep."""
    with Backend(*outputs(ClaudeCode, 8, 2, 2_800)) as backend:
        program = ClaudeCode(tmp_path, backend.url, CLAUDE_CODE_AUTO_COMPACT_WINDOW="100000")
        program.ullage("claude", "install", "--yes")
        ran = program.run(f"{PROMPT} {RULE}")
        assert ran.code == 0, ran
        asked = [json.dumps(each.body["messages"][-1]) for each in backend.of("compaction")]
        assert asked
        assert all(RULE in each for each in asked)
        assert list(program.home.glob(".local/state/ullage/archives/*"))
        assert not backend.illegal


@pytest.fixture
def waiting(tmp_path):
    """Ids of the processes that wait for a session of this test to be left for long; none stays."""

    def found():
        return processes("ullage.clients.idle", str(tmp_path))

    yield found
    for process in found():
        os.kill(process, signal.SIGTERM)


def test_a_session_that_was_left_is_compacted_and_goes_on_from_the_summary(tmp_path, waiting):
    """SessionEnd leaves a process that waits for the cache to run out; here it is ended, and run again as if hours had passed."""
    with Backend(*outputs(ClaudeCode, 8, 2)) as backend:
        program = ClaudeCode(tmp_path, backend.url)
        program.ullage("claude", "install", "--idle", "--yes")
        ran = program.run(f"{PROMPT} {RULE}")
        assert ran.code == 0, ran
        (path,) = program.sessions
        (process,) = waiting()
        os.kill(process, signal.SIGTERM)
        os.utime(path, (time.time() - 7_200,) * 2)
        assert compact_left(str(path))
        before = backend.of("main")[-1].tokens
        assert program.run("Go on.", resume=ran.session).code == 0
        newest = backend.of("main")[-1]
        assert newest.tokens < 0.6 * before
        assert RULE in json.dumps(newest.body, ensure_ascii=False)
        assert not backend.illegal


def processes(*words):
    """Ids of those whose command names all of these."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes().decode()
            found += [int(folder.name)] if all(word in command for word in words) else []
    return found


def test_its_tool_search_is_on_through_the_gateway(tmp_path):
    """A tool that it holds back is found, called and answered; when old results have left, requests stay legal."""
    name = "mcp__ullage__context_usage"
    play = [Turn("", (("ToolSearch", {"query": f"select:{name}"}),)), Turn("", ((name, {}),))]
    with (
        Backend(*play, *outputs(ClaudeCode, 20, 2)) as backend,
        Gateway(backend.url, tmp_path / "state") as gateway,
    ):
        program = ClaudeCode(tmp_path, gateway.url)
        program.ullage("claude", "install", "--mcp", "--yes")
        ran = program.run(PROMPT)
        assert ran.code == 0, ran
        first, found, answered, *_, last = backend.of("main")
        assert name not in [tool["name"] for tool in first.body["tools"]]
        assert name in [tool["name"] for tool in found.body["tools"]]
        assert "tokens" in results(answered)[0]
        assert name in [tool["name"] for tool in last.body["tools"]]
        assert last.tokens < max(each.tokens for each in backend.of("main"))
        assert not backend.illegal


def test_the_gateway_answers_its_compact_with_the_focus(tmp_path):
    """`/compact` of the user costs no model tokens and keeps what he asks for."""
    with (
        Backend(*outputs(ClaudeCode, 3, 2)) as backend,
        Gateway(backend.url, tmp_path / "state") as gateway,
    ):
        program = ClaudeCode(tmp_path, gateway.url)
        ran = program.run(PROMPT)
        assert program.run("/compact keep the names of the steps", resume=ran.session).code == 0
        assert not backend.of("compaction")
        assert program.run("Go on.", resume=ran.session).code == 0
        newest = backend.of("main")[-1]
        assert newest.tokens < backend.of("main")[-2].tokens / 2
        assert PROMPT in json.dumps(newest.body)
        assert not backend.illegal

"""The programs in `examples/` run as they stand, against a server that enforces the providers' rules."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ullage.testing import ScriptedServer, conversation
from ullage.transcript import TranscriptLog

FOLDER = Path(__file__).parents[2] / "examples"
QUESTIONS = ["Read /home/dev/notes.md.", "The code word is heron-17. " + "Some more text. " * 700]
MORE = ["Why is the build slow? " + "Log line of the build. " * 500 for _ in range(4)]
WINDOW = "8192"

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def server(monkeypatch, tmp_path):
    """Answers the first question with a call of `Read`, the others with text."""
    monkeypatch.chdir(tmp_path)
    with ScriptedServer("tool_call", window=int(WINDOW)) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        yield server
        assert [each.status for each in server.requests] == [200] * len(server.requests)


def program(name):
    return runpy.run_path(str(FOLDER / name))


def test_the_anthropic_agent_streams_calls_its_tool_and_recalls(server, capsys):
    pytest.importorskip("anthropic")
    names = program("anthropic_agent.py")
    manager = names["main"](["--window", WINDOW, *QUESTIONS, *MORE])
    assert len(server.requests) == len(QUESTIONS) + len(MORE) + 1
    assert all(each.json["stream"] for each in server.requests)
    assert "tokens freed]" in capsys.readouterr().out
    assert "No such file" in str(manager.history[2])
    call = recall_call()
    assert "heron-17" in str(names["tool_result"](manager, call)["content"])


def recall_call():
    from anthropic.types import ToolUseBlock

    return ToolUseBlock(id="toolu_1", input={"query": "heron-17"}, name="recall", type="tool_use")


def test_the_anthropic_agent_continues_from_its_log(server):
    pytest.importorskip("anthropic")
    names = program("anthropic_agent.py")
    first = names["main"](["--log", "agent.jsonl", "hello"])
    second = names["main"](["--log", "agent.jsonl", "and now?"])
    assert second.history[: len(first.history)] == first.history
    assert len(second.history) == len(first.history) + 2


def test_the_openai_agent_calls_its_tool_and_recalls(server, capsys):
    pytest.importorskip("openai")
    names = program("openai_agent.py")
    manager = names["main"](["--window", WINDOW, *QUESTIONS, *MORE])
    assert len(server.requests) == len(QUESTIONS) + len(MORE) + 1
    assert "tokens freed]" in capsys.readouterr().out
    assert "heron-17" in names["run_tool"](manager, "recall", '{"query": "heron-17"}')
    for broken in ("{", "{}", "[]", "7"):
        assert names["run_tool"](manager, "Read", broken).startswith("error: ")


def test_a_log_is_compacted_to_a_size(tmp_path, capsys):
    source, output = tmp_path / "session.jsonl", tmp_path / "smaller.jsonl"
    with TranscriptLog.open(source) as log:
        log.extend(conversation(seed=3, tokens=30_000))
    before = source.read_bytes()
    done = program("compact_a_log.py")["main"]([str(source), str(output), "--target", "8000"])
    assert source.read_bytes() == before
    assert done.path == output
    assert done.result.report.tokens_after <= 8_000
    said = capsys.readouterr().out
    assert "legal for Anthropic: True" in said


def test_without_a_log_one_is_generated(capsys):
    assert program("compact_a_log.py")["main"]([]).result.report is not None
    assert "generated.jsonl: " in capsys.readouterr().out

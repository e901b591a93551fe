"""The programs in `examples/` run as they stand, against a server that enforces the providers' rules."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from ullage.messages import message_of
from ullage.stores import Worker, open_store
from ullage.testing import ScriptedServer, conversation
from ullage.transcript import TranscriptLog

FOLDER = Path(__file__).parents[2] / "examples"
QUESTIONS = ["Read /home/dev/notes.md.", "The code word is heron-17. " + "Some more text. " * 700]
MORE = ["Why is the build slow? " + "Log line of the build. " * 500 for _ in range(4)]
WINDOW = "8192"

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def server(monkeypatch, tmp_path, request):
    """Answers the first question with a call of `Read`, unless a test says otherwise, the others with text."""
    monkeypatch.chdir(tmp_path)
    with ScriptedServer(getattr(request, "param", "tool_call"), window=int(WINDOW)) as server:
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
    assert all(
        {tool["name"] for tool in each.json["tools"]} >= {"recall"} for each in server.requests
    )
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
    for each in server.requests:
        assert [tool["function"]["name"] for tool in each.json["tools"]] == ["Read", "recall"]
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


def deliveries(path, *given):
    keys = ("conversation", "id", "text")
    lines = (json.dumps(dict(zip(keys, each, strict=True))) for each in given)
    path.write_text("\n".join(lines))
    return str(path)


@pytest.mark.parametrize("server", ["good"], indirect=True)
def test_a_fleet_worker_answers_each_delivery_once(server, tmp_path, capsys):
    pytest.importorskip("anthropic")
    work = program("fleet_worker.py")["main"]
    first = ("one", "d1", "hello"), ("two", "d2", "hi"), ("one", "d3", "and now?")
    again = ("one", "d3", "and now?"), ("two", "d2", "hi"), ("two", "d4", "more")
    assert work([deliveries(tmp_path / "a", *first), "--store", "sqlite:fleet.db"]) == 3
    assert work([deliveries(tmp_path / "b", *again), "--store", "sqlite:fleet.db"]) == 3
    assert len(server.requests) == 4
    assert capsys.readouterr().out.count("answered before") == 2
    store = open_store("sqlite:fleet.db")
    with Worker(store, model="claude-opus-4-5") as worker:
        found = [message_of(each) for each in worker.copy("one").history]
    store.close()
    assert [each["role"] for each in found] == ["user", "assistant"] * 2
    assert [each["content"] for each in found[::2]] == ["hello", "and now?"]


def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path, capsys):
    text = (FOLDER / "compaction_notebook.py").read_text(encoding="utf-8")
    names = {}
    exec(compile(text, "compaction_notebook.py", "exec"), names)
    said = capsys.readouterr().out
    assert "legal for Anthropic: True" in said
    assert len(names["smaller"].messages) < len(names["session"].messages)
    assert names["source"].exists()

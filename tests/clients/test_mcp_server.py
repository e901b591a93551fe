"""The MCP server: raw messages in every version of the protocol, and the protocol's own client."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys

import pytest

from tests.machine_kit import IDS, Machine, claude_lines
from ullage.clients import mcp_server, mcp_tools
from ullage.clients.mcp_server import MODERN, PROTOCOLS, McpServer
from ullage.sessions import compact_session, open_session

TOOLS = ["recall", "search_sessions", "remember", "notes", "context_usage"]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    made = Machine(tmp_path, monkeypatch)
    project = tmp_path / "work"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    monkeypatch.delenv("ULLAGE_MEMORY", raising=False)
    made.fill(turns=8).stored(database=False)
    made.files["claude-code"].touch()  # the session that is running
    return made


def ask(method, params=None, name=1):
    message = {"jsonrpc": "2.0", "id": name, "method": method}
    if params is not None:
        message["params"] = params
    return McpServer().answer(json.dumps(message).encode())


def call(tool, /, **given):
    result = ask("tools/call", {"name": tool, "arguments": given})["result"]
    return result["content"][0]["text"], result["isError"], result.get("structuredContent")


# ---- the protocol -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [*PROTOCOLS, "1999-01-01", None, 7])
def test_a_handshake_agrees_on_a_version(version):
    found = ask("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {}})[
        "result"
    ]
    assert found["protocolVersion"] == (version if version in PROTOCOLS else PROTOCOLS[0])
    assert found["serverInfo"]["name"] == "ullage"
    assert "data, not instructions" in found["instructions"]


def test_a_client_without_a_handshake_discovers_the_server():
    found = ask("server/discover", {"_meta": {}})["result"]
    assert found["supportedVersions"][0] == MODERN
    assert (found["resultType"], found["ttlMs"], found["cacheScope"]) == ("complete", 0, "private")


def test_the_tools_have_schemas_and_hints():
    tools = ask("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == TOOLS
    assert [tool["annotations"]["readOnlyHint"] for tool in tools] == [
        True,
        True,
        False,
        True,
        True,
    ]
    for tool in tools:
        assert tool["inputSchema"]["type"] == "object"
        assert len(tool["description"]) > 40


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700), (b"\xff", -32700), (b"[" * 99_999, -32700), (b"7", -32600), (b"[]", -32600), (b"{}", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":["x"]}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope"}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}', -32602),
    ],
)  # fmt: skip
def test_what_is_no_request_is_answered_with_an_error(line, code):
    assert McpServer().answer(line)["error"]["code"] == code


def test_notifications_and_answers_are_not_answered():
    for message in (
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","id":3,"result":{}}',
    ):
        assert McpServer().answer(message) is None
    batch = b'[{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":"a","method":"ping"}]'
    assert McpServer().answer(batch) == [{"jsonrpc": "2.0", "id": "a", "result": {}}]


def test_a_stream_goes_on_after_garbage_and_long_lines(monkeypatch):
    monkeypatch.setattr(mcp_server, "MAX_LINE_BYTES", 1_000)
    out = io.BytesIO()
    ping = b'{"jsonrpc":"2.0","id":9,"method":"ping"}\n'
    McpServer().serve(io.BytesIO(b"garbage\n\n" + b"x" * 5_000 + b"\n" + ping), out)
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [each.get("id") for each in answers] == [None, None, 9]


def test_a_tool_that_fails_says_why_and_the_server_goes_on(monkeypatch):
    def fail(given):
        raise RuntimeError("no \ud800 luck")

    monkeypatch.setattr(mcp_tools, "notes", fail)
    result = ask("tools/call", {"name": "notes", "arguments": None})["result"]
    assert (result["isError"], result["content"][0]["text"]) == (True, "no ? luck.")


# ---- the tools --------------------------------------------------------------------------------


def compacted(machine):
    path = machine.files["claude-code"]
    compact_session(open_session(path), output=path, keep=500)
    return path


def test_recall_returns_what_left_this_projects_session(machine):
    compacted(machine)
    listed, failed, _ = call("recall")
    assert not failed
    handle = listed.split(":", 1)[0]
    assert "The parser drops" in call("recall", handle=handle)[0]
    found = call("recall", query="file_0.py")[0]
    assert "file_0.py" in found
    assert "The parser drops" in call("recall", handle="toolu_0")[0]


def test_recall_without_a_compaction_has_nothing_to_list(machine):
    assert call("recall")[0] == "Nothing was removed from this conversation."


def test_recall_returns_the_whole_of_what_a_hook_shortened(machine):
    from ullage.clients.hook import bounded

    whole = "".join(f"row {at}\n" for at in range(9_000))
    given = {
        "session_id": IDS["claude-code"],
        "tool_use_id": "toolu_big",
        "tool_response": {"stdout": whole},
    }
    assert "left out here" in bounded(given)["stdout"]
    assert "row 8123" in call("recall", handle="toolu_big", query="row 8123")[0]
    assert "[more: offset" in call("recall", handle="toolu_big")[0]


def test_wrong_calls_are_answered_with_advice(machine):
    for tool, given, words in (
        ("recall", {"handle": "nope"}, "nothing has the handle"),
        ("recall", {"session": "feedface"}, "no session has an id that begins with it"),
        ("recall", {"handle": 7}, "must be a string"),
        ("search_sessions", {}, "no word"),
        ("search_sessions", {"words": "x", "limit": 0}, "whole number from 1 to 50"),
        ("search_sessions", {"words": ["x"]}, "must be a string"),
        ("remember", {"text": " "}, "must not be empty"),
        ("remember", {"text": "x", "type": "nope"}, "nope"),
        ("notes", {"query": "x", "limit": "many"}, "whole number"),
        ("context_usage", {"session": "1"}, "too short for the id of a session"),
    ):
        if tool == "notes":
            call("remember", text="so that there is a folder")
        text, failed, _ = call(tool, **given)
        assert failed, (tool, given, text)
        assert words in text, (tool, given, text)


def test_sessions_are_searched(machine):
    _, failed, data = call("search_sessions", words="parser drops", limit="3")
    assert not failed
    assert len(data["sessions"]) == 3
    assert data["sessions"][0]["hits"][0]["text"]
    assert call("search_sessions", words="nowhereatall")[0] == "No session contains these words."
    assert IDS["codex"] in call("search_sessions", words="parser", tool="codex")[0]


def test_notes_are_written_and_read(machine):
    assert call("notes")[0] == "There are no notes."
    text, failed, data = call(
        "remember",
        text="Use tabs in Makefiles.",
        name="Tabs",
        when="editing Makefiles",
        type="feedback",
    )
    assert (failed, text) == (False, f"Noted as {data['path']}.")
    assert "Tabs – editing Makefiles" in call("notes")[0]
    assert "Use tabs" in call("notes", query="makefiles tabs")[0]
    assert (machine.home / "state" / "memory").exists()


def test_the_size_of_the_context_is_that_of_the_list(machine):
    from ullage.sessions import found_sessions
    from ullage.sessions.inspected import listed

    text, failed, data = call("context_usage")
    (found,) = [each for each in found_sessions() if each.id == IDS["claude-code"]]
    assert not failed
    assert (data["session"], data["tokens"]) == (found.id, listed(found).tokens)
    assert sum(data["categories"].values()) == data["tokens"]
    assert "%" in text


def test_this_session_is_the_newest_of_the_project(machine, monkeypatch):
    other = "66666666-aaaa-4bbb-8ccc-000000000001"
    machine.put(
        "x", claude_lines(other, machine.cwd), at=f"claude/projects/{machine.slug}/{other}.jsonl"
    ).touch()
    assert call("context_usage")[2]["session"] == other
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "/elsewhere")
    text, failed, _ = call("context_usage")
    assert failed
    assert "none ran in /elsewhere" in text


# ---- as a process ------------------------------------------------------------------------------


def test_a_start_loads_little_and_nothing_else_reaches_the_client(machine):
    program = """if True:
        import sys
        before = set(sys.modules)
        from ullage.clients import mcp_server
        mcp_server.McpServer().answer(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
        print(sorted(set(sys.modules) - before))
    """
    words = [sys.executable, "-P", "-c", program]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    for name in (
        "orjson",
        "typing",
        "dataclasses",
        "ullage._core",
        "sqlite3",
        "pathlib",
        "ullage.sessions",
    ):
        assert f"'{name}'" not in loaded, name
    words = [sys.executable, "-P", "-m", "ullage.clients.mcp_server"]
    asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"context_usage"}}\n'
    done = subprocess.run(words, input=asked, capture_output=True, timeout=60, check=True)
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["result"]["isError"] is False


def test_the_protocols_own_client_is_served(machine):
    mcp = pytest.importorskip("mcp")
    from mcp.client.stdio import StdioServerParameters, stdio_client

    compacted(machine)
    env = {
        **{name: str(value) for name, value in machine.variables.items()},
        "PYTHONPATH": ":".join(sys.path),
    }
    started = StdioServerParameters(
        command=sys.executable, args=["-m", "ullage.clients.mcp_server"], env=env, cwd=machine.cwd
    )

    async def talk(mode):
        async with mcp.Client(stdio_client(started), mode=mode) as client:
            tools = await client.list_tools()
            found = await client.call_tool("search_sessions", {"words": "parser drops"})
            failed = await client.call_tool("recall", {"handle": "nope"})
            recalled = await client.call_tool("recall", {"handle": "toolu_0"})
            return [tool.name for tool in tools.tools], found, failed, recalled

    for mode in ("auto", "legacy"):
        names, found, failed, recalled = asyncio.run(talk(mode))
        assert names == TOOLS
        assert found.structured_content["sessions"][0]["hits"]
        assert (found.is_error, failed.is_error) == (False, True)
        assert "The parser drops" in recalled.content[0].text

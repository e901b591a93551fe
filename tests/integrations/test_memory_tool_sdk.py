"""The memory tool under the official SDK's own tool runner, with its own command types."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ullage.memory.notes import MemoryFolder, anthropic_tool

anthropic = pytest.importorskip("anthropic")

COMMANDS = [
    {"command": "create", "path": "/memories/port.md", "file_text": "8123\n"},
    {"command": "view", "path": "/memories/port.md"},
    {"command": "str_replace", "path": "/memories/port.md", "old_str": "8123", "new_str": "8124"},
    {"command": "insert", "path": "/memories/port.md", "insert_line": 0, "insert_text": "Port:"},
    {"command": "rename", "old_path": "/memories/port.md", "new_path": "/memories/server.md"},
    {"command": "view", "path": "/memories/../../etc/passwd"},
    {"command": "view", "path": "/memories"},
    {"command": "delete", "path": "/memories/server.md"},
]


@pytest.fixture
def server():
    """A provider that calls the tool once for each command, then ends."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            turn = len(seen) - 1
            block = {"type": "text", "text": "done"}
            if turn < len(COMMANDS):
                block = {
                    "type": "tool_use",
                    "id": f"toolu_{turn}",
                    "name": "memory",
                    "input": COMMANDS[turn],
                }
            body = {
                "id": f"msg_{turn}",
                "type": "message",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "content": [block],
                "stop_reason": "tool_use" if turn < len(COMMANDS) else "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    made = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}", seen
    made.shutdown()
    made.server_close()
    thread.join()


def test_the_runner_drives_every_command(server, tmp_path):
    url, seen = server
    folder = MemoryFolder(tmp_path / "memory")
    with anthropic.Anthropic(base_url=url, api_key="test", max_retries=0, timeout=10) as client:
        runner = client.beta.messages.tool_runner(
            model="claude-opus-5-5",
            max_tokens=100,
            messages=[{"role": "user", "content": "keep notes"}],
            tools=[anthropic_tool(folder)],
            thread=False,
        )
        last = runner.until_done()
    assert last.content[0].text == "done"
    assert seen[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    results = [request["messages"][-1]["content"][0] for request in seen[1:]]
    assert [bool(result.get("is_error")) for result in results] == [False] * 5 + [
        True,
        False,
        False,
    ]
    assert "File created successfully" in str(results[0]["content"])
    assert "     1\t8123" in str(results[1]["content"])
    assert "server.md" in str(results[6]["content"])
    assert list(folder.sandbox.files()) == []


def test_the_sdks_own_tool_says_the_same(tmp_path):
    """Differential: the SDK's file implementation and ours, command by command."""
    from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool

    theirs = BetaLocalFilesystemMemoryTool(str(tmp_path / "theirs"))
    ours = anthropic_tool(MemoryFolder(tmp_path / "ours"))

    def ask(tool, command):
        try:
            return tool.call(command)
        except anthropic.lib.tools.ToolError as error:
            return error.content

    told = [
        *COMMANDS[:5],
        {"command": "view", "path": "/memories/server.md", "view_range": [2, -1]},
        {"command": "view", "path": "/memories/none.md"},
        {"command": "create", "path": "/memories/server.md", "file_text": "x"},
        {
            "command": "str_replace",
            "path": "/memories/server.md",
            "old_str": "none",
            "new_str": "x",
        },
        {"command": "insert", "path": "/memories/server.md", "insert_line": 99, "insert_text": "x"},
        {"command": "rename", "old_path": "/memories/none.md", "new_path": "/memories/x.md"},
        {"command": "delete", "path": "/memories"},
        {"command": "delete", "path": "/memories/none.md"},
        {"command": "view", "path": "/elsewhere"},
        {"command": "delete", "path": "/memories/server.md"},
    ]
    for command in told:
        assert ask(ours, command) == ask(theirs, command), command

"""A client in the shape of Claude Code's requests: headers, betas, counting, cache marks that move, side queries, its own compaction."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")

from tests.oracle.server import OracleServer
from tests.proxy.kit import SUMMARY_REQUEST, Proxy, asks, call
from ullage.testing import conversation

MODEL = "claude-opus-4-5"
BETAS = "claude-code-20250219,oauth-2025-04-20,interleaved-thinking-2025-05-14,a-beta-of-tomorrow-2027-01-01"
HEADERS = {
    "accept": "application/json",
    "authorization": "Bearer sk-ant-oat01-made-up",
    "content-type": "application/json",
    "user-agent": "claude-cli/2.1.330 (external, cli)",
    "x-app": "cli",
    "x-stainless-lang": "js",
    "x-stainless-retry-count": "0",
    "x-claude-code-session-id": "0f6e9f1e-0000-4000-8000-000000000001",
    "anthropic-version": "2023-06-01",
    "anthropic-beta": BETAS,
    "anthropic-dangerous-direct-browser-access": "true",
}
SYSTEM = [
    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.330; cch=00000;"},
    {"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral"}},
    {"type": "text", "text": "Rules of the house. " * 200, "cache_control": {"type": "ephemeral"}},
]
NAMES = ("Bash", "Read", "Edit", "Write", "Grep", "Glob", "Task", "TodoWrite")
TOOLS = [
    {"name": name, "description": f"What {name} does.", "input_schema": {"type": "object", "properties": {}}}
    for name in NAMES
]  # fmt: skip


class Agent:
    """Sends what the client sends."""

    def __init__(self, url, **headers):
        self.url, self.headers = url, {**HEADERS, **headers}

    def post(self, target, body):
        raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        status, headers, said = call(self.url, "POST", target, raw, self.headers, timeout=60)
        return raw, status, headers, said

    def body(self, messages, **more):
        return {
            "model": MODEL,
            "messages": marked(messages),
            "system": SYSTEM,
            "tools": TOOLS,
            "metadata": {"user_id": "user_0_account__session_0f6e9f1e"},
            "max_tokens": 32_000,
            "stream": True,
            **more,
        }

    def turn(self, messages):
        return self.post("/v1/messages?beta=true", self.body(messages))

    def count(self, messages):
        body = {"model": MODEL, "messages": messages, "tools": TOOLS}
        return self.post("/v1/messages/count_tokens?beta=true", body)

    def title(self, words):
        body = {
            "model": "claude-haiku-4-5",
            "messages": [{"role": "user", "content": words}],
            "system": [{"type": "text", "text": "Write a title."}],
            "max_tokens": 512,
            "stream": True,
        }
        return self.post("/v1/messages?beta=true", body)


def marked(messages):
    """The two newest user messages carry the marks."""
    made = json.loads(json.dumps(messages))
    users = [message for message in made if message["role"] == "user"]
    for message in users[-2:]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks[-1]["cache_control"] = {"type": "ephemeral"}
        message["content"] = blocks
    return made


def text_of_stream(said):
    events = [
        json.loads(line[6:]) for line in said.decode().split("\n") if line.startswith("data: ")
    ]
    return "".join(
        event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta"
    )


@pytest.fixture(scope="module")
def session():
    made = conversation(11, tokens=140_000)
    while made[-1]["role"] == "assistant":
        made.pop()
    return made


def test_a_whole_session(session):
    """The window is 200 000 by the table, and 110 000 by the server, which refuses what is larger."""
    counts = asks(session)
    counts = [*counts[:6], *counts[-14:]]
    with OracleServer(window=110_000) as server, Proxy(server.url) as proxy:
        agent = Agent(proxy.url)
        unchanged = 0
        for number, count in enumerate(counts):
            raw, status, _, said = agent.turn(session[:count])
            assert status == 200, said
            sent = server.requests[-1]
            unchanged += sent.body == raw
            assert (sent.path, sent.betas) == ("/v1/messages?beta=true", tuple(BETAS.split(",")))
            body = json.loads(sent.body)
            assert body["system"] == SYSTEM
            assert body["tools"] == TOOLS
            assert body["messages"][-1] == marked(session[:count])[-1]
            assert sent.body.count(b'"cache_control"') <= 4
            own = ("host", "connection", "content-length", "accept-encoding")
            got = {name: value for name, value in sent.headers.items() if name not in own}
            assert got == agent.headers
            if number % 5 == 0:
                raw, status, _, said = agent.count(session[:count])
                assert (status, server.requests[-1].body) == (200, raw)
                raw, status, _, said = agent.title("Where is the parser?")
                assert (status, server.requests[-1].body) == (200, raw)
        assert unchanged >= 6
        assert unchanged < len(counts)
        refused = [each for each in server.requests if each.status != 200]
        assert all(each.rules == ("window",) for each in refused)
        asked = len(server.requests)
        last = [
            *session,
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": [{"type": "text", "text": SUMMARY_REQUEST}]},
        ]
        _, status, headers, said = agent.turn(last)
        assert (status, len(server.requests)) == (200, asked)
    assert dict(headers)["content-type"].startswith("text/event-stream")
    text = text_of_stream(said)
    assert text.startswith("<summary>")
    first = session[0]["content"]
    assert (first if isinstance(first, str) else first[0]["text"])[:50] in text


def test_a_sub_agent_has_lines_of_its_own(session):
    short = session[:9]
    with OracleServer() as server, Proxy(server.url) as proxy:
        for headers in ({}, {"x-claude-code-agent-id": "agent-1"}):
            raw, status, _, _ = Agent(proxy.url, **headers).turn(short)
            assert (status, server.requests[-1].body) == (200, raw)
        _, _, page = call(proxy.url, "GET", "/ullage")
    assert page.count(b"<h2>") == 2


def test_what_a_gateway_is_asked_before_the_first_call():
    with OracleServer() as server, Proxy(server.url) as proxy:
        for method, target in (
            ("HEAD", "/"),
            ("GET", "/v1/models?limit=1000"),
            ("GET", "/v1/models/claude-opus-4-5"),
        ):
            assert (
                call(proxy.url, method, target, headers=HEADERS)[0]
                == call(server.url, method, target, headers=HEADERS)[0]
            )

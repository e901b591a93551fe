"""The gateway's own summary and its answers to a client's compaction leave what the client put there to stand (HOST-1)."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")

from tests.kit import result, said, text, use, user
from tests.oracle.server import OracleServer
from tests.proxy.kit import Proxy, call

WINDOW = 32_768
SMALL = "gpt-4-32k"
HEADERS = {
    "x-api-key": "k",
    "authorization": "Bearer k",
    "anthropic-version": "2026-10-21",
    "content-type": "application/json",
}
RULES = "\n".join(f"- RULE-{i:02d}: run make check-{i}" for i in range(80))
CLAUDE_MD = f"<system-reminder>\nCodebase and user instructions are shown below.\n\nContents of /w/CLAUDE.md (project instructions, checked into the codebase):\n\n{RULES}\n</system-reminder>"  # fmt: skip
AGENTS_MD = f"# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\n{RULES}\n</INSTRUCTIONS>"
SHOWN = "\n".join(map(str, range(900)))


def rules_in(body: bytes) -> tuple[int, int]:
    told = body.decode()
    return len(set(re.findall(r"RULE-\d\d", told))), told.count("RULE-07")


def anthropic_steps():
    mark = {"cache_control": {"type": "ephemeral"}}
    items = [user([text(CLAUDE_MD, **mark), text("Port the parser.")])]
    for i in range(40):
        yield items
        items = [
            *items,
            said([use(f"t{i}", "Bash", command=f"seq {i}")]),
            user([result(f"t{i}", SHOWN)]),
        ]


def responses_steps():
    def message(role, *texts):
        parts = [{"type": "input_text", "text": each} for each in texts]
        return {"type": "message", "role": role, "content": parts}

    environment = "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>"
    items = [message("developer", "You are Codex."), message("user", AGENTS_MD, environment), message("user", "Port the parser.")]  # fmt: skip
    for i in range(40):
        yield items
        called = {"type": "function_call", "call_id": f"c{i}", "name": "exec_command", "arguments": "{}"}  # fmt: skip
        items = [
            *items,
            called,
            {"type": "function_call_output", "call_id": f"c{i}", "output": SHOWN},
        ]


@pytest.mark.parametrize(
    ("target", "key", "steps"),
    [
        ("/v1/messages", "messages", anthropic_steps),
        ("/v1/responses", "input", responses_steps),
    ],
)
def test_the_rules_reach_the_provider_in_every_request(target, key, steps):
    limit = {"max_tokens": 1000} if key == "messages" else {}
    changed = 0
    with OracleServer(window=WINDOW) as server, Proxy(server.url) as proxy:
        for items in steps():
            body = json.dumps({"model": SMALL, **limit, key: items}).encode()
            status, _, answer = call(proxy.url, "POST", target, body, HEADERS)
            assert status == 200, answer
            sent = server.requests[-1]
            assert not sent.rules
            assert rules_in(sent.body) == (80, 1)
            assert b"Port the parser." in sent.body
            changed += b"This session is being continued" in sent.body
    assert changed > 5


def test_the_answer_to_claude_codes_compaction_has_no_second_copy():
    asked = "CRITICAL: Respond with TEXT ONLY. Your task is to create a detailed summary of the conversation so far. <analysis> <summary>"  # fmt: skip
    *_, items = anthropic_steps()
    items = [*items[:20], said("Done."), user(asked)]
    body = json.dumps(
        {"model": "claude-sonnet-4-5", "max_tokens": 8000, "messages": items}
    ).encode()
    with OracleServer(window=200_000) as server, Proxy(server.url) as proxy:
        status, _, answer = call(proxy.url, "POST", "/v1/messages", body, HEADERS)
        assert (status, server.requests) == (200, [])
    assert rules_in(answer) == (0, 0)
    assert b"Port the parser." in answer
    assert b"[End of the summary]" in answer

"""The scripted server refuses what the providers refuse, in their words."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.oracle.checker import check
from ullage.providers.errors import classify
from ullage.testing import ScriptedServer, Step, conversation

USER = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
CHAT, RESPONSES, ANTHROPIC = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GEMINI = "/v1beta/models/gemini-3-pro:generateContent"
MARKED = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
SAID = {"role": "user", "parts": [{"text": "hi"}]}
SIGNED = {"functionCall": {"name": "read", "args": {}}, "thoughtSignature": "Zm9yZ2Vk"}
SKIPPED = {**SIGNED, "thoughtSignature": "skip_thought_signature_validator"}
ANSWER = {"functionResponse": {"name": "read", "response": {"output": "x"}}}


def chat(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-5.4", "messages": list(messages), **more}


def items(*given: Any, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-5.4", "input": list(given), **more}


def claude(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "claude-opus-4-5", "max_tokens": 9, "messages": list(messages), **more}


def gemini(*contents: Any, **more: Any) -> dict[str, Any]:
    return {"contents": list(contents), **more}


def said(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "no tools": (CHAT, chat(USER, tools=[]), "Invalid 'tools': empty array"),
    "tool of Anthropic": (
        CHAT,
        chat(USER, tools=[{"name": "read", "input_schema": {}}]),
        "Missing required parameter: 'tools[0].type'",
    ),
    "tool of Responses": (
        CHAT,
        chat(USER, tools=[{"type": "function", "name": "read"}]),
        "Missing required parameter: 'tools[0].function'",
    ),
    "server tool": (CHAT, chat(USER, tools=[{"type": "web_search"}]), "Supported values are"),
    "no messages": (CHAT, chat(), "Invalid 'messages': empty array"),
    "no calls": (
        CHAT,
        chat(USER, {"role": "assistant", "content": "x", "tool_calls": []}),
        "Invalid 'messages[1].tool_calls': empty array",
    ),
    "call without result": (
        CHAT,
        chat(USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}, USER),
        "did not have response messages: c1",
    ),
    "result without call": (
        CHAT,
        chat(USER, {"role": "tool", "tool_call_id": "c1", "content": "x"}),
        "must be a response to a preceeding message",
    ),
    "role of Gemini": (CHAT, chat({"role": "model", "content": "x"}), "Invalid value: 'model'"),
    "null": (CHAT, chat({"role": "user", "content": None}), "without content"),
    "part of Anthropic": (
        CHAT,
        chat({"role": "user", "content": [{"type": "tool_result"}]}),
        "content part",
    ),
    "system of Anthropic": (CHAT, chat(USER, system="x"), "Unknown parameter: 'system'"),
    "too long a string": (
        CHAT,
        chat({"role": "user", "content": "x" * 10_485_761}),
        "string too long",
    ),
    "tool of chat": (
        RESPONSES,
        items(USER, tools=[{"type": "function", "function": {"name": "read"}}]),
        "Missing required parameter: 'tools[0].name'",
    ),
    "unknown item": (RESPONSES, items(USER, {"type": "nonsense"}), "Invalid value: 'nonsense'"),
    "role of chat": (RESPONSES, items(USER, {"role": "tool", "content": "x"}), "value: 'tool'"),
    "output without call": (
        RESPONSES,
        items(USER, {"type": "function_call_output", "call_id": "c1", "output": "x"}),
        "No tool call found for function call output with call_id c1",
    ),
    "call without output": (
        RESPONSES,
        items(USER, {"type": "function_call", "call_id": "c1", "name": "r", "arguments": "{}"}),
        "No tool output found for function call c1",
    ),
    "reasoning alone": (
        RESPONSES,
        items(USER, {"type": "reasoning", "id": "rs_1", "summary": []}),
        "without its required following item",
    ),
    "function as a tool": (
        ANTHROPIC,
        claude(USER, tools=[{"type": "function", "function": {"name": "read"}}]),
        "tools.0: Input tag 'function' found using 'type'",
    ),
    "tool without a schema": (
        ANTHROPIC,
        claude(USER, tools=[{"name": "read"}]),
        "tools.0.custom.input_schema: Field required",
    ),
    "empty text": (ANTHROPIC, claude({"role": "user", "content": ""}), "non-whitespace text"),
    "blank text": (
        ANTHROPIC,
        claude({"role": "user", "content": [{"type": "text", "text": " "}]}),
        "non-whitespace text",
    ),
    "role tool": (ANTHROPIC, claude(USER, {"role": "tool", "content": "x"}), "role is not"),
    "block of chat": (
        ANTHROPIC,
        claude({"role": "user", "content": [{"type": "image_url"}]}),
        "image_url",
    ),
    "use without result": (
        ANTHROPIC,
        claude(USER, said({"type": "tool_use", "id": "t1", "name": "r", "input": {}}), USER),
        "without `tool_result` blocks immediately after: t1",
    ),
    "result without use": (
        ANTHROPIC,
        claude(
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}],
            }
        ),
        "unexpected `tool_use_id` found in `tool_result` blocks: t1",
    ),
    "five cache marks": (
        ANTHROPIC,
        claude({"role": "user", "content": [MARKED] * 5}),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "no signature": (
        ANTHROPIC,
        claude(
            USER, said({"type": "thinking", "thinking": "x"}, {"type": "text", "text": "y"}), USER
        ),
        "signature",
    ),
    "another signature": (
        ANTHROPIC,
        claude(
            USER,
            said(
                {"type": "thinking", "thinking": "x", "signature": "Zm9yZ2Vk"},
                {"type": "text", "text": "y"},
            ),
            USER,
        ),
        "Invalid `signature` in `thinking` block",
    ),
    "list of contents": (ANTHROPIC, claude(USER, contents=[]), "Extra inputs are not permitted"),
    "large body": (
        ANTHROPIC,
        claude({"role": "user", "content": "x" * 32_000_000}),
        "Request exceeds the maximum allowed number of bytes",
    ),
    "tool of nobody": (GEMINI, gemini(SAID, tools=[{"name": "read"}]), "tool_type"),
    "no declarations": (GEMINI, gemini(SAID, tools=[{"functionDeclarations": []}]), "tool_type"),
    "messages": (GEMINI, gemini(SAID, messages=[]), 'Unknown name "messages"'),
    "no parts": (GEMINI, gemini({"role": "user", "parts": []}), "must not be empty"),
    "one answer for two calls": (
        GEMINI,
        gemini(
            SAID,
            {"role": "model", "parts": [SKIPPED, SKIPPED]},
            {"role": "user", "parts": [ANSWER]},
        ),
        "number of function response parts is equal",
    ),
    "signature of nobody": (
        GEMINI,
        gemini(SAID, {"role": "model", "parts": [SIGNED]}, {"role": "user", "parts": [ANSWER]}),
        "Corrupted thought signature",
    ),
    "signature is missing": (
        GEMINI,
        gemini(
            SAID,
            {"role": "model", "parts": [{"functionCall": SIGNED["functionCall"]}]},
            {"role": "user", "parts": [ANSWER]},
        ),
        "missing a thought_signature",
    ),
}


def post(server: ScriptedServer, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    headers = {"authorization": "Bearer k", "x-api-key": "k", "anthropic-version": "2026-10-21"}
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as exc:
        return exc.code, json.loads(exc.read())


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_is_refused_in_the_providers_words(name):
    path, body, words = REFUSED[name]
    with ScriptedServer() as server:
        status, answer = post(server, path, body)
        assert status == (413 if name == "large body" else 400)
        assert words in answer["error"]["message"]
        assert server.requests[0].rules
        assert server.requests[0].step == ""
        assert not server.errors
    overflows = classify({**answer, "status": status}).kind
    assert (overflows == "context_too_long") is False


@pytest.mark.parametrize("path", [CHAT, RESPONSES, ANTHROPIC, GEMINI])
def test_a_loop_with_tools_is_answered_and_the_second_checker_agrees(path):
    tool = {"name": "read", "description": "r", "parameters": {"type": "object"}}
    bodies = {
        CHAT: chat(USER, tools=[{"type": "function", "function": tool}]),
        RESPONSES: items(USER, tools=[{"type": "function", **tool}]),
        ANTHROPIC: claude(USER, tools=[{"name": "read", "input_schema": {"type": "object"}}]),
        GEMINI: gemini(SAID, tools=[{"functionDeclarations": [tool]}]),
    }
    names = {CHAT: "openai_chat", RESPONSES: "openai_responses", ANTHROPIC: "anthropic"}
    with ScriptedServer(Step("tool_call"), Step("text", text="done")) as server:
        body = bodies[path]
        status, answer = post(server, path, body)
        assert status == 200
        if path == GEMINI:
            told = answer["candidates"][0]["content"]
            name = told["parts"][-1]["functionCall"]["name"]
            back = {"functionResponse": {"name": name, "response": {"output": "x"}}}
            body["contents"] += [told, {"role": "user", "parts": [back]}]
            assert post(server, path, body)[0] == 200
            told["parts"][-1]["thoughtSignature"] = "AAAA"
            assert post(server, path, body)[0] == 400
        found = check(names.get(path, "gemini"), {"model": "gemini-3-pro", **body}, window=0)
        if path != GEMINI:
            assert [each for each in found if each.severity == "error"] == []


def test_thinking_that_the_kit_made_is_taken():
    made = conversation(3, turns=6)
    assert '"thinking"' in json.dumps(made)
    with ScriptedServer() as server:
        status, answer = post(server, ANTHROPIC, claude(*made))
        assert (status, "Invalid `signature`" in str(answer)) == (200, False)
    with ScriptedServer(sealed=False) as server:
        forged = REFUSED["another signature"][1]
        assert post(server, ANTHROPIC, forged)[0] == 200

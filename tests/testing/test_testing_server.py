"""The loopback server of the wheel: the library's rules, the script's answers, three APIs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from ullage.exceptions import InvalidPolicy
from ullage.providers.errors import classify
from ullage.testing import ScriptedServer, Step

HELLO = [{"role": "user", "content": "hello"}]
HEADERS = {"x-api-key": "k", "authorization": "Bearer k", "anthropic-version": "2026-10-21"}
BODIES = {
    "/v1/messages": {"model": "claude-opus-5-5", "max_tokens": 4096, "messages": HELLO},
    "/v1/chat/completions": {"model": "gpt-5.2", "messages": HELLO},
    "/v1/responses": {"model": "gpt-5.2", "input": HELLO},
}
BROKEN = {
    "/v1/messages": {"role": "nobody", "content": "x"},
    "/v1/chat/completions": {"role": "tool", "tool_call_id": "x", "content": "y"},
    "/v1/responses": {"type": "function_call_output", "call_id": "x", "output": "y"},
}
LISTS = {"/v1/messages": "messages", "/v1/chat/completions": "messages", "/v1/responses": "input"}


def post(server, path, body, headers=HEADERS):
    data = json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read()


def text_of(path, answer):
    if path == "/v1/messages":
        return answer["content"][0]["text"]
    if path == "/v1/responses":
        return answer["output"][-1]["content"][0]["text"]
    return answer["choices"][0]["message"]["content"]


@pytest.mark.parametrize("path", BODIES)
def test_every_api_answers_by_the_script_plain_and_streamed(path):
    with ScriptedServer(Step("text", text="one"), Step("text", text="two")) as server:
        status, raw = post(server, path, BODIES[path])
        assert (status, text_of(path, json.loads(raw))) == (200, "one")
        status, raw = post(server, path, {**BODIES[path], "stream": True})
        assert status == 200
        assert b"two" in raw
        assert [seen.step for seen in server.requests] == ["text", "text"]
        assert not server.errors


@pytest.mark.parametrize("path", BODIES)
def test_a_broken_rule_is_refused_and_uses_no_step(path):
    with ScriptedServer("overloaded") as server:
        status, raw = post(server, path, {**BODIES[path], LISTS[path]: [BROKEN[path]]})
        assert status == 400, raw
        (seen,) = server.requests
        assert seen.rules
        assert seen.rules[0] in raw.decode()
        assert len(server.script.left) == 1


@pytest.mark.parametrize("path", BODIES)
def test_what_does_not_fit_is_refused_in_the_providers_words(path):
    with ScriptedServer(window=1_000) as server:
        long = [{"role": "user", "content": "word " * 2_000}]
        status, raw = post(server, path, {**BODIES[path], LISTS[path]: long})
        assert status == 400
        assert classify((status, json.loads(raw))).kind == "overflow_tokens"


def test_counting_uses_no_step_and_counts_what_does_not_fit():
    with ScriptedServer("overloaded", window=10) as server:
        body = BODIES["/v1/messages"]
        status, raw = post(server, "/v1/messages/count_tokens", body)
        assert (status, json.loads(raw)["input_tokens"] > 0) == (200, True)
        status, raw = post(server, "/v1/responses/input_tokens", BODIES["/v1/responses"])
        assert (status, json.loads(raw)["input_tokens"] > 0) == (200, True)
        assert len(server.script.left) == 1


@pytest.mark.parametrize("path", BODIES)
def test_a_request_without_a_key_or_without_a_part_is_refused(path):
    with ScriptedServer() as server:
        assert post(server, path, BODIES[path], {})[0] == 401
        status, raw = post(server, path, {"model": "m"})
        assert status == 400
        assert b"Field required" in raw


def test_models_tell_their_limits():
    with ScriptedServer() as server:
        with urllib.request.urlopen(server.url + "/v1/models/claude-opus-4-5") as answer:
            assert json.loads(answer.read())["max_input_tokens"] == 200_000


def test_a_dialect_that_is_none_is_refused_at_once():
    with pytest.raises(InvalidPolicy, match="dialect"):
        ScriptedServer(dialect="gemini")


def test_without_enforcement_everything_is_answered():
    with ScriptedServer(enforce=False) as server:
        body = {**BODIES["/v1/messages"], "messages": [{"role": "nobody"}]}
        assert post(server, "/v1/messages", body)[0] == 200

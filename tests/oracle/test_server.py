"""The loopback server: rules and real error texts, scripts, faults of the wire, exact bytes."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

from tests.oracle.server import OracleServer
from ullage.exceptions import InvalidPolicy
from ullage.providers.errors import classify
from ullage.testing import Step, scenario
from ullage.testing.script import ANSWERS

ANTHROPIC = {
    "x-api-key": "k",
    "anthropic-version": "2026-10-21",
    "content-type": "application/json",
}
OPENAI = {"authorization": "Bearer k", "content-type": "application/json"}
HELLO = [{"role": "user", "content": "hello"}]
BODY = {"model": "claude-opus-5-5", "max_tokens": 4096, "messages": HELLO}
BINDING = "thinking-binding-controls-2026-08-01"


class Client:
    """A bare client; every call has a connection of its own."""

    def __init__(self, server):
        self.place = urlsplit(server.url).netloc

    def post(self, path, body, headers=ANTHROPIC, *, method="POST"):
        connection = http.client.HTTPConnection(self.place, timeout=20)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, path, data, dict(headers))
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def messages(self, body, **headers):
        status, _, raw = self.post("/v1/messages", body, {**ANTHROPIC, **headers})
        return status, json.loads(raw)


@pytest.fixture
def server():
    with OracleServer() as made:
        yield made


def events(raw):
    """Name and data of each server-sent event."""
    found = []
    for block in raw.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if lines:
            found.append((lines.get("event", ""), lines["data"]))
    return found


def test_it_listens_on_loopback_only_and_stops():
    server = OracleServer()
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.url
    with server:
        assert urlsplit(server.url).hostname == "127.0.0.1"
        place = urlsplit(server.url)
        assert "Script" in repr(server)
    assert "stopped" in repr(server)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((place.hostname, place.port), timeout=1)


def test_the_exact_bytes_are_kept(server):
    raw = b'{"model": "claude-opus-5-5",  "max_tokens":64,\n "messages":[{"role":"user","content":"\\u00fc"}]}'
    Client(server).post("/v1/messages?beta=true", raw, {**ANTHROPIC, "anthropic-beta": "a-1, b-2"})
    (seen,) = server.requests
    assert seen.body == raw
    assert seen.json["messages"][0]["content"] == "ü"
    assert (seen.method, seen.path, seen.status, seen.step) == (
        "POST",
        "/v1/messages?beta=true",
        200,
        "good",
    )
    assert seen.betas == ("a-1", "b-2")
    assert seen.headers["x-api-key"] == "k"
    assert "103" not in repr(seen)


@pytest.mark.parametrize(
    ("change", "headers", "status", "text"),
    [
        ({"messages": []}, {}, 400, "at least one message is required"),
        ({"messages": None}, {}, 400, "valid list"),
        ({"model": None}, {}, 400, "model: Field required"),
        ({"max_tokens": None}, {}, 400, "max_tokens: Field required"),
        ({}, {"x-api-key": ""}, 401, "x-api-key header is required"),
        ({}, {"anthropic-version": ""}, 400, "anthropic-version"),
        ({"temperature": 1}, {}, 400, "temperature: Extra inputs are not permitted"),
        ({"context_management": {"edits": []}}, {}, 400, "context_management: Extra inputs"),
        ({"compaction": {"type": "summarize"}}, {}, 400, "compaction: Extra inputs"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, {}, 400, "not supported by claude-opus-5-5"),
        ({"thinking": {"type": "disabled"}}, {}, 400, "not supported"),
        ({"tool_choice": {"type": "any"}}, {}, 400, "forces tool use"),
        ({"max_tokens": 200_000}, {}, 400, "max_tokens: 200000 > 128000"),
        ({"messages": [*HELLO, {"role": "assistant", "content": "x"}]}, {}, 400, "does not support assistant message prefill"),
    ],
)  # fmt: skip
def test_what_anthropic_refuses(server, change, headers, status, text):
    body = {
        key: value
        for key, value in {**BODY, **change}.items()
        if value is not None or key == "messages"
    }
    got, answer = Client(server).messages(body, **headers)
    assert got == status
    assert answer["type"] == "error"
    assert text in answer["error"]["message"]
    assert server.requests[0].step == ""
    assert server.script.left == ()


def test_not_json_and_not_an_endpoint(server):
    client = Client(server)
    status, _, raw = client.post("/v1/messages", b"{not json")
    assert (status, json.loads(raw)["error"]["type"]) == (400, "invalid_request_error")
    assert client.post("/v1/nowhere", {})[0] == 404
    assert client.post("/v1/messages", b"", method="GET")[0] == 404


def test_a_refusal_uses_no_step():
    with OracleServer("empty") as server:
        client = Client(server)
        assert client.messages({**BODY, "messages": []})[0] == 400
        assert client.messages(BODY)[1]["content"] == []


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
def test_every_answer_in_every_form(kind, streamed):
    steps = [Step(kind, text="mine")] * 3
    with OracleServer(*steps) as server:
        client = Client(server)
        flag = {"stream": True} if streamed else {}
        for path, headers, body in (
            ("/v1/messages", ANTHROPIC, BODY),
            ("/v1/chat/completions", OPENAI, {"model": "gpt-5.2", "messages": HELLO}),
            ("/v1/responses", OPENAI, {"model": "gpt-5.2", "input": "hello"}),
        ):
            status, _, raw = client.post(path, {**body, **flag}, headers)
            assert status == 200
            if streamed:
                assert len(events(raw)) >= 2
            else:
                assert json.loads(raw)["usage"]
        assert [seen.step for seen in server.requests] == [kind] * 3


def test_window_overflow_in_anthropics_words():
    with OracleServer(window=1000) as server:
        client = Client(server)
        status, answer = client.messages(
            {**BODY, "messages": [{"role": "user", "content": "word " * 2000}]}
        )
        assert status == 400
        assert answer["error"]["message"] == "prompt is too long: 2500 tokens > 1000 maximum"
        told = classify((status, answer))
        assert (told.kind, told.gap_tokens) == ("overflow_tokens", 1500)
        big = {"model": "gpt-5.2", "messages": [{"role": "user", "content": "word " * 2000}]}
        status, _, raw = client.post("/v1/chat/completions", big, OPENAI)
        assert classify((status, json.loads(raw))).kind == "overflow_tokens"
        body = {"model": "gpt-5.2", "input": "word " * 2000}
        status, _, raw = client.post("/v1/responses", body, OPENAI)
        assert json.loads(raw)["error"]["code"] == "context_length_exceeded"
        status, _, raw = client.post("/v1/responses", {**body, "truncation": "auto"}, OPENAI)
        assert status == 200


def test_a_body_over_32_megabytes(server):
    body = json.dumps(
        {**BODY, "messages": [{"role": "user", "content": "x" * 33_000_000}]}
    ).encode()
    status, _, raw = Client(server).post("/v1/messages", body)
    assert status == 413
    assert json.loads(raw)["error"]["type"] == "request_too_large"


def test_count_tokens_counts_what_does_not_fit_and_uses_no_step():
    with OracleServer("empty", window=10) as server:
        status, _, raw = Client(server).post(
            "/v1/messages/count_tokens",
            {"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "x" * 400}]},
        )
        assert (status, json.loads(raw)) == (200, {"input_tokens": 100})
        assert len(server.script.left) == 1


def test_thinking_is_bound_to_the_whole_prefix(server):
    client, body = Client(server), {**BODY, "system": "s", "thinking": {"type": "adaptive"}}
    _, first = client.messages(body)
    assert [block["type"] for block in first["content"]] == ["thinking", "text"]
    talk = [
        *HELLO,
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": "go"},
    ]
    assert client.messages({**body, "messages": talk})[0] == 200
    status, answer = client.messages({**body, "messages": talk, "system": "other"})
    assert status == 400
    assert classify((status, answer)).kind == "thinking_binding"
    assert server.requests[-1].rules == ("A15",)
    changed = [{"role": "user", "content": "hello!"}, *talk[1:]]
    assert client.messages({**body, "messages": changed})[0] == 400
    dropping = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert client.messages({**body, "messages": changed, "thinking": dropping})[0] == 400
    status, answer = client.messages(
        {**body, "messages": changed, "thinking": dropping}, **{"anthropic-beta": BINDING}
    )
    assert status == 200
    (dropped,) = answer["input_transformations"]
    assert (dropped["type"], dropped["path"]) == ("thinking_dropped", "messages.1.content.0")


def test_an_open_loop_keeps_its_thinking():
    with OracleServer("tool_call", "tool_call", "good") as server:
        client, talk = Client(server), list(HELLO)
        body = {**BODY, "thinking": {"type": "adaptive"}}
        for _ in range(2):
            _, answer = client.messages({**body, "messages": talk})
            call = answer["content"][-1]
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": "ok"}
            talk += [
                {"role": "assistant", "content": answer["content"]},
                {"role": "user", "content": [result]},
            ]
        without = [*talk]
        without[1] = {
            "role": "assistant",
            "content": [b for b in talk[1]["content"] if b["type"] != "thinking"],
        }
        status, answer = client.messages({**body, "messages": without})
        assert status == 400
        assert "cannot be modified" in answer["error"]["message"]
        assert client.messages({**body, "messages": talk})[0] == 200


def test_prompt_cache_reads_what_a_marker_wrote():
    marked = {"type": "text", "text": "word " * 2000, "cache_control": {"type": "ephemeral"}}
    first = {**BODY, "messages": [{"role": "user", "content": [marked]}]}
    with OracleServer() as server:
        client = Client(server)
        one = client.messages(first)[1]["usage"]
        two = client.messages(first)[1]["usage"]
        assert (one["cache_creation_input_tokens"], one["cache_read_input_tokens"]) == (2500, 0)
        assert (two["cache_creation_input_tokens"], two["cache_read_input_tokens"]) == (0, 2500)
        longer = [
            *first["messages"],
            {"role": "assistant", "content": "x"},
            {"role": "user", "content": "y" * 80},
        ]
        three = client.messages({**first, "messages": longer})[1]["usage"]
        assert three["cache_read_input_tokens"] == 2500
        assert three["input_tokens"] > 0
        four = client.messages({**first, "system": "changed"})[1]["usage"]
        assert four["cache_read_input_tokens"] == 0
        short = {**BODY, "messages": [{"role": "user", "content": [{**marked, "text": "few"}]}]}
        assert client.messages(short)[1]["usage"]["cache_creation_input_tokens"] == 0


def test_context_edits_are_applied_and_reported(server):
    made = scenario(2, tokens=30_000)
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": 5000},
        "keep": {"type": "tool_uses", "value": 2},
    }
    body = {**BODY, "system": made.system, "tools": list(made.tools), "messages": made.messages}
    body["context_management"] = {"edits": [edit]}
    status, answer = Client(server).messages(
        body, **{"anthropic-beta": "context-management-2025-06-27"}
    )
    assert status == 200
    (applied,) = answer["context_management"]["applied_edits"]
    results = sum(
        block["type"] == "tool_result"
        for m in made.messages
        if isinstance(m["content"], list)
        for block in m["content"]
    )
    assert applied["cleared_tool_uses"] == results - 2
    assert applied["cleared_input_tokens"] > 10_000
    assert answer["usage"]["input_tokens"] < made.rough_tokens - 10_000


def test_compaction_on_demand_and_by_trigger(server):
    client, beta = Client(server), {"anthropic-beta": "compact-2026-09-04"}
    talk = [*HELLO, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "go on"}]
    status, answer = client.messages(
        {**BODY, "messages": talk, "compaction": {"type": "summarize"}}, **beta
    )
    assert (status, answer["stop_reason"]) == (200, "compaction")
    (block,) = answer["content"]
    assert answer["usage"]["input_tokens"] == 0
    assert answer["usage"]["iterations"][0]["type"] == "compaction"
    after = [{"role": "assistant", "content": [block]}, {"role": "user", "content": "next"}]
    assert client.messages({**BODY, "messages": after}, **beta)[0] == 200
    forged = [{"role": "assistant", "content": [{**block, "content": "else"}]}, after[1]]
    status, answer = client.messages({**BODY, "messages": forged}, **beta)
    assert answer["error"]["details"]["error_code"] == "compaction_signature_invalid"
    long = [{"role": "user", "content": "word " * 50_000}]
    edits = {
        "edits": [
            {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}
        ]
    }
    headers = {"anthropic-beta": "compact-2026-01-12"}
    _, answer = client.messages({**BODY, "messages": long, "context_management": edits}, **headers)
    assert [item["type"] for item in answer["content"]] == ["compaction", "text"]


def test_openai_pairs_ids_and_chaining(server):
    client = Client(server)
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    talk = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [call]}, *HELLO]
    status, _, raw = client.post(
        "/v1/chat/completions", {"model": "gpt-5.2", "messages": talk}, OPENAI
    )
    assert status == 400
    assert "did not have response messages: c1" in json.loads(raw)["error"]["message"]
    orphan = {"type": "function_call_output", "call_id": "c1", "output": "x"}
    status, _, raw = client.post("/v1/responses", {"model": "gpt-5.2", "input": [orphan]}, OPENAI)
    assert (
        json.loads(raw)["error"]["message"]
        == "No tool call found for function call output with call_id c1."
    )
    status, _, raw = client.post(
        "/v1/responses",
        {"model": "gpt-5.2", "input": "x", "previous_response_id": "resp_0"},
        OPENAI,
    )
    assert json.loads(raw)["error"]["code"] == "previous_response_not_found"
    assert client.post("/v1/responses", {"model": "gpt-5.2", "input": "x"}, ANTHROPIC)[0] == 401


def test_reasoning_stays_with_its_item(server):
    client, body = Client(server), {"model": "gpt-5.2", "reasoning": {"effort": "low"}}
    _, _, raw = client.post("/v1/responses", {**body, "input": "hello"}, OPENAI)
    thought, said = json.loads(raw)["output"]
    talk = [{"role": "user", "content": "hello"}, thought, said, {"role": "user", "content": "go"}]
    assert client.post("/v1/responses", {**body, "input": talk}, OPENAI)[0] == 200
    for broken, words in (
        ([talk[0], said, talk[3]], "required 'reasoning' item"),
        ([*talk[:2], talk[3]], "required following item"),
    ):
        status, _, raw = client.post("/v1/responses", {**body, "input": broken}, OPENAI)
        assert status == 400
        assert words in json.loads(raw)["error"]["message"]


def test_openai_compaction_is_opaque_and_verbatim(server):
    client = Client(server)
    items = [
        {"role": "user", "content": "hello"},
        {"type": "message", "role": "assistant", "id": "m", "content": []},
    ]
    _, _, raw = client.post("/v1/responses/compact", {"model": "gpt-5.2", "input": items}, OPENAI)
    output = json.loads(raw)["output"]
    assert [item["type"] for item in output] == ["message", "compaction"]
    follow = {"model": "gpt-5.2", "input": [*output, {"role": "user", "content": "go"}]}
    assert client.post("/v1/responses", follow, OPENAI)[0] == 200
    follow["input"][1] = {**output[1], "encrypted_content": "Zm9yZ2Vk"}
    _status, _, raw = client.post("/v1/responses", follow, OPENAI)
    assert json.loads(raw)["error"]["code"] == "invalid_encrypted_content"
    inline = {
        "model": "gpt-5.2",
        "input": "word " * 2000,
        "context_management": [{"type": "compaction", "compact_threshold": 1000}],
    }
    _, _, raw = client.post("/v1/responses", inline, OPENAI)
    assert [item["type"] for item in json.loads(raw)["output"]] == ["compaction", "message"]


def test_dialects_of_the_chat_endpoint():
    with OracleServer(dialect="mistral") as server:
        call = {"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        talk = [
            *HELLO,
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "toolu_1", "content": "x"},
        ]
        _status, _, raw = Client(server).post(
            "/v1/chat/completions", {"model": "m", "messages": talk}, OPENAI
        )
        assert json.loads(raw)["error"]["code"] == "3280"
    with pytest.raises(InvalidPolicy):
        OracleServer(dialect="oracle")


# ---- the wire ----


def test_errors_with_their_status_body_and_headers():
    with OracleServer(
        "overloaded",
        "server_error",
        Step("rate_limit", retry_after=2.5),
        Step("overflow", used=0, limit=5),
    ) as server:
        client = Client(server)
        for status, kind in (
            (529, "overloaded_error"),
            (500, "api_error"),
            (429, "rate_limit_error"),
            (400, "invalid_request_error"),
        ):
            got, headers, raw = client.post("/v1/messages", BODY)
            assert (got, json.loads(raw)["error"]["type"]) == (status, kind)
            if status == 429:
                assert headers["retry-after"] == "2.5"
        assert "prompt is too long: 6 tokens > 5 maximum" in raw.decode()


def test_an_html_413_and_a_wrong_type():
    with OracleServer("html_413", "wrong_type", "truncated_json") as server:
        client = Client(server)
        status, headers, raw = client.post("/v1/messages", BODY)
        assert (status, headers["content-type"]) == (413, "text/html")
        assert classify((status, raw.decode())).kind == "overflow_bytes"
        status, headers, raw = client.post("/v1/messages", BODY)
        assert (status, headers["content-type"], raw) == (200, "text/plain", b"OK")
        status, _, raw = client.post("/v1/messages", BODY)
        assert status == 200
        with pytest.raises(json.JSONDecodeError):
            json.loads(raw)


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
def test_cut_dropped_and_stalled(streamed):
    body = {**BODY, "stream": streamed}
    with OracleServer(
        "cut_stream",
        "drop",
        "network_error",
        Step("stall", seconds=0.05),
        Step("hang", seconds=0.05),
    ) as server:
        client = Client(server)
        for problem in (
            http.client.IncompleteRead,
            ConnectionError,
            ConnectionError,
            http.client.IncompleteRead,
            ConnectionError,
        ):
            with pytest.raises(problem):
                client.post("/v1/messages", body)
        assert [seen.step for seen in server.requests] == [
            "cut_stream",
            "drop",
            "network_error",
            "stall",
            "hang",
        ]


def test_slow_and_an_error_inside_a_stream():
    with OracleServer(Step("slow", seconds=0.05), "stream_error", "stream_error") as server:
        client = Client(server)
        began = time.monotonic()
        assert client.messages(BODY)[0] == 200
        assert time.monotonic() - began >= 0.05
        _, _, raw = client.post("/v1/messages", {**BODY, "stream": True})
        name, data = events(raw)[-1]
        assert (name, json.loads(data)["error"]["type"]) == ("error", "overloaded_error")
        assert events(raw)[0][0] == "message_start"
        assert client.messages(BODY)[0] == 529


def test_stopping_lets_waiting_calls_go():
    server = OracleServer(Step("hang", seconds=60)).start()
    client, seen = Client(server), []

    def call():
        try:
            client.post("/v1/messages", BODY)
        except OSError as exc:
            seen.append(exc)

    thread = threading.Thread(target=call)
    thread.start()
    while not server.requests:
        time.sleep(0.005)
    server.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert len(seen) == 1


def test_many_calls_at_once_and_steps_used_once_each():
    with OracleServer(*["empty"] * 40) as server:
        client, texts = Client(server), []
        lock = threading.Lock()

        def call():
            answer = client.messages(BODY)[1]
            with lock:
                texts.append(len(answer["content"]))

        threads = [threading.Thread(target=call) for _ in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(texts) == [0] * 40 + [1] * 20
        assert len({seen.status for seen in server.requests}) == 1


def test_a_chunked_request_body(server):
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    raw = json.dumps(BODY).encode()
    parts = iter([raw[:10], raw[10:]])
    connection.request(
        "POST",
        "/v1/messages",
        parts,
        {**ANTHROPIC, "transfer-encoding": "chunked"},
        encode_chunked=True,
    )
    answer = connection.getresponse()
    assert answer.status == 200
    answer.read()
    connection.close()
    assert server.requests[0].body == raw


def test_models_tell_their_limits(server):
    status, _, raw = Client(server).post("/v1/models/claude-sonnet-4-5", b"", method="GET")
    answer = json.loads(raw)
    assert (status, answer["max_input_tokens"], answer["max_tokens"]) == (200, 200_000, 64_000)


def test_without_enforcement_everything_is_answered():
    with OracleServer(enforce=False) as server:
        status, answer = Client(server).messages(
            {**BODY, "messages": [{"role": "assistant", "content": "x"}]}
        )
        assert (status, answer["type"]) == (200, "message")


def test_streams_add_up_to_the_plain_answer():
    body = {**BODY, "thinking": {"type": "adaptive"}}
    with OracleServer("tool_call", "tool_call") as server:
        client = Client(server)
        plain = client.messages(body)[1]
        _, _, raw = client.post("/v1/messages", {**body, "stream": True})
        blocks, kinds = {}, []
        for name, data in events(raw):
            event = json.loads(data)
            kinds.append(name)
            if name == "content_block_start":
                blocks[event["index"]] = dict(event["content_block"], partial="")
            elif name == "content_block_delta":
                block, delta = blocks[event["index"]], event["delta"]
                for key in ("text", "thinking", "signature"):
                    if key in delta:
                        block[key] += delta[key]
                block["partial"] += delta.get("partial_json", "")
        assert kinds[0] == "message_start"
        assert kinds[-2:] == ["message_delta", "message_stop"]
        for block in blocks.values():
            partial = block.pop("partial")
            if block["type"] == "tool_use":
                block["input"] = json.loads(partial)
        assert list(blocks.values()) == plain["content"]


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([], "Invalid 'tools': empty array. Expected an array with minimum length 1"),
        (
            [TOOL] * 129,
            "Expected an array with maximum length 128, but got an array with length 129",
        ),
    ],
)
def test_chat_takes_between_one_and_128_tools(server, tools, words):
    body = {"model": "gpt-5", "messages": HELLO}
    status, _, raw = Client(server).post("/v1/chat/completions", {**body, "tools": tools}, OPENAI)
    assert status == 400
    assert words in json.loads(raw)["error"]["message"]
    for given in ({"tools": [TOOL]}, {"tools": [TOOL] * 128}, {}):
        assert Client(server).post("/v1/chat/completions", {**body, **given}, OPENAI)[0] == 200


def responses(server, *items, **more):
    body = {"model": "gpt-5", "input": list(items), "store": False, **more}
    status, _, raw = Client(server).post("/v1/responses", body, OPENAI)
    return status, json.loads(raw)


def test_responses_refuse_items_of_types_that_are_not_theirs(server):
    status, refused = responses(server, *HELLO, {"type": "memory", "text": "x"})
    assert status == 400
    assert refused["error"]["message"].startswith("Invalid value: 'memory'. Supported values are:")
    assert refused["error"]["code"] == "invalid_value"
    assert responses(server, *HELLO, {"type": "item_reference", "id": "rs_1"})[0] == 200


def test_reasoning_comes_back_unchanged_or_not_at_all(server):
    output = responses(server, *HELLO, reasoning={"effort": "low"})[1]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message"]
    assert responses(server, *HELLO, *output, *HELLO)[0] == 200
    changed = [{**output[0], "encrypted_content": "b3RoZXI="}, output[1]]
    status, refused = responses(server, *HELLO, *changed, *HELLO)
    assert status == 400
    assert refused["error"]["code"] == "invalid_encrypted_content"


def test_reasoning_alone_passes_where_the_server_is_set_up_so():
    with OracleServer(lone_reasoning=True) as server, OracleServer() as strict:
        for each, expected in ((server, 200), (strict, 400)):
            output = responses(each, *HELLO, reasoning={"effort": "low"})[1]["output"]
            assert responses(each, *HELLO, output[0], *HELLO)[0] == expected


def test_a_compaction_trigger_is_answered_by_one_item(server):
    output = responses(server, *HELLO, {"type": "compaction_trigger"})[1]["output"]
    assert [item["type"] for item in output] == ["compaction"]
    assert responses(server, *output, *HELLO)[0] == 200


@pytest.mark.parametrize(("user_first", "expected"), [(True, 400), (False, 200)])
def test_who_speaks_first_is_a_matter_of_the_platform(user_first, expected):
    begun = [{"role": "assistant", "content": "So."}, *HELLO]
    with OracleServer(user_first=user_first) as server:
        status, answer = Client(server).messages({**BODY, "messages": begun})
    assert status == expected
    if expected == 400:
        assert answer["error"]["message"] == 'messages: first message must use the "user" role'

"""Errors as the official SDKs really raise them, where those are installed.

The SDKs' own machinery makes the exceptions: a transport answers their request with a status and a body.
"""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest

from ullage.providers import classify

ANSWERS: list[tuple[int, Any, dict[str, str], str]] = [
    (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 205001 tokens > 200000 maximum",
            },
        },
        {},
        "overflow_tokens",
    ),
    (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
                "code": "context_length_exceeded",
            }
        },
        {},
        "overflow_tokens",
    ),
    (
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9,
                "n_ctx": 8,
            }
        },
        {},
        "overflow_tokens",
    ),
    (
        413,
        "<html><head><title>413 Request Entity Too Large</title></head></html>",
        {},
        "overflow_bytes",
    ),
    (413, "", {}, "overflow_bytes"),
    (
        429,
        {"error": {"message": "Too many tokens", "type": "rate_limit_error"}},
        {"retry-after": "7"},
        "rate_limit",
    ),
    (
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        {},
        "overloaded",
    ),
    (401, {"error": {"message": "invalid key"}}, {}, "auth"),
    (
        400,
        {
            "error": {
                "message": "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t"
            }
        },
        {},
        "tool_pairing",
    ),
    (500, {"error": {"message": "boom"}}, {}, "unknown"),
]


def answered(sdk: str, status: int, body: Any, headers: dict[str, str]) -> Any:
    """The exception, or the message, that an SDK makes of an answer."""
    module = pytest.importorskip(sdk)
    name = "httpx2" if importlib.util.find_spec("httpx2") else "httpx"
    http = pytest.importorskip(name)
    kind = "text/html" if isinstance(body, str) else "application/json"
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()

    def handle(request: Any) -> Any:
        return http.Response(
            status, content=content, headers={"content-type": kind, **headers}, request=request
        )

    client_class = {"anthropic": "Anthropic", "openai": "OpenAI"}[sdk]
    transport = http.Client(transport=http.MockTransport(handle))
    client = getattr(module, client_class)(api_key="x", max_retries=0, http_client=transport)
    messages = [{"role": "user", "content": "x"}]
    with client:
        try:
            if sdk == "anthropic":
                return client.messages.create(model="m", max_tokens=1, messages=messages)
            return client.chat.completions.create(model="m", messages=messages)
        except module.APIError as error:
            return error


@pytest.mark.parametrize("sdk", ["anthropic", "openai"])
@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_exceptions_of_the_sdk(sdk: str, number: int) -> None:
    status, body, headers, kind = ANSWERS[number]
    error = answered(sdk, status, body, headers)
    assert isinstance(error, Exception)
    found = classify(error)
    assert (found.kind, found.status) == (kind, status)
    assert found.retry_after_seconds == (7.0 if headers else None)


def test_figures_survive_the_sdk() -> None:
    status, body, headers, _ = ANSWERS[0]
    found = classify(answered("anthropic", status, body, headers))
    assert (found.used_tokens, found.limit_tokens, found.learned_limit) == (205001, 200000, 200000)


def test_an_anthropic_message_that_hit_the_window() -> None:
    body = {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": "model_context_window_exceeded",
        "stop_sequence": None,
        "usage": {"input_tokens": 199_990, "output_tokens": 10},
    }
    found = classify(answered("anthropic", 200, body, {}))
    assert (found.kind, found.used_tokens) == ("silent_overflow", 199_990)
    assert (
        classify(answered("anthropic", 200, {**body, "stop_reason": "end_turn"}, {})).kind == "none"
    )


def test_an_openai_completion_over_the_window() -> None:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "y"}}
    usage = {"prompt_tokens": 130, "completion_tokens": 1, "total_tokens": 131}
    body = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }
    completion = answered("openai", 200, body, {})
    assert classify(completion).kind == "none"
    assert classify(completion, window_tokens=128).gap_tokens == 2

"""OpenAI's chat completions: checks first, then the script's answer, plain or as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ullage.testing.checker import Finding, check
from ullage.testing.checker.size import count_tokens
from ullage.testing.failures import Failure
from ullage.testing.script import Answer
from ullage.testing.server.wire import Event, Recorded, Reply, refuse

if TYPE_CHECKING:
    from ullage.testing.server.http import ScriptedServer

__all__ = ["CREATED", "admit", "create", "failure_of"]

CREATED = 1_773_565_200
"""When every answer was made; fixed, so that equal requests get equal answers."""

_REASONS = {
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "model_context_window_exceeded": "length",
}
_CHUNK = 400


def admit(recorded: Recorded, *required: str) -> Failure | None:
    """What every endpoint asks of headers and body."""
    if not recorded.headers.get("authorization"):
        return Failure(
            401, "invalid_request_error", "You didn't provide an API key.", "invalid_api_key"
        )
    if not isinstance(recorded.json, dict):
        return Failure(
            400, "invalid_request_error", "We could not parse the JSON body of your request."
        )
    for key in required:
        if key not in recorded.json:
            text = f"Missing required parameter: '{key}'."
            return Failure(400, "invalid_request_error", text, "missing_required_parameter")
    return None


def failure_of(found: list[Finding]) -> Failure | None:
    """The first error as the API would put it."""
    for finding in found:
        if finding.severity == "error":
            return Failure(finding.status, "invalid_request_error", finding.text, finding.code)
    return None


def create(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/chat/completions`."""
    early = admit(recorded, "model", "messages")
    if early is not None:
        return refuse(early, "openai")
    body = recorded.json
    refused = _rules(server, recorded, body)
    if refused is not None:
        return refuse(refused, "openai")
    tokens = count_tokens(body)
    found = server.answer(recorded, body["messages"], tokens)
    if found.failure is not None:
        return refuse(found.failure, "openai")
    made = _completion(server, body, found, tokens)
    if body.get("stream") is True:
        return Reply(events=list(_events(body, made)))
    return Reply(body=made)


def _rules(server: ScriptedServer, recorded: Recorded, body: dict[str, Any]) -> Failure | None:
    if not server.enforce:
        return None
    window, dialect = server.window or 0, server.dialect
    found = check(dialect, body, window=window, strict=server.strict)
    recorded.rules = tuple(f.rule for f in found if f.severity == "error")
    return failure_of(found)


def _completion(
    server: ScriptedServer, body: dict[str, Any], found: Answer, tokens: int
) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": found.text or None, "refusal": None}
    if found.stop_reason == "refusal":
        message |= {"content": None, "refusal": found.text}
    if found.reasoning:
        message["reasoning_content"] = found.reasoning
    if found.tool_calls:
        message["tool_calls"] = [
            {
                "id": server.new_id("call_"),
                "type": "function",
                "function": {"name": name, "arguments": "{}"},
            }
            for name in found.tool_calls
        ]
    reason = _REASONS.get(found.stop_reason, "stop")
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if isinstance(limit, int) and len(found.text) > limit * 4:
        message["content"], reason = found.text[: limit * 4], "length"
    return {
        "id": server.new_id("chatcmpl-"),
        "object": "chat.completion",
        "created": CREATED,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": _usage(found, tokens),
    }


def _usage(found: Answer, tokens: int) -> dict[str, Any]:
    thought = (len(found.reasoning) + 3) // 4
    output = (len(found.text) + 3) // 4 + thought
    return {
        "prompt_tokens": tokens,
        "completion_tokens": output,
        "total_tokens": tokens + output,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def _events(body: dict[str, Any], made: dict[str, Any]) -> Iterator[Event]:
    shared = {key: made[key] for key in ("id", "created", "model")}
    shared["object"] = "chat.completion.chunk"
    choice = made["choices"][0]
    for delta in _deltas(choice["message"]):
        piece = {"index": 0, "delta": delta, "finish_reason": None}
        yield Event("", {**shared, "choices": [piece]})
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield Event("", {**shared, "choices": [end]})
    options = body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        yield Event("", {**shared, "choices": [], "usage": made["usage"]})
    yield Event("", "[DONE]")


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    if message.get("reasoning_content"):
        yield {"reasoning_content": message["reasoning_content"]}
    text = message["content"] or ""
    for at in range(0, len(text), _CHUNK):
        yield {"content": text[at : at + _CHUNK]}
    if message.get("refusal"):
        yield {"refusal": message["refusal"]}
    for index, call in enumerate(message.get("tool_calls", ())):
        yield {"tool_calls": [{"index": index, **call}]}

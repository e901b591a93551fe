"""OpenAI's chat completions: rules first, then the script's answer, plain or as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from ullage.testing.script import Answer
from ullage.testing.server.wire import Event, Recorded, Reply, count_tokens, pieces, refusal, refuse

if TYPE_CHECKING:
    from ullage.testing.server.http import ScriptedServer

CREATED = 1_773_565_200
"""When every answer was made; fixed, so that equal requests get equal answers."""

_REASONS = {
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "model_context_window_exceeded": "length",
}


def create(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/chat/completions`."""
    refused = refusal(server, recorded, server.dialect, ("model", "messages"))
    if refused is not None:
        return refuse(refused, "openai")
    body = recorded.json
    tokens = count_tokens(body)
    found = server.answer(recorded, body["messages"], tokens)
    if found.failure is not None:
        return refuse(found.failure, "openai")
    made = completion(server, body, found, tokens)
    return (
        Reply(events=list(events(body, made))) if body.get("stream") is True else Reply(body=made)
    )


def completion(
    server: ScriptedServer, body: dict[str, Any], found: Answer, tokens: int
) -> dict[str, Any]:
    """The answer as one object."""
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
                "function": {"name": name, "arguments": orjson.dumps(given).decode()},
            }
            for name, given in found.calls({})
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


def events(body: dict[str, Any], made: dict[str, Any]) -> Iterator[Event]:
    """The same as a stream."""
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
    for piece in pieces(text):
        yield {"content": piece}
    if message.get("refusal"):
        yield {"refusal": message["refusal"]}
    for index, call in enumerate(message.get("tool_calls", ())):
        yield {"tool_calls": [{"index": index, **call}]}

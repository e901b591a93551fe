"""OpenAI's two endpoints: rules first, then the script's answer, plain or as a stream."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import orjson

from ullage.testing.script import Answer
from ullage.testing.server.wire import Event, Recorded, Reply, count_tokens, pieces, refusal, refuse

if TYPE_CHECKING:
    from ullage.testing.server import ScriptedServer


CREATED = 1_773_565_200
"""When every answer was made; fixed, so that equal requests get equal answers."""

_REASONS = {
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "model_context_window_exceeded": "length",
}


def chat(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/chat/completions`."""
    refused = refusal(server, recorded, server.dialect, ("model", "messages"))
    if refused is not None:
        return refuse(refused, "openai")
    body = recorded.json
    tokens = count_tokens(body)
    reply = server.answer(recorded, body["messages"], tokens)
    if reply.failure is not None:
        return refuse(reply.failure, "openai")
    answer = completion(server, body, reply, tokens)
    return (
        Reply(events=list(chat_events(body, answer)))
        if body.get("stream") is True
        else Reply(body=answer)
    )


def completion(
    server: ScriptedServer, body: dict[str, Any], reply: Answer, tokens: int
) -> dict[str, Any]:
    """The answer as one object."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.stop_reason == "refusal":
        message |= {"content": None, "refusal": reply.text}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": server.new_id("call_"),
                "type": "function",
                "function": {"name": name, "arguments": orjson.dumps(arguments).decode()},
            }
            for name, arguments in reply.calls({})
        ]
    reason = _REASONS.get(reply.stop_reason, "stop")
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if isinstance(limit, int) and len(reply.text) > limit * 4:
        message["content"], reason = reply.text[: limit * 4], "length"
    used = usage(reply, tokens)
    return {
        "id": server.new_id("chatcmpl-"),
        "object": "chat.completion",
        "created": CREATED,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": {
            "prompt_tokens": tokens,
            "completion_tokens": used["output_tokens"],
            "total_tokens": used["total_tokens"],
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": used["output_tokens_details"],
        },
    }


def chat_events(body: dict[str, Any], answer: dict[str, Any]) -> Iterator[Event]:
    """The same as a stream."""
    shared = {key: answer[key] for key in ("id", "created", "model")}
    shared["object"] = "chat.completion.chunk"
    choice = answer["choices"][0]
    for delta in _deltas(choice["message"]):
        piece = {"index": 0, "delta": delta, "finish_reason": None}
        yield Event("", {**shared, "choices": [piece]})
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield Event("", {**shared, "choices": [end]})
    options = body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        yield Event("", {**shared, "choices": [], "usage": answer["usage"]})
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


Items = list[dict[str, Any]]
_CUT = ("max_tokens", "model_context_window_exceeded")


def responses(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/responses`, each request whole: nothing is stored, so `previous_response_id` has no effect."""
    refused = refusal(server, recorded, "openai_responses", ("model", "input"))
    if refused is not None:
        return refuse(refused, "openai")
    body = recorded.json
    tokens = count_tokens(body)
    reply = server.answer(recorded, items_of(body), tokens)
    if reply.failure is not None:
        return refuse(reply.failure, "openai")
    answer = response(server, body, reply, tokens)
    return (
        Reply(events=list(response_events(answer)))
        if body.get("stream") is True
        else Reply(body=answer)
    )


def count(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/responses/input_tokens`: no step of the script."""
    refused = refusal(server, recorded, "openai_responses", ("input",), counting=True)
    if refused is not None:
        return refuse(refused, "openai")
    tokens = count_tokens(recorded.json)
    return Reply(body={"object": "response.input_tokens", "input_tokens": tokens})


def items_of(body: dict[str, Any]) -> Items:
    """The items of this request alone."""
    value = body.get("input")
    items = [{"role": "user", "content": value}] if isinstance(value, str) else value
    return [item for item in items or () if isinstance(item, dict)]


def response(
    server: ScriptedServer, body: dict[str, Any], reply: Answer, tokens: int
) -> dict[str, Any]:
    """The answer as one object."""
    limit, text, reason = body.get("max_output_tokens"), reply.text, reply.stop_reason
    if isinstance(limit, int) and len(text) > limit * 4:
        text, reason = text[: limit * 4], "max_tokens"
    output: Items = []
    if reply.reasoning or isinstance(body.get("reasoning"), dict):
        thought = {"type": "reasoning", "id": server.new_id("rs_"), "summary": []}
        output.append(
            {**thought, "encrypted_content": base64.b64encode(b"thought").decode("ascii")}
        )
    for name, arguments in reply.calls({}):
        call = {
            "type": "function_call",
            "id": server.new_id("fc_"),
            "call_id": server.new_id("call_"),
        }
        call |= {"arguments": orjson.dumps(arguments).decode(), "status": "completed"}
        space, _, bare = name.rpartition(".")  # names hold no dot: a tool of a namespace
        output.append({**call, "name": bare} | ({"namespace": space} if space else {}))
    if text:
        refused = reply.stop_reason == "refusal"
        part = {"type": "output_text", "text": text, "annotations": []}
        content = [{"type": "refusal", "refusal": text}] if refused else [part]
        message = {"type": "message", "id": server.new_id("msg_"), "role": "assistant"}
        output.append({**message, "status": "completed", "content": content})
    cut = reason in _CUT
    return {
        "id": server.new_id("resp_"),
        "object": "response",
        "created_at": CREATED,
        "model": body["model"],
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "usage": usage(reply, tokens),
    }


def usage(reply: Answer, tokens: int) -> dict[str, Any]:
    """What the answer says it used."""
    thought = (len(reply.reasoning) + 3) // 4
    output = (len(reply.text) + 3) // 4 + thought
    return {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": tokens + output,
    }


def numbered(parts: Iterable[dict[str, Any]]) -> Iterator[Event]:
    """Events with the numbers that this API gives them."""
    for number, data in enumerate(parts):
        yield Event(data["type"], {**data, "sequence_number": number})


def response_events(answer: dict[str, Any]) -> Iterator[Event]:
    """The same as a stream."""
    return numbered(_stream(answer))


def _stream(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(answer["output"]):
        yield from _item(index, item)
    ending = "response.incomplete" if answer["status"] == "incomplete" else "response.completed"
    yield {"type": ending, "response": answer}


def _item(index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    opened = orjson.loads(orjson.dumps(item))
    if item["type"] == "message":
        opened["content"] = []
    yield {"type": "response.output_item.added", "output_index": index, "item": opened}
    for at, part in enumerate(item["content"] if item["type"] == "message" else ()):
        if part["type"] == "output_text":
            yield from _text(
                {"output_index": index, "content_index": at, "item_id": item["id"]}, part
            )
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _text(place: dict[str, Any], part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    text = part["text"]
    for piece in pieces(text):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}

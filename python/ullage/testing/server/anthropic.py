"""Anthropic's Messages API: rules first, then the script's answer, plain or as a stream."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from ullage.testing.script import Answer
from ullage.testing.server.wire import Event, Recorded, Reply, count_tokens, pieces, refusal, refuse

if TYPE_CHECKING:
    from ullage.testing.server import ScriptedServer


def create(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/messages`."""
    refused = refusal(server, recorded, "anthropic", ("model", "max_tokens", "messages"))
    if refused is not None:
        return refuse(refused, "anthropic")
    body = recorded.json
    tokens = count_tokens(body)
    reply = server.answer(recorded, body["messages"], tokens)
    if reply.failure is not None:
        return refuse(reply.failure, "anthropic")
    message = _message(server, body, reply, tokens)
    return (
        Reply(events=list(events(message))) if body.get("stream") is True else Reply(body=message)
    )


def count(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/messages/count_tokens`: the same checks, no answer, no step of the script."""
    refused = refusal(server, recorded, "anthropic", ("model", "messages"), counting=True)
    if refused is not None:
        return refuse(refused, "anthropic")
    return Reply(body={"input_tokens": count_tokens(recorded.json)})


def _message(
    server: ScriptedServer, body: dict[str, Any], reply: Answer, tokens: int
) -> dict[str, Any]:
    content, reason = text_and_calls(reply, len(body["messages"])), reply.stop_reason
    if len(reply.text) > body["max_tokens"] * 4:
        content, reason = shortened(content, body["max_tokens"] * 4), "max_tokens"
    output = (len(reply.text) + 3) // 4 + 20 * len(reply.tool_calls)
    return {
        "id": server.new_id("msg_01"),
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": tokens, "output_tokens": output},
    }


def text_and_calls(reply: Answer, length: int) -> list[dict[str, Any]]:
    """The answer's words and tool calls as blocks; `length` (of the request) makes ids unique."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    harmless = {"file_path": "/home/dev/notes.md"}
    for number, (tool, arguments) in enumerate(reply.calls(harmless)):
        name = f"toolu_01scripted{length:04}x{number}"
        blocks.append({"type": "tool_use", "id": name, "name": tool, "input": arguments})
    return blocks


def shortened(blocks: list[dict[str, Any]], chars: int) -> list[dict[str, Any]]:
    """Blocks whose text is cut to so many characters each."""
    return [{**b, "text": b["text"][:chars]} if b["type"] == "text" else b for b in blocks]


def events(message: dict[str, Any]) -> Iterator[Event]:
    """The stream that adds up to this message."""
    empty = {**message, "content": [], "stop_reason": None}
    empty["usage"] = {**message["usage"], "output_tokens": 1}
    yield Event("message_start", {"type": "message_start", "message": empty})
    yield Event("ping", {"type": "ping"})
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block)
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    last: dict[str, Any] = {"type": "message_delta", "delta": delta, "usage": message["usage"]}
    for key in ("context_management", "input_transformations"):
        if key in message:
            last[key] = message[key]
    yield Event("message_delta", last)
    yield Event("message_stop", {"type": "message_stop"})


def _block_events(index: int, block: dict[str, Any]) -> Iterator[Event]:
    start, deltas = _split(block)
    opened = {"type": "content_block_start", "index": index, "content_block": start}
    yield Event("content_block_start", opened)
    for delta in deltas:
        yield Event(
            "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        )
    yield Event("content_block_stop", {"type": "content_block_stop", "index": index})


def _split(block: dict[str, Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """How a block begins in a stream, and what is added to it."""
    kind = block["type"]
    if kind == "text":
        parts = ({"type": "text_delta", "text": piece} for piece in pieces(block["text"]))
        return {**block, "text": ""}, parts
    if kind == "thinking":
        words = (
            {"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])
        )
        sign = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, itertools.chain(words, [sign])
    if kind == "tool_use":
        arguments = orjson.dumps(block["input"]).decode()
        parts = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces(arguments))
        return {**block, "input": {}}, parts
    delta = {"type": "compaction_delta", "content": block["content"]}
    return {**block, "content": None}, iter(
        [{**delta, "encrypted_content": block["encrypted_content"]}]
    )

"""Answers that the gateway writes itself, in the wire form that the client expects: JSON or server-sent events."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

__all__ = ["LocalAnswer", "message_answer", "response_answer", "summary_answer", "text_item"]

_PIECE = 2_000
"""Characters of text in one event."""

_NO_TOKENS = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}


@dataclass(frozen=True, slots=True)
class LocalAnswer:
    """A whole answer."""

    content_type: str
    body: bytes

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Its headers."""
        return [
            (b"content-type", self.content_type.encode()),
            (b"content-length", str(len(self.body)).encode()),
            (b"x-ullage", b"answered"),
        ]


def _json(made: Mapping[str, Any]) -> LocalAnswer:
    return LocalAnswer("application/json", orjson.dumps(made))


def _stream(events: Iterator[Mapping[str, Any]]) -> LocalAnswer:
    parts = (b"event: %b\ndata: %b\n\n" % (e["type"].encode(), orjson.dumps(e)) for e in events)
    return LocalAnswer("text/event-stream; charset=utf-8", b"".join(parts))


def _name(text: str) -> str:
    return f"ullage{zlib.crc32(text.encode('utf-8', 'replace')):08x}{time.time_ns():x}"


# ---- Anthropic ---------------------------------------------------------------------------------


def summary_answer(text: str, model: str, *, stream: bool) -> LocalAnswer:
    """A summary as Claude Code reads it: a message of one text, for no tokens."""
    message = {
        "id": f"msg_{_name(text)}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": dict(_NO_TOKENS),
    }
    return message_answer(message, stream=stream)


def message_answer(message: Mapping[str, Any], *, stream: bool) -> LocalAnswer:
    """A message of Anthropic's API whose content is texts."""
    return _stream(_message_events(message)) if stream else _json(message)


def _message_events(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(message["content"]):
        opened = {**block, "text": ""} if block["type"] == "text" else block
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        if block["type"] == "text":
            for piece in _pieces(block["text"]):
                added = {"type": "text_delta", "text": piece}
                yield {"type": "content_block_delta", "index": index, "delta": added}
        yield {"type": "content_block_stop", "index": index}
    delta: dict[str, Any] = {key: message.get(key) for key in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": delta, "usage": message.get("usage")}
    yield {"type": "message_stop"}


def _pieces(text: str) -> Iterator[str]:
    for at in range(0, len(text), _PIECE):
        yield text[at : at + _PIECE]


# ---- OpenAI Responses ----------------------------------------------------------------------------


def text_item(text: str) -> dict[str, Any]:
    """A message of the model that is one text."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    name = f"msg_{_name(text)}"
    whole = {"type": "message", "id": name, "role": "assistant", "status": "completed"}
    return {**whole, "content": [part]}


def response_answer(
    output: Sequence[Mapping[str, Any]], model: str, *, compaction: bool = False, stream: bool
) -> LocalAnswer:
    """A response with these items, as Codex reads it.

    Args:
        output: The items.
        model: As it was asked for.
        compaction: The answer of `/responses/compact`; else a response.
        stream: As events, which the former never is unless it is asked for.
    """
    made = {
        "id": f"resp_{_name(model)}",
        "object": "response.compaction" if compaction else "response",
        "created_at": int(time.time()),
        "model": model,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": list(output),
        "usage": _usage(),
    }
    return _stream(_response_events(made)) if stream else _json(made)


def _usage() -> dict[str, Any]:
    return {
        "input_tokens": 0,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 0,
    }


def _response_events(made: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**made, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(made["output"]):
        at = {"output_index": index}
        parts = item.get("content", ())
        begun = {**item, "content": [], "status": "in_progress"} if parts else item
        events.append({"type": "response.output_item.added", **at, "item": begun})
        for number, part in enumerate(parts):
            events += _text_events({**at, "content_index": number, "item_id": item["id"]}, part)
        events.append({"type": "response.output_item.done", **at, "item": item})
    events.append({"type": "response.completed", "response": dict(made)})
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}


def _text_events(at: Mapping[str, Any], part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    kind, text = "response.output_text", part["text"]
    yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
    for piece in _pieces(text):
        yield {"type": f"{kind}.delta", **at, "delta": piece, "logprobs": []}
    yield {"type": f"{kind}.done", **at, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **at, "part": part}

"""Whole answers of Anthropic's Messages and OpenAI's Responses as the events of a stream that add up to them.

`chars`: of text in one event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson


def pieces(text: str, chars: int) -> list[str]:
    """A text as a stream delivers it."""
    return [text[at : at + chars] for at in range(0, len(text), chars)]


def message_events(message: Mapping[str, Any], chars: int) -> Iterator[dict[str, Any]]:
    """Of a message whose content is texts and tool calls."""
    begun = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(message["content"]):
        opened, deltas = _split(block, chars)
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {key: message.get(key) for key in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": end, "usage": message.get("usage")}
    yield {"type": "message_stop"}


def _split(block: Mapping[str, Any], chars: int) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """How a block begins in a stream, and what is added to it."""
    if block["type"] == "text":
        parts = pieces(block["text"], chars)
        return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in parts]
    if "input" not in block:
        return {**block}, []
    parts = pieces(orjson.dumps(block["input"]).decode(), chars)
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return {**block, "input": {}}, deltas


def response_events(response: Mapping[str, Any], chars: int) -> list[dict[str, Any]]:
    """Of a response, with its status in the last one; parts of messages that are no text come with their whole item."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(response["output"]):
        at = {"output_index": index}
        parts = item.get("content", ()) if item["type"] == "message" else ()
        opened = {**item, "content": [], "status": "in_progress"} if parts else item
        events.append({"type": "response.output_item.added", **at, "item": opened})
        for number, part in enumerate(parts):
            if part["type"] == "output_text":
                place = {**at, "content_index": number, "item_id": item["id"]}
                events += _text_events(place, part, chars)
        events.append({"type": "response.output_item.done", **at, "item": item})
    events.append({"type": f"response.{response['status']}", "response": response})
    return numbered(events)


def _text_events(
    place: Mapping[str, Any], part: Mapping[str, Any], chars: int
) -> Iterator[dict[str, Any]]:
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for piece in pieces(part["text"], chars):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}


def numbered(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Events with the numbers that the Responses API gives them."""
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]

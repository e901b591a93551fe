"""What a relayed answer says: its message and the tokens that the provider counted. Read after it was passed on, never changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

__all__ = ["ReportedTokens", "events_of", "message_in", "tokens_in"]


@dataclass(frozen=True, slots=True)
class ReportedTokens:
    """What a provider counted for one request.

    Attributes:
        prompt: The whole prompt, cached parts included.
        cache_read: Of the prompt, read from the cache.
        cache_write: Of the prompt, written to it.
        output: The answer.
    """

    prompt: int
    cache_read: int
    cache_write: int
    output: int


def events_of(data: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of server-sent events, in order; what is none is left out."""
    for block in data.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")]
        try:
            found = orjson.loads(b"\n".join(lines)) if lines else None
        except orjson.JSONDecodeError:
            continue
        if isinstance(found, dict):
            yield found


def message_in(content_type: str, data: bytes) -> dict[str, Any] | None:
    """The response object of a whole answer, plain or streamed; `None`: there is none, or it broke off."""
    if not content_type.startswith("text/event-stream"):
        try:
            found = orjson.loads(data)
        except orjson.JSONDecodeError:
            return None
        return found if isinstance(found, dict) else None
    made: dict[str, Any] | None = None
    for event in events_of(data):
        made = _taken(made, event)
    return made


def _taken(made: dict[str, Any] | None, event: Mapping[str, Any]) -> dict[str, Any] | None:
    """A response with one more event of its stream; those of Anthropic add up, OpenAI's end with the whole or with the usage."""
    kind = event.get("type")
    if kind == "message_start" and isinstance(event.get("message"), dict):
        return {**event["message"], "content": []}
    response = event.get("response")
    if isinstance(response, dict) and kind in ("response.completed", "response.incomplete"):
        return response
    if event.get("object") == "chat.completion.chunk":
        usage = event.get("usage") or (made or {}).get("usage")
        return {"object": "chat.completion", "model": event.get("model"), "usage": usage}
    return made if made is None else _anthropic(made, kind, event)


def _anthropic(made: dict[str, Any], kind: object, event: Mapping[str, Any]) -> dict[str, Any]:
    if kind == "content_block_start" and isinstance(event.get("content_block"), dict):
        made["content"].append(dict(event["content_block"]))
    delta = event.get("delta")
    if not isinstance(delta, dict):
        return made
    if kind == "content_block_delta" and made["content"]:
        block = made["content"][-1]
        if isinstance(delta.get("text"), str):
            block["text"] = str(block.get("text") or "") + delta["text"]
    elif kind == "message_delta":
        usage = {**(made.get("usage") or {}), **(event.get("usage") or {})}
        made = {**made, **delta, "usage": usage}
    return made


def tokens_in(message: Mapping[str, Any] | None) -> ReportedTokens | None:
    """The usage of a response, in the words of each API; `None`: it has none."""
    usage = (message or {}).get("usage")
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("input_tokens_details") or usage.get("prompt_tokens_details")
    details = details if isinstance(details, Mapping) else {}
    read = _count(usage, "cache_read_input_tokens")
    written = _count(usage, "cache_creation_input_tokens")
    prompt = _count(usage, "input_tokens") or _count(usage, "prompt_tokens")
    output = _count(usage, "output_tokens") or _count(usage, "completion_tokens")
    if details:  # OpenAI's figure for the prompt has the cached part in it
        cached, wrote = _count(details, "cached_tokens"), _count(details, "cache_write_tokens")
        return ReportedTokens(prompt, cached, wrote, output)
    return ReportedTokens(prompt + read + written, read, written, output)


def _count(usage: Mapping[str, Any], name: str) -> int:
    found = usage.get(name)
    return found if type(found) is int and found > 0 else 0

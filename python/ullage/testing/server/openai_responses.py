"""OpenAI's Responses API: create, compact, count; plain or as a stream."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from ullage.testing.checker import check
from ullage.testing.checker.size import count_tokens
from ullage.testing.failures import Failure
from ullage.testing.script import Answer, Step, answer
from ullage.testing.server.openai_chat import CREATED, admit, failure_of
from ullage.testing.server.wire import Event, Recorded, Reply, refuse

if TYPE_CHECKING:
    from ullage.testing.server.http import ScriptedServer

__all__ = ["compact", "count", "create"]

Items = list[dict[str, Any]]
_CHUNK = 400
_CUT = ("max_tokens", "model_context_window_exceeded")


def create(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/responses`."""
    refused, body = _admit(server, recorded)
    if refused is not None:
        return refuse(refused, "openai")
    items = _history(server, body)
    tokens = count_tokens({**body, "input": items})
    found = server.answer(recorded, items, tokens)
    streamed = body.get("stream") is True
    if found.failure is not None:
        if streamed and found.failure.code == "context_length_exceeded":
            return Reply(events=list(_failed(server, body, found.failure)))
        return refuse(found.failure, "openai")
    made = _response(server, body, found, tokens)
    made["output"] = _compacted_inline(body, items, tokens) + made["output"]
    server.remember(made["id"], [*items, *made["output"]], made["output"])
    return Reply(events=list(_events(made))) if streamed else Reply(body=made)


def compact(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/responses/compact`: all user messages, and the rest as one opaque item."""
    refused, body = _admit(server, recorded)
    if refused is not None:
        return refuse(refused, "openai")
    items = _history(server, body)
    tokens = count_tokens({**body, "input": items})
    found = server.answer(recorded, items, tokens)
    if found.failure is not None:
        return refuse(found.failure, "openai")
    users = [_user_item(item) for item in items if item.get("role") == "user"]
    made = {
        "id": server.new_id("resp_"),
        "object": "response.compaction",
        "created_at": CREATED,
        "output": [*users, _opaque(found.text)],
        "usage": _usage(found, tokens),
    }
    return Reply(body=made)


def _user_item(item: dict[str, Any]) -> dict[str, Any]:
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
    return {**item, "type": "message", "content": content}


def count(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/responses/input_tokens`: no step of the script."""
    early = admit(recorded)
    if early is not None:
        return refuse(early, "openai")
    body = recorded.json
    tokens = count_tokens({**body, "input": _history(server, body)})
    return Reply(body={"object": "response.input_tokens", "input_tokens": tokens})


def _history(server: ScriptedServer, body: dict[str, Any]) -> Items:
    """All items of this request, those of the responses before it included."""
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    known = server.recall(body.get("previous_response_id"))
    return [*known, *(item for item in items or () if isinstance(item, dict))]


def _admit(server: ScriptedServer, recorded: Recorded) -> tuple[Failure | None, dict[str, Any]]:
    early = admit(recorded, "model")
    if early is not None:
        return early, {}
    body: dict[str, Any] = recorded.json
    previous = body.get("previous_response_id")
    if previous is not None and not server.recall(previous):
        text = f"Previous response with id '{previous}' not found."
        return Failure(400, "invalid_request_error", text, "previous_response_not_found"), body
    if not server.enforce:
        return None, body
    window = server.window or 0
    whole = {**body, "input": _history(server, body), "previous_response_id": None}
    found = check("openai_responses", whole, original=server.produced, window=window)
    recorded.rules = tuple(f.rule for f in found if f.severity == "error")
    return failure_of(found) or _foreign(whole["input"]), body


def _opaque(text: str) -> dict[str, Any]:
    raw = text.encode()
    body = base64.b64encode(hashlib.sha256(raw).digest()[:8] + raw).decode("ascii")
    return {
        "type": "compaction",
        "id": f"cmp_{hashlib.sha256(raw).hexdigest()[:24]}",
        "encrypted_content": body,
    }


def _foreign(items: Items) -> Failure | None:
    """Compaction items must be the server's own, unchanged."""
    for item in items:
        if item.get("type") == "compaction":
            try:
                raw = base64.b64decode(item["encrypted_content"], validate=True)
            except (binascii.Error, ValueError, TypeError, KeyError):
                raw = b""
            if raw[:8] != hashlib.sha256(raw[8:]).digest()[:8]:
                text = "The encrypted content could not be verified. Reason: it could not be decrypted."
                return Failure(400, "invalid_request_error", text, "invalid_encrypted_content")
    return None


def _compacted_inline(body: dict[str, Any], items: Items, tokens: int) -> Items:
    """A compaction item in front of the answer, if the request has grown to its threshold."""
    management = body.get("context_management")
    for edit in management if isinstance(management, list) else ():
        threshold = edit.get("compact_threshold")
        if edit.get("type") == "compaction" and isinstance(threshold, int) and tokens >= threshold:
            return [_opaque(answer(Step("good"), items).text)]
    return []


def _response(
    server: ScriptedServer, body: dict[str, Any], found: Answer, tokens: int
) -> dict[str, Any]:
    limit, text, reason = body.get("max_output_tokens"), found.text, found.stop_reason
    if isinstance(limit, int) and len(text) > limit * 4:
        text, reason = text[: limit * 4], "max_tokens"
    output: Items = []
    if found.reasoning or isinstance(body.get("reasoning"), dict):
        thought = {"type": "reasoning", "id": server.new_id("rs_"), "summary": []}
        output.append(
            {**thought, "encrypted_content": base64.b64encode(b"thought").decode("ascii")}
        )
    for name in found.tool_calls:
        call = {
            "type": "function_call",
            "id": server.new_id("fc_"),
            "call_id": server.new_id("call_"),
        }
        output.append({**call, "name": name, "arguments": "{}", "status": "completed"})
    if text:
        refused = found.stop_reason == "refusal"
        part = {"type": "output_text", "text": text, "annotations": []}
        content = [{"type": "refusal", "refusal": text}] if refused else [part]
        said = {"type": "message", "id": server.new_id("msg_"), "role": "assistant"}
        output.append({**said, "status": "completed", "content": content})
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
        "usage": _usage(found, tokens),
    }


def _usage(found: Answer, tokens: int) -> dict[str, Any]:
    thought = (len(found.reasoning) + 3) // 4
    output = (len(found.text) + 3) // 4 + thought
    return {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": tokens + output,
    }


def _numbered(events: Iterator[dict[str, Any]]) -> Iterator[Event]:
    for number, data in enumerate(events):
        yield Event(data["type"], {**data, "sequence_number": number})


def _failed(server: ScriptedServer, body: dict[str, Any], failure: Failure) -> Iterator[Event]:
    """An overflow that a stream tells as an event, after it began."""
    made = _response(server, body, Answer(), 0)
    made |= {"status": "failed", "error": {"code": failure.code, "message": failure.text}}
    begun = {**made, "status": "in_progress", "error": None}
    return _numbered(
        iter([
            {"type": "response.created", "response": begun},
            {"type": "response.failed", "response": made},
        ])
    )  # fmt: skip


def _events(made: dict[str, Any]) -> Iterator[Event]:
    return _numbered(_stream(made))


def _stream(made: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**made, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(made["output"]):
        yield from _item(index, item)
    ending = "response.incomplete" if made["status"] == "incomplete" else "response.completed"
    yield {"type": ending, "response": made}


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
    for at in range(0, len(text), _CHUNK):
        piece = text[at : at + _CHUNK]
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}

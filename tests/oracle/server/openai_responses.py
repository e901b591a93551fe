"""OpenAI's Responses API with stored responses, compaction, and items that are the server's own."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING, Any

from tests.oracle.checker import check
from tests.oracle.checker.size import count_tokens
from tests.oracle.server.openai_chat import admit, failure_of
from ullage.providers.answers import numbered, response_events
from ullage.testing.generator import EPOCH_SECONDS
from ullage.testing.script import Answer, Failure, Step, answer
from ullage.testing.server import (
    Event,
    Items,
    Recorded,
    Reply,
    items_of,
    named,
    refuse,
    response,
    usage,
)

if TYPE_CHECKING:
    from tests.oracle.server import OracleServer

__all__ = ["compact", "count", "create"]


def create(server: OracleServer, recorded: Recorded) -> Reply:
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
            return Reply(events=_failed(server, body, found.failure))
        return refuse(found.failure, "openai")
    made = response(server, body, found, tokens)
    if items and items[-1].get("type") == "compaction_trigger":  # it asks for this and nothing else
        made["output"] = [_opaque(found.text)]
    made["output"] = _compacted_inline(body, items, tokens) + made["output"]
    server.remember(made["id"], [*items, *made["output"]], made["output"])
    return Reply(events=named(response_events(made, 400))) if streamed else Reply(body=made)


def compact(server: OracleServer, recorded: Recorded) -> Reply:
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
        "created_at": EPOCH_SECONDS,
        "output": [*users, _opaque(found.text)],
        "usage": usage(found, tokens),
    }
    return Reply(body=made)


def _user_item(item: dict[str, Any]) -> dict[str, Any]:
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
    return {**item, "type": "message", "content": content}


def count(server: OracleServer, recorded: Recorded) -> Reply:
    """`POST /v1/responses/input_tokens`: no step of the script."""
    early = admit(recorded)
    if early is not None:
        return refuse(early, "openai")
    body = recorded.json
    tokens = count_tokens({**body, "input": _history(server, body)})
    return Reply(body={"object": "response.input_tokens", "input_tokens": tokens})


def _history(server: OracleServer, body: dict[str, Any]) -> Items:
    """All items of this request, those of the responses before it included."""
    return [*server.recall(body.get("previous_response_id")), *items_of(body)]


def _admit(server: OracleServer, recorded: Recorded) -> tuple[Failure | None, dict[str, Any]]:
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
    if server.lone_reasoning and body.get("store") is False:
        found = [f for f in found if not f.text.endswith("without its required following item.")]
    recorded.rules = tuple(f.rule for f in found if f.severity == "error")
    refused = failure_of(found) or _foreign(server, whole["input"])
    return refused, body


def _opaque(text: str) -> dict[str, Any]:
    raw = text.encode()
    body = base64.b64encode(hashlib.sha256(raw).digest()[:8] + raw).decode("ascii")
    return {
        "type": "compaction",
        "id": f"cmp_{hashlib.sha256(raw).hexdigest()[:24]}",
        "encrypted_content": body,
    }


def _foreign(server: OracleServer, items: Items) -> Failure | None:
    """Compaction items must be the server's own, unchanged, and so must reasoning that it gave out."""
    given = {item["id"]: item for item in server.produced if item.get("type") == "reasoning"}
    for item in items:
        own = given.get(str(item.get("id")))
        if own and item.get("encrypted_content") not in (None, own["encrypted_content"]):
            return _unverified()
        if item.get("type") == "compaction":
            try:
                raw = base64.b64decode(item["encrypted_content"], validate=True)
            except (binascii.Error, ValueError, TypeError, KeyError):
                raw = b""
            if raw[:8] != hashlib.sha256(raw[8:]).digest()[:8]:
                return _unverified()
    return None


def _unverified() -> Failure:
    text = "The encrypted content could not be verified. Reason: it could not be decrypted."
    return Failure(400, "invalid_request_error", text, "invalid_encrypted_content")


def _compacted_inline(body: dict[str, Any], items: Items, tokens: int) -> Items:
    """A compaction item in front of the answer, if the request has grown to its threshold."""
    management = body.get("context_management")
    for edit in management if isinstance(management, list) else ():
        threshold = edit.get("compact_threshold")
        if edit.get("type") == "compaction" and isinstance(threshold, int) and tokens >= threshold:
            return [_opaque(answer(Step("good"), items).text)]
    return []


def _failed(server: OracleServer, body: dict[str, Any], failure: Failure) -> list[Event]:
    """An overflow that a stream tells as an event, after it began."""
    made = response(server, body, Answer(), 0)
    made |= {"status": "failed", "error": {"code": failure.code, "message": failure.text}}
    begun = {**made, "status": "in_progress", "error": None}
    parts = [
        {"type": "response.created", "response": begun},
        {"type": "response.failed", "response": made},
    ]
    return named(numbered(parts))

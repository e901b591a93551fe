"""Anthropic's Messages API as the second checker knows it: seals, prompt cache, context edits, compaction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.oracle.checker import Finding, check_request
from tests.oracle.checker.models import facts
from tests.oracle.checker.request import Request, blocks_of, kind_of
from tests.oracle.checker.size import count_tokens
from tests.oracle.checker.thinking import drops_mismatches
from tests.oracle.server.edits import (
    apply_edits,
    compaction_block,
    is_own_compaction,
    wants_compaction,
)
from ullage.providers.answers import pieces
from ullage.testing.generator import Walk, seal, unseal
from ullage.testing.script import Answer, Failure
from ullage.testing.server import Event, Recorded, Reply, refuse, shortened, text_and_calls

if TYPE_CHECKING:
    from tests.oracle.server import OracleServer

__all__ = ["count", "create"]

_BETAS = {"context_management": "context-management", "compaction": "compact-2026-09-04"}


def create(server: OracleServer, recorded: Recorded) -> Reply:
    """`POST /v1/messages`."""
    refused, request = _admit(server, recorded)
    if refused is not None or request is None:
        return refused or Reply(500)
    tokens = count_tokens(request.body)
    found = server.answer(recorded, request.messages, tokens)
    if found.failure is not None:
        return refuse(found.failure, "anthropic")
    message = _message(server, request, found, tokens)
    if request.body.get("stream") is True:
        return Reply(events=list(_events(message)))
    return Reply(body=message)


def count(server: OracleServer, recorded: Recorded) -> Reply:
    """`POST /v1/messages/count_tokens`: the same checks, no answer, no step of the script."""
    refused, request = _admit(server, recorded, counting=True)
    if refused is not None or request is None:
        return refused or Reply(500)
    body: dict[str, Any] = {"input_tokens": count_tokens(request.body)}
    applied = apply_edits(request, body["input_tokens"])
    if applied:
        freed = sum(edit["cleared_input_tokens"] for edit in applied)
        body["context_management"] = {"original_input_tokens": body["input_tokens"]}
        body["input_tokens"] -= freed
    return Reply(body=body)


def _admit(
    server: OracleServer, recorded: Recorded, *, counting: bool = False
) -> tuple[Reply | None, Request | None]:
    """Headers, form, rules: the refusal, or the request."""
    body = recorded.json
    early = _headers(recorded) or _form(recorded, body, counting)
    if early is not None:
        return refuse(early, "anthropic"), None
    known = facts(body.get("model"))
    known = known if server.window is None else replace(known, window=server.window)
    version = int(recorded.headers["anthropic-version"].replace("-", ""))
    betas = frozenset(recorded.betas)
    # Nothing is sampled after a compaction: it may be asked for once a turn is over.
    resume = "compaction" if isinstance(body.get("compaction"), dict) else ""
    request = Request(body, known, version, betas, resume, sealed=server.sealed)
    if not server.enforce:
        return None, request
    found = [f for f in check_request(request, size=len(recorded.body)) if f.severity == "error"]
    if counting:  # what does not fit can be counted
        found = [f for f in found if f.rule != "A24"]
    found += _own_compactions(server, request)
    if server.user_first and request.messages and request.role(0) == "assistant":
        text = 'messages: first message must use the "user" role'
        found.insert(0, Finding("A29", "error", 0, -1, text))
    recorded.rules = tuple(finding.rule for finding in found)
    return (refuse(_failure(found[0]), "anthropic"), None) if found else (None, request)


def _headers(recorded: Recorded) -> Failure | None:
    if not (recorded.headers.get("x-api-key") or recorded.headers.get("authorization")):
        return Failure(401, "authentication_error", "x-api-key header is required")
    version = recorded.headers.get("anthropic-version", "")
    if not version.replace("-", "").isdigit():
        return Failure(400, "invalid_request_error", "anthropic-version: header is required")
    return None


def _form(recorded: Recorded, body: Any, counting: bool) -> Failure | None:
    if not isinstance(body, dict):
        return Failure(400, "invalid_request_error", "The request body is not valid JSON")
    required = ("model", "messages") if counting else ("model", "max_tokens", "messages")
    for key in required:
        if key not in body:
            return Failure(400, "invalid_request_error", f"{key}: Field required")
    for key, beta in _BETAS.items():
        if key in body and not any(name.startswith(beta) for name in recorded.betas):
            allowed = key == "context_management" and any("compact" in b for b in recorded.betas)
            if not allowed:
                return Failure(
                    400, "invalid_request_error", f"{key}: Extra inputs are not permitted"
                )
    return _mode(body)


def _mode(body: dict[str, Any]) -> Failure | None:
    """Thinking modes and forced tools that the model does not take."""
    known, thinking = facts(body.get("model")), body.get("thinking")
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    banned = {
        "enabled": known.no_manual,
        "disabled": known.no_disabled,
        "adaptive": known.no_adaptive,
    }
    if banned.get(str(kind)):
        text = f"thinking.type: '{kind}' is not supported by {body['model']}"
        return Failure(400, "invalid_request_error", text)
    choice = body.get("tool_choice")
    forced = isinstance(choice, dict) and choice.get("type") in ("any", "tool")
    if forced and (kind == "enabled" or known.no_disabled):
        text = "Thinking may not be enabled when tool_choice forces tool use."
        return Failure(400, "invalid_request_error", text)
    return None


def _own_compactions(server: OracleServer, request: Request) -> list[Finding]:
    """Compaction blocks must be the server's own, unchanged."""
    if not server.sealed:
        return []
    return [
        Finding(
            "A25",
            "error",
            *place.at,
            "compaction: signature is invalid",
            400,
            "compaction_signature_invalid",
        )
        for place in request.places()
        if kind_of(place.value) == "compaction"
        and place.value.get("content")
        and not is_own_compaction(place.value)
    ]


def _failure(finding: Finding) -> Failure:
    kind = "request_too_large" if finding.status == 413 else "invalid_request_error"
    return Failure(finding.status, kind, finding.text, finding.code)


def _message(server: OracleServer, request: Request, found: Answer, tokens: int) -> dict[str, Any]:
    content, reason = _content(request, found), found.stop_reason
    message: dict[str, Any] = {
        "id": server.new_id("msg_01"),
        "type": "message",
        "role": "assistant",
        "model": request.body["model"],
    }
    applied = apply_edits(request, tokens)
    usage = _usage(server, request, found, sum(edit["cleared_input_tokens"] for edit in applied))
    if wants_compaction(request, tokens):
        content, reason, usage = _compacted(request, content, usage)
    elif len(found.text) > request.body["max_tokens"] * 4:
        content, reason = shortened(content, request.body["max_tokens"] * 4), "max_tokens"
    message |= {"content": content, "stop_reason": reason, "stop_sequence": None, "usage": usage}
    if "context_management" in request.body:
        message["context_management"] = {"applied_edits": applied}
    if drops_mismatches(request) and (dropped := _dropped(request)):
        message["input_transformations"] = dropped
    return message


def _events(message: dict[str, Any]) -> Iterator[Event]:
    """The stream that adds up to this message."""
    empty = {**message, "content": [], "stop_reason": None}
    empty["usage"] = {**message["usage"], "output_tokens": 1}
    parts: list[dict[str, Any]] = [{"type": "message_start", "message": empty}, {"type": "ping"}]
    for index, block in enumerate(message["content"]):
        start, deltas = _split(block)
        parts.append({"type": "content_block_start", "index": index, "content_block": start})
        parts += [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
        parts.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    last: dict[str, Any] = {"type": "message_delta", "delta": delta, "usage": message["usage"]}
    for key in ("context_management", "input_transformations"):
        if key in message:
            last[key] = message[key]
    for part in [*parts, last, {"type": "message_stop"}]:
        yield Event(part["type"], part)


def _split(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a block begins in a stream, and what is added to it."""
    kind = block["type"]
    if kind in ("text", "thinking"):
        parts = [{"type": f"{kind}_delta", kind: piece} for piece in pieces(block[kind], 400)]
        if kind == "text":
            return {**block, kind: ""}, parts
        sign = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, kind: "", "signature": ""}, [*parts, sign]
    if kind == "tool_use":
        arguments = pieces(json.dumps(block["input"]), 400)
        parts = [{"type": "input_json_delta", "partial_json": piece} for piece in arguments]
        return {**block, "input": {}}, parts
    delta = {"type": "compaction_delta", "content": block["content"]}
    delta["encrypted_content"] = block["encrypted_content"]
    return {**block, "content": None}, [delta]


def _content(request: Request, found: Answer) -> list[dict[str, Any]]:
    blocks = []
    thinking = request.body.get("thinking")
    mode = thinking.get("type") if isinstance(thinking, dict) else None
    if found.reasoning or mode in ("enabled", "adaptive", "between_tools"):
        blocks.append(_thinking(request, found.reasoning or "Going through it in order."))
    return [*blocks, *text_and_calls(found, len(request.messages))]


def _thinking(request: Request, text: str) -> dict[str, Any]:
    """Thinking that is bound to the prefix of its own request."""
    walk, previous, before = Walk(request.body.get("system"), request.tools), "", ""
    for message in request.messages:
        if not isinstance(message, dict):
            continue
        before = walk.enter(message)
        for block in blocks_of(message.get("content")):
            if kind_of(block) in ("thinking", "redacted_thinking"):
                value = unseal(block.get("signature") or block.get("data"))
                previous = value.name if value else previous
                walk.step += 1
    before = walk.turn("assistant")
    signature, _ = seal(request.body["model"], before, text, previous, walk.step)
    return {"type": "thinking", "thinking": text, "signature": signature}


def _usage(server: OracleServer, request: Request, found: Answer, freed: int) -> dict[str, Any]:
    use = server.cache.use(request.body)
    return {
        "input_tokens": max(0, use.plain - freed),
        "cache_creation_input_tokens": use.written,
        "cache_read_input_tokens": use.read,
        "output_tokens": (len(found.text) + len(found.reasoning) + 3) // 4
        + 20 * len(found.tool_calls),
    }


def _compacted(
    request: Request, content: list[dict[str, Any]], usage: dict[str, Any]
) -> tuple[list[dict[str, Any]], str, dict[str, Any]]:
    """The answer to a request for a compaction, or one that a compaction came before."""
    block = compaction_block(request.messages)
    step = {**usage, "type": "compaction", "output_tokens": len(block["content"]) // 4}
    if "compaction" in request.body:
        return [block], "compaction", {**dict.fromkeys(usage, 0), "iterations": [step]}
    paused = any(
        edit.get("pause_after_compaction") for edit in request.body["context_management"]["edits"]
    )
    if paused:
        return [block], "compaction", {**usage, "iterations": [step]}
    last = {**usage, "type": "message"}
    return [block, *content], "end_turn", {**usage, "iterations": [step, last]}


def _dropped(request: Request) -> list[dict[str, Any]]:
    """Thinking that `drop_block` makes the server drop."""
    strict = replace(request, betas=frozenset(), body={**request.body, "thinking": None})
    found = [f for f in check_request(strict) if f.rule in ("A15", "A16") and f.message >= 0]
    kind, reason = "thinking_dropped", "prefix_binding_mismatch"
    return [
        {"type": kind, "reason": reason, "path": f"messages.{f.message}.content.{f.block}"}
        for f in found
    ]

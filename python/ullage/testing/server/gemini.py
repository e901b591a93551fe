"""Gemini's `generateContent`: rules first, then the script's answer, plain or as a stream."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ullage.testing.script import Answer, Failure
from ullage.testing.server.wire import Event, Recorded, Reply, count_tokens, refusal, refuse

if TYPE_CHECKING:
    from ullage.testing.server import ScriptedServer

_SKIPS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Documented words in place of a signature; they go as base64 like one."""

_REASONS = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}


def create(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1beta/models/NAME:generateContent`, and `:streamGenerateContent`."""
    path = recorded.path.partition("?")[0]
    model, _, method = path.rpartition("/")[2].partition(":")
    refused = refusal(server, recorded, "gemini", ("contents",), model=model)
    if refused is None and server.enforce:
        refused = _forged(server, recorded.json["contents"])
        recorded.rules = ("G04",) if refused else ()
    if refused is not None:
        return refuse(refused, "gemini")
    tokens = count_tokens(recorded.json)
    reply = server.answer(recorded, recorded.json["contents"], tokens)
    if reply.failure is not None:
        return refuse(reply.failure, "gemini")
    body = _response(server, model, reply, tokens)
    return Reply(events=[Event("", body)]) if method.startswith("stream") else Reply(body=body)


def _forged(server: ScriptedServer, contents: list[Any]) -> Failure | None:
    """A signature that this server has not given out. Source: Google's page on thought signatures."""
    signatures = {_bytes_of(text) for text in (*_SKIPS, *server.signatures)}
    for content in contents:
        for part in (content.get("parts") or ()) if isinstance(content, dict) else ():
            signature = part.get("thoughtSignature") if isinstance(part, dict) else None
            if signature is not None and _bytes_of(signature) not in signatures:
                return Failure(400, "invalid_request_error", "Corrupted thought signature. (G04)")
    return None


def _bytes_of(signature: Any) -> bytes:
    """What a signature stands for, in either alphabet of base64: Google's SDK writes the one for URLs."""
    with suppress(ValueError):
        return base64.b64decode(str(signature).replace("-", "+").replace("_", "/"))
    return b""


def _response(server: ScriptedServer, model: str, reply: Answer, tokens: int) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
    for number, name in enumerate(reply.tool_calls):
        part: dict[str, Any] = {"functionCall": {"name": name, "args": {}}}
        if not number:  # the first call of a step is signed
            part["thoughtSignature"] = _signed(server)
        parts.append(part)
    output = (len(reply.text) + 3) // 4 + 20 * len(reply.tool_calls)
    return {
        "candidates": [
            {
                "content": {"role": "model", "parts": parts},
                "finishReason": _REASONS.get(reply.stop_reason, "STOP"),
                "index": 0,
            }
        ],
        "usageMetadata": {
            "promptTokenCount": tokens,
            "candidatesTokenCount": output,
            "totalTokenCount": tokens + output,
        },
        "modelVersion": model,
        "responseId": server.new_id("r_"),
    }


def _signed(server: ScriptedServer) -> str:
    signature = base64.b64encode(server.new_id("thought >?>? ").encode()).decode("ascii")
    server.signatures.append(signature)
    return signature

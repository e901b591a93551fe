"""OpenAI's chat completions, refused by the second checker in the API's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.oracle.checker import Finding, check
from tests.oracle.checker.size import count_tokens
from ullage.testing.script import Failure
from ullage.testing.server import Recorded, Reply, chat_events, completion, refuse

if TYPE_CHECKING:
    from tests.oracle.server import OracleServer

__all__ = ["admit", "create", "failure_of"]


def admit(recorded: Recorded, *required: str) -> Failure | None:
    """What every endpoint asks of headers and body."""
    if not recorded.headers.get("authorization"):
        return Failure(
            401, "invalid_request_error", "You didn't provide an API key.", "invalid_api_key"
        )
    if not isinstance(recorded.json, dict):
        return Failure(
            400, "invalid_request_error", "We could not parse the JSON body of your request."
        )
    for key in required:
        if key not in recorded.json:
            text = f"Missing required parameter: '{key}'."
            return Failure(400, "invalid_request_error", text, "missing_required_parameter")
    return None


def failure_of(found: list[Finding]) -> Failure | None:
    """The first error as the API would put it."""
    for finding in found:
        if finding.severity == "error":
            return Failure(finding.status, "invalid_request_error", finding.text, finding.code)
    return None


def create(server: OracleServer, recorded: Recorded) -> Reply:
    """`POST /v1/chat/completions`."""
    early = admit(recorded, "model", "messages")
    if early is not None:
        return refuse(early, "openai")
    body = recorded.json
    refused = _rules(server, recorded, body)
    if refused is not None:
        return refuse(refused, "openai")
    tokens = count_tokens(body)
    found = server.answer(recorded, body["messages"], tokens)
    if found.failure is not None:
        return refuse(found.failure, "openai")
    made = completion(server, body, found, tokens)
    if body.get("stream") is True:
        return Reply(events=list(chat_events(body, made)))
    return Reply(body=made)


def _rules(server: OracleServer, recorded: Recorded, body: dict[str, Any]) -> Failure | None:
    if not server.enforce:
        return None
    window, dialect = server.window or 0, server.dialect
    found = check(dialect, body, window=window, strict=server.strict)
    recorded.rules = tuple(f.rule for f in found if f.severity == "error")
    return failure_of(found)

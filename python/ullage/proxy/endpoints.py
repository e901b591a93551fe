"""Which path means which API, and what is said in an API's own error form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import orjson

__all__ = ["Endpoint", "GatewayError", "endpoint_of", "error_body"]

Kind = Literal["messages", "count", "chat", "responses", "compact", "other"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a path is for.

    Attributes:
        kind: Which call of the API; `other`: relayed without a look at it.
        provider: Whose API: `anthropic`, `openai_chat`, `openai_responses`.
    """

    kind: Kind
    provider: str


_KNOWN = {
    "/messages": Endpoint("messages", "anthropic"),
    "/messages/count_tokens": Endpoint("count", "anthropic"),
    "/chat/completions": Endpoint("chat", "openai_chat"),
    "/responses": Endpoint("responses", "openai_responses"),
    "/responses/compact": Endpoint("compact", "openai_responses"),
}


def endpoint_of(method: str, path: str, headers: Iterable[tuple[bytes, bytes]]) -> Endpoint:
    """What a request asks for, by the end of its path: a base URL may bring a prefix of its own.

    Args:
        method: Of HTTP.
        path: Without the query.
        headers: Names in lower case; Anthropic's clients name their API's version in one.
    """
    ending = path.rstrip("/")
    for suffix in sorted(_KNOWN, key=len, reverse=True):
        if method == "POST" and ending.endswith(suffix):
            return _KNOWN[suffix]
    ours = "/messages" in path or any(name.startswith(b"anthropic-") for name, _ in headers)
    return Endpoint("other", "anthropic" if ours else "openai_chat")


class GatewayError(Exception):
    """The gateway itself answers with an error, in a form that the clients of both APIs read."""

    def __init__(self, status: int, kind: str, text: str) -> None:
        super().__init__(text)
        self.status, self.kind, self.text = status, kind, text


def error_body(refused: GatewayError) -> bytes:
    """One body with the fields that Anthropic's and OpenAI's clients look for."""
    error = {"type": refused.kind, "message": f"ullage proxy: {refused.text}"}
    return orjson.dumps({"type": "error", "error": {**error, "param": None, "code": None}})

"""What came in and what goes out, before and after HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from ullage.counting.models import lookup
from ullage.legality import Violation, validate
from ullage.testing.failures import Failure, overflow
from ullage.testing.script import Step
from ullage.testing.server.refusals import ill_formed, worded

if TYPE_CHECKING:
    from ullage.testing.server.http import ScriptedServer


_CHUNK = 400  # characters per event


@dataclass
class Recorded:
    """One request as it stood on the wire, and what became of it.

    Attributes:
        body: Exactly the bytes that came.
        headers: Names in lower case.
        status: Of the answer; 0: none was sent.
        step: Kind of the script's step that was used; empty: none, for example for a refused request.
        rules: Ids of the rules that it broke.
        fault: The step itself, for what it does to the wire.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    status: int = 0
    step: str = ""
    rules: tuple[str, ...] = ()
    fault: Step | None = None

    @cached_property
    def json(self) -> Any:
        """The body as an object; `None` if it is no JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None

    @property
    def betas(self) -> tuple[str, ...]:
        """What the `anthropic-beta` header lists."""
        return tuple(
            part.strip() for part in self.headers.get("anthropic-beta", "").split(",") if part
        )

    def __repr__(self) -> str:
        size = f"{len(self.body)} bytes"
        return (
            f"Recorded({self.method} {self.path}, {size}, status={self.status}, step={self.step!r})"
        )


class Event(NamedTuple):
    """One server-sent event; `name` empty: data only."""

    name: str
    data: object

    def encode(self) -> bytes:
        """Its bytes on the wire."""
        data = self.data if isinstance(self.data, str) else orjson.dumps(self.data).decode()
        head = f"event: {self.name}\n" if self.name else ""
        return f"{head}data: {data}\n\n".encode()


@dataclass
class Reply:
    """An answer: one body, or a stream of events."""

    status: int = 200
    body: object = None
    events: Iterable[Event] | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the answer: event by event, or all at once."""
        if self.events is None:
            yield orjson.dumps(self.body)
            return
        for event in self.events:
            yield event.encode()


def refuse(failure: Failure, provider: str) -> Reply:
    """The reply that a failure makes, in this provider's form."""
    return Reply(failure.status, failure.body(provider), headers=dict(failure.headers))


def pieces(text: str) -> Iterator[str]:
    """A text as a stream delivers it."""
    for at in range(0, len(text), _CHUNK):
        yield text[at : at + _CHUNK]


# What every endpoint asks of a request before the script answers it.


_KEYS = {
    "openai_responses": ("input", "instructions"),
    "gemini": ("contents", "systemInstruction"),
}
_READ = "system instructions systemInstruction tools messages input contents".split()


def count_tokens(body: dict[str, Any]) -> int:
    """Tokens of a request by this server: a quarter of the bytes of what the model reads, media included."""
    read = {key: body[key] for key in _READ if key in body}
    return len(orjson.dumps(read)) // 4


def refusal(
    server: ScriptedServer,
    recorded: Recorded,
    provider: str,
    needed: tuple[str, ...],
    *,
    counting: bool = False,
    model: str = "",
) -> Failure | None:
    """The first thing that is wrong with a request; `None`: it is answered.

    Args:
        server: For its settings.
        recorded: The request; the rules that it breaks are noted in it.
        provider: Whose rules hold.
        needed: Keys that the body must have.
        counting: The request only asks for a count, so its size breaks no rule.
        model: The model in use, where the body does not name it.
    """
    body = recorded.json
    early = _unreadable(body, needed) or _unnamed(recorded)
    if early is not None or not server.enforce:
        return early
    early = ill_formed(provider, body, sealed=server.sealed)
    if early is not None:
        recorded.rules = ("form",)
        return early
    found = _broken(provider, {"model": model, **body} if model else body)
    if not (found or counting):
        too_large = _too_large(server, provider, body)
        recorded.rules = ("window",) if too_large else ()
        return too_large
    recorded.rules = tuple(each.rule for each in found)
    return worded(found[0], provider) if found else None


_KEY_HEADERS = ("x-api-key", "authorization", "x-goog-api-key")


def _unnamed(recorded: Recorded) -> Failure | None:
    if any(recorded.headers.get(name) for name in _KEY_HEADERS):
        return None
    return Failure(401, "authentication_error", "no API key is in the headers", "invalid_api_key")


def _unreadable(body: Any, needed: tuple[str, ...]) -> Failure | None:
    if not isinstance(body, dict):
        return Failure(400, "invalid_request_error", "The request body is not valid JSON")
    missing = [key for key in needed if key not in body]
    if not missing:
        return None
    text = f"{missing[0]}: Field required"
    return Failure(400, "invalid_request_error", text, "missing_required_parameter")


def _broken(provider: str, body: dict[str, Any]) -> list[Violation]:
    key, system_key = _KEYS.get(provider, ("messages", "system"))
    messages = body.get(key)
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, list):
        return [Violation("A01", "error", -1, -1, f"{key} must be a list")]
    parts = ("model", "tools", "stream", key, system_key)
    report = validate(
        messages,
        provider=provider,
        model=body.get("model"),
        system=body.get(system_key),
        tools=body.get("tools"),
        params={name: value for name, value in body.items() if name not in parts},
        facts={"window": 0},  # this server's own count says what fits
    )
    return list(report.errors)


def _too_large(server: ScriptedServer, provider: str, body: dict[str, Any]) -> Failure | None:
    limit = server.window
    if limit is None:
        limit = lookup(body["model"]).context_window if provider == "anthropic" else 0
    tokens = count_tokens(body)
    if not limit or tokens <= limit:
        return None
    words = provider if provider in ("anthropic", "mistral", "gemini") else "openai"
    return overflow(words, used=tokens, limit=limit)

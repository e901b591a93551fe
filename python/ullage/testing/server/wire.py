"""What came in and what goes out, before and after HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from ullage.testing.failures import Failure
from ullage.testing.script import Step

__all__ = ["Event", "Recorded", "Reply", "pieces", "refuse"]

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

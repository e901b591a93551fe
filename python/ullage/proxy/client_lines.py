"""ClientLines as the gateway recognises them: by the client's own name for a session, or by what they have in common."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ullage.manager import ContextManager
from ullage.proxy.client_calls import ClientCall
from ullage.proxy.client_list import ClientList

__all__ = ["ClientLine", "ClientLines", "claude_session", "name_of"]

MOST_LINES = 64
"""Lines of conversations in memory; the one that was used longest ago is dropped first, and found again by its state."""

_SESSION_HEADERS = (b"x-claude-code-session-id", b"session_id", b"session-id", b"conversation_id")
_AGENT_HEADER = b"x-claude-code-agent-id"


def name_of(call: ClientCall) -> str:
    """A name for what a call belongs to: the client's session, else its model and the beginning of its system prompt."""
    headers = call.incoming
    session = next((found for name in _SESSION_HEADERS if (found := headers.header(name))), "")
    named = session or _named_in(call.body or {})
    if named:
        parts = ["session", named, headers.header(_AGENT_HEADER)]
    else:
        parts = ["prefix", call.model, _leading_text(call.body or {}, call.items or ())]
    given = json.dumps([call.endpoint.provider, *parts])
    return hashlib.sha256(given.encode()).hexdigest()[:16]


def claude_session(call: ClientCall) -> str:
    """Claude Code's own id of a session, which its hooks get too; empty if the call does not name it."""
    if found := call.incoming.header(_SESSION_HEADERS[0]):
        return found
    _, mark, name = _named_in(call.body or {}).rpartition("_session_")
    return name if mark else ""


def _named_in(body: dict[str, Any]) -> str:
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    named = user or body.get("prompt_cache_key")
    return named if isinstance(named, str) else ""


def _leading_text(body: dict[str, Any], items: Sequence[Any]) -> str:
    first = items[0] if items and isinstance(items[0], dict) else {}
    leads = first.get("content") if first.get("role") in ("system", "developer") else None
    given = body.get("system") or body.get("instructions") or leads
    if isinstance(
        given, list
    ):  # the first block counts clients and builds, the second says what the agent is
        texts = [block.get("text") for block in given[:2] if isinstance(block, dict)]
        return "\n".join(text for text in texts if isinstance(text, str))[:4_000]
    return given[:4_000] if isinstance(given, str) else ""


@dataclass(slots=True, eq=False)
class ClientLine:
    """One course that a conversation took: the main one, a side query, an edited one.

    Attributes:
        name: Of its conversation.
        number: Among the lines of its conversation, from 1.
        manager: Follows it.
        bare: The list as it was last seen.
        taken: How many messages of it the manager has taken.
        size: Bytes of the call with which it took the newest.
        thinking: The parameter of that name in its calls.
        lock: Held while a call is made to fit: two calls of one line come after each other.
    """

    name: str
    number: int
    manager: ContextManager
    thinking: object
    bare: list[Any] = field(default_factory=list)
    taken: int = 0
    size: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ClientLines:
    """The lines in memory."""

    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[str, int], ClientLine] = OrderedDict()
        self._numbers: dict[str, int] = {}

    def __iter__(self) -> Iterator[ClientLine]:
        return iter(tuple(self._lines.values()))

    def nearest(
        self, name: str, given: ClientList, thinking: object
    ) -> tuple[ClientLine | None, int]:
        """The line with the most messages in common at the beginning, and how many these are."""
        best: ClientLine | None = None
        most = 0
        for line in self:
            if line.name != name or line.thinking != thinking:
                continue
            same = _same(line.bare, given.bare)
            if same > most or (same == most and best is not None and same == len(line.bare)):
                best, most = line, same
        return best, most

    def add(self, name: str, manager: ContextManager, thinking: object) -> ClientLine:
        """A new line; the one that was used longest ago is dropped for it."""
        self._numbers[name] = number = self._numbers.get(name, 0) + 1
        made = ClientLine(name, number, manager, thinking)
        self._lines[name, number] = made
        while len(self._lines) > MOST_LINES:
            (old, _), _ = self._lines.popitem(last=False)
            if not any(line.name == old for line in self):
                self._numbers.pop(old, None)
        return made

    def used(self, line: ClientLine) -> None:
        """It is the newest now."""
        if (line.name, line.number) in self._lines:
            self._lines.move_to_end((line.name, line.number))


def _same(known: Sequence[Any], given: Sequence[Any]) -> int:
    most = min(len(known), len(given))
    if known[:most] == given[:most]:
        return most
    return next(at for at in range(most) if known[at] != given[at])

"""What was said in a session from its first message on, regardless of its own compactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ullage._engine import core
from ullage._engine.digests import MessageFlag
from ullage.counting.calibration import weights_for
from ullage.messages import Item, is_boundary, is_summary, message_of
from ullage.providers import anthropic
from ullage.sessions import Session
from ullage.transcript.render import to_messages

MOST_OVERHEAD = 60_000
"""Maximum tokens for system prompt and tools; a larger first figure includes something else."""


@dataclass(frozen=True, slots=True, repr=False)
class SessionScript:
    """The messages of a session in the order in which they were said.

    Attributes:
        messages: Bare messages, without the usage figures of the session's own context.
        times: Time of each, in milliseconds since the epoch; 0: unknown.
        own_tokens: For each response, the reported size of its prompt; for other messages 0.
        compactions: Number of messages before each of the session's own compactions.
        model: The newest model named.
        overhead_tokens: System prompt and tools, by the first figure; 0: nothing was reported.
    """

    messages: list[dict[str, Any]]
    times: list[int] = field(default_factory=list)
    own_tokens: list[int] = field(default_factory=list)
    compactions: tuple[int, ...] = ()
    model: str = ""
    overhead_tokens: int = 0

    def __repr__(self) -> str:
        return f"SessionScript({len(self.messages)} messages, {len(self.compactions)} compactions)"

    def requests(self) -> Iterator[int]:
        """Positions of messages after which a request was due."""
        messages = self.messages
        for at, message in enumerate(messages):
            last = at + 1 == len(messages)
            if message["role"] == "user" and (last or messages[at + 1]["role"] == "assistant"):
                yield at


def script_of(session: Session) -> SessionScript:
    """Extract the messages of a session.

    Args:
        session: An opened session; Claude Code's files are read again from the start.
    """
    entries, cuts = _said(session)
    view = to_messages(entries)
    ledger = core.Ledger(None, entries)
    by_uuid = {entry.get("uuid"): at for at, entry in enumerate(entries)}
    origins = [[by_uuid[name] for name in names if name in by_uuid] for names in view.sources]
    clean = [_sendable(message) for message in view.messages]
    origins = [
        places for places, message in zip(origins, clean, strict=True) if message is not None
    ]
    messages = [message for message in clean if message is not None]
    own = [max((_prompt(entries[at]) for at in places), default=0) for places in origins]
    return SessionScript(
        messages=messages,
        times=[
            max((ledger.message(at).timestamp for at in places), default=0) for places in origins
        ],
        own_tokens=own,
        compactions=tuple(sum(min(places, default=0) < cut for places in origins) for cut in cuts),
        model=session.model,
        overhead_tokens=_overhead(messages, own, session.model),
    )


def _sendable(message: dict[str, Any]) -> dict[str, Any] | None:
    """The message without parts that only another provider can read; `None`: nothing is left."""
    written = anthropic.to_provider([message]).parts["messages"]
    return written[0] if written else None


def _said(session: Session) -> tuple[list[Item], list[int]]:
    """Entries of the user and the model, in order, and their number before each compaction."""
    if session.transcript is not None and session.conversation is not None:
        removed = session.conversation.report.removed
        left_out = {"sidechain", "synthetic", "rewound", "unfinished"}
        items: Sequence[Item] = [
            entry
            for entry in session.transcript.entries()
            if removed.get(entry.get("uuid", "")) not in left_out
        ]
    else:
        items = session.history or session.items
    entries: list[Item] = []
    cuts: list[int] = []
    for number, item in enumerate(items):
        if is_boundary(item):
            cuts.append(len(entries))
        elif not is_summary(item) and not item.get("isSidechain") and _is_talk(item):
            entries.append(item if item.get("uuid") else {**item, "uuid": f"#{number}"})
    return entries, cuts


def _is_talk(item: Item) -> bool:
    return item.get("type") == "attachment" or message_of(item) is not None


def _prompt(entry: Item) -> int:
    usage = (message_of(entry) or {}).get("usage")
    if not isinstance(usage, Mapping):
        return 0
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    counts = (usage.get(name) for name in names)
    return sum(value for value in counts if type(value) is int)


def _overhead(messages: Sequence[Item], own: Sequence[int], model: str) -> int:
    """The tokens of the first figure beyond the messages before it."""
    first = next((at for at, prompt in enumerate(own) if prompt), None)
    if first is None:
        return 0
    ledger = core.Ledger(weights_for(model or None), list(messages[:first]))
    if not len(ledger) or ledger.message(0).flags & MessageFlag.BOUNDARY:
        return 0
    beyond = own[first] - int(ledger.tokens())
    return beyond if 0 < beyond <= MOST_OVERHEAD else 0

"""What a growing conversation's thinking was made after, followed message by message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ullage.legality.originals import (
    Originals,
    PrefixHash,
    answers,
    as_made,
    blocks_of,
    foreign_compaction,
    run_as_made,
    said_in,
    thought_key,
)
from ullage.legality.repairs.working_copy import ASSISTANT, USER

__all__ = ["Track"]


class Track:
    """Follows a list of messages, and the requests that were sent of it.

    Thinking is bound to the request that it answers. New thinking at the end of the list answers the
    newest request; further down, a request that was the list up to there.

    Args:
        originals: What the model has made so far; grows.
        system: The requests' system prompt.
        tools: The requests' tools.
        bound: The model's thinking is bound to its prefix; else nothing is hashed.
    """

    def __init__(self, originals: Originals, *, system: Any, tools: Any, bound: bool) -> None:
        self.originals = originals
        self.bound = bound
        self._head = PrefixHash(system, tools)
        self._sent = self._head.copy()
        self._learned: dict[int, Any] = {}  # by `_mark`; the reference keeps the id its own
        self._answering = False
        self.restart()

    def restart(self) -> None:
        """The list is another: it is fed from its beginning again."""
        self._list = self._head.copy()
        self._previous = ""
        self._turn = _Turn()
        self._expected: int | None = None
        self._broken = False

    def fine(self) -> bool:
        """Whether nothing fed since `restart` breaks A13, A15, A16 or A25."""
        return not self._broken and self._turn.fine(self.originals)

    # ---- what is known -----------------------------------------------------------------------

    def answering(self) -> None:
        """Messages fed next, as long as the assistant speaks, answer the newest request."""
        self._answering = True

    def observe(self, response: Any) -> None:
        """A response to the newest request, before it is fed as a part of the list."""
        if _mark(response) not in self._learned and said_in(response).get("role") == ASSISTANT:
            self._learn(response, self._sent.feed(response) if self.bound else ())

    def sent(self, messages: Iterable[Any] | None) -> None:
        """A request was made of these messages; `None`: of the list as it is."""
        self._sent = self._list.copy() if messages is None else self._head.copy()
        for item in (messages or ()) if self.bound else ():
            _run_through(self._sent, item)

    def feed(self, item: Any) -> None:
        """The next message of the list."""
        role = str(said_in(item).get("role", ""))
        self._answering = self._answering and role in (ASSISTANT, "")
        found = list(self._list.feed(item)) if self.bound else []
        if role == ASSISTANT and _mark(item) not in self._learned:
            answers_sent = self.bound and self._answering
            self._learn(item, self._sent.feed(item) if answers_sent else found)
        self._check(item, found)
        self._turn.feed(role, item, self.originals)
        self._previous = role or self._previous

    def _learn(self, item: Any, found: Iterable[tuple[int, str, bytes]]) -> None:
        known = {*self.originals.bound, *self.originals.refused}
        for _, key, digest in found:
            if key not in known:
                self.originals.bind(key, digest)
        self.originals.learn(item, goes_on=self._previous == ASSISTANT)
        self._learned[_mark(item)] = item

    # ---- saving ------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """What is known about thinking in addition to the blocks themselves, as plain JSON."""
        made = self.originals
        return {
            "order": dict(made.order),
            "bound": {key: sorted(each.hex() for each in made.bound[key]) for key in made.bound},
            "refused": sorted(made.refused),
        }

    def load(self, stored: Mapping[str, Any], history: Iterable[Any]) -> None:
        """Take back what `dump` gave; `history` holds the blocks."""
        made = self.originals
        previous = ""
        for item in history:
            role = str(said_in(item).get("role", ""))
            if role == ASSISTANT:
                made.learn(item, goes_on=previous == ASSISTANT)
                self._learned[_mark(item)] = item
            previous = role or previous
        made.order.update(stored["order"])
        if stored["refused"]:
            made.forget()
            made.refused.update(stored["refused"])
        for key, digests in stored["bound"].items():
            made.bound[key] = {bytes.fromhex(each) for each in digests}

    def _check(self, item: Any, found: Iterable[tuple[int, str, bytes]]) -> None:
        made = self.originals
        for _, key, digest in found:
            position = made.order.get(key)
            valid = position is not None and digest in made.bound.get(key, ())
            run = self._expected is None or position == self._expected
            self._broken = self._broken or not (valid and run)
            self._expected = None if position is None else position + 1
        for block in blocks_of(item):
            known = made.blocks.get(thought_key(block) or "")
            altered = known is not None and known != as_made(block)
            self._broken = self._broken or altered or foreign_compaction(block, made)


def _mark(item: Any) -> int:
    """Tells an assistant message also in another envelope: its list of blocks is the same object."""
    content = said_in(item).get("content")
    return id(content) if isinstance(content, list) else id(item)


def _run_through(running: PrefixHash, item: Any) -> None:
    for _ in running.feed(item):
        pass


class _Turn:
    """The current turn: all since the last user turn without any tool result."""

    def __init__(self) -> None:
        self._role = ""
        self._answered = False
        self._run: list[Any] = []
        self._torn = False

    def feed(self, role: str, item: Any, originals: Originals) -> None:
        if role == ASSISTANT:
            if self._role == USER and not self._answered:
                self._torn = False
            self._role = ASSISTANT
            self._run.append(item)
            return
        if role:
            self._torn = self._torn or not run_as_made(self._run, originals)
            self._run = []
        if role == USER:
            self._answered = answers(item) or (self._answered and self._role == USER)
            self._role = USER

    def fine(self, originals: Originals) -> bool:
        if self._role == USER and not self._answered:
            return True
        return not self._torn and run_as_made(self._run, originals)

"""What a growing conversation's thinking was made after, followed message by message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ullage.legality.draft import ASSISTANT, USER
from ullage.legality.originals import (
    Originals,
    PrefixHash,
    as_made,
    foreign_compaction,
    run_as_made,
    said_in,
    thought_key,
)
from ullage.messages import THINKING, as_blocks

_WATCHED = (*THINKING, "compaction")
"""Blocks that have to be as they came."""


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
        self._steps = _Steps()
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
        return not self._broken and self._turn.fine(self.originals, self._steps)

    # ---- what is known -----------------------------------------------------------------------

    def answering(self) -> None:
        """Messages fed next, as long as the assistant speaks, answer the newest request."""
        self._answering = True

    def observe(self, response: Any) -> None:
        """A response to the newest request, before it is fed as a part of the list."""
        message = said_in(response)
        mark = _mark(response, message)
        if mark not in self._learned and message.get("role") == ASSISTANT:
            self._learn(response, mark, self._sent.feed(response) if self.bound else ())

    def sent(self, messages: Iterable[Any] | None) -> None:
        """A request was made of these messages; `None`: of the list as it is."""
        self._sent = self._list.copy() if messages is None else self._head.copy()
        for item in (messages or ()) if self.bound else ():
            _run_through(self._sent, item)

    def feed(self, item: Any) -> None:
        """The next message of the list."""
        message = said_in(item)
        role = str(message.get("role", ""))
        self._answering = self._answering and role in (ASSISTANT, "")
        found = list(self._list.feed(item)) if self.bound else []
        mark = _mark(item, message) if role == ASSISTANT else 0
        if mark and mark not in self._learned:
            answers_sent = self.bound and self._answering
            self._learn(item, mark, self._sent.feed(item) if answers_sent else found)
        if found:
            self._follow(found)
        blocks = _blocks(message)
        # What was learned from this very list of blocks is as it came.
        if not (mark and self._steps.sure):
            self._check(blocks)
        if mark:
            self._turn.said(item, mark)
        elif role:
            self._turn.heard(role == USER, blocks, self.originals, self._steps)
        self._previous = role or self._previous

    def _learn(self, item: Any, mark: int, found: Iterable[tuple[int, str, bytes]]) -> None:
        made = self.originals
        new = [row for row in found if row[1] not in made.bound and row[1] not in made.refused]
        for _, key, digest in new:
            made.bind(key, digest)
        self._note(item, mark, self._previous == ASSISTANT)

    def _note(self, item: Any, mark: int, goes_on: bool) -> None:
        self._steps.note(item, mark, goes_on, self.originals)
        self.originals.learn(item, goes_on=goes_on)
        self._learned[mark] = item

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
            message = said_in(item)
            role = str(message.get("role", ""))
            if role == ASSISTANT:
                self._note(item, _mark(item, message), previous == ASSISTANT)
            previous = role or previous
        made.order.update(stored["order"])
        if stored["refused"]:
            made.forget()
            made.refused.update(stored["refused"])
        for key, digests in stored["bound"].items():
            made.bound[key] = {bytes.fromhex(each) for each in digests}

    def _follow(self, found: Iterable[tuple[int, str, bytes]]) -> None:
        """Whether thinking stands where it was made, in one unbroken run."""
        made = self.originals
        for _, key, digest in found:
            position = made.order.get(key)
            valid = position is not None and digest in made.bound.get(key, ())
            run = self._expected is None or position == self._expected
            self._broken = self._broken or not (valid and run)
            self._expected = None if position is None else position + 1

    def _check(self, blocks: Iterable[Any]) -> None:
        made = self.originals
        for block in blocks:
            if _kind(block) in _WATCHED:
                known = made.blocks.get(thought_key(block) or "")
                altered = known is not None and known != as_made(block)
                self._broken = self._broken or altered or foreign_compaction(block, made)


def _kind(block: Any) -> Any:
    return block.get("type") if type(block) is dict or isinstance(block, Mapping) else None


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    """Content blocks, which are only read."""
    content = message.get("content")
    return content if type(content) is list else as_blocks(content)


def _mark(item: Any, message: Mapping[str, Any]) -> int:
    """Tells an assistant message also in another envelope: its list of blocks is the same object."""
    content = message.get("content")
    return id(content) if isinstance(content, list) else id(item)


def _run_through(running: PrefixHash, item: Any) -> None:
    for _ in running.feed(item):
        pass


class _Steps:
    """Which messages each step of the assistant came in, so that a step that stands as it came need not be compared.

    Attributes:
        sure: Nothing came twice: each call and all thinking belongs to one step, and has its seal.
    """

    def __init__(self) -> None:
        self.sure = True
        self._newest: list[int] = []
        # The marks of a step by each of them; a step of one message is not in it.
        self._together: dict[int, list[int]] = {}

    def note(self, item: Any, mark: int, goes_on: bool, originals: Originals) -> None:
        """A message that the originals are about to learn."""
        if goes_on and self._newest:
            self._newest.append(mark)
            self._together[self._newest[0]] = self._together[mark] = self._newest
        else:
            self._newest = [mark]
        if self.sure:
            self.sure = self._is_new(_blocks(said_in(item)), originals)

    def _is_new(self, blocks: Iterable[Any], originals: Originals) -> bool:
        seen = set[str]()
        for block in blocks:
            kind = _kind(block)
            if kind == "tool_use":
                key = f"call:{block.get('id')}"
            elif kind in THINKING:
                seal = block.get("signature" if kind == "thinking" else "data")
                if not (isinstance(seal, str) and seal):
                    return False
                key = f"{kind}:{seal}"
            else:
                continue
            known = key in originals.step_of or key in originals.refused
            if known or key in seen:
                return False
            seen.add(key)
        return True

    def stands(self, run: Sequence[tuple[Any, int]]) -> bool:
        """Whether neighbouring messages are surely a whole step, as it came."""
        marks = [mark for _, mark in run]
        return self.sure and self._together.get(marks[0], marks[:1]) == marks


class _Turn:
    """The current turn: all since the last user turn without any tool result."""

    def __init__(self) -> None:
        self._role = ""
        self._answered = False
        self._run: list[tuple[Any, int]] = []
        self._torn = False

    def said(self, item: Any, mark: int) -> None:
        """A message of the assistant."""
        if self._role == USER and not self._answered:
            self._torn = False
        self._role = ASSISTANT
        self._run.append((item, mark))

    def heard(self, by_user: bool, blocks: Iterable[Any], made: Originals, steps: _Steps) -> None:
        """A message of somebody else."""
        if self._run:
            # Now: what is learned later may lengthen a step.
            self._torn = self._torn or not _as_made(self._run, made, steps)
            self._run = []
        if by_user:
            answers = any(_kind(block) == "tool_result" for block in blocks)
            self._answered = answers or (self._answered and self._role == USER)
            self._role = USER

    def fine(self, originals: Originals, steps: _Steps) -> bool:
        if self._role == USER and not self._answered:
            return True
        return not self._torn and (not self._run or _as_made(self._run, originals, steps))


def _as_made(run: Sequence[tuple[Any, int]], originals: Originals, steps: _Steps) -> bool:
    return steps.stands(run) or run_as_made([item for item, _ in run], originals)

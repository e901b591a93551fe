"""`Repairer`: the repairs of one conversation, which reads each message once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from typing import Any, Self, Unpack

from ullage._engine import core
from ullage.exceptions import InvalidMessage
from ullage.legality.draft import ASSISTANT, USER, Repaired
from ullage.legality.originals import (
    Originals,
    PrefixHash,
    bare_thinking,
    foreign_compaction,
    message_in,
    run_unchanged,
    thought_key,
)
from ullage.legality.params import (
    REPAIR_OPTIONS,
    RepairOptions,
    check_params,
    documents_of,
    facts_for,
    json_bytes,
    json_of,
    pages_of,
    request_of,
)
from ullage.messages import THINKING, Item, as_blocks

# What a growing conversation's thinking was made after, followed message by message.


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
        self._odd = False  # a message that is not the model's holds what only the model makes
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
        message = message_in(response)
        mark = _mark(response, message)
        if mark not in self._learned and message.get("role") == ASSISTANT:
            self._learn(response, mark, self._sent.feed(response) if self.bound else ())

    def learn(self, items: Iterable[Any]) -> None:
        """As `feed` of these and `restart` where nothing is hashed: all that stays of them is what the model made."""
        for item in items:
            message = message_in(item)
            role = str(message.get("role", ""))
            mark = _mark(item, message) if role == ASSISTANT else 0
            if mark and mark not in self._learned:
                self._note(item, mark, self._previous == ASSISTANT)
            elif role != ASSISTANT:
                for block in _blocks(message):
                    self._odd = self._odd or _kind(block) in _WATCHED
            self._previous = role or self._previous

    def skipped(self, items: Sequence[Any]) -> int:
        """How many of a list's first messages need not be fed: all before its current turn, if they are as they were learned."""
        if self.bound or not self._steps.sure or self._odd:
            return 0
        start = len(items) - 2
        while start > 0 and not _begins_turn(items, start):
            start -= 1
        for item in items[: max(0, start)]:
            message = message_in(item)
            if message.get("role") == ASSISTANT and _mark(item, message) not in self._learned:
                return 0
        return max(0, start)

    def sent(self, messages: Iterable[Any] | None) -> None:
        """A request was made of these messages; `None`: of the list as it is."""
        if not self.bound:
            return
        self._sent = self._list.copy() if messages is None else self._head.copy()
        for item in messages or ():
            _run_through(self._sent, item)

    def feed(self, item: Any) -> None:
        """The next message of the list."""
        message = message_in(item)
        role = str(message.get("role", ""))
        self._answering = self._answering and role in (ASSISTANT, "")
        thoughts = list(self._list.feed(item)) if self.bound else []
        mark = _mark(item, message) if role == ASSISTANT else 0
        if mark and mark not in self._learned:
            answers_sent = self.bound and self._answering
            self._learn(item, mark, self._sent.feed(item) if answers_sent else thoughts)
        if thoughts:
            self._follow(thoughts)
        # What was learned from this very list of blocks is as it came.
        if not (mark and self._steps.sure):
            self._check(_blocks(message), by_model=bool(mark))
        if mark:
            self._turn.spoke(item, mark)
        elif role:
            self._turn.heard(role == USER, _blocks(message), self.originals, self._steps)
        self._previous = role or self._previous

    def _learn(self, item: Any, mark: int, thoughts: Iterable[tuple[int, str, bytes]]) -> None:
        originals = self.originals
        new = [
            row
            for row in thoughts
            if row[1] not in originals.bound and row[1] not in originals.refused
        ]
        for _, key, digest in new:
            originals.bind(key, digest)
        self._note(item, mark, self._previous == ASSISTANT)

    def _note(self, item: Any, mark: int, goes_on: bool) -> None:
        new = self.originals.learn(item, goes_on=goes_on)
        self._steps.note(mark, goes_on, new)
        self._learned[mark] = item

    # ---- saving ------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """What is known about thinking in addition to the blocks themselves, as plain JSON."""
        originals = self.originals
        return {
            "order": dict(originals.order),
            "bound": {
                key: sorted(digest.hex() for digest in originals.bound[key])
                for key in originals.bound
            },
            "refused": sorted(originals.refused),
        }

    def load(self, stored: Mapping[str, Any], history: Iterable[Any]) -> None:
        """Take back what `dump` gave; `history` holds the blocks."""
        originals = self.originals
        previous = ""
        for item in history:
            message = message_in(item)
            role = str(message.get("role", ""))
            if role == ASSISTANT:
                self._note(item, _mark(item, message), previous == ASSISTANT)
            previous = role or previous
        originals.order.update(stored["order"])
        if stored["refused"]:
            originals.forget()
            originals.refused.update(stored["refused"])
        for key, digests in stored["bound"].items():
            originals.bound[key] = {bytes.fromhex(digest) for digest in digests}

    def _follow(self, thoughts: Iterable[tuple[int, str, bytes]]) -> None:
        """Whether thinking stands where it was made, in one unbroken run."""
        originals = self.originals
        for _, key, digest in thoughts:
            position = originals.order.get(key)
            valid = position is not None and digest in originals.bound.get(key, ())
            run = self._expected is None or position == self._expected
            self._broken = self._broken or not (valid and run)
            self._expected = None if position is None else position + 1

    def _check(self, blocks: Iterable[Any], *, by_model: bool) -> None:
        originals = self.originals
        for block in blocks:
            if _kind(block) in _WATCHED:
                self._odd = self._odd or not by_model
                recorded = originals.blocks.get(thought_key(block) or "")
                altered = recorded is not None and recorded != bare_thinking(block)
                self._broken = self._broken or altered or foreign_compaction(block, originals)


def _kind(block: Any) -> Any:
    return block.get("type") if type(block) is dict or isinstance(block, Mapping) else None


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    """Content blocks, which are only read."""
    content = message.get("content")
    return content if type(content) is list else as_blocks(content)


def _begins_turn(items: Sequence[Any], at: int) -> bool:
    """Whether the user speaks there, between two answers and without results."""
    message = message_in(items[at])
    if message.get("role") != USER or "tool_result" in map(_kind, _blocks(message)):
        return False
    return all(message_in(items[near]).get("role") == ASSISTANT for near in (at - 1, at + 1))


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

    def note(self, mark: int, goes_on: bool, new: bool) -> None:
        """A message that the originals have learned; `new`: nothing in it came before."""
        if goes_on and self._newest:
            self._newest.append(mark)
            self._together[self._newest[0]] = self._together[mark] = self._newest
        else:
            self._newest = [mark]
        self.sure = self.sure and new

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
        self._broken = False

    def spoke(self, item: Any, mark: int) -> None:
        """A message of the assistant."""
        if self._role == USER and not self._answered:
            self._broken = False
        self._role = ASSISTANT
        self._run.append((item, mark))

    def heard(
        self, by_user: bool, blocks: Iterable[Any], originals: Originals, steps: _Steps
    ) -> None:
        """A message of somebody else."""
        if self._run:
            # Now: what is learned later may lengthen a step.
            self._broken = self._broken or not _is_unchanged(self._run, originals, steps)
            self._run = []
        if by_user:
            answers = "tool_result" in map(_kind, blocks)
            self._answered = answers or (self._answered and self._role == USER)
            self._role = USER

    def fine(self, originals: Originals, steps: _Steps) -> bool:
        if self._role == USER and not self._answered:
            return True
        return not self._broken and (not self._run or _is_unchanged(self._run, originals, steps))


def _is_unchanged(run: Sequence[tuple[Any, int]], originals: Originals, steps: _Steps) -> bool:
    return steps.stands(run) or run_unchanged([item for item, _ in run], originals)


# The engine's own, where no fact says otherwise (`Facts.body_limit`, `Facts.page_limit`).
BODY_LIMIT = 30_000_000
_DOCUMENT = b'"document"'
_EMPTY = len(b'{"messages":[]}')


class Repairer:
    """Repairs the requests of one growing conversation; a legal one costs what is new in it.

    Call `repair` with the whole list before each request. While messages were only appended to a legal
    list, what came before is not read again. After an edit, a cut or a compaction the list is read once
    more; an illegal list is repaired as a whole each time.
    Only the Anthropic form is followed like this; the others are repaired as a whole each time.

    The result is that of `ullage.legality.repairs.repair` for the whole list: the same list if it is legal, the
    same objects for untouched messages. From the first rewrite or repair on it is that of
    `repair(..., original=repairer.originals)`: on models whose thinking is bound to its prefix, thinking
    from before a rewrite goes, thinking that came after it stays, and the open turn keeps its own.

    A message that is edited in place is not noticed; put a new object in its place, as everywhere here.

    Args:
        **options: See `ullage.legality.RepairOptions`; the same for every request. `original` is the conversation as the
            model saw it before the first list, if that was rewritten; `None`: the first list is as it was sent.

    Raises:
        InvalidPolicy: An unknown provider or fact.

    Attributes:
        originals: What the model made, and after what.
        read: Messages that the last `repair` read: all of them, unless the list had only grown.

    Example:
        >>> talk = [{"role": "user", "content": "hello"}]
        >>> repairer = Repairer(model="claude-opus-5-5")
        >>> repairer.repair(talk).messages is talk
        True
        >>> talk += [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "go on"}]
        >>> repairer.repair(talk).ok, repairer.read
        (True, 2)
    """

    def __init__(self, **options: Unpack[RepairOptions]) -> None:
        request = request_of(Repairer, options, REPAIR_OPTIONS)
        original = request.pop("original", None)
        self._options, self._provider = request, request["provider"]
        system, tools, params = request.get("system"), request.get("tools"), request["params"]
        request_facts = facts_for(
            model=request.get("model"), system=system, tools=tools, params=params,
            platform=request.get("platform", "anthropic"), facts=request["facts"],
        )  # fmt: skip
        self.originals = Originals.read(original or (), system=system, tools=tools)
        bound = request_facts.bound and not request_facts.drop_block
        self._track = Track(self.originals, system=system, tools=tools, bound=bound)
        # Until a list is rewritten nothing needs to be hashed: it is its own original.
        self._tracking = original is not None
        self._items: list[Any] = []
        self._answers: list[Any] = []
        self._reading = _Reading({"system": system, "tools": tools, **params}, request_facts.core)
        self._params_fine = not any(check_params(params, request_facts))
        self._ledger: Any = None
        self._own: Any = None
        self._version = 0
        self._seen = 0
        self.read = 0

    def repair(
        self, messages: Sequence[Item], *, ledger: core.Ledger | None = None, resume: str = ""
    ) -> Repaired:
        """The list as it may be sent; see `ullage.legality.repairs.repair`.

        Args:
            messages: The whole list.
            ledger: A ledger of exactly this list, if the caller keeps one; its counts decide whether
                the list fits the window. `None`: one is kept here.
            resume: `pause_turn` or `compaction` when this request resumes such a stop.

        Returns:
            The messages, what was repaired, and what is left.
        """
        if not self._provider.internal:
            return self._whole(messages, resume)
        legal = self._reads_legal(messages, ledger)
        done = Repaired(messages) if legal and not resume else self._whole(messages, resume)
        self._note_sent(messages, done)
        return done

    def passes(self, messages: Sequence[Item], ledger: core.Ledger) -> bool:
        """Whether `repair` gives this very list, in Anthropic's form; then it counts as sent. False: `repair` has to be called.

        Args:
            messages: As there.
            ledger: As there.
        """
        new = messages[self._seen :]
        grown = ledger is self._ledger and ledger.changed_since(self._version) == len(messages)
        if grown and new:
            self._items += new
            self._reading.feed(new)
            if self._tracking:
                self._track.answering()
                for item in new:
                    self._track.feed(item)
            self.read, self._seen = len(new), len(messages)
            legal = self._is_legal()
        else:
            legal = self._reads_legal(messages, ledger)
        if legal and self._tracking:
            self._track.sent(None)
        return legal

    def observe(self, response: Item) -> None:
        """Say that this message answers the request that `repair` gave last.

        For every assistant message when it comes, where the list may be rewritten as a whole before
        the next `repair`: a compaction ran while the model answered. Otherwise the list itself tells.
        """
        if self._tracking:
            self._track.observe(response)
        else:
            self._answers.append(response)

    def drop_thinking(self) -> None:
        """Leave out all thinking made so far from now on, as after the provider's binding error.

        Retry once with what `repair` gives then. What the model thinks afterwards is kept.
        """
        self._begin_tracking()
        self.originals.forget()
        # The provider has said so, whatever the table says of the model.
        self._options["facts"] = {**self._options["facts"], "bound_thinking": True}
        self._track.bound = True
        self._restart(self._ledger)

    # ---- saving ------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """What cannot be found out from the messages again, as plain JSON."""
        return {
            "seen": self._seen,
            "tracking": self._tracking,
            "bound_thinking": bool(self._options["facts"].get("bound_thinking")),
            **(self._track.dump() if self._tracking else {}),
        }

    @classmethod
    def load(
        cls,
        stored: Mapping[str, Any],
        messages: Sequence[Item],
        *,
        history: Iterable[Item] | None = None,
        **options: Unpack[RepairOptions],
    ) -> Self:
        """A repairer that continues from the stored state.

        Args:
            stored: What `dump` gave.
            messages: The list as `repair` saw it last; further messages at its end do not matter.
            history: All that was ever said, with the thinking as the model made it; `None`: `messages`.
            **options: As the stored one was made with.
        """
        repairer = cls(**options)
        if stored["tracking"]:
            repairer._tracking = True
            repairer._track.load(stored, messages if history is None else history)
        if stored["bound_thinking"]:
            repairer._options["facts"] = {**repairer._options["facts"], "bound_thinking": True}
            repairer._track.bound = True
        if stored["seen"]:
            repairer.repair(messages[: stored["seen"]])
        return repairer

    # ---- inside ------------------------------------------------------------------------------

    def _whole(self, messages: Sequence[Any], resume: str) -> Repaired:
        from ullage.legality.repairs import repair

        original = self.originals if self._tracking else None
        return repair(messages, original=original, resume=resume, **self._options)

    def _begin_tracking(self, *, again: bool = False) -> None:
        """From now on what the model made is known; `again`: the list is read from its beginning next."""
        if self._tracking:
            return
        self._tracking = True
        if again and not self._track.bound:
            self._track.learn(self._items)
        else:
            for item in self._items:
                self._track.feed(item)
            self._track.sent(None)
        for response in self._answers:
            self._track.observe(response)
        self._answers = []

    def _note_sent(self, messages: Sequence[Any], done: Repaired) -> None:
        if done.repairs and not self._tracking:  # thinking made from here on follows what was sent
            self._begin_tracking()
        if self._tracking:
            as_it_is = done.messages is messages and self._seen == len(messages)
            self._track.sent(None if as_it_is else done.messages)

    def _reads_legal(self, messages: Sequence[Any], ledger: Any) -> bool:
        try:
            return self._follow(messages, ledger)
        except InvalidMessage:  # an item that cannot be read: the whole repair names it
            if not self._grown(messages):
                self._begin_tracking()
            self._restart(None)
            return False

    def _follow(self, messages: Sequence[Any], ledger: Any) -> bool:
        """Reads what is new; whether the list is surely legal."""
        ledger = self._current(messages, ledger)
        start, answer_at = self._unread(messages, ledger), self._seen
        rewritten = start < self._seen
        if rewritten:
            self._begin_tracking(again=True)
            # In another ledger nothing says which message answers the newest request.
            answer_at = answer_at if ledger is self._ledger else -1
            self._restart(ledger, messages)
            start = 0
        if ledger is not self._ledger:
            self._reading.adopt(ledger)
        self._ledger, self._version = ledger, ledger.version
        self._read_on(messages, start, answer_at, measured=rewritten)
        self.read, self._seen = len(messages) - start, len(messages)
        return self._is_legal()

    def _is_legal(self) -> bool:
        fine = not self._tracking or self._track.fine()
        return self._params_fine and fine and self._reading.legal()

    def _unread(self, messages: Sequence[Any], ledger: Any) -> int:
        """First message that is not as it was when the list was read last."""
        if ledger is self._ledger:
            changed = int(ledger.changed_since(self._version))
            return changed if changed < self._seen else self._seen
        return self._seen if self._grown(messages) else 0

    def _grown(self, messages: Sequence[Any]) -> bool:
        """Whether the list begins with the very messages that were read last."""
        return len(messages) >= len(self._items) and all(map(is_, self._items, messages))

    def _read_on(
        self, messages: Sequence[Any], start: int, answer_at: int, *, measured: bool
    ) -> None:
        new = messages[start:]
        if not new:
            return
        self._items += new
        if not measured:
            self._reading.feed(new)
        if self._tracking:
            skip = 0 if start else self._track.skipped(new[:answer_at] if answer_at >= 0 else new)
            for index, item in enumerate(new[skip:], start + skip):
                if index == answer_at:
                    self._track.answering()
                self._track.feed(item)

    def _current(self, messages: Sequence[Any], ledger: Any) -> Any:
        if ledger is None:
            if self._own is None:
                self._own = core.Ledger(None)
            self._own.sync(messages if isinstance(messages, list) else list(messages))
        return self._own if ledger is None else ledger

    def _restart(self, ledger: Any, messages: Sequence[Any] | None = None) -> None:
        """Read the list from its beginning; `messages`: what it is now, of which the same objects are not measured again."""
        before = self._items
        self._ledger, self._seen, self._items = ledger, 0, []
        self._version = 0 if ledger is None else ledger.version
        self._track.restart()
        if messages is None:
            self._reading.restart()
        else:
            self._reading.exchange(before, messages)
        self._reading.adopt(ledger)


class _Reading:
    """The rules over digests, and what they need of the bodies: bytes and PDF pages."""

    def __init__(self, around: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        skip = [*facts.get("skip", ()), "A23"]
        if not facts["alternation"]:
            skip.append("A29")  # here only a warning, of which there may be one per message
        self._facts = {**facts, "body_bytes": 0, "skip": tuple(skip)}
        self._page_limit = int(facts.get("page_limit", 0))
        self._body_limit = int(facts.get("body_limit", BODY_LIMIT))
        self._measured = facts.get("body_bytes")
        self._head = json_bytes({"messages": [], **around})
        self._verifier: Any = None
        self.restart()

    def restart(self) -> None:
        """The list is fed from its beginning again."""
        self._bytes = self._head
        self._pages = 0
        self._readable = self._head > 0

    def adopt(self, ledger: Any) -> None:
        """Take the digests from this ledger; `None`: from none."""
        self._verifier = None if ledger is None else core.Verifier(ledger, "anthropic", self._facts)

    def feed(self, items: Sequence[Any]) -> None:
        """Read what is new, at least one item."""
        size, pages = self._measured_of(items)
        self._bytes += size
        self._pages += pages

    def exchange(self, before: Sequence[Any], items: Sequence[Any]) -> None:
        """As `restart` and `feed`, of a list that holds most of the objects of the one before."""
        left, added = {id(item) for item in before}, {id(item) for item in items}
        if not self._readable or len(left) < len(before) or len(added) < len(items):
            self.restart()
            self.feed(items)
            return
        new = [item for item in items if id(item) not in left]
        old = [item for item in before if id(item) not in added]
        if new:
            self.feed(new)
        if old:
            size, pages = self._measured_of(old)
            self._bytes -= size
            self._pages -= pages

    def _measured_of(self, items: Sequence[Any]) -> tuple[int, int]:
        """Bytes of items in a list, and their pages."""
        written, pages = json_of({"messages": items}), 0
        if not written:
            self._readable = False
        # `in` would first ask whether it is a number, and make an error of the answer.
        if self._page_limit and (written.find(_DOCUMENT) >= 0 or not written):
            pages = sum(pages_of(document) for _, _, document in documents_of(items))
        return len(written) - _EMPTY + 1, pages

    def legal(self) -> bool:
        """Whether no rule over digests, bytes or pages is broken; in doubt False."""
        size = self._bytes if self._measured is None else self._measured
        if size > self._body_limit or not self._readable:
            return False
        if self._pages > self._page_limit or self._verifier is None:
            return False
        violations = self._verifier.check()
        return not violations or all(violation.severity != "error" for violation in violations)

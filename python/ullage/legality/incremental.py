"""`Repairer`: the repairs of one conversation, which reads each message once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from operator import is_
from typing import Any, Self, Unpack

from ullage._engine import core
from ullage.exceptions import InvalidMessage
from ullage.legality.draft import ASSISTANT, USER, Repaired, kind_of
from ullage.legality.originals import (
    Originals,
    PrefixHash,
    bare_thinking,
    blocks_in,
    foreign_compaction,
    json_of,
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
    pages_of,
    request_of,
)
from ullage.messages import THINKING, Item

# What a growing conversation's thinking was made after, followed message by message.


_WATCHED = (*THINKING, "compaction")
"""Blocks that have to be as they came."""


class Track:
    """Follows a list of messages, and the requests that were sent of it.

    Thinking is bound to the request that it answers. New thinking at the end of the list answers the
    newest request; further down, a request that was the list up to there.

    `originals`, what the model has made so far, grows. `bound`: the model's thinking is bound to its prefix; else nothing is
    hashed.
    """

    def __init__(self, originals: Originals, *, system: Any, tools: Any, bound: bool) -> None:
        self.originals = originals
        self.bound = bound
        self._head = PrefixHash(system, tools)
        self._sent = self._head.copy()
        self._learned: dict[int, Any] = {}  # by `_mark`; the reference keeps the id its own
        # Nothing came twice: each call and all thinking belongs to one step, and has its seal. So a step that stands as it
        # came need not be compared.
        self._sure = True
        # The marks of the newest step; those of a step of several messages by each of them.
        self._newest: list[int] = []
        self._together: dict[int, list[int]] = {}
        self._answering = False
        self._odd = False  # a message that is not the model's holds what only the model makes
        self.restart()

    def restart(self) -> None:
        """The list is another: it is fed from its beginning again."""
        self._list = self._head.copy()
        self._previous = ""
        self._expected: int | None = None
        self._broken = False
        # The current turn, all since the last user turn without any tool result: who of the two spoke last, whether that
        # user turn has a result, the assistant's last messages, and whether earlier ones are not as they came.
        self._speaker = ""
        self._answered = False
        self._run: list[Any] = []
        self._marks: list[int] = []  # of these
        self._turn_broken = False

    def fine(self) -> bool:
        """Whether nothing fed since `restart` breaks A13, A15, A16 or A25."""
        if self._broken:
            return False
        if self._speaker == USER and not self._answered:
            return True
        return not self._turn_broken and (not self._run or self._run_stands())

    def stands(self) -> bool:
        """Whether `fine` depends on the model's own messages alone, and on who speaks when."""
        return self._sure and not self._odd and self.fine()

    def _run_stands(self) -> bool:
        """Whether the assistant's last messages are a whole step, as it came."""
        marks = self._marks
        if self._sure and self._together.get(marks[0], marks[:1]) == marks:
            return True
        return run_unchanged(self._run, self.originals)

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
                self._check(message, by_model=False)
            self._previous = role or self._previous

    def sent(self, messages: Iterable[Any] | None) -> None:
        """A request was made of these messages; `None`: of the list as it is."""
        if not self.bound:
            return
        self._sent = self._list.copy() if messages is None else self._head.copy()
        for item in messages or ():
            for _ in self._sent.feed(item):
                pass

    def feed(self, item: Any) -> None:
        """The next message of the list."""
        message = message_in(item)
        role = str(message.get("role", ""))
        self._answering = self._answering and role in (ASSISTANT, "")
        thoughts = list(self._list.feed(item)) if self.bound else []
        if role == ASSISTANT:
            mark = _mark(item, message)
            if mark not in self._learned:
                self._learn(item, mark, self._sent.feed(item) if self._answering else thoughts)
            if thoughts:
                self._follow(thoughts)
            # What was learned from this very list of blocks is as it came.
            if not self._sure:
                self._check(message, by_model=True)
            if self._speaker == USER and not self._answered:
                self._turn_broken = False
            self._speaker = ASSISTANT
            self._run.append(item)
            self._marks.append(mark)
        else:
            if thoughts:
                self._follow(thoughts)
            self._heard(role, self._check(message, by_model=False))
        self._previous = role or self._previous

    def _heard(self, role: str, with_result: bool) -> None:
        """Ends a step of the assistant: a message of somebody else."""
        if role and self._run:
            # Now: what is learned later may lengthen a step.
            self._turn_broken = self._turn_broken or not self._run_stands()
            self._run, self._marks = [], []
        if role == USER:
            self._answered = with_result or (self._answered and self._speaker == USER)
            self._speaker = USER

    def _learn(self, item: Any, mark: int, thoughts: Iterable[tuple[int, str, bytes]]) -> None:
        """Learns a message of the assistant, and what its thinking is bound to; only where it is bound there is any."""
        if self.bound:
            bound, refused = self.originals.bound, self.originals.refused
            new = [row for row in thoughts if row[1] not in bound and row[1] not in refused]
            for _, key, digest in new:
                self.originals.bind(key, digest)
        self._note(item, mark, self._previous == ASSISTANT)

    def _note(self, item: Any, mark: int, goes_on: bool) -> None:
        """Learns a message of the assistant; `goes_on`: it is of the same step as the one before."""
        new = self.originals.learn(item, goes_on=goes_on)
        if goes_on and self._newest:
            self._newest.append(mark)
            self._together[self._newest[0]] = self._together[mark] = self._newest
        else:
            self._newest = [mark]
        self._sure = self._sure and new
        self._learned[mark] = item

    # ---- saving ------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """What is known about thinking in addition to the blocks themselves, as plain JSON."""
        order, bound, refused = self.originals.order, self.originals.bound, self.originals.refused
        hashes = {key: sorted(digest.hex() for digest in bound[key]) for key in bound}
        return {"order": dict(order), "bound": hashes, "refused": sorted(refused)}

    def load(self, stored: Mapping[str, Any], history: Iterable[Any]) -> None:
        """Take back what `dump` gave; `history` holds the blocks."""
        originals = self.originals
        self.learn(history)
        self.restart()
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

    def _check(self, message: Mapping[str, Any], *, by_model: bool) -> bool:
        """Looks whether blocks that have to be as they came are; whether there is a tool result."""
        originals, with_result = self.originals, False
        for block in blocks_in(message):
            kind = block.get("type") if type(block) is dict or isinstance(block, Mapping) else None
            if kind == "tool_result":
                with_result = True
            elif kind in _WATCHED:
                self._odd = self._odd or not by_model
                recorded = originals.blocks.get(thought_key(block) or "")
                altered = recorded is not None and recorded != bare_thinking(block)
                self._broken = self._broken or altered or foreign_compaction(block, originals)
        return with_result


def _alike(old: Any, new: Any) -> bool:
    """Whether both are the user's, with results or both without, and neither holds what only the model makes."""
    before, now = message_in(old), message_in(new)
    if before.get("role") != USER or now.get("role") != USER:
        return False
    kinds_before, kinds = (list(map(kind_of, blocks_in(message))) for message in (before, now))
    if any(kind in _WATCHED for kind in (*kinds_before, *kinds)):
        return False
    return ("tool_result" in kinds) == ("tool_result" in kinds_before)


def _mark(item: Any, message: Mapping[str, Any]) -> int:
    """Tells an assistant message also in another envelope: its list of blocks is the same object."""
    content = message.get("content")
    return id(content) if isinstance(content, list) else id(item)


# The engine's own, where no fact says otherwise (`Facts.body_limit`, `Facts.page_limit`).
BODY_LIMIT = 30_000_000
_DOCUMENT = b'"document"'
_EMPTY = len(b'{"messages":[]}')


class Repairer:
    """Repairs the requests of one growing conversation; a legal one costs what is new in it.

    Call `repair` with the whole list before each request. While messages were only appended to a legal
    list, what came before is not read again; on models whose thinking is not bound, nor where the user's messages
    were changed, as results are that are cleared. After another edit, a cut or a compaction the list is read
    once more; an illegal list is repaired as a whole each time.
    Only the Anthropic form is followed like this; the others are repaired as a whole each time.

    The result is that of `ullage.legality.repairs.repair` for the whole list: the same list if it is legal, the
    same objects for untouched messages. From the first rewrite on (on models whose thinking is bound to its prefix,
    also from the first repair) it is that of `repair(..., original=repairer.originals)`: on those models thinking
    from before a rewrite goes, thinking that came after it stays, and the open turn keeps its own.

    A message that is edited in place is not noticed; put a new object in its place, as everywhere here.

    Args:
        **options: See `ullage.legality.RepairOptions`; the same for every request. `original` is the conversation as the
            model saw it before the first list, if that was rewritten; `None`: the first list is as it was sent.

    Raises:
        InvalidPolicy: An unknown provider or fact.

    Attributes:
        originals: What the model made, and after what.
        read: Messages that the last `repair` read: what was new or, on models whose thinking is not bound, changed by others than
            the model; else all of them.

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
        names = ("model", "system", "tools", "platform", "params", "facts")
        request_facts = facts_for(**{name: request[name] for name in names if name in request})
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
        legal = self._follow(messages, ledger)
        done = Repaired(messages) if legal and not resume else self._whole(messages, resume)
        if done.repairs and self._track.bound:  # thinking made from here on follows what was sent
            self._begin_tracking()
        if self._tracking:
            as_it_is = done.messages is messages and self._seen == len(messages)
            self._track.sent(None if as_it_is else done.messages)
        return done

    def passes(self, messages: Sequence[Item], ledger: core.Ledger) -> bool:
        """Whether `repair`, with these arguments, gives this very list, in Anthropic's form; then it counts as sent. False: call it."""
        legal = self._follow(messages, ledger)
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

    @property
    def binds(self) -> bool:
        """Whether `dump` tells of each thinking block what it was made after: the list was rewritten, and that is asked for."""
        return self._tracking and self._track.bound

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

    def _follow(self, messages: Sequence[Any], ledger: Any) -> bool:
        """Reads what is new; whether the list is surely legal."""
        try:
            if ledger is None:
                self._own = core.Ledger(None) if self._own is None else self._own
                self._own.sync(messages if isinstance(messages, list) else list(messages))
                ledger = self._own
            same = ledger is self._ledger
            # The first message that is not as it was when the list was read last.
            start = answer_at = self._seen
            if same:
                start = min(start, ledger.changed_since(self._version))
            elif not self._grown(messages):
                start = 0
            changed = self._exchanged(messages, ledger) if same and start < answer_at else 0
            start = answer_at if changed else start
            if rewritten := start < answer_at:
                self._begin_tracking(again=True)
                # In another ledger nothing says which message answers the newest request.
                start, answer_at = 0, answer_at if same else -1
                self._restart(ledger, messages)
            elif not same:
                self._reading.adopt(ledger)
            self._ledger, self._version = ledger, ledger.version
            if new := messages[start:]:
                self._items += new
                if not rewritten:
                    self._reading.feed(new)
                if self._tracking:
                    self._track_new(new, start, answer_at)
            self.read, self._seen = changed + len(new), len(messages)
        except InvalidMessage:  # an item that cannot be read: the whole repair names it
            if not self._grown(messages):
                self._begin_tracking()
            self._restart(None)
            return False
        fine = not self._tracking or self._track.fine()
        return self._params_fine and fine and self._reading.legal()

    def _exchanged(self, messages: Sequence[Any], ledger: Any) -> int:
        """Take in a list in which only what others than the model said is another; how many messages are. 0: it has to be read again.

        So it is where results are shortened or cleared: what the model made stands as it came, of which nothing has to be known then.
        """
        track = self._track
        if track.bound or len(messages) < self._seen or not self._reading.readable:
            return 0
        items = list(messages[: self._seen])
        changed = [pair for pair in zip(self._items, items, strict=True) if pair[0] is not pair[1]]
        if not (changed and track.stands() and all(starmap(_alike, changed))):
            return 0
        before, now = zip(*changed, strict=True)
        self._reading.feed(now)
        self._reading.feed(before, -1)
        self._reading.adopt(ledger)
        self._items = items
        return len(changed)

    def _track_new(self, new: Sequence[Any], start: int, answer_at: int) -> None:
        """Feed the list from `start` on; `answer_at`: where an answer to the newest request stands, -1: unknown."""
        for index, item in enumerate(new, start):
            if index == answer_at:
                self._track.answering()
            self._track.feed(item)

    def _grown(self, messages: Sequence[Any]) -> bool:
        """Whether the list begins with the very messages that were read last."""
        return len(messages) >= len(self._items) and all(map(is_, self._items, messages))

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
        self._head = len(json_of({"messages": [], **around}))
        self._verifier: Any = None
        self.restart()

    def restart(self) -> None:
        """The list is fed from its beginning again."""
        self._bytes = self._head
        self._pages = 0
        self.readable = self._head > 0

    def adopt(self, ledger: Any) -> None:
        """Take the digests from this ledger; `None`: from none."""
        self._verifier = None if ledger is None else core.Verifier(ledger, "anthropic", self._facts)

    def feed(self, items: Sequence[Any], sign: int = 1) -> None:
        """Add what is new, at least one item; with -1 take off what is no longer there."""
        written = json_of({"messages": items})
        if not written:
            self.readable = False
        # `in` would first ask whether it is a number, and make an error of the answer.
        if self._page_limit and (written.find(_DOCUMENT) >= 0 or not written):
            self._pages += sign * sum(pages_of(document) for *_, document in documents_of(items))
        self._bytes += sign * (len(written) - _EMPTY + 1)

    def exchange(self, before: Sequence[Any], items: Sequence[Any]) -> None:
        """As `restart` and `feed`, of a list that holds most of the objects of the one before."""
        left, added = {id(item) for item in before}, {id(item) for item in items}
        if not self.readable or len(left) < len(before) or len(added) < len(items):
            self.restart()
            self.feed(items)
            return
        if new := [item for item in items if id(item) not in left]:
            self.feed(new)
        if old := [item for item in before if id(item) not in added]:
            self.feed(old, -1)

    def legal(self) -> bool:
        """Whether no rule over digests, bytes or pages is broken; in doubt False."""
        size = self._bytes if self._measured is None else self._measured
        if size > self._body_limit or not self.readable:
            return False
        if self._pages > self._page_limit or self._verifier is None:
            return False
        violations = self._verifier.check()
        return not violations or all(violation.severity != "error" for violation in violations)

"""The request as a view of the conversation: originals, the decisions laid over them, and the ledger of both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from ullage._engine import core
from ullage._engine.digests import MessageFlag
from ullage.counting.estimate import Weights
from ullage.facts.compaction_items import newest_item
from ullage.levels.apply_edits import laid_over
from ullage.levels.carry_items import with_item, with_standing
from ullage.levels.report import Decision, Made, Span, StageReport, decided_records, spans
from ullage.levels.tool_results import Result, Results
from ullage.messages import Item, as_sent, message_of

__all__ = ["ANY", "Result", "View"]


MANY = 8
"""Changed messages from which the ledger takes the list in at once: each single replacement costs the rest of its sums."""

ANY = 1 << 40
"""Tokens left out by the provider, for a look at the newest figure whatever it says: the view judges it by what it covered then."""


class View:
    """What would be sent: the messages of the history that are left, what levels made, every decision applied.

    Untouched messages are the objects that were added. Adding costs the new message only; rewriting
    (`decide`, `append_text`, `rearrange`) may cost a walk, and happens seldom.

    Lists are replaced, never changed, once `snapshot` has handed them out: a request stays what it was.

    Attributes:
        originals: As they were added, or made.
        shown: With decisions and additions applied; what the ledger holds.
        messages: As they are sent: bare, without what only responses or logs hold.
        sources: For each the position in the history, or the key of what a level made.
        decisions: By tool use id: what stands in place of a result, for ever.
        added_texts: By position in the history: texts after a user input, only in the request's copy.
        whole: Results that the budget has sent whole, in the order in which it did.
        emptied: Tool uses whose input is shown empty.
        unthought: Positions in the history of messages that are shown without their thinking.
        cleared_elsewhere: Tool uses that the provider leaves out itself.
        sent: Messages before this index were part of a request.
        changed_from: Lowest index of what was sent and is not as it was; `None`: nothing changed.
        rewrites: How often anything was changed that had been sent.
        reader: Tool results, read once.
        looked: By level: messages before this index it has looked at, and need not again until they change.
        uuids: By position in the history: the name that a log knows a message by, where the message itself has none.
        times: By position in the history: when a message came in, in milliseconds since the epoch, where it does not say so.
        stable: Messages before this index stand where they stood when it was last set (by whoever keeps a copy, see `view_state`).
        edits: How often a decision was made, a text added, an input or thinking left out.

    Args:
        weights: For the calibrated estimate; `None`: characters / 4.
    """

    def __init__(self, weights: Weights | None = None) -> None:
        self.weights = weights
        self.originals: list[Item] = []
        self.shown: list[Item] = []
        self.messages: list[Item] = []
        self.sources: list[int | str] = []
        self.ledger: Any = core.Ledger(weights)
        self.decisions: dict[str, Decision] = {}
        self.added_texts: dict[int, list[str]] = {}
        self.whole: dict[str, None] = {}
        self.emptied: set[str] = set()
        self.unthought: set[int] = set()
        self.cleared_elsewhere: set[str] = set()
        self.sent = 0
        self.changed_from: int | None = None
        self.rewrites = 0
        self.reader = Results()
        self.looked: dict[str, int] = {}
        self.bases: dict[int | str, int] = {}  # estimate of what a usage figure covered, by source
        self.uuids: dict[int, str] = {}
        self.times: dict[int, int] = {}
        self.stable = self.edits = 0
        self._lent = False

    def __len__(self) -> int:
        return len(self.messages)

    # ---- changes -----------------------------------------------------------------------------

    def add(self, item: Item, source: int | None = None) -> bool:
        """Append a message.

        Args:
            item: A message, or an entry.
            source: Its position in the history; `None`: as many as there are messages.

        Returns:
            False for an entry of which a model is shown nothing.

        Raises:
            InvalidMessage: It is no message; nothing has changed.
        """
        place = len(self.messages) if source is None else source
        known = _rendered(item) if isinstance(item, dict) and "type" in item else item
        if known is None or not isinstance(known, Mapping):
            core.Ledger(None, [item])  # raises for what is no entry either
            return False
        shown = self._shown(known, place)
        self.ledger.append(shown)
        message = as_sent(shown)
        if message is None:
            self.ledger.truncate(len(self.messages))
            return False
        self.originals.append(known)
        self.shown.append(shown)
        self.messages.append(message)
        self.sources.append(place)
        self._note_usage()
        return True

    def is_bare(self, place: int, ids: Collection[str]) -> bool:
        """Whether nothing is laid over the message that comes at this place of the history, with calls or results of these ids."""
        if not (self.added_texts or self.unthought or self.emptied or self.decisions):
            return True
        if place in self.added_texts or place in self.unthought:
            return False
        return self.emptied.isdisjoint(ids) and self.decisions.keys().isdisjoint(ids)

    def is_untouched(self, count: int) -> bool:
        """Whether it shows so many messages of the history, all of them, as they were added."""
        laid = (self.decisions, self.added_texts, self.emptied, self.unthought)
        return not any(laid) and self.sources == list(range(count))

    def take(self, message: Item, sent: Item, place: int) -> None:
        """As `add`, of a bare message over which nothing is laid: the next of the history, which the ledger holds already.

        Args:
            message: As it was added.
            sent: The form in which it is sent.
            place: In the history.
        """
        self.originals.append(message)
        self.shown.append(message)
        self.messages.append(sent)
        self.sources.append(place)
        if "usage" in message:
            self._note_usage()

    def _note_usage(self) -> None:
        if self.ledger.message(-1).flags & MessageFlag.HAS_USAGE:
            anchor = self.ledger.anchor(ANY)
            if anchor is not None and anchor.last == len(self.messages) - 1:
                self.bases[self.sources[-1]] = self.ledger.tokens(0, anchor.covers)

    def cut(self, index: int) -> int | None:
        """Let messages from `index` on go, as if they had never come; returns as `decide`."""
        for source in self.sources[index:]:
            self.bases.pop(source, None)
            if isinstance(source, int):
                self.uuids.pop(source, None)
                self.times.pop(source, None)
        del self.originals[index:], self.shown[index:], self.sources[index:]
        self._moved(index)
        self.messages, self._lent = self.messages[:index], False
        self.ledger.truncate(index)
        changed = self._changed(index)
        self.sent = min(self.sent, index)
        return changed

    def decide(self, decisions: Iterable[Decision]) -> int | None:
        """Apply decisions; returns the first changed message that was sent before, or `None`."""
        self.edits += 1
        touched: set[int] = set()
        for decision in decisions:
            place = self.ledger.find_result(decision.tool_use_id)
            if place is not None:
                self.decisions[decision.tool_use_id] = decision
                touched.add(place[0])
        return self._refresh(touched)

    def strip(self, tool_use_ids: Iterable[str], indexes: Iterable[int] = ()) -> int | None:
        """Show calls without their input, and messages without their thinking, for ever; returns as `decide`."""
        self.edits += 1
        touched = set(indexes)
        self.unthought.update(
            at for at in (self.sources[i] for i in touched) if isinstance(at, int)
        )
        for name in tool_use_ids:
            self.emptied.add(name)
            if (place := self.ledger.find_call(name)) is not None:
                touched.add(place[0])
        return self._refresh(touched)

    def append_text(self, index: int, text: str) -> int | None:
        """Add a text after a message in the request's copy, permanently; returns as `decide`."""
        source = self.sources[index]
        if not isinstance(source, int):
            raise IndexError("what a level made has no place in the history")
        self.edits += 1
        self.added_texts.setdefault(source, []).append(text)
        return self._refresh({index})

    def _refresh(self, touched: set[int]) -> int | None:
        if not touched:
            return None
        self._own()
        for index in sorted(touched):
            shown = self._shown(self.originals[index], self.sources[index])
            if len(touched) < MANY:
                self.ledger.replace(index, shown)
            self.shown[index] = shown
            self.messages[index] = as_sent(shown) or {}
        if len(touched) >= MANY:
            self.ledger.sync(self.shown)
        return self._changed(min(touched))

    def _changed(self, index: int) -> int | None:
        self.reader.cut(index)
        self.looked = {name: min(at, index) for name, at in self.looked.items()}
        if index >= self.sent:
            return None
        self.rewrites += 1
        self.changed_from = index if self.changed_from is None else min(index, self.changed_from)
        return index

    def rearrange(self, parts: Sequence[int | Made]) -> tuple[int | None, tuple[Span, ...]]:
        """Rebuild the view from messages that it has (by index, ascending) and from what a level made.

        What is kept stays the same objects, with its decisions. The provider's own compaction item is never lost: it comes
        to the front where its message left, or where something made would stand before it; nor are texts that hosts put there
        to stand.

        Returns:
            The first changed message that was sent before (`None`: none), and which parts of the history left.
        """
        return self._rearrange(self._carried(parts))

    def _carried(self, parts: Sequence[int | Made]) -> Sequence[int | Made]:
        parts = with_item(self.messages, self.sources, parts, self.ledger)
        return with_standing(self.messages, self.sources, parts)

    def _rearrange(self, parts: Sequence[int | Made]) -> tuple[int | None, tuple[Span, ...]]:
        kept = {part for part in parts if isinstance(part, int)}
        gone = [source for at, source in enumerate(self.sources) if at not in kept]
        same = next((at for at, part in enumerate(parts) if part != at), len(parts))
        sent = max(
            (at + 1 for at, part in enumerate(parts) if isinstance(part, int) and part < self.sent),
            default=0,
        )
        originals = [self._part(self.originals, part) for part in parts]
        shown = [self._part(self.shown, part) for part in parts]
        messages = [
            self.messages[part] if isinstance(part, int) else as_sent(part.message) or {}
            for part in parts
        ]
        sources = [self.sources[part] if isinstance(part, int) else part.key for part in parts]
        self.ledger.sync(shown)
        self.originals, self.shown, self.messages, self.sources = (
            originals, shown, messages, sources,
        )  # fmt: skip
        self._lent = False
        self._moved(same)
        first = self._changed(same)
        self.sent = sent
        return first, spans(source for source in gone if isinstance(source, int))

    @staticmethod
    def _part(items: Sequence[Item], part: int | Made) -> Item:
        return items[part] if isinstance(part, int) else part.message

    def place(self, placed: Sequence[tuple[int | str, Item]]) -> None:
        """Fill an empty view with what a stored one held; entries without a message are none of it."""
        for source, item in placed:
            known = _rendered(item) if "type" in item else item
            shown = self._shown(known if known is not None else item, source)
            self.originals.append(known if known is not None else item)
            self.shown.append(shown)
            self.messages.append(as_sent(shown) or {})
            self.sources.append(source)
        self.ledger = core.Ledger(self.weights, self.shown)

    def put_back(self, index: int, positions: Iterable[int], history: Sequence[Item]) -> int | None:
        """Put messages of the history in place of message `index`; returns as `decide`."""
        back = View(self.weights)
        back.decisions, back.added_texts = self.decisions, self.added_texts
        back.emptied, back.unthought = self.emptied, self.unthought
        for at in positions:
            back.add(history[at], at)
        self.originals[index : index + 1] = back.originals
        self.shown[index : index + 1] = back.shown
        self.sources[index : index + 1] = back.sources
        self.messages = [*self.messages[:index], *back.messages, *self.messages[index + 1 :]]
        self._lent = False
        self.ledger.sync(self.shown)
        self._moved(index)
        changed = self._changed(index)
        if index < self.sent:
            self.sent += len(back) - 1
        return changed

    def weigh(self, weights: Weights | None) -> None:
        """Estimate with another model's weights from now on; figures of the one before do not hold."""
        self.weights = weights
        self.ledger = core.Ledger(weights, self.shown)
        self.forget_usage()

    def forget_usage(self) -> None:
        """Reported figures do not hold any more: all is estimated until the next (after a compaction)."""
        self.bases.clear()
        self._moved(0)

    def _moved(self, index: int) -> None:
        self.stable = min(self.stable, index)
        self.edits += 1

    def _own(self) -> None:
        """A list that a request holds is not changed: from here on the view has its own."""
        if self._lent:
            self.messages = list(self.messages)
            self._lent = False

    def snapshot(self) -> tuple[list[Item], int]:
        """The messages as they are now, without copying: the list's first so many items stay as they are."""
        self._lent = True
        return self.messages, len(self.messages)

    def mark_sent(self) -> int | None:
        """All that is here has been sent; returns the first message that differs from what was sent before."""
        changed, self.changed_from, self.sent = self.changed_from, None, len(self.messages)
        return changed

    def _shown(self, item: Item, source: int | str) -> Item:
        return laid_over(
            item,
            decisions=self.decisions,
            texts=self.added_texts.get(source, ()) if isinstance(source, int) else (),
            emptied=self.emptied,
            thinking=source not in self.unthought,
        )

    # ---- questions ---------------------------------------------------------------------------

    def uuid_at(self, index: int) -> str:
        """The name that a log knows message `index` by; empty: no log knows it, so no line can name it."""
        own = self.originals[index].get("uuid")
        if isinstance(own, str):
            return own
        source = self.sources[index]
        return self.uuids.get(source, "") if isinstance(source, int) else ""

    def time_at(self, index: int) -> int:
        """When message `index` came, in milliseconds since the epoch; 0: unknown."""
        source = self.sources[index]
        came = self.times.get(source, 0) if isinstance(source, int) else 0
        return int(self.ledger.message(index).timestamp) or came

    def anchor(self) -> core.Anchor | None:
        """The newest usage figure, if it holds and can be true, or `None`."""
        anchor = self.ledger.anchor(ANY)
        base = None if anchor is None else self.bases.get(self.sources[anchor.last])
        return None if base is None or self._is_untrue(anchor.usage, base) else anchor

    def _is_untrue(self, usage: int, base: int) -> bool:
        """Whether a figure is below half of the estimate of what the provider read."""
        if usage * 2 >= base:
            return False
        found = newest_item(self.messages, self.ledger)
        start = 0 if found is None else found.at
        places = filter(None, map(self.ledger.find_result, self.cleared_elsewhere))
        cleared = (self.ledger.blocks(at)[block].tokens for at, block in places if at >= start)
        return bool((usage + int(self.ledger.tokens(0, start)) + sum(cleared)) * 2 < base)

    def freed(self) -> int:
        """Estimated tokens that left since the figure of `anchor`, from what it covers; 0 without one."""
        anchor = self.anchor()
        if anchor is None:
            return 0
        covered = self.ledger.tokens(0, anchor.covers)
        return int(self.bases[self.sources[anchor.last]] - covered)

    def tokens(self, overhead: int = 0) -> int:
        """Tokens of the next request.

        The provider's newest figure, corrected by what was freed since, and the estimate of what
        followed; without a figure the estimate of all messages and `overhead` (system prompt and tools).
        """
        if self.anchor() is None:
            return int(self.ledger.tokens()) + overhead
        return max(0, int(self.ledger.anchored(0, ANY).total) - self.freed())

    def results(self, start: int = 0, stop: int | None = None) -> Iterator[Result]:
        """Tool results of messages [start, stop), oldest first; each is read once. `None`: to the end."""
        found = self.reader.read(self.ledger, self.originals, self.decisions, start)
        return found if stop is None else takewhile(lambda each: each.message < stop, found)

    def text(self, result: Result) -> str:
        """The text of a result as it was added; texts of several blocks are joined by line ends."""
        message = message_of(self.originals[result.message]) or {}
        content = message["content"]
        inner = content[result.block].get("content") if isinstance(content, list) else content
        if isinstance(inner, str):
            return inner
        texts = (part.get("text") for part in _parts(inner) if isinstance(part, Mapping))
        return "\n".join(text for text in texts if isinstance(text, str))

    def report(
        self,
        stage: str,
        why: str,
        chosen: Sequence[tuple[Result, Decision]],
        *,
        failures: tuple[str, ...] = (),
    ) -> StageReport:
        """Apply decisions and say what they did."""
        before = self.ledger.tokens()
        decided = [decision for _, decision in chosen]
        records = decided_records(stage, decided, known=self.decisions)
        changed = self.decide(decided)
        return StageReport(
            stage=stage,
            why=why,
            tokens_before=before,
            tokens_after=self.ledger.tokens(),
            tool_use_ids=tuple(result.id for result, _ in chosen),
            tools=tuple(dict.fromkeys(result.tool for result, _ in chosen)),
            paths=tuple(dict.fromkeys(result.path for result, _ in chosen if result.path)),
            first_changed=changed,
            records=records,
            failures=failures,
        )

    def rearranged(
        self,
        stage: str,
        why: str,
        parts: Sequence[int | Made],
        *,
        tools: tuple[str, ...] = (),
        paths: tuple[str, ...] = (),
        standing: bool = True,
    ) -> StageReport:
        """Rebuild the view (see `rearrange`) and report what that did; without `standing`, the host's texts go with their messages."""
        if standing:
            parts = self._carried(parts)
        else:
            parts = with_item(self.messages, self.sources, parts, self.ledger)
        before, count = self.ledger.tokens(), len(self)
        kept = sum(isinstance(part, int) for part in parts)
        changed, removed = self._rearrange(parts)
        return StageReport(
            stage=stage,
            why=why,
            tokens_before=before,
            tokens_after=self.ledger.tokens(),
            first_changed=changed,
            removed_messages=count - kept,
            removed=removed,
            tools=tools,
            paths=paths,
        )


def _parts(content: Any) -> Sequence[Any]:
    return content if isinstance(content, list | tuple) else ()


def _rendered(item: Any) -> Any:
    """A line of a transcript as the model sees it; bare messages do not come here."""
    from ullage.transcript.render import rendered

    return rendered(item)

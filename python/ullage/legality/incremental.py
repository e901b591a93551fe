"""`Repairer`: the repairs of one conversation, which reads each message once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from ullage._engine import core
from ullage.exceptions import InvalidMessage
from ullage.legality.draft import Repaired
from ullage.legality.originals import Original, Originals
from ullage.legality.params import (
    check_params,
    documents_of,
    facts_for,
    json_bytes,
    json_of,
    pages_of,
)
from ullage.legality.thinking_history import Track
from ullage.messages import Item, SystemPrompt, Tools
from ullage.providers.registry import AnyProvider, provider_of

if TYPE_CHECKING:
    from ullage.legality.params import RequestParameters


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
        provider: As in `repair`.
        model: As in `repair`.
        system: As in `repair`; the same for every request.
        tools: As in `repair`; the same for every request.
        original: The conversation as the model saw it before the first list, if that was rewritten;
            `None`: the first list is as it was sent.
        platform: As in `repair`.
        facts: As in `repair`.
        orphans: As in `repair`.
        trailing: As in `repair`.
        thinking_policy: As in `repair`.
        params: Further parameters of the requests, as they are; `None`: none.
        **named: The requests' other parameters by name.

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

    def __init__(
        self,
        *,
        provider: AnyProvider = "anthropic",
        model: str | None = None,
        system: SystemPrompt | None = None,
        tools: Tools | None = None,
        original: Original | None = None,
        platform: str = "anthropic",
        facts: Mapping[str, Any] | None = None,
        orphans: Literal["note", "text", "drop"] = "note",
        trailing: Literal["note", "drop"] = "note",
        thinking_policy: Literal["strip", "drop_block"] = "strip",
        params: Mapping[str, Any] | None = None,
        **named: Unpack[RequestParameters],
    ) -> None:
        params = dict(params or {})
        if named:
            from ullage.legality.params import parameters

            params = parameters(Repairer, params, named)
        self._provider = provider_of(provider)
        self._options: dict[str, Any] = {
            "provider": self._provider,
            "model": model,
            "system": system,
            "tools": tools,
            "platform": platform,
            "facts": facts,
            "orphans": orphans,
            "trailing": trailing,
            "thinking_policy": thinking_policy,
            "params": params,
        }
        known = facts_for(
            model=model, system=system, tools=tools, platform=platform, params=params, facts=facts
        )
        self.originals = Originals.read(original or (), system=system, tools=tools)
        bound = known.bound and not known.drop_block
        self._track = Track(self.originals, system=system, tools=tools, bound=bound)
        # Until a list is rewritten nothing needs to be hashed: it is its own original.
        self._tracking = original is not None
        self._items: list[Any] = []
        self._answers: list[Any] = []
        self._reading = _Reading({"system": system, "tools": tools, **params}, known.core)
        self._params_fine = not any(check_params(params, known))
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
        if self._tracking or not grown or not new:
            if not self._reads_legal(messages, ledger):
                return False
            if self._tracking:
                self._track.sent(None)
            return True
        self._items += new
        self._reading.feed(new)
        self.read, self._seen = len(new), len(messages)
        return self._params_fine and self._reading.legal()

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
        self._options["facts"] = {**(self._options["facts"] or {}), "bound_thinking": True}
        self._track.bound = True
        self._restart(self._ledger)

    # ---- saving ------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """What cannot be found out from the messages again, as plain JSON."""
        facts = self._options["facts"] or {}
        return {
            "seen": self._seen,
            "tracking": self._tracking,
            "bound_thinking": bool(facts.get("bound_thinking")),
            **(self._track.dump() if self._tracking else {}),
        }

    @classmethod
    def load(
        cls,
        stored: Mapping[str, Any],
        messages: Sequence[Item],
        *,
        history: Iterable[Item] | None = None,
        provider: AnyProvider = "anthropic",
        model: str | None = None,
        system: SystemPrompt | None = None,
        tools: Tools | None = None,
        original: Original | None = None,
        platform: str = "anthropic",
        facts: Mapping[str, Any] | None = None,
        orphans: Literal["note", "text", "drop"] = "note",
        trailing: Literal["note", "drop"] = "note",
        thinking_policy: Literal["strip", "drop_block"] = "strip",
        params: Mapping[str, Any] | None = None,
        **named: Unpack[RequestParameters],
    ) -> Self:
        """A repairer that continues from the stored state.

        Args:
            stored: What `dump` gave.
            messages: The list as `repair` saw it last; further messages at its end do not matter.
            history: All that was ever said, with the thinking as the model made it; `None`: `messages`.
            provider: As the stored one was made with, as are all others.
            model: This and all others: see `repair`.
            system: See there.
            tools: See there.
            original: See there.
            platform: See there.
            facts: See there.
            orphans: See there.
            trailing: See there.
            thinking_policy: See there.
            params: See there.
            **named: The request's other parameters by name.
        """
        made = cls(
            provider=provider,
            model=model,
            system=system,
            tools=tools,
            original=original,
            platform=platform,
            facts=facts,
            orphans=orphans,
            trailing=trailing,
            thinking_policy=thinking_policy,
            params=params,
            **named,
        )
        if stored["tracking"]:
            made._tracking = True
            made._track.load(stored, messages if history is None else history)
        if stored["bound_thinking"]:
            made._options["facts"] = {**(facts or {}), "bound_thinking": True}
            made._track.bound = True
        if stored["seen"]:
            made.repair(messages[: stored["seen"]])
        return made

    # ---- inside ------------------------------------------------------------------------------

    def _whole(self, messages: Sequence[Any], resume: str) -> Repaired:
        from ullage.legality.repairs import repair

        original = self.originals if self._tracking else None
        return repair(messages, original=original, resume=resume, **self._options)

    def _begin_tracking(self) -> None:
        if self._tracking:
            return
        self._tracking = True
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
        if start < self._seen:
            self._begin_tracking()
            # In another ledger nothing says which message answers the newest request.
            answer_at = answer_at if ledger is self._ledger else -1
            self._restart(ledger)
            start = 0
        if ledger is not self._ledger:
            self._reading.adopt(ledger)
        self._ledger, self._version = ledger, ledger.version
        self._read_on(messages, start, answer_at)
        self.read, self._seen = len(messages) - start, len(messages)
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

    def _read_on(self, messages: Sequence[Any], start: int, answer_at: int) -> None:
        new = messages[start:]
        if not new:
            return
        self._items += new
        self._reading.feed(new)
        if self._tracking:
            for index, item in enumerate(new, start):
                if index == answer_at:
                    self._track.answering()
                self._track.feed(item)

    def _current(self, messages: Sequence[Any], ledger: Any) -> Any:
        if ledger is None:
            if self._own is None:
                self._own = core.Ledger(None)
            self._own.sync(messages if isinstance(messages, list) else list(messages))
        return self._own if ledger is None else ledger

    def _restart(self, ledger: Any) -> None:
        self._ledger, self._seen, self._items = ledger, 0, []
        self._version = 0 if ledger is None else ledger.version
        self._track.restart()
        self._reading.restart()
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
        written = json_of({"messages": items})
        if not written:
            self._readable = False
        self._bytes += len(written) - _EMPTY + 1
        # `in` would first ask whether it is a number, and make an error of the answer.
        if self._page_limit and (written.find(_DOCUMENT) >= 0 or not written):
            self._pages += sum(pages_of(document) for _, _, document in documents_of(items))

    def legal(self) -> bool:
        """Whether no rule over digests, bytes or pages is broken; in doubt False."""
        size = self._bytes if self._measured is None else self._measured
        if size > self._body_limit or not self._readable:
            return False
        if self._pages > self._page_limit or self._verifier is None:
            return False
        found = self._verifier.check()
        return not found or all(each.severity != "error" for each in found)

"""Where to cut: what the summary replaces, and what stays verbatim."""

from __future__ import annotations

from typing import Any, NamedTuple

from ullage._engine.digests import BlockKind, Role
from ullage.compaction.compaction_result import Direction
from ullage.compaction.input import CompactionInput
from ullage.exceptions import InvalidPolicy
from ullage.facts import is_user_input
from ullage.facts.reading import text_of
from ullage.facts.words import others_in
from ullage.messages import role_of
from ullage.policy import KeepPolicy
from ullage.providers.manual_thinking import whole_start

__all__ = [
    "Cut",
    "choose_cut",
    "least_cut",
    "least_keep",
    "legal_cut",
    "must_stay",
    "scaled_keep",
]


class Cut(NamedTuple):
    """`[start, stop)` of the context is summarised; the rest is kept, after it or (direction `from`) before."""

    start: int
    stop: int

    def kept(self, length: int) -> tuple[int, int]:
        """First and last + 1 of what is kept; it is empty or one run."""
        return (self.stop, length) if self.start == 0 else (0, self.start)


def scaled_keep(
    keep: KeepPolicy | int | None, policy: KeepPolicy, window_tokens: int
) -> KeepPolicy:
    """How much to keep, fitted to the window.

    Args:
        keep: A number of tokens (0: nothing but what must stay), a policy, or `None`: `policy`, but at
            least a twelfth and at most a quarter of a small window.
        policy: The default.
        window_tokens: The model's context window.
    """
    if isinstance(keep, KeepPolicy):
        return keep
    if keep is None:
        least = min(policy.min_tokens, window_tokens // 12)
        most = max(min(policy.max_tokens, window_tokens // 4), 1)
        return KeepPolicy(
            min_tokens=least, max_tokens=most, min_text_messages=policy.min_text_messages
        )
    given: object = keep
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise InvalidPolicy("keep", given, "must be a number of tokens, at least 0")
    return KeepPolicy(min_tokens=given, max_tokens=max(given, 1), min_text_messages=0)


def choose_cut(
    source: CompactionInput,
    ledger: Any,
    keep: KeepPolicy,
    *,
    direction: Direction = "full",
    at: int | str | None = None,
    most_kept: int | None = None,
    manual_thinking: bool = False,
) -> Cut:
    """The cut of a compaction; never through a tool pair or a response that was stored in pieces.

    Args:
        source: The conversation.
        ledger: Of `source.context`.
        keep: How much of the end stays, for direction `full`.
        direction: `full`: all but the newest part. `from`: from a message to the end. `up_to`: all
            before a message.
        at: That message: its uuid or its position in the items; moved back to a legal place.
        most_kept: Tokens that may be kept at most; less is kept where `keep` would exceed it.
        manual_thinking: An open turn is kept from a message on that begins with thinking, where there is one near.
    """
    length = len(source.context)
    if direction != "full":
        place = legal_cut(ledger, _position(source, direction, at))
        return Cut(place, length) if direction == "from" else Cut(0, place)
    for candidate in (keep, least_keep(keep)):
        start = _kept_from(source, ledger, candidate)
        if most_kept is None or ledger.tokens(start, length) <= most_kept:
            return Cut(
                0, _thoughtful(source, ledger, start, most_kept) if manual_thinking else start
            )
    return least_cut(source, ledger, manual_thinking=manual_thinking)


def least_cut(source: CompactionInput, ledger: Any, *, manual_thinking: bool) -> Cut:
    """The cut that keeps what must stay, and no more.

    With manual thinking a turn whose calls still wait for results is kept from its thinking on, however much
    that is: no line may end it before they come.
    """
    start = must_stay(source, ledger)
    if not manual_thinking or not ledger.open_calls():
        return Cut(0, start)
    return Cut(0, _thoughtful(source, ledger, start, None))


def _thoughtful(source: CompactionInput, ledger: Any, start: int, most: int | None) -> int:
    """The cut, where an open turn begins with thinking; the very same if there is none: then the turn is ended."""
    last = must_stay(source, ledger)
    found = whole_start(ledger, start, floor=0, last=last, most=most)
    return start if found is None else found


def least_keep(keep: KeepPolicy) -> KeepPolicy:
    """What is kept where the policy would keep too much."""
    quarter = keep.min_tokens // 4
    return KeepPolicy(min_tokens=quarter, max_tokens=max(quarter, 1), min_text_messages=0)


def _position(source: CompactionInput, direction: str, at: int | str | None) -> int:
    pointed = source.items[at] if isinstance(at, int) and 0 <= at < len(source.items) else None
    if at in source.ids:
        return source.ids.index(at)
    for place, item in enumerate(source.stored):
        if pointed is not None and item is pointed:
            return place
    raise InvalidPolicy("at", at, f"must name a message of the context for direction {direction!r}")


def legal_cut(ledger: Any, place: int) -> int:
    """The newest position, at or before one, where a cut splits nothing."""
    window = ledger.keep_window(place, floor=0, min_tokens=0, max_tokens=1, min_text_messages=0)
    return _with_reasoning(ledger, int(window.start))


def _with_reasoning(ledger: Any, place: int) -> int:
    """The cut before reasoning that stands as an item of its own in front of it (R02).

    The items of a response of OpenAI's Responses share no id that would hold them together.
    """
    while (
        0 < place < len(ledger)
        and ledger.message(place).role == Role.ASSISTANT
        and _is_reasoning(ledger, place - 1)
    ):
        place -= 1
    return place


def _is_reasoning(ledger: Any, place: int) -> bool:
    kinds = {block.kind for block in ledger.blocks(place)}
    return ledger.message(place).role == Role.ASSISTANT and kinds == {BlockKind.THINKING}


def _kept_from(source: CompactionInput, ledger: Any, keep: KeepPolicy) -> int:
    length = len(source.context)
    if keep.min_tokens == 0 and keep.min_text_messages == 0:
        return must_stay(source, ledger)
    window = ledger.keep_window(
        length,
        floor=0,
        min_tokens=keep.min_tokens,
        max_tokens=keep.max_tokens,
        min_text_messages=keep.min_text_messages,
    )
    start = min(int(window.start), must_stay(source, ledger))
    newest = _newest_input(source)
    # The newest request and all that was done for it, if that is not much more than is kept anyway.
    if newest is not None and newest < start and ledger.tokens(newest, length) <= keep.max_tokens:
        start = legal_cut(ledger, newest)
    return _with_reasoning(ledger, start)


def must_stay(source: CompactionInput, ledger: Any) -> int:
    """Where the unfinished end begins: an unanswered request, calls whose results are still to come."""
    length = len(source.context)
    start = length
    newest = _newest_input(source)
    if newest == length - 1 or (length and _from_others(source.context[-1])):
        start = length - 1
    for message, _ in ledger.open_calls():
        # Only calls of the newest response can still be answered; an older one never will be.
        if message >= length - 1 or not _answered_after(source, message):
            start = min(start, message)
    return legal_cut(ledger, start) if start < length else length


def _from_others(item: Any) -> bool:
    """Whether a teammate or another session has spoken: somebody waits for an answer, though not the user."""
    return role_of(item) == "user" and bool(others_in(text_of(item)))


def _answered_after(source: CompactionInput, message: int) -> bool:
    return any(is_user_input(item) or _speaks(item) for item in source.context[message + 1 :])


def _speaks(item: Any) -> bool:
    return role_of(item) == "assistant" and bool(text_of(item).strip())


def _newest_input(source: CompactionInput) -> int | None:
    for place in reversed(range(len(source.context))):
        if is_user_input(source.context[place]):
            return place
    return None

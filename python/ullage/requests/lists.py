"""Functions on plain lists of messages, for bare API messages and transcript entries.

Each builds a ledger for the call. A program that calls them at every turn should keep a ledger and append to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ullage._engine import core
from ullage.counting.calibration import weights_for
from ullage.counting.models import ModelTable
from ullage.exceptions import InvalidPolicy
from ullage.legality.thinking import turn_end
from ullage.messages import Item
from ullage.providers.anthropic import Thinking, is_manual, is_torn, read_thinking, whole_start
from ullage.providers.native_lists import FormList, read_form


class KeptWindow(NamedTuple):
    """The newest part of a conversation, cut where no tool pair and no response is split.

    Attributes:
        messages: The kept messages, the same objects.
        start: Index of the first of them.
        tokens: Calibrated estimate of what is kept.
        orphans: (message, block) of results whose call is before the floor; they must be dropped.
    """

    messages: list[Item]
    start: int
    tokens: int
    orphans: list[tuple[int, int]]


class TruncatedHead(NamedTuple):
    """A conversation without its oldest rounds.

    Attributes:
        messages: The remaining messages, the same objects.
        dropped: How many messages were removed.
        freed_tokens: Calibrated estimate of the removed ones.
    """

    messages: list[Item]
    dropped: int
    freed_tokens: int


def _ledger(
    messages: Sequence[Item], model: str | None, table: ModelTable | None, form: FormList | None
) -> Any:
    return core.Ledger(weights_for(model, table=table), messages if form is None else form.messages)


def estimate_text(text: str, *, model: str | None = None, table: ModelTable | None = None) -> int:
    """Estimate the tokens of a text.

    Args:
        text: Any string, lone surrogates included.
        model: The model whose tokenizer is estimated; `None`: the default family.
        table: Your own model table; `None`: the built-in one.

    Returns:
        Tokens; 0 for an empty text.

    Example:
        >>> estimate_text("")
        0
        >>> 5 < estimate_text("The quick brown fox jumps over the lazy dog.") < 20
        True
    """
    return core.estimate_text(text, weights_for(model, table=table))


def estimate_tokens(
    messages: Sequence[Item],
    *,
    model: str | None = None,
    table: ModelTable | None = None,
    provider: str | None = None,
) -> int:
    """Estimate the tokens of a list of messages, each with its own overhead.

    Args:
        messages: Bare messages, items or contents of any provider, or transcript entries.
        model: The model whose tokenizer is estimated; `None`: the default family.
        table: Your own model table; `None`: the built-in one.
        provider: The format of the messages: `openai_responses`, `gemini` or `bedrock`; other formats are read
            as they are. `None`: items of the Responses API and Gemini's contents are recognised.

    Returns:
        Tokens. System prompt and tool definitions are not messages and not counted.

    Raises:
        InvalidMessage: An item is not a message; names its index and field.

    Example:
        >>> estimate_tokens([])
        0
        >>> one = estimate_tokens([{"role": "user", "content": "Hello"}])
        >>> estimate_tokens([{"role": "user", "content": "Hello"}] * 2) == 2 * one
        True
    """
    return int(_ledger(messages, model, table, read_form(messages, provider)).tokens())


def estimate_each(
    messages: Sequence[Item],
    *,
    model: str | None = None,
    table: ModelTable | None = None,
    provider: str | None = None,
) -> list[int]:
    """Estimate the tokens of each message or item; they sum to `estimate_tokens`, which takes the same arguments.

    Example:
        >>> counts = estimate_each([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}])
        >>> len(counts)
        2
    """
    form = read_form(messages, provider)
    ledger = _ledger(messages, model, table, form)
    estimates = [ledger.message(index).tokens for index in range(len(ledger))]
    if form is None:
        return estimates
    sums = [0] * len(messages)
    for owner, tokens in zip(form.owners, estimates, strict=True):
        sums[owner] += tokens
    return sums


def group_rounds(messages: Sequence[Item], *, provider: str | None = None) -> list[list[Item]]:
    """Group messages by API round: one response and the user messages that answer it.

    Messages before the first response belong to the first round. Pieces of one response (one message id) stay together.

    Args:
        messages: Bare messages, items or contents of any provider, or entries.
        provider: The format of the messages: `openai_responses`, `gemini` or `bedrock`; other formats are read
            as they are. `None`: items of the Responses API and Gemini's contents are recognised.

    Raises:
        InvalidMessage: An item is not a message; names its index and field.

    Example:
        >>> rounds = group_rounds([
        ...     {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
        ...     {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"},
        ... ])
        >>> [len(each) for each in rounds]
        [3, 1]
    """
    form = read_form(messages, provider)
    starts = core.Ledger(None, messages if form is None else form.messages).rounds()
    if form is not None and messages:
        starts = sorted({0, *(form.owner(start) for start in starts[1:])})
    return [list(messages[start:stop]) for start, stop in pairwise([*starts, len(messages)])]


def keep_window(
    messages: Sequence[Item],
    *,
    start: int | None = None,
    floor: int = 0,
    min_tokens: int = 10_000,
    max_tokens: int = 40_000,
    min_text_messages: int = 5,
    model: str | None = None,
    table: ModelTable | None = None,
    provider: str | None = None,
    thinking: Thinking | None = None,
) -> KeptWindow:
    """Find the newest part to keep verbatim.

    From `start` it moves back until `max_tokens` are kept, or `min_tokens` and `min_text_messages` together; then further
    until each kept result has its call and each response all its pieces. Never past `floor` nor past the newest boundary.

    Args:
        messages: Bare messages, items or contents of any provider, or entries.
        start: Index to begin at; `None`: the end.
        floor: First index that may be kept.
        min_tokens: Tokens that are enough together with the messages; 0: none needed.
        max_tokens: Tokens that are enough by themselves.
        min_text_messages: Messages with text; 0: none needed.
        model: The model whose tokenizer is estimated; `None`: the default family.
        table: Your own model table; `None`: the built-in one.
        provider: The format of the messages: `openai_responses`, `gemini` or `bedrock`; other formats are read
            as they are. `None`: items of the Responses API and Gemini's contents are recognised.
        thinking: The request's `thinking` parameter; `None`: not in use. In manual mode (`enabled`) an open turn begins with
            thinking (A14): it is kept from where some is, within `max_tokens`; else two messages follow that end it.

    Raises:
        InvalidMessage: An item is not a message; names its index and field.
        InvalidPolicy: A number is negative, or `min_tokens` is above `max_tokens`.

    Example:
        >>> talk = [{"role": "user", "content": "word " * 4000}, {"role": "assistant", "content": "ok"}]
        >>> keep_window(talk, min_tokens=1, max_tokens=100, min_text_messages=1).start
        1
    """
    numbers = {
        "start": start or 0,
        "floor": floor,
        "min_tokens": min_tokens,
        "min_text_messages": min_text_messages,
    }
    for name, value in numbers.items():
        if value < 0:
            raise InvalidPolicy(name, value, "must be at least 0")
    if min_tokens > max_tokens:
        raise InvalidPolicy(
            "min_tokens", min_tokens, f"must not be above max_tokens ({max_tokens:,})"
        )
    form = read_form(messages, provider)
    begin = len(messages) if start is None else start
    ended: Sequence[Item] = ()
    ledger = _ledger(messages, model, table, form)
    window = ledger.keep_window(
        begin if form is None else form.first(begin),
        floor=floor if form is None else form.first(floor),
        min_tokens=min_tokens,
        max_tokens=max_tokens,
        min_text_messages=min_text_messages,
    )
    if form is None and is_manual(read_thinking(thinking)):
        most = max(max_tokens, window.tokens)
        at = whole_start(ledger, window.start, floor=floor, last=len(messages), most=most)
        if at is not None and at != window.start:
            window = ledger.keep_window(
                at, floor=floor, min_tokens=0, max_tokens=1, min_text_messages=0
            )
        ended = _ended(ledger, window.start)
    first, orphans = window.start, window.orphans
    if form is not None:
        first = form.owner(first)
        orphans = [(form.owner(message), block) for message, block in orphans]
    return KeptWindow([*messages[first:], *ended], first, window.tokens, orphans)


def truncate_head(
    messages: Sequence[Item],
    gap_tokens: int | None = None,
    *,
    share_percent: int = 20,
    model: str | None = None,
    table: ModelTable | None = None,
    provider: str | None = None,
    thinking: Thinking | None = None,
) -> TruncatedHead:
    """Drop whole oldest API rounds, as after a request that was too long.

    Args:
        messages: Bare messages, items or contents of any provider, or entries.
        gap_tokens: By how much the request was too long: the fewest rounds that cover it are dropped. `None`: unknown,
            `share_percent` of the rounds are dropped.
        share_percent: Between 1 and 99.
        model: The model whose tokenizer is estimated; `None`: the default family.
        table: Your own model table; `None`: the built-in one.
        provider: The format of the messages: `openai_responses`, `gemini` or `bedrock`; other formats are read
            as they are. `None`: items of the Responses API and Gemini's contents are recognised.
        thinking: See `keep_window`: as many rounds are removed as needed for the open turn to begin with thinking, or it is ended.

    Returns:
        At least one round less, and at least one round. The rest may begin with an assistant message.

    Raises:
        InvalidMessage: An item is not a message; names its index and field.
        InvalidPolicy: A number is out of range.

    Example:
        >>> talk = [{"role": role, "content": "word"} for role in ("user", "assistant") * 5]
        >>> truncate_head(talk, share_percent=40).dropped
        5
    """
    if gap_tokens is not None and gap_tokens < 0:
        raise InvalidPolicy("gap_tokens", gap_tokens, "must be at least 0")
    if not 1 <= share_percent <= 99:
        raise InvalidPolicy("share_percent", share_percent, "must be between 1 and 99")
    form = read_form(messages, provider)
    ledger = _ledger(messages, model, table, form)
    cut = ledger.truncate_head(gap_tokens, share_percent=share_percent)
    ended: Sequence[Item] = ()
    if form is None and is_manual(read_thinking(thinking)):
        cut = _thoughtful(ledger, cut)
        ended = _ended(ledger, cut)
    freed = ledger.tokens(0, cut)
    dropped = cut if form is None else form.owner(cut)
    return TruncatedHead([*messages[dropped:], *ended], dropped, freed)


def _thoughtful(ledger: Any, cut: int) -> int:
    """The next start of a round after which an open turn begins with thinking, else an earlier one; unchanged if there is none."""
    starts = [int(at) for at in ledger.rounds()]
    later = [at for at in starts if at >= cut]
    earlier = [at for at in reversed(starts) if 0 < at < cut]
    return next((at for at in [*later, *earlier] if not is_torn(ledger, at)), cut)


def _ended(ledger: Any, start: int) -> Sequence[Item]:
    """What ends an open turn that begins without thinking; nothing while results are still to come."""
    return turn_end() if is_torn(ledger, start) and not ledger.open_calls() else ()

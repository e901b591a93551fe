"""LangChain's functions on messages: `from ullage.dropin.langchain import count_tokens_approximately, trim_messages`.

Counts are equal, and dicts are counted without LangChain. What is trimmed is equal too, except that no tool result is
left without its call, and no call without its results.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from ullage.dropin import stands_in_for
from ullage.dropin.langchain_pairs import Kinds, ending, without_parted
from ullage.dropin.langchain_size import count_tokens_approximately, tokens_of_each
from ullage.exceptions import InvalidPolicy, MissingExtra

if TYPE_CHECKING:
    from langchain_core.messages import (  # type: ignore[import-not-found, unused-ignore]
        BaseMessage,
    )
    from langchain_core.runnables import (  # type: ignore[import-not-found, unused-ignore]
        Runnable,
    )

__all__ = ["ChatModel", "TextSplitter", "count_tokens_approximately", "trim_messages"]


class ChatModel(Protocol):
    """A chat model, as far as it is asked for a count."""

    def get_num_tokens_from_messages(self, messages: list[BaseMessage], /) -> int:
        """The tokens of messages."""
        ...


class TextSplitter(Protocol):
    """A text splitter of LangChain."""

    def split_text(self, text: str, /) -> list[str]:
        """The parts of a text, which joined give it again."""
        ...


_Count = Callable[[list[Any]], int]
_Split = Callable[[str], list[str]]


@overload
def trim_messages(
    messages: None = None,
    *,
    max_tokens: int,
    token_counter: Callable[[list[BaseMessage]], int]
    | Callable[[BaseMessage], int]
    | ChatModel
    | Literal["approximate"],
    strategy: Literal["first", "last"] = "last",
    allow_partial: bool = False,
    end_on: str | type | Sequence[str | type] | None = None,
    start_on: str | type | Sequence[str | type] | None = None,
    include_system: bool = False,
    text_splitter: Callable[[str], list[str]] | TextSplitter | None = None,
) -> Runnable[Sequence[object], list[BaseMessage]]: ...


@overload
def trim_messages(
    messages: Iterable[object],
    *,
    max_tokens: int,
    token_counter: Callable[[list[BaseMessage]], int]
    | Callable[[BaseMessage], int]
    | ChatModel
    | Literal["approximate"],
    strategy: Literal["first", "last"] = "last",
    allow_partial: bool = False,
    end_on: str | type | Sequence[str | type] | None = None,
    start_on: str | type | Sequence[str | type] | None = None,
    include_system: bool = False,
    text_splitter: Callable[[str], list[str]] | TextSplitter | None = None,
) -> list[BaseMessage]: ...


def trim_messages(
    messages: Iterable[object] | None = None,
    *,
    max_tokens: int,
    token_counter: Callable[[list[BaseMessage]], int]
    | Callable[[BaseMessage], int]
    | ChatModel
    | Literal["approximate"],
    strategy: Literal["first", "last"] = "last",
    allow_partial: bool = False,
    end_on: str | type | Sequence[str | type] | None = None,
    start_on: str | type | Sequence[str | type] | None = None,
    include_system: bool = False,
    text_splitter: Callable[[str], list[str]] | TextSplitter | None = None,
) -> list[BaseMessage] | Runnable[Sequence[object], list[BaseMessage]]:
    """The first or the last messages that fit, tool calls and their results together.

    Args:
        messages: LangChain's messages, or what it converts to them; `None`: a runnable for chains is returned that trims what it is given.
        max_tokens: The most that the result may count.
        token_counter: Of a list or of one message (its argument is annotated `BaseMessage`); a chat model; `len` counts
            messages; `"approximate"`: `count_tokens_approximately`.
        strategy: Which end is kept.
        allow_partial: Whether a part of the message at the edge may be kept.
        end_on: Types of messages to end on; `None`: any.
        start_on: Types of messages to start on, after the system message; only for `"last"`. `None`: any.
        include_system: Whether a system message at the start is kept; only for `"last"`.
        text_splitter: How a text is divided for `allow_partial`; `None`: at line ends.

    Raises:
        MissingExtra: LangChain is not installed.
        InvalidPolicy: Arguments that exclude each other, or a strategy or counter that is not known.
    """
    if messages is None:
        return _runnable(
            lambda given: trim_messages(
                given,
                max_tokens=max_tokens,
                token_counter=token_counter,
                strategy=strategy,
                allow_partial=allow_partial,
                end_on=end_on,
                start_on=start_on,
                include_system=include_system,
                text_splitter=text_splitter,
            )
        )
    if strategy not in ("first", "last"):
        raise InvalidPolicy("strategy", strategy, "must be 'first' or 'last'")
    if strategy == "first" and (start_on or include_system):
        name, value = ("start_on", start_on) if start_on else ("include_system", include_system)
        raise InvalidPolicy(name, value, "is only valid with strategy='last'")
    count, split = _counter(token_counter), _splitter(text_splitter)
    given = _converted(messages)
    if strategy == "first":
        kept = _head(list(given), max_tokens, count, split if allow_partial else None, "first")
        return without_parted(ending(kept, end_on), given, end_on=end_on)
    return _last(
        given, max_tokens, count, split if allow_partial else None, start_on, end_on, include_system
    )


def _runnable(
    trim: Callable[[Sequence[object]], list[BaseMessage]],
) -> Runnable[Sequence[object], list[BaseMessage]]:
    try:
        found = import_module("langchain_core.runnables")
    except ImportError as error:
        raise MissingExtra("langchain-core", "langchain") from error
    made: Runnable[Sequence[object], list[BaseMessage]] = found.RunnableLambda(
        trim, name="trim_messages"
    )
    return made


def _last(
    given: list[Any],
    most: int,
    count: _Count,
    split: _Split | None,
    start_on: Kinds,
    end_on: Kinds,
    include_system: bool,
) -> list[Any]:
    rest = ending(list(given), end_on)
    system = rest[:1] if include_system and rest and _is_system(rest[0]) else []
    room = max(0, most - count(system)) if system else most
    turned = _head(rest[len(system) :][::-1], room, count, split, "last")
    kept = ending(turned, start_on)[::-1]
    return [*system, *without_parted(kept, given, start_on=start_on, end_on=end_on)]


def _head(
    messages: list[Any], most: int, count: _Count, split: _Split | None, end: str
) -> list[Any]:
    """The first messages that fit; with `split`, a part of the next one as well."""
    fits = _fitting(messages, most, count)
    kept = messages[:fits]
    if split is None or fits == len(messages):
        return kept
    part = _fewer_blocks(messages[fits], kept, most, count, end)
    part = part or _shorter_text(messages[fits], kept, most, count, split, end)
    return [*kept, part] if part is not None else kept


def _fitting(messages: list[Any], most: int, count: _Count) -> int:
    """How many of the first messages fit."""
    if (
        count is count_tokens_approximately
    ):  # a sum over the messages, so that one look at each is enough
        sums = accumulate(tokens_of_each(messages))
        return next((at for at, tokens in enumerate(sums) if tokens > most), len(messages))
    if not messages or count(messages) <= most:
        return len(messages)
    return _bisected(len(messages), lambda n: count(messages[:n]) <= most)


def _bisected(most: int, fits: Callable[[int], bool]) -> int:
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _fewer_blocks(message: Any, kept: list[Any], most: int, count: _Count, end: str) -> Any:
    """The message with as many blocks of its content as fit; `None`: not one does."""
    if not isinstance(message.content, list):
        return None
    for size in range(len(message.content) - 1, 0, -1):
        blocks = message.content[-size:] if end == "last" else message.content[:size]
        part = message.model_copy(deep=True, update={"content": blocks})
        if count([*kept, part]) <= most:
            return part
    return None


def _shorter_text(
    message: Any, kept: list[Any], most: int, count: _Count, split: _Split, end: str
) -> Any:
    """The message with as much of its text as fits; `None`: no part does."""
    pieces = split(text) if (text := _text(message.content, end)) else []
    base = count(kept)

    def cut(size: int) -> Any:
        chosen = pieces[len(pieces) - size :] if end == "last" else pieces[:size]
        return message.model_copy(deep=True, update={"content": "".join(chosen)})

    size = _bisected(len(pieces), lambda n: base + count([cut(n)]) <= most)
    return cut(size) if size else None


def _text(content: Any, end: str) -> str | None:
    """The text at the edge that is kept."""
    edge = content if isinstance(content, str) else (content or [""])[-1 if end == "last" else 0]
    if isinstance(edge, dict):
        edge = edge.get("text") if edge.get("type") == "text" else None
    return edge if isinstance(edge, str) else None


def _is_system(message: Any) -> bool:
    return isinstance(message, import_module("langchain_core.messages").SystemMessage)


def _converted(messages: Iterable[object]) -> list[Any]:
    try:
        found = import_module("langchain_core.messages")
    except ImportError as error:
        raise MissingExtra("langchain-core", "langchain") from error
    return list(found.convert_to_messages(messages))


def _counter(given: Any) -> _Count:
    if given == "approximate" or _is_theirs(given):
        return count_tokens_approximately
    if hasattr(given, "get_num_tokens_from_messages"):
        of_model: _Count = given.get_num_tokens_from_messages
        return of_model
    if not callable(given):
        raise InvalidPolicy("token_counter", given, "must be 'approximate', a model or a function")
    of_list: _Count = given
    first = next(iter(inspect.signature(given).parameters.values()))
    # As LangChain tells a function of one message from one of a list; the text is how postponed annotations read.
    if getattr(first.annotation, "__name__", first.annotation) == "BaseMessage":
        return lambda messages: sum(given(each) for each in messages)
    return of_list


def _is_theirs(given: object) -> bool:
    """Whether it is LangChain's own function of that name, which counts the same; without LangChain nothing is."""
    known = sys.modules.get("langchain_core.messages.utils")
    return known is not None and given is known.count_tokens_approximately


def _splitter(given: Any) -> _Split:
    if given is None:
        return _lines
    split: _Split = getattr(given, "split_text", given)
    return split


def _lines(text: str) -> list[str]:
    *ended, last = text.split("\n")
    return [*(line + "\n" for line in ended), last]


stands_in_for(__name__, "langchain_core.messages")

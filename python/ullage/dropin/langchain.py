"""LangChain's functions on messages: `from ullage.dropin.langchain import count_tokens_approximately, trim_messages`.

Counts are equal, and dicts are counted without LangChain. What is trimmed is equal too, except that no tool result is
left without its call, and no call without its results.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, cast, overload

from ullage._start import extra_module
from ullage.dropin import stands_in_for
from ullage.exceptions import InvalidMessage, InvalidPolicy
from ullage.messages import largest

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable

# LangChain's messages at the edges of a cut: which are allowed there, and which calls and results belong together.


Kinds = str | type | Sequence[str | type] | None
"""Types of messages, by name or class; `None`: any."""


_CALLING, _ANSWERING = frozenset(("ai", "AIMessageChunk")), frozenset(("tool", "ToolMessageChunk"))
# LangChain treats both as "no name" and does not count them.
_NAMELESS: frozenset[Any] = frozenset((None, ""))


def _ending(messages: list[Any], kinds: Kinds) -> list[Any]:
    """The messages up to the last one of these kinds; `None`: all."""
    while kinds and messages and not _is(messages[-1], kinds):
        messages = messages[:-1]
    return messages


def _is(message: Any, kinds: str | type | Sequence[str | type]) -> bool:
    names = [kinds] if isinstance(kinds, str | type) else kinds
    return any(
        isinstance(message, kind) if isinstance(kind, type) else message.type == kind
        for kind in names
    )


def _without_parted(
    remaining: list[Any], messages: list[Any], *, start_on: Kinds = None, end_on: Kinds = None
) -> list[Any]:
    """The kept messages, without results whose call was cut off and calls whose results were.

    What had no counterpart in `given` stays. Types to start and end on still hold.
    """
    if len(remaining) == len(messages):
        return remaining
    calls, results = _ids(messages)
    both = calls & results
    while True:
        held_calls, held_results = _ids(remaining)
        lost = both - (held_calls & held_results)
        if not lost:
            return remaining
        # Of each message the ids of its calls, or of the call that it answers.
        whole = [message for message in remaining if not lost & set().union(*_ids([message]))]
        whole = _ending(_ending(whole, end_on)[::-1], start_on)[::-1]
        if len(whole) == len(remaining):
            return remaining
        remaining = whole


def _ids(messages: list[Any]) -> tuple[set[str], set[str]]:
    called: set[str] = set()
    answered: set[str] = set()
    for message in messages:
        kind = message.type  # reading a missing field of a message is slow
        if kind in _CALLING:
            for call in message.tool_calls:
                called.add(call["id"])
            for wrong in message.invalid_tool_calls:
                called.add(wrong["id"])
        elif kind in _ANSWERING:
            answered.add(message.tool_call_id)
    return called - _NAMELESS, answered - _NAMELESS


# LangChain's approximate count: characters by four, and three tokens for each message.


# LangChain's names for its types of messages, which it counts as characters.
_ROLES = {
    "human": "user",
    "ai": "assistant",
    "HumanMessageChunk": "user",
    "AIMessageChunk": "assistant",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
    "FunctionMessageChunk": "function",
}


_USUAL: dict[str | None, int] = {"human": 4, "ai": 9, "tool": 4}
"""Types of the objects that most lists hold, with the length of what OpenAI calls their role."""


class _Message(NamedTuple):
    """The counted parts of a message of any form."""

    role: str
    content: Any
    name: str | None = None
    calls: Any = ()
    answers: str = ""
    vendor: Any = None
    usage: Any = None


def count_tokens_approximately(
    messages: Iterable[object],
    *,
    chars_per_token: float = 4.0,
    extra_tokens_per_message: float = 3.0,
    count_name: bool = True,
    tokens_per_image: int = 85,
    use_usage_metadata_scaling: bool = False,
    tools: Iterable[object] | None = None,
) -> int:
    """The approximate tokens of messages, from the number of their characters.

    Args:
        messages: LangChain's messages, dicts, pairs of role and text, or texts.
        chars_per_token: Characters that make a token.
        extra_tokens_per_message: Extra tokens per message.
        count_name: Whether names are counted.
        tokens_per_image: Tokens per image of any size.
        use_usage_metadata_scaling: Whether the newest reported usage corrects the count, by a factor of 1 to 1.25.
        tools: LangChain's tools, or definitions as dicts; `None`: none.

    Raises:
        InvalidMessage: A message has none of these forms; names its index.

    Example:
        >>> count_tokens_approximately([{"role": "user", "content": "What is in the cask?"}])
        9
    """
    # LangChain's prompt values do not iterate over messages.
    listed: Any = getattr(messages, "to_messages", lambda: messages)()
    total = 0.0
    if tools:
        total += math.ceil(sum(map(_tool_chars, tools)) / chars_per_token)
    if use_usage_metadata_scaling:
        listed = list(listed)
    sums = [total]
    for images, chars in _sizes(listed, count_name):
        total += images * tokens_per_image
        total += math.ceil(chars / chars_per_token) + extra_tokens_per_message
        sums.append(total)
    if use_usage_metadata_scaling and len(listed) > 1:
        total *= _scale(listed, sums)
    return math.ceil(total)


def _sizes(messages: Iterable[Any], count_name: bool) -> Iterator[tuple[int, int]]:
    """Images and characters of each message, with a fast path for the usual kinds."""
    for index, message in enumerate(messages):
        kind: Any = None if type(message) is dict else getattr(message, "type", None)
        role = _USUAL.get(kind)
        if role is None or type(content := message.content) is not str:
            yield _size(_read(message, index), count_name)
            continue
        chars = role + len(content)
        if kind == "ai":
            calls = message.tool_calls
            chars += len(repr(calls)) if calls else 0
        elif kind == "tool":
            chars += len(message.tool_call_id)
        name = message.name
        yield 0, chars + (len(name) if name and count_name else 0)


def _size(message: _Message, count_name: bool) -> tuple[int, int]:
    """Images and characters of a message."""
    images, chars = _content(message.content)
    # Blocks hold their calls already.
    if message.calls and not isinstance(message.content, list):
        chars += len(repr(message.calls))
    chars += len(message.answers) + len(message.role)
    return images, chars + (len(message.name) if message.name and count_name else 0)


def _content(content: Any) -> tuple[int, int]:
    if isinstance(content, str):
        return 0, len(content)
    images = chars = 0
    for block in content:
        kind = block.get("type", "") if isinstance(block, dict) else None
        if kind in ("image", "image_url"):
            images += 1
        elif isinstance(block, str):
            chars += len(block)
        else:
            chars += len(block.get("text", "")) if kind == "text" else len(repr(block))
    return images, chars


def _scale(messages: Iterable[Any], sums: Sequence[float]) -> float:
    """Reported by counted tokens at the newest answer with usage; 1 if the answers are not of one vendor.

    `sums`: counted tokens before the first message, and with each.
    """
    read = [_read(message, index) for index, message in enumerate(messages)]
    answers = [(m, at) for m, at in zip(read, sums[1:], strict=True) if m.role == "assistant"]
    vendors = {message.vendor for message, _ in answers}
    usages = [(message.usage.get("total_tokens"), at) for message, at in answers if message.usage]
    counts = [(tokens, at) for tokens, at in usages if isinstance(tokens, int)]
    if len(vendors) != 1 or None in vendors or not counts or counts[-1][1] <= 0:
        return 1.0
    return float(min(1.25, max(1.0, counts[-1][0] / counts[-1][1])))


# ---- forms of messages -------------------------------------------------------------------------


def _read(message: Any, index: int) -> _Message:
    if isinstance(message, str):
        return _Message("user", message)
    if isinstance(message, (list, tuple)) and len(message) == 2:
        return _Message(_role(message[0]), message[1])
    # Checks against an abstract class are slow, so they come after the usual kinds.
    if not isinstance(message, dict) and hasattr(message, "type") and hasattr(message, "content"):
        return _of_object(message)
    if isinstance(message, Mapping):
        return _of_dict(message, index)
    raise InvalidMessage("is not a LangChain message", index=index, got=type(message).__name__)


def _role(named: str) -> str:
    return _ROLES.get(named, named)


def _of_dict(message: Mapping[str, Any], index: int) -> _Message:
    role: str | None = message.get("role", message.get("type"))
    if role is None or "content" not in message:
        raise InvalidMessage("must have 'role' and 'content'", index=index)
    role = _role(role)
    return _Message(
        role,
        message["content"] or "",
        message.get("name"),
        [_call(call) for call in message.get("tool_calls") or ()] if role == "assistant" else (),
        message.get("tool_call_id") or "" if role == "tool" else "",
        (message.get("response_metadata") or {}).get("model_provider"),
    )


def _call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """A call of the chat form as LangChain keeps it."""
    if "function" not in call:
        return dict(call)
    arguments = call["function"]["arguments"]
    if isinstance(arguments, str):
        arguments = json.loads(arguments, strict=False)
    name = call["function"]["name"]
    return {"name": name, "args": arguments, "id": call["id"], "type": "tool_call"}


def _of_object(message: Any) -> _Message:
    role = _role(message.type)
    if role == "system":
        role = message.additional_kwargs.get("__openai_role__", role)
    # Only that type has a role, and looking for a missing field is slow.
    elif role.lower().startswith("chat"):
        role = getattr(message, "role", role)
    is_answer = role == "assistant" and hasattr(message, "tool_calls")
    return _Message(
        role,
        message.content,
        message.name,
        message.tool_calls if is_answer else (),
        message.tool_call_id if role == "tool" else "",
        message.response_metadata.get("model_provider") if is_answer else None,
        message.usage_metadata if is_answer else None,
    )


def _tool_chars(tool: Any) -> int:
    if isinstance(tool, dict):
        return len(json.dumps(tool))
    schema = tool.tool_call_schema
    whole = schema if isinstance(schema, dict) else schema.model_json_schema()
    # Title and description are next to the parameters already.
    shown_apart = ("title", "description")
    parameters = {name: field for name, field in whole.items() if name not in shown_apart}
    definition = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return len(json.dumps(definition))


class ChatModel(Protocol):
    """A chat model that can count."""

    def get_num_tokens_from_messages(self, messages: list[BaseMessage], /) -> int:
        """The tokens of messages."""
        ...


class TextSplitter(Protocol):
    """A text splitter of LangChain."""

    def split_text(self, text: str, /) -> list[str]:
        """Parts of a text that join into it again."""
        ...


# A text, as LangChain is imported for type checkers only.
TokenCounter: TypeAlias = (
    "Callable[[list[BaseMessage]], int] | Callable[[BaseMessage], int] | ChatModel"
    " | Literal['approximate']"
)
_Count = Callable[[list[Any]], int]
_Split = Callable[[str], list[str]]


@overload
def trim_messages(
    messages: None = None,
    *,
    max_tokens: int,
    token_counter: TokenCounter,
    strategy: Literal["first", "last"] = "last",
    allow_partial: bool = False,
    end_on: Kinds = None,
    start_on: Kinds = None,
    include_system: bool = False,
    text_splitter: Callable[[str], list[str]] | TextSplitter | None = None,
) -> Runnable[Sequence[object], list[BaseMessage]]: ...


@overload
def trim_messages(
    messages: Iterable[object],
    *,
    max_tokens: int,
    token_counter: TokenCounter,
    strategy: Literal["first", "last"] = "last",
    allow_partial: bool = False,
    end_on: Kinds = None,
    start_on: Kinds = None,
    include_system: bool = False,
    text_splitter: Callable[[str], list[str]] | TextSplitter | None = None,
) -> list[BaseMessage]: ...


def trim_messages(
    messages: Iterable[object] | None = None,
    *,
    max_tokens: int,
    token_counter: TokenCounter,
    strategy: Literal["first", "last"] = "last",
    allow_partial: bool = False,
    end_on: Kinds = None,
    start_on: Kinds = None,
    include_system: bool = False,
    text_splitter: Callable[[str], list[str]] | TextSplitter | None = None,
) -> list[BaseMessage] | Runnable[Sequence[object], list[BaseMessage]]:
    """The first or the last messages that fit, tool calls and their results together.

    Args:
        messages: LangChain's messages, or what it converts to them; `None`: return a runnable for chains that trims its input.
        max_tokens: Maximum tokens of the result.
        token_counter: A function of a list or of one message (with its argument annotated `BaseMessage`); a chat model; `len` counts
            messages; `"approximate"`: `count_tokens_approximately`.
        strategy: Which end to keep.
        allow_partial: Whether a part of the message at the edge may be kept.
        end_on: Types of messages to end on; `None`: any.
        start_on: Types of messages to start on, after the system message; only for `"last"`. `None`: any.
        include_system: Whether a system message at the start is kept; only for `"last"`.
        text_splitter: How a text is divided for `allow_partial`; `None`: at line ends.

    Raises:
        MissingExtra: LangChain is not installed.
        InvalidPolicy: Arguments that exclude each other, or an unknown strategy or counter.
    """
    if messages is None:
        runnable: Runnable[Sequence[object], list[BaseMessage]] = _core("runnables").RunnableLambda(
            lambda messages_in: trim_messages(
                messages_in,
                max_tokens=max_tokens,
                token_counter=token_counter,
                strategy=strategy,
                allow_partial=allow_partial,
                end_on=end_on,
                start_on=start_on,
                include_system=include_system,
                text_splitter=text_splitter,
            ),
            name="trim_messages",
        )
        return runnable
    if strategy not in ("first", "last"):
        raise InvalidPolicy("strategy", strategy, "must be 'first' or 'last'")
    if strategy == "first" and (start_on or include_system):
        name, value = ("start_on", start_on) if start_on else ("include_system", include_system)
        raise InvalidPolicy(name, value, "is only valid with strategy='last'")
    count, splitter = _counter(token_counter), cast("Any", text_splitter)
    splitter = _lines if splitter is None else getattr(splitter, "split_text", splitter)
    split: _Split | None = splitter if allow_partial else None
    messages_in: list[Any] = list(_core("messages").convert_to_messages(messages))
    if strategy == "first":
        trimmed = _head(messages_in, max_tokens, count, split, "first")
        return _without_parted(_ending(trimmed, end_on), messages_in, end_on=end_on)
    ended, kind = _ending(messages_in, end_on), _core("messages").SystemMessage
    system = ended[:1] if include_system and ended and isinstance(ended[0], kind) else []
    room = max(0, max_tokens - count(system)) if system else max_tokens
    turned = _head(ended[len(system) :][::-1], room, count, split, "last")
    newest = _ending(turned, start_on)[::-1]
    return [*system, *_without_parted(newest, messages_in, start_on=start_on, end_on=end_on)]


def _core(module: str) -> Any:
    return extra_module(f"langchain_core.{module}", "langchain")


def _head(
    messages: list[Any], most: int, count: _Count, split: _Split | None, end: str
) -> list[Any]:
    """The first messages that fit; with `split`, a part of the next one as well."""
    fits = _fitting(messages, most, count)
    oldest = messages[:fits]
    if split is None or fits == len(messages):
        return oldest
    part = _fewer_blocks(messages[fits], oldest, most, count, end)
    part = part or _shorter_text(messages[fits], oldest, most, count, split, end)
    return [*oldest, part] if part is not None else oldest


def _fitting(messages: list[Any], most: int, count: _Count) -> int:
    """How many of the first messages fit."""
    if count is count_tokens_approximately:  # a sum over the messages, so each is counted once
        sizes = _sizes(messages, True)
        sums = accumulate(images * 85 + math.ceil(chars / 4.0) + 3.0 for images, chars in sizes)
        return next((at for at, tokens in enumerate(sums) if tokens > most), len(messages))
    if not messages or count(messages) <= most:
        return len(messages)
    return largest(len(messages), lambda n: count(messages[:n]) <= most)


def _fewer_blocks(message: Any, before: list[Any], most: int, count: _Count, end: str) -> Any:
    """The message with as many blocks as fit; `None` if none do."""
    if not isinstance(message.content, list):
        return None
    for size in range(len(message.content) - 1, 0, -1):
        blocks = message.content[-size:] if end == "last" else message.content[:size]
        part = message.model_copy(deep=True, update={"content": blocks})
        if count([*before, part]) <= most:
            return part
    return None


def _shorter_text(
    message: Any, before: list[Any], most: int, count: _Count, split: _Split, end: str
) -> Any:
    """The message with as much text as fits; `None` if nothing does."""
    pieces = split(text) if (text := _text(message.content, end)) else []
    base = count(before)

    def cut(size: int) -> Any:
        chosen = pieces[len(pieces) - size :] if end == "last" else pieces[:size]
        return message.model_copy(deep=True, update={"content": "".join(chosen)})

    size = largest(len(pieces), lambda n: base + count([cut(n)]) <= most)
    return cut(size) if size else None


def _text(content: Any, end: str) -> str | None:
    """The text at the edge that is kept."""
    edge = content if isinstance(content, str) else (content or [""])[-1 if end == "last" else 0]
    if isinstance(edge, dict):
        edge = edge.get("text") if edge.get("type") == "text" else None
    return edge if isinstance(edge, str) else None


def _counter(counter: Any) -> _Count:
    if counter == "approximate" or _is_theirs(counter):
        return count_tokens_approximately
    if hasattr(counter, "get_num_tokens_from_messages"):
        of_model: _Count = counter.get_num_tokens_from_messages
        return of_model
    if not callable(counter):
        limit = "must be 'approximate', a model or a function"
        raise InvalidPolicy("token_counter", counter, limit)
    of_list: _Count = counter
    first = next(iter(inspect.signature(counter).parameters.values()))
    # How LangChain tells a function of one message from one of a list; postponed annotations are text.
    if getattr(first.annotation, "__name__", first.annotation) == "BaseMessage":
        return lambda messages: sum(counter(message) for message in messages)
    return of_list


def _is_theirs(function: object) -> bool:
    """Whether it is LangChain's own function of that name, which counts the same; false without LangChain."""
    module = sys.modules.get("langchain_core.messages.utils")
    return function is getattr(module, "count_tokens_approximately", _is_theirs)


def _lines(text: str) -> list[str]:
    *ended, last = text.split("\n")
    return [*(line + "\n" for line in ended), last]


stands_in_for(__name__, "langchain_core.messages")

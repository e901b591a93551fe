"""LangChain's approximate count: characters by four, and three tokens for each message."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ullage.exceptions import InvalidMessage

__all__ = ["count_tokens_approximately", "tokens_of_each"]

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
    """What is counted of a message, of whatever form."""

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
        extra_tokens_per_message: Tokens that a message costs besides.
        count_name: Whether names are counted.
        tokens_per_image: Of each image, whatever its size.
        use_usage_metadata_scaling: Whether the newest usage that an answer reports corrects the count, by a factor of 1 to 1.25.
        tools: LangChain's tools, or definitions as dicts; `None`: none.

    Raises:
        InvalidMessage: A message has none of these forms; names its index.

    Example:
        >>> count_tokens_approximately([{"role": "user", "content": "What is in the cask?"}])
        9
    """
    # A prompt value of LangChain is not iterable as messages.
    given: Any = getattr(messages, "to_messages", lambda: messages)()
    total = 0.0
    if tools:
        total += math.ceil(sum(map(_tool_chars, tools)) / chars_per_token)
    if use_usage_metadata_scaling:
        given = list(given)
    before = total
    for images, chars in _sizes(given, count_name):
        total += images * tokens_per_image
        total += math.ceil(chars / chars_per_token) + extra_tokens_per_message
    if use_usage_metadata_scaling and len(given) > 1:
        each = chars_per_token, extra_tokens_per_message, count_name, tokens_per_image
        total *= _scale(given, before, *each)
    return math.ceil(total)


def tokens_of_each(messages: Iterable[object]) -> Iterator[float]:
    """The approximate tokens of messages, one by one, which add up to the count of the list."""
    for images, chars in _sizes(messages, True):
        yield images * 85 + math.ceil(chars / 4.0) + 3.0


def _sizes(messages: Iterable[Any], count_name: bool) -> Iterator[tuple[int, int]]:
    """Images and characters of each message; what most messages are is read without any detour."""
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


def _scale(
    given: Iterable[Any],
    total: float,
    chars_per_token: float,
    extra: float,
    count_name: bool,
    tokens_per_image: int,
) -> float:
    """Reported by counted tokens at the newest answer with usage; 1 if the answers are not of one vendor."""
    answers: list[tuple[_Message, float]] = []
    for index, each in enumerate(given):
        message = _read(each, index)
        images, chars = _size(message, count_name)
        total += images * tokens_per_image + math.ceil(chars / chars_per_token) + extra
        if message.role == "assistant":
            answers.append((message, total))
    vendors = {message.vendor for message, _ in answers}
    usages = [(message.usage.get("total_tokens"), at) for message, at in answers if message.usage]
    known = [(tokens, at) for tokens, at in usages if isinstance(tokens, int)]
    if len(vendors) != 1 or None in vendors or not known or known[-1][1] <= 0:
        return 1.0
    return float(min(1.25, max(1.0, known[-1][0] / known[-1][1])))


# ---- forms of messages -------------------------------------------------------------------------


def _read(message: Any, index: int) -> _Message:
    if isinstance(message, str):
        return _Message("user", message)
    if isinstance(message, (list, tuple)) and len(message) == 2:
        return _Message(_role(message[0]), message[1])
    # Asking an abstract class about an object is slow, so that it comes after what most messages are.
    if not isinstance(message, dict) and hasattr(message, "type") and hasattr(message, "content"):
        return _of_object(message)
    if isinstance(message, Mapping):
        return _of_dict(message, index)
    raise InvalidMessage("is no message of LangChain", index=index, got=type(message).__name__)


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
        [_call(each) for each in message.get("tool_calls") or ()] if role == "assistant" else (),
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
    elif role.lower().startswith(
        "chat"
    ):  # only that one has a role, and looking for a missing field is slow
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
    # Title and description stand next to the parameters already.
    parameters = {
        name: each for name, each in whole.items() if name not in ("title", "description")
    }
    definition = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return len(json.dumps(definition))

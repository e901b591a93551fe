"""`litellm.utils`: counting and trimming."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, cast, overload

from ullage.counting import ModelTable, count_tokens_exact
from ullage.dropin import stands_in_for
from ullage.dropin.tiktoken import encoding_name_for_model
from ullage.exceptions import InvalidPolicy
from ullage.requests import estimate_text

# litellm's count of chat messages: their framing and all text in them.


Count = Callable[[str], int]
"""The tokens of a text."""

_FRAME = 3
"""Tokens around a message; a name costs one more. Source: OpenAI's cookbook."""

_IMAGE, _IMAGE_DEFAULT, _IMAGE_HIGH = 85, 250, 1_445
"""Tokens of an image in low detail, by default, and in high detail with eight more tiles of 170, the most it can cost."""


def _model_counter(model: str | None, custom: Mapping[str, Any] | None = None) -> Count:
    """Counts a model's text by its vocabulary, else by its calibrated estimate; unknown models by cl100k_base."""
    if custom is not None and custom.get("type") == "huggingface_tokenizer":
        tokenizer = custom["tokenizer"]
        own: Count | None = getattr(tokenizer, "count", None)
        return own or (lambda text: len(tokenizer.encode(text).ids))
    if not model:
        return partial(count_tokens_exact, encoding="cl100k_base")
    bare = model.rpartition("/")[2]
    try:
        return partial(count_tokens_exact, encoding=encoding_name_for_model(bare))
    except KeyError:
        row = ModelTable.builtin().find(model)
    if row is not None and not row.encoding:
        return partial(estimate_text, model=model)
    return partial(count_tokens_exact, encoding=row.encoding if row else "cl100k_base")


def _plain(message: Any) -> dict[str, Any]:
    """A message or litellm's object as a dict, without what is `None`."""
    held = message.model_dump() if hasattr(message, "model_dump") else message
    return {name: field for name, field in held.items() if field is not None}


def _message_tokens(
    message: Mapping[str, Any],
    count: Count,
    image_default: bool = False,
    fallback: int | None = None,
) -> int:
    """The tokens of one message with its framing."""
    total = _FRAME
    for key, value in message.items():
        if key == "tool_calls":
            total += sum(count(str(call["function"].get("arguments", ""))) for call in value)
        elif key == "function_call":
            total += count(str(value.get("arguments", "")))
        elif isinstance(value, str):
            total += count(value) + (key == "name")
        elif key == "content" and isinstance(value, list):
            total += _content(value, count, image_default, fallback)
    return total


def _content(blocks: Iterable[Any], count: Count, default: bool, fallback: int | None) -> int:
    try:
        return sum(_block(block, count, default, fallback) for block in blocks)
    except (ValueError, TypeError, KeyError):
        if fallback is None:
            raise
        return fallback


def _block(block: Any, count: Count, default: bool, fallback: int | None) -> int:
    if isinstance(block, str):
        return count(block)
    kind = block["type"]
    if kind == "image_url":
        return _image(block.get("image_url"), default)
    if kind in ("image", "document", "file"):
        return _IMAGE_DEFAULT if default else _IMAGE
    fields = _COUNTED.get(kind)
    if fields is None:
        raise InvalidPolicy("content.type", kind, f"must be one of {', '.join(sorted(_KINDS))}")
    total = 0
    for value in map(block.get, fields):
        if isinstance(value, list):
            total += _content(value, count, default, fallback)
        elif value:
            total += count(str(value))
    return total


_COUNTED = {
    "text": ("text",),
    "tool_use": ("name", "input"),
    "tool_result": ("content",),
    "thinking": ("thinking",),
    "redacted_thinking": (),
    "tool_reference": ("tool_name",),
}
"""The counted fields of each kind of block, without ids and signatures."""
_KINDS = {*_COUNTED, "image_url", "image", "document", "file"}


def _image(image: Any, default: bool) -> int:
    detail = image.get("detail", "auto") if isinstance(image, dict) else "auto"
    url = image.get("url") if isinstance(image, dict) else image
    if not isinstance(url, str) or not url.strip():
        raise InvalidPolicy("image_url", image, "must be a URL or have the key 'url'")
    if detail not in ("low", "high", "auto"):
        raise InvalidPolicy("image_url.detail", detail, "must be 'low', 'high' or 'auto'")
    if default:
        return _IMAGE_DEFAULT
    return _IMAGE_HIGH if detail == "high" else _IMAGE


def _tool_tokens(tools: Sequence[Mapping[str, Any]], count: Count) -> int:
    """The tokens of tool definitions as OpenAI's models appear to see them."""
    lines = ["namespace functions {", ""]
    for tool in tools:
        anthropic = {**tool, "parameters": tool.get("input_schema") or tool.get("parameters")}
        function = tool.get("function") or anthropic
        if not (name := function.get("name")):
            continue
        if description := function.get("description"):
            lines.append(f"// {description}")
        parameters = function.get("parameters") or {}
        if parameters.get("properties"):
            lines += [f"type {name} = (_: {{", _fields(parameters, 0), "}) => any;", ""]
        else:
            lines += [f"type {name} = () => any;", ""]
    return count("\n".join([*lines, "} // namespace functions"])) + 9


def _fields(parameters: Mapping[str, Any], indent: int) -> str:
    required = parameters.get("required") or ()
    lines = []
    for name, field in (parameters.get("properties") or {}).items():
        if description := field.get("description"):
            lines.append(f"// {description}")
        lines.append(f"{name}{'' if name in required else '?'}: {_kind(field, indent)},")
    return "\n".join(" " * indent + line for line in lines)


def _kind(schema: Mapping[str, Any], indent: int) -> str:
    kind = schema.get("type")
    if kind in ("string", "integer", "number") and "enum" in schema:
        return " | ".join(f'"{value}"' for value in schema["enum"])
    if kind == "array":
        return f"{_kind(schema.get('items') or {}, indent)}[]"
    if kind == "object":
        return f"{{\n{_fields(schema, indent + 2)}\n}}"
    if kind in ("integer", "number"):
        return "number"
    return kind if kind in ("string", "boolean", "null") else "any"


_PRIMED = 3
"""Tokens at the beginning of every answer."""


def token_counter(
    model: str = "",
    custom_tokenizer: Mapping[str, Any] | None = None,
    text: str | list[str] | None = None,
    messages: Sequence[Mapping[str, Any]] | None = None,
    count_response_tokens: bool | None = False,
    tools: list[dict[str, Any]] | None = None,
    tool_choice: str | Mapping[str, Any] | None = None,
    use_default_image_token_count: bool | None = False,
    default_token_count: int | None = None,
) -> int:
    """The tokens of a text, or of messages and tools.

    Args:
        model: Whose vocabulary; models whose vocabulary is not public are estimated, unknown ones count by cl100k_base.
        custom_tokenizer: `{"type": "huggingface_tokenizer", "tokenizer": ...}`; `None`: that of `model`.
        text: A text, or texts that belong together; instead of `messages`.
        messages: Of the chat form, or with Anthropic's blocks.
        count_response_tokens: Whether they are a response, to which no framing is added.
        tools: Definitions; `None`: none.
        tool_choice: `"none"`, or the function to call; `None`: free.
        use_default_image_token_count: Whether every image counts 250.
        default_token_count: Count of unreadable content; `None`: raise.

    Raises:
        InvalidPolicy: Both or neither of `text` and `messages`, tools with a text, or content of an unknown kind.

    Example:
        >>> token_counter("gpt-4o", messages=[{"role": "user", "content": "Room in the cask."}])
        13
    """
    if (text is None) == (messages is None):
        raise InvalidPolicy("text", text, "either this or messages must be given, not both")
    count = _model_counter(model, custom_tokenizer)
    if text is not None:
        if tools or tool_choice:
            raise InvalidPolicy("tools", tools, "must be absent where a text is counted")
        return count(text if isinstance(text, str) else "".join(text))
    read = [_plain(message) for message in messages or ()]
    default = bool(use_default_image_token_count)
    total = sum(_message_tokens(message, count, default, default_token_count) for message in read)
    if count_response_tokens is not False:
        return total
    has_system = any(message.get("role") == "system" for message in read)
    total += _PRIMED
    if tools:
        total += _tool_tokens(tools, count) - (4 if has_system else 0)
    if tool_choice == "none":
        total += 1
    elif isinstance(tool_choice, Mapping):
        total += 7 + count(str(tool_choice["function"]["name"]))
    return total


@overload
def trim_messages(
    messages: Sequence[Mapping[str, Any]],
    model: str | None = None,
    trim_ratio: float = 0.75,
    return_response_tokens: Literal[False] = False,
    max_tokens: int | None = None,
) -> list[dict[str, Any]]: ...
@overload
def trim_messages(
    messages: Sequence[Mapping[str, Any]],
    model: str | None = None,
    trim_ratio: float = 0.75,
    *,
    return_response_tokens: Literal[True],
    max_tokens: int | None = None,
) -> tuple[list[dict[str, Any]], int]: ...
def trim_messages(
    messages: Sequence[Mapping[str, Any]],
    model: str | None = None,
    trim_ratio: float = 0.75,
    return_response_tokens: bool = False,
    max_tokens: int | None = None,
) -> list[dict[str, Any]] | tuple[list[dict[str, Any]], int]:
    """The newest messages that fit, after the system prompt; long ones are shortened in the middle.

    Args:
        messages: In the chat form; they are not changed.
        model: Whose vocabulary and window to use; without `max_tokens`, messages for an unknown model come back whole.
        trim_ratio: The part of the window to use.
        return_response_tokens: Whether to also return the tokens left.
        max_tokens: The limit; `None`: by `model` and `trim_ratio`.

    Returns:
        The messages, or with `return_response_tokens` always the messages and the tokens left.

    Example:
        >>> talk = [{"role": "user", "content": f"question {n}"} for n in range(9)]
        >>> [each["content"] for each in trim_messages(talk, "gpt-4o", max_tokens=20)]
        ['question 7', 'question 8']
    """
    # litellm's own objects stay objects, as in litellm.
    held = cast("list[dict[str, Any]]", copy.deepcopy(list(messages)))
    count = _model_counter(model)
    size = _Size(model, count)
    limit, row = max_tokens, ModelTable.builtin().find(model) if model else None
    if limit is None and row is not None:
        limit = int((row.input_limit or row.context_window) * trim_ratio)
    trimmed = held if limit is None or size.all(held) < limit else _trimmed(held, limit, size)
    if not return_response_tokens:
        return trimmed
    return trimmed, (limit or 0) - size.all(trimmed)


class _Size:
    """Tokens of messages for one model."""

    def __init__(self, model: str | None, count: Count) -> None:
        self._count = count
        self.is_gpt = "gpt" in (model or "")

    def one(self, message: Mapping[str, Any]) -> int:
        return _message_tokens(_plain(message), self._count)

    def sum(self, messages: Iterable[Mapping[str, Any]]) -> int:
        return sum(map(self.one, messages))

    def all(self, messages: Iterable[Mapping[str, Any]]) -> int:
        return self.sum(messages) + _PRIMED


def _trimmed(held: list[dict[str, Any]], limit: int, size: _Size) -> list[dict[str, Any]]:
    system = _system(held, limit, size)
    if system:
        limit -= size.all(system)
    units = _units([message for message in held if message["role"] != "system"])
    # The model has to answer results at the end, so they stay, with their call.
    last = units.pop() if units and len(units[-1]) > 1 else []
    newest, used = last, size.all(last)
    for unit in reversed(units):
        if limit - used <= _PRIMED:
            break
        fitting = _fitted(unit, limit - used, size)
        newest, used = [*fitting, *newest], used + size.sum(fitting)
    return [*system, *newest]


def _system(held: list[dict[str, Any]], limit: int, size: _Size) -> list[dict[str, Any]]:
    texts = [message["content"] for message in held if message["role"] == "system"]
    if not any(texts):
        return []
    whole = {"role": "system", "content": "\n".join(texts)}
    return [whole if size.all([whole]) <= limit else _shortened(whole, limit, size)]


def _units(messages: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Messages one by one, but calls with the results that follow them."""
    units: list[list[dict[str, Any]]] = []
    for message in messages:
        joined = message["role"] in ("tool", "function") and units and _calls(units[-1][0])
        if joined:
            units[-1].append(message)
        else:
            units.append([message])
    return units


def _calls(message: Mapping[str, Any]) -> bool:
    return bool(message.get("tool_calls") or message.get("function_call"))


def _fitted(unit: list[dict[str, Any]], room: int, size: _Size) -> list[dict[str, Any]]:
    """The unit, or its only message shortened, or nothing."""
    if size.sum(unit) <= room:
        return unit
    if len(unit) > 1 or _calls(unit[0]) or not isinstance(unit[0].get("content"), str):
        return []
    shorter = _shortened(unit[0], room, size)
    return [shorter] if size.one(shorter) <= room else []


def _shortened(message: dict[str, Any], room: int, size: _Size) -> dict[str, Any]:
    """The message with the middle of its text left out until it fits."""
    # Below this even an empty message of these models does not fit.
    if size.is_gpt and room <= 10:
        return message
    for _ in range(10):  # source: litellm 1.106, `MAX_TOKEN_TRIMMING_ATTEMPTS`
        tokens = size.all([message])
        if tokens <= room:
            break
        text = message["content"]
        half = max(0, int(len(text) * (room / tokens)) - 1) // 2
        if not half:
            break
        message = {**dict(message), "content": f"{text[:half]}..{text[len(text) - half :]}"}
    return message


stands_in_for(__name__, "litellm.utils")

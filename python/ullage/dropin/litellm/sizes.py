"""litellm's count of chat messages: what frames them, and the text of everything in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ullage.counting import ModelTable, count_tokens_exact
from ullage.dropin.tiktoken import encoding_name_for_model
from ullage.exceptions import InvalidPolicy
from ullage.requests import estimate_text

__all__ = ["Count", "message_tokens", "model_counter", "plain", "tool_tokens"]

Count = Callable[[str], int]
"""The tokens of a text."""

_FRAME = 3
"""Tokens around a message; a name costs one more. Source: OpenAI's cookbook."""

_IMAGE, _IMAGE_DEFAULT, _IMAGE_HIGH = 85, 250, 1_445
"""Tokens: in low detail; where the default is asked for; eight tiles of 170 on top, the most that high detail costs."""


def model_counter(model: str | None, custom: Mapping[str, Any] | None = None) -> Count:
    """How a model's text is counted: by its vocabulary, else by its calibrated estimate; unknown models by cl100k_base."""
    if custom is not None and custom.get("type") == "huggingface_tokenizer":
        return partial(_by_tokenizer, custom["tokenizer"])
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


def _by_tokenizer(tokenizer: Any, text: str) -> int:
    return tokenizer.count(text) if hasattr(tokenizer, "count") else len(tokenizer.encode(text).ids)


def plain(message: Any) -> dict[str, Any]:
    """A message or litellm's object as a dict, without what is `None`."""
    held = message.model_dump() if hasattr(message, "model_dump") else message
    return {name: each for name, each in held.items() if each is not None}


def message_tokens(
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
        return sum(_block(each, count, default, fallback) for each in blocks)
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
"""What is read of each kind of block; ids and signatures are not."""
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


# ---- tool definitions --------------------------------------------------------------------------


def tool_tokens(tools: Sequence[Mapping[str, Any]], count: Count) -> int:
    """The tokens of tool definitions as OpenAI's models appear to see them."""
    lines = ["namespace functions {", ""]
    for tool in tools:
        lines += _definition(tool.get("function") or _without_shell(tool))
    return count("\n".join([*lines, "} // namespace functions"])) + 9


def _without_shell(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Anthropic's form of a definition."""
    return {**tool, "parameters": tool.get("input_schema") or tool.get("parameters")}


def _definition(function: Mapping[str, Any]) -> list[str]:
    if not (name := function.get("name")):
        return []
    said = function.get("description")
    lines = [f"// {said}"] if said else []
    parameters = function.get("parameters") or {}
    if parameters.get("properties"):
        return [*lines, f"type {name} = (_: {{", _fields(parameters, 0), "}) => any;", ""]
    return [*lines, f"type {name} = () => any;", ""]


def _fields(parameters: Mapping[str, Any], indent: int) -> str:
    required = parameters.get("required") or ()
    lines = []
    for name, each in (parameters.get("properties") or {}).items():
        if said := each.get("description"):
            lines.append(f"// {said}")
        lines.append(f"{name}{'' if name in required else '?'}: {_kind(each, indent)},")
    return "\n".join(" " * indent + line for line in lines)


def _kind(schema: Mapping[str, Any], indent: int) -> str:
    kind = schema.get("type")
    if kind in ("string", "integer", "number") and "enum" in schema:
        return " | ".join(f'"{each}"' for each in schema["enum"])
    if kind == "array":
        return f"{_kind(schema.get('items') or {}, indent)}[]"
    if kind == "object":
        return f"{{\n{_fields(schema, indent + 2)}\n}}"
    return {
        "string": "string",
        "integer": "number",
        "number": "number",
        "boolean": "boolean",
        "null": "null",
    }.get(str(kind), "any")

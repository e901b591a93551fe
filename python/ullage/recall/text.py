"""The past as text for a model: messages and results, never shortened, and the tools with which it asks for more."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from ullage._start import Frozen, NamedTuple, orjson, pattern
from ullage.facts.calls import describe, read_call
from ullage.facts.words import blocks_of, text_of
from ullage.messages import role_of

if TYPE_CHECKING:
    from ullage.providers.registry import AnyProvider

_MEDIA = ("image", "document", "image_url", "input_image", "file", "input_file")


def content_text(content: Any) -> str:
    """The text of a result's content (a string, blocks, any value), character for character; media only as placeholders."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return "" if content is None else _json(content)
    return "\n".join(_part(part) for part in content)


def _part(part: Any) -> str:
    if isinstance(part, str) or not isinstance(part, Mapping):
        return str(part)
    if isinstance(text := part.get("text"), str):
        return text
    kind = str(part.get("type"))
    return f"[{kind}]" if kind in _MEDIA else _json(part)


def _json(value: Any) -> str:
    # A message may contain a foreign object; naming its type is better than failing.
    try:
        return orjson.dumps(value, default=_named).decode()
    except TypeError:  # half a character, a number of more than 64 bits, a key that is no text
        import json  # most conversations have none of these

        return json.dumps(value, default=_named, skipkeys=True)


def _named(value: object) -> str:
    return f"<{type(value).__name__}>"


def call_title(name: Any, arguments: Any) -> str:
    """One line for a tool call: the tool and its target."""
    effects = read_call(name, arguments)
    return describe(effects[0], 120) if effects else str(name)


def render(item: Any) -> str:
    """A message with all its blocks, each with its author."""
    role = role_of(item) or "entry"
    return "\n".join(_block(role, block) for block in blocks_of(item))


def _block(role: str, block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    if kind == "tool_use":
        head = f"[{role} calls {block.get('name')} as {block.get('id')}]"
        return f"{head}\n{_json(block.get('input'))}"
    if kind == "tool_result":
        failed = ", which failed" if block.get("is_error") is True else ""
        head = f"[result of {block.get('tool_use_id')}{failed}]"
        return f"{head}\n{content_text(block.get('content'))}"
    if kind == "thinking":
        return f"[{role} thinks]\n{block.get('thinking')}"
    return f"[{role}]\n{_part(block)}"


# Text of a session for a screen, with escapes for what would control it or reverse the direction of text.


HIDDEN = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""DEL, the C1 controls, line separators, and characters that set the direction of text."""

_UNSAFE = pattern(f"[\x00-\x08\x0b-\x1f{HIDDEN}\ud800-\udfff]")


def visible(text: str) -> str:
    r"""The text with control characters, except line ends and tabs, and lone surrogates as escapes such as `\x1b`."""
    return _UNSAFE.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(char: re.Match[str]) -> str:
    code = ord(char[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


# Messages of the history under a name of their own.


# The model reads a list of titles: a longer one costs tokens for each removed part.
TITLE_CHARS: Final = 100


def title_of(item: Any) -> str:
    """The first words of a message, in one line; empty if it has no text."""
    return " ".join(text_of(item)[: 4 * TITLE_CHARS].split())[:TITLE_CHARS]


class NamedSpan(NamedTuple):
    """Messages [first, last] of the history under one name, such as a snipped turn or a collapse.

    Attributes:
        first: Position in the history.
        last: Position of the last message, inclusive.
        title: Its description, one line.
    """

    first: int
    last: int
    title: str = ""


# Tools that the library offers to a model: one definition for every provider, and calls that never raise.


RECALL_NAME: Final = "recall"
"""The tool that returns removed content, as the model calls it."""


class Tool(Frozen):
    """A tool's name, its description, and the JSON Schema of its input."""

    name: str
    description: str = field(repr=False)
    schema: Mapping[str, Any] = field(repr=False)

    def definition(self, provider: AnyProvider = "anthropic") -> dict[str, Any]:
        """The definition in a provider's format, for a request's tools.

        Args:
            provider: One of `ullage.providers.SHAPES`, a usual name for it, or a row.

        Raises:
            InvalidPolicy: An unknown provider.
        """
        from ullage.providers.registry import provider_of

        own = {"name": self.name, "description": self.description, "input_schema": {**self.schema}}
        return provider_of(provider, writable=True).definition(own)


class ToolAnswer(Frozen):
    """The result of one of the library's tools.

    Attributes:
        text: The text for the model.
        is_error: The call was invalid; the text says what is possible.
    """

    text: str
    is_error: bool = False

    def block(self, tool_use_id: str) -> dict[str, Any]:
        """The result as a `tool_result` block in Anthropic's format."""
        block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": self.text}
        return {**block, "is_error": True} if self.is_error else block

    def __repr__(self) -> str:
        return f"ToolAnswer({len(self.text)} characters{', error' if self.is_error else ''})"

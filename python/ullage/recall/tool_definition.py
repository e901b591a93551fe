"""Tools that the library offers to a model: one definition for every provider, and calls that never raise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ullage.exceptions import InvalidPolicy

__all__ = ["Style", "Tool", "ToolAnswer"]

Style: TypeAlias = Literal["anthropic", "openai_chat", "openai_responses"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool's name, its description, and the JSON Schema of its input."""

    name: str
    description: str = field(repr=False)
    schema: Mapping[str, Any] = field(repr=False)

    def definition(self, style: Style = "anthropic") -> dict[str, Any]:
        """The definition in a provider's format, for a request's `tools`.

        Args:
            style: `anthropic` (also Bedrock's invoke form), `openai_chat` (also compatible servers) or `openai_responses`.

        Raises:
            InvalidPolicy: Another style.
        """
        schema = dict(self.schema)
        if style == "anthropic":
            return {
                "name": self.name,
                "description": self.description,
                "input_schema": schema,
            }
        function = {"name": self.name, "description": self.description, "parameters": schema}
        if style == "openai_chat":
            return {"type": "function", "function": function}
        if style == "openai_responses":
            return {"type": "function", **function}
        raise InvalidPolicy("style", style, "must be anthropic, openai_chat or openai_responses")


@dataclass(frozen=True, slots=True)
class ToolAnswer:
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

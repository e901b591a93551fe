"""Tools that the library offers to a model: one definition for every provider, and calls that never raise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.providers.registry import AnyProvider, provider_of

RECALL_NAME: Final = "recall"
"""The tool that returns removed content, as the model calls it."""


@dataclass(frozen=True, slots=True)
class Tool:
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
        own = {"name": self.name, "description": self.description, "input_schema": {**self.schema}}
        return provider_of(provider, writable=True).definition(own)


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

"""How tool calls look in a provider's blocks, for the repair of pairs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

from ullage.legality.repair.texts import INTERRUPTED
from ullage.legality.repair.working_copy import kind_of, text_block

__all__ = ["ANTHROPIC", "BEDROCK", "NO_ID", "RepairForm"]

NO_ID: Any = object()
"""No call, or no result."""


class RepairForm(Protocol):
    """Reads and writes calls and results."""

    def rule(self, name: str) -> str:
        """Under which rule one of Anthropic's is filed."""

    def call(self, block: Any) -> Any:
        """The id of a call, `NO_ID` if the block is none."""

    def result(self, block: Any) -> Any:
        """The id that a result names, `NO_ID` if the block is none."""

    def with_call(self, block: Any, name: str) -> Any:
        """The call under another id."""

    def with_result(self, block: Any, name: str) -> Any:
        """The result naming another id."""

    def interrupted(self, name: str) -> Any:
        """An error result for a call that has none."""

    def text(self, text: str) -> Any:
        """A text block."""

    def content(self, block: Any) -> Any:
        """What a result holds, as a string or text blocks."""

    def valid(self, name: Any) -> bool:
        """Whether an id is one that the provider takes."""


class _Anthropic:
    _id = re.compile(r"[A-Za-z0-9_-]+\Z")

    def rule(self, name: str) -> str:
        return name

    def call(self, block: Any) -> Any:
        return block.get("id") if kind_of(block) == "tool_use" else NO_ID

    def result(self, block: Any) -> Any:
        return block.get("tool_use_id") if kind_of(block) == "tool_result" else NO_ID

    def with_call(self, block: Any, name: str) -> Any:
        return {**block, "id": name}

    def with_result(self, block: Any, name: str) -> Any:
        return {**block, "tool_use_id": name}

    def interrupted(self, name: str) -> Any:
        return {
            "type": "tool_result",
            "tool_use_id": name,
            "is_error": True,
            "content": INTERRUPTED,
        }

    def text(self, text: str) -> Any:
        return text_block(text)

    def content(self, block: Any) -> Any:
        return block.get("content")

    def valid(self, name: Any) -> bool:
        return isinstance(name, str) and self._id.match(name) is not None


class _Bedrock:
    _id = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")

    def rule(self, name: str) -> str:
        return "B04"

    @staticmethod
    def _of(block: Any, kind: str) -> Mapping[str, Any] | None:
        found = block.get(kind) if isinstance(block, Mapping) else None
        return found if isinstance(found, Mapping) else None

    def call(self, block: Any) -> Any:
        found = self._of(block, "toolUse")
        return NO_ID if found is None else found.get("toolUseId")

    def result(self, block: Any) -> Any:
        found = self._of(block, "toolResult")
        return NO_ID if found is None else found.get("toolUseId")

    def with_call(self, block: Any, name: str) -> Any:
        return {**block, "toolUse": {**block["toolUse"], "toolUseId": name}}

    def with_result(self, block: Any, name: str) -> Any:
        return {**block, "toolResult": {**block["toolResult"], "toolUseId": name}}

    def interrupted(self, name: str) -> Any:
        content = [{"text": INTERRUPTED}]
        return {"toolResult": {"toolUseId": name, "status": "error", "content": content}}

    def text(self, text: str) -> Any:
        return {"text": text}

    def content(self, block: Any) -> Any:
        parts = block["toolResult"].get("content")
        listed = parts if isinstance(parts, list | tuple) else ()
        return [text_block(p["text"]) for p in listed if isinstance(p, Mapping) and "text" in p]

    def valid(self, name: Any) -> bool:
        return isinstance(name, str) and self._id.match(name) is not None


ANTHROPIC: RepairForm = _Anthropic()
BEDROCK: RepairForm = _Bedrock()

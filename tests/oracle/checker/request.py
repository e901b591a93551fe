"""A request to Anthropic's Messages API, taken apart for the checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from tests.oracle.checker.models import ModelFacts

__all__ = ["Place", "Request", "Turn", "blocks_of", "is_blank", "kind_of"]


class Place(NamedTuple):
    """A block and where it stands."""

    message: int
    block: int
    value: Any

    @property
    def at(self) -> tuple[int, int]:
        """Both positions."""
        return self.message, self.block

    @property
    def path(self) -> str:
        """How the API's errors name the place."""
        return f"messages.{self.message}.content.{self.block}"


@dataclass(slots=True)
class Turn:
    """Neighbouring messages of one role: the API takes them as one."""

    role: str
    first: int
    last: int
    places: list[Place] = field(default_factory=list)

    def of(self, *kinds: str) -> list[Place]:
        """Its blocks of these types."""
        return [place for place in self.places if kind_of(place.value) in kinds]


def kind_of(block: Any) -> str:
    """A block's type; empty for what is no block."""
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


def is_blank(text: Any) -> bool:
    """Whether a text is empty or white space only."""
    return isinstance(text, str) and not text.strip()


def blocks_of(content: Any) -> list[Any]:
    """The blocks of a content; a string is one text block, an empty one is none."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


@dataclass(frozen=True)
class Request:
    """The body, what the headers say, and the model's facts."""

    body: dict[str, Any]
    facts: ModelFacts
    version: int = 2026_10_21
    betas: frozenset[str] = frozenset()
    resume: str = ""
    sealed: bool = False  # signatures must be the generator's or the server's own

    @cached_property
    def messages(self) -> list[Any]:
        """The messages; none if there is no list of them."""
        found = self.body.get("messages")
        return found if isinstance(found, list) else []

    @cached_property
    def tools(self) -> list[Any]:
        """The tool definitions that can be read."""
        found = self.body.get("tools")
        return [tool for tool in found if isinstance(tool, dict)] if isinstance(found, list) else []

    def beta(self, prefix: str) -> bool:
        """Whether a beta of that name, of whatever date, is in the headers."""
        return any(name.startswith(prefix) for name in self.betas)

    def role(self, index: int) -> str:
        """Role of a message; empty if it has none."""
        message = self.messages[index]
        role = message.get("role") if isinstance(message, dict) else None
        return role if isinstance(role, str) else ""

    def content(self, index: int) -> Any:
        """Content of a message; None if it has none."""
        message = self.messages[index]
        return message.get("content") if isinstance(message, dict) else None

    def places(self) -> Iterator[Place]:
        """All blocks in order."""
        for index in range(len(self.messages)):
            for at, block in enumerate(blocks_of(self.content(index))):
                yield Place(index, at, block)

    def nested(self, place: Place) -> list[Any]:
        """The blocks inside a block, such as those of a tool result."""
        inner = place.value.get("content") if isinstance(place.value, dict) else None
        return inner if isinstance(inner, list) else []

    @cached_property
    def turns(self) -> list[Turn]:
        """Turns in order; a system message that only sets the effort is none."""
        out: list[Turn] = []
        for index, message in enumerate(self.messages):
            if effort_only(message):
                continue
            if not out or out[-1].role != self.role(index):
                out.append(Turn(self.role(index), index, index))
            out[-1].last = index
            blocks = blocks_of(self.content(index))
            out[-1].places += [Place(index, at, block) for at, block in enumerate(blocks)]
        return out


def effort_only(message: Any) -> bool:
    """Whether it is a system message without content that sets `output_config`."""
    return (
        isinstance(message, dict)
        and message.get("role") == "system"
        and not message.get("content")
        and isinstance(message.get("output_config"), dict)
    )

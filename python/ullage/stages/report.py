"""What a level decided, and what it says of it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Decision", "StageReport"]


@dataclass(frozen=True, slots=True)
class Decision:
    """One tool result is replaced by a text, for ever.

    Attributes:
        tool_use_id: Whose result.
        stage: Which level decided.
        text: What stands in its place.
    """

    tool_use_id: str
    stage: str
    text: str

    def __repr__(self) -> str:
        return f"Decision({self.stage}, {self.tool_use_id}, {len(self.text)} characters)"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """What one level did.

    Attributes:
        stage: Its name.
        why: What set it off, in words.
        tokens_before: Estimate of all messages before it.
        tokens_after: And after.
        tool_use_ids: Whose results it replaced, in order.
        tools: Names of their tools, each once.
        paths: Files that these results showed; a host's "unchanged since last read" must not point at them any more.
        first_changed: First message that is not what was sent before: the cached prefix ends there. `None`: only messages that
            were never sent.
        removed_messages: How many messages went altogether.
        failures: What could not be done as planned, in words.
    """

    stage: str
    why: str
    tokens_before: int
    tokens_after: int
    tool_use_ids: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    first_changed: int | None = None
    removed_messages: int = 0
    failures: tuple[str, ...] = ()

    @property
    def freed(self) -> int:
        """Tokens by estimate."""
        return self.tokens_before - self.tokens_after

    def __repr__(self) -> str:
        return f"StageReport({self.stage}: {len(self.tool_use_ids)} results, frees≈{self.freed:_} tokens, {self.why})"

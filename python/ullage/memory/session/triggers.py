"""Decides when the notes are updated (SM-2), from the growth of the conversation, without side effects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ullage.facts.reading import blocks_of
from ullage.messages import role_of
from ullage.policy import SessionMemoryPolicy

__all__ = ["Due", "Progress", "update_due"]

MOST_DOUBLINGS = 5
"""After failures the required growth doubles, up to 32 times: there is always a next try."""

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")


@dataclass(frozen=True, slots=True)
class Progress:
    """What has happened since the last update began.

    Attributes:
        begun: There has been an update.
        tokens: Size of the conversation at the last update, or after the newest compaction.
        tool_calls: Calls since.
        last_called: The newest response called a tool.
        failures: Updates in a row that failed.
    """

    begun: bool = False
    tokens: int = 0
    tool_calls: int = 0
    last_called: bool = False
    failures: int = 0

    def answered(self, response: Mapping[str, Any]) -> Progress:
        """After a response of the model; other messages change nothing."""
        if role_of(response) != "assistant":
            return self
        calls = sum(block.get("type") in _CALLS for block in blocks_of(response))
        return replace(self, tool_calls=self.tool_calls + calls, last_called=calls > 0)

    def updating(self, tokens: int) -> Progress:
        """After an update has begun at this size."""
        return replace(self, begun=True, tokens=tokens, tool_calls=0)

    def resized(self, tokens: int) -> Progress:
        """After a compaction: growth is counted from the new size."""
        return replace(self, tokens=tokens)

    def ended(self, *, well: bool) -> Progress:
        """After an update."""
        return replace(self, failures=0 if well else self.failures + 1)


class Due(NamedTuple):
    """Whether an update is due, and why or why not."""

    update: bool
    why: str


def update_due(
    policy: SessionMemoryPolicy, progress: Progress, tokens: int, *, source: str = "main"
) -> Due:
    """Whether the notes should be updated now.

    Args:
        policy: The thresholds.
        progress: What has happened since the last update.
        tokens: Size of the conversation now.
        source: The part of the host that asked for the response; only `main` counts.
    """
    if source != "main":
        return Due(False, f"source {source}")
    if not progress.begun:
        if tokens < policy.start_tokens:
            return Due(False, f"{tokens:,} of {policy.start_tokens:,} tokens")
        return Due(True, "first")
    wanted = policy.growth_tokens << min(progress.failures, MOST_DOUBLINGS)
    grown = tokens - progress.tokens
    if grown < wanted:
        return Due(False, f"grown by {grown:,} of {wanted:,} tokens")
    if progress.tool_calls >= policy.tool_calls:
        return Due(True, f"grown by {grown:,} tokens, {progress.tool_calls} calls")
    if not progress.last_called:
        return Due(True, f"grown by {grown:,} tokens, the turn has ended")
    return Due(False, f"{progress.tool_calls} of {policy.tool_calls} calls")

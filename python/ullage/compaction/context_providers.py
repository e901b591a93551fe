"""What a host registers so that context can be restored after a compaction; `put_back` asks it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Attachment", "Providers", "Skill"]

Attachment: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that was invoked: its instructions, so that it need not be invoked again."""

    name: str
    content: str
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """The providers of the state to restore; each may be absent, and may return nothing.

    Attributes:
        read_file: The text of a file now, or `None`; `None` here: no files are restored.
        skip_file: Whether a path is a plan or memory file, which has a provider of its own.
        plan: `(path, text)` of the plan file.
        skills: Invoked skills, newest first.
        plan_mode: Whether plan mode is on.
        tasks: State of background tasks, as attachments.
        tools: Changes in deferred tools, announced in full, as attachments.
        agents: The agent listing, as attachments.
        mcp: MCP instructions, as attachments.
        clean_up: Called after a compaction was installed: empties the read-file cache and the like.
    """

    read_file: Callable[[str], str | None] | None = None
    skip_file: Callable[[str], bool] | None = None
    plan: Callable[[], tuple[str, str] | None] | None = None
    skills: Callable[[], Sequence[Skill]] | None = None
    plan_mode: Callable[[], bool] | None = None
    tasks: Callable[[], Sequence[Attachment]] | None = None
    tools: Callable[[], Sequence[Attachment]] | None = None
    agents: Callable[[], Sequence[Attachment]] | None = None
    mcp: Callable[[], Sequence[Attachment]] | None = None
    clean_up: tuple[Callable[[], object], ...] = ()

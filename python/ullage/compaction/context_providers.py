"""What a host registers so that context can be restored after a compaction; `restore` asks it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Required, TypeAlias, TypedDict

Attachment: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that was invoked: its instructions, so that it need not be invoked again."""

    name: str
    content: str
    path: str = ""


class TaskAttachment(TypedDict, total=False):
    """A background task: what it is, how far it is. Of several states of one task the last is shown."""

    type: Required[Literal["task_status"]]
    taskId: Required[str | int]
    status: Required[str]  # such as `running`, `completed`
    description: str
    deltaSummary: str  # what is new since the model heard of it
    outputFilePath: str  # where its output can be read


class ToolsAttachment(TypedDict, total=False):
    """Tools that the model may load by name."""

    type: Required[Literal["deferred_tools_delta"]]
    addedNames: Required[list[str]]
    addedLines: list[str]  # a line for each of them, as it is shown; absent: the names
    removedNames: list[str]


class AgentsAttachment(TypedDict, total=False):
    """Agents that the model may start."""

    type: Required[Literal["agent_listing_delta"]]
    addedTypes: Required[list[str]]
    addedLines: list[str]  # a line for each of them, as it is shown; absent: the types
    removedTypes: list[str]


class McpAttachment(TypedDict, total=False):
    """Instructions of MCP servers."""

    type: Required[Literal["mcp_instructions_delta"]]
    addedNames: Required[list[str]]
    addedBlocks: Required[list[str]]  # a text for each of them
    removedNames: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """The providers of the state to restore; each may be absent, and may return nothing.

    Attributes:
        read_file: The text of a file now, or `None`; `None` here: no files are restored.
        skip_file: Whether a path is a plan or memory file, which has a provider of its own.
        plan: `(path, text)` of the plan file.
        skills: Invoked skills, newest first.
        plan_mode: Whether plan mode is on.
        tasks: State of background tasks, each a `TaskAttachment`.
        tools: Tools that can be loaded, all of them, in one or more `ToolsAttachment`.
        agents: The agents, in one or more `AgentsAttachment`.
        mcp: Instructions of MCP servers, in one or more `McpAttachment`.
        clean_up: Called after a compaction was installed: empties the read-file cache and the like.

    Example:
        >>> Providers(plan=lambda: ("plan.md", "1. Fix the parser"), skills=lambda: [Skill("commit", "Write short messages.")]).plan_mode
    """

    read_file: Callable[[str], str | None] | None = None
    skip_file: Callable[[str], bool] | None = None
    plan: Callable[[], tuple[str, str] | None] | None = None
    skills: Callable[[], Sequence[Skill]] | None = None
    plan_mode: Callable[[], bool] | None = None
    tasks: Callable[[], Sequence[Mapping[str, Any]]] | None = None
    tools: Callable[[], Sequence[Mapping[str, Any]]] | None = None
    agents: Callable[[], Sequence[Mapping[str, Any]]] | None = None
    mcp: Callable[[], Sequence[Mapping[str, Any]]] | None = None
    clean_up: tuple[Callable[[], object], ...] = ()

"""What belongs to the outside of a conversation: summarizers, stores, hooks, listeners; what a host's prompt and tools come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ullage._engine import core
from ullage._late import orjson
from ullage.compaction.context_providers import Providers
from ullage.counting.estimate import Weights, weights_for
from ullage.counting.models import Model
from ullage.manager.background_flow import BackgroundFlow
from ullage.providers.sdk_objects import as_json

if TYPE_CHECKING:
    from ullage.compaction.prefetch import Ahead
    from ullage.levels.level import Writer
    from ullage.observe.events import Listener
    from ullage.recall.store import OffloadStore

__all__ = ["Host", "names_of", "overhead_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What is used from outside and is not saved: summarizer, stores, hooks, listeners.

    Attributes:
        summarizer: For compactions; `None`: extractive.
        line_summarizer: With a small model, for lines that replace single tool results; `None`: written by code.
        fallback: Writes the summary if that fails; `None`: the extractive one, for automatic compactions.
        offload: For large tool results; `None`: they stay, and are snipped.
        memory: Notes of the session, tried before a summary is written (AUTO-2); see `ullage.manager`. `None`: none.
        hooks: Hooks of compactions.
        providers: Sources of context restored after a compaction, and the file reader.
        options: Further fields of `compaction.job.Job`.
        listeners: Called with every event.
        ahead: Writes summaries in advance; `None`: none are.
        beside: Has summaries of spans written that a context collapse will need.
        logged: The conversation is in a log that holds what the history holds.
    """

    summarizer: Writer | None = None
    line_summarizer: Writer | None = None
    fallback: Writer | None = None
    offload: OffloadStore | None = None
    memory: Any = None
    hooks: Any = None
    providers: Providers = field(default_factory=Providers)
    options: dict[str, Any] = field(default_factory=dict)
    listeners: tuple[Listener, ...] = ()
    ahead: Ahead | None = None
    beside: BackgroundFlow = field(default_factory=BackgroundFlow)
    logged: bool = False

    @property
    def store(self) -> Any:
        """Where else a compaction is installed: nowhere, since its lines are written when the call ends."""
        return None


def overhead_of(system: Any, tools: Sequence[Any], model: Model) -> dict[str, int]:
    """Estimated tokens of a system prompt and of tool definitions, which may be objects of an SDK."""
    weights, given = weights_for(model), as_json(list(tools))
    return {"system": _count(system, weights), "tools": _count(given or None, weights)}


def names_of(tools: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Names of tool definitions: as they are read, or in OpenAI's form."""
    functions = (tool.get("function") for tool in tools)
    inner = (each.get("name") for each in functions if isinstance(each, Mapping))
    return frozenset(filter(None, [*(tool.get("name") for tool in tools), *inner]))


def _count(value: Any, weights: Weights) -> int:
    if not value:
        return 0
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return int(core.estimate_text(text, weights))

"""What a manager is given: the arguments of its constructor, each named once; `known.py` has their defaults, and refuses what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

from ullage.compaction.job import KeptNotes, SummaryOptions
from ullage.counting.models import ModelTable
from ullage.counting.window import WindowSettings
from ullage.levels.level import Level
from ullage.messages import SystemPrompt, Tools
from ullage.providers.registry import AnyProvider
from ullage.recall.store import OffloadStore
from ullage.summarizers.protocol import WriterLike

if TYPE_CHECKING:
    from ullage.transcript.log import TranscriptLog

Log: TypeAlias = "str | PathLike[str] | TranscriptLog"
"""A log's file, or the open log of it."""


class ManagerOptions(SummaryOptions, total=False):
    """Arguments of `ContextManager`, by name, next to its model, policy and log; what is left out has the default that is named.

    `listeners` are called with the events of `memory` too; `thinking` is in the provider's form, and saved.

    Attributes:
        provider: The format of added messages and of requests: `anthropic`, `openai_chat`, `openai_responses`, `gemini`,
            `bedrock` or `mistral`. The history is kept in the internal view. `None`: the one that the tools or the first messages
            show; until one shows it, the one in which this model is most often asked. Messages in another form are refused.
        system: The system prompt, to be counted; never changed.
        tools: Tool definitions, to be counted and sent: in the provider's form or in Anthropic's, its SDK's objects too; never changed.
        line_summarizer: With a small model, for the lines that replace single tool results; `None`: written by code.
        store: For large tool results; `None`: they stay, and are snipped.
        settings: Settings of the window; `None`: those of the environment.
        source: The part of the host that uses it: `main`, or `subagent`, `compact`, `session_memory`, `collapse`.
        memory: Notes of the session (`SessionMemory`): kept up to date by `observe`, tried before a summary is written.
            `None`: there are none.
        record: Write a record of each request into the log, from which `ullage-check` rebuilds it; without a log, nothing.
        clock: Returns the time in milliseconds since the epoch, for levels that depend on it; messages are stamped with it
            when they are added. `None`: the system's clock. If it returns `None`, nothing happens by time.
        transcript_path: Passed to the model and to hooks, and searched by recall; empty: the log's, if there is one.
        context_management: Anthropic's parameter of that name, as a form of policy: passed on if the provider supports it, else done
            here and reported in `Request.applied_edits`. `None`: none.
        context_window: The model's window in tokens, overriding the table; `None`: the table's.
        max_output_tokens: The model's longest response in tokens, likewise.
        cache: Request bodies carry cache marks (`cache_control`, `cachePoint`, OpenAI's `prompt_cache_key`), so that each is read
            from the provider's cache as far as the last one was the same. Marks of the host stay. False: there are none but those.
        levels: Every level, in order: `ullage.levels.ORDER` with your own levels inserted; see `ullage.levels.level`.
    """

    provider: AnyProvider | None
    system: SystemPrompt | None
    tools: Tools
    line_summarizer: WriterLike | None
    store: OffloadStore | None
    settings: WindowSettings | None
    source: str
    memory: KeptNotes | None
    levels: Sequence[Level]
    context_management: Mapping[str, Any] | None
    context_window: int | None
    max_output_tokens: int | None
    clock: Callable[[], int | None] | None
    transcript_path: str
    record: bool
    cache: bool


class Outside(ManagerOptions, total=False):
    """The same with the model, for a manager that is made of a saved state.

    That holds model, provider, source, stated windows and thinking: given here, they take the place of the saved ones.
    """

    model: str
    table: ModelTable | None

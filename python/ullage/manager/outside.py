"""What a manager is given and does not save: the arguments of its constructor, for those who make one from a saved state."""

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


class Surroundings(SummaryOptions, total=False):
    """All arguments of `ContextManager` but `model`, `table`, `policy` and `log`, by name; what each means is said there."""

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


class Outside(Surroundings, total=False):
    """The same with the model.

    A saved state holds model, provider, source, stated windows and thinking: given here, they take the place of the saved ones.
    """

    model: str
    table: ModelTable | None

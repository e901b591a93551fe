"""Full compaction: the older part of a conversation becomes a summary, the newest part stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.compaction.api import acompact as acompact, compact as compact
    from ullage.compaction.effects_runner import (
        AgentsAttachment,
        McpAttachment,
        Providers as Providers,
        Skill as Skill,
        TaskAttachment,
        ToolsAttachment,
    )
    from ullage.compaction.flow import compaction_flow as compaction_flow
    from ullage.compaction.job import (
        CompactionOptions as CompactionOptions,
        CompactionReport as CompactionReport,
        CompactionResult as CompactionResult,
        Job as Job,
        ListOptions as ListOptions,
        Outcome as Outcome,
        SummaryOptions as SummaryOptions,
    )

__all__ = ["AgentsAttachment", "McpAttachment", "TaskAttachment", "ToolsAttachment"]

_HOMES = {
    "api": "acompact compact",
    "effects_runner": "AgentsAttachment McpAttachment Providers Skill TaskAttachment ToolsAttachment",
    "flow": "compaction_flow",
    "job": "CompactionOptions CompactionReport CompactionResult Job ListOptions Outcome SummaryOptions",
}
if not TYPE_CHECKING:  # a misspelt name is an error of the type checker
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)

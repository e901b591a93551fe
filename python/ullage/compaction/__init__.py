"""Full compaction: the older part of a conversation becomes a summary, the newest part stays as it is."""

from __future__ import annotations

from ullage.compaction.api import acompact, compact
from ullage.compaction.compaction_result import CompactionReport, CompactionResult, Outcome
from ullage.compaction.flow import compaction_flow
from ullage.compaction.job import Job
from ullage.compaction.put_back import Providers, Skill

__all__ = [
    "CompactionReport",
    "CompactionResult",
    "Job",
    "Outcome",
    "Providers",
    "Skill",
    "acompact",
    "compact",
    "compaction_flow",
]

"""All that makes room in a request, one level a file: a `Context` in, changes of its view and a report out.

A level of your own is a `Level`; `ContextManager(levels=...)` takes it at its place in `ORDER`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.levels.breakdown import Inspection as Inspection, inspect_messages
    from ullage.levels.context_edits import apply_context_management
    from ullage.levels.level import Context, Level, LevelState as LevelState
    from ullage.levels.offers import COMPACT_TOOL, CONTEXT_TOOL
    from ullage.levels.pipeline import ORDER as ORDER
    from ullage.levels.turn_snip import SNIP_TOOL
    from ullage.levels.view import (
        Decision as Decision,
        Made as Made,
        Result as Result,
        Span as Span,
        StageReport as StageReport,
        View as View,
    )

__all__ = [
    "COMPACT_TOOL",
    "CONTEXT_TOOL",
    "SNIP_TOOL",
    "Context",
    "Level",
    "apply_context_management",
    "inspect_messages",
]

_HOMES = {
    "breakdown": "Inspection inspect_messages",
    "context_edits": "apply_context_management",
    "level": "Context Level LevelState",
    "offers": "COMPACT_TOOL CONTEXT_TOOL",
    "pipeline": "ORDER",
    "turn_snip": "SNIP_TOOL",
    "view": "Decision Made Result Span StageReport View",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)

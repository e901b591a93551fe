"""The levels before the summary, one file each: a view and a policy in, decisions and a report out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._lazy import on_first_use

if TYPE_CHECKING:
    from ullage.levels.breakdown import Inspection, inspect_messages
    from ullage.levels.context_edits import apply_context_management
    from ullage.levels.report import Decision, Made, Span, StageReport
    from ullage.levels.view import Result, View

__all__ = [
    "Decision",
    "Inspection",
    "Made",
    "Result",
    "Span",
    "StageReport",
    "View",
    "apply_context_management",
    "inspect_messages",
]

_HOMES = {
    "breakdown": (
        "Inspection",
        "inspect_messages",
    ),
    "context_edits": ("apply_context_management",),
    "report": (
        "Decision",
        "Made",
        "Span",
        "StageReport",
    ),
    "view": (
        "Result",
        "View",
    ),
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)

"""The levels before the summary, one file each: a view and a policy in, decisions and a report out."""

from __future__ import annotations

from ullage.levels.report import Decision, Made, Span, StageReport
from ullage.levels.view import Result, View

__all__ = ["Decision", "Made", "Result", "Span", "StageReport", "View"]

"""Context collapse: spans of old rounds are replaced by one placeholder each, and can be restored (COL-1 to COL-6).

spans      which could go, and what each is worth
summary    what stands in their place
state      what is remembered, saved and written to the transcript
level      when what happens
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._lazy import on_first_use
from ullage.levels.collapse.stage_and_commit import (
    LEVEL,
    QUIET_SOURCES,
    STAGE,
    expand,
    percent,
    stage,
    stage_now,
)
from ullage.levels.collapse.state import Collapse, Committed, Staged

if TYPE_CHECKING:
    from ullage.levels.collapse.spans import Candidate, candidates
    from ullage.levels.collapse.summary import asks_outside

__all__ = [
    "LEVEL",
    "QUIET_SOURCES",
    "STAGE",
    "Candidate",
    "Collapse",
    "Committed",
    "Staged",
    "asks_outside",
    "candidates",
    "expand",
    "percent",
    "stage",
    "stage_now",
]

_HOMES = {"spans": ("Candidate", "candidates"), "summary": ("asks_outside",)}
if not TYPE_CHECKING:  # a misspelt name is an error of the type checker
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)

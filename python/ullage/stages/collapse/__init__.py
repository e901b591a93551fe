"""Context collapse: spans of old rounds are put away behind one placeholder each, and can be put back (COL-1 to COL-6).

spans      which could go, and what each is worth
summary    what stands in their place
state      what is remembered, saved and written to the transcript
level      when what happens
"""

from __future__ import annotations

from ullage.stages.collapse.level import STAGE, Room, apply, drain, expand, reset, stage
from ullage.stages.collapse.spans import Candidate, candidates
from ullage.stages.collapse.state import Collapse, Committed, Staged

__all__ = [
    "STAGE",
    "Candidate",
    "Collapse",
    "Committed",
    "Room",
    "Staged",
    "apply",
    "candidates",
    "drain",
    "expand",
    "reset",
    "stage",
]

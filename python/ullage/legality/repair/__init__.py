"""Makes an illegal request legal, and leaves a legal one alone."""

from __future__ import annotations

from ullage.legality.repair.entry import repair
from ullage.legality.repair.incremental import Repairer
from ullage.legality.repair.result import Repair, Repaired
from ullage.legality.repair.thinking import turn_end, unbound

__all__ = ["Repair", "Repaired", "Repairer", "repair", "turn_end", "unbound"]

"""Makes an illegal request legal, and leaves a legal one alone."""

from __future__ import annotations

from ullage.legality.repairs.entry import repair
from ullage.legality.repairs.incremental import Repairer
from ullage.legality.repairs.result import Repair, Repaired
from ullage.legality.repairs.thinking import turn_end, unbound

__all__ = ["Repair", "Repaired", "Repairer", "repair", "turn_end", "unbound"]

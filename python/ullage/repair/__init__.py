"""Makes an illegal request legal, and leaves a legal one alone."""

from __future__ import annotations

from ullage.repair.call import repair
from ullage.repair.growing import Repairer
from ullage.repair.result import Repair, Repaired
from ullage.repair.thinking import turn_end, unbound

__all__ = ["Repair", "Repaired", "Repairer", "repair", "turn_end", "unbound"]

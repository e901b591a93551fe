"""Makes an illegal request legal, and leaves a legal one alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._lazy import on_first_use

if TYPE_CHECKING:
    from ullage.legality.repairs.entry import repair
    from ullage.legality.repairs.incremental import Repairer
    from ullage.legality.repairs.result import Repair, Repaired
    from ullage.legality.repairs.thinking import turn_end, unbound

__all__ = ["Repair", "Repaired", "Repairer", "repair", "turn_end", "unbound"]

_HOMES = {
    "entry": ("repair",),
    "incremental": ("Repairer",),
    "result": ("Repair", "Repaired"),
    "thinking": ("turn_end", "unbound"),
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)

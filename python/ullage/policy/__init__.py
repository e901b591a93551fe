"""Every number that decides what is compacted, when and how far: frozen, validated, printable.

A `Policy` is made of small groups, one per level. Two presets: `Policy.buffered()` uses fixed buffers below the window,
`Policy.ladder()` shares of the window. `Policy.load()` applies a TOML file and keyword overrides to a preset.
"""

from __future__ import annotations

from ullage.policy.fields import EffectiveValue
from ullage.policy.whole import (
    AutocompactPolicy,
    CollapsePolicy,
    CostPolicy,
    KeepPolicy,
    MicrocompactPolicy,
    OfferPolicy,
    Policy,
    ProtectPolicy,
    RestorePolicy,
    SessionMemoryPolicy,
    SnipPolicy,
    SummaryPolicy,
    ToolBudgetPolicy,
    TruncatePolicy,
)

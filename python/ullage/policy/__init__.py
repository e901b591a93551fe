"""Every number that decides what is compacted, when and how far: frozen, validated, printable.

A `Policy` is made of small groups, one per level. Two presets: `Policy.buffered()` uses fixed buffers below the window,
`Policy.ladder()` shares of the window. `Policy.load()` applies a TOML file and keyword overrides to a preset.
"""

from __future__ import annotations

from ullage.policy.whole import (
    AutocompactPolicy as AutocompactPolicy,
    CollapsePolicy as CollapsePolicy,
    CostPolicy as CostPolicy,
    EffectiveValue as EffectiveValue,
    KeepPolicy as KeepPolicy,
    MicrocompactPolicy as MicrocompactPolicy,
    OfferPolicy as OfferPolicy,
    Policy as Policy,
    ProtectPolicy as ProtectPolicy,
    RestorePolicy as RestorePolicy,
    SessionMemoryPolicy as SessionMemoryPolicy,
    SnipPolicy as SnipPolicy,
    SummaryPolicy as SummaryPolicy,
    ToolBudgetPolicy as ToolBudgetPolicy,
    TruncatePolicy as TruncatePolicy,
)

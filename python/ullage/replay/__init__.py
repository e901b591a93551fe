"""Replays a real session turn by turn through every level, as if it were live, with its cost.

`script_of` extracts what was said in a session, compacted or not; `replay_session` feeds it to a context manager
and records every request; `costs_by_size` says what it costs at several working sizes, and what it loses. Nothing is written and no model is asked.
"""

from __future__ import annotations

from ullage.replay.play import (
    DEFAULT_MODEL as DEFAULT_MODEL,
    WORKING_SIZES as WORKING_SIZES,
    ReplayedTurn as ReplayedTurn,
    Run as Run,
    SessionScript as SessionScript,
    SizeCost as SizeCost,
    costs_by_size,
    frontier_plot as frontier_plot,
    replay_session,
    script_of,
    sum_of_costs as sum_of_costs,
)

__all__ = ["costs_by_size", "replay_session", "script_of"]

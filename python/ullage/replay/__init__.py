"""A real session turn by turn through every level, as if live, and what that would have cost.

`script_of` takes a session apart into what was said, compacted or not; `replay_session` plays it to a context manager
and notes every request; `Run.compare` sets runs side by side. Nothing is written and no model is asked.
"""

from __future__ import annotations

from ullage.replay.play import DEFAULT_MODEL, Run, Turn, replay_session
from ullage.replay.script import Script, script_of

__all__ = ["DEFAULT_MODEL", "Run", "Script", "Turn", "replay_session", "script_of"]

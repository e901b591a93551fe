"""The test kit: conversations, scripted summarizers and servers that enforce rules.

- `conversation`, `scenario`: seeded coding sessions, with the truth about them;
- `session_file`: the same as a transcript of Claude Code's form;
- `assert_legal`: would the provider take this request?
- `ScriptedSummarizer`, `ScriptedServer`: good answers and every misbehaviour, from a script;
- `ullage.testing.stores`, `ullage.testing.laws`: what a store for conversations must do, and any compactor (for pytest, and imported by name).

Nothing optional is imported until it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ullage.testing._session import MadeCommand as MadeCommand, Style as Style
from ullage.testing.assertions import assert_legal
from ullage.testing.generator import (
    STYLES as STYLES,
    Scenario as Scenario,
    Truth as Truth,
    conversation,
    scenario,
)
from ullage.testing.script import Script as Script, Step
from ullage.testing.summarizer import ScriptedSummarizer
from ullage.testing.transcript import SessionFile as SessionFile, session_file

if TYPE_CHECKING:
    from ullage.testing.server import ScriptedServer

__all__ = [
    "ScriptedServer",
    "ScriptedSummarizer",
    "Step",
    "assert_legal",
    "conversation",
    "scenario",
    "session_file",
]


def __getattr__(name: str) -> Any:
    if name == "ScriptedServer":  # http.server and what it needs cost some 40 ms
        from ullage.testing.server import ScriptedServer

        return ScriptedServer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

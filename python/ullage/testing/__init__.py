"""The test kit: conversations, hostile inputs, scripted summarizers and servers that enforce rules.

What the library's own tests use, for yours. Nothing optional is imported until it is asked for.
"""

from __future__ import annotations

from ullage.testing.entries import Layout, SessionFile, session_file
from ullage.testing.generator import (
    STYLES,
    Command,
    Scenario,
    Style,
    Truth,
    conversation,
    scenario,
    session_287k,
)
from ullage.testing.legality import assert_legal
from ullage.testing.script import Script, Step
from ullage.testing.summarizer import ScriptedSummarizer

__all__ = [
    "STYLES",
    "Command",
    "Layout",
    "Scenario",
    "Script",
    "ScriptedSummarizer",
    "SessionFile",
    "Step",
    "Style",
    "Truth",
    "assert_legal",
    "conversation",
    "scenario",
    "session_287k",
    "session_file",
]

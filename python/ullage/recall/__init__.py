"""Recall: everything that was removed from the context has a handle by which it can be recalled.

Removed content is never deleted: it is in the history in memory, in the offload store or in the transcript file. A handle is
a tool use id (a result), `m12` or `m12-40` (messages by their position in the history), `u3` or `u3-u5` (the user's messages
by the numbers that summaries give them), a name that a level gave to a span
(a snipped turn, a collapse), or in a transcript a uuid or `@1234` (the line at a byte offset).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.recall.store import (
        Archive as Archive,
        Left as Left,
        Recalled as Recalled,
        left as left,
    )
    from ullage.recall.text import NamedSpan as NamedSpan
    from ullage.recall.tool import RECALL_TOOL, Recall, RecallLimits as RecallLimits

__all__ = ["RECALL_TOOL", "Recall"]

_HOMES = {
    "store": "Archive Left Recalled left",
    "text": "NamedSpan",
    "tool": "RECALL_TOOL Recall RecallLimits",
}
if not TYPE_CHECKING:  # a misspelt name is an error of the type checker
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)

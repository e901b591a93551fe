"""Facts about a conversation with their origin, collected in one pass, without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._lazy import on_first_use

if TYPE_CHECKING:
    from ullage.facts.collector import collect, is_user_input, note_inputs
    from ullage.facts.model import Facts

__all__ = ["Facts", "collect", "is_user_input", "note_inputs"]

_HOMES = {
    "collector": (
        "collect",
        "is_user_input",
        "note_inputs",
    ),
    "model": ("Facts",),
}
if not TYPE_CHECKING:  # a misspelt name is an error of the type checker
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)

"""Facts about a conversation with their origin, collected in one pass, without a model."""

from __future__ import annotations

from ullage.facts.collector import collect, is_user_input, note_inputs
from ullage.facts.model import Facts

__all__ = ["Facts", "collect", "is_user_input", "note_inputs"]

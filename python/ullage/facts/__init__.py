"""Facts about a conversation with their origin, collected in one pass, without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.facts.collector import (
        AgreedItem as AgreedItem,
        CommitmentList as CommitmentList,
        collect,
        commitments_of,
        note_inputs as note_inputs,
    )
    from ullage.facts.model import AgreedState as AgreedState, Facts as Facts
    from ullage.facts.rules import CommitmentKind as CommitmentKind
    from ullage.facts.words import is_user_input as is_user_input

__all__ = ["collect", "commitments_of"]

_HOMES = {
    "collector": "AgreedItem CommitmentList collect commitments_of note_inputs",
    "model": "AgreedState Facts",
    "rules": "CommitmentKind",
    "words": "is_user_input",
}
if not TYPE_CHECKING:  # a misspelt name is an error of the type checker
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)

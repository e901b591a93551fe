"""Finds the weights for a model's name, or for none."""

from __future__ import annotations

from typing import Final, TypeAlias

from ullage._engine import core
from ullage.counting import calibration
from ullage.counting.models import Model, ModelTable

__all__ = ["DEFAULT_MODEL", "Ledger", "Weights", "weights_for"]

Ledger: TypeAlias = core.Ledger
"""Digests of a conversation, appended to as it grows: sums, pairs and rounds at any length in microseconds."""

Weights: TypeAlias = core.Weights
"""What a class of characters costs in tokens, fitted per family of models."""

DEFAULT_MODEL: Final = "claude-opus-4-7"
"""Used without a model: the family with the most tokens for the same text, so that nothing overflows."""


def weights_for(model: str | Model | None = None, *, table: ModelTable | None = None) -> Weights:
    """The weights of a model's family.

    Args:
        model: A row of the table or a name; `None` or empty: the default family. An unknown name: the family that the
            table guesses for it.
        table: Where to look a name up; `None`: the built-in table.

    Returns:
        The same object for the same family.

    Example:
        >>> weights_for("claude-sonnet-4-5") is weights_for("claude-sonnet-4-5-20250929")
        True
    """
    return calibration.weights(model or DEFAULT_MODEL, table=table)

"""Which weights estimate whose tokens: from a model's name, or none, to weights."""

from __future__ import annotations

from typing import Any, Final

from ullage.counting import calibration
from ullage.counting.models import Model, ModelTable

__all__ = ["DEFAULT_MODEL", "weights_for"]

DEFAULT_MODEL: Final = "claude-opus-4-7"
"""For no model at all: of the family with the most tokens for the same text, so that nothing overflows."""


def weights_for(model: str | Model | None = None, *, table: ModelTable | None = None) -> Any:
    """The weights of a model's family.

    Args:
        model: A row of the table or a name; `None` or empty: the default family. An unknown name: the family that the
            table guesses for it.
        table: Where to look a name up; `None`: the built-in table.

    Returns:
        `Weights`, the same object for the same family.

    Example:
        >>> weights_for("claude-sonnet-4-5") is weights_for("claude-sonnet-4-5-20250929")
        True
    """
    return calibration.weights(model or DEFAULT_MODEL, table=table)

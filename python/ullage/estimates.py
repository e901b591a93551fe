"""Which weights estimate whose tokens: from a model's name to the numbers in `data/weights.json`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

from ullage._engine import core
from ullage.models import Model, ModelTable

__all__ = ["DEFAULT_FAMILY", "weights_for"]

DEFAULT_FAMILY: Final = "claude-4.7"
"""For no model at all: the family with the most tokens for the same text, so that nothing overflows."""


@cache
def _families() -> Mapping[str, Any]:
    path = Path(__file__).with_name("data") / "weights.json"
    found: dict[str, Any] = orjson.loads(path.read_bytes())["families"]
    return found


@cache
def _weights(family: str) -> Any:
    numbers = _families().get(family) or _families()[DEFAULT_FAMILY]
    return core.Weights(
        numbers["features"],
        blocks=numbers["blocks"],
        messages=numbers["messages"],
        image=numbers["image"],
    )


def weights_for(model: str | Model | None = None, *, table: ModelTable | None = None) -> Any:
    """The weights of a model's family.

    Args:
        model: A row of the table or a name; `None`, empty or unknown: the default family.
        table: Where to look a name up; `None`: the built-in table.

    Returns:
        `Weights`, the same object for the same family.

    Example:
        >>> weights_for("claude-sonnet-4-5") is weights_for("claude-sonnet-4-5-20250929")
        True
    """
    if isinstance(model, Model):
        return _weights(model.family)
    row = (table or ModelTable.builtin()).find(model) if model else None
    return _weights(row.family if row is not None else DEFAULT_FAMILY)

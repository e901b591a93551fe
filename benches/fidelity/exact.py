"""Exact counts that weights are fitted to: ctok for Claude, our own byte-pair encoding for OpenAI.

ctok is an unofficial reconstruction of Claude's tokenizers. `table.py --exact` shows that its counts plus
fixed costs meet the provider's own figures where nothing is hidden. It asks for Python 3.12 and runs on 3.11:

    pip install --no-deps --ignore-requires-python ctok && pip install regex
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ullage._engine import core

__all__ = ["FAMILIES", "counter"]

FAMILIES = {
    "claude-3": "3.0",
    "claude-4.7": "4.7",
    "claude-4.8": "4.8",
    "o200k": "o200k_base",
    "cl100k": "cl100k_base",
}
"""Families of weights, and what counts each."""


@cache
def counter(family: str) -> Callable[[str], int]:
    """Counts the tokens of a text by itself, without any message around it."""
    name = FAMILIES[family]
    if not family.startswith("claude"):
        return lambda text: core.count_text(text, name)
    from ctok.engine import tile
    from ctok.main import _family, _model

    model = _model(_family(name))
    return cache(lambda text: tile(text, model)[0])

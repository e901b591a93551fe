"""What outlives the window: notes of one session, and memory that outlives the session."""

from __future__ import annotations

from functools import cache, partial

from ullage._start import table


def wording(name: str) -> str:
    """What a model is asked, from `prompts.toml`."""
    text: str = _prompts()[name]
    return text


_prompts = cache(partial(table, __file__, "prompts.toml"))

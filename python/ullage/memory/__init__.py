"""What outlives the window: notes of one session, and memory that outlives the session."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path


def wording(name: str) -> str:
    """What a model is asked, from `prompts.toml`."""
    return _prompts()[name]


@cache
def _prompts() -> dict[str, str]:
    return tomllib.loads(Path(__file__).with_name("prompts.toml").read_text(encoding="utf-8"))

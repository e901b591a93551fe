"""Conversations of the generator for the tests of every integration, and how many of them are looked at."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit import result, said, text, use, user

__all__ = ["COUNTS", "SMALL", "short_talks"]

SMALL = {"context_window": 6_000, "max_output_tokens": 500}
COUNTS = [300, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])]
"""How many conversations go through an integration."""

_WORDS = "read the file src/app.py and fix the test that fails with ValueError in line 17".split()


def short_talks(count: int) -> Iterator[list[dict[str, Any]]]:
    """Legal ones of up to 60 messages that end with the user or with results; parallel calls, failed calls, large results."""
    for seed in range(count):
        yield _talk(random.Random(seed))


def _talk(rng: random.Random) -> list[dict[str, Any]]:
    messages = [user(_words(rng))]
    made = 0
    for _ in range(rng.randrange(1, 12)):
        for _ in range(rng.randrange(3)):
            names = [f"call_{made + at}" for at in range(rng.choice((1, 1, 2, 3)))]
            made += len(names)
            calls = [
                use(name, rng.choice(("Read", "Bash", "search")), path=_words(rng))
                for name in names
            ]
            messages.append(said([*([text(_words(rng))] if rng.random() < 0.5 else []), *calls]))
            messages.append(user([_result(rng, name) for name in names]))
        messages += [said(_words(rng)), user(_words(rng))]
    return messages


def _result(rng: random.Random, name: str) -> dict[str, Any]:
    size = rng.choice((1, 3, 20, 200))
    more = {"is_error": True} if rng.random() < 0.1 else {}
    return result(name, "\n".join(_words(rng) for _ in range(size)), **more)


def _words(rng: random.Random) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(rng.randrange(3, 14)))

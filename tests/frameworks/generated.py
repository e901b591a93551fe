"""Conversations of the generator for the tests of every integration, and how many of them are looked at."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.kit import result, said, text, use, user
from ullage.integrations.conversations import HeldConversations, ModelFacts

__all__ = ["COUNTS", "SMALL", "Tally", "short_talks", "there_and_back"]

SMALL = {"context_window": 6_000, "max_output_tokens": 500}
COUNTS = [300, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])]
"""How many conversations go through an integration."""


@dataclass
class Tally:
    """What became of conversations and of their messages."""

    conversations: int = 0
    smaller: int = 0  # conversations that were changed
    messages: int = 0
    kept: int = 0  # sent as the very objects
    replaced: int = 0
    removed: int = 0
    inserted: int = 0

    def note(self, plan: Any) -> None:
        """Add one conversation, by what the view says of it."""
        actions = [step.action for step in plan]
        counts = [actions.count(name) for name in ("kept", "replaced", "removed", "inserted")]
        self.conversations += 1
        self.smaller += any(counts[1:])
        self.messages += sum(counts[:3])
        self.kept, self.replaced = self.kept + counts[0], self.replaced + counts[1]
        self.removed, self.inserted = self.removed + counts[2], self.inserted + counts[3]

    def check(self) -> None:
        """A tenth of the conversations at least has to be changed: else little was looked at."""
        assert self.smaller > self.conversations // 10


def there_and_back(
    seeds: Iterable[int],
    held: HeldConversations[Any],
    model: str,
    native: Callable[[list[dict[str, Any]]], list[Any]],
    legal: Callable[[list[Any]], Any],
    same: Callable[[Any, Any], None] = lambda one, other: None,
    dump: Callable[[list[Any]], Any] = copy.deepcopy,
) -> Tally:
    """Each conversation in the framework's messages, made to fit and judged.

    Args:
        seeds: Of the conversations.
        held: Translates them, and holds the limits.
        model: In use.
        native: From a conversation to the framework's messages.
        legal: Raises for messages that a provider would refuse.
        same: Raises where a replaced message has lost something.
        dump: Messages as what can be compared.
    """
    tally = Tally()
    for number, talk in enumerate(short_talks(seeds)):
        messages = native(talk)
        before = dump(messages)
        fitted = held.of(str(number), ModelFacts(model)).fit(messages)
        for step in fitted.view.plan:
            if step.action == "kept":
                assert fitted.messages[step.at] is messages[step.given]
            elif step.action == "replaced":
                same(messages[step.given], fitted.messages[step.at])
        assert dump(messages) == before  # nothing that was given is changed
        legal(fitted.messages)
        tally.note(fitted.view.plan)
    tally.check()
    return tally


_WORDS = "read the file src/app.py and fix the test that fails with ValueError in line 17".split()


def short_talks(seeds: Iterable[int]) -> Iterator[list[dict[str, Any]]]:
    """Legal ones of up to 60 messages that end with the user or with results; parallel calls, failed calls, large results."""
    for seed in seeds:
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

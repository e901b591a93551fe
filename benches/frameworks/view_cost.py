"""What one more view of a long list costs: `python -m benches.frameworks.view_cost`.

A framework hands over its whole list at each call, of which all but the newest messages are made of the same objects as before. Next to it
stands what LangChain's own middleware does with the same list before each request: count it (`SummarizationMiddleware`), or copy it
(`ContextEditingMiddleware`). All three take turns in one process; a figure is a median. The first table is of dicts, without a framework, that
no level has anything to do for: the same list, and a deep copy at each call.
"""

from __future__ import annotations

import copy
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

from benches import bodies
from langchain_core.messages import AIMessage, AnyMessage, convert_to_messages
from langchain_core.messages.utils import count_tokens_approximately

from ullage import ContextManager
from ullage.integrations.conversations import HeldConversations, ModelFacts
from ullage.integrations.langchain import TRANSLATOR
from ullage.providers import openai_chat
from ullage.testing import scenario

LENGTHS = (1_250, 2_500, 5_000, 10_000)
STEPS = 9
WINDOW = 200_000


def messages(count: int) -> list[AnyMessage]:
    """A coding session of so many messages of LangChain."""
    made: list[dict[str, Any]] = []
    seed = 0
    while len(made) < count:
        seed += 1
        part = scenario(seed, tokens=400_000, ending="assistant").messages
        made += openai_chat.to_provider(part).parts["messages"]
    return list(convert_to_messages(made[:count]))


def milliseconds(run: Callable[[], Any]) -> float:
    started = time.process_time()
    run()
    return 1e3 * (time.process_time() - started)


def row(count: int) -> str:
    whole = messages(count)
    held = HeldConversations[AnyMessage](TRANSLATOR, context_window=WINDOW)
    conversation = held.of("one", ModelFacts("gpt-5.4"))
    # An agent asks before each answer.
    ends = [at for at in range(count) if isinstance(whole[at], AIMessage)]
    ends = [at for at in ends if not isinstance(whole[at - 1], AIMessage)][-STEPS - 1 :]
    conversation.fit(whole[: ends[0]])
    ours, counted, copied = [], [], []
    for end in ends[1:]:
        given = whole[:end]
        ours.append(milliseconds(lambda: conversation.fit(given)))
        counted.append(milliseconds(lambda: count_tokens_approximately(given)))
        copied.append(milliseconds(lambda: copy.deepcopy(given)))
    view, count_of, copy_of = map(statistics.median, (ours, counted, copied))
    return f"| {count:,} | {view:.1f} | {1e3 * view / count:.1f} | {view / count_of:.1f} | {view / copy_of:.2f} |"


def row_of_dicts(count: int) -> str:
    manager = ContextManager(model="claude-sonnet-4-5", context_window=100_000_000)
    held, turns = [bodies.opening("anthropic")], itertools.count()

    def grow() -> None:
        bodies.lengthen(held, next(turns), ugly=False)

    while len(held) < count:
        grow()
    manager.view(held)
    spent: list[list[float]] = [[], []]
    for times, given in ((spent[0], lambda: held), (spent[1], lambda: copy.deepcopy(held))):
        for _ in range(3 * STEPS):
            grow()
            messages = given()
            started = time.perf_counter()
            manager.view(messages)
            times.append(1e6 * (time.perf_counter() - started))
    same, copied = map(statistics.median, spent)
    return f"| {count:,} | {same:,.0f} | {copied:,.0f} |"


def main() -> None:
    print("| messages | µs, the same list | µs, a deep copy |\n| --: | --: | --: |")
    for count in (100, 1_000, 10_000):
        print(row_of_dicts(count), flush=True)
    print(
        "\n| messages | ms | µs a message | times a count | times a copy |\n| --: | --: | --: | --: | --: |"
    )
    for count in LENGTHS:
        print(row(count), flush=True)


if __name__ == "__main__":
    main()

"""What one more view of a long list costs: `python -m benches.frameworks.view_cost`.

A framework hands over its whole list at each call, so that each message is read and compared each time. Next to it stands what LangChain's
own middleware does with the same list before each request: count it (`SummarizationMiddleware`), or copy it (`ContextEditingMiddleware`).
All three take turns in one process; a figure is a median.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

from langchain_core.messages import AnyMessage, convert_to_messages
from langchain_core.messages.utils import count_tokens_approximately

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
    conversation.fit(whole[: -2 * STEPS])
    ours, counted, copied = [], [], []
    for step in range(STEPS, 0, -1):
        given = whole[: len(whole) - 2 * step + 2]
        ours.append(milliseconds(lambda: conversation.fit(given)))
        counted.append(milliseconds(lambda: count_tokens_approximately(given)))
        copied.append(milliseconds(lambda: copy.deepcopy(given)))
    view, count_of, copy_of = map(statistics.median, (ours, counted, copied))
    return f"| {count:,} | {view:.1f} | {1e3 * view / count:.1f} | {view / count_of:.1f} | {view / copy_of:.2f} |"


def main() -> None:
    print(
        "| messages | ms | µs a message | times a count | times a copy |\n| --: | --: | --: | --: | --: |"
    )
    for count in LENGTHS:
        print(row(count), flush=True)


if __name__ == "__main__":
    main()

"""How many times faster the drop-in functions are than the functions whose names they bear: `python -m benches.dropin_speed`.

Runs next to tiktoken, langchain-core and litellm (`make integrations` installs them for the group dropin). Results are compared
before anything is timed. Both take turns in one process, so that a busy machine slows both; a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from importlib import import_module, metadata
from typing import Any, NamedTuple

from benches.python.bench_bpe import ranks

from ullage.dropin import (
    langchain as our_langchain,
    litellm as our_litellm,
    tiktoken as our_tiktoken,
)
from ullage.providers import provider_of
from ullage.testing import conversation

ROUNDS = 5


class Case(NamedTuple):
    """One function, ours and theirs, on the same input."""

    name: str
    size: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    equal: bool = True  # results must be; else they differ where docs/dropin.md says so


def chat(tokens: int) -> list[dict[str, Any]]:
    """A coding session as Chat Completions takes it."""
    form = provider_of("openai_chat")
    written: list[dict[str, Any]] = form.shape.to_provider(
        conversation(seed=5, tokens=tokens)
    ).parts["messages"]
    return written


def cases() -> Iterator[Case]:
    """Every function that is offered under another library's name and does not ask a server."""
    messages = chat(100_000)
    text = "\n".join(str(message.get("content") or "") for message in messages)
    parts = [str(message.get("content") or "") for message in messages]
    size = f"{len(text):,} characters"
    public: Any = import_module("tiktoken_ext.openai_public")
    # The vocabularies that it would download.
    public.load_tiktoken_bpe = lambda path, **_: ranks(path.rpartition("/")[2].partition(".")[0])
    tiktoken = import_module("tiktoken")
    theirs, ours = (each.get_encoding("o200k_base") for each in (tiktoken, our_tiktoken))
    theirs.encode("warm"), ours.encode("warm")
    yield Case(
        "tiktoken `encode_ordinary`",
        size,
        lambda: ours.encode_ordinary(text),
        lambda: theirs.encode_ordinary(text),
    )
    yield Case(
        "tiktoken `encode_ordinary_batch`",
        f"{len(parts)} texts",
        lambda: ours.encode_ordinary_batch(parts, num_threads=1),
        lambda: theirs.encode_ordinary_batch(parts, num_threads=1),
    )
    yield Case(
        "tiktoken `len(encode(…))`, here `count`",
        size,
        lambda: ours.count(text),
        lambda: len(theirs.encode(text, disallowed_special=())),
    )
    ids = ours.encode_ordinary(text)
    yield Case(
        "tiktoken `decode`",
        f"{len(ids):,} tokens",
        lambda: ours.decode(ids),
        lambda: theirs.decode(ids),
    )
    core = import_module("langchain_core.messages")
    objects = core.convert_to_messages(messages)
    number = f"{len(messages)} messages"
    yield Case(
        "LangChain `count_tokens_approximately`, dicts",
        number,
        lambda: our_langchain.count_tokens_approximately(messages),
        lambda: core.utils.count_tokens_approximately(messages),
    )
    yield Case(
        "LangChain `count_tokens_approximately`, its messages",
        number,
        lambda: our_langchain.count_tokens_approximately(objects),
        lambda: core.utils.count_tokens_approximately(objects),
    )
    half = our_langchain.count_tokens_approximately(objects) // 2
    trim: dict[str, Any] = {"max_tokens": half, "token_counter": "approximate", "start_on": "human"}
    yield Case(
        "LangChain `trim_messages`, to half",
        number,
        lambda: our_langchain.trim_messages(objects, **trim),
        lambda: core.trim_messages(objects, **trim),
        equal=False,
    )
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network at import
    litellm = import_module("litellm")
    few = chat(8_000)
    number = f"{len(few)} messages"
    yield Case(
        "litellm `token_counter`",
        number,
        lambda: our_litellm.token_counter("gpt-4o", messages=few),
        lambda: litellm.token_counter("gpt-4o", messages=few),
        equal=False,
    )
    talk = [
        {"role": role, "content": "a word and another " * 20} for role in ("user", "assistant") * 12
    ]
    least = our_litellm.token_counter("gpt-4o", messages=talk) // 2
    yield Case(
        "litellm `trim_messages`, to half",
        f"{len(talk)} messages",
        lambda: our_litellm.trim_messages(talk, "gpt-4o", max_tokens=least),
        lambda: litellm.utils.trim_messages(talk, "gpt-4o", max_tokens=least),
        equal=False,
    )


def times_faster(case: Case) -> float:
    """The median of the rounds' ratios, after a look at both results."""
    one, other = case.ours(), case.theirs()
    if case.equal and one != other:
        raise SystemExit(f"{case.name}: the results differ")
    ratios = []
    for _ in range(ROUNDS):
        mine, their = seconds(case.ours), seconds(case.theirs)
        ratios.append(their / mine)
    return statistics.median(ratios)


def seconds(run: Callable[[], Any]) -> float:
    """Processor time of one call; short calls are repeated."""
    count = 1
    while True:
        start = time.process_time()
        for _ in range(count):
            run()
        spent = time.process_time() - start
        if spent > 0.02 or count >= 1_000:
            return spent / count
        count *= 4


def main() -> None:
    """Print the table."""
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("tiktoken", "langchain-core", "litellm")
    )
    print(f"With {versions}:\n\n| function | input | times faster |\n| --- | --- | --: |")
    for case in cases():
        print(f"| {case.name} | {case.size} | {times_faster(case):.1f} |", flush=True)


if __name__ == "__main__":
    main()

"""Planted facts: which facts of a long session are still in the context after three compactions to a small size?

    python benches/fidelity/planted.py [--sessions 40] [--shares 10 5] [--only NAME] [--windows 16384 32768]

Made sessions of 60,000 to 150,000 tokens hold facts of known kinds in the words of the user, the assistant and the tools.
Each session arrives in three parts; after each, the context is compacted to the same share of the whole session's size.
`--windows`: an agent's loop instead, a `ContextManager` with its default policy before each response; held is what the last request has.
A fact is held if its telling words stand in what is left: of a rule all its words, of a correction the new value.
Sizes are the estimate that each contender is given; the last column is the largest size as a share of the target.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from planted_facts import USER_KINDS, Planted, planted_session

from ullage import ContextManager, compact, estimate_tokens

MODEL = "claude-opus-4-5"
ROUNDS = 3
SUMMARY = "The user works on a service; see the newest messages."

Messages = list[dict[str, Any]]
Contender = Callable[[Messages, int], Messages]


def size(messages: Sequence[Any]) -> int:
    return estimate_tokens(list(messages), model=MODEL)


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(flat(block) for block in content or ())


def flat(block: dict[str, Any]) -> str:
    if block.get("type") == "tool_use":
        return json.dumps(block.get("input"), ensure_ascii=False)
    inner = block.get("text", block.get("content", ""))
    return inner if isinstance(inner, str) else "\n".join(map(flat, inner))


def is_prompt(message: dict[str, Any]) -> bool:
    blocks = message["content"] if isinstance(message["content"], list) else []
    return message["role"] == "user" and not any(b.get("type") == "tool_result" for b in blocks)


def ours(messages: Messages, target: int) -> Messages:
    return list(compact(messages, model=MODEL, target_tokens=target).messages)


def tail(messages: Messages, target: int) -> Messages:
    """The newest whole messages that fit."""
    sizes = [size([message]) for message in messages]
    start = len(messages)
    while start and sum(sizes[start - 1 :]) <= target:
        start -= 1
    return messages[start:]


def all_users(messages: Messages, target: int) -> Messages:
    """Every message of the user, the newest first while they fit, then the newest of all else."""
    kept: set[int] = set()
    room = target
    for at in [*_newest(messages, True), *_newest(messages, False)]:
        price = size([messages[at]])
        if price <= room:
            kept.add(at)
            room -= price
        elif not is_prompt(messages[at]):
            break
    return [message for at, message in enumerate(messages) if at in kept]


def _newest(messages: Messages, prompts: bool) -> list[int]:
    return [at for at in reversed(range(len(messages))) if is_prompt(messages[at]) is prompts]


def of_peer(make: Callable[[Any, int], Any]) -> Contender:
    """A contender of `benches/peers`, whose budget is the target."""

    def run(messages: Messages, target: int) -> Messages:
        from ullage.providers import openai_chat

        peers = _peers()
        peers.BUDGET = target
        one = make(peers, target)
        chat = list(openai_chat.to_provider(messages).parts["messages"])
        left = one.back(one.run(one.native(chat)))
        return list(openai_chat.from_provider(left).messages)

    return run


def _peers() -> Any:
    import sys

    root = str(Path(__file__).parents[2])
    if root not in sys.path:
        sys.path.insert(0, root)
    from benches.peers import context

    return context


def _sliding(peers: Any, target: int) -> Any:
    def make(c: Any) -> Any:
        return c.SlidingWindowCompaction(max_tokens=target, keep_tokens=target * 9 // 10)

    return peers.harness("sliding", make)()


def _tiered(peers: Any, target: int) -> Any:
    def make(c: Any) -> Any:
        return c.TieredCompaction(
            tiers=[
                c.ClearToolResults(max_tokens=target, keep_pairs=3),
                c.SlidingWindowCompaction(max_tokens=target, keep_tokens=target * 9 // 10),
            ],
            target_tokens=target,
        )

    return peers.harness("tiered", make)()


CONTENDERS: dict[str, tuple[str, Contender]] = {
    "Ullage, no model": ("", ours),
    "all user messages, then a tail": ("", all_users),
    "plain tail": ("", tail),
    "LangChain `trim_messages`": ("langchain_core", of_peer(lambda p, _: p.langchain_trim())),
    "pydantic-ai-harness, sliding window": ("pydantic_ai_harness", of_peer(_sliding)),
    "pydantic-ai-harness, tiered": ("pydantic_ai_harness", of_peer(_tiered)),
    "deepagents, scripted summary": ("deepagents", of_peer(lambda p, _: p.deepagents_summary())),
}


def after_rounds(run: Contender, messages: Messages, target: int) -> tuple[Messages, float]:
    """The context at the end, and the largest size of a round as a share of the target."""
    context: Messages = []
    largest = 0.0
    ends = [start_of_turn(messages, len(messages) * (n + 1) // ROUNDS) for n in range(ROUNDS)]
    for first, last in zip([0, *ends], ends, strict=False):
        context = run([*context, *messages[first:last]], target)
        largest = max(largest, size(context) / target)
    return context, largest


def start_of_turn(messages: Messages, at: int) -> int:
    """The next place where the assistant has answered and the user speaks."""
    while at < len(messages) and not is_prompt(messages[at]):
        at += 1
    return at


Play = Callable[[Messages], tuple[Messages, float]]


def to_share(run: Contender, share: int) -> Play:
    """A context that is compacted to a share of the session's size after each third of it."""
    return lambda messages: after_rounds(run, messages, size(messages) * share // 100)


def measure(play: Play, seeds: Sequence[int]) -> dict[str, Any]:
    held: dict[str, list[bool]] = defaultdict(list)
    sizes, lost = [], []
    for seed in seeds:
        messages, facts = planted_session(seed, 60_000 + 90_000 * random.Random(seed).random())
        left, largest = play(messages)
        text = "\n".join(map(text_of, left))
        for fact in facts:
            there = fact.held(text)
            held[f"{fact.source}: {fact.kind}"].append(there)
            if not there:
                lost.append((seed, fact))
        sizes.append(largest)
    return {"held": held, "size": max(sizes), "lost": lost}


def in_loop(messages: Messages, window: int) -> tuple[Messages, float]:
    """The last request of an agent's loop, and the largest one as a share of the window."""
    manager = ContextManager(model=MODEL, context_window=window, max_output_tokens=window // 8)
    sent: Messages = []
    largest = 0
    for message in messages:
        if message["role"] == "assistant":
            request = manager.prepare()
            sent, largest = list(request.messages), max(largest, request.tokens)
        manager.add(message)
    return sent, largest / window


GROUPS: dict[str, Callable[[str], bool]] = {
    "user's facts": lambda name: name.startswith("user:"),
    "edited paths": lambda name: name.endswith("edited path"),
    "errors": lambda name: name.endswith("error"),
    "numbers, addresses": lambda name: not name.startswith("user") and name.endswith(("number", "URL")),
    "decisions, todos": lambda name: not name.startswith("user") and name.endswith(("decision", "todo")),
}  # fmt: skip


def row(name: str, found: dict[str, Any]) -> str:
    cells = []
    for belongs in GROUPS.values():
        every = [each for kind, given in found["held"].items() if belongs(kind) for each in given]
        cells.append(f"{100 * fmean(every):.0f} %")
    return f"| {name} | {' | '.join(cells)} | {found['size']:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--shares", type=int, nargs="+", default=[10, 5])
    parser.add_argument("--only", default="")
    parser.add_argument("--lost", action="store_true", help="print the facts that were lost")
    parser.add_argument("--kinds", action="store_true", help="print each kind by itself")
    parser.add_argument("--windows", type=int, nargs="+", help="an agent's loop in these windows")
    given = parser.parse_args()
    if given.windows:
        _loops(given.windows, range(1, given.sessions + 1))
        return
    for share in given.shares:
        print(f"\nat {share} % of the session\n")
        print(f"| context | {' | '.join(GROUPS)} | largest / target |")
        print(f"| --- |{' --: |' * (len(GROUPS) + 1)}")
        for name, (needs, run) in CONTENDERS.items():
            if given.only not in name or (needs and importlib.util.find_spec(needs) is None):
                continue
            began = time.process_time()
            found = measure(to_share(run, share), range(1, given.sessions + 1))
            print(row(name, found), flush=True)
            if given.kinds:
                for kind, every in sorted(found["held"].items()):
                    print(f"    {kind:28} {100 * fmean(every):5.0f} %  of {len(every)}")
                print(f"    {time.process_time() - began:.0f} s of processor time")
            if given.lost:
                _print_lost(found["lost"])


def _loops(windows: Sequence[int], seeds: Sequence[int]) -> None:
    print(f"| window | {' | '.join(GROUPS)} | largest / window |")
    print(f"| --: |{' --: |' * (len(GROUPS) + 1)}")
    for window in windows:
        found = measure(lambda messages, window=window: in_loop(messages, window), seeds)
        print(row(f"{window:,}", found), flush=True)


def _print_lost(lost: list[tuple[int, Planted]]) -> None:
    for seed, fact in lost:
        if fact.kind in USER_KINDS or fact.source != "user":
            print(f"    {seed} {fact.source} {fact.kind}: {fact.text[:140]}")


if __name__ == "__main__":
    main()

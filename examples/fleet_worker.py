"""A worker of a service: any number of processes and threads share conversations in one SQLite file.

    pip install 'ullage[anthropic]'
    export ANTHROPIC_API_KEY=…
    python examples/fleet_worker.py deliveries.jsonl --store sqlite:fleet.db

Each line of the file is a delivery of a queue: {"conversation": "customer-17", "id": "d1", "text": "Why does the build fail?"}.
Start it in as many terminals as you like; `--store postgresql://…` shares the conversations between machines. A repeated
delivery is answered once, even if the worker that had it first was killed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import anthropic

from ullage import ContextManager
from ullage.exceptions import UllageError
from ullage.stores import Worker, open_store

MODEL = "claude-opus-5-5"
SYSTEM = "You answer questions about builds."

Delivery = dict[str, str]


def respond(client: anthropic.Anthropic, manager: ContextManager) -> anthropic.types.Message:
    while True:
        request = manager.prepare()  # runs the levels that are due; usually none is
        try:
            message: anthropic.types.Message = client.messages.create(
                model=MODEL, max_tokens=2048, extra_headers=request.headers, **request.body
            )
        except anthropic.APIStatusError as error:
            if not manager.on_overflow(error):  # not about size: a rate limit, a wrong key
                raise
            continue
        return message


def handle(client: anthropic.Anthropic, worker: Worker, delivery: Delivery) -> str:
    """Answer one delivery, unless it was answered before."""
    with worker.checkout(delivery["conversation"], wait_seconds=60) as held:  # others are kept out
        held.add({"role": "user", "content": delivery["text"]}, key=delivery["id"])
        if held.answered:
            return f"{delivery['id']}: answered before"
        message = respond(client, held.manager)
        held.observe(message, key=f"{delivery['id']}/answer")
        return f"{delivery['id']}: {message.usage.input_tokens:,} tokens in"


def in_order(client: anthropic.Anthropic, worker: Worker, deliveries: Sequence[Delivery]) -> int:
    """Answer the deliveries of one conversation and return how many were done. After a failure the others wait for redelivery."""
    for done, delivery in enumerate(deliveries):
        try:
            print(handle(client, worker, delivery))
        except (UllageError, anthropic.APIError) as error:
            print(f"{delivery['id']}: not done, deliver it again: {error}")
            return done
    return len(deliveries)


def by_conversation(lines: Iterable[str]) -> list[list[Delivery]]:
    found: dict[str, list[Delivery]] = {}
    for line in lines:
        delivery = json.loads(line)
        found.setdefault(delivery["conversation"], []).append(delivery)
    return list(found.values())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("deliveries", type=Path)
    parser.add_argument("--store", default="sqlite:fleet.db")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--window", type=int, help="tokens, if less than the model's own window")
    given = parser.parse_args(arguments)
    with given.deliveries.open(encoding="utf-8") as lines:
        waiting = by_conversation(lines)
    with (
        closing(open_store(given.store)) as store,
        Worker(store, model=MODEL, system=SYSTEM, context_window=given.window) as worker,
        anthropic.Anthropic() as client,
        ThreadPoolExecutor(given.threads) as threads,
    ):
        done = sum(threads.map(lambda each: in_order(client, worker, each), waiting))
    print(f"{done} of {sum(map(len, waiting))} deliveries")
    return done


if __name__ == "__main__":
    main()

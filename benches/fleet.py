"""Worker processes on shared conversations, with workers, the server and connections lost at random: is anything lost or doubled, and how fast is it?

    python -m benches.fleet --store sqlite:/tmp/fleet.db --workers 4 --conversations 40 --turns 10 --kills 10

Each conversation is a list of turns that must be answered once each, in order. A worker takes a conversation, looks at which turns
are there, and does the next few: user message, request, response. A killed worker's turns are delivered again. Stores `postgres`,
`redis` and `buckets` are servers started for the run, killed after every fifth worker and reached through a slow network. At the end
every history must be what one worker alone, without kills, would have written, and so must the next request.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from ullage import ContextManager
from ullage.exceptions import LeaseHeld, LogConflict, StoreError
from ullage.stores import ConversationStore, Worker
from ullage.stores.store_protocols import open_store

MODEL = "claude-opus-4-5"
LINE = 12
"""Bytes of a line of the file of times."""


def asked(name: str, turn: int) -> str:
    return f"{name}, turn {turn}: " + "look at the next file and say what it does. " * (turn % 5)


def answered(name: str, turn: int) -> str:
    return f"{name}, answer {turn}: " + "it reads the settings and starts the server. " * (turn % 7)


def names(args: argparse.Namespace) -> list[str]:
    return [f"{args.run}-{number:05}" for number in range(args.conversations)]


# ---- one worker ------------------------------------------------------------------------------


def work(args: argparse.Namespace) -> None:
    dice, left, seen = random.Random(os.getpid()), names(args), Counter()
    out = Path(args.times).open("a", buffering=1)
    finished = Path(f"{args.times}.finished")  # for all workers
    tell, told = finished.open("a", buffering=1), finished.open()
    store = opened(args.store)
    worker = Worker(store, model=MODEL, lease_seconds=args.lease, clock=lambda: 1_700_000_000_000)
    while left := without(left, told.read().split()):
        name = dice.choice(left)
        try:
            if turns(worker, name, args, out, dice):
                tell.write(f"{name}\n")
                left.remove(name)
        except LeaseHeld:
            time.sleep(0.002)
        except (LogConflict, StoreError) as exc:  # delivered again
            seen[type(exc).__name__] += 1
            time.sleep(0.1)
    if seen:
        print(f"worker {os.getpid()} began again after {dict(seen)}", file=sys.stderr)
    worker.close()
    store.close()


def without(names: list[str], some: list[str]) -> list[str]:
    return [name for name in names if name not in some] if some else names


def opened(address: str) -> ConversationStore:
    """As a supervisor would have it: a worker that begins while the server is away begins again."""
    while True:
        try:
            return open_store(address)
        except StoreError:
            time.sleep(0.2)


def turns(worker: Worker, name: str, args: argparse.Namespace, out, dice: random.Random) -> bool:
    """Does the next turns of a conversation; whether all are there. The last one's time includes giving it back."""
    times, began = [], time.perf_counter()
    with worker.checkout(name, at_end=args.at_end) as held:
        left = [turn for turn in range(args.turns) if not held.has(f"a{turn}")]
        for turn in left[: args.per_checkout]:
            held.add({"role": "user", "content": asked(name, turn)}, key=f"u{turn}")
            held.manager.prepare()
            slept = dice.uniform(0, args.delay)
            time.sleep(slept)
            held.observe({"role": "assistant", "content": answered(name, turn)}, key=f"a{turn}")
            times.append(time.perf_counter() - began - slept)
            began += times[-1] + slept
    if times:
        times[-1] += time.perf_counter() - began
        out.write("".join(f"{each:0{LINE - 1}.6f}\n" for each in times))
    return len(left) <= args.per_checkout


# ---- all of them -----------------------------------------------------------------------------


def start(args: argparse.Namespace) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "benches.fleet", "--worker", *args.given])


def turns_done(path: str) -> int:
    return Path(path).stat().st_size // LINE if Path(path).exists() else 0


def run(args: argparse.Namespace, restart: Callable[[], None] | None) -> dict[str, object]:
    """Starts the workers, kills one after each like share of the turns, and after every fifth the server; waits for the others.

    By turns and not by time: a fast machine sees as many kills as a slow one.
    """
    dice, began = random.Random(args.seed), time.monotonic()
    workers = [start(args) for _ in range(args.workers)]
    # Turns of a killed worker may be done and not be counted.
    total = args.conversations * args.turns - args.kills * args.per_checkout
    share = total / (args.kills + 1)
    kills = restarts = 0
    while alive := [at for at, each in enumerate(workers) if each.poll() is None]:
        time.sleep(0.01)
        if kills < args.kills and turns_done(args.times) >= share * (kills + 1):
            at = dice.choice(alive)
            workers[at].send_signal(signal.SIGKILL)
            workers[at].wait()
            workers[at] = start(args)
            kills += 1
            if restart is not None and kills % 5 == 0:
                restart()
                restarts += 1
    seconds = time.monotonic() - began
    failed = [each.returncode for each in workers if each.returncode]
    times = sorted(map(float, Path(args.times).read_text().split()))
    return {
        "store": args.store.split("@")[-1],
        "workers": args.workers,
        "conversations": args.conversations,
        "turns": args.conversations * args.turns,
        "turns done, repeated ones included": len(times),
        "kills": kills,
        "server kills": restarts,
        "failed workers": failed,
        "seconds": round(seconds, 1),
        "turns per second": round(args.conversations * args.turns / seconds, 1),
        "p50 ms": round(times[len(times) // 2] * 1000, 2),
        "p99 ms": round(times[len(times) * 99 // 100] * 1000, 2),
        "wrong": checked(args),
    }


def checked(args: argparse.Namespace) -> list[str]:
    """Conversations that are not what one worker alone would have made."""
    all_of_them, share = names(args), 50
    if args.conversations <= share:
        return wrong(args, all_of_them)
    shares = [all_of_them[at : at + share] for at in range(0, len(all_of_them), share)]
    # Not forked: obstore's threads would be missing.
    own = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(4, os.cpu_count() or 1), mp_context=own) as pool:
        return [each for found in pool.map(wrong, [args] * len(shares), shares) for each in found]


def wrong(args: argparse.Namespace, some: list[str]) -> list[str]:
    store = open_store(args.store)
    with Worker(store, model=MODEL, most_kept=0, clock=lambda: 1_700_000_000_000) as worker:
        found = [name for name in some if not same(worker, name, args)]
    store.close()
    return found


def same(worker: Worker, name: str, args: argparse.Namespace) -> bool:
    alone = ContextManager(model=MODEL, clock=lambda: 1_700_000_000_000)
    for turn in range(args.turns):
        alone.add({"role": "user", "content": asked(name, turn)})
        alone.prepare()
        alone.observe({"role": "assistant", "content": answered(name, turn)})
    with worker.checkout(name, wait_seconds=2 * args.lease) as held:
        there = held.manager
        return list(there.history) == list(alone.history) and there.messages == alone.messages


def parsed(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True, help="an address for open_store, or a server")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--conversations", type=int, default=40)
    parser.add_argument("--turns", type=int, default=10, help="of each conversation")
    parser.add_argument(
        "--per-checkout", type=int, default=3, help="turns that a worker does at once"
    )
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--delay", type=float, default=0.0, help="longest time the model takes")
    parser.add_argument(
        "--network", type=float, default=0.0, help="mean seconds of a way to the server"
    )
    parser.add_argument(
        "--cuts", type=float, default=0.0, help="share of packets that close the connection"
    )
    parser.add_argument("--lease", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-end", action="store_true", help="one write a checkout")
    parser.add_argument("--times", default="")
    parser.add_argument("--run", default="")
    parser.add_argument("--worker", action="store_true", help="(one of its processes)")
    return parser.parse_args(given)


def main(given: list[str], restart: Callable[[], None] | None = None) -> dict[str, object] | None:
    args = parsed(given)
    if args.worker:
        return work(args)
    args.times = args.times or tempfile.mkstemp(prefix="fleet-")[1]
    args.run = args.run or f"run{os.getpid()}"
    args.given = [*given, "--times", args.times, "--run", args.run]
    return run(args, restart)


def on_own_server(given: list[str]) -> dict[str, object] | None:
    """With the name of a server as `--store`, one is started for the run, and killed now and then."""
    from tests.stores.servers import Buckets, Postgres, Redis

    kinds = {"postgres": Postgres, "redis": Redis, "buckets": Buckets}
    at = given.index("--store") + 1 if "--store" in given else 0
    kind = kinds.get(given[at]) if at else None
    if kind is None:
        return main(given)
    server, args = kind(), parsed(given)
    try:
        with over_a_network(server, args) as (address, seen):
            found = main([*given[:at], address, *given[at + 1 :]], lambda: killed(server))
            return found and found | {"network": seen()}
    finally:
        server.close()


def killed(server) -> None:
    server.kill()
    time.sleep(1)
    server.start()


@contextmanager
def over_a_network(server, args: argparse.Namespace) -> Iterator[tuple[str, Callable[[], str]]]:
    """The server's address through a relay, in the environment too."""
    from tests.stores.relay import Relay

    relay = Relay(server.port, delay=args.network, cuts=args.cuts, seed=args.seed)
    os.environ.update(server.environment(relay.port))
    try:
        yield (
            server.address_at(relay.port),
            lambda: f"{relay.pieces:,} packets, {relay.cut} connections cut",
        )
    finally:
        relay.close()


if __name__ == "__main__":
    found = on_own_server(sys.argv[1:])
    if found is not None:
        print(json.dumps(found, indent=2))
        sys.exit(1 if found["wrong"] or found["failed workers"] else 0)

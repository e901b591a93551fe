"""What the core does, by itself: operations of `benches/python/bench_suite.py`, next to the engine in plain Python and to other libraries."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import orjson
from benches.operation import OURS, SWEEPS, TWIN, Contender, Operation, Planned, equal, optional
from benches.python import bench_bpe, bench_index, bench_ledger, bench_levels

from ullage import _core, _reference

OFTEN = 2_000
CHUNKS = SWEEPS + 1
"""Parts of a text: one to warm up, then a new one in each sweep."""
TWIN_SHARE = 8
"""The engine in plain Python gets so much less of a text, or the suite would take minutes."""
KINDS = ("code", "prose", "json", "logs", "other scripts")
LENGTH = 10_000
"""Messages of the conversation that a level acts on."""


def scan(folder: Path) -> Operation:
    del folder
    items = bench_ledger.conversation(1000)
    contenders = {
        OURS: Contender(lambda: _core.Ledger(None, items).tokens()),
        TWIN: Contender(lambda: _reference.Ledger(None, items).tokens()),
        "lengths alone, plain Python": Contender(lambda: bench_ledger.plain_estimate(items)),
        "orjson.dumps of the list": Contender(lambda: orjson.dumps(items)),
    }
    equal(contenders, (OURS, TWIN, "lengths alone, plain Python"))
    optional(contenders, "langchain count_tokens_approximately", lambda: langchain_count(items))
    optional(contenders, "litellm token_counter", lambda: litellm_count(items))
    return Operation("scan of 1,000 messages", "µs a message", 1000, contenders)


def scan_in_cache(folder: Path) -> Operation:
    """Alone and again and again: the processor's cache holds the list, as it does for a host that counts what it just built."""
    del folder
    items = bench_ledger.conversation(1000)
    contenders = {
        OURS: Contender(lambda: _core.Ledger(None, items).tokens(), iterations=20),
        "lengths alone, plain Python": Contender(
            lambda: bench_ledger.plain_estimate(items), iterations=20
        ),
        "orjson.dumps of the list": Contender(lambda: orjson.dumps(items), iterations=20),
    }
    equal(contenders, (OURS, "lengths alone, plain Python"))
    return Operation("the same, twenty times in a row", "µs a message", 1000, contenders)


def langchain_count(items: list[Any]) -> Contender:
    utils: Any = importlib.import_module("langchain_core.messages.utils")
    # It reads no Anthropic tool results as dicts; the chat form says the same.
    chat = chat_of(items)
    return Contender(lambda: utils.count_tokens_approximately(chat))


def litellm_count(items: list[Any]) -> Contender:
    litellm: Any = importlib.import_module("litellm")
    chat = chat_of(items)
    return Contender(lambda: litellm.token_counter(model="gpt-4o", messages=chat))


def chat_of(items: list[Any]) -> list[Any]:
    from ullage.providers import openai_chat

    return list(openai_chat.to_provider(items).parts["messages"])


def turn(folder: Path) -> Operation:
    del folder
    items, new = bench_ledger.conversation(LENGTH), bench_ledger.conversation(2, 7)
    ledger = _core.Ledger(None, items)
    contenders = {
        OURS: Contender(lambda: bench_ledger.turn(ledger, new), iterations=OFTEN),
        "ullage, the list passed again": Contender(
            lambda: (ledger.sync(items), ledger.anchored()), iterations=OFTEN
        ),
        "lengths alone, plain Python": Contender(
            lambda: bench_ledger.plain_estimate([*items, *new])
        ),
    }
    whole = [*items, *new]
    assert bench_ledger.turn(ledger, new) == bench_ledger.plain_estimate(whole)
    optional(contenders, "langchain count_tokens_approximately", lambda: langchain_count(whole))
    return Operation(f"a turn at {LENGTH:,} messages, counted", "µs a turn", 1, contenders)


def transcript(folder: Path) -> Operation:
    path = bench_index.make(folder / "session.jsonl")
    bench_index.check(path)
    contenders = {
        OURS: Contender(lambda: bench_index.index(path)),
        "orjson.loads, kept": Contender(lambda: bench_index.keep_orjson(path)),
        "orjson.loads, dropped": Contender(lambda: bench_index.drop_orjson(path)),
        "json.loads, kept": Contender(lambda: bench_index.keep_json(path)),
    }
    optional(contenders, "pysimdjson, lazy, one field", lambda: simdjson_lazy(path))
    optional(contenders, "msgspec, untyped, kept", lambda: msgspec_lines(path))
    return Operation("index of a transcript", "MB/s", path.stat().st_size / 1e6, contenders)


def simdjson_lazy(path: Path) -> Contender:
    simdjson: Any = importlib.import_module("simdjson")

    def run() -> int:
        parser, found = simdjson.Parser(), 0
        for line in path.read_bytes().splitlines():
            # Only one document of a parser may be alive.
            document = parser.parse(line)
            found += len(document["type"])
            del document
        return found

    return Contender(run)


def msgspec_lines(path: Path) -> Contender:
    decoder = importlib.import_module("msgspec.json").Decoder()
    return Contender(lambda: decoder.decode_lines(path.read_bytes()))


def objects(folder: Path) -> Operation:
    path = bench_index.make(folder / "session.jsonl")
    index = bench_index.index(path)
    lines = path.read_bytes().splitlines()
    contenders = {
        OURS: Contender(lambda: [index.load(at) for at in range(len(index))]),
        "orjson.loads": Contender(lambda: [orjson.loads(line) for line in lines]),
    }
    equal(contenders, contenders)
    size = path.stat().st_size / 1e6
    return Operation("objects of all lines, on demand", "MB/s", size, contenders)


def rules(folder: Path) -> Operation:
    del folder
    items = bench_ledger.conversation(1000)
    ours, twin = _core.Ledger(None, items), _reference.Ledger(None, items)
    contenders = {
        OURS: Contender(lambda: [tuple(found) for found in _core.check(ours, "anthropic", {})]),
        TWIN: Contender(
            lambda: [tuple(found) for found in _reference.check(twin, "anthropic", {})]
        ),
    }
    equal(contenders, contenders)
    return Operation("Anthropic's rules over 1,000 messages", "µs a message", 1000, contenders)


def estimate(folder: Path) -> Operation:
    del folder
    text = bench_bpe.generated_json(random.Random(1))[:100_000]
    contenders = {
        OURS: Contender(lambda: list(_core.features(text))),
        TWIN: Contender(lambda: list(_reference.features(text))),
    }
    equal(contenders, contenders)
    name = "features of a text, for the calibrated estimate"
    return Operation(name, "MB/s", len(text) / 1e6, contenders)


# ---- exact counts ----------------------------------------------------------------------------


@cache
def texts() -> dict[str, list[str]]:
    return bench_bpe.corpus()


@cache
def counters() -> dict[str, Callable[[str], int]]:
    """By contender; what is not exact is left out."""
    found, _ = bench_bpe.installed("o200k_base")
    found.pop(bench_bpe.OTHER_ENCODING, None)
    sample = [text for kind in texts().values() for text in kind[::20]]
    expected = [found["tiktoken"](text) for text in sample]
    named = {TWIN if "Python" in name else name: count for name, count in found.items()}
    for ours in (OURS, TWIN):
        assert bench_bpe.wrong(named[ours], sample[::TWIN_SHARE], expected[::TWIN_SHARE]) == 0
    return named


def exact(kind: str, folder: Path) -> Operation:
    """Text that no contender has seen before, a part of it in each sweep."""
    del folder
    said = texts()[kind]
    length = len(said) // CHUNKS
    parts = [said[length * at : length * (at + 1)] for at in range(CHUNKS)]
    size = sum(len(text.encode()) for part in parts[1:] for text in part) / 1e6 / (CHUNKS - 1)
    contenders = {
        name: counting(count, parts, TWIN_SHARE if name == TWIN else 1, size)
        for name, count in counters().items()
    }
    return Operation(f"exact count, unseen {kind}", "MB/s", size, contenders, rounds=1)


def counting(
    count: Callable[[str], int], parts: list[list[str]], share: int, size: float
) -> Contender:
    coming = iter([part[: len(part) // share] for part in parts])

    def run(said: list[str]) -> None:
        for text in said:
            count(text)

    made = Contender(run, lambda: ((next(coming),), {}), amount=size / share)
    made.once()
    return made


# ---- levels ----------------------------------------------------------------------------------


def level(name: str, folder: Path) -> Operation:
    """A level that acts once over a whole conversation, on a fresh view in each round."""
    del folder
    messages = bench_levels.talk(LENGTH)
    act = bench_levels.checked(name, messages)
    contender = Contender(act, lambda: ((bench_levels.view_of(messages),), {}))
    title = f"{name}, over {len(messages):,} messages"
    return Operation(title, "µs a message", len(messages), {OURS: contender})


COUNTERS = (
    "tiktoken", OURS, TWIN, *(name for name in bench_bpe.PEERS if name != "tiktoken" and "ullage" not in name),
)  # fmt: skip
COUNTED = ("langchain count_tokens_approximately", "litellm token_counter")

OPERATIONS: dict[str, Planned] = {
    "scan": Planned(
        scan, (OURS, TWIN, "lengths alone, plain Python", "orjson.dumps of the list", *COUNTED)
    ),
    "scan in cache": Planned(
        scan_in_cache, (OURS, "lengths alone, plain Python", "orjson.dumps of the list")
    ),
    "turn": Planned(
        turn,
        (OURS, "ullage, the list passed again", "lengths alone, plain Python", COUNTED[0]),
    ),
    "index": Planned(
        transcript,
        (
            OURS,
            "orjson.loads, kept",
            "orjson.loads, dropped",
            "json.loads, kept",
            "pysimdjson, lazy, one field",
            "msgspec, untyped, kept",
        ),
    ),
    "objects": Planned(objects, (OURS, "orjson.loads")),
    "rules": Planned(rules, (OURS, TWIN)),
    "estimate": Planned(estimate, (OURS, TWIN)),
    **{f"level {name}": Planned(partial(level, name)) for name in bench_levels.LEVELS},
    **{f"exact {kind}": Planned(partial(exact, kind), COUNTERS) for kind in KINDS},
}

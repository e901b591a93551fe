"""Twice the keys of an object take about twice the time to index, in both engines, whatever the keys look like."""

from __future__ import annotations

import gc
import json
import time

import pytest

from ullage import _reference as twin

ENGINES = [pytest.param(twin, 3_000, id="python")]
try:
    from ullage import _core as rust
except ImportError:
    pass
else:
    # Few enough to stay in the processor's caches, whose ends would look like growth.
    ENGINES.append(pytest.param(rust, 3_000, id="rust"))

KEYS = {
    "plain": "k{}",
    "alike at both ends": "path{:08}name",
    "escaped": "k\\{}",
    "long": "a" * 60 + "{}",
    "one, again and again": "k",
}
MOST_GROWTH = 2.6
MOST_TRIES = 40


def line(place, key, count):
    members = ",".join(f"{json.dumps(key.format(at))}:1" for at in range(count))
    if place == "message":
        return f'{{"type":"user","message":{{{members}}}}}\n'.encode()
    if place == "line":
        return f'{{"type":"user",{members}}}\n'.encode()
    call = f'{{"type":"tool_use","id":"t","name":"b","input":{{{members}}}}}'
    said = f'{{"role":"assistant","content":[{call}]}}'
    return f'{{"type":"assistant","message":{said}}}\n'.encode()


def took(engine, data):
    start = time.process_time()
    index = engine.TranscriptIndex.from_bytes(data)
    spent = time.process_time() - start
    assert len(index) == 1
    return spent


@pytest.mark.parametrize("key", list(KEYS.values()), ids=list(KEYS))
@pytest.mark.parametrize("place", ["line", "message", "input"])
@pytest.mark.parametrize(("engine", "count"), ENGINES)
def test_twice_the_keys_take_about_twice_the_time(engine, count, place, key):
    small, large = line(place, key, count), line(place, key, 2 * count)
    one = two = float("inf")
    gc.disable()
    try:
        # The least of several: a busy machine makes single runs longer, never shorter.
        for tries in range(MOST_TRIES):
            one, two = min(one, took(engine, small)), min(two, took(engine, large))
            if tries >= 2 and two <= MOST_GROWTH * one:
                break
    finally:
        gc.enable()
    assert two <= MOST_GROWTH * one, f"{one:.4f} s, then {two:.4f} s"

"""The forward-use benchmark measures what it says; the extractive summary beats the tail on a generated session."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ullage.testing import scenario

FOLDER = Path(__file__).parents[2] / "benches" / "fidelity"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the benchmarks are not here")


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("cuts", "reducers", "forward_use")
    yield {name: __import__(name) for name in names}
    for name in names:
        sys.modules.pop(name, None)


def call(name, **given):
    block = {"type": "tool_use", "id": "t1", "name": name, "input": given}
    return {"role": "assistant", "content": [block]}


def result(text):
    block = {"type": "tool_result", "tool_use_id": "t1", "content": text}
    return {"role": "user", "content": [block]}


def test_identifiers_are_paths_symbols_ids_commands_and_options(bench):
    found = bench["forward_use"].identifiers(
        {
            "command": "go test ./cmd/app && git push --force-with-lease",
            "path": "/home/me/repo/src/app.py",
        }
    )
    assert {"go test", "git push", "--force-with-lease", "src/app.py"} <= found
    named = bench["forward_use"].identifiers({"pattern": "parse_header|TypeError and the rest"})
    assert named == {"parse_header", "TypeError"}


def test_what_was_seen_again_is_not_remembered(bench):
    before = [{"role": "user", "content": "see src/one.py and src/two.py and src/three.py"}]
    after = [
        call("Read", path="src/one.py"),
        result("import src/two.py"),
        call("Read", path="src/two.py"),
        call("Read", path="src/never.py"),
    ]
    cut = bench["cuts"].Cut("s", "boundary", before, after)
    used, remembered = bench["forward_use"].needs(cut)
    assert used == {"src/one.py", "src/two.py"}
    assert remembered == {"src/one.py"}


def test_the_score_is_the_share_that_is_held(bench):
    score = bench["forward_use"].score
    assert score("reads src/one.py", {"src/one.py", "src/two.py"}) == 0.5


def test_nobody_gets_more_room_than_the_others(bench):
    talk = scenario(5, tokens=30_000).messages
    reducers = bench["reducers"]
    for size in (400, 3_000):
        for reduce in (reducers.extractive, reducers.tail):
            assert 0 < reducers.count(reduce(talk, size)) <= size


def test_the_extractive_summary_holds_more_than_a_tail(bench):
    talk = list(scenario(5, tokens=60_000).messages)
    at = next(n for n in range(len(talk) * 2 // 3, len(talk)) if talk[n]["role"] == "assistant")
    cut = bench["cuts"].Cut("s", "60 %", talk[:at], talk[at:])
    used, _ = bench["forward_use"].needs(cut)
    assert len(used) >= bench["forward_use"].LEAST
    ours, tail = (
        bench["forward_use"].score(reduce(cut.before, 2_000), used)
        for reduce in (bench["reducers"].extractive, bench["reducers"].tail)
    )
    assert ours > tail

"""The sweep over prefixes of sessions: what it takes for judged has been judged, and what is wrong is found."""

from __future__ import annotations

import importlib
import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from ullage.testing import conversation

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benches():
    if not (ROOT / "benches" / "fidelity" / "prefixes.py").exists():
        pytest.skip("the benchmarks are not beside the tests")
    sys.path.insert(0, str(ROOT))
    try:
        yield lambda name: importlib.import_module(f"benches.fidelity.{name}")
    finally:
        sys.path.remove(str(ROOT))
        for name in [name for name in sys.modules if name.split(".")[0] == "benches"]:
            del sys.modules[name]


def swept(benches, operations, messages, *, whole=1_000):
    prefixes = benches("prefixes")
    account = prefixes.Account()
    account.counts["prefixes"] = 1  # so that none is judged as a whole in all forms
    sweep = prefixes.Sweep(account, whole=whole, second=1)
    for at in range(1, len(messages) + 1):
        sweep.judge(prefixes.Prefix(messages[:at], "here", None), operations)
    return account


def as_it_is(messages):
    return messages


def test_windows_cover_a_list_with_every_neighbour(benches):
    tools = benches("windows")
    messages = conversation(7, turns=4, tokens=6_000)
    contents = tools.Contents()
    numbers = contents.numbers(messages)
    found = list(tools.windows(numbers, contents))
    assert len(found) > 3
    assert found[0][0] == 0
    assert found[-1][1] == len(messages)
    for (start, stop), (after, _) in pairwise(found):
        assert start < after < stop  # the round between belongs to both
        assert messages[after]["role"] == "assistant"
    pairs = {(at, at + 1) for start, stop in found for at in range(start, stop - 1)}
    assert pairs == {(at, at + 1) for at in range(len(messages) - 1)}


def test_nothing_is_cut_between_a_server_call_and_its_result(benches):
    tools = benches("windows")
    call = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    talk = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": [result]},
        {"role": "user", "content": "c"},
    ]
    contents = tools.Contents()
    assert list(tools.windows(contents.numbers(talk), contents)) == [(0, 5)]


def test_equal_messages_have_one_number_whatever_object_they_are(benches):
    contents = benches("windows").Contents()
    messages = conversation(3, turns=2, tokens=2_000)
    contents.keep(messages)
    assert contents.numbers(messages) == contents.numbers([dict(each) for each in messages])
    other = [*messages[:-1], {**messages[-1], "content": "something else"}]
    assert contents.numbers(other)[-1] != contents.numbers(messages)[-1]


def test_a_session_is_legal_by_windows_and_as_a_whole(benches):
    messages = conversation(5, turns=4, tokens=6_000)
    account = swept(benches, {"as it is": as_it_is}, messages, whole=1)
    assert account.faults == {}
    assert account.counts["whole in all forms"] == len(messages)
    assert account.counts["windows"] < 3 * len(messages)


def test_what_has_been_judged_is_not_judged_again(benches):
    messages = conversation(5, turns=4, tokens=6_000)
    operations = {"as it is": as_it_is, "copied": lambda given: [dict(each) for each in given]}
    once = swept(benches, {"as it is": as_it_is}, messages)
    twice = swept(benches, operations, messages)
    assert twice.counts["lists"] == 2 * once.counts["lists"]
    assert twice.counts["requests"] == once.counts["requests"]


def test_an_operation_that_splits_a_pair_apart_is_found_in_every_form(benches):
    """The repair fixes it; but what needs a repair where the prefix needs none is reported, for each form."""

    def torn(messages):
        kept = [each for each in messages if not _holds_results(each)]
        return kept if len(kept) < len(messages) else messages

    messages = conversation(5, turns=3, tokens=4_000)
    account = swept(benches, {"as it is": as_it_is, "torn": torn}, messages)
    forms = {key.split(", ")[1] for key in account.mended if key.startswith("torn, ")}
    assert forms == set(benches("prefixes").SHAPES)


def _holds_results(message):
    content = message["content"]
    return isinstance(content, list) and any(each["type"] == "tool_result" for each in content)


def test_what_windows_miss_is_found_where_the_whole_is_judged(benches, monkeypatch):
    prefixes = benches("prefixes")
    monkeypatch.setattr(prefixes.Sweep, "_window", lambda *args: {"gemini"})
    account = swept(
        benches, {"as it is": as_it_is}, conversation(5, turns=2, tokens=2_000), whole=1
    )
    assert account.faults["as it is: windows differ"] > 0


def test_an_operation_that_raises_is_a_fault(benches):
    account = swept(
        benches,
        {"as it is": as_it_is, "broken": lambda given: given[9_999]},
        [{"role": "user", "content": "a"}],
    )
    assert account.faults == {"broken raised": 1}


def test_a_report_is_continued(benches, tmp_path):
    prefixes = benches("prefixes")
    account = prefixes.Account()
    account.counts.update(prefixes=3, files=1)
    account.fault("x", "y")
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"a/b.jsonl": vars(account)}))
    job = prefixes.Job(tmp_path / "a" / "b.jsonl", None, 1, 1, frozenset())
    total = prefixes.sweep_files([job], 1, report)
    assert (total.counts["prefixes"], total.shown, total.faults["x"]) == (3, ["x: y"], 1)

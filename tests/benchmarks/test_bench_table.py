"""The suite of benchmarks and its tables: what is checked, how figures are read from a record, where they are written."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ullage._engine import core

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benches():
    """What `benches` holds, imported without its place on the path for good."""
    if not (ROOT / "benches" / "table.py").exists():
        pytest.skip("the benchmarks are not beside the tests")
    if core.__name__ != "ullage._core":
        pytest.skip("what is measured is the Rust engine")
    sys.path.insert(0, str(ROOT))
    names = ("table", "operation", "users", "engine_operations", "python.bench_suite")
    try:
        found = {name.split(".")[-1]: importlib.import_module(f"benches.{name}") for name in names}
        yield SimpleNamespace(**found)
    finally:
        sys.path.remove(str(ROOT))
        for name in [name for name in sys.modules if name.split(".")[0] == "benches"]:
            del sys.modules[name]


def timed(
    group: str,
    operation: str,
    contender: str,
    seconds: float,
    amount: float,
    unit: str,
    figure="min",
):
    """One benchmark of a record, as pytest-benchmark writes it."""
    said = {"operation": operation, "contender": contender, "amount": amount, "unit": unit}
    return {
        "group": group,
        "extra_info": {**said, "figure": figure},
        "stats": {"min": seconds, "median": 3 * seconds},
    }


@pytest.fixture
def record():
    turn = ("idle turn", "a turn, at 70 messages")
    by_length = ("idle turn by length", "a turn, by length")
    body = "a turn on a body, at 1,000 messages: "
    sums = ("sums", "sums")
    return {
        "versions": "CPython 3.11",
        "benchmarks": [
            timed(*turn, "ullage", 12e-4, 100, "µs a turn"),
            timed(*turn, "langchain trim_messages", 2500e-6, 1, "µs a turn"),
            timed(*turn, "langchain ContextEditing", 1250e-6, 1, "µs a turn"),
            timed(*by_length, "ullage", 12e-4, 100, "µs a turn"),
            timed(*by_length, "ullage, at 90,000 messages", 13e-4, 100, "µs a turn"),
            timed("body: gemini", body + "gemini", "ullage", 12e-4, 100, "µs a turn", "median"),
            timed("body: mistral", body + "mistral", "ullage", 14e-4, 100, "µs a turn"),
            timed(*sums, "another", 0.5, 10, "MB/s"),
            timed(*sums, "ullage", 0.25, 308.6, "MB/s"),
        ],
    }


def test_different_answers_are_not_timed(benches) -> None:
    contender = benches.operation.Contender
    both = {"ullage": contender(lambda: 1), "twin": contender(lambda: 2)}
    with pytest.raises(AssertionError, match="twin answers otherwise than ullage"):
        benches.operation.equal(both, both)
    benches.operation.equal(both, ["ullage", "absent"])


def test_a_peer_that_fails_is_named_and_left_out(benches, capsys) -> None:
    contender, optional = benches.operation.Contender, benches.operation.optional
    found: dict = {}
    optional(found, "absent", lambda: importlib.import_module("no_such_peer"))
    optional(found, "broken", lambda: contender(lambda: 1 // 0))
    optional(found, "good", lambda: contender(lambda: 1))
    assert list(found) == ["good"]
    said = capsys.readouterr().err
    assert "skipped: absent: ModuleNotFoundError" in said
    assert "skipped: broken: ZeroDivisionError" in said


def test_figures_are_the_best_rounds_for_one_of_the_unit(benches, record) -> None:
    found = benches.table.figures(record)
    assert [round(each.value, 3) for each in found] == [12, 2500, 1250, 12, 13, 36, 14, 20, 1234.4]
    # Relative to Ullage's, wherever it stands.
    assert [round(each.ratio, 1) for each in found] == [1, 208.3, 104.2, 1, 1.1, 1, 1, 61.7, 1]


def test_ratios_are_of_one_sweep(benches) -> None:
    """A machine that is slow for a while is slow for all."""
    rows = [
        ("ullage", 1.0),
        ("peer", 3.0),
        ("ullage", 10.0),
        ("peer", 30.0),
        ("ullage", 2.0),
        ("peer", 8.0),
    ]
    record = {"benchmarks": [timed("g", "sums", name, took, 1, "µs") for name, took in rows]}
    ours, peer = benches.table.figures(record)
    assert (ours.value, ours.ratio) == (1e6, 1)
    assert (peer.value, peer.ratio) == (3e6, 3)


def test_the_tables_are_written_between_the_marks(benches, record, monkeypatch, tmp_path) -> None:
    table = benches.table
    tables, readme, made = (tmp_path / name for name in ("TABLES.md", "README.md", "record.json"))
    for path in (tables, readme):
        path.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n", encoding="utf-8")
    made.write_text(json.dumps(record), encoding="utf-8")
    monkeypatch.setattr(table, "TABLES", tables)
    monkeypatch.setattr(table, "README", readme)
    assert table.main([str(made), "--write"]) == 0
    for path in (tables, readme):
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"before\n{table.BEGIN}\n| ")
        assert text.endswith(f"{table.END}\nafter\n")
        assert "old" not in text
    assert (
        "| sums | another | 20.0 MB/s | 61.7 |\n|  | ullage | 1 234 MB/s | 1 |"
        in tables.read_text()
    )
    assert readme.read_text("utf-8").splitlines()[2:7] == [
        "| | Ullage | langchain |",
        "| --- | --: | --: |",
        # The faster of a library's two ways.
        "| a turn, at 70 messages | 12.0 µs | 104 × |",
        "| a turn, at 90,000 messages | 13.0 µs | – |",
        "| a turn on a body, at 1,000 messages, 2 forms | 14.0 µs to 36.0 µs | – |",
    ]


def test_the_documents_show_what_was_measured(benches) -> None:
    table = benches.table
    record = json.loads(table.RECORD.read_text(encoding="utf-8"))
    found = table.figures(record)
    assert "\n".join(table.everything(found)) in table.TABLES.read_text(encoding="utf-8")
    assert "\n".join(table.in_a_glance(found)) in table.README.read_text(encoding="utf-8")
    assert "node" not in record["machine_info"]


def test_the_suite_has_whatever_was_measured(benches) -> None:
    """A record of operations that there are no more is out of date."""
    planned = {
        (name, contender)
        for name, each in benches.bench_suite.SUITE.items()
        for contender in each.contenders
    }
    record = json.loads(benches.table.RECORD.read_text(encoding="utf-8"))
    known = {(each["group"], each["extra_info"]["contender"]) for each in record["benchmarks"]}
    assert known <= planned
    assert {name for name, _ in planned} == {name for name, _ in known}


def test_an_acting_turn_gets_a_manager_of_its_own_in_each_round(benches, monkeypatch, tmp_path):
    monkeypatch.setattr(benches.users, "PEERS", ())
    made = benches.users.acting_turn(tmp_path)
    assert list(made.contenders) == ["ullage"]
    run, setup, *_ = made.contenders["ullage"]
    managers = [setup()[0][0] for _ in range(2)]
    assert managers[0] is not managers[1]
    assert len(managers[0].messages) == len(managers[1].messages)
    for manager in managers:
        run(manager)  # where no level acts it fails


def test_each_chunk_of_a_text_is_counted_once(benches) -> None:
    seen: list[str] = []
    engine = benches.engine_operations
    parts = [[f"{part}{text}" for text in range(8)] for part in "abcd"]
    made = engine.counting(lambda text: seen.append(text) or 1, parts, share=2, size=6.0)
    for _ in range(engine.CHUNKS - 1):
        made.once()
    assert len(seen) == len(set(seen)) == 16
    assert made.amount == 3.0
    with pytest.raises(StopIteration):
        made.once()

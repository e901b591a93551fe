"""The table of measurements: what is checked, how ratios are taken, where it is written; our rows against the rules."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from ullage._engine import core

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def table():
    if not (ROOT / "benches" / "table.py").exists():
        pytest.skip("the benchmarks are not beside the tests")
    if core.__name__ != "ullage._core":
        pytest.skip("what is measured is the Rust engine")
    sys.path.insert(0, str(ROOT))
    try:
        yield importlib.import_module("benches.table")
    finally:
        sys.path.remove(str(ROOT))
        for name in [name for name in sys.modules if name.split(".")[0] == "benches"]:
            del sys.modules[name]


def test_different_answers_are_not_timed(table) -> None:
    runs = {table.OURS: lambda: 1, table.TWIN: lambda: 2}
    with pytest.raises(AssertionError, match="sums"):
        table.timed(table.Operation("sums", "MB/s", 1, runs))


def test_ratios_are_of_the_same_round(table, monkeypatch) -> None:
    took = iter([1.0, 3.0, 10.0, 20.0, 2.0, 8.0])
    monkeypatch.setattr(table, "clock", lambda run, wall: next(took))
    runs = {table.OURS: lambda: 1, table.TWIN: lambda: 1}
    ours, twin = table.timed(table.Operation("sums", "µs a message", 10, runs, rounds=3))
    assert (ours.value, ours.ratio) == (100_000, 1)
    assert (twin.value, twin.ratio) == (300_000, 3)


def test_a_peer_that_fails_is_named_and_left_out(table, capsys) -> None:
    runs: dict = {}
    table.optional(runs, "absent", lambda: importlib.import_module("no_such_peer"))
    table.optional(runs, "broken", lambda: lambda: 1 // 0)
    table.optional(runs, "good", lambda: lambda: 1)
    assert list(runs) == ["good"]
    said = capsys.readouterr().err
    assert "skipped: absent: ModuleNotFoundError" in said
    assert "skipped: broken: ZeroDivisionError" in said


def test_only_what_stands_between_the_marks_is_replaced(table, monkeypatch, tmp_path) -> None:
    page, figures = (tmp_path / name for name in ("page.md", "figures.json"))
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(table, "PAGE", page)
    monkeypatch.setattr(table, "FIGURES", figures)
    readme = tmp_path / "README.md"
    readme.write_text("a\n| a turn with nothing to do | | 1 µs |\nb\n", encoding="utf-8")
    monkeypatch.setattr(table, "README", readme)
    found = [
        table.Figure("a turn, at 70 messages", table.OURS, 12.0, "µs a turn", 1.0),
        table.Figure(
            "a turn, at 70 messages", "ullage, at 90,000 messages", 13.0, "µs a turn", 1.08
        ),
        table.Figure(
            "a turn, at 70 messages", "langchain trim_messages", 2500.0, "µs a turn", 208.3
        ),
        table.Figure("sums", table.OURS, 1234.5, "MB/s", 1.0),
        table.Figure("sums", table.TWIN, 4.5, "MB/s", 274.3),
    ]
    table.write(table.markdown(found, []), found, [])
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{table.BEGIN}\n| | a turn, at 70 messages |\n")
    assert "| langchain trim_messages | 2.50 ms, 208 × |" in text
    assert readme.read_text("utf-8").splitlines()[1] == (
        "| a turn with nothing to do (two messages added, a request), at 70, at 90,000 messages "
        "| | 12.0 µs, 13.0 µs |"
    )
    assert text.endswith(f"{table.END}\nafter\n")
    assert "old" not in text
    assert "| sums | ullage | 1 234 MB/s | 1 |" in text
    assert json.loads(figures.read_text())["figures"][3]["contender"] == "ullage"


def test_the_page_shows_what_was_measured(table) -> None:
    page = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
    figures = json.loads((ROOT / "benches" / "table.json").read_text(encoding="utf-8"))["figures"]
    assert table.markdown([table.Figure(**each) for each in figures], []) in page


@pytest.mark.parametrize(
    "name",
    ["ullage: all levels", "ullage: clear tool uses, keep 3", "ullage: compact, extractive"],
)
def test_our_rows_are_legal_and_within_the_budget(table, monkeypatch, name: str) -> None:
    context = table.context
    monkeypatch.setattr(context, "SEEDS", range(1, 3))
    monkeypatch.setattr(context, "ROUNDS", 1)
    row = context.measure(context.MAKERS[name](), context.conversations())
    assert (row.legal, row.within_budget, row.broken) == (2, 2, ())
    assert 0 < row.kept_percent < 50


def test_what_is_broken_is_seen(table, monkeypatch) -> None:
    context = table.context
    monkeypatch.setattr(context, "SEEDS", range(1, 2))
    monkeypatch.setattr(context, "ROUNDS", 1)
    cut = context.Contender("cut", "anthropic", list, lambda messages: messages[-3:], list)
    row = context.measure(cut, context.conversations())
    assert row.legal == 0
    assert row.prefix_percent == 0
    assert row.broken


def test_an_acting_turn_acts_once_for_each_state_that_was_made(table, monkeypatch, tmp_path):
    users = table.users
    monkeypatch.setattr(users, "POOL", 2)
    monkeypatch.setattr(users, "PEERS", ())
    case = users.acting_turn(tmp_path)
    assert list(case.runs) == ["ullage"]
    case.runs["ullage"]()
    with pytest.raises(StopIteration):
        case.runs["ullage"]()

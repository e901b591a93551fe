"""The gate on instruction counts: what passes, what fails, what is only said."""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benches" / "gates.py"


@pytest.fixture(scope="module")
def gates():
    if not FILE.exists():
        pytest.skip("the benchmarks are not beside the tests")
    spec = importlib.util.spec_from_file_location("gates_under_test", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def recorded(gates, *, python: str | None = None) -> dict:
    return {
        "python": python or gates.python(),
        "tolerance_percent": 5,
        "instructions": {case.name: 1000 for case in every(gates)},
    }


def every(gates) -> list:
    return [*gates.CASES, *gates.STARTS]


@pytest.mark.parametrize(
    ("count", "python", "good"),
    [
        (1000, None, True),
        (1049, None, True),
        (1051, None, False),
        (500, None, True),
        (1149, "2.7", True),
        (1151, "2.7", False),
    ],
)
def test_only_what_grew_too_much_fails(gates, capsys, count, python, good) -> None:
    found = [1000.0] * (len(every(gates)) - 1) + [float(count)]
    assert gates.compare(found, recorded(gates, python=python)) is good
    assert ("TOO MUCH" in capsys.readouterr().out) is not good


def test_a_case_without_a_record_fails(gates, capsys) -> None:
    data = recorded(gates)
    del data["instructions"][gates.CASES[0].name]
    assert not gates.compare([9e9] + [1000.0] * (len(every(gates)) - 1), data)
    assert "NOT RECORDED" in capsys.readouterr().out


def test_without_valgrind_the_gates_say_that_they_were_skipped(gates, capsys, monkeypatch) -> None:
    monkeypatch.setattr(gates.shutil, "which", lambda name: None)
    assert gates.main([]) == 0
    assert capsys.readouterr().out == "gates skipped: valgrind is not installed\n"


def test_another_architecture_is_not_compared(gates, capsys, monkeypatch) -> None:
    monkeypatch.setattr(gates.shutil, "which", lambda name: "/usr/bin/valgrind")
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    assert gates.main([]) == 0
    assert capsys.readouterr().out.startswith("gates skipped: recorded on ")


def test_every_case_is_recorded(gates) -> None:
    data = json.loads(gates.RECORDED.read_text())
    assert list(data["instructions"]) == [case.name for case in every(gates)]

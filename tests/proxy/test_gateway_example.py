"""`examples/through_the_gateway.py` runs as it stands."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

for needed in ("uvicorn", "httptools", "aiohttp", "starlette", "prometheus_client", "cyclopts"):
    pytest.importorskip(needed)
pytest.importorskip("anthropic")

PROGRAM = Path(__file__).parents[2] / "examples" / "through_the_gateway.py"


def test_a_client_that_knows_nothing_of_it_outgrows_its_window(capsys, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    given = ["--model", "gpt-4-32k", "--questions", "12", "--lines", "400"]
    found = runpy.run_path(str(PROGRAM))["main"](given)
    assert found["ullage_proxy_calls_total"] >= 23
    assert found["ullage_proxy_changed_total"] > 0
    assert found["ullage_proxy_saved_tokens_total"] > 5_000
    assert "question 12: 48 messages here" in capsys.readouterr().out

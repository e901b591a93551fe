"""What a compaction sends, path by path, is what `golden/requests.json` says, to the byte."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("anthropic")
pytest.importorskip("openai")

FOLDER = Path(__file__).parents[1] / "golden"
MADE = runpy.run_path(str(FOLDER / "make_requests.py"))
STORED = json.loads((FOLDER / "requests.json").read_text(encoding="utf-8"))
HINT = "what is sent has changed: run python tests/golden/make_requests.py and name it in the changelog"


def test_the_file_holds_every_path():
    assert list(STORED) == list(MADE["PATHS"])


@pytest.mark.parametrize("name", list(MADE["PATHS"]))
def test_what_is_sent(name):
    sent = json.dumps(MADE["PATHS"][name](), ensure_ascii=False)
    assert sent == json.dumps(STORED[name], ensure_ascii=False), HINT


def test_another_process_sends_the_same_bytes():
    code = f"import runpy; print(runpy.run_path({str(FOLDER / 'make_requests.py')!r})['make'](), end='')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONUTF8": "1"},
    )
    assert done.stdout == (FOLDER / "requests.json").read_bytes(), HINT


def roles(body: dict) -> list[str]:
    return [message["role"] for message in body["messages"]]


def test_each_path_differs_from_the_first_as_it_should():
    first = STORED["anthropic, first try"][0]
    assert "thinking" not in json.dumps(first)
    assert "aGk=" not in json.dumps(first)
    gap, share = (
        STORED[f"anthropic, after an overflow {how}"][1]
        for how in ("with a gap", "without figures")
    )
    for body in (gap, share):
        assert body["messages"][0]["content"].startswith("[Earlier turns were cut")
        assert {k: v for k, v in body.items() if k != "messages"} == {
            k: v for k, v in first.items() if k != "messages"
        }
    parts = STORED["anthropic, in parts"]
    assert len(parts) > 1
    assert "<earlier_summary>" in parts[1]["messages"][-1]["content"]
    hooked = STORED["anthropic, hooks and instructions"][0]["messages"][-1]["content"]
    assert hooked.index("all tables") < hooked.index("SHOP-7")
    assert "shop" not in json.dumps(STORED["anthropic, redacted"][0]["messages"])
    shared = STORED["anthropic, shared prefix"][0]
    assert shared["messages"][-2]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert "tool_choice" not in shared

"""Neither engine imports the other."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

USE = """
import json, sys, tempfile
import ullage
from ullage._engine import NAME, core
item = {"role": "user", "content": "x"}
ledger = core.Ledger(None, [item])
ledger.keep_window(0), ledger.anchored(), ledger.message(0), ledger.blocks(0)
index = core.TranscriptIndex.from_bytes(json.dumps({**item, "a": 10**30}).encode() + b'\\n{"a": "\\\\ud800"}\\n')
index.line(0), index.load(0), index.load(1), index.heads(), index.ledger([0])
core.check(ledger, "anthropic", {})
ullage.keep_window([item]), ullage.estimate_tokens([item]), ullage.compact([item] * 2)
print(NAME, sorted(name for name in sys.modules if name.startswith(%r)))
"""


@pytest.mark.parametrize(
    ("name", "other"), [("rust", "ullage._reference"), ("python", "ullage._core")]
)
def test_an_engine_needs_nothing_of_the_other(name, other):
    if name == "rust":
        pytest.importorskip("ullage._core")
    done = subprocess.run(
        [sys.executable, "-c", USE % other],
        capture_output=True,
        text=True,
        env={**os.environ, "ULLAGE_ENGINE": name},
    )
    assert done.stdout.strip() == f"{name} []", done.stderr

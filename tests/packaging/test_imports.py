"""`import ullage` is cheap and pulls in nothing optional."""

from __future__ import annotations

import json
import subprocess
import sys

PROBE = """
import json, sys, time
before = set(sys.modules)
start = time.process_time()
import ullage
spent = time.process_time() - start
print(json.dumps({"seconds": spent, "modules": sorted(set(sys.modules) - before)}))
"""

OPTIONAL = {
    "anthropic", "openai", "rich", "hypothesis", "pydantic", "httpx", "httpx2", "tiktoken", "numpy",
    "opentelemetry", "jinja2", "asyncio", "sqlite3", "http.server",
}  # fmt: skip


def probe() -> dict:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_import_pulls_in_nothing_optional():
    loaded = set(probe()["modules"])
    assert not loaded & OPTIONAL


def test_import_takes_less_than_50_ms():
    # Best of five: the bound is about our code, not about a busy machine.
    assert min(probe()["seconds"] for _ in range(5)) < 0.050

"""`import ullage.testing` brings in nothing optional and nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import ullage.testing

HEAVY = ("hypothesis", "anthropic", "openai", "http.server", "asyncio", "pytest", "rich")


def run(code):
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(made.stdout)


def test_nothing_heavy_is_imported():
    loaded = run("import json, sys, ullage.testing; print(json.dumps(sorted(sys.modules)))")
    assert [name for name in HEAVY if name in loaded] == []
    assert "ullage.testing.generator" in loaded


def test_public_names_are_there():
    names = ullage.testing.__all__
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(ullage.testing, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = ullage.testing.nonsense

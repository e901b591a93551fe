"""`import ullage` is cheap and pulls in nothing optional."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import ullage

# Without `site`, which may have imported what it is to be seen that we do not.
PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
import ullage
loaded = sorted(set(sys.modules) - before)
import json
print(json.dumps(loaded))
"""


def loaded() -> set[str]:
    folder = str(Path(ullage.__file__).parents[1])
    command = [sys.executable, "-I", "-S", "-c", PROBE, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_import_costs_a_handful_of_small_modules():
    # What it costs is what it imports; a wall time would measure the machine.
    modules = loaded()
    assert {name for name in modules if name.startswith("ullage")} == {"ullage", "ullage._version"}
    assert len(modules) <= 12, modules
    assert not modules & {
        "importlib.metadata", "email", "zipfile", "typing", "re", "json", "collections", "dataclasses", "pathlib", "logging",
    }  # fmt: skip


def test_the_engine_needs_no_metadata_of_the_installation():
    code = "from ullage._engine import NAME; import sys; print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

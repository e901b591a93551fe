"""What starting costs, measured by what is imported: a wall time would measure the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

import ullage

# Without `site`, which may have imported what it is to be seen that we do not.
PROBE = """
import sys
sys.path[:0] = sys.argv[2:]
before = set(sys.modules)
exec(sys.argv[1])
loaded = sorted(set(sys.modules) - before)
import json
print(json.dumps(loaded))
"""
FOLDERS = [str(Path(module.__file__ or "").parents[1]) for module in (ullage, orjson)]


def loaded(code: str) -> set[str]:
    command = [sys.executable, "-I", "-S", "-c", PROBE, code, *FOLDERS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "ullage"}


def test_import_costs_a_handful_of_small_modules():
    modules = loaded("import ullage")
    assert ours(modules) == {"ullage", "ullage._version"}
    assert len(modules) <= 12, modules
    assert not modules & {
        "importlib.metadata", "email", "zipfile", "typing", "re", "json", "collections", "dataclasses", "pathlib", "logging",
    }  # fmt: skip


def test_a_manager_loads_what_summarises_only_when_it_does():
    modules = loaded("from ullage import ContextManager")
    assert len(ours(modules)) <= 155, sorted(ours(modules))
    assert not modules & {
        "ullage.compaction.flow", "ullage.facts.collector", "ullage.summarizers.extractive",
        "ullage.summarizers.openai", "email", "asyncio", "cyclopts", "rich",
        "ullage.observe.events", "ullage.facts.model", "ullage.transcript.log", "ullage.transcript.records",
        "ullage.recall.store", "ullage.legality.repairs", "ullage.compaction.prefetch",
    }  # fmt: skip


def test_the_first_request_loads_nothing_more():
    modules = loaded(
        "from ullage import ContextManager; given = set(sys.modules)\n"
        "manager = ContextManager(model='claude-opus-4-5')\n"
        "manager.add({'role': 'user', 'content': 'hello'}); manager.prepare()\n"
        "for name in given: sys.modules.pop(name) if name.startswith('ullage') else None"
    )
    assert not ours(modules)


def test_the_version_is_printed_without_the_parser_of_commands():
    modules = loaded("from ullage.cli import main; assert main(['--version']) == 0")
    assert ours(modules) <= {"ullage", "ullage._version", "ullage.cli", "ullage.exceptions"}
    assert len(modules) <= 40, sorted(modules)
    assert not modules & {"cyclopts", "rich", "typing", "dataclasses", "json"}


def test_a_command_in_a_pipe_loads_nothing_that_draws():
    modules = loaded("from ullage.cli import main; main(['policy'])")
    assert not modules & {"rich.console", "rich.table", "rich.text", "shutil"}


def test_a_hook_loads_what_it_does_alone():
    modules = loaded("import ullage.clients.lost_facts")
    assert not modules & {"cyclopts", "rich", "ullage.policy", "ullage.levels.view", "subprocess"}
    assert not ours(loaded("import ullage.clients.hook")) & {"ullage.sessions", "ullage._start"}


def test_the_gateway_loads_managers_what_summarises_and_its_page_when_they_are_asked_for():
    pytest.importorskip("uvicorn")
    modules = loaded("import ullage.proxy.gateway")
    assert not modules & {
        "jinja2", "prometheus_client", "h11", "ullage.ullage_check", "ullage.sessions.load",
        "ullage.compaction.flow", "ullage.facts.collector", "ullage.summarizers.extractive",
        "ullage.manager.manager", "ullage.levels.view", "ullage.providers.errors",
    }  # fmt: skip


def test_the_engine_needs_no_metadata_of_the_installation():
    code = "from ullage._engine import NAME; import sys; print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

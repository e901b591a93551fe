"""The page about frameworks: each block runs where its framework is, each line of its table names what exists."""

from __future__ import annotations

import gc
import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ullage.testing import ScriptedServer

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
WINDOW = {"max_input_tokens": 32_000, "max_output_tokens": 2_000}
NEEDED = {
    "LangChain": "langchain",
    "Pydantic AI": "pydantic_ai",
    "OpenAI Agents SDK": "agents",
    "Strands": "strands",
    "Google ADK": "google.adk",
    "smolagents": "smolagents",
    "Microsoft Agent Framework": "agent_framework",
    "Inspect": "inspect_ai",
    "LlamaIndex": "llama_index.core",
    "litellm": "litellm",
    "Claude Agent SDK": "claude_agent_sdk",
}


def test_every_section_is_known():
    assert set(SECTIONS) == set(NEEDED)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("title", NEEDED)
def test_the_block_of_each_section_runs(title, tmp_path, monkeypatch):
    pytest.importorskip(NEEDED[title], reason="`make integrations` installs it")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", SECTIONS[title], re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, title, "exec"), names)


def test_the_graph_of_plain_langgraph_runs(monkeypatch):
    pytest.importorskip("langgraph", reason="`make integrations` installs it")
    page = (ROOT / "docs" / "how-to" / "whole-list.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n([^`]*langgraph[^`]*)^```", page, re.MULTILINE)
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    with ScriptedServer("tool_call") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        names: dict[str, Any] = {}
        exec(compile(block, "whole-list.md", "exec", dont_inherit=True), names)
        names["client"].close()
        assert [each.status for each in server.requests] == [200, 200]
        assert [len(each.json["messages"]) for each in server.requests] == [2, 4]


def test_extras_of_the_table_exist():
    extras = set(re.findall(r"`ullage\[([a-z-]+)\]`", PAGE))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extra in extras:
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra


def test_the_table_counts_no_more_tests_than_there_are():
    rows = re.findall(r"^\| ([^|]+) \| `.*\| (\d+) \| [^|]+ \|$", PAGE, re.MULTILINE)
    assert len(rows) == len(NEEDED)
    for title, count in rows:
        module = NEEDED[title.partition(",")[0]].replace(".", "_").replace("_core", "")
        module = {"agents": "openai_agents", "litellm": "litellm_callback"}.get(module, module)
        names = f"test_{module.replace('claude_agent_sdk', 'agent_sdk')}*.py"
        files = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob(names)]
        found = sum(len(re.findall(r"^(?:async )?def test_", text, re.MULTILINE)) for text in files)
        assert found >= int(count) > 0, title


def program(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / "frameworks" / name))


def test_the_langchain_example():
    pytest.importorskip("langchain", reason="`make integrations` installs it")
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools, **more):
            return self

    call = {"name": "read", "args": {"path": "nowhere"}, "id": "c1"}
    answers = iter([AIMessage("", tool_calls=[call]), AIMessage("There is no such file.")])
    model = Model(messages=answers, profile=WINDOW)
    said = program("langchain_agent.py")["main"](model, "What is in it?")
    assert said == "There is no such file."


def test_the_pydantic_ai_example():
    pytest.importorskip("pydantic_ai", reason="`make integrations` installs it")
    from pydantic_ai.models.test import TestModel

    model = TestModel(custom_output_text="There is no such file.", model_name="gpt-5.4")
    said = program("pydantic_ai_agent.py")["main"](model, "What is in it?")
    assert said == "There is no such file."


def test_the_openai_agents_example():
    pytest.importorskip("agents", reason="`make integrations` installs it")
    from agents import set_tracing_disabled
    from agents.testing import ScriptedModel, assistant_message, function_call

    set_tracing_disabled(True)
    call = [function_call("read", {"path": "nowhere"}, call_id="c1")]
    model = ScriptedModel([call, [assistant_message("There is no such file.")]])
    said = program("openai_agents_agent.py")["main"](model, "What is in it?")
    assert said == "There is no such file."


def test_the_strands_example():
    pytest.importorskip("strands", reason="`make integrations` installs it")
    from tests.frameworks.test_strands import Script

    said = program("strands_agent.py")["main"]("What is in it?", Script(0, window=32_000))
    assert said == "All looked at."


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_the_google_adk_example():
    pytest.importorskip("google.adk", reason="`make integrations` installs it")
    from tests.frameworks.test_google_adk import Script

    Script.sent.clear()
    Script.rounds = 0
    said = program("google_adk_agent.py")["main"]("scripted-1", "What is in it?")
    assert said == "All looked at."


def test_the_smolagents_example():
    pytest.importorskip("smolagents", reason="`make integrations` installs it")
    from tests.frameworks.test_smolagents import Script

    said = program("smolagents_agent.py")["main"]("What is in it?", Script(0))
    assert said == "All looked at."


def test_the_agent_framework_example():
    pytest.importorskip("agent_framework", reason="`make integrations` installs it")
    from tests.frameworks.test_agent_framework import Script

    said = program("agent_framework_agent.py")["main"]("What is in it?", Script(0))
    assert said == "All looked at."


@pytest.mark.filterwarnings("ignore")
def test_the_inspect_example(tmp_path):
    pytest.importorskip("inspect_ai", reason="`make integrations` installs it")
    from tests.frameworks.test_inspect_ai import Script, mock

    model = mock(Script(0))
    said = program("inspect_ai_agent.py")["main"](model, "What is in it?", str(tmp_path))
    assert said.strip().endswith("All looked at.")
    gc.collect()  # streams that Inspect leaves open, while their warnings are ignored


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_the_llama_index_example():
    pytest.importorskip("llama_index.core", reason="`make integrations` installs it")
    from tests.frameworks.test_llama_index import Script, model

    llm = model(Script(1, tool="read", name="path"))
    assert program("llama_index_agent.py")["main"]("What is in it?", llm) == "Looked at."


def test_modules_are_imported_by_nobody_else():
    program = "import sys, ullage, ullage.integrations; print([n for n in sys.modules if n.startswith('ullage.integrations.')])"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
    assert importlib.import_module("ullage.integrations").__doc__

"""CrewAI and Agno by `view`, as the page shows it, and AG2 through the gateway: real packages, a window that the tools overflow.

Each program runs in a process of its own: these packages set up telemetry and warn where they are imported.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ullage.testing import ScriptedServer

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "whole-list.md"
CALLS = 10
"""Results of about 3,000 tokens each: more than twice the window."""

START = """
import itertools
from ullage import ContextManager

pages = itertools.count(1)  # CrewAI stops a run whose tool repeats itself

def Read(path: str = "", file_path: str = "") -> str:
    "Reads a file."
    return f"row of page {next(pages)}\\n" * 750
"""

CREWAI = """
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

reader = tool("Read")(Read)
agent = Agent(role="cooper", goal="answer", backstory="knows casks", tools=[reader],
              llm=LLM(model="openai/gpt-5.4"), max_iter=30)
task = Task(description="What is in the cask?", expected_output="a word", agent=agent)
print(Crew(agents=[agent], tasks=[task], tracing=False).kickoff().raw)
"""

AGNO = """
from agno.agent import Agent
from agno.models.openai import OpenAIChat
{block}
agent = Agent(model=model, tools=[Read], instructions="Be brief.", telemetry=False)
print(agent.run("What is in the cask?").content)
"""

AG2 = """
import asyncio
from ag2 import Agent, tool
from ag2.config import OpenAIConfig
from tests.proxy.kit import Proxy

with Proxy({url!r}) as proxy:
    model = OpenAIConfig(model="gpt-4-32k", base_url=proxy.openai_url, api_key="test")
    agent = Agent("cooper", prompt="Be brief.", config=model, tools=[tool(Read)])
    print(asyncio.run(agent.ask("What is in the cask?")).body)
"""


def block_of(title: str) -> str:
    """The page's program, in a window of 12,000 tokens."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1]
    block = re.search(r"^```text\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[1]
    assert 'model="gpt-5.4", provider' in block
    return block.replace(
        'model="gpt-5.4", provider', 'model="gpt-5.4", context_window=12_000, provider'
    )


def run(program: str, folder: Path, url: str) -> str:
    env = {
        **os.environ,
        "HOME": str(folder),
        "OPENAI_API_KEY": "test",
        "OPENAI_BASE_URL": url,
        "CREWAI_DISABLE_TELEMETRY": "true",
        "OTEL_SDK_DISABLED": "true",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run([sys.executable, "-c", START + program], cwd=folder, env=env, capture_output=True,
                          text=True, timeout=120, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def sizes(server: ScriptedServer) -> list[int]:
    assert [each.status for each in server.requests] == [200] * len(server.requests)
    return [len(json.dumps(each.json["messages"])) // 4 for each in server.requests]


def test_crewai_by_its_hook(tmp_path):
    pytest.importorskip("crewai", reason="`make integration-crewai` installs it")
    with ScriptedServer(*["tool_call"] * CALLS) as server:
        run(block_of("CrewAI") + CREWAI, tmp_path, server.openai_url)
    found = sizes(server)
    assert len(found) == CALLS + 1
    assert max(found) < 12_000


def test_agno_by_a_model_of_its_own(tmp_path):
    pytest.importorskip("agno", reason="`make integrations` installs it")
    with ScriptedServer(*["tool_call"] * CALLS) as server:
        run(AGNO.format(block=block_of("Agno")), tmp_path, server.openai_url)
    found = sizes(server)
    assert len(found) == CALLS + 1
    assert max(found) < 12_000


def test_ag2_through_the_gateway(tmp_path):
    for name in ("ag2", "uvicorn", "httptools", "prometheus_client"):
        pytest.importorskip(name, reason="`make integrations` installs it")
    with ScriptedServer(*["tool_call"] * (CALLS + 5)) as server:
        run(AG2.format(url=server.url), tmp_path, server.openai_url)
    found = sizes(server)
    assert len(found) == CALLS + 6
    assert max(found) < 32_768

"""An agent of the OpenAI Agents SDK that keeps within its model's window: `python openai_agents_agent.py gpt-5.4 "What is in notes.md?"`."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, Runner, function_tool

from ullage.integrations.openai_agents import ullage_filter


@function_tool
def read(path: str) -> str:
    """Reads a file."""
    found = Path(path)
    return found.read_text(encoding="utf-8") if found.is_file() else "No such file"


def main(model: Any, question: str) -> str:
    agent = Agent("reader", model=model, tools=[read])
    config = RunConfig(call_model_input_filter=ullage_filter())
    return str(asyncio.run(Runner.run(agent, question, run_config=config)).final_output)


if __name__ == "__main__":
    print(main(*sys.argv[1:3]))

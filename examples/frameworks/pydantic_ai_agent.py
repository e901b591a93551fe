"""A Pydantic AI agent that keeps within its model's window: `python pydantic_ai_agent.py openai:gpt-5.4 "What is in notes.md?"`."""

import sys
from pathlib import Path
from typing import Any

from pydantic_ai import Agent

from ullage.integrations.pydantic_ai import Ullage


def read(path: str) -> str:
    """Reads a file."""
    found = Path(path)
    return found.read_text(encoding="utf-8") if found.is_file() else "No such file"


def main(model: Any, question: str) -> str:
    agent = Agent(model, tools=[read], capabilities=[Ullage()])
    return str(agent.run_sync(question).output)


if __name__ == "__main__":
    print(main(*sys.argv[1:3]))

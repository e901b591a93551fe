"""A Strands agent that keeps within its model's window: `python strands_agent.py "What is in notes.md?"` (Bedrock's usual model)."""

import sys
from pathlib import Path
from typing import Any

from strands import Agent, tool

from ullage.integrations.strands import UllageConversationManager


@tool
def read(path: str) -> str:
    """Reads a file."""
    found = Path(path)
    return found.read_text(encoding="utf-8") if found.is_file() else "No such file"


def main(question: str, model: Any = None) -> str:
    agent = Agent(model=model, tools=[read], conversation_manager=UllageConversationManager())
    return str(agent(question)).strip()


if __name__ == "__main__":
    print(main(sys.argv[1]))

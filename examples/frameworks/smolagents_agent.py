"""A smolagents agent that keeps within its model's window: `python smolagents_agent.py "What is in notes.md?"` (Hugging Face's usual model)."""

import sys
from pathlib import Path
from typing import Any

from smolagents import InferenceClientModel, ToolCallingAgent, tool

from ullage.integrations.smolagents import UllageCallback


@tool
def read(path: str) -> str:
    """Reads a file.

    Args:
        path: Where it is.
    """
    found = Path(path)
    return found.read_text(encoding="utf-8") if found.is_file() else "No such file"


def main(question: str, model: Any = None) -> str:
    agent = ToolCallingAgent(
        tools=[read],
        model=model or InferenceClientModel(),
        step_callbacks=[UllageCallback(context_window=32_000)],
    )
    return str(agent.run(question)).strip()


if __name__ == "__main__":
    print(main(sys.argv[1]))

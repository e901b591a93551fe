"""An agent of Microsoft's Agent Framework that keeps within its model's window: `python agent_framework_agent.py "What is in notes.md?"` (needs agent-framework-openai)."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from agent_framework import Agent, tool

from ullage.integrations.agent_framework import UllageChatMiddleware


@tool(approval_mode="never_require")
def read(path: str) -> str:
    """Reads a file."""
    found = Path(path)
    return found.read_text(encoding="utf-8") if found.is_file() else "No such file"


def main(question: str, client: Any) -> str:
    agent = Agent(client, "Be brief.", tools=[read], middleware=[UllageChatMiddleware()])
    return asyncio.run(agent.run(question)).text


if __name__ == "__main__":
    from agent_framework.openai import OpenAIChatClient

    print(main(sys.argv[1], OpenAIChatClient(model="gpt-5.4")))

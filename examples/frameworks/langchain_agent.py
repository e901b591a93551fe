"""A LangChain agent that keeps within its model's window: `python langchain_agent.py openai:gpt-5.4 "What is in notes.md?"`."""

import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from ullage.integrations.langchain import UllageMiddleware


@tool
def read(path: str) -> str:
    """Reads a file."""
    found = Path(path)
    return found.read_text(encoding="utf-8") if found.is_file() else "No such file"


def main(model: Any, question: str) -> str:
    agent = create_agent(model, tools=[read], middleware=[UllageMiddleware()])
    done = agent.invoke({"messages": [{"role": "user", "content": question}]})
    return str(done["messages"][-1].text)


if __name__ == "__main__":
    print(main(*sys.argv[1:3]))

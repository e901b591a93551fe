"""A LlamaIndex agent that keeps within its model's window: `python llama_index_agent.py "What is in notes.md?"` (needs llama-index-llms-openai)."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent

from ullage.integrations.llama_index import UllageLLM


def read(path: str) -> str:
    """Reads a file."""
    found = Path(path)
    return found.read_text(encoding="utf-8") if found.is_file() else "No such file"


async def ask(question: str, llm: Any) -> str:
    agent = FunctionAgent(tools=[read], llm=UllageLLM(llm), system_prompt="Be brief.")
    return str(await agent.run(question))


def main(question: str, llm: Any) -> str:
    return asyncio.run(ask(question, llm))


if __name__ == "__main__":
    from llama_index.llms.openai import OpenAI

    print(main(sys.argv[1], OpenAI(model="gpt-5.4")))

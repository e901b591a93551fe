"""A loop over tools on litellm that keeps within its model's window: `python litellm_agent.py openai/gpt-5.4 "What is in notes.md?"`."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import litellm

from ullage.integrations.litellm import UllageLogger

READ = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "Reads a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
}


def read(arguments: str) -> str:
    found = Path(json.loads(arguments)["path"])
    return found.read_text(encoding="utf-8") if found.is_file() else "No such file"


async def ask(model: str, question: str) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    while True:
        answer: Any = await litellm.acompletion(model=model, messages=messages, tools=[READ])
        said = answer.choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        if not said.tool_calls:
            return said.content or ""
        for call in said.tool_calls:
            text = read(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


def main(model: str, question: str) -> str:
    litellm.callbacks = [UllageLogger()]
    return asyncio.run(ask(model, question))


if __name__ == "__main__":
    print(main(*sys.argv[1:3]))

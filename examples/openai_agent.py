"""An agent on OpenAI's chat completions, or on any local server with that API.

    pip install 'ullage[openai]'
    export OPENAI_API_KEY=…
    python examples/openai_agent.py "Read README.md. What does it say about recall?"

A local server: set OPENAI_BASE_URL, name the model, and state the window that the server was started with:

    python examples/openai_agent.py --model qwen3:8b --window 8192 "hello"
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import openai
from openai.types.chat import ChatCompletion

from ullage import ContextManager
from ullage.recall import RECALL_TOOL

SYSTEM = "You are a careful engineer."
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "Read",
            "description": "Reads a text file.",
            "parameters": {
                "type": "object",
                "properties": {"file_path": {"type": "string"}},
                "required": ["file_path"],
            },
        },
    },
    RECALL_TOOL.definition("openai_chat"),
]


def read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return f"error: {error}"


def run_tool(manager: ContextManager, name: str, arguments: str) -> str:
    try:
        given = json.loads(arguments)
    except json.JSONDecodeError as error:
        return f"error: the arguments are not JSON: {error}"
    if name == "recall":  # the library answers from everything that was ever added
        return manager.answer("recall", given).text
    if not isinstance(given, dict) or "file_path" not in given:
        return "error: no file_path"
    return read(str(given["file_path"]))


def respond(client: openai.OpenAI, manager: ContextManager, model: str) -> ChatCompletion:
    while True:
        request = manager.prepare()  # runs the levels that are due; usually none is
        for report in request.reports:
            print(f"[{report.stage}: {report.freed:,} tokens freed]")
        try:
            response: ChatCompletion = client.chat.completions.create(model=model, **request.body)
        except openai.APIStatusError as error:
            if not manager.on_overflow(error):  # not about size: a rate limit, a wrong key
                raise
            continue
        manager.observe(response)  # appends it; its usage anchors the next count
        return response


def answer(client: openai.OpenAI, manager: ContextManager, model: str, question: str) -> None:
    """The agent's turn: responses and tool results until no tool is called."""
    manager.add({"role": "user", "content": question})
    while True:
        message = respond(client, manager, model).choices[0].message
        if message.content:
            print(message.content)
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            if call.type == "function":
                text = run_tool(manager, call.function.name, call.function.arguments)
                manager.add({"role": "tool", "tool_call_id": call.id, "content": text})


def main(arguments: Sequence[str] | None = None) -> ContextManager:
    parser = argparse.ArgumentParser()
    parser.add_argument("questions", nargs="+")
    parser.add_argument("--model", default="gpt-5.4")
    parser.add_argument("--window", type=int, help="tokens, as the local server was started")
    given = parser.parse_args(arguments)
    manager = ContextManager(
        model=given.model,
        provider="openai_chat",
        system=SYSTEM,
        tools=TOOLS,
        context_window=given.window,
    )
    with openai.OpenAI() as client:
        for question in given.questions:
            answer(client, manager, given.model, question)
    print(manager.usage())
    return manager


if __name__ == "__main__":
    main()

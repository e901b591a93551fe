"""An agent on Anthropic's API: streamed responses, one tool, and recall of what has left the window.

    pip install 'ullage[anthropic]'
    export ANTHROPIC_API_KEY=…
    python examples/anthropic_agent.py "Read README.md. What does it say about recall?" "And about logs?"

Each argument is one question. `--log agent.jsonl` keeps the conversation in a file and continues it in the next run.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import anthropic

from ullage import ContextManager
from ullage.recall import RECALL_TOOL

SYSTEM = "You are a careful engineer."
MODEL = "claude-opus-5-5"
TOOLS = [
    {
        "name": "Read",
        "description": "Reads a text file.",
        "input_schema": {
            "type": "object",
            "properties": {"file_path": {"type": "string"}},
            "required": ["file_path"],
        },
    },
    RECALL_TOOL.definition("anthropic"),
]


def read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return f"error: {error}"


def tool_result(manager: ContextManager, call: anthropic.types.ToolUseBlock) -> dict[str, object]:
    if call.name == "recall":  # the library answers from everything that was ever added
        return manager.answer("recall", call.input).block(call.id)
    text = read(str(call.input.get("file_path")))
    return {"type": "tool_result", "tool_use_id": call.id, "content": text}


def respond(client: anthropic.Anthropic, manager: ContextManager) -> anthropic.types.Message:
    """One response of the model, printed as it arrives."""
    most = 4096
    while True:
        request = manager.prepare()  # runs the levels that are due; usually none is
        for report in request.reports:
            print(f"[{report.stage}: {report.freed:,} tokens freed]")
        try:
            with client.messages.stream(
                model=MODEL, max_tokens=most, extra_headers=request.headers, **request.body
            ) as stream:
                for text in stream.text_stream:
                    print(text, end="", flush=True)
                message: anthropic.types.Message = stream.get_final_message()
        except anthropic.APIStatusError as error:
            recovery = manager.on_overflow(error)
            if not recovery:  # not about size: a rate limit, a wrong key
                raise
            most = recovery.max_tokens or most
            continue
        print()
        manager.observe(message)  # appends it; its usage anchors the next count
        return message


def answer(client: anthropic.Anthropic, manager: ContextManager, question: str) -> None:
    """The agent's turn: responses and tool results until no tool is called."""
    manager.add({"role": "user", "content": question})
    while True:
        message = respond(client, manager)
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return
        results = [tool_result(manager, call) for call in calls]
        manager.add({"role": "user", "content": results})


def opened(log: str | None, window: int | None) -> ContextManager:
    """A new conversation, or the one that the log holds."""
    if log and Path(log).exists():
        return ContextManager.resume(log, system=SYSTEM, tools=TOOLS)
    return ContextManager(model=MODEL, system=SYSTEM, tools=TOOLS, context_window=window, log=log)


def main(arguments: Sequence[str] | None = None) -> ContextManager:
    parser = argparse.ArgumentParser()
    parser.add_argument("questions", nargs="+")
    parser.add_argument("--log", help="keep the conversation in this file")
    parser.add_argument("--window", type=int, help="tokens, if less than the model's own window")
    given = parser.parse_args(arguments)
    with anthropic.Anthropic() as client, opened(given.log, given.window) as manager:
        for question in given.questions:
            answer(client, manager, question)
        print(manager.usage())
    return manager


if __name__ == "__main__":
    main()

"""An agent of Inspect that keeps within its model's window: `python inspect_ai_agent.py openai/gpt-5.4 "What is in notes.md?"`."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import inspect_ai
from inspect_ai import Task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.tool import tool

from ullage.integrations.inspect_ai import UllageCompaction


def text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else "No such file"


@tool
def read() -> Callable[[str], Awaitable[str]]:
    async def execute(path: str) -> str:
        """Reads a file.

        Args:
            path: Its name.
        """
        return text_of(Path(path))

    return execute


def main(model: Any, question: str, logs: str = "logs") -> str:
    agent = react(tools=[read()], compaction=UllageCompaction())
    task = Task(dataset=[Sample(question)], solver=agent)
    (log,) = inspect_ai.eval(task, model=model, log_dir=logs, display="none")
    return str(log.samples[0].output.completion) if log.samples else ""


if __name__ == "__main__":
    print(main(*sys.argv[1:3]))

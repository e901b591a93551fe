"""Inspect's `react` on its mock model: one run, in which each request of the model is a turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import inspect_ai
from inspect_ai import Task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ModelOutput, ModelUsage, get_model
from inspect_ai.tool import ToolCall, tool

from tests.frameworks.hard_cases import Brain, Call, Heard, looked
from ullage.integrations.inspect_ai import UllageCompaction


def heard(messages: Any) -> Iterator[Heard]:
    for message in messages:
        text = message.text
        if message.role == "tool":
            yield Heard("user", text, results=((message.tool_call_id, text),))
            continue
        calls = (
            Call(call.id, call.arguments["place"])
            for call in getattr(message, "tool_calls", None) or ()
        )
        yield Heard(message.role, text, tuple(calls))


@tool(name="look")
def looks() -> Any:
    async def execute(place: str) -> str:
        """Looks at a place.

        Args:
            place: Where.
        """
        return looked(place)

    return execute


def play(brain: Brain, turns: int, limits: Any, path: Any) -> None:
    def answer(given: Any, *more: Any) -> ModelOutput:
        reply = brain.asked(heard(given))
        calls = [
            ToolCall(id=call.id, function="look", arguments={"place": call.place})
            for call in reply.calls
        ]
        if reply.text and reply.text.startswith(f"Turn {turns} "):
            calls = [ToolCall(id="call_0", function="submit", arguments={"answer": reply.text})]
        said = ChatMessageAssistant(content=reply.text, tool_calls=calls or None)
        output = ModelOutput.from_message(said)
        output.usage = ModelUsage(input_tokens=reply.usage, output_tokens=5)
        return output

    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)

    async def count(text: str) -> int:  # tiktoken's would take its vocabulary from the network
        return len(text) // 4 + 1

    model.api.count_text_tokens = count
    compaction = limits and UllageCompaction(**limits, threshold=6_000)
    solver = react(tools=[looks()], compaction=compaction)
    task = Task(dataset=[Sample("Look everywhere.")], solver=solver)
    log = inspect_ai.eval(task, model=model, display="none", log_dir=str(path))[0]
    assert log.status == "success", log.error

"""Inspect: its compaction strategies, and Ullage's."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from typing import Any

import inspect_ai
from benches.frameworks.recorded import (
    OUTPUT,
    SYSTEM,
    WINDOW,
    Framework,
    Message,
    Played,
    Way,
    calls_of,
    shown_of,
    words_of,
)
from inspect_ai import Task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    CompactionEdit,
    CompactionSummary,
    CompactionTrim,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.tool import ToolCall, ToolDef, ToolParam, ToolParams

from ullage.counting import count_tokens_exact
from ullage.integrations.inspect_ai import UllageCompaction

THRESHOLD = WINDOW * 9 // 10
"""Inspect's own 90 %, in tokens: the mock model has no window."""


def sent(messages: list[ChatMessage]) -> list[Message]:
    """As a client of OpenAI's chat API sends them."""
    found: list[Message] = []
    for message in messages:
        if message.role == "tool":
            found.append(
                {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
            )
            continue
        made: Message = {"role": message.role, "content": message.text}
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function, "arguments": json.dumps(call.arguments)},
            }
            for call in getattr(message, "tool_calls", None) or ()
        ]
        found.append({**made, "tool_calls": calls} if calls else made)
    return found


def _model(answer: Callable[..., ModelOutput]) -> Any:
    """The mock model; it would load tiktoken's vocabulary from the network to count."""
    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)

    async def count(text: str) -> int:
        return count_tokens_exact(text)

    model.api.count_text_tokens = count
    return model


def play(make: Callable[[Played], Any]) -> Callable[[Played], None]:
    """The `react` agent with that compaction; a prompt follows each answer without calls."""

    def run(played: Played) -> None:
        prompts = iter(played.session.prompts[1:])

        def answer(given: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
            blocks = played.answer(lambda: sent(given))
            calls = [
                ToolCall(id=b["id"], function=b["name"], arguments=b["input"])
                for b in calls_of(blocks)
            ]
            said = ChatMessageAssistant(content=words_of(blocks), tool_calls=calls or None)
            output = ModelOutput.from_message(said)
            output.usage = ModelUsage(input_tokens=played.used, output_tokens=1)
            return output

        async def go_on(state: Any) -> bool | str:
            return True if state.output.message.tool_calls else next(prompts, False)

        solver = react(
            prompt=SYSTEM,
            tools=[_tool(name, played) for name in played.session.tools],
            submit=False,
            on_continue=go_on,
            compaction=make(played),
        )
        task = Task(dataset=[Sample(played.session.prompts[0])], solver=solver)
        log = inspect_ai.eval(
            task,
            model=_model(answer),
            display="none",
            log_dir=tempfile.mkdtemp(prefix="ullage-bench-"),
            log_format="eval",
        )[0]
        if log.error:
            raise RuntimeError(log.error.message)

    return run


def _tool(name: str, played: Played) -> ToolDef:
    async def execute(**given: Any) -> str:
        return played.result(name, given)

    names = {key for b in _calls(played, name) for key in b["input"]}
    properties = {key: ToolParam(description=key) for key in sorted(names)}
    return ToolDef(execute, name, name, parameters=ToolParams(properties=properties))


def _calls(played: Played, name: str) -> list[Message]:
    return [b for answer in played.session.answers for b in calls_of(answer) if b["name"] == name]


def _summary(played: Played) -> Any:
    def write(given: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
        return ModelOutput.from_content("mockllm/model", played.summary(shown_of(sent(given))))

    return CompactionSummary(threshold=THRESHOLD, model=_model(write))


def _ullage(**more: Any) -> UllageCompaction:
    return UllageCompaction(
        threshold=THRESHOLD, context_window=WINDOW, max_output_tokens=OUTPUT, **more
    )


FRAMEWORK = Framework(
    "Inspect",
    "openai_chat",
    ("inspect-ai",),
    (
        Way("nothing", play(lambda played: None)),
        Way("Ullage", play(lambda played: _ullage())),
        Way(
            "Ullage, summaries by a model",
            play(lambda played: _ullage(summarizer=played.writer)),
            True,
        ),
        Way("`CompactionSummary`, at 90 %", play(_summary), True),
        Way(
            "`CompactionEdit`, at 90 %",
            play(lambda played: CompactionEdit(threshold=THRESHOLD)),
        ),
        Way(
            "`CompactionTrim`, at 90 %",
            play(lambda played: CompactionTrim(threshold=THRESHOLD)),
        ),
    ),
)

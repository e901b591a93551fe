"""Pydantic AI: the compaction strategies of its harness, and Ullage's capability."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benches.frameworks.recorded import (
    SYSTEM,
    WINDOW,
    Framework,
    Message,
    Played,
    Way,
    calls_of,
    schema,
    shown_of,
    words_of,
)
from pydantic_ai import Agent, Tool, UsageLimits
from pydantic_ai.exceptions import ModelContextWindowExceededError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage
from pydantic_ai_harness.compaction import (
    ClearToolResults,
    SlidingWindowCompaction,
    SummarizingCompaction,
    TieredCompaction,
)

from ullage.integrations.pydantic_ai import Ullage

PROFILE: Any = {"context_window": WINDOW}


def sent(messages: list[ModelMessage]) -> list[Message]:
    """As a client of OpenAI's chat API sends them."""
    found: list[Message] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            found.append(_response(message))
            continue
        for part in message.parts:
            if part.part_kind in ("tool-return", "retry-prompt"):
                text = part.model_response_str() if part.part_kind == "tool-return" else part.model_response()  # fmt: skip
                found.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": text})
            else:
                role = "system" if part.part_kind == "system-prompt" else "user"
                found.append({"role": role, "content": _text(part.content)})
    return found


def _response(message: ModelResponse) -> Message:
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
        }
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    texts = [p.content for p in message.parts if p.part_kind in ("text", "compaction") and p.content]  # fmt: skip
    made: Message = {"role": "assistant", "content": "\n".join(texts) or None}
    return {**made, "tool_calls": calls} if calls else made


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n".join(part if isinstance(part, str) else part.content for part in content)


def play(make: Callable[[Played], list[Any]]) -> Callable[[Played], None]:
    """An agent with those capabilities; the messages of a run are the history of the next."""

    def run(played: Played) -> None:
        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            blocks = played.answer(lambda: sent(messages))
            words = [TextPart(words_of(blocks))] if words_of(blocks) else []
            calls = [ToolCallPart(b["name"], b["input"], b["id"]) for b in calls_of(blocks)]
            usage = RequestUsage(input_tokens=played.used, output_tokens=1)
            return ModelResponse(parts=[*words, *calls], usage=usage)

        model = FunctionModel(answer, profile=PROFILE, model_name="gpt-5.4")
        tools = [_tool(name, played) for name in played.session.tools]
        agent = Agent(model, tools=tools, capabilities=make(played), system_prompt=SYSTEM)
        history: list[ModelMessage] = []
        limits = UsageLimits(request_limit=None)
        for prompt in played.session.prompts:
            done = agent.run_sync(prompt, message_history=history, usage_limits=limits)
            history = done.all_messages()

    return run


def _tool(name: str, played: Played) -> Tool[None]:
    def call(**given: Any) -> str:
        return played.result(name, given)

    return Tool.from_schema(call, name, name, schema())


def _writer(played: Played) -> FunctionModel:
    def write(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        text = played.summary(shown_of(sent(messages)))
        return ModelResponse(parts=[TextPart(text)])

    return FunctionModel(write, profile=PROFILE, model_name="gpt-5.4")


def _summarizing(played: Played) -> list[Any]:
    return [SummarizingCompaction(_writer(played), max_fraction=0.9, keep_messages=20)]


def _tiered(played: Played) -> list[Any]:
    last: Any = SummarizingCompaction(_writer(played), max_messages=1, keep_messages=20)
    tiers = [ClearToolResults(max_messages=1), last]
    return [TieredCompaction(tiers=tiers, target_fraction=0.8)]


def _sliding(played: Played) -> list[Any]:
    return [SlidingWindowCompaction(max_fraction=0.9, keep_messages=20)]


FRAMEWORK = Framework(
    "Pydantic AI",
    "openai_chat",
    ("pydantic-ai-slim", "pydantic-ai-harness"),
    (
        Way("nothing", play(lambda played: [])),
        Way("Ullage", play(lambda played: [Ullage()]), recovers=True),
        Way(
            "Ullage, summaries by a model",
            play(lambda played: [Ullage(summarizer=played.writer)]),
            True,
            True,
        ),
        Way("`SummarizingCompaction`, at 90 %", play(_summarizing), True),
        Way("`TieredCompaction`, at 80 %", play(_tiered), True),
        Way("`SlidingWindowCompaction`, at 90 %", play(_sliding)),
        Way(
            "`ClearToolResults`, at 50 %",
            play(lambda played: [ClearToolResults(max_fraction=0.5)]),
        ),
    ),
    lambda: ModelContextWindowExceededError("function", "input is too long"),
)

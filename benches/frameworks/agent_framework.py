"""Microsoft Agent Framework: its compaction strategies, and Ullage's middleware."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    ContextWindowCompactionStrategy,
    FunctionInvocationLayer,
    FunctionTool,
    InMemoryHistoryProvider,
    Message,
    SlidingWindowStrategy,
    SummarizationStrategy,
    ToolResultCompactionStrategy,
)
from benches.frameworks import recorded
from benches.frameworks.recorded import (
    OUTPUT,
    SYSTEM,
    WINDOW,
    Framework,
    Played,
    Way,
    calls_of,
    schema,
    shown_of,
    words_of,
)

from ullage.integrations.agent_framework import UllageChatMiddleware

TIGHT: Any = {"context_window": WINDOW, "max_output_tokens": OUTPUT}


def sent(messages: Any) -> list[recorded.Message]:
    """As a client of OpenAI's chat API sends them."""
    found: list[recorded.Message] = []
    for message in messages:
        results = [each for each in message.contents if each.type == "function_result"]
        found += [{"role": "tool", "tool_call_id": c.call_id, "content": str(c.result)} for c in results]  # fmt: skip
        calls = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.contents
            if call.type == "function_call"
        ]
        if not results:
            made: recorded.Message = {"role": message.role, "content": message.text or None}
            found.append({**made, "tool_calls": calls} if calls else made)
    return found


class Replay(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Gives the recorded answers, or writes summaries."""

    def __init__(self, played: Played, writes: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.model, self.played, self.writes = "gpt-5.4", played, writes

    async def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> Any:  # fmt: skip
        if self.writes:
            text = self.played.summary(shown_of(sent(messages)))
            return ChatResponse(messages=[Message("assistant", [text])])
        blocks = self.played.answer(lambda: sent(messages))
        words = [Content.from_text(words_of(blocks))] if words_of(blocks) else []
        calls = [
            Content.from_function_call(b["id"], b["name"], arguments=json.dumps(b["input"]))
            for b in calls_of(blocks)
        ]
        used = {"input_token_count": self.played.used, "output_token_count": 1}
        return ChatResponse(messages=[Message("assistant", [*words, *calls])], usage_details=used)


def play(
    middleware: Callable[[Played], list[Any]] = lambda played: [],
    strategy: Callable[[Played], Any] = lambda played: None,
) -> Callable[[Played], None]:
    """An agent with that middleware and that strategy, one session, each prompt a run."""

    def run(played: Played) -> None:
        tools: list[Any] = [_tool(name, played) for name in played.session.tools]
        client = Replay(played)
        client.function_invocation_configuration["max_iterations"] = 1_000
        agent = Agent(
            client,
            SYSTEM,
            tools=tools,
            middleware=middleware(played),
            compaction_strategy=strategy(played),
            context_providers=[InMemoryHistoryProvider()],
        )
        session = agent.create_session()

        async def go() -> None:
            for prompt in played.session.prompts:
                await agent.run(prompt, session=session)

        asyncio.run(go())

    return run


def _tool(name: str, played: Played) -> FunctionTool:
    def call(**given: Any) -> str:
        return played.result(name, given)

    return FunctionTool(name=name, description=name, func=call, input_model=schema())


def _window(played: Played) -> Any:
    return ContextWindowCompactionStrategy(
        max_context_window_tokens=WINDOW, max_output_tokens=OUTPUT
    )


FRAMEWORK = Framework(
    "Microsoft Agent Framework",
    "openai_chat",
    ("agent-framework-core",),
    (
        Way("nothing", play()),
        Way("Ullage", play(lambda played: [UllageChatMiddleware(**TIGHT)]), recovers=True),
        Way(
            "Ullage, summaries by a model",
            play(lambda played: [UllageChatMiddleware(summarizer=played.writer, **TIGHT)]),
            True,
            True,
        ),
        Way("`ContextWindowCompactionStrategy`", play(strategy=_window)),
        Way(
            "`SummarizationStrategy(target_count=20)`",
            play(
                strategy=lambda played: SummarizationStrategy(
                    client=Replay(played, writes=True), target_count=20
                )
            ),
            True,
        ),
        Way(
            "`ToolResultCompactionStrategy()`",
            play(strategy=lambda played: ToolResultCompactionStrategy()),
        ),
        Way(
            "`SlidingWindowStrategy(keep_last_groups=20)`",
            play(strategy=lambda played: SlidingWindowStrategy(keep_last_groups=20)),
        ),
    ),
    lambda: ValueError("prompt is too long: 70000 tokens > 64000 maximum"),
)

"""Strands: its conversation managers, and Ullage's."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from benches.frameworks.recorded import (
    OUTPUT,
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
from strands import Agent
from strands.agent.conversation_manager import (
    NullConversationManager,
    SlidingWindowConversationManager,
    SummarizingConversationManager,
)
from strands.models import Model
from strands.tools.tools import PythonAgentTool
from strands.types.exceptions import ContextWindowOverflowException

from ullage.integrations.strands import UllageConversationManager


class Replay(Model):
    """Gives the recorded answers, or writes summaries."""

    def __init__(self, played: Played, writes: bool = False) -> None:
        self.played, self.writes = played, writes

    def get_config(self) -> Any:
        return {"model_id": "claude-sonnet-4-5", "context_window_limit": WINDOW}

    def update_config(self, **config: Any) -> None:
        pass

    def structured_output(self, *given: Any, **more: Any) -> Any:
        raise NotImplementedError

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **more: Any
    ) -> Any:
        if self.writes:
            blocks: list[Message] = [
                {"type": "text", "text": self.played.summary(shown_of(messages))}
            ]
        else:
            blocks = self.played.answer(lambda: [_bare(message) for message in messages])
        yield {"messageStart": {"role": "assistant"}}
        if words_of(blocks):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": words_of(blocks)}}}
            yield {"contentBlockStop": {}}
        for block in calls_of(blocks):
            start = {"toolUse": {"name": block["name"], "toolUseId": block["id"]}}
            yield {"contentBlockStart": {"start": start}}
            given = {"toolUse": {"input": json.dumps(block["input"])}}
            yield {"contentBlockDelta": {"delta": given}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls_of(blocks) else "end_turn"}}
        used = {"inputTokens": self.played.used, "outputTokens": 1, "totalTokens": self.played.used + 1}  # fmt: skip
        yield {"metadata": {"usage": used, "metrics": {"latencyMs": 1}}}


def _bare(message: Any) -> Message:
    """Without what Strands notes next to role and content, which it does not send."""
    return {"role": message["role"], "content": copy.deepcopy(message["content"])}


def play(make: Callable[[Played], Any]) -> Callable[[Played], None]:
    """An agent with that conversation manager."""

    def run(played: Played) -> None:
        agent = Agent(
            model=Replay(played),
            tools=[_tool(name, played) for name in played.session.tools],
            system_prompt=SYSTEM,
            conversation_manager=make(played),
            callback_handler=None,
        )
        for prompt in played.session.prompts:
            agent(prompt)

    return run


def _tool(name: str, played: Played) -> Any:
    def call(tool_use: Any, **more: Any) -> Any:
        text = played.result(name, tool_use["input"])
        return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": text}]}  # fmt: skip

    spec: Any = {"name": name, "description": name, "inputSchema": {"json": schema()}}
    return PythonAgentTool(name, spec, call)


def _summarizing(played: Played) -> Any:
    writer = Agent(model=Replay(played, writes=True), callback_handler=None)
    return SummarizingConversationManager(summarization_agent=writer, proactive_compression=True)


def _sliding(played: Played) -> Any:
    return SlidingWindowConversationManager(proactive_compression=True)


def _ullage(played: Played) -> Any:
    return UllageConversationManager(max_output_tokens=OUTPUT)


def _ullage_written(played: Played) -> Any:
    return UllageConversationManager(max_output_tokens=OUTPUT, summarizer=played.writer)


FRAMEWORK = Framework(
    "Strands",
    "bedrock",
    ("strands-agents",),
    (
        Way("nothing", play(lambda played: NullConversationManager())),
        Way("Ullage", play(_ullage), recovers=True),
        Way("Ullage, summaries by a model", play(_ullage_written), True, True),
        Way("`SummarizingConversationManager`, at 70 %", play(_summarizing), True, True),
        Way("`SlidingWindowConversationManager`, at 70 %", play(_sliding), recovers=True),
        Way(
            "`SlidingWindowConversationManager()`",
            play(lambda played: SlidingWindowConversationManager()),
            recovers=True,
        ),
    ),
    lambda: ContextWindowOverflowException("too long"),
    {"toolConfig": {"tools": [{"toolSpec": {"name": "Read", "inputSchema": {"json": {}}}}]}},
)

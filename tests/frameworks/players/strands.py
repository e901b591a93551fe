"""Strands' agent, with its file session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.hooks import BeforeToolCallEvent, HookProvider, HookRegistry
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager

from tests.frameworks.hard_cases import Brain, Call, Heard, looked, question
from ullage.integrations.strands import UllageConversationManager


class Thinking(Model):
    def __init__(self, brain: Brain) -> None:
        self.brain = brain
        self.config = {"model_id": "claude-opus-4-5"}

    def update_config(self, **config: Any) -> None:
        self.config.update(config)

    def get_config(self) -> Any:
        return self.config

    def structured_output(self, *given: Any, **named: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *given: Any, **more: Any) -> Any:
        reply = self.brain.asked(heard(messages))
        yield {"messageStart": {"role": "assistant"}}
        for call in reply.calls:
            start = {"toolUse": {"name": "look", "toolUseId": call.id}}
            yield {"contentBlockStart": {"start": start}}
            piece = {"toolUse": {"input": json.dumps({"place": call.place})}}
            yield {"contentBlockDelta": {"delta": piece}}
            yield {"contentBlockStop": {}}
        if reply.text:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": reply.text}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if reply.calls else "end_turn"}}
        usage = {"inputTokens": reply.usage, "outputTokens": 5, "totalTokens": reply.usage + 5}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


def heard(messages: Any) -> Iterator[Heard]:
    for message in messages:
        calls, results, words = [], [], []
        for block in message["content"]:
            if "toolUse" in block:
                use = block["toolUse"]
                calls.append(Call(use["toolUseId"], use["input"]["place"]))
            elif "toolResult" in block:
                result = block["toolResult"]
                text = "".join(each.get("text", "") for each in result["content"])
                results.append((result["toolUseId"], text))
                words.append(text)
            else:
                words.append(block.get("text", ""))
        yield Heard(message["role"], "".join(words), tuple(calls), tuple(results))


class Approvals(HookProvider):
    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, self.ask)

    def ask(self, event: BeforeToolCallEvent) -> None:
        assert event.interrupt("look", reason="may it?") == "yes"


@tool
def look(place: str) -> str:
    """Looks at a place."""
    return looked(place)


async def play(brain: Brain, turns: int, limits: Any, path: Any) -> None:
    case = brain.case
    for turn in range(turns):
        if turn == 0 or (case.restarts and turn % 10 == 0):
            stored = FileSessionManager("s", storage_dir=str(path)) if case.restarts else None
            manager: Any = NullConversationManager()
            if limits is not None:
                manager = UllageConversationManager(**limits)
            agent = Agent(
                model=Thinking(brain),
                tools=[look],
                conversation_manager=manager,
                session_manager=stored,
                agent_id="a",
                callback_handler=None,
                hooks=[Approvals()] if case.approvals else [],
            )
        if case.streamed:
            async for _ in agent.stream_async(question(turn)):
                pass
            continue
        done = await agent.invoke_async(question(turn))
        while done.stop_reason == "interrupt":
            answers: Any = [
                {"interruptResponse": {"interruptId": each.id, "response": "yes"}}
                for each in done.interrupts
            ]
            done = await agent.invoke_async(answers)

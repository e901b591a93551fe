"""smolagents' agent, which goes on from task to task."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

from smolagents import Model, ToolCallingAgent, tool
from smolagents.models import (
    ChatMessage,
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    MessageRole,
)
from smolagents.monitoring import TokenUsage

from tests.frameworks.hard_cases import Brain, Call, Heard, Reply, looked, question
from ullage.integrations.smolagents import UllageCallback


class Thinking(Model):
    def __init__(self, brain: Brain) -> None:
        super().__init__(model_id="anthropic/claude-opus-4-5")
        self.brain = brain

    def generate(self, messages: Any, **more: Any) -> ChatMessage:
        reply = self.brain.asked(heard(messages))
        calls = [
            ChatMessageToolCall(function=each, id=name, type="function")
            for each, name in functions(reply)
        ]
        usage = TokenUsage(reply.usage, 5)
        return ChatMessage(MessageRole.ASSISTANT, None, tool_calls=calls, token_usage=usage)


class Streaming(Thinking):
    def generate_stream(self, messages: Any, **more: Any) -> Any:
        reply = self.brain.asked(heard(messages))
        for at, (function, name) in enumerate(functions(reply)):
            function.arguments = json.dumps(function.arguments)
            piece = ChatMessageToolCallStreamDelta(
                index=at, id=name, type="function", function=function
            )
            yield ChatMessageStreamDelta(tool_calls=[piece])
        yield ChatMessageStreamDelta(token_usage=TokenUsage(reply.usage, 5))


def functions(reply: Reply) -> Iterator[tuple[ChatMessageToolCallFunction, str]]:
    for call in reply.calls:
        given: Any = {"place": call.place}
        yield ChatMessageToolCallFunction(name="look", arguments=given), call.id
    if not reply.calls:
        given = {"answer": reply.text}
        yield ChatMessageToolCallFunction(name="final_answer", arguments=given), "call_0"


def heard(messages: Any) -> Iterator[Heard]:
    """smolagents sends texts alone: the results are in one message after the calls."""
    waiting: list[Call] = []
    for message in messages:
        text = "".join(part.get("text", "") for part in message.content)
        role = getattr(message.role, "value", message.role)
        if role == "tool-call":
            names = [line for line in text.split("'id': ")[1:] if "'look'" in line]
            if not names and "'look'" not in text:
                yield Heard("user", text)  # a final answer, which nothing answers
                continue
            places = [piece.partition("'}")[0] for piece in text.split("{'place': '")[1:]]
            waiting = [Call(str(at), place) for at, place in enumerate(places)]
            yield Heard("assistant", text, tuple(waiting))
        elif role == "tool-response" and waiting:
            found = text.partition("Observation:\n")[2].split("place ")
            texts = [f"place {each}" for each in found[1:]] or [text]
            texts += ["cleared"] * (len(waiting) - len(texts))
            results = tuple((call.id, each) for call, each in zip(waiting, texts, strict=True))
            yield Heard("user", text, results=results)
            waiting = []
        else:
            yield Heard("system" if role == "system" else "user", text)


@tool
def look(place: str) -> str:
    """Looks at a place.

    Args:
        place: Where.
    """
    return looked(place)


def play(brain: Brain, turns: int, limits: Any, path: Any) -> None:
    case, stored = brain.case, None
    for turn in range(turns):
        if turn == 0 or (case.restarts and turn % 10 == 0):
            callbacks = [] if limits is None else [UllageCallback(**limits)]
            agent = ToolCallingAgent(
                tools=[look],
                model=(Streaming if case.streamed else Thinking)(brain),
                step_callbacks=callbacks,
                stream_outputs=case.streamed,
                verbosity_level=0,
            )
            agent.memory.steps = agent.memory.steps if stored is None else pickle.loads(stored)
        agent.run(question(turn), reset=False)
        stored = pickle.dumps(agent.memory.steps) if case.restarts else None

"""Pydantic AI's agent, whose history goes from turn to turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

from tests.frameworks.hard_cases import Brain, Call, Heard, looked, question
from ullage.integrations.pydantic_ai import Ullage


def heard(messages: list[ModelMessage]) -> Iterator[Heard]:
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                text = str(part.content)
                named = isinstance(part, ToolReturnPart)
                yield Heard("user", text, results=((part.tool_call_id, text),) if named else ())
            continue
        parts = [each for each in message.parts if isinstance(each, ToolCallPart)]
        calls = (Call(each.tool_call_id, each.args_as_dict()["place"]) for each in parts)
        yield Heard("assistant", message.text or "", tuple(calls))


def model(brain: Brain) -> FunctionModel:
    def answer(messages: Any, info: Any) -> ModelResponse:
        reply = brain.asked(heard(messages))
        calls = [ToolCallPart("look", {"place": call.place}, call.id) for call in reply.calls]
        usage = RequestUsage(input_tokens=reply.usage, output_tokens=5)
        return ModelResponse(calls or [TextPart(reply.text)], usage=usage)

    async def stream(messages: Any, info: Any) -> Any:
        reply = brain.asked(heard(messages))
        for at, call in enumerate(reply.calls):
            args = f'{{"place": "{call.place}"}}'
            yield {at: DeltaToolCall("look", args, tool_call_id=call.id)}
        if reply.text:
            yield reply.text

    return FunctionModel(answer, stream_function=stream, model_name="gpt-5.4")


async def play(brain: Brain, turns: int, limits: Any, path: Any) -> None:
    case, history = brain.case, []
    for turn in range(turns):
        if turn == 0 or (case.restarts and turn % 10 == 0):
            capabilities = [] if limits is None else [Ullage(**limits)]
            agent = Agent(
                model(brain), capabilities=capabilities, output_type=[str, DeferredToolRequests]
            )
            agent.tool_plain(requires_approval=case.approvals)(look)
            stored = ModelMessagesTypeAdapter.dump_json(history)
            history = ModelMessagesTypeAdapter.validate_json(stored)
        if case.streamed:
            async with agent.run_stream(question(turn), message_history=history) as stream:
                await stream.get_output()
                history = stream.all_messages()
            continue
        done = await agent.run(question(turn), message_history=history)
        while isinstance(done.output, DeferredToolRequests):
            results = DeferredToolResults()
            for call in done.output.approvals:
                results.approvals[call.tool_call_id] = True
            done = await agent.run(
                message_history=done.all_messages(), deferred_tool_results=results
            )
        history = done.all_messages()


def look(place: str) -> str:
    """Looks at a place."""
    return looked(place)

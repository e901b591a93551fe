"""LangChain's agent on its checkpointer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.frameworks.hard_cases import Brain, Call, Heard, Reply, looked, question
from ullage.integrations.langchain import UllageMiddleware


class Model(BaseChatModel):
    brain: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, messages: Any, *given: Any, **more: Any) -> ChatResult:
        reply = self.brain.asked(map(heard, messages))
        calls = [
            {"name": "look", "args": {"place": call.place}, "id": call.id} for call in reply.calls
        ]
        said = AIMessage(reply.text, tool_calls=calls, usage_metadata=usage(reply))
        return ChatResult(generations=[ChatGeneration(message=said)])

    def _stream(self, messages: Any, *given: Any, **more: Any) -> Iterator[ChatGenerationChunk]:
        reply = self.brain.asked(map(heard, messages))
        for at, call in enumerate(reply.calls):
            piece = {"name": "look", "args": f'{{"place": "{call.place}"}}', "id": call.id}
            yield ChatGenerationChunk(
                message=AIMessageChunk("", tool_call_chunks=[{**piece, "index": at}])
            )
        yield ChatGenerationChunk(
            message=AIMessageChunk(reply.text, usage_metadata=usage(reply), chunk_position="last")
        )


def usage(reply: Reply) -> Any:
    return {
        "input_tokens": reply.usage,
        "output_tokens": 5,
        "total_tokens": reply.usage + 5,
    }


def heard(message: AnyMessage) -> Heard:
    text = str(message.text)
    if message.type == "tool":
        return Heard("user", text, results=((message.tool_call_id, text),))
    calls = tuple(
        Call(call["id"], call["args"]["place"]) for call in getattr(message, "tool_calls", ())
    )
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    return Heard(role, text, calls)


@tool
def look(place: str) -> str:
    """Looks at a place."""
    return looked(place)


def play(brain: Brain, turns: int, limits: Any, path: Any, **more: Any) -> Any:
    case, saver = brain.case, InMemorySaver()
    config: Any = {"configurable": {"thread_id": "one"}, "recursion_limit": 200}
    done: Any = {}
    for turn in range(turns):
        if turn == 0 or (case.restarts and turn % 10 == 0):
            middleware: list[Any] = [] if limits is None else [UllageMiddleware(**limits, **more)]
            if case.approvals:
                middleware.append(HumanInTheLoopMiddleware(interrupt_on={"look": True}))
            agent = create_agent(
                Model(brain=brain), [look], middleware=middleware, checkpointer=saver
            )
        given: Any = {"messages": [HumanMessage(question(turn))]}
        if case.streamed:
            for _ in agent.stream(given, config, stream_mode="messages"):
                pass
            continue
        done = agent.invoke(given, config)
        while done.get("__interrupt__"):
            decisions = [{"type": "approve"} for _ in range(2)]
            done = agent.invoke(Command(resume={"decisions": decisions}), config)
    return None if case.streamed else done["messages"]

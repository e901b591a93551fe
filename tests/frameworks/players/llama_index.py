"""LlamaIndex' agent on a memory that lets go of nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer

from tests.frameworks.hard_cases import Brain, Call, Heard, looked, question
from ullage.integrations.llama_index import UllageLLM


def heard(messages: Any) -> Iterator[Heard]:
    for message in messages:
        role, text = message.role.value, message.content or ""
        if role == "tool":
            yield Heard("user", text, results=((message.additional_kwargs["tool_call_id"], text),))
            continue
        calls = (
            Call(block.tool_call_id, dict(block.tool_kwargs)["place"])
            for block in message.blocks
            if isinstance(block, ToolCallBlock)
        )
        yield Heard(role, text, tuple(calls))


def look(place: str) -> str:
    """Looks at a place."""
    return looked(place)


async def play(brain: Brain, turns: int, limits: Any, path: Any) -> None:
    def answer(messages: Any, **more: Any) -> ChatMessage:
        reply = brain.asked(heard(messages))
        if not reply.calls:
            return ChatMessage(reply.text, role="assistant")
        blocks = [
            ToolCallBlock(tool_call_id=c.id, tool_name="look", tool_kwargs={"place": c.place})
            for c in reply.calls
        ]
        usage = {"prompt_tokens": reply.usage}
        return ChatMessage(role="assistant", blocks=blocks, additional_kwargs={"usage": usage})

    case = brain.case
    memory = ChatMemoryBuffer.from_defaults(token_limit=10**9, tokenizer_fn=str.split)
    for turn in range(turns):
        if turn == 0 or (case.restarts and turn % 10 == 0):
            llm: Any = MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)
            llm = llm if limits is None else UllageLLM(llm, **limits)
            agent = FunctionAgent(tools=[look], llm=llm, streaming=case.streamed)
            lines = [each.model_dump_json() for each in memory.get_all()]
            memory.set([ChatMessage(**json.loads(each)) for each in lines])
        await agent.run(question(turn), memory=memory)

"""LlamaIndex with Ullage in it: a model, and a block of its memory, under its agents on its scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="`make integrations` installs it")

from llama_index.core.agent.workflow import (
    AgentStream,
    AgentWorkflow,
    FunctionAgent,
    ReActAgent,
)
from llama_index.core.base.llms.types import (
    CachePoint,
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    LLMMetadata,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer, Memory

from tests.frameworks.generated import COUNTS, SMALL, Tally, there_and_back
from ullage.integrations.conversations import HeldConversations
from ullage.integrations.llama_index import TRANSLATOR, UllageBlock, UllageLLM
from ullage.testing import ScriptedSummarizer, assert_legal

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

SUMMARY = ScriptedSummarizer()([{"role": "user", "content": "Look everywhere."}]).text


def request(messages: Any) -> list[dict[str, Any]]:
    """As LlamaIndex's model of OpenAI sends it."""
    sent: list[dict[str, Any]] = []
    for message in messages:
        role, blocks = message.role.value, message.blocks
        calls = [_call(each) for each in blocks if isinstance(each, ToolCallBlock)]
        more: dict[str, Any] = {"tool_calls": calls} if calls else {}
        if role == "tool":
            more["tool_call_id"] = message.additional_kwargs["tool_call_id"]
        sent.append({"role": role, "content": message.content or ("" if more else " "), **more})
    return sent


def _call(block: ToolCallBlock) -> dict[str, Any]:
    function = {"name": block.tool_name, "arguments": json.dumps(block.tool_kwargs)}
    return {"id": block.tool_call_id, "type": "function", "function": function}


def size(messages: Any) -> int:
    return len(json.dumps(request(messages)))


class Script:
    """Calls `look` twice at once in each of its first answers of a run; refuses what is larger than its window."""

    def __init__(
        self, rounds: int = 12, window_chars: int = 10**9, tool: str = "look", name: str = "place"
    ) -> None:
        self.rounds, self.window_chars, self.tool, self.name = rounds, window_chars, tool, name
        self.sent: list[list[ChatMessage]] = []
        self.refused = self._asked = 0

    def __call__(self, messages: Any, **more: Any) -> ChatMessage:
        if (messages[-1].content or "").startswith("<user>"):
            return ChatMessage(SUMMARY, role="assistant")
        self.sent.append(list(messages))
        assert_legal("openai_chat", request(messages))
        if size(messages) > self.window_chars:
            self.refused += 1
            raise ValueError("prompt is too long: 20000 tokens > 10000 maximum")
        self._asked = self._asked + 1 if messages[-1].role.value == "tool" else 1
        if self._asked > self.rounds:
            return ChatMessage("Looked at.", role="assistant")
        at = len(self.sent)
        calls = [self._call(f"c{at}-{n}", f"{at}-{n}") for n in range(2)]
        return ChatMessage(role="assistant", blocks=calls)

    def _call(self, number: str, place: str) -> ToolCallBlock:
        given = {self.name: place}
        return ToolCallBlock(tool_call_id=number, tool_name=self.tool, tool_kwargs=given)


def model(script: Any) -> MockFunctionCallingLLM:
    return MockFunctionCallingLLM(response_generator=script, is_chat_model=True)


def look(place: str) -> str:
    """Looks at a place."""
    if place == "3-1":
        raise ValueError("nothing there")
    return f"place {place}: " + "row of the table\n" * 120


def agent(llm: Any, **more: Any) -> FunctionAgent:
    return FunctionAgent(tools=[look], llm=llm, system_prompt="Be brief.", **more)


def everything() -> ChatMemoryBuffer:
    """A memory that lets go of nothing."""
    return ChatMemoryBuffer.from_defaults(token_limit=10**9, tokenizer_fn=str.split)


async def asked(made: Any, text: str = "Look everywhere.", **more: Any) -> str:
    return str(await made.run(text, **more))


def largest(script: Script) -> int:
    return max(map(size, script.sent))


def bare() -> int:
    """The largest request of a run without Ullage."""
    script = Script()
    asyncio.run(asked(agent(model(script))))
    return largest(script)


# ---- the model ---------------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [True, False])
def test_requests_of_one_run_fit_and_the_memory_stays_whole(streaming):
    script, memory = Script(), everything()
    made = agent(UllageLLM(model(script), **SMALL), streaming=streaming)
    assert asyncio.run(asked(made, memory=memory)) == "Looked at."
    assert len(script.sent) == 13
    assert largest(script) < bare() * 2 / 3
    kept = "".join(message.content or "" for message in memory.get_all())
    assert kept.count("row of the table") == 23 * 120
    assert "nothing there" in kept


def test_what_is_sent_needs_no_state():
    script, memory = Script(), everything()
    asyncio.run(asked(agent(UllageLLM(model(script), **SMALL)), memory=memory))
    whole = [ChatMessage(**json.loads(each.model_dump_json())) for each in memory.get_all()]
    again = Script(0)
    for _ in range(2):
        UllageLLM(model(again), **SMALL).chat(whole)
    assert request(again.sent[0]) == request(again.sent[1])
    assert size(again.sent[0]) < size(whole) / 2


def test_a_stored_memory_is_resumed():
    memory = everything()
    asyncio.run(asked(agent(UllageLLM(model(Script()), **SMALL)), memory=memory))
    lines = [each.model_dump_json() for each in memory.get_all()]
    stored, script = everything(), Script(2)
    stored.put_messages([ChatMessage(**json.loads(each)) for each in lines])
    assert asyncio.run(asked(agent(UllageLLM(model(script), **SMALL)), "Again.", memory=stored))
    assert largest(script) < bare() * 2 / 3
    assert "Look everywhere." in str(request(script.sent[0]))


@pytest.mark.parametrize("streaming", [True, False])
def test_a_refusal_makes_room_and_the_request_is_sent_again(streaming):
    script = Script(window_chars=22_000)
    made = agent(UllageLLM(model(script), context_window=200_000), streaming=streaming)
    assert asyncio.run(asked(made)) == "Looked at."
    assert script.refused
    again = [
        size(b) for a, b in zip(script.sent, script.sent[1:], strict=False) if size(a) > 22_000
    ]
    assert max(again) <= 22_000  # each refusal is followed by one request, which is taken


@pytest.mark.parametrize("stream", [True, False])
def test_synchronous_requests_do_the_same(stream):
    memory, refusing = everything(), Script(0, window_chars=22_000)
    asyncio.run(asked(agent(model(Script())), memory=memory))
    llm = UllageLLM(model(refusing), context_window=200_000)
    whole = memory.get_all()
    answer = list(llm.stream_chat(whole))[-1] if stream else llm.chat(whole)
    assert answer.message.content == "Looked at."
    assert [size(sent) > 22_000 for sent in refusing.sent] == [True, False]


def test_other_errors_pass_and_a_stream_that_has_begun_is_not_repeated():
    def broken(messages: Any, **more: Any) -> Any:
        raise RuntimeError("no network")

    def cut_off(messages: Any, **more: Any) -> Any:
        yield ChatMessage("Wi", role="assistant")
        raise ValueError("prompt is too long: 20000 tokens > 10000 maximum")

    given = [ChatMessage("Look.")]
    llm = UllageLLM(model(broken))
    with pytest.raises(RuntimeError, match="no network"):
        llm.chat(given)
    with pytest.raises(RuntimeError, match="no network"):
        asyncio.run(llm.achat(given))
    pieces = UllageLLM(model(cut_off)).stream_chat(given)
    assert next(pieces).delta == "Wi"
    with pytest.raises(ValueError, match="too long"):
        next(pieces)


def test_an_error_that_no_room_helps_with_is_raised_in_the_end():
    script = Script(window_chars=10)
    with pytest.raises(ValueError, match="too long"):
        UllageLLM(model(script), context_window=200_000).chat([ChatMessage("Look everywhere.")])
    assert script.refused < 5


def test_pieces_of_a_stream_arrive():
    async def pieces() -> list[str]:
        handler = agent(UllageLLM(model(Script(1)), **SMALL)).run("Look.")
        found = [
            each.delta async for each in handler.stream_events() if isinstance(each, AgentStream)
        ]
        await handler
        return found

    assert "Looked at." in asyncio.run(pieces())


def test_the_model_itself_writes_the_summary():
    script = Script(18)
    asyncio.run(asked(agent(UllageLLM(model(script), **SMALL, summarizer="host"))))
    line = max(SUMMARY.splitlines(), key=len)
    assert any(line in str(request(sent)) for sent in script.sent)


def test_an_agent_without_function_calls():
    def say(messages: Any, **more: Any) -> ChatMessage:
        return ChatMessage("Thought: I know.\nAnswer: Wine.", role="assistant")

    made = ReActAgent(tools=[look], llm=UllageLLM(model(say), **SMALL))
    assert asyncio.run(asked(made)) == "Wine."


def test_a_chat_engine():
    sent: list[Any] = []

    def say(messages: Any, **more: Any) -> ChatMessage:
        sent.append(list(messages))
        assert_legal("openai_chat", request(messages))
        return ChatMessage(f"Answer {len(sent)}. " + "It is dark and it is cold. " * 60, role="assistant")  # fmt: skip

    llm = UllageLLM(model(say), **SMALL)
    engine = SimpleChatEngine.from_defaults(llm=llm, memory=everything(), system_prompt="Be brief.")
    for number in range(20):
        question = f"What is in place {number}? " + "Look well. " * 60
        if number % 2:
            assert "cold" in str(engine.chat(question))
        else:
            assert "cold" in "".join(engine.stream_chat(question).response_gen)
    assert len(engine.chat_history) == 40
    assert max(map(size, sent)) < size(engine.chat_history) * 2 / 3
    assert all(each[0].content == "Be brief." for each in sent)


def test_agents_that_hand_over_share_what_fits():
    def hand(messages: Any, **more: Any) -> ChatMessage:
        given = {"to_agent": "second", "reason": "It looks."}
        call = ToolCallBlock(tool_call_id="h1", tool_name="handoff", tool_kwargs=given)
        return ChatMessage(role="assistant", blocks=[call])

    script = Script()
    first, second = (UllageLLM(model(each), **SMALL) for each in (hand, script))
    about = {"description": "One of two.", "system_prompt": "Be brief."}
    agents = [
        FunctionAgent(name="first", tools=[], llm=first, can_handoff_to=["second"], **about),
        FunctionAgent(name="second", tools=[look], llm=second, **about),
    ]
    workflow = AgentWorkflow(agents=agents, root_agent="first")
    assert asyncio.run(asked(workflow, memory=everything())) == "Looked at."
    assert len(script.sent) == 13
    assert largest(script) < bare() * 2 / 3


def test_the_window_is_the_models_unless_it_says_nothing():
    class Told(MockFunctionCallingLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(context_window=4_000, num_output=300, model_name="m", is_function_calling_model=True)  # fmt: skip

    memory = everything()
    asyncio.run(asked(agent(model(Script())), memory=memory))
    small, large = Script(0), Script(0)
    UllageLLM(Told(response_generator=small)).chat(memory.get_all())
    UllageLLM(model(large)).chat(memory.get_all())  # its metadata hold LlamaIndex's defaults
    assert size(small.sent[0]) < 16_000 < size(large.sent[0])


# ---- the block ---------------------------------------------------------------------------------


@asynccontextmanager
async def memory(*blocks: UllageBlock, limit: int = 4_000) -> AsyncIterator[Memory]:
    made = Memory.from_defaults(
        token_limit=limit,
        chat_history_token_ratio=0.5,
        token_flush_size=500,
        tokenizer_fn=str.split,
        memory_blocks=list(blocks),
    )
    try:
        yield made
    finally:
        await made.sql_store._async_engine.dispose()  # LlamaIndex leaves its database open


async def talk(script: Script, *blocks: UllageBlock, limit: int = 4_000) -> None:
    async with memory(*blocks, limit=limit) as made:
        for number in range(12):
            question = f"What is in place {number}?"
            assert await asked(agent(model(script)), question, memory=made) == "Looked at."


def test_what_the_memory_lets_go_of_is_shown_as_far_as_it_fits():
    script, whole, kept = Script(1), Script(1), UllageBlock(token_limit=6_000)
    asyncio.run(talk(script, kept))
    asyncio.run(talk(whole, limit=10**6))
    assert len(script.sent) == 24
    assert largest(script) < largest(whole) * 3 / 4
    assert "What is in place 0?" in str(script.sent[-1][:6])
    assert any("row of the table\nrow" in str(message.content) for message in kept.flushed[:4])
    assert "nothing there" in str([message.content for message in kept.flushed])


def test_without_the_block_the_beginning_is_not_sent():
    script = Script(1)
    asyncio.run(talk(script))
    assert "What is in place 0?" not in str(script.sent[-1])


def test_a_stored_block_goes_on():
    async def both() -> tuple[Any, Any]:
        one = UllageBlock(token_limit=6_000)
        await talk(Script(1), one)
        two = UllageBlock(**json.loads(one.model_dump_json()))
        return await one.aget(), await two.aget()

    one, two = asyncio.run(both())
    assert request(one) == request(two)


def test_a_block_with_a_priority_shows_less_where_the_memory_is_full():
    async def sizes() -> tuple[list[int], Script]:
        block, script = UllageBlock(token_limit=60_000, priority=1), Script(1)
        await talk(script, block, limit=3_000)
        shown = await block.aget()
        asked_for = (await block._shown(60_000)).view.tokens
        less = [await block.atruncate(shown, asked_for * part // 8) for part in (1, 5, 7)]
        assert await block.atruncate(shown, 10**6) is None
        for each in less:
            assert_legal("openai_chat", request([*each, ChatMessage("Go on.")]))
        return [size(shown), *map(size, less)], script

    (whole, *less), script = asyncio.run(sizes())
    assert all(now < whole * (8 - part) / 8 for now, part in zip(less, (1, 5, 7), strict=True))
    assert "place 0" in str(script.sent[-1][:6])


# ---- messages there and back -------------------------------------------------------------------


def test_calls_of_older_integrations_are_read():
    function = {"name": "look", "arguments": '{"place": "a"}'}
    call = {"id": "c1", "type": "function", "function": function}
    message = ChatMessage(role="assistant", additional_kwargs={"tool_calls": [call]})
    read = TRANSLATOR.read(message)
    assert read["content"] == [
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"place": "a"}}
    ]


def test_blocks_that_stay_are_the_same_objects():
    translator = TRANSLATOR
    picture = ImageBlock(image=b"\x89PNG\r\n\x1a\n", image_mimetype="image/png")
    paper = DocumentBlock(data=b"%PDF-1.4", document_mimetype="application/pdf")
    sign = {"signature": "s"}
    call = ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs='{"place": "a"}')
    point = CachePoint(cache_control={"type": "ephemeral", "ttl": "5m"})
    blocks = [ThinkingBlock(content="Hm.", additional_information=sign), picture, paper, TextBlock(text="See."), point, call]  # fmt: skip
    message = ChatMessage(role="assistant", blocks=blocks)
    given = message.blocks
    read = translator.read(message)
    kinds = [block["type"] for block in read["content"]]
    assert kinds == ["thinking", "image", "document", "text", "tool_use"]
    assert read["content"][1]["source"]["data"] == "iVBORw0KGgo="
    same = translator.changed(message, read).blocks
    assert all(a is b for a, b in zip(same, given, strict=True))

    seen = {"type": "text", "text": "[image]"}
    fewer = {**read["content"][4], "id": "c1-2", "input": {"place": "b"}}
    now = {"role": "assistant", "content": [seen, *read["content"][2:4], fewer]}
    changed = translator.changed(message, now).blocks
    assert changed[0].text == "[image]"
    assert [changed[1] is given[2], changed[2] is given[3], changed[3] is given[4]] == [True] * 3
    assert (changed[4].tool_call_id, changed[4].tool_kwargs) == ("c1-2", '{"place": "b"}')
    assert message.blocks == given


def messages_of(talk: list[dict[str, Any]]) -> list[ChatMessage]:
    """A conversation of the generator as LlamaIndex would hold it."""
    messages = []
    for message in talk:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for each in blocks:
            if each["type"] == "tool_result":
                named = {"tool_call_id": each["tool_use_id"]}
                messages.append(ChatMessage(each["content"], role="tool", additional_kwargs=named))
        own = [_block(each) for each in blocks if each["type"] != "tool_result"]
        if own:
            messages.append(ChatMessage(role=message["role"], blocks=own))
    return messages


def _block(block: dict[str, Any]) -> Any:
    if block["type"] == "text":
        return TextBlock(text=block["text"])
    return ToolCallBlock(
        tool_call_id=block["id"], tool_name=block["name"], tool_kwargs=block["input"]
    )


def round_trips(seeds: Iterable[int]) -> Tally:
    held = HeldConversations[ChatMessage](TRANSLATOR, **SMALL)

    def judged(messages: list[ChatMessage]) -> None:
        assert_legal("openai_chat", request(messages))

    def same(one: ChatMessage, other: ChatMessage) -> None:
        assert (one.role, one.additional_kwargs) == (other.role, other.additional_kwargs)

    def dump(messages: list[ChatMessage]) -> list[Any]:
        return [message.model_dump() for message in messages]

    return there_and_back(seeds, held, "gpt-5.4", messages_of, judged, same, dump)


@pytest.mark.parametrize("count", COUNTS)
def test_generated_conversations_there_and_back(count):
    round_trips(range(count))

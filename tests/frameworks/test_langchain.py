"""LangChain's agents with Ullage in them, on fake models."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

pytest.importorskip("langchain", reason="`make integrations` installs it")

from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.utils import convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from tests.frameworks.generated import COUNTS, SMALL, Tally, there_and_back
from tests.frameworks.hard_cases import CASES, LIMITS, Brain
from tests.frameworks.players.langchain import play
from tests.oracle.legality import assert_legal as assert_legal_by_oracle
from ullage.counting.calibration import UntrueUsageWarning
from ullage.exceptions import ContextTooLarge
from ullage.integrations.conversations import HeldConversations, ModelFacts
from ullage.integrations.langchain import TRANSLATOR, UllageMiddleware
from ullage.testing import ScriptedSummarizer, assert_legal

SUMMARY = ScriptedSummarizer()([{"role": "user", "content": "Look everywhere."}]).text
WINDOW = {"max_input_tokens": 6_000, "max_output_tokens": 500}


def legal(messages: list[AnyMessage]) -> list[dict[str, Any]]:
    """As OpenAI is sent them; both judges have to agree."""
    sent = convert_to_openai_messages(messages)
    assert_legal("openai_chat", sent)
    assert_legal_by_oracle("openai_chat", sent)
    return sent


class Model(BaseChatModel):
    """Calls `look` twice at once in each of its first answers, then says so; refuses what is larger than its window."""

    rounds: int = 12
    window_chars: int = 10**9
    sent: list[Any] = Field(default_factory=list)
    refused: list[int] = Field(default_factory=list)
    overflow: Any = ContextOverflowError

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _answer(self, messages: list[AnyMessage]) -> AIMessage:
        self.sent.append(list(messages))
        legal(messages)
        size = sum(len(str(message.content)) for message in messages)
        if size > self.window_chars:
            self.refused.append(size)
            raise self.overflow("too many tokens for this model")
        number = len(self.sent)
        if messages[-1].type == "human" and "<" in messages[-1].text[:1]:
            return AIMessage(SUMMARY)
        if number > self.rounds:
            return AIMessage("All looked at.", id=f"answer-{number}")
        calls = [
            {"name": "look", "args": {"place": f"{number}-{at}"}, "id": f"c{number}-{at}"}
            for at in range(2)
        ]
        return AIMessage("", tool_calls=calls, id=f"answer-{number}")

    def _generate(
        self,
        messages: Any,
        stop: Any = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **more: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any
    ) -> Iterator[Any]:
        answer = self._answer(messages)
        chunks = [
            {"name": call["name"], "args": '{"place": "x"}', "id": call["id"], "index": at}
            for at, call in enumerate(answer.tool_calls)
        ]
        yield ChatGenerationChunk(
            message=AIMessageChunk(answer.content, tool_call_chunks=chunks, id=answer.id)
        )


def model(**more: Any) -> Model:
    return Model(**{"profile": WINDOW, **more})


@tool
def look(place: str) -> str:
    """Looks at a place."""
    if place.endswith("3-1"):
        raise ToolException("nothing there")
    return f"place {place}: " + "row of the table\n" * 120


look.handle_tool_error = True


def agent(chat: Model, middleware: Any = None, **more: Any) -> Any:
    middleware = UllageMiddleware() if middleware is None else middleware
    return create_agent(
        chat, tools=[look], middleware=[middleware], system_prompt="Be brief.", **more
    )


def ask(made: Any, thread: str = "one", words: str = "Look everywhere.") -> list[AnyMessage]:
    config = {"configurable": {"thread_id": thread}, "recursion_limit": 200}
    return list(made.invoke({"messages": [HumanMessage(words)]}, config)["messages"])


def size(messages: list[AnyMessage]) -> int:
    return sum(len(str(message.content)) for message in messages)


def test_requests_fit_and_the_state_stays_whole():
    chat = model()
    messages = ask(agent(chat))
    assert len(messages) == 1 + 12 * 3 + 1
    assert size(messages) > 45_000
    assert max(map(size, chat.sent)) < 30_000
    assert sum(isinstance(message, ToolMessage) for message in messages) == 24
    kept = {message.id: message for message in messages}
    newest = chat.sent[-1]
    assert any(kept.get(message.id) is message for message in newest)


def test_the_cached_prefix_grows_from_request_to_request():
    chat = model(rounds=30, profile={"max_input_tokens": 24_000, "max_output_tokens": 500})
    ask(agent(chat))
    same = 0
    for one, other in zip(chat.sent, chat.sent[1:], strict=False):
        same += [m.content for m in other[: len(one)]] == [m.content for m in one]
    assert same > len(chat.sent) * 2 // 3


def test_another_process_sends_the_same():
    first, second = model(), model()
    saver = InMemorySaver()
    ask(agent(first, checkpointer=saver))
    ask(agent(second, checkpointer=saver), words="And again.")
    third = model()
    whole = agent(third, checkpointer=InMemorySaver())
    ask(whole)
    ask(whole, words="And again.")
    texts = [[m.content for m in sent] for sent in (second.sent[0], third.sent[len(first.sent)])]
    assert texts[0] == texts[1]


def test_time_travel():
    chat, saver = model(), InMemorySaver()
    made = agent(chat, checkpointer=saver)
    ask(made)
    config = {"configurable": {"thread_id": "one"}, "recursion_limit": 200}
    states = [s for s in made.get_state_history(config) if s.next == ("model",)]
    before = states[len(states) // 2]
    count = len(chat.sent)
    made.invoke(None, {**before.config, "recursion_limit": 200})
    assert len(chat.sent) > count


def test_asynchronously_and_streamed():
    chat = model()
    made = agent(chat)

    async def run() -> list[Any]:
        config = {"recursion_limit": 200}
        chunks = made.astream({"messages": [HumanMessage("Look.")]}, config, stream_mode="messages")
        return [chunk async for chunk in chunks]

    assert asyncio.run(run())
    assert len(chat.sent) == 13
    assert max(map(size, chat.sent)) < 30_000


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_refusal_makes_room_and_the_request_is_sent_again(asynchronous):
    chat = model(profile={"max_input_tokens": 200_000}, window_chars=20_000)
    made = agent(chat)
    given = {"messages": [HumanMessage("Look.")]}
    config = {"recursion_limit": 200}
    if asynchronous:
        done = asyncio.run(made.ainvoke(given, config))
    else:
        done = made.invoke(given, config)
    assert done["messages"][-1].content == "All looked at."
    assert chat.refused


def test_other_errors_pass():
    class Broken(Model):
        def _answer(self, messages: Any) -> AIMessage:
            raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        ask(agent(Broken(profile=WINDOW)))


def test_what_cannot_fit_is_an_error():
    chat = model()
    with pytest.raises(ContextTooLarge):
        ask(agent(chat), words="word " * 30_000)


def test_persisted_the_state_stays_small_and_nothing_is_written_twice():
    chat = model(rounds=30)
    saver = InMemorySaver()
    made = agent(chat, UllageMiddleware(persist=True), checkpointer=saver)
    messages = ask(made)
    assert size(messages) < 30_000
    legal(list(messages))
    ids = [message.id for message in messages]
    assert len(set(ids)) == len(ids)
    ask(made, words="And again.")
    other = agent(chat, UllageMiddleware(persist=True), checkpointer=saver)
    ask(other, words="And again, elsewhere.")


def test_persisted_a_state_with_repeated_ids_keeps_calls_and_results(tmp_path):
    brain = Brain(CASES[2])
    with pytest.warns(UntrueUsageWarning):
        messages = play(brain, 40, LIMITS, tmp_path, persist=True)
    assert not brain.wrong, brain.wrong[:3]
    assert len(messages) < 40
    calls = [call["id"] for each in messages for call in getattr(each, "tool_calls", ())]
    results = [each.tool_call_id for each in messages if each.type == "tool"]
    assert calls
    assert calls == results


def test_calls_in_the_content_go_as_their_calls_do():
    call = {"name": "look", "args": {"place": "x" * 40}, "id": "c"}
    blocks = [{"type": "tool_use", "id": "c", "name": "look", "input": call["args"]}] * 2
    given = AIMessage([{"type": "text", "text": "So."}, *blocks], tool_calls=[call, call])
    translator = TRANSLATOR
    now = translator.read(given)
    now = {**now, "content": [*now["content"][:2], {**now["content"][2], "id": "c-2", "input": {}}]}
    made = translator.changed(given, now)
    assert [each["id"] for each in made.tool_calls] == ["c", "c-2"]
    assert [each["args"] for each in made.tool_calls] == [call["args"], {}]
    assert made.content == [given.content[0], blocks[0], {**blocks[1], "id": "c-2", "input": {}}]
    one = translator.changed(given, {**now, "content": now["content"][:2]})
    assert one.content == given.content[:2]
    assert len(one.tool_calls) == 1


def test_a_result_without_its_call_is_sent_as_a_text():
    messages = [
        HumanMessage("Look."),
        ToolMessage("rows", tool_call_id="gone"),
        HumanMessage("So?"),
    ]
    held = HeldConversations[AnyMessage](TRANSLATOR, **SMALL)
    sent = held.of("one", ModelFacts("gpt-5.4")).fit(messages).messages
    assert [each.type for each in sent] == ["human"] * len(sent)
    legal(sent)


def test_the_agents_own_model_writes_the_summary():
    chat = model(rounds=30)
    ask(agent(chat, UllageMiddleware(summarizer="host")))
    asked = [sent for sent in chat.sent if sent[-1].text.startswith("<")]
    assert asked
    line = max(SUMMARY.splitlines(), key=len)
    assert any(line in str(sent) for sent in chat.sent)


def test_deepagents_summarization_is_replaced():
    deepagents = pytest.importorskip("deepagents")
    chat = model(profile={"max_input_tokens": 40_000, "max_output_tokens": 500})
    middleware = UllageMiddleware(name="SummarizationMiddleware")
    made = deepagents.create_deep_agent(chat, tools=[look], middleware=[middleware])
    made.invoke({"messages": [HumanMessage("Look.")]}, {"recursion_limit": 200})
    assert len(chat.sent) == 13


# ---- round trip -------------------------------------------------------------------------------


def given(messages: list[dict[str, Any]]) -> list[AnyMessage]:
    """The same conversation as LangChain's messages."""
    made: list[AnyMessage] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        words = " ".join(block["text"] for block in blocks if block["type"] == "text")
        if message["role"] == "assistant":
            calls = [
                {"name": b["name"], "args": b["input"], "id": b["id"]}
                for b in blocks
                if b["type"] == "tool_use"
            ]
            made.append(AIMessage(words, tool_calls=calls, id=f"a{len(made)}"))
            continue
        for block in blocks:
            if block["type"] == "tool_result":
                status = "error" if block.get("is_error") else "success"
                made.append(
                    ToolMessage(
                        block["content"],
                        tool_call_id=block["tool_use_id"],
                        status=status,
                        artifact={"n": len(made)},
                        id=f"t{len(made)}",
                    )
                )
        if words:
            made.append(HumanMessage(words, id=f"h{len(made)}"))
    return made


def _same(one: Any, other: Any) -> None:
    about = [
        (type(m), m.id, m.response_metadata, getattr(m, "artifact", None)) for m in (one, other)
    ]
    assert about[0] == about[1]


def round_trips(seeds: Iterable[int]) -> Tally:
    held = HeldConversations[AnyMessage](TRANSLATOR, **SMALL)

    def judged(messages: list[AnyMessage]) -> None:
        assert_legal("openai_chat", convert_to_openai_messages(messages))

    def dump(messages: list[AnyMessage]) -> list[str]:
        return [message.model_dump_json() for message in messages]

    return there_and_back(seeds, held, "gpt-5.4", given, judged, _same, dump)


@pytest.mark.parametrize("count", COUNTS)
def test_generated_conversations_there_and_back(count):
    round_trips(range(count))


def test_messages_that_were_changed_in_place_are_read_again():
    call = {"name": "look", "args": {"file": "a.py", "lines": [1, 2]}, "id": "t1"}
    messages: list[Any] = [
        HumanMessage([{"type": "text", "text": "Look."}], role="user"),
        AIMessage([{"type": "text", "text": "I look."}], tool_calls=[call]),
        ToolMessage("output", tool_call_id="t1"),
        AIMessage("Done.", usage_metadata={"input_tokens": 5, "output_tokens": 6, "total_tokens": 11}),
        ChatMessage("More?", role="user"),
        AIMessageChunk("…"),
    ]  # fmt: skip
    conversation = HeldConversations[AnyMessage](TRANSLATOR).of("one", ModelFacts("gpt-5.4"))

    human, asks, output, done, chat, chunk = messages
    changes: list[Callable[[], object]] = [
        lambda: human.content[0].update(text="edited"),
        lambda: setattr(human, "role", "assistant"),
        lambda: asks.tool_calls[0]["args"]["lines"].append(3),
        lambda: asks.tool_calls[0].update(args={}),
        lambda: asks.content.append("and more"),
        lambda: setattr(output, "status", "error"),
        lambda: setattr(output, "content", "".join(["out", "put"])),  # equal, and another object
        lambda: done.usage_metadata.update(input_tokens=70_000),
        lambda: setattr(done, "content", ""),
        lambda: setattr(chat, "role", "assistant"),
        lambda: setattr(chunk, "content", "of a stream"),
        lambda: messages.__setitem__(0, SystemMessage(human.content)),
        lambda: messages.pop(0),
        lambda: messages.append(HumanMessage("new")),
        lambda: messages.__setitem__(1, output.model_copy()),
        lambda: messages.reverse(),
    ]
    for number, change in enumerate(changes):
        conversation.read(messages)
        before = conversation.read(messages)
        said = copy.deepcopy(before)
        again = conversation.read(messages)
        assert [one is other for one, other in zip(before, again, strict=True)].count(False) <= 1
        change()
        now = conversation.read(messages)
        assert now == [TRANSLATOR.read(message) for message in messages]
        assert now != said or number in (6, 14)

"""Pydantic AI's agents with Ullage in them, on its function model."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable
from datetime import timedelta
from operator import is_not
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="`make integrations` installs it")

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.exceptions import ModelContextWindowExceededError
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

from tests.frameworks.generated import COUNTS, SMALL, Tally, there_and_back
from tests.oracle.legality import assert_legal as assert_legal_by_oracle
from ullage.counting.calibration import UntrueUsageWarning
from ullage.integrations.conversations import HeldConversations, ModelFacts
from ullage.integrations.pydantic_ai import (
    TRANSLATOR,
    Ullage,
    UllageStrategy,
    ullage_history,
)
from ullage.testing import ScriptedSummarizer, assert_legal

SUMMARY = ScriptedSummarizer()([{"role": "user", "content": "Look everywhere."}]).text
PROFILE: Any = {"context_window": 6_000}


def legal(messages: list[ModelMessage]) -> None:
    read = [TRANSLATOR.read(message) for message in messages]
    bare = [{"role": each["role"], "content": each["content"]} for each in read]
    assert_legal("anthropic", bare)
    assert_legal_by_oracle("anthropic", bare, window=0)


def size(messages: list[ModelMessage]) -> int:
    return sum(len(str(getattr(part, "content", ""))) for m in messages for part in m.parts)


class Script:
    """Calls `look` twice at once in each of its first answers; refuses what is larger than its window."""

    def __init__(self, rounds: int = 12, window_chars: int = 10**9) -> None:
        self.rounds, self.window_chars = rounds, window_chars
        self.sent: list[list[ModelMessage]] = []
        self.refused = 0

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, UserPromptPart) and str(last.content).startswith("<user>"):
            return ModelResponse(parts=[TextPart(SUMMARY)])
        self.sent.append(list(messages))
        legal(messages)
        if size(messages) > self.window_chars:
            self.refused += 1
            raise ModelContextWindowExceededError("function", "input is too long")
        number = len(self.sent)
        if number > self.rounds:
            return ModelResponse(parts=[TextPart("All looked at.")])
        thought = ThinkingPart("Where next?", signature="c2ln", provider_name="function")
        calls = [ToolCallPart("look", {"place": f"{number}-{at}"}) for at in range(2)]
        return ModelResponse(parts=[thought, *calls])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> Any:
        for at, part in enumerate(self.answer(messages, info).parts):
            if isinstance(part, ToolCallPart):
                yield {
                    at: DeltaToolCall(
                        part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id
                    )
                }
            elif isinstance(part, TextPart):
                yield part.content

    def model(self, **profile: Any) -> FunctionModel:
        return FunctionModel(
            self.answer,
            stream_function=self.stream,
            profile={**PROFILE, **profile},
            model_name="gpt-5.4",
        )


def agent(script: Script, *capabilities: Any, **profile: Any) -> Agent[None, str]:
    made = Agent(
        script.model(**profile),
        capabilities=list(capabilities),
        system_prompt="Be brief.",
        retries=5,
    )

    @made.tool_plain
    def look(place: str) -> str:
        if place.endswith("3-1"):
            raise ModelRetry("nothing there")
        return f"place {place}: " + "row of the table\n" * 120

    return made


def test_requests_fit_and_the_history_stays_whole():
    script = Script()
    done = agent(script, Ullage()).run_sync("Look everywhere.")
    assert done.output == "All looked at."
    assert len(done.all_messages()) == 1 + 12 * 2 + 1
    assert size(done.all_messages()) > 45_000
    assert max(map(size, script.sent)) < 30_000
    newest = script.sent[-1]
    assert newest[-1] is not None
    assert any(isinstance(p, SystemPromptPart) for m in newest for p in m.parts)
    assert [type(p) for m in newest for p in m.parts].count(SystemPromptPart) == 1


def test_streamed():
    script = Script()

    async def run() -> str:
        async with agent(script, Ullage()).run_stream("Look everywhere.") as stream:
            return str(await stream.get_output())

    with pytest.warns(UntrueUsageWarning):  # its streams report 50 tokens whatever was sent
        assert asyncio.run(run()) == "All looked at."
    assert len(script.sent) == 13


def test_a_refusal_makes_room_and_the_request_is_sent_again():
    script = Script(window_chars=20_000)
    done = agent(script, Ullage(), context_window=200_000).run_sync("Look.")
    assert done.output == "All looked at."
    assert script.refused


def test_other_errors_pass():
    def broken(messages: Any, info: Any) -> ModelResponse:
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        Agent(
            FunctionModel(broken, profile=PROFILE, model_name="gpt-5.4"), capabilities=[Ullage()]
        ).run_sync("hi")


def test_a_stored_history_goes_on_in_another_process():
    one = Script()
    history = agent(one, Ullage()).run_sync("Look.").all_messages()
    stored = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(history))
    two, three = Script(0), Script(0)
    same = Ullage()
    agent(two, same).run_sync("More.", message_history=history)
    agent(three, Ullage()).run_sync("More.", message_history=stored)
    texts = [[str(TRANSLATOR.read(m)) for m in script.sent[0]] for script in (two, three)]
    assert texts[0] == texts[1]


def test_persisted_and_as_a_history_processor():
    for capability in (Ullage(persist=True), ProcessHistory(ullage_history())):
        script = Script(20)
        done = agent(script, capability).run_sync("Look everywhere.")
        assert size(done.all_messages()) < 30_000
        legal(done.all_messages()[:-1])
        again = Script(2)
        agent(again, capability).run_sync("More.", message_history=done.all_messages())


def test_the_agents_own_model_writes_the_summary():
    script = Script(30)
    agent(script, Ullage(summarizer="host")).run_sync("Look everywhere.")
    line = max(SUMMARY.splitlines(), key=len)
    assert any(line in str(sent) for sent in script.sent)
    parts = [part for sent in script.sent for message in sent for part in message.parts]
    assert any(isinstance(part, CompactionPart) and part.content for part in parts)


def test_a_tier_of_the_harness():
    harness = pytest.importorskip("pydantic_ai_harness.compaction")
    tiers = harness.TieredCompaction(tiers=[UllageStrategy()], target_tokens=3_000)
    script = Script(20)
    done = agent(script, tiers).run_sync("Look everywhere.")
    assert done.output == "All looked at."
    assert max(map(size, script.sent)) < 30_000


# ---- round trip -------------------------------------------------------------------------------


def given(messages: list[dict[str, Any]]) -> list[ModelMessage]:
    made: list[ModelMessage] = [ModelRequest(parts=[SystemPromptPart("Be brief.")])]
    names: dict[str, str] = {}
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        parts: list[Any] = []
        for block in blocks:
            if block["type"] == "tool_result":
                outcome: Any = "failed" if block.get("is_error") else "success"
                call = block["tool_use_id"]
                parts.append(
                    ToolReturnPart(
                        names[call],
                        block["content"],
                        call,
                        metadata={"n": len(made)},
                        outcome=outcome,
                    )
                )
            elif block["type"] == "tool_use":
                names[block["id"]] = block["name"]
                parts.append(ToolCallPart(block["name"], block["input"], block["id"]))
            elif message["role"] == "assistant":
                parts.append(TextPart(block["text"]))
            else:
                parts.append(UserPromptPart(block["text"]))
        if message["role"] == "user":
            made.append(ModelRequest(parts=parts, metadata={"n": len(made)}))
        else:
            thought = ThinkingPart("So.", signature=f"s{len(made)}", provider_name="anthropic")
            made.append(
                ModelResponse(parts=[thought, *parts], provider_response_id=f"r{len(made)}")
            )
    return made


def _same(one: ModelMessage, other: ModelMessage) -> None:
    assert type(one) is type(other)
    about = [[getattr(part, "metadata", 0) for part in m.parts] for m in (one, other)]
    assert about[0] == about[1][: len(about[0])]


def round_trips(seeds: Iterable[int]) -> Tally:
    held = HeldConversations[ModelMessage](TRANSLATOR, **SMALL)
    dump = ModelMessagesTypeAdapter.dump_json
    return there_and_back(seeds, held, "gpt-5.4", given, legal, _same, dump)


@pytest.mark.parametrize("count", COUNTS)
def test_generated_conversations_there_and_back(count):
    round_trips(range(count))


def test_messages_that_were_changed_in_place_are_read_again():
    returned: Any = ToolReturnPart("look", {"lines": [1, 2]}, "t1")
    call: Any = ToolCallPart("look", {"file": "a.py", "all": [1]}, "t1")
    words: Any = UserPromptPart(["one", "two"])
    text = TextPart("I look.")
    asks: Any = ModelResponse([text, call, ToolCallPart("look", '{"file": "b.py"}', "t2")])
    results = ModelRequest([returned])
    messages: list[Any] = [ModelRequest([SystemPromptPart("Be brief."), words]), asks, results]
    conversation = HeldConversations[ModelMessage](TRANSLATOR).of("one", ModelFacts("gpt-5.4"))
    changes: list[Callable[[], object]] = [
        lambda: words.content.append("three"),
        lambda: setattr(words, "content", "only"),
        lambda: setattr(text, "content", "edited"),
        lambda: call.args["all"].append(2),
        lambda: setattr(call, "args", '{"file": "c.py"}'),
        lambda: setattr(call, "tool_call_id", "t3"),
        lambda: returned.content["lines"].pop(),
        lambda: setattr(returned, "content", {"seconds": timedelta(1)}),
        lambda: setattr(returned, "content", "text"),
        lambda: setattr(returned, "outcome", "failed"),
        lambda: setattr(asks, "usage", RequestUsage(input_tokens=500, output_tokens=2)),
        lambda: setattr(asks.usage, "input_tokens", 600),
        lambda: asks.parts.pop(),
        lambda: asks.parts.append(ThinkingPart("Hm.", signature="s")),
        lambda: results.parts.insert(0, UserPromptPart("more")),
        lambda: messages.pop(0),
        lambda: messages.append(ModelRequest.user_text_prompt("new")),
    ]
    for change in changes:
        conversation.read(messages)
        before = conversation.read(messages)
        said = copy.deepcopy(before)
        assert sum(map(is_not, before, conversation.read(messages))) <= 1
        change()
        now = conversation.read(messages)
        assert now == [TRANSLATOR.read(message) for message in messages]
        assert now != said

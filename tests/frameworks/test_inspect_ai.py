"""Inspect's agents with Ullage's compaction, on its mock model."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="`make integrations` installs it")

import inspect_ai
from inspect_ai import Task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ContentReasoning,
    ContentText,
    ModelOutput,
    ModelUsage,
    compaction,
    get_model,
)
from inspect_ai.tool import ToolCall, ToolCallError, ToolError, tool
from pydantic import TypeAdapter

from tests.frameworks.generated import COUNTS, SMALL, Tally, short_talks, there_and_back
from tests.oracle.legality import assert_legal as assert_legal_by_oracle
from ullage.integrations.conversations import HeldConversations
from ullage.integrations.inspect_ai import TRANSLATOR, UllageCompaction
from ullage.testing import ScriptedSummarizer, assert_legal

SUMMARY = ScriptedSummarizer()([{"role": "user", "content": "Look everywhere."}]).text
TIGHT: Any = {"context_window": 6_000, "max_output_tokens": 500}

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Streams that Inspect leaves open are collected where their warnings are ignored, not in another test."""
    yield
    gc.collect()


def legal(messages: list[ChatMessage]) -> None:
    """As OpenAI is sent them; both judges have to agree."""
    sent = [_sent(message) for message in messages]
    assert_legal("openai_chat", sent)
    assert_legal_by_oracle("openai_chat", sent)


def _sent(message: ChatMessage) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
    sent = {"role": message.role, "content": message.text}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function, "arguments": json.dumps(call.arguments)},
        }
        for call in getattr(message, "tool_calls", None) or ()
    ]
    return {**sent, "tool_calls": calls} if calls else sent


def size(messages: list[ChatMessage]) -> int:
    return sum(len(message.text) for message in messages)


class Script:
    """Calls `look` twice at once in each of its first answers; refuses what is larger than its window."""

    def __init__(self, rounds: int = 12, window_chars: int = 10**9) -> None:
        self.rounds, self.window_chars = rounds, window_chars
        self.sent: list[list[ChatMessage]] = []
        self.refused: list[int] = []

    def __call__(self, given: Any, tools: Any, tool_choice: Any, config: Any) -> ModelOutput:
        if given[-1].text.startswith("<user>"):
            return ModelOutput.from_content("mockllm/model", SUMMARY)
        self.sent.append(list(given))
        legal(given)
        if size(given) > self.window_chars:
            self.refused.append(size(given))
            return ModelOutput.from_content("mockllm/model", "too long", stop_reason="model_length")
        number = len(self.sent)
        calls = [
            ToolCall(id=f"c{number}-{at}", function="look", arguments={"place": f"{number}-{at}"})
            for at in range(2)
        ]
        if number > self.rounds:
            calls = [ToolCall(id="done", function="submit", arguments={"answer": "All looked at."})]
        said = ChatMessageAssistant(content="", tool_calls=calls)
        output = ModelOutput.from_message(said)
        output.usage = ModelUsage(input_tokens=size(given) // 4, output_tokens=10)
        return output


def mock(script: Any = None) -> Any:
    """Inspect's mock model, which would load tiktoken's vocabulary from the network to count."""
    model = get_model("mockllm/model", custom_outputs=script, memoize=False)

    async def count(text: str) -> int:
        return len(text) // 4 + 1

    model.api.count_text_tokens = count
    return model


@tool
def look() -> Any:
    async def execute(place: str) -> str:
        """Looks at a place.

        Args:
            place: Where.
        """
        if place == "3-1":
            raise ToolError("nothing there")
        return f"place {place}: " + "row of the table\n" * 120

    return execute


def run(script: Script, tmp_path: Any, **more: Any) -> Any:
    strategy = UllageCompaction(**{**TIGHT, "threshold": 5_000, **more})
    task = Task(
        dataset=[Sample("Look everywhere.")],
        solver=react(prompt="Be brief.", tools=[look()], compaction=strategy),
    )
    log = inspect_ai.eval(
        task, model=mock(script), display="none", log_dir=str(tmp_path), log_samples=True
    )[0]
    assert log.status == "success", log.error
    return log.samples[0]


def test_requests_fit_and_the_record_stays_whole(tmp_path):
    script = Script()
    sample = run(script, tmp_path)
    assert sample.output.completion.strip().endswith("All looked at.")
    assert max(map(size, script.sent)) < 30_000
    assert size(sample.messages) > 45_000
    assert any(event.event == "compaction" for event in sample.events)
    for sent in script.sent:
        assert (sent[0].role, sent[1].text) == ("system", "Look everywhere.")


def test_a_refusal_makes_room_and_the_agent_goes_on(tmp_path):
    script = Script(window_chars=20_000)
    sample = run(script, tmp_path, context_window=None, threshold=0.9)
    assert sample.output.completion.strip().endswith("All looked at.")
    assert script.refused


def test_the_model_in_use_writes_the_summary(tmp_path):
    script = Script(20)
    run(script, tmp_path, summarizer="host")
    line = max(SUMMARY.splitlines(), key=len)
    assert any(line in message.text for sent in script.sent for message in sent)


def _read(talk: list[dict[str, Any]]) -> list[ChatMessage]:
    """A conversation of the generator as Inspect's messages."""
    made: list[ChatMessage] = []
    for item in talk:
        content = item["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [ContentText(text=each["text"]) for each in blocks if each["type"] == "text"]
        calls = [
            ToolCall(id=each["id"], function=each["name"], arguments=each["input"])
            for each in blocks
            if each["type"] == "tool_use"
        ]
        for each in blocks:
            if each["type"] == "tool_result":
                error = ToolCallError("unknown", each["content"]) if each.get("is_error") else None
                about = {"tool_call_id": each["tool_use_id"], "error": error}
                made.append(ChatMessageTool(content=each["content"], **about))
        if item["role"] == "assistant":
            made.append(ChatMessageAssistant(content=list(texts), tool_calls=calls or None))
        elif texts:
            made.append(ChatMessageUser(content=list(texts)))
    return made


def _same(one: ChatMessage, other: ChatMessage) -> None:
    assert one.id == other.id


def round_trips(seeds: Iterable[int]) -> Tally:
    held = HeldConversations[ChatMessage](TRANSLATOR, **SMALL)

    def dump(messages: list[ChatMessage]) -> list[ChatMessage]:
        return [message.model_copy(deep=True) for message in messages]

    return there_and_back(seeds, held, "mockllm/model", _read, legal, _same, dump)


@pytest.mark.parametrize("count", COUNTS)
def test_generated_conversations_there_and_back(count):
    round_trips(range(count))


def test_a_compacted_list_that_was_stored_goes_on_elsewhere():
    talk = _read(max(short_talks(range(40)), key=lambda each: len(str(each))))
    messages: list[ChatMessage] = [ChatMessageSystem(content="Be brief."), *talk]
    model = mock()

    async def go() -> Any:
        first = compaction(UllageCompaction(**TIGHT), [messages[0], messages[1]], model=model)
        small, added = await first.compact_input(messages, force=True)
        kinds = TypeAdapter(list[ChatMessage])
        stored = kinds.validate_json(kinds.dump_json(small))
        more = [ChatMessageAssistant(content="Seen."), ChatMessageUser(content="And now?")]
        second = compaction(UllageCompaction(**TIGHT), stored[:2], model=model)
        again, _ = await second.compact_input([*stored, *more], force=True)
        return small, added, again

    small, added, again = asyncio.run(go())
    assert added is None
    assert size(small) < size(messages)
    assert again[-1].text == "And now?"
    legal(small)
    legal(again)


def test_a_refusal_makes_what_room_a_long_question_leaves():
    """Half of what was refused is less than the question alone, which must stay."""
    question = ChatMessageUser(content="word " * 3_000)
    earlier = [ChatMessageUser(content="Look."), ChatMessageAssistant(content="Seen. " * 100)]

    async def forced(messages: list[ChatMessage]) -> list[ChatMessage]:
        made = compaction(UllageCompaction(**TIGHT), messages[:1], model=mock())
        return (await made.compact_input(messages, force=True))[0]

    shorter = asyncio.run(forced([*earlier, question]))
    assert shorter[-1].text == question.text
    assert size(shorter) < size([*earlier, question])
    assert [each.text for each in asyncio.run(forced([question]))] == [question.text]


def test_reasoning_and_what_a_provider_needs_back_stay():
    thought = ContentReasoning(reasoning="hm", signature="sig", internal={"id": "r1"})
    call = ToolCall(id="c1", function="look", arguments={"place": "x" * 50})
    given = ChatMessageAssistant(content=[thought, ContentText(text="So.")], tool_calls=[call])
    translator = TRANSLATOR
    now = json.loads(json.dumps(translator.read(given)))
    now["content"][-1]["input"] = {"place": "y"}
    made = translator.changed(given, now)
    assert made.content[0] is thought
    assert made.id == given.id
    assert made.tool_calls[0].arguments == {"place": "y"}
    assert call.arguments == {"place": "x" * 50}

"""Microsoft's Agent Framework with Ullage in it, on a scripted client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="`make integrations` installs it")

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    CompactionProvider,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
    ResponseStream,
    tool,
)

from tests.frameworks.generated import COUNTS, SMALL, Tally, there_and_back
from ullage.integrations.agent_framework import (
    TRANSLATOR,
    UllageChatMiddleware,
    UllageCompactionStrategy,
)
from ullage.integrations.conversations import HeldConversations
from ullage.testing import ScriptedSummarizer, assert_legal

SUMMARY = ScriptedSummarizer()([{"role": "user", "content": "Look everywhere."}]).text


def request(messages: Any) -> list[dict[str, Any]]:
    """As a client of OpenAI's chat API sends it."""
    sent: list[dict[str, Any]] = []
    for message in messages:
        calls = [c for c in message.contents if c.type == "function_call"]
        results = [c for c in message.contents if c.type == "function_result"]
        if results:
            sent += [{"role": "tool", "tool_call_id": c.call_id, "content": c.result} for c in results]  # fmt: skip
            continue
        more = {"tool_calls": [_call(each) for each in calls]} if calls else {}
        sent.append({"role": message.role, "content": message.text or None, **more})
    return sent


def _call(content: Content) -> dict[str, Any]:
    given = content.arguments
    text = given if isinstance(given, str) else json.dumps(given)
    function = {"name": content.name, "arguments": text}
    return {"id": content.call_id, "type": "function", "function": function}


def size(messages: Any) -> int:
    return len(json.dumps(request(messages)))


class Script(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Calls `look` twice at once in each of its first answers; refuses what is larger than its window."""

    def __init__(self, rounds: int = 12, window_chars: int = 10**9) -> None:
        super().__init__()
        self.model = "gpt-5.4"
        self.rounds, self.window_chars, self.sent, self.refused = rounds, window_chars, [], 0

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> Any:
        if stream:
            return ResponseStream(self._stream(messages), finalizer=ChatResponse.from_updates)
        return self._answer(messages)

    async def _stream(self, messages: Any) -> Any:
        answer = await self._answer(messages)
        yield ChatResponseUpdate(role="assistant", contents=answer.messages[0].contents)

    async def _answer(self, messages: Any) -> ChatResponse:
        if messages[-1].text.startswith("<user>"):
            return ChatResponse(messages=[Message("assistant", [SUMMARY])])
        self.sent.append(list(messages))
        assert_legal("openai_chat", request(messages))
        if size(messages) > self.window_chars:
            self.refused += 1
            raise ValueError("prompt is too long: 20000 tokens > 10000 maximum")
        number = len(self.sent) - self.refused
        if number > self.rounds:
            return ChatResponse(messages=[Message("assistant", ["All looked at."])])
        calls = [
            Content.from_function_call(
                f"c{number}-{at}", "look", arguments=json.dumps({"place": f"{number}-{at}"})
            )
            for at in range(2)
        ]
        return ChatResponse(messages=[Message("assistant", calls)])


@tool(approval_mode="never_require")
def look(place: str) -> str:
    """Looks at a place."""
    if place == "3-1":
        raise ValueError("nothing there")
    return f"place {place}: " + "row of the table\n" * 120


def agent(client: Script, middleware: Any = None, **more: Any) -> Agent:
    made = [UllageChatMiddleware(**SMALL)] if middleware is None else middleware
    return Agent(client, "Be brief.", tools=[look], middleware=made, **more)


def run(made: Agent, text: str = "Look everywhere.", **more: Any) -> str:
    return asyncio.run(made.run(text, **more)).text


def bare() -> int:
    """The largest request without Ullage."""
    client = Script()
    run(agent(client, []))
    return max(map(size, client.sent))


def test_requests_of_one_run_fit_and_the_history_stays_whole():
    client = Script()
    made = agent(client)
    session = made.create_session()
    assert run(made, session=session).endswith("All looked at.")
    assert len(client.sent) == 13
    assert max(map(size, client.sent)) < bare() * 2 / 3
    kept = session.state["in_memory"]["messages"]
    assert json.dumps(request(kept)).count("row of the table") == 23 * 120


def test_a_stream_fits():
    async def streamed() -> str:
        made = agent(client)
        return "".join([each.text async for each in made.run("Look everywhere.", stream=True)])

    client = Script()
    assert asyncio.run(streamed()).endswith("All looked at.")
    assert max(map(size, client.sent)) < bare() * 2 / 3


def test_a_refusal_makes_room_and_the_request_is_sent_again():
    client = Script(window_chars=22_000)
    made = agent(client, [UllageChatMiddleware(context_window=200_000)])
    assert run(made).endswith("All looked at.")
    assert client.refused


def test_other_errors_pass():
    class Broken(Script):
        async def _answer(self, messages: Any) -> ChatResponse:
            raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        run(agent(Broken()))


def test_the_agents_own_client_writes_the_summary():
    client = Script(30)
    run(agent(client, [UllageChatMiddleware(**SMALL, summarizer="host")]))
    line = max(SUMMARY.splitlines(), key=len)
    assert any(line in json.dumps(request(sent), ensure_ascii=False) for sent in client.sent)


def test_a_session_is_resumed():
    first = agent(Script())
    session = first.create_session()
    run(first, session=session)
    client = Script(2)
    stored = AgentSession.from_dict(json.loads(json.dumps(session.to_dict())))
    assert run(agent(client), "Look again.", session=stored).endswith("All looked at.")
    assert max(map(size, client.sent)) < bare() * 2 / 3


def test_as_a_strategy_of_the_framework():
    client = Script()
    strategy = UllageCompactionStrategy(model="gpt-5.4", **SMALL)
    history = InMemoryHistoryProvider()
    made = agent(
        client,
        [],
        compaction_strategy=strategy,
        context_providers=[history, CompactionProvider(before_strategy=strategy)],
    )
    session = made.create_session()
    run(made, session=session)
    client.sent, client.rounds = [], 2
    assert run(made, "Look again.", session=session).endswith("All looked at.")
    assert max(map(size, client.sent)) < bare() * 2 / 3


def messages_of(talk: list[dict[str, Any]]) -> list[Message]:
    """A conversation of the generator as the framework would hold it."""
    messages = []
    for message in talk:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results = [b for b in blocks if b["type"] == "tool_result"]
        role = "tool" if results else message["role"]
        messages.append(Message(role, [_content(each) for each in blocks]))
    return messages


def _content(block: dict[str, Any]) -> Content:
    if block["type"] == "text":
        return Content.from_text(block["text"])
    if block["type"] == "tool_use":
        return Content.from_function_call(block["id"], block["name"], arguments=block["input"])
    failed = {"exception": "failed"} if block.get("is_error") else {}
    return Content.from_function_result(block["tool_use_id"], result=block["content"], **failed)


def round_trips(seeds: Iterable[int]) -> Tally:
    held = HeldConversations[Message](TRANSLATOR, **SMALL)

    def judged(messages: list[Message]) -> None:
        assert_legal("openai_chat", request(messages))

    def dump(messages: list[Message]) -> list[Any]:
        return [message.to_dict() for message in messages]

    return there_and_back(seeds, held, "gpt-5.4", messages_of, judged, dump=dump)


@pytest.mark.parametrize("count", COUNTS)
def test_generated_conversations_there_and_back(count):
    round_trips(range(count))

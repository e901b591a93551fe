"""The OpenAI Agents SDK with Ullage in it, on its scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("agents", reason="`make integrations` installs it")

from agents import (
    Agent,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    handoff,
    set_tracing_disabled,
)
from agents.models.fake_id import FAKE_RESPONSES_ID
from agents.testing import ScriptedModel, assistant_message, function_call

from tests.frameworks.generated import COUNTS, SMALL, Tally, there_and_back
from tests.oracle.legality import assert_legal as assert_legal_by_oracle
from ullage import outgoing
from ullage.integrations.conversations import NATIVE, HeldConversations
from ullage.integrations.openai_agents import UllageModel, UllageSession, ullage_filter
from ullage.testing import ScriptedSummarizer, assert_legal

SUMMARY = ScriptedSummarizer()([{"role": "user", "content": "Look everywhere."}]).text
TIGHT: Any = {"context_window": 6_000, "max_output_tokens": 500}

set_tracing_disabled(True)


def legal(items: Any) -> None:
    if isinstance(items, list):
        assert_legal("openai_responses", items)
        assert_legal_by_oracle("openai_responses", items, window=0)


def size(items: Any) -> int:
    return sum(len(str(item.get("output") or item.get("content") or "")) for item in items)


@function_tool
def look(place: str) -> str:
    """Looks at a place."""
    if place.endswith("3-1"):
        raise ValueError("nothing there")
    return f"place {place}: " + "row of the table\n" * 120


def script(rounds: int = 12, *more: Any) -> ScriptedModel:
    """Calls `look` twice at once in each of its first answers."""
    steps: list[Any] = [
        [function_call("look", {"place": f"{at}-{n}"}, call_id=f"c{at}-{n}") for n in range(2)]
        for at in range(rounds)
    ]
    return ScriptedModel([*steps, *more, [assistant_message("All looked at.")]])


def run(
    model: Any, *, streamed: bool = False, config: Any = None, session: Any = None, **more: Any
) -> Any:
    agent = Agent("looker", instructions="Be brief.", model=model, tools=[look], **more)

    async def go() -> Any:
        given: Any = {"max_turns": 90, "run_config": config, "session": session}
        if not streamed:
            return await Runner.run(agent, "Look everywhere.", **given)
        result = Runner.run_streamed(agent, "Look everywhere.", **given)
        async for _ in result.stream_events():
            pass
        return result

    return asyncio.run(go())


def config(**more: Any) -> RunConfig:
    return RunConfig(call_model_input_filter=ullage_filter(**{**TIGHT, **more}))


@pytest.mark.parametrize("streamed", [False, True])
def test_requests_fit_and_the_runs_items_stay_whole(streamed):
    model = script()
    done = run(model, config=config(), streamed=streamed)
    assert done.final_output == "All looked at."
    assert size(done.to_input_list()) > 45_000
    sent = [call.input for call in model.calls]
    assert max(map(size, sent)) < 30_000
    for items in sent:
        legal(items)


def test_the_agents_own_model_writes_the_summary():
    class Host(ScriptedModel):
        async def get_response(self, *given: Any, **named: Any) -> Any:
            if isinstance(named.get("input"), str):
                answer = ScriptedModel([[assistant_message(SUMMARY)]])
                return await answer.get_response(*given, **named)
            return await super().get_response(*given, **named)

    steps: list[Any] = [
        [function_call("look", {"place": f"{at}"}, call_id=f"c{at}")] for at in range(30)
    ]
    host = Host([*steps, [assistant_message("All looked at.")]])
    run(host, config=config(summarizer="host"))
    line = max(SUMMARY.splitlines(), key=len)
    assert any(line in str(call.input) for call in host.calls)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_refusal_makes_room_and_the_request_is_sent_again(streamed):
    error = RuntimeError(
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens."
    )
    model = script(12, error)
    done = run(UllageModel(model), streamed=streamed)
    assert done.final_output == "All looked at."
    sent = [call.input for call in model.calls]
    assert size(sent[-1]) < size(sent[-2])
    legal(sent[-1])


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="no network"):
        run(UllageModel(script(1, RuntimeError("no network"))))


def test_handoffs():
    other = Agent("other", model=ScriptedModel([[assistant_message("Done.")]]))
    model = ScriptedModel(
        [
            [function_call("look", {"place": "1"}, call_id="c1")],
            [function_call("transfer_to_other", {}, call_id="c2")],
        ]
    )
    done = run(model, config=config(), handoffs=[handoff(other)])
    assert done.final_output == "Done."


def test_a_session_stays_small_and_goes_on(tmp_path):
    path = tmp_path / "items.db"
    inner = SQLiteSession("one", path)
    run(script(), session=UllageSession(inner, **TIGHT))
    items = asyncio.run(inner.get_items())
    assert size(items) < 30_000
    legal([*items, {"role": "user", "content": "More."}])
    inner.close()
    again = SQLiteSession("one", path)
    model = script(1)
    run(model, session=UllageSession(again, **TIGHT))
    legal(model.calls[0].input)
    asyncio.run(UllageSession(again, **TIGHT).run_compaction({"force": True}))
    again.close()


def round_trips(seeds: Iterable[int]) -> Tally:
    held = HeldConversations[Any](NATIVE, provider="openai_responses", **SMALL)

    def native(talk: Any) -> list[Any]:
        return list(outgoing(talk, provider="openai_responses").messages)

    def judged(items: list[Any]) -> None:
        assert_legal("openai_responses", items)

    return there_and_back(seeds, held, "gpt-5.4", native, judged)


@pytest.mark.parametrize("count", COUNTS)
def test_generated_conversations_there_and_back(count):
    round_trips(range(count))


def test_answers_of_other_apis_keep_the_one_id_that_the_sdk_gives_them():
    asked: list[list[Any]] = []

    class Chat(ScriptedModel):
        async def get_response(self, *given: Any, **named: Any) -> Any:
            asked.append(list(named.get("input") or given[1]))
            return await super().get_response(*given, **named)

    says = [[assistant_message("Wine. " * 400, item_id=FAKE_RESPONSES_ID)] for _ in range(12)]
    agent = Agent("looker", model=Chat(says))

    async def go() -> None:
        session = SQLiteSession("one")
        for turn in range(12):
            await Runner.run(agent, f"Question {turn}?", session=session, run_config=config())
        session.close()

    asyncio.run(go())
    spoken = [item for items in asked for item in items if item.get("role") == "assistant"]
    assert spoken
    assert {item["id"] for item in spoken} == {FAKE_RESPONSES_ID}
    assert len(asked[-1]) < 23


@pytest.mark.parametrize("response_id", [None, "resp_1"])
def test_a_session_stays_small_whether_or_not_responses_have_an_id(response_id, tmp_path):
    """The SDK calls `run_compaction` only after a response with an id; its chat model's have none."""
    sent: list[list[Any]] = []

    class Chat(ScriptedModel):
        async def get_response(self, *given: Any, **named: Any) -> Any:
            sent.append(list(named.get("input") or given[1]))
            legal(sent[-1])
            answer = await super().get_response(*given, **named)
            answer.response_id = response_id
            return answer

    steps: list[Any] = []
    for turn in range(30):
        calls = [
            function_call("look", {"place": f"{turn}-{n}"}, call_id=f"c{turn}-{n}")
            for n in range(2)
        ]
        steps += [calls, [assistant_message("Looked at.")]]
    agent = Agent("looker", model=Chat(steps), tools=[look])

    async def go() -> int:
        inner = SQLiteSession("one", tmp_path / "items.db")
        session = UllageSession(inner, **TIGHT)
        for turn in range(30):
            await Runner.run(agent, f"Turn {turn}: look.", session=session)
        count = len(await inner.get_items())
        inner.close()
        return count

    assert asyncio.run(go()) < 60  # of 180
    assert max(map(size, sent)) < 30_000


def test_a_session_that_waits_for_an_approval_stays_as_it_is(tmp_path):
    asked = function_tool(lambda place: "row\n" * 900, name_override="ask", needs_approval=True)
    model = ScriptedModel([[function_call("ask", {"place": "1"}, call_id="c1")], [assistant_message("Wine.")]])  # fmt: skip
    agent = Agent("looker", model=model, tools=[asked])

    async def go() -> list[Any]:
        inner = SQLiteSession("one", tmp_path / "items.db")
        session = UllageSession(inner, **TIGHT)
        done = await Runner.run(agent, "Ask.", session=session)
        assert done.interruptions
        before = await inner.get_items()
        assert await session.get_items() == before
        await session.run_compaction({"force": True})
        assert await inner.get_items() == before
        state = done.to_state()
        state.approve(state.get_interruptions()[0])
        ended = await Runner.run(agent, state, session=session)
        assert ended.final_output == "Wine."
        found = list(await inner.get_items())
        inner.close()
        return found

    legal(asyncio.run(go()))

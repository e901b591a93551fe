"""The OpenAI Agents SDK's runner on its scripted model and its session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool, set_tracing_disabled
from agents.items import ItemHelpers
from agents.run_state import RunState
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from agents.usage import Usage

from tests.frameworks.hard_cases import Brain, Call, Heard, looked, question
from ullage.integrations.openai_agents import ullage_filter


class Model(ScriptedModel):
    def __init__(self, brain: Brain) -> None:
        super().__init__()
        self.brain = brain

    async def get_response(self, *given: Any, **named: Any) -> Any:
        self._think(named["input"] if "input" in named else given[1])
        return await super().get_response(*given, **named)

    async def stream_response(self, *given: Any, **named: Any) -> Any:
        self._think(named["input"] if "input" in named else given[1])
        async for event in super().stream_response(*given, **named):
            yield event

    def _think(self, items: Any) -> None:
        reply = self.brain.asked(heard(ItemHelpers.input_to_new_input_list(items)))
        said: list[Any] = [
            function_call("look", {"place": call.place}, call_id=call.id) for call in reply.calls
        ]
        usage = Usage(requests=1, input_tokens=reply.usage, output_tokens=5)
        self.enqueue(ModelStep(output=said or [assistant_message(reply.text)], usage=usage))


def heard(items: list[Any]) -> Iterator[Heard]:
    for item in items:
        if item.get("type") == "function_call":
            call = Call(item["call_id"], json.loads(item["arguments"])["place"])
            yield Heard("assistant", calls=(call,))
        elif item.get("type") == "function_call_output":
            text = str(item["output"])
            yield Heard("user", text, results=((item["call_id"], text),))
        else:
            yield Heard(item["role"], str(item["content"]))


async def play(brain: Brain, turns: int, limits: Any, path: Any) -> None:
    set_tracing_disabled(True)
    case, session = brain.case, None
    for turn in range(turns):
        if turn == 0 or (case.restarts and turn % 10 == 0):
            tool = function_tool(look, needs_approval=case.approvals)
            agent = Agent("looker", model=Model(brain), tools=[tool])
            config = None
            if limits is not None:
                config = RunConfig(call_model_input_filter=ullage_filter(**limits))
            if session is not None:
                session.close()
            session = SQLiteSession("one", path / "items.db")
        given: Any = {"session": session, "run_config": config}
        if case.streamed:
            result = Runner.run_streamed(agent, question(turn), **given)
            async for _ in result.stream_events():
                pass
            continue
        done = await Runner.run(agent, question(turn), **given)
        while done.interruptions:
            state: Any = await RunState.from_json(agent, done.to_state().to_json())
            for item in state.get_interruptions():
                state.approve(item)
            done = await Runner.run(agent, state, **given)
    if session is not None:
        session.close()


def look(place: str) -> str:
    """Looks at a place."""
    return looked(place)

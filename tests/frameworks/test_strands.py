"""Strands' agents with Ullage in them, on a scripted model."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("strands", reason="`make integrations` installs it")

from strands import Agent, tool
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import ContextWindowOverflowException

from tests.frameworks.generated import COUNTS, SMALL, Tally, there_and_back
from ullage import outgoing
from ullage.integrations.conversations import NATIVE, HeldConversations
from ullage.integrations.strands import UllageConversationManager
from ullage.testing import ScriptedSummarizer, assert_legal

SUMMARY = ScriptedSummarizer()([{"role": "user", "content": "Look everywhere."}]).text
TOOLS: Any = {
    "toolConfig": {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {}}}}]}
}


def legal(messages: Any) -> None:
    bare = [{"role": m["role"], "content": m["content"]} for m in messages]
    assert_legal("bedrock", bare, params=TOOLS)


def size(messages: Any) -> int:
    return sum(len(json.dumps(message["content"])) for message in messages)


class Script(Model):
    """Calls `look` twice at once in each of its first answers; refuses what is larger than its window."""

    def __init__(
        self, rounds: int = 12, window_chars: int = 10**9, window: int | None = 6_000
    ) -> None:
        self.rounds, self.window_chars, self.sent, self.refused = rounds, window_chars, [], 0
        self.config = {"model_id": "claude-opus-4-5", "context_window_limit": window}

    def update_config(self, **config: Any) -> None:
        self.config.update(config)

    def get_config(self) -> Any:
        return self.config

    def structured_output(self, *given: Any, **named: Any) -> Any:
        raise NotImplementedError

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **more: Any
    ) -> Any:
        if messages[-1]["content"][0].get("text", "").startswith("<user>"):
            words, calls = SUMMARY, []
        else:
            self.sent.append(copy.deepcopy(messages))
            legal(messages)
            if size(messages) > self.window_chars:
                self.refused += 1
                raise ContextWindowOverflowException("too long")
            number = len(self.sent)
            done = number > self.rounds
            words = "All looked at." if done else ""
            calls = [] if done else [f"{number}-{at}" for at in range(2)]
        yield {"messageStart": {"role": "assistant"}}
        if words:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": words}}}
            yield {"contentBlockStop": {}}
        for call in calls:
            start = {"toolUse": {"name": "look", "toolUseId": f"c{call}"}}
            yield {"contentBlockStart": {"start": start}}
            yield {
                "contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"place": call})}}}
            }
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


@tool
def look(place: str) -> str:
    """Looks at a place."""
    if place == "3-1":
        raise ValueError("nothing there")
    return f"place {place}: " + "row of the table\n" * 120


def agent(model: Script, manager: Any = None, **more: Any) -> Agent:
    manager = manager or UllageConversationManager(max_output_tokens=500)
    return Agent(
        model=model,
        tools=[look],
        system_prompt="Be brief.",
        conversation_manager=manager,
        callback_handler=None,
        **more,
    )


def test_requests_fit():
    model = Script()
    made = agent(model)
    assert str(made("Look everywhere.")).strip() == "All looked at."
    assert len(model.sent) == 13
    assert max(map(size, model.sent)) < 30_000


def test_a_refusal_makes_room_and_the_request_is_sent_again():
    model = Script(window_chars=20_000, window=200_000)
    assert str(agent(model)("Look.")).strip() == "All looked at."
    assert model.refused


def test_a_refusal_that_cannot_be_helped_is_raised():
    with pytest.raises(ContextWindowOverflowException):
        agent(Script(window_chars=10, window=200_000))("Look.")


def test_the_agents_own_model_writes_the_summary():
    model = Script(30)
    agent(model, UllageConversationManager(max_output_tokens=500, summarizer="host"))(
        "Look everywhere."
    )
    line = max(SUMMARY.splitlines(), key=len)
    assert any(line in str(sent) for sent in model.sent)


def test_a_session_is_resumed(tmp_path):
    one = agent(
        Script(20), session_manager=FileSessionManager("s", storage_dir=str(tmp_path)), agent_id="a"
    )
    one("Look everywhere.")
    model = Script(2)
    two = agent(
        model, session_manager=FileSessionManager("s", storage_dir=str(tmp_path)), agent_id="a"
    )
    assert len(two.messages) <= len(one.messages) + 1
    two("Look again.")
    assert max(map(size, model.sent)) < 30_000


def round_trips(seeds: Iterable[int]) -> Tally:
    held = HeldConversations[Any](NATIVE, provider="bedrock", **SMALL)

    def native(talk: Any) -> list[Any]:
        return list(outgoing(talk, provider="bedrock").messages)

    return there_and_back(seeds, held, "claude-opus-4-5", native, legal)


@pytest.mark.parametrize("count", COUNTS)
def test_generated_conversations_there_and_back(count):
    round_trips(range(count))

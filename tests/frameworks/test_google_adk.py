"""Google's ADK with Ullage in it, on a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest

pytest.importorskip("google.adk", reason="`make integrations` installs it")

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LLMRegistry, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, FunctionCall, Part

from tests.frameworks.generated import COUNTS, SMALL, Tally, there_and_back
from tests.oracle.legality import assert_legal as assert_legal_by_oracle
from ullage import outgoing
from ullage.integrations.conversations import HeldConversations
from ullage.integrations.google_adk import TRANSLATOR, UllagePlugin
from ullage.testing import ScriptedSummarizer, assert_legal

SUMMARY = ScriptedSummarizer()([{"role": "user", "content": "Look everywhere."}]).text
TIGHT: Any = {"context_window": 6_000, "max_output_tokens": 500}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


def legal(contents: list[Content]) -> list[Any]:
    read = [TRANSLATOR.read(content) for content in contents]
    assert_legal("gemini", read)
    assert_legal_by_oracle("gemini", read, window=0)
    return read


def size(contents: Any) -> int:
    return sum(len(json.dumps(TRANSLATOR.read(each))) for each in contents)


class Script(BaseLlm):
    """Calls `look` twice at once in each of its first answers."""

    rounds: ClassVar[int] = 12
    window_chars: ClassVar[int] = 10**9
    sent: ClassVar[list[Any]] = []
    refused: ClassVar[list[int]] = []

    @classmethod
    def supported_models(cls) -> list[str]:
        return ["scripted-.*"]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        cls, contents = type(self), llm_request.contents
        if (contents[-1].parts[0].text or "").startswith("<user>"):
            yield LlmResponse(content=Content(role="model", parts=[Part(text=SUMMARY)]))
            return
        cls.sent.append(list(contents))
        legal(contents)
        if size(contents) > cls.window_chars:
            cls.refused.append(size(contents))
            raise RuntimeError(
                "The input token count (130000) exceeds the maximum number of tokens allowed (128000)."
            )
        number = len(cls.sent)
        parts = [
            Part(
                function_call=FunctionCall(
                    name="look", args={"place": f"{number}-{at}"}, id=f"c{number}-{at}"
                )
            )
            for at in range(2)
        ]
        if number > cls.rounds:
            parts = [Part(text="All looked at.")]
        yield LlmResponse(content=Content(role="model", parts=parts))


LLMRegistry.register(Script)


def look(place: str) -> dict[str, str]:
    """Looks at a place."""
    if place == "3-1":
        return {"error": "nothing there"}
    return {"result": f"place {place}: " + "row of the table\n" * 120}


def run(rounds: int = 12, window_chars: int = 10**9, **more: Any) -> Any:
    Script.rounds, Script.window_chars = rounds, window_chars
    Script.sent.clear()
    Script.refused.clear()
    agent = LlmAgent(name="looker", model="scripted-1", instruction="Be brief.", tools=[look])
    plugin = UllagePlugin(**{**TIGHT, **more})
    runner = InMemoryRunner(app=App(name="cellar", root_agent=agent, plugins=[plugin]))

    async def go() -> Any:
        session = await runner.session_service.create_session(app_name="cellar", user_id="u")
        asked = Content(role="user", parts=[Part(text="Look everywhere.")])
        events = runner.run_async(user_id="u", session_id=session.id, new_message=asked)
        seen = [event async for event in events]
        whole = await runner.session_service.get_session(
            app_name="cellar", user_id="u", session_id=session.id
        )
        return seen, whole

    return asyncio.run(go())


def test_requests_fit_and_the_session_stays_whole():
    seen, session = run()
    assert seen[-1].content.parts[0].text == "All looked at."
    assert max(map(size, Script.sent)) < 30_000
    assert size([event.content for event in session.events]) > 45_000


def test_a_refusal_makes_room_and_the_request_is_sent_again():
    seen, _ = run(window_chars=20_000, context_window=200_000)
    assert seen[-1].content.parts[0].text == "All looked at."
    assert Script.refused


def test_the_agents_own_model_writes_the_summary():
    run(30, summarizer="host")
    line = max(SUMMARY.splitlines(), key=len)
    assert any(line in str(sent) for sent in Script.sent)


def round_trips(seeds: Iterable[int]) -> Tally:
    held = HeldConversations[Content](TRANSLATOR, provider="gemini", **SMALL)

    def native(talk: Any) -> list[Content]:
        return [Content.model_validate(each) for each in outgoing(talk, provider="gemini").messages]

    def judged(contents: list[Content]) -> None:
        assert_legal("gemini", [TRANSLATOR.read(each) for each in contents])

    return there_and_back(seeds, held, "gemini-2.5-pro", native, judged)


@pytest.mark.parametrize("count", COUNTS)
def test_generated_conversations_there_and_back(count):
    round_trips(range(count))

"""Google's Agent Development Kit: its compaction of events, and Ullage's plugin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from benches.frameworks.recorded import (
    OUTPUT,
    SYSTEM,
    WINDOW,
    Framework,
    Message,
    Played,
    Way,
    calls_of,
    schema,
    shown_of,
    words_of,
)
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner, RunConfig
from google.adk.tools import BaseTool
from google.genai.types import (
    Content,
    FunctionCall,
    FunctionDeclaration,
    GenerateContentResponseUsageMetadata,
    Part,
)

from ullage.integrations.google_adk import UllagePlugin


def sent(contents: list[Content]) -> list[Message]:
    """As Gemini's API is sent them."""
    return [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in contents]


class Replay(BaseLlm):
    """Gives the recorded answers, or writes summaries."""

    played: Any
    writes: bool = False

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        contents = list(llm_request.contents)
        if self.writes:
            text = self.played.summary(shown_of(sent(contents)))
            yield LlmResponse(content=Content(role="model", parts=[Part(text=text)]))
            return
        blocks = self.played.answer(lambda: sent(contents))
        words = [Part(text=words_of(blocks))] if words_of(blocks) else []
        signatures = [b"signed", *[None] * len(blocks)]  # of thinking, with the first call
        calls = [
            Part(function_call=FunctionCall(name=b["name"], args=b["input"], id=b["id"]), thought_signature=signed)
            for b, signed in zip(calls_of(blocks), signatures, strict=False)
        ]  # fmt: skip
        used = GenerateContentResponseUsageMetadata(
            prompt_token_count=self.played.used, total_token_count=self.played.used
        )
        yield LlmResponse(
            content=Content(role="model", parts=[*words, *calls]), usage_metadata=used
        )


class Recalled(BaseTool):
    """Gives the recorded results."""

    def __init__(self, name: str, played: Played) -> None:
        super().__init__(name=name, description=name)
        self.played = played

    def _get_declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(
            name=self.name, description=self.name, parameters_json_schema=schema()
        )

    async def run_async(self, *, args: Any, tool_context: Any) -> Any:
        return {"result": self.played.result(self.name, args)}


def play(make: Callable[[Played], dict[str, Any]]) -> Callable[[Played], None]:
    """An app with those parts, one session, each prompt an invocation."""

    def run(played: Played) -> None:
        model = Replay(model="gemini-2.5-pro", played=played)
        tools: list[Any] = [Recalled(name, played) for name in played.session.tools]
        agent = LlmAgent(name="coder", model=model, instruction=SYSTEM, tools=tools)
        runner = InMemoryRunner(app=App(name="bench", root_agent=agent, **make(played)))

        async def go() -> None:
            session = await runner.session_service.create_session(app_name="bench", user_id="u")
            for prompt in played.session.prompts:
                asked = Content(role="user", parts=[Part(text=prompt)])
                events = runner.run_async(
                    user_id="u",
                    session_id=session.id,
                    new_message=asked,
                    run_config=RunConfig(max_llm_calls=0),
                )
                async for _ in events:
                    pass

        asyncio.run(go())

    return run


def _compaction(**when: int) -> Callable[[Played], dict[str, Any]]:
    def make(played: Played) -> dict[str, Any]:
        writer = Replay(model="gemini-2.5-flash", played=played, writes=True)
        config = EventsCompactionConfig(summarizer=LlmEventSummarizer(llm=writer), **when)
        return {"events_compaction_config": config}

    return make


def _ullage(**more: Any) -> dict[str, Any]:
    return {"plugins": [UllagePlugin(context_window=WINDOW, max_output_tokens=OUTPUT, **more)]}


FRAMEWORK = Framework(
    "Google ADK",
    "gemini",
    ("google-adk",),
    (
        Way("nothing", play(lambda played: {})),
        Way("Ullage", play(lambda played: _ullage())),
        Way(
            "Ullage, summaries by a model",
            play(lambda played: _ullage(summarizer=played.writer)),
            True,
        ),
        Way(
            "events compaction, every 3 turns, 1 of overlap",
            play(_compaction(compaction_interval=3, overlap_size=1)),
            True,
        ),
        Way(
            "events compaction, at 80 %, 20 events stay",
            play(_compaction(token_threshold=WINDOW * 8 // 10, event_retention_size=20)),
            True,
        ),
    ),
)

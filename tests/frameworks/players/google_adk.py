"""Google's ADK: its runner on its session service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.models import BaseLlm, LLMRegistry, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool
from google.genai.types import (
    Content,
    FunctionCall,
    FunctionResponse,
    GenerateContentResponseUsageMetadata,
    Part,
)

from tests.frameworks.hard_cases import Brain, Call, Heard, looked, question
from ullage.integrations.google_adk import UllagePlugin

CONFIRM = "adk_request_confirmation"


class Thinking(BaseLlm):
    brain: ClassVar[Any] = None

    @classmethod
    def supported_models(cls) -> list[str]:
        return ["thinking-.*"]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        reply = type(self).brain.asked(heard(llm_request.contents))
        parts = [
            Part(function_call=FunctionCall(name="look", args={"place": call.place}, id=call.id))
            for call in reply.calls
        ]
        usage = GenerateContentResponseUsageMetadata(
            prompt_token_count=reply.usage,
            candidates_token_count=5,
            total_token_count=reply.usage + 5,
        )
        said = Content(role="model", parts=parts or [Part(text=reply.text)])
        if stream and reply.text:
            yield LlmResponse(content=said, partial=True)
        yield LlmResponse(content=said, usage_metadata=usage)


LLMRegistry.register(Thinking)


def heard(contents: Any) -> Iterator[Heard]:
    for content in contents:
        calls, results, words = [], [], []
        for part in content.parts:
            if part.function_call:
                calls.append(Call(part.function_call.id or "", part.function_call.args["place"]))
            elif part.function_response:
                answer = part.function_response
                text = str(next(iter((answer.response or {"": ""}).values())))
                results.append((answer.id or "", text))
                words.append(text)
            else:
                words.append(part.text or "")
        role = "assistant" if content.role == "model" else "user"
        yield Heard(role, "".join(words), tuple(calls), tuple(results))


async def play(brain: Brain, turns: int, limits: Any, path: Any) -> None:
    case, service = brain.case, InMemorySessionService()
    Thinking.brain = brain
    await service.create_session(app_name="cellar", user_id="u", session_id="s")
    mode = StreamingMode.SSE if case.streamed else StreamingMode.NONE
    for turn in range(turns):
        if turn == 0 or (case.restarts and turn % 10 == 0):
            tool = FunctionTool(look, require_confirmation=case.approvals)
            agent = LlmAgent(name="looker", model="thinking-1", tools=[tool])
            plugins = [] if limits is None else [UllagePlugin(**limits)]
            app = App(name="cellar", root_agent=agent, plugins=plugins)
            runner = Runner(app=app, session_service=service)
        parts = [Part(text=question(turn))]
        while parts:
            parts = await run(runner, parts, RunConfig(streaming_mode=mode))


async def run(runner: Runner, parts: list[Part], config: RunConfig) -> list[Part]:
    """What the user answers; nothing where no question is put."""
    message, asked = Content(role="user", parts=parts), []
    async for event in runner.run_async(
        user_id="u", session_id="s", new_message=message, run_config=config
    ):
        asked += [call for call in event.get_function_calls() if call.name == CONFIRM]
    return [
        Part(
            function_response=FunctionResponse(
                name=CONFIRM, id=call.id, response={"confirmed": True}
            )
        )
        for call in asked
    ]


def look(place: str) -> dict[str, str]:
    """Looks at a place."""
    return {"result": looked(place)}

"""OpenAI Agents SDK: its filter, a limited session, and Ullage's ways in. Compaction by OpenAI's server cannot be measured offline."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    SessionSettings,
    SQLiteSession,
    Usage,
    set_tracing_disabled,
)
from agents.extensions import ToolOutputTrimmer
from agents.testing import assistant_message, function_call
from benches.frameworks.recorded import (
    OUTPUT,
    SYSTEM,
    WINDOW,
    Framework,
    Played,
    Way,
    calls_of,
    schema,
    words_of,
)

from ullage.integrations.openai_agents import UllageModel, UllageSession, ullage_filter

TIGHT: Any = {"context_window": WINDOW, "max_output_tokens": OUTPUT}


class Replay(Model):
    """Gives the recorded answers."""

    model = "gpt-5.4"

    def __init__(self, played: Played) -> None:
        self.played = played

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any) -> Any:  # fmt: skip # noqa: A002
        blocks = self.played.answer(lambda: copy.deepcopy(list(input)))
        name = f"msg_{len(self.played.sent)}"
        words = [assistant_message(words_of(blocks), item_id=name)] if words_of(blocks) else []
        calls = [function_call(b["name"], b["input"], call_id=b["id"]) for b in calls_of(blocks)]
        usage = Usage(requests=1, input_tokens=self.played.used, total_tokens=self.played.used)
        return ModelResponse([*words, *calls], usage, f"resp_{name}")

    def stream_response(self, *given: Any, **more: Any) -> Any:
        raise NotImplementedError


def play(
    filtered: Callable[[Played], Any] = lambda played: None,
    session: Callable[[Any], Any] = lambda session: session,
    model: Callable[[Any, Played], Any] = lambda model, played: model,
) -> Callable[[Played], None]:
    """An agent with that filter, that session and that model, each prompt a run."""

    def run(played: Played) -> None:
        set_tracing_disabled(True)
        tools: list[Any] = [_tool(name, played) for name in played.session.tools]
        agent = Agent(
            "coder", instructions=SYSTEM, model=model(Replay(played), played), tools=tools
        )
        kept = session(SQLiteSession("one"))
        config = RunConfig(call_model_input_filter=filtered(played))

        async def go() -> None:
            for prompt in played.session.prompts:
                await Runner.run(agent, prompt, session=kept, run_config=config, max_turns=1_000)

        asyncio.run(go())

    return run


def _tool(name: str, played: Played) -> FunctionTool:
    async def call(context: Any, given: str) -> str:
        return played.result(name, given)

    return FunctionTool(name, name, schema(), call, strict_json_schema=False)


def _limited(session: Any) -> Any:
    session.session_settings = SessionSettings(limit=60)
    return session


FRAMEWORK = Framework(
    "OpenAI Agents SDK",
    "openai_responses",
    ("openai-agents",),
    (
        Way("nothing", play()),
        Way("Ullage, `ullage_filter`", play(lambda played: ullage_filter(**TIGHT))),
        Way(
            "Ullage, `ullage_filter`, summaries by a model",
            play(lambda played: ullage_filter(summarizer=played.writer, **TIGHT)),
            True,
        ),
        Way(
            "Ullage, `UllageModel`",
            play(model=lambda model, played: UllageModel(model, **TIGHT)),
            recovers=True,
        ),
        Way(
            "Ullage, `UllageSession` alone",
            play(session=lambda session: UllageSession(session, **TIGHT)),
        ),
        Way("`ToolOutputTrimmer`", play(lambda played: ToolOutputTrimmer())),
        Way("`SessionSettings(limit=60)`", play(session=_limited)),
    ),
    lambda: ValueError(
        "Your input exceeds the context window of this model. context_length_exceeded"
    ),
)

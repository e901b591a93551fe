"""A real, small model in agents of LangChain, Pydantic AI and the OpenAI Agents SDK, until the conversation outgrows its window."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("xllamacpp")

import openai

from tests.small_model import SmallModel
from ullage.exceptions import MissingExtra

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),
]

WINDOW, OUTPUT = 1_024, 4
TURNS, LONG = (12, 60), (3, 260)
"""Prompts, and the words of each: more than the window together."""

TOO_LARGE = {"context_window": 32_000, "max_output_tokens": OUTPUT}
FITTING = {"context_window": WINDOW, "max_output_tokens": OUTPUT}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    try:
        loaded = SmallModel(window_tokens=WINDOW, max_output_tokens=OUTPUT, threads=1)
    except MissingExtra as error:
        pytest.skip(str(error))
    with loaded as model:
        yield model.openai_url


def prompts(count: int, length: int) -> list[str]:
    """So many, of so many words."""
    rng, words = random.Random(1), "cask stave hoop bung cooper cellar oak wine stock room".split()
    return [
        f"Note {turn}: {' '.join(rng.choice(words) for _ in range(length))}. Say one word."
        for turn in range(count)
    ]


Ask = Callable[[str, list[str], dict[str, Any] | None, Any], list[str]]
"""Asks prompts in one conversation; with Ullage at these limits, or without it."""


def langchain(
    url: str, asked: list[str], limits: dict[str, Any] | None, listener: Any
) -> list[str]:
    chat = pytest.importorskip("langchain_openai")
    from langchain.agents import create_agent
    from langgraph.checkpoint.memory import InMemorySaver

    from ullage.integrations.langchain import UllageMiddleware

    model = chat.ChatOpenAI(
        base_url=url, api_key="k", model="smollm2", temperature=0, max_retries=0, max_tokens=OUTPUT
    )
    middleware = [] if limits is None else [UllageMiddleware(listeners=[listener], **limits)]
    agent = create_agent(model, middleware=middleware, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "one"}}
    return [
        agent.invoke({"messages": [("user", text)]}, config)["messages"][-1].text for text in asked
    ]


def pydantic_ai(
    url: str, asked: list[str], limits: dict[str, Any] | None, listener: Any
) -> list[str]:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from ullage.integrations.pydantic_ai import Ullage

    async def run() -> list[str]:
        client = openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
        model = OpenAIChatModel("smollm2", provider=OpenAIProvider(openai_client=client))
        capabilities = [] if limits is None else [Ullage(listeners=[listener], **limits)]
        settings: Any = {"temperature": 0, "max_tokens": OUTPUT}
        agent = Agent(model, capabilities=capabilities, model_settings=settings)
        said, history = [], None
        for text in asked:
            done = await agent.run(text, message_history=history)
            said.append(done.output)
            history = done.all_messages()
        await client.close()
        return said

    return asyncio.run(run())


def openai_agents(
    url: str, asked: list[str], limits: dict[str, Any] | None, listener: Any
) -> list[str]:
    pytest.importorskip("agents")
    from agents import (
        Agent,
        ModelSettings,
        OpenAIChatCompletionsModel,
        Runner,
        SQLiteSession,
        set_tracing_disabled,
    )

    from ullage.integrations.openai_agents import UllageModel

    set_tracing_disabled(True)

    async def run() -> list[str]:
        client = openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
        model: Any = OpenAIChatCompletionsModel("smollm2", client)
        if limits is not None:
            model = UllageModel(model, listeners=[listener], **limits)
        settings = ModelSettings(temperature=0, max_tokens=OUTPUT)
        agent, session = Agent("cooper", model=model, model_settings=settings), SQLiteSession("one")
        said = []
        for text in asked:
            done = await Runner.run(agent, text, session=session)
            said.append(str(done.final_output))
        session.close()
        await client.close()
        return said

    return asyncio.run(run())


EACH = [langchain, pydantic_ai, openai_agents]


def counted(ask: Ask, url: str, asked: list[str], limits: dict[str, Any]) -> Counter[str]:
    """What happened while every prompt was answered."""
    events: Counter[str] = Counter()
    said = ask(url, asked, limits, lambda event: events.update([type(event).__name__]))
    assert len(said) == len(asked)
    assert all(said)
    return events


@pytest.mark.parametrize("ask", EACH)
def test_a_conversation_outgrows_a_real_window_and_goes_on(url: str, ask: Ask):
    events = counted(ask, url, prompts(*TURNS), FITTING)
    assert events["CompactionFinished"], events


@pytest.mark.parametrize("ask", EACH)
def test_a_real_refusal_makes_room(url: str, ask: Ask):
    events = counted(ask, url, prompts(*LONG), TOO_LARGE)
    assert events["LevelActed"], events  # at 32,000 tokens nothing was due


@pytest.mark.parametrize("ask", EACH)
def test_without_ullage_the_conversation_ends(url: str, ask: Ask):
    with pytest.raises(Exception, match=r"context|exceed"):
        ask(url, prompts(*LONG), None, None)

"""LangChain: its middleware, deepagents' summarization, and Ullage's middleware."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

from benches.frameworks.recorded import (
    OUTPUT,
    SYSTEM,
    WINDOW,
    Framework,
    Played,
    Way,
    calls_of,
    schema,
    shown_of,
    words_of,
)
from deepagents.backends import FilesystemBackend
from deepagents.middleware.summarization import create_summarization_middleware
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.utils import convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from ullage.integrations.langchain import UllageMiddleware

PROFILE = {"max_input_tokens": WINDOW, "max_output_tokens": OUTPUT}


class Model(BaseChatModel):
    """Gives the recorded answers."""

    played: Any

    @property
    def _llm_type(self) -> str:
        return "recorded"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _get_ls_params(self, stop: Any = None, **more: Any) -> Any:
        return {"ls_provider": "openai"}  # whose reported usage its counts go by

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any
    ) -> ChatResult:
        blocks = self.played.answer(lambda: convert_to_openai_messages(messages))
        calls = [{"name": b["name"], "args": b["input"], "id": b["id"]} for b in calls_of(blocks)]
        used = self.played.used
        usage = {"input_tokens": used, "output_tokens": 0, "total_tokens": used}
        message = AIMessage(
            words_of(blocks),
            tool_calls=calls,
            usage_metadata=usage,
            response_metadata={"model_provider": "openai"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


class Writer(Model):
    """Writes summaries."""

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any
    ) -> ChatResult:
        text = self.played.summary(shown_of(convert_to_openai_messages(messages)))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def play(make: Callable[[Played], list[Any]]) -> Callable[[Played], None]:
    """An agent with that middleware, one thread, each prompt an invocation."""

    def run(played: Played) -> None:
        model = Model(played=played, profile=PROFILE)
        tools = [_tool(name, played) for name in played.session.tools]
        agent = create_agent(
            model, tools=tools, middleware=make(played), system_prompt=SYSTEM, checkpointer=InMemorySaver()
        )  # fmt: skip
        config: Any = {"configurable": {"thread_id": "one"}, "recursion_limit": 10_000}
        for prompt in played.session.prompts:
            agent.invoke({"messages": [HumanMessage(prompt)]}, config)

    return run


def _tool(name: str, played: Played) -> StructuredTool:
    def call(**given: Any) -> str:
        return played.result(name, given)

    return StructuredTool.from_function(call, name=name, description=name, args_schema=schema())


def _writer(played: Played) -> Writer:
    return Writer(played=played, profile=PROFILE)


def _summarization(played: Played) -> list[Any]:
    return [SummarizationMiddleware(_writer(played), trigger=("fraction", 0.8))]


def _deepagents(played: Played) -> list[Any]:
    folder = FilesystemBackend(tempfile.mkdtemp(prefix="ullage-bench-"))
    return [create_summarization_middleware(_writer(played), folder)]


def _editing(played: Played) -> list[Any]:
    # Its own 100,000 tokens are half of the window of the API that it mirrors.
    return [ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=WINDOW // 2)])]


FRAMEWORK = Framework(
    "LangChain",
    "openai_chat",
    ("langchain", "langchain-core", "deepagents"),
    (
        Way("nothing", play(lambda played: [])),
        Way("Ullage", play(lambda played: [UllageMiddleware()]), recovers=True),
        Way(
            "Ullage, summaries by a model",
            play(lambda played: [UllageMiddleware(summarizer=played.writer)]),
            True,
            True,
        ),
        Way("`SummarizationMiddleware`, at 80 %", play(_summarization), True),
        Way("deepagents' summarization", play(_deepagents), True, True),
        Way("`ContextEditingMiddleware`, at 50 %", play(_editing)),
    ),
    lambda: ContextOverflowError("too many tokens"),
)

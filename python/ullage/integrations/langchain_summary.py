"""A LangChain chat model as the writer of summaries."""

from __future__ import annotations

from typing import Any

from ullage.integrations.conversations import transcript_of
from ullage.integrations.versions import absent
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

try:
    from langchain.agents.middleware.internal_call_transformer import internal_call_metadata
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
    from langchain_core.runnables import RunnableConfig
except ImportError as exc:
    raise absent("langchain") from exc

__all__ = ["ChatSummarizer"]


class ChatSummarizer:
    """Writes summaries with the agent's own model; its tokens are kept out of the agent's stream.

    Args:
        model: Called with one text, without tools.
    """

    def __init__(self, model: BaseChatModel) -> None:
        self._model = model
        self.name = f"host:{type(model).__name__}"
        profile = getattr(model, "profile", None) or {}
        self.window_tokens: int | None = profile.get("max_input_tokens")

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Writes the summary that `request` asks for."""
        return _reply(self._model.invoke(_messages(request), config=_config()))

    async def asummarize(self, request: SummaryRequest) -> SummaryReply:
        """`summarize`, without blocking the event loop."""
        return _reply(await self._model.ainvoke(_messages(request), config=_config()))


def _config() -> RunnableConfig:
    return {"metadata": {"lc_source": "summarization", **internal_call_metadata()}}


def _messages(request: SummaryRequest) -> list[BaseMessage]:
    system = [SystemMessage(request.system)] if request.system else []
    return [*system, HumanMessage(transcript_of(request.messages, request.prompt))]


def _reply(answer: AIMessage) -> SummaryReply:
    about: dict[str, Any] = answer.response_metadata
    reason = about.get("finish_reason") or about.get("stop_reason") or ""
    return SummaryReply(
        text=str(answer.text),
        finish_reason=str(reason),
        tool_calls=tuple(call["name"] for call in answer.tool_calls),
    )

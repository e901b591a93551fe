"""Microsoft's Agent Framework: `Agent(client, middleware=[UllageChatMiddleware()])`.

```python
from agent_framework import Agent
from ullage.integrations.agent_framework import UllageChatMiddleware

agent = Agent(client, middleware=[UllageChatMiddleware(context_window=128_000)])
```
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Unpack

from ullage.integrations.agent_framework_messages import MessageTranslator
from ullage.integrations.conversations import (
    HeldConversation,
    HeldConversations,
    ModelFacts,
    Options,
    transcript_of,
)
from ullage.integrations.versions import absent, check
from ullage.manager.followed import print_of
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

check("agent-framework")
try:
    from agent_framework import (
        ChatContext,
        ChatMiddleware,
        Message,
        SupportsChatGetResponse,
        included_messages,
    )
except ImportError as exc:
    raise absent("agent-framework") from exc

__all__ = ["UllageChatMiddleware", "UllageCompactionStrategy"]


class UllageChatMiddleware(ChatMiddleware):
    """Keeps each request of an agent within the model's window, also between the calls of one run.

    The session's history stays whole: what the model is sent is a view of it. After a refusal as too long, room is made and the
    request is sent again, but not once a stream has begun. Conversations that the service keeps pass as they are.

    Args:
        **options: See `ullage.integrations.conversations.Options`.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        self._conversations = HeldConversations[Message](MessageTranslator(), **options)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Send what fits, and after a refusal as too long less."""
        given, options = list(context.messages), dict(context.options or {})
        if not given or options.get("conversation_id"):
            await call_next()
            return
        conversation, tools = self._of(context, given, options), _tools(options.get("tools"))
        while True:
            fitted = await conversation.afit(
                given, system=str(options.get("instructions") or ""), tools=tools
            )
            context.messages = fitted.messages
            try:
                await call_next()
            except Exception as error:
                await conversation.arefused(error)
            else:
                return

    def _of(
        self, context: ChatContext, given: Sequence[Message], options: Mapping[str, Any]
    ) -> HeldConversation[Message]:
        name = options.get("model") or getattr(context.client, "model", None)
        known = getattr(context, "session", None)  # older releases do not name it
        session = known.session_id if known else _begin(given)
        host = _host(context.client) if self._conversations.host_writes else None
        return self._conversations.of(session, ModelFacts(str(name or "unknown")), host)


class UllageCompactionStrategy:
    """A compaction strategy: `CompactionProvider(before_strategy=UllageCompactionStrategy(model="gpt-5.4"))`, or `compaction_strategy=`.

    The framework tells a strategy neither model nor instructions nor tools; `UllageChatMiddleware` knows them.

    Args:
        model: Name of the model whose window counts.
        **options: See `ullage.integrations.conversations.Options`.
    """

    def __init__(
        self,
        *,
        model: str,
        **options: Unpack[Options],
    ) -> None:
        self._model = ModelFacts(model)
        self._conversations = HeldConversations[Message](
            MessageTranslator(),
            has_host=False,  # no client is at hand that could be asked
            **options,
        )

    async def __call__(self, messages: list[Message]) -> bool:
        """Replace the list's contents by what fits; the given messages themselves are not changed."""
        given = included_messages(messages)
        if not given:
            return False
        conversation = self._conversations.of(_begin(given), self._model)
        fitted = await conversation.afit(given)
        if fitted.changed:
            messages[:] = fitted.messages
            conversation.manager.view_kept(fitted.view)
        return fitted.changed


def _begin(given: Sequence[Message]) -> str:
    """Tells a conversation from others by its first message."""
    return print_of(MessageTranslator().read(given[0]))


def _tools(tools: Any) -> list[dict[str, Any]]:
    """Definitions of function tools, as far as they are counted."""
    found = []
    for tool in tools if isinstance(tools, Sequence) else [tools]:
        if hasattr(tool, "parameters") and hasattr(tool, "name"):
            about = {"name": tool.name, "description": getattr(tool, "description", "") or ""}
            found.append({**about, "input_schema": tool.parameters()})
    return found


def _host(client: SupportsChatGetResponse) -> Callable[[SummaryRequest], Awaitable[SummaryReply]]:
    """The agent's own client as the writer of summaries."""

    async def write(request: SummaryRequest) -> SummaryReply:
        asked = [Message("user", [transcript_of(request.messages, request.prompt)])]
        if request.system:
            asked.insert(0, Message("system", [request.system]))
        answer = await client.get_response(asked)
        return SummaryReply(text=answer.text, finish_reason=str(answer.finish_reason or ""))

    return write

"""Strands Agents: `Agent(conversation_manager=UllageConversationManager())`.

```python
from strands import Agent
from ullage.integrations.strands import UllageConversationManager

agent = Agent(conversation_manager=UllageConversationManager())
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Unpack

from ullage.exceptions import ContextTooLarge
from ullage.integrations.conversations import (
    NATIVE,
    HeldConversation,
    HeldConversations,
    ModelFacts,
    Options,
    framework,
    tool_definitions,
    transcript_of,
)
from ullage.messages import Item
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

with framework("strands"):
    from strands import Agent
    from strands.agent.conversation_manager import ConversationManager
    from strands.hooks import BeforeModelCallEvent, HookRegistry
    from strands.models import Model


def _read_message(message: Item) -> Item:
    # What is sent of it: notes such as its tracking id may come later than the message.
    return {"role": message["role"], "content": message["content"]}


def _changed_message(message: Item, now: Item) -> Item:
    return {**message, "content": now["content"]}


_CONVERSE = NATIVE._replace(read=_read_message, changed=_changed_message)
"""For messages in Bedrock's form; what Strands notes next to their content stays."""


class UllageConversationManager(ConversationManager):
    """Keeps an agent's messages within the model's window: before each request, and after a refusal as too long.

    As Strands wants it, the agent's own list is changed. Messages that need no change stay the same objects; what a session
    manager stores is whole, and a restored agent begins with the newest summary.

    Args:
        **options: See `ullage.integrations.conversations.Options`. Of the model Strands knows `context_window_limit`.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        super().__init__()
        self._conversations = HeldConversations[Item](_CONVERSE, "bedrock", **options)
        self._written: list[Item] = []  # at the head of the agent's messages, not in its session
        self._stored: Mapping[str, Any] | None = None

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Before each request of the model the messages are made to fit."""
        super().register_hooks(registry, **kwargs)
        registry.add_callback(BeforeModelCallEvent, lambda event: self._fit(event.agent))

    def apply_management(self, agent: Agent, **kwargs: Any) -> None:
        """Called after an invocation; the next request is fitted when it is made."""

    def reduce_context(self, agent: Agent, e: Exception | None = None, **kwargs: Any) -> None:
        """Make room.

        Args:
            agent: Its messages are changed.
            e: What the model raised; raised again where no room can be made. `None`: as much as is due.
            **kwargs: Not used.
        """
        if e is not None:
            # Strands calls with an error only where it has recognised it as an overflow.
            self._of(agent).refused(e, overflow=True)
        try:
            self._fit(agent)
        except ContextTooLarge as exc:
            raise (e or exc) from exc

    def get_state(self) -> dict[str, Any]:
        """The state for the session: decisions and fingerprints, and what stands before the stored messages."""
        held = self._conversations.held(_ONE)
        state = self._stored if held is None else held.manager.view_state()
        # Strands stores messages by their number: what Ullage wrote has none, so it is part of the state.
        return {**super().get_state(), "written": list(self._written), "view": state}

    def restore_from_session(self, state: dict[str, Any]) -> list[Any] | None:
        """Go on from a stored state; returns what stands before the stored messages."""
        super().restore_from_session(state)
        self._written, self._stored = list(state.get("written") or ()), state.get("view")
        return list(self._written) or None

    def _of(self, agent: Agent) -> HeldConversation[Item]:
        config: Any = agent.model.get_config()
        about = config if isinstance(config, Mapping) else vars(config)
        name = str(about.get("model_id") or type(agent.model).__name__)
        # Older releases have no such property.
        facts = ModelFacts(name, getattr(agent.model, "context_window_limit", None))
        conversation = self._conversations.of(_ONE, facts, lambda: _host(agent.model))
        # Only now: the model, which decides the window, is known with the first request.
        if self._stored is not None and not len(conversation.manager.history):
            conversation.manager.load_view_state(self._stored, list(agent.messages))
            self._stored = None
        return conversation

    def _fit(self, agent: Agent) -> None:
        messages = list(agent.messages)
        if not messages:
            return
        conversation = self._of(agent)
        tools = tool_definitions(
            (spec["name"], spec.get("description"), spec["inputSchema"].get("json", {}))
            for spec in agent.tool_registry.get_all_tool_specs()
        )
        fitted = conversation.fit(messages, system=agent.system_prompt or "", tools=tools)
        if not fitted.changed:
            return
        # How many messages of the session are no longer there, and what stands in their place.
        written, origin = len(self._written), fitted.view.origin
        stored = ((n, at) for n, at in enumerate(origin) if at is not None and at >= written)
        head, first = next(stored, (len(origin), len(messages)))
        self.removed_message_count += first - written
        self._written = fitted.messages[:head]
        agent.messages[:] = fitted.messages
        conversation.manager.view_kept(fitted.view)


_ONE = "agent"
"""A conversation manager is of one agent."""


def _host(model: Model) -> Callable[[SummaryRequest], SummaryReply]:
    """The agent's own model as the writer of summaries, on a thread with a loop of its own."""

    async def ask(request: SummaryRequest) -> SummaryReply:
        text = transcript_of(request)
        parts, reason = [], ""
        asked: Any = [{"role": "user", "content": [{"text": text}]}]
        async for event in model.stream(asked, None, request.system):
            parts.append(event.get("contentBlockDelta", {}).get("delta", {}).get("text") or "")
            reason = event.get("messageStop", {}).get("stopReason") or reason
        return SummaryReply(text="".join(parts), finish_reason=reason)

    def write(request: SummaryRequest) -> SummaryReply:
        # Hooks are called inside the agent's running loop, where `asyncio.run` is refused.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, ask(request)).result()

    return write

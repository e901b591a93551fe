"""OpenAI Agents SDK: `RunConfig(call_model_input_filter=ullage_filter())`.

```python
from agents import Agent, RunConfig, Runner
from ullage.integrations.openai_agents import ullage_filter

config = RunConfig(call_model_input_filter=ullage_filter())
Runner.run_sync(Agent("helper", model="gpt-5.4"), "hello", run_config=config)
```
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Unpack

from ullage.integrations.conversations import (
    NATIVE,
    Head,
    HeldConversation,
    HeldConversations,
    ModelFacts,
    Options,
    framework,
    transcript_of,
)
from ullage.manager.whole_list import print_of
from ullage.messages import Item
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

with framework("openai-agents"):
    from agents import ItemHelpers, Model, ModelSettings, ModelTracing
    from agents.memory import Session
    from agents.models.fake_id import FAKE_RESPONSES_ID
    from agents.models.multi_provider import MultiProvider
    from agents.run_config import CallModelData, ModelInputData

_USUAL: Final = "gpt-5.4"
"""Whose window counts where an agent names no model."""


def _read_item(item: Item) -> Item:
    return {k: v for k, v in item.items() if k != "id"} if _unnamed(item) else item


def _changed_item(item: Item, now: Item) -> Item:
    return {**now, "id": FAKE_RESPONSES_ID} if _unnamed(item) else now


_ITEMS: Final = NATIVE._replace(read=_read_item, changed=_changed_item)
"""For items of the Responses API; the one id that the SDK gives to all answers of other APIs is none, and stays."""


def _unnamed(item: Item) -> bool:
    return item.get("id") == FAKE_RESPONSES_ID


def _conversation_of(
    conversations: HeldConversations[Item],
    items: Sequence[Item],
    model: Model | str | None,
    name: str = "",
) -> HeldConversation[Item]:
    model_name = model if isinstance(model, str) else getattr(model, "model", None)
    if not isinstance(model_name, str) or not model_name:
        model_name = _USUAL
    # `litellm/…` and other prefixes of the SDK name the provider in front.
    facts = ModelFacts(model_name.rpartition("/")[2])
    name = name or (print_of(items[0]) if items else "")
    return conversations.of(name, facts, lambda: _host(model))


def ullage_filter(
    *, model: str | None = None, **options: Unpack[Options]
) -> Callable[[CallModelData[Any]], Awaitable[ModelInputData]]:
    """A `call_model_input_filter` that sends what fits; items that need no change stay the very objects.

    Args:
        model: Name of the model where `RunConfig` names one; `None`: that of the agent.
        **options: See `ullage.integrations.conversations.Options`.
    """
    conversations = HeldConversations[Item](_ITEMS, "openai_responses", **options)

    async def fit(data: CallModelData[Any]) -> ModelInputData:
        model_input: Any = data.model_data
        in_use = model or getattr(data.agent, "model", None)
        head = _head(model_input.instructions, getattr(data.agent, "tools", ()))
        conversation = _conversation_of(conversations, model_input.input, in_use)
        fitted = await conversation.afit(model_input.input, **head)
        # Copies of pending items end a run with a UserError: the SDK knows them by identity (0.24).
        return replace(model_input, input=fitted.messages) if fitted.changed else model_input

    return fit


class UllageModel(Model):
    """A model that is sent what fits: `Agent(model=UllageModel(inner))`; after a refusal as too long, less.

    Items that the provider keeps (`previous_response_id`, `conversation_id`) are passed on as they are.

    Args:
        model: The model that is asked.
        **options: See `ullage.integrations.conversations.Options`.
    """

    def __init__(self, model: Model, **options: Unpack[Options]) -> None:
        self.inner = model
        self._held = HeldConversations[Item](_ITEMS, "openai_responses", **options)

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,
        model_settings: Any,
        tools: Any,
        *others: Any,
        **named: Any,
    ) -> Any:
        """The inner model's response to what fits."""

        def ask(items: Any) -> Awaitable[Any]:
            return self.inner.get_response(
                system_instructions, items, model_settings, tools, *others, **named
            )

        conversation = self._of(input, named)
        if conversation is None:
            return await ask(input)
        head = _head(system_instructions, tools)
        return await conversation.asend(input, lambda fitted: ask(fitted.messages), **head)

    async def stream_response(
        self,
        system_instructions: Any,
        input: Any,
        model_settings: Any,
        tools: Any,
        *others: Any,
        **named: Any,
    ) -> AsyncIterator[Any]:
        """The same, streamed; a refusal counts as one until the first event has come."""

        def ask(items: Any) -> AsyncIterator[Any]:
            return self.inner.stream_response(
                system_instructions, items, model_settings, tools, *others, **named
            )

        conversation = self._of(input, named)
        if conversation is None:
            events = ask(input)
        else:
            head = _head(system_instructions, tools)
            events = conversation.astream(input, lambda fitted: ask(fitted.messages), **head)
        async for event in events:
            yield event

    async def close(self) -> None:
        """Close the inner model."""
        await self.inner.close()

    def _of(self, items: Any, named: dict[str, Any]) -> HeldConversation[Item] | None:
        held_elsewhere = named.get("previous_response_id") or named.get("conversation_id")
        if held_elsewhere or isinstance(items, str):
            return None
        return _conversation_of(self._held, items, self.inner)


class UllageSession:
    """A session whose stored items stay small: `Runner.run(agent, text, session=UllageSession(SQLiteSession("id")))`.

    What no longer fits is replaced in the session underneath: after each turn, where the SDK calls `run_compaction`, and before each
    run, as the SDK calls it only for models whose responses have an id. While a call waits for its output, all stays as it is.

    Args:
        session: Any session.
        model: Name of the model whose window counts.
        **options: See `ullage.integrations.conversations.Options`.
    """

    def __init__(
        self, session: Session, *, model: str = _USUAL, **options: Unpack[Options]
    ) -> None:
        self.session, self.session_id, self._model = session, session.session_id, model
        self.session_settings = getattr(session, "session_settings", None)
        self._lock = asyncio.Lock()  # nothing is added while the items are replaced
        self._held = HeldConversations[Item](_ITEMS, "openai_responses", **options)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The newest items, oldest first; `None`: all, made to fit."""
        async with self._lock:
            items = list(await self.session.get_items(limit))
            return items if limit is not None else await self._kept_small(items)

    async def add_items(self, items: list[Any]) -> None:
        """Append items."""
        async with self._lock:
            await self.session.add_items(items)

    async def pop_item(self) -> Any:
        """Remove the newest item and return it; `None`: there was none."""
        async with self._lock:
            return await self.session.pop_item()

    async def clear_session(self) -> None:
        """Remove all items."""
        async with self._lock:
            await self.session.clear_session()

    async def run_compaction(self, args: Any = None) -> None:
        """Replace the stored items by what fits; with `force` a compaction is made in any case."""
        async with self._lock:
            items = list(await self.session.get_items())
            await self._kept_small(items, force=bool((args or {}).get("force")))

    async def _kept_small(self, items: list[Any], *, force: bool = False) -> list[Any]:
        """What the session holds now."""
        # An approval may come days later, in another process: until then the call and its place stay as the SDK stored them.
        if not items or _waits(items):
            return items
        conversation = _conversation_of(self._held, items, self._model, self.session_id)
        fitted = await conversation.afit(items)
        if not fitted.changed and force:
            await conversation.manager.acompact()
            fitted = await conversation.afit(items)
        if not fitted.changed:
            return items
        # Sessions have no call that replaces: the lock keeps others out between the two.
        smaller: list[Any] = list(fitted.messages)
        await self.session.clear_session()
        await self.session.add_items(smaller)
        conversation.manager.view_kept(fitted.view)
        return smaller


def _waits(items: Iterable[Any]) -> bool:
    """Whether a call has no output yet, as in a run that waits for an approval."""
    open_calls: Counter[str] = Counter()
    for item in items:
        kind = str(item.get("type"))
        if kind.endswith("_call") and item.get("call_id"):
            open_calls[item["call_id"]] += 1
        elif kind.endswith("_call_output"):
            open_calls[str(item.get("call_id"))] -= 1
    return any(count > 0 for count in open_calls.values())


def _head(system: str | None, tools: Iterable[Any]) -> Head:
    # Hosted tools have no schema: the provider runs them, and counts them itself.
    functions = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": schema,
        }
        for tool in tools
        if (schema := getattr(tool, "params_json_schema", None)) is not None
    ]
    return {"system": system or "", "tools": functions}


def _host(model: Model | str | None) -> Callable[[SummaryRequest], Awaitable[SummaryReply]]:
    async def write(request: SummaryRequest) -> SummaryReply:
        # A name may have a prefix that only the SDK's own look-up reads.
        asked = model if isinstance(model, Model) else MultiProvider().get_model(model)
        answer = await asked.get_response(
            system_instructions=request.system,
            input=transcript_of(request),
            model_settings=ModelSettings(),
            tools=[],
            output_schema=None,
            handoffs=[],
            tracing=ModelTracing.DISABLED,
            previous_response_id=None,
            conversation_id=None,
            prompt=None,
        )
        texts = (ItemHelpers.extract_text(item) for item in answer.output)
        return SummaryReply(text="\n".join(text for text in texts if text))

    return write

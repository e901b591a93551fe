"""Inspect: `react(compaction=UllageCompaction())`.

```python
from inspect_ai.agent import react
from ullage.integrations.inspect_ai import UllageCompaction

agent = react(tools=[bash()], compaction=UllageCompaction())
```
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Unpack

from ullage import ContextManager
from ullage.exceptions import ContextTooLarge
from ullage.integrations.conversations import (
    HeldConversation,
    HeldConversations,
    ModelFacts,
    Options,
    transcript_of,
)
from ullage.integrations.inspect_ai_messages import InspectTranslator
from ullage.integrations.versions import absent, check
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

check("inspect-ai")
try:
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageSystem,
        ChatMessageUser,
        CompactionStrategy,
        Model,
        get_model_info,
    )
    from inspect_ai.tool import ToolInfo
except ImportError as exc:
    raise absent("inspect-ai") from exc

__all__ = ["UllageCompaction"]

_UNKNOWN_WINDOW: Final = 128_000
"""Of a model that neither Inspect nor the user states; source: inspect-ai 0.3.285, `DEFAULT_CONTEXT_WINDOW`."""


class UllageCompaction(CompactionStrategy):
    """A compaction strategy: where Inspect finds that the input passes its threshold, or a model refuses it as too long.

    The agent's record of messages stays whole; what the model is sent begins with the system messages and the sample's input.

    Args:
        threshold: Tokens, or a part of the window, from which Inspect asks for a compaction.
        memory: Whether Inspect warns the model before, if it has the memory tool.
        **options: See `ullage.integrations.conversations.Options`. For a response the generation config counts too.
    """

    def __init__(
        self,
        *,
        threshold: float = 0.9,
        memory: bool = True,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(type="summary", threshold=threshold, memory=memory)
        self._window = options.pop("context_window", None)
        self._conversations = HeldConversations[ChatMessage](InspectTranslator(), **options)

    async def compact(
        self, model: Model, messages: list[ChatMessage], tools: list[ToolInfo]
    ) -> tuple[list[ChatMessage], ChatMessageUser | None]:
        """The messages made smaller, whether the window is full or not; nothing is added to the record."""
        rest = [each for each in messages if not isinstance(each, ChatMessageSystem)]
        if not rest:
            return messages, None
        standing = [each for each in messages if isinstance(each, ChatMessageSystem)]
        head: dict[str, Any] = {
            "system": "\n\n".join(each.text for each in standing),
            "tools": _tools(tools),
        }
        conversation = self._of(model, rest)
        fitted = await conversation.afit(rest, **head)
        if not any(step.action == "inserted" for step in fitted.view.plan):
            count = await model.count_tokens(messages)
            # Inspect names no reason: what is below the threshold was refused by the model.
            refused = count <= self._room(model)
            await _compacted(conversation.manager, count // 2 if refused else None)
            fitted = await conversation.afit(rest, **head)
        read = [conversation.translator.read(message) for message in fitted.messages]
        conversation.manager.view_kept(replace(fitted.view, messages=read))
        return [*standing, *fitted.messages], None

    def _of(self, model: Model, rest: Sequence[ChatMessage]) -> HeldConversation[ChatMessage]:
        """The conversation that begins with the same message; one strategy serves all samples of a task."""
        facts = ModelFacts(model.name, self._room(model), model.config.max_tokens)
        host = _host(model) if self._conversations.host_writes else None
        return self._conversations.of(str(rest[0].id), facts, host)

    def _room(self, model: Model) -> int:
        """The tokens above which Inspect asks for a compaction."""
        window = self._window or _window(model)
        whole = isinstance(self.threshold, int) or self.threshold > 1
        return min(int(self.threshold if whole else self.threshold * window), window)


async def _compacted(manager: ContextManager, target: int | None) -> None:
    """A compaction to a target, or to the smallest that can be met: Inspect would end the run over an error."""
    try:
        await manager.acompact(target_tokens=target)
    except ContextTooLarge as error:
        await manager.acompact(target_tokens=error.floor_tokens)


def _window(model: Model) -> int:
    about = get_model_info(model)
    found = about and (about.input_tokens or about.context_length)
    return int(found or _UNKNOWN_WINDOW)


def _tools(tools: Iterable[ToolInfo]) -> list[dict[str, Any]]:
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.parameters.model_dump(mode="json", exclude_none=True),
        }
        for tool in tools
    ]


def _host(model: Model) -> Callable[[SummaryRequest], Awaitable[SummaryReply]]:
    """The model in use as the writer of summaries."""

    async def write(request: SummaryRequest) -> SummaryReply:
        asked: list[ChatMessage] = [
            ChatMessageUser(content=transcript_of(request.messages, request.prompt))
        ]
        if request.system:
            asked.insert(0, ChatMessageSystem(content=request.system))
        answer = await model.generate(asked)
        return SummaryReply(text=answer.completion, finish_reason=str(answer.stop_reason))

    return write

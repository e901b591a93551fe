"""smolagents: `ToolCallingAgent(..., step_callbacks=[UllageCallback()])`, or `CodeAgent`.

```python
from smolagents import CodeAgent
from ullage.integrations.smolagents import UllageCallback

agent = CodeAgent(tools=[], model=model, step_callbacks=[UllageCallback()])
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, Unpack

from ullage.integrations.conversations import (
    Fitted,
    HeldConversation,
    HeldConversations,
    ModelFacts,
    Options,
    Translator,
    framework,
    in_place,
    text_of,
    tool_definitions,
    transcript_of,
)
from ullage.messages import Item
from ullage.providers import classify
from ullage.providers._common import blocks_of
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

with framework("smolagents"):
    from smolagents import ActionStep, FinalAnswerStep, MemoryStep, Model, MultiStepAgent
    from smolagents.models import ChatMessage, MessageRole, get_tool_json_schema
    from smolagents.utils import encode_image_base64

_SPOKEN = frozenset((MessageRole.ASSISTANT, MessageRole.TOOL_CALL))


@dataclass(frozen=True, slots=True)
class StepPart:
    """What the model said in a step of the memory, or what it was given after that."""

    step: MemoryStep | None  # of the memory; `None`: Ullage wrote the messages
    messages: list[ChatMessage]  # what the model is sent
    spoken: bool


@dataclass
class _Sent:
    """Stands before a step's own `to_messages`: a view of a step that stays whole."""

    before: list[ChatMessage] = field(default_factory=list)  # of Ullage
    own: list[ChatMessage] = field(default_factory=list)
    after: list[ChatMessage] = field(default_factory=list)  # likewise
    planned: bool = False  # of a plan nothing is shown to the one who writes the next

    def __call__(self, summary_mode: bool = False) -> list[ChatMessage]:
        own = self.own
        if summary_mode:
            outcome = (message for message in own if message.role != MessageRole.ASSISTANT)
            own = [] if self.planned else list(outcome)
        return [*self.before, *own, *self.after]


def _read_message(message: StepPart) -> Item:
    step, role = message.step, "assistant" if message.spoken else "user"
    if not isinstance(step, ActionStep) or not _answered(step):
        return {"role": role, "content": list(_blocks(message.messages))}
    blocks = _call_blocks(step) if message.spoken else _result_blocks(step)
    return {"role": role, "content": blocks}


def _changed_message(message: StepPart, now: Item) -> StepPart:
    """The part with what its reading says now; the step stays as it is."""
    step, before = message.step, blocks_of(_read_message(message)["content"])
    messages = list(message.messages)
    as_before = blocks_of(now["content"])[: len(before)] == before
    if isinstance(step, ActionStep) and _answered(step) and not as_before:
        copy = _calls_now(step, now) if message.spoken else _results_now(step, now)
        messages = _messages(copy, message.spoken)
    role = MessageRole.ASSISTANT if message.spoken else MessageRole.USER
    more = text_of(blocks_of(now["content"])[len(before) :])
    return replace(message, messages=[*messages, *([_text(role, more)] if more else [])])


def _new_message(item: Item) -> StepPart:
    spoken = item.get("role") == "assistant"
    role = MessageRole.ASSISTANT if spoken else MessageRole.USER
    return StepPart(None, [_text(role, text_of(item["content"]))], spoken)


TRANSLATOR: Final = Translator[StepPart](_read_message, _changed_message, _new_message)
"""Steps as messages of the internal view, and what changed there in copies of the steps."""


class UllageCallback:
    """Keeps what an agent's model is sent within its window: after each step the next request is made to fit.

    The steps of the memory stay whole, in `agent.memory` and in results; what they say to the model is a view of them. Of an agent
    that plans, pass `step_callbacks={MemoryStep: UllageCallback()}`, so that plans are counted too.

    Args:
        **options: See `ullage.integrations.conversations.Options`.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        self._conversations = HeldConversations[StepPart](TRANSLATOR, **options)

    def __call__(self, memory_step: MemoryStep, agent: MultiStepAgent) -> None:
        """Called by the agent with each step, before the step is in its memory."""
        # After the final answer no request follows.
        if not isinstance(memory_step, FinalAnswerStep):
            self._fit(agent, memory_step)

    def refused(self, error: Exception, agent: MultiStepAgent) -> None:
        """Make room after a refusal as too long; go on with `agent.run(task, reset=False)`.

        Args:
            error: What `run` raised; raised again where it is no such refusal, or no room can be made.
            agent: Whose run it was.
        """
        cause = error.__cause__  # of smolagents' AgentGenerationError
        self._of(agent).refused(error, overflow=cause is not None and classify(cause).is_overflow)
        self._fit(agent)

    def _of(self, agent: MultiStepAgent) -> HeldConversation[StepPart]:
        # The hub's and litellm's names have an owner or a provider in front.
        name = str(agent.model.model_id or type(agent.model).__name__).rpartition("/")[2]
        # An agent has no id, and a memory of its own.
        return self._conversations.of(str(id(agent)), ModelFacts(name), lambda: _host(agent.model))

    def _fit(self, agent: MultiStepAgent, newest: MemoryStep | None = None) -> None:
        steps = list(agent.memory.steps)
        if newest is not None and all(step is not newest for step in steps):
            steps.append(newest)
        parts = [part for step in steps for part in _parts(step)]
        if parts:
            system = agent.memory.system_prompt.system_prompt
            _show(steps, parts, self._of(agent).fit(parts, system=system, tools=_tools(agent)))


def _parts(step: MemoryStep) -> list[StepPart]:
    both = (StepPart(step, _messages(step, spoken), spoken) for spoken in (True, False))
    return [part for part in both if part.messages]


def _messages(step: MemoryStep, spoken: bool) -> list[ChatMessage]:
    """As the step itself says them, whatever view of it there is."""
    own = type(step).to_messages(step)
    return [message for message in own if (message.role in _SPOKEN) == spoken]


def _show(steps: list[MemoryStep], parts: list[StepPart], fitted: Fitted[StepPart]) -> None:
    """Let each step say what is to be sent of it."""
    sent = {id(step): _Sent(planned=hasattr(step, "plan")) for step in steps}
    waiting: list[ChatMessage] = []
    for part in fitted.messages:
        if part.step is None:
            waiting += part.messages
            continue
        view = sent[id(part.step)]
        (view.own if view.own else view.before).extend(waiting)
        view.own += part.messages
        waiting = []
    sent[id(steps[-1])].after = waiting
    for step in steps:
        view = sent[id(step)]
        if view.before or view.after or view.own != type(step).to_messages(step):
            # An attribute of the instance hides the method: what reads the step's fields, such as a replay, finds it whole.
            step.to_messages = view
        else:
            vars(step).pop("to_messages", None)


def _answered(step: ActionStep) -> bool:
    """Whether there are calls, and something that can be taken as their result."""
    reported = step.observations is not None or step.error is not None
    return bool(step.tool_calls) and reported


def _call_blocks(step: ActionStep) -> list[dict[str, Any]]:
    blocks = list(_blocks(message for message in _messages(step, True) if message.role != MessageRole.TOOL_CALL))  # fmt: skip
    for call in step.tool_calls or ():
        arguments = call.arguments
        arguments = arguments if isinstance(arguments, dict) else {"arguments": arguments}
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments})
    return blocks


def _calls_now(step: ActionStep, now: Item) -> ActionStep:
    calls = []
    calls_now = in_place(_call_blocks(step), blocks_of(now["content"]), "tool_use")
    for call, block in zip(step.tool_calls or (), calls_now, strict=True):
        arguments = call.arguments if block is None else block["input"]
        whole = isinstance(call.arguments, dict) or block is None
        calls.append(replace(call, arguments=arguments if whole else arguments["arguments"]))
    return replace(step, tool_calls=calls)


def _result_blocks(step: ActionStep) -> list[dict[str, Any]]:
    """Results of the calls; smolagents keeps one text for all, which is read as that of the last."""
    calls = [call.id for call in step.tool_calls or ()]
    error = str(step.error) if step.error is not None else ""
    texts = [{"type": "text", "text": text} for text in (step.observations, error) if text]
    images = [_image(image) for image in step.observations_images or ()]
    earlier = [{"type": "tool_result", "tool_use_id": name, "content": ""} for name in calls[:-1]]
    last = {"type": "tool_result", "tool_use_id": calls[-1], "content": [*texts, *images]}
    return [*earlier, {**last, "is_error": True} if error else last]


def _results_now(step: ActionStep, now: Item) -> ActionStep:
    results = [block for block in blocks_of(now["content"]) if block.get("type") == "tool_result"]
    content = blocks_of(results[-1].get("content")) if results else []
    images = [image for image in step.observations_images or () if _image(image) in content]
    text = text_of(content)
    # The text holds the error already: with both it would be sent twice.
    return replace(step, observations=text, error=None, observations_images=images)


def _blocks(messages: Iterable[ChatMessage]) -> Iterator[dict[str, Any]]:
    for message in messages:
        content = message.content or ()
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if part.get("type") == "image" and "image" in part:
                yield _image(part["image"])
            elif part.get("text"):
                yield {"type": "text", "text": part["text"]}


def _image(image: Any) -> dict[str, Any]:
    data = encode_image_base64(image)
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def _text(role: MessageRole, text: str) -> ChatMessage:
    return ChatMessage(role=role, content=[{"type": "text", "text": text}])


def _tools(agent: MultiStepAgent) -> list[dict[str, Any]]:
    """Definitions that go along with a request, as far as they are counted; a code agent's are in its system prompt."""
    if hasattr(agent, "python_executor"):
        return []
    functions = (get_tool_json_schema(tool)["function"] for tool in agent.tools.values())
    return tool_definitions((f["name"], f["description"], f["parameters"]) for f in functions)


def _host(model: Model) -> Callable[[SummaryRequest], SummaryReply]:
    def write(request: SummaryRequest) -> SummaryReply:
        asked = [_text(MessageRole.USER, transcript_of(request))]
        if request.system:
            asked.insert(0, _text(MessageRole.SYSTEM, request.system))
        return SummaryReply(text=text_of(model.generate(asked).content or ""))

    return write

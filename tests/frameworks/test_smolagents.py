"""smolagents' agents with Ullage in them, on a scripted model."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

pytest.importorskip("smolagents", reason="`make integrations` installs it")

from PIL import Image
from smolagents import ActionStep, CodeAgent, MemoryStep, Model, TaskStep, ToolCallingAgent, tool
from smolagents.memory import ToolCall
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    get_clean_message_list,
    tool_role_conversions,
)
from smolagents.monitoring import Timing, TokenUsage
from smolagents.utils import AgentError

from tests.frameworks.generated import COUNTS, SMALL, Tally, short_talks
from ullage.integrations.smolagents import UllageCallback
from ullage.manager import PlanStep
from ullage.testing import ScriptedSummarizer, assert_legal

SUMMARY = ScriptedSummarizer()([{"role": "user", "content": "Look everywhere."}]).text


def request(messages: Any) -> list[dict[str, Any]]:
    """As smolagents' own models send it to a provider."""
    clean = get_clean_message_list(messages, tool_role_conversions, flatten_messages_as_text=True)
    return [{**each, "role": str(getattr(each["role"], "value", each["role"]))} for each in clean]


def size(messages: Any) -> int:
    return sum(len(each["content"]) for each in request(messages))


class Script(Model):
    """Calls `look` twice at once in each of its first answers; refuses what is larger than its window."""

    def __init__(self, rounds: int = 12, window_chars: int = 10**9, code: bool = False) -> None:
        super().__init__(model_id="anthropic/claude-opus-4-5")
        self.rounds, self.window_chars, self.code = rounds, window_chars, code
        self.sent: list[Any] = []
        self.refused = 0

    def generate(self, messages: Any, **more: Any) -> ChatMessage:
        if str(messages[-1].content).startswith("[{'type': 'text', 'text': '<user>"):
            return ChatMessage(MessageRole.ASSISTANT, SUMMARY)
        self.sent.append(list(messages))
        assert_legal("openai_chat", request(messages))
        if size(messages) > self.window_chars:
            self.refused += 1
            raise ValueError("prompt is too long: 20000 tokens > 10000 maximum")
        number = len(self.sent)
        done = number > self.rounds
        usage = TokenUsage(10, 10)
        if self.code:
            line = "final_answer('All looked at.')" if done else f"print(look('{number}-0'))"
            text = f"Thought: on.\n<code>\n{line}\n</code>"
            return ChatMessage(MessageRole.ASSISTANT, text, token_usage=usage)
        calls = [call("final_answer", "f", answer="All looked at.")] if done else both(number)
        return ChatMessage(MessageRole.ASSISTANT, None, tool_calls=calls, token_usage=usage)


def call(name: str, key: str, **arguments: Any) -> ChatMessageToolCall:
    function = ChatMessageToolCallFunction(name=name, arguments=arguments)
    return ChatMessageToolCall(function=function, id=key, type="function")


def both(number: int) -> list[ChatMessageToolCall]:
    return [call("look", f"c{number}-{at}", place=f"{number}-{at}") for at in range(2)]


@tool
def look(place: str) -> str:
    """Looks at a place.

    Args:
        place: Where.
    """
    if place == "3-1":
        raise ValueError("nothing there")
    return f"place {place}: " + "row of the table\n" * 120


def agent(model: Script, callback: Any = None, **more: Any) -> ToolCallingAgent:
    made = UllageCallback(**SMALL) if callback is None else callback
    return ToolCallingAgent(
        tools=[look],
        model=model,
        instructions="Be brief.",
        step_callbacks=made if isinstance(made, dict) else [made],
        max_steps=40,
        verbosity_level=0,
        **more,
    )


def bare(model: Script) -> int:
    """The largest request without Ullage."""
    made = ToolCallingAgent(
        [look], model, instructions="Be brief.", max_steps=40, verbosity_level=0
    )
    made.run("Look everywhere.")
    return max(map(size, model.sent))


def test_requests_fit_and_the_memory_stays_whole():
    model = Script()
    made = agent(model)
    assert made.run("Look everywhere.") == "All looked at."
    assert len(model.sent) == 13
    largest = max(map(size, model.sent))
    assert largest < bare(Script()) * 2 / 3
    seen = [step.observations for step in made.memory.steps if isinstance(step, ActionStep)]
    assert all("row of the table" in each for each in seen[:2])
    assert "nothing there" in str(made.memory.steps[3].error)


def test_what_needs_no_change_is_not_touched():
    made = agent(Script(2), UllageCallback(context_window=200_000))
    made.run("Look everywhere.")
    assert not any("to_messages" in vars(step) for step in made.memory.steps)


def test_an_agent_that_writes_code():
    model = Script(code=True)
    made = CodeAgent([look], model, step_callbacks=[UllageCallback(**SMALL, policy="buffered")], max_steps=40, verbosity_level=0)  # fmt: skip
    assert made.run("Look everywhere.") == "All looked at."
    assert any("to_messages" in vars(step) for step in made.memory.steps)


def test_an_agent_that_plans():
    callback = {MemoryStep: UllageCallback(**SMALL)}

    class Planner(Script):
        def generate(self, messages: Any, **more: Any) -> ChatMessage:
            if more.get("stop_sequences") == ["<end_plan>"]:
                assert_legal("openai_chat", request(messages))
                self.planned = size(messages)
                return ChatMessage(MessageRole.ASSISTANT, "1. Look.", token_usage=TokenUsage(1, 1))
            return super().generate(messages, **more)

    model = Planner(12)
    assert agent(model, callback, planning_interval=4).run("Look.") == "All looked at."
    assert model.planned < bare(Script())


def test_after_a_refusal_the_run_goes_on():
    model = Script(window_chars=22_000)
    callback = UllageCallback(context_window=200_000)
    made = agent(model, callback)
    answer, task, tries = None, "Look everywhere.", 0
    while answer is None and tries < 20:
        tries += 1
        try:
            answer = made.run(task, reset=tries == 1)
        except AgentError as error:
            callback.refused(error, made)
            task = "Go on."
    assert answer == "All looked at."
    assert model.refused


def test_other_errors_are_raised_again():
    callback = UllageCallback(**SMALL)
    made = agent(Script(1), callback)
    made.run("Look.")
    with pytest.raises(RuntimeError, match="no network"):
        callback.refused(RuntimeError("no network"), made)


def test_the_agents_own_model_writes_the_summary():
    model = Script(30)
    agent(model, UllageCallback(**SMALL, summarizer="host")).run("Look everywhere.")
    line = max(SUMMARY.splitlines(), key=len)
    assert any(line in each["content"] for sent in model.sent for each in request(sent))


def test_a_stored_memory_goes_on():
    one = agent(Script(12))
    one.run("Look everywhere.")
    model = Script(2)
    two = agent(model)
    # smolagents' own errors cannot be pickled.
    one.memory.steps = [each for each in one.memory.steps if not getattr(each, "error", None)]
    two.memory.steps = pickle.loads(pickle.dumps(one.memory.steps))
    both = (request(each.write_memory_to_messages())[1:] for each in (one, two))
    assert next(both) == next(both)
    two.run("Look again.", reset=False)
    assert max(map(size, model.sent)) < bare(Script()) * 2 / 3


def test_images_stay_with_their_step():
    callback = UllageCallback(**SMALL)
    made = agent(Script(0), callback)
    picture = Image.new("RGB", (8, 8))
    step = action(1, [("c1", "look", {"place": "a"})], "seen", [picture])
    made.memory.steps = [TaskStep("Look.", task_images=[picture]), step]
    callback(action(2, [], None), made)
    sent = made.write_memory_to_messages()
    assert [each["image"] for each in sent[3].content] == [picture]


def action(number: int, calls: Any, seen: str | None, images: Any = None) -> ActionStep:
    made = [ToolCall(name, given, key) for key, name, given in calls]
    return ActionStep(
        number, Timing(0.0), tool_calls=made or None, observations=seen, observations_images=images
    )


def steps_of(talk: list[dict[str, Any]]) -> list[MemoryStep]:
    """A conversation of the generator as smolagents would remember it."""
    steps: list[MemoryStep] = []
    for message in talk:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        words = "\n".join(each["text"] for each in blocks if each["type"] == "text")
        results = [str(each["content"]) for each in blocks if each["type"] == "tool_result"]
        if message["role"] == "assistant":
            calls = [(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]
            steps.append(action(len(steps), calls, None))
            steps[-1].model_output = words or None
        elif results:
            steps[-1].observations = "\n".join(results)
        else:
            steps.append(TaskStep(words))
    return steps


def round_trips(seeds: Iterable[int]) -> Tally:
    callback, tally = UllageCallback(**SMALL), Tally()
    made = agent(Script(0), callback)
    made.memory.system_prompt.system_prompt = "Be brief."
    for talk in short_talks(seeds):
        made.memory.steps = steps = steps_of(talk)
        whole = [type(step).to_messages(step) for step in steps]
        callback(steps[-1], made)
        assert [type(step).to_messages(step) for step in steps] == whole
        for step, before in zip(steps, whole, strict=True):
            if "to_messages" not in vars(step):
                assert step.to_messages() == before
        assert_legal("openai_chat", request(made.write_memory_to_messages()))
        tally.note(_plan(steps))
    tally.check()
    return tally


def _plan(steps: list[MemoryStep]) -> Iterator[PlanStep]:
    """What became of each step, which stays in the memory: it says all, something else, or nothing."""
    for at, step in enumerate(steps):
        said = step.to_messages() if "to_messages" in vars(step) else None
        action: Any = "kept" if said is None else "replaced" if said else "removed"
        yield PlanStep(action, at, at)


@pytest.mark.parametrize("count", COUNTS)
def test_generated_conversations_there_and_back(count):
    round_trips(range(count))

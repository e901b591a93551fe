"""Context editors side by side: the same conversations, in each one's own form, to the same budget.

Each contender gets messages that its own library made of the conversation (that is not timed) and gives back a list that is
turned into a provider's form and checked: would the provider take it, how much is left, from where on is the provider's
cache of the old request lost. None asks a model; deepagents, which summarises by one, has a scripted model that answers
at once.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ullage import ContextManager, WindowSettings, compact

TOKENS = 100_000
BUDGET = 40_000
MODEL = "claude-sonnet-4-5"

Messages = list[dict[str, Any]]


@dataclass(frozen=True)
class Contender:
    """One way to make a conversation smaller.

    Attributes:
        form: In whose form its result is checked.
        native: From messages of that form to what the library works on.
        run: What is timed; gets a copy of its own.
        back: To messages of the form.
    """

    name: str
    form: str
    native: Callable[[Messages], Any]
    run: Callable[[Any], Any]
    back: Callable[[Any], Messages]


def same(value: Any) -> Any:
    return value


# ---- ours ------------------------------------------------------------------------------------


def ours_levels() -> Contender:
    # The window that has its trigger at the budget: room for a summary and one turn's growth on top.
    settings = WindowSettings(auto_compact_window=BUDGET + 33_000)

    def run(messages: Messages) -> Messages:
        manager = ContextManager(model=MODEL, settings=settings)
        for message in messages:
            manager.add(message)
        return list(manager.prepare().messages)

    return Contender("ullage: all levels", "anthropic", same, run, same)


def ours_compact() -> Contender:
    def run(messages: Messages) -> Messages:
        return list(compact(messages, model=MODEL, keep=BUDGET // 4).messages)

    return Contender("ullage: compact, extractive", "anthropic", same, run, bare)


def bare(items: Messages) -> Messages:
    return [item.get("message", item) for item in items if item.get("type") != "system"]


def ours_clear() -> Contender:
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": BUDGET},
        "keep": {"type": "tool_uses", "value": 3},
    }

    def run(messages: Messages) -> Messages:
        # A model whose provider does not clear by itself.
        manager = ContextManager(model="gpt-4o", context_management={"edits": [edit]})
        for message in messages:
            manager.add(message)
        return list(manager.prepare().messages)

    return Contender("ullage: clear tool uses, keep 3", "anthropic", same, run, same)


# ---- peers -----------------------------------------------------------------------------------


def langchain_trim() -> Contender:
    core: Any = importlib.import_module("langchain_core.messages")
    count = importlib.import_module("langchain_core.messages.utils").count_tokens_approximately

    def run(messages: Any) -> Any:
        return core.trim_messages(
            messages,
            max_tokens=BUDGET,
            token_counter=count,
            strategy="last",
            start_on="human",
            include_system=True,
        )

    return Contender(
        "langchain trim_messages", "openai_chat", core.convert_to_messages, run, langchain_back
    )


def langchain_back(messages: Any) -> Messages:
    found = importlib.import_module("langchain_core.messages").convert_to_openai_messages(messages)
    return list(found)


def langchain_clear() -> Contender:
    core: Any = importlib.import_module("langchain_core.messages")
    count = importlib.import_module("langchain_core.messages.utils").count_tokens_approximately
    editing: Any = importlib.import_module("langchain.agents.middleware.context_editing")
    edit = editing.ClearToolUsesEdit(trigger=BUDGET, keep=3)

    def run(messages: Any) -> Any:
        # As its middleware does before each call.
        edited = copy.deepcopy(messages)
        edit.apply(edited, count_tokens=count)
        return edited

    return Contender(
        "langchain ContextEditing", "openai_chat", core.convert_to_messages, run, langchain_back
    )


def deepagents_summary() -> Contender:
    core: Any = importlib.import_module("langchain_core.messages")
    fake: Any = importlib.import_module("langchain_core.language_models.fake_chat_models")
    module: Any = importlib.import_module("deepagents.middleware.summarization")
    backends: Any = importlib.import_module("deepagents.backends")
    types: Any = importlib.import_module("langchain.agents.middleware.types")
    model = fake.FakeListChatModel(
        responses=["The user works on a service; see the newest messages."]
    )
    middleware = module.SummarizationMiddleware(
        model=model,
        backend=backends.FilesystemBackend(tempfile.mkdtemp(prefix="ullage-bench-")),
        trigger=("tokens", BUDGET),
        keep=("tokens", BUDGET // 4),
    )

    def run(messages: Any) -> Any:
        seen: list[Any] = []

        def handler(request: Any) -> Any:
            seen[:] = request.messages
            return types.ModelResponse(result=[core.AIMessage("done")])

        request = types.ModelRequest(
            model=model, messages=messages, state={"messages": messages}, system_message=None
        )
        middleware.wrap_model_call(request, handler)
        return seen

    return Contender(
        "deepagents summarization", "openai_chat", core.convert_to_messages, run, langchain_back
    )


def litellm_trim() -> Contender:
    utils: Any = importlib.import_module("litellm.utils")

    def run(messages: Messages) -> Messages:
        return list(utils.trim_messages(messages, model="gpt-4o", max_tokens=BUDGET))

    def worded(messages: Messages) -> Messages:
        # It cannot measure a message without content, nor shorten one whose content is in parts.
        return [{**message, "content": text_of(message.get("content"))} for message in messages]

    return Contender("litellm trim_messages", "openai_chat", worded, run, same)


def openai_agents() -> Contender:
    extensions: Any = importlib.import_module("agents.extensions")
    config: Any = importlib.import_module("agents.run_config")
    trimmer = extensions.ToolOutputTrimmer()

    def run(items: Messages) -> Messages:
        data = config.ModelInputData(input=items, instructions=None)
        return list(trimmer(config.CallModelData(data, agent=None, context=None)).input)

    return Contender("openai-agents ToolOutputTrimmer", "openai_responses", same, run, same)


def harness(name: str, make: Callable[[Any], Any]) -> Callable[[], Contender]:
    def contender() -> Contender:
        compaction: Any = importlib.import_module("pydantic_ai_harness.compaction")
        ai: Any = importlib.import_module("pydantic_ai")
        models: Any = importlib.import_module("pydantic_ai.models.test")
        usage: Any = importlib.import_module("pydantic_ai.usage")
        strategy = make(compaction)
        context = ai.RunContext(deps=None, model=models.TestModel(), usage=usage.RunUsage())

        def run(messages: Any) -> Any:
            if compaction.estimate_token_count(messages) <= BUDGET:
                return messages
            return asyncio.run(strategy.compact(messages, context))

        return Contender(name, "openai_chat", pydantic_in, run, pydantic_out)

    return contender


def pydantic_in(chat: Messages) -> Any:
    parts: Any = importlib.import_module("pydantic_ai.messages")
    names: dict[str, str] = {}
    found: list[Any] = []
    for message in chat:
        content = text_of(message.get("content"))
        if message["role"] == "assistant":
            made = [parts.TextPart(content)] if content else []
            for call in message.get("tool_calls") or ():
                function = call["function"]
                names[call["id"]] = function["name"]
                made.append(parts.ToolCallPart(function["name"], function["arguments"], call["id"]))
            found.append(parts.ModelResponse(parts=made))
            continue
        if message["role"] == "tool":
            part = parts.ToolReturnPart(
                names[message["tool_call_id"]], content, message["tool_call_id"]
            )
        else:
            part = parts.UserPromptPart(content)
        # Results of one response stand in one request, as pydantic-ai itself makes them.
        if found and isinstance(found[-1], parts.ModelRequest):
            found[-1].parts.append(part)
        else:
            found.append(parts.ModelRequest(parts=[part]))
    return found


def pydantic_out(messages: Any) -> Messages:
    found: Messages = []
    for message in messages:
        if message.kind == "response":
            calls = [
                {
                    "id": part.tool_call_id,
                    "type": "function",
                    "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
                }
                for part in message.parts
                if part.part_kind == "tool-call"
            ]
            text = "".join(part.content for part in message.parts if part.part_kind == "text")
            made: dict[str, Any] = {"role": "assistant", "content": text or None}
            found.append({**made, "tool_calls": calls} if calls else made)
            continue
        for part in message.parts:
            if part.part_kind == "tool-return":
                content = part.model_response_str()
                found.append(
                    {"role": "tool", "tool_call_id": part.tool_call_id, "content": content}
                )
            else:
                role = "system" if part.part_kind == "system-prompt" else "user"
                found.append({"role": role, "content": part.content})
    return found


def text_of(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content or ""


MAKERS: dict[str, Callable[[], Contender]] = {
    "ullage: all levels": ours_levels,
    "ullage: clear tool uses, keep 3": ours_clear,
    "ullage: compact, extractive": ours_compact,
    "langchain trim_messages": langchain_trim,
    "langchain ContextEditing": langchain_clear,
    "deepagents summarization": deepagents_summary,
    "pydantic-ai-harness ClearToolResults": harness(
        "pydantic-ai-harness ClearToolResults",
        lambda module: module.ClearToolResults(max_tokens=BUDGET, keep_pairs=3),
    ),
    "pydantic-ai-harness SlidingWindow": harness(
        "pydantic-ai-harness SlidingWindow",
        lambda module: module.SlidingWindowCompaction(max_tokens=BUDGET, keep_tokens=BUDGET // 2),
    ),
    "openai-agents ToolOutputTrimmer": openai_agents,
    "litellm trim_messages": litellm_trim,
}

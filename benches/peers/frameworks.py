"""Context managers of agent frameworks, each called as its framework calls it before a request."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from benches.peers.context import BUDGET, MODEL, Contender, Messages, bare, same

from ullage import compact


def ours_target() -> Contender:
    def run(messages: Messages) -> Messages:
        return list(compact(messages, model=MODEL, target_tokens=BUDGET).messages)

    return Contender("ullage: compact, target = budget", "anthropic", same, run, bare)


def strands_window() -> Contender:
    """Its default: the newest 40 messages."""
    module: Any = importlib.import_module("strands.agent.conversation_manager")

    def run(messages: Messages) -> Messages:
        agent = SimpleNamespace(messages=messages)
        module.SlidingWindowConversationManager().apply_management(agent)
        return list(agent.messages)

    return Contender("strands SlidingWindow, 40 messages", "bedrock", same, run, same)


def agent_framework_window() -> Contender:
    """Its strategy for a window with its default shares: it truncates where 0.8 of the input's room is the budget."""
    module: Any = importlib.import_module("agent_framework")

    def run(messages: Any) -> Any:
        strategy = module.ContextWindowCompactionStrategy(
            max_context_window_tokens=BUDGET * 5 // 4 + 4_096, max_output_tokens=4_096
        )
        return asyncio.run(module.apply_compaction(messages, strategy=strategy))

    return Contender("agent-framework ContextWindow", "openai_chat", _to_framework, run, _to_chat)


def _to_framework(chat: Messages) -> Any:
    module: Any = importlib.import_module("agent_framework")
    content, made = module.Content, []
    for message in chat:
        text = message.get("content")
        if message["role"] == "tool":
            parts = [content.from_function_result(message["tool_call_id"], result=text)]
        else:
            parts = [content.from_text(each) for each in _texts(text)]
        for call in message.get("tool_calls") or ():
            function = call["function"]
            parts.append(
                content.from_function_call(
                    call["id"], function["name"], arguments=function["arguments"]
                )
            )
        made.append(module.Message(message["role"], parts))
    return made


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content] if content else []
    return [part["text"] for part in content or () if part.get("text")]


def _to_chat(messages: Any) -> Messages:
    found: Messages = []
    for message in messages:
        results = [each for each in message.contents if each.type == "function_result"]
        found += [
            {"role": "tool", "tool_call_id": each.call_id, "content": each.result or ""}
            for each in results
        ]
        if results:
            continue
        text = "\n".join(each.text for each in message.contents if each.type == "text")
        calls = [
            {
                "id": each.call_id,
                "type": "function",
                "function": {"name": each.name, "arguments": each.arguments},
            }
            for each in message.contents
            if each.type == "function_call"
        ]
        made: dict[str, Any] = {"role": str(message.role), "content": text or None}
        found.append({**made, "tool_calls": calls} if calls else made)
    return found


MORE: dict[str, Callable[[], Contender]] = {
    "ullage: compact, target = budget": ours_target,
    "strands SlidingWindow, 40 messages": strands_window,
    "agent-framework ContextWindow": agent_framework_window,
}
"""Next to `benches.peers.context.MAKERS`."""

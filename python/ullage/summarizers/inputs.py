"""The conversation of a summary call in the forms that the APIs take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.messages import Item, is_thinking
from ullage.providers import openai_chat

__all__ = ["anthropic_messages", "is_chat", "used_tools", "without_thinking"]


def is_chat(messages: Sequence[Item]) -> bool:
    """Whether these are OpenAI chat messages: a `tool` role, or calls in a field next to the content."""
    return any(message.get("role") == "tool" or "tool_calls" in message for message in messages)


def anthropic_messages(messages: Sequence[Item]) -> list[Item]:
    """The messages in Anthropic's form; those of it are the same objects."""
    if not is_chat(messages):
        return list(messages)
    return list(openai_chat.from_provider(list(messages)).messages)


def used_tools(messages: Sequence[Item]) -> list[dict[str, Any]]:
    """Bare definitions of the tools that a conversation has used.

    Some servers (Bedrock, gateways) refuse a conversation with calls that defines no tools.
    """
    names: dict[str, None] = {}
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, Mapping) and block.get("type") == "tool_use":
                names[str(block.get("name"))] = None
    # In the order of the alphabet: the definitions stand in front of everything that can be cached.
    return [{"name": name, "input_schema": {"type": "object"}} for name in sorted(names)]


def without_thinking(messages: Sequence[Item]) -> list[Item]:
    """The messages without reasoning; a message that was nothing else is left out."""
    kept: list[Item] = []
    for message in messages:
        content = message.get("content")
        if not isinstance(content, list) or not any(map(is_thinking, content)):
            kept.append(message)
        elif rest := [block for block in content if not is_thinking(block)]:
            kept.append({**message, "content": rest})
    return kept

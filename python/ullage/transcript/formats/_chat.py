"""Chat Completions messages → entries; shared by the formats that store them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ullage.messages import Block
from ullage.providers import openai_chat
from ullage.providers._common import FOREIGN, carrying
from ullage.transcript.formats._model import EntryList, ReadSession, usage_of

__all__ = ["chat_session", "chat_usage", "is_chat", "numbered"]

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_MESSAGE_KEYS = ("role", "content", "tool_calls", "tool_call_id", "reasoning_content", "refusal")


def is_chat(messages: Any) -> bool:
    """Whether a value is a list of chat messages."""
    return (
        isinstance(messages, list)
        and bool(messages)
        and all(isinstance(one, Mapping) and one.get("role") in _ROLES for one in messages[:20])
    )


def chat_session(
    name: str,
    chat: Iterable[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    decorate: Callable[[int, dict[str, Any], Mapping[str, Any]], dict[str, Any]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    warn: Callable[[int, str], None] | None = None,
) -> ReadSession:
    """One conversation of chat messages.

    Args:
        name: The session's id.
        chat: Messages as stored; keys that belong to the agent and not to the API are left out.
        tools: Definitions as the API takes them; `None` if unknown.
        decorate: Called with position, message and stored message; returns flags for the envelope
            (`timestamp` among them) and may add `usage` and the like to the message.
        metadata: For the session.
        warn: Called with the position of a message from 1 and a reason where something was repaired.
    """
    stored = list(chat)
    system, rest = _leading(stored)
    entries = EntryList(name, warn)
    for position, message in rest:
        _add(entries, position, message, decorate)
    return ReadSession(
        name,
        entries.entries,
        system=system,
        tools=_tools(tools),
        metadata=dict(metadata or {}),
    )


def _leading(
    stored: list[Mapping[str, Any]],
) -> tuple[str | list[Block] | None, list[tuple[int, Mapping[str, Any]]]]:
    numbered = list(enumerate(stored))
    if not stored or stored[0].get("role") not in ("system", "developer"):
        return None, numbered
    internal = openai_chat.from_provider([_api_keys(stored[0])])
    return internal.system, numbered[1:]


def _api_keys(message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: message[key] for key in _MESSAGE_KEYS if key in message}


def _add(entries: EntryList, position: int, stored: Mapping[str, Any], decorate: Any) -> None:
    """Each message alone, so that results find their calls wherever they stand."""
    read = openai_chat.from_provider(
        {"messages": [{"role": "user", "content": ""}, _api_keys(stored)]}
    )
    for message in read.messages[1:]:
        flags: dict[str, Any] = {}
        if message["role"] == "system":
            # Not every provider takes one here; it is a user message that remembers its role.
            told = message.get(FOREIGN, {}).get("openai_chat", {})
            message = {"role": "user", "content": message["content"]}
            message = carrying(message, "openai_chat", {"role": "system", **told})
            flags["isMeta"] = True
        if decorate is not None:
            flags |= decorate(position, message, stored)
        stamp = flags.pop("timestamp", None)
        if stored.get("role") == "tool":
            entries.add_result(message["content"][0], line=position + 1, timestamp=stamp)
        elif message["content"]:
            entries.add(message, line=position + 1, timestamp=stamp, **flags)


def _tools(tools: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    return None if tools is None else openai_chat.from_provider({"tools": tools}).tools


def chat_usage(usage: Any) -> dict[str, int] | None:
    """A usage record of Chat Completions in Anthropic's words; `None` if it is none."""
    if not isinstance(usage, Mapping) or "prompt_tokens" not in usage:
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    return usage_of(
        prompt=usage.get("prompt_tokens"),
        output=usage.get("completion_tokens"),
        cache_read=cached,
        inclusive=True,
    )


def numbered(sessions: Iterable[ReadSession]) -> tuple[ReadSession, ...]:
    """Sessions with ids that differ, in the order of the file."""
    seen: dict[str, int] = {}
    found = []
    for session in sessions:
        seen[session.id] = seen.get(session.id, 0) + 1
        suffix = f"#{seen[session.id]}" if seen[session.id] > 1 else ""
        found.append(
            ReadSession(
                session.id + suffix,
                session.entries,
                session.system,
                session.tools,
                session.metadata,
            )
        )
    return tuple(found)

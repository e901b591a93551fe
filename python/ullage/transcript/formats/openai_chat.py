"""Chat Completions messages in a file: one conversation, or one a line, as JSON or JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ullage.messages import Block
from ullage.providers import openai_chat
from ullage.providers._common import FOREIGN, carrying
from ullage.transcript.formats._model import (
    EntryList,
    OpenedFile,
    ReadSession,
    ReadTranscript,
    usage_of,
)

# Chat Completions messages → entries; shared by the formats that store them.


_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_MESSAGE_KEYS = ("role", "content", "tool_calls", "tool_call_id", "reasoning_content", "refusal")


def _is_chat(messages: Any) -> bool:
    """Whether a value is a list of chat messages."""
    return (
        isinstance(messages, list)
        and bool(messages)
        and all(isinstance(one, Mapping) and one.get("role") in _ROLES for one in messages[:20])
    )


def _chat_session(
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
    system, messages = _leading(stored)
    entries = EntryList(name, warn)
    for position, message in messages:
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
            foreign = message.get(FOREIGN, {}).get("openai_chat", {})
            message = {"role": "user", "content": message["content"]}
            message = carrying(message, "openai_chat", {"role": "system", **foreign})
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


def _chat_usage(usage: Any) -> dict[str, int] | None:
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


def _numbered(sessions: Iterable[ReadSession]) -> tuple[ReadSession, ...]:
    """Sessions with ids that differ, in the order of the file."""
    seen: dict[str, int] = {}
    numbered = []
    for session in sessions:
        seen[session.id] = seen.get(session.id, 0) + 1
        suffix = f"#{seen[session.id]}" if seen[session.id] > 1 else ""
        numbered.append(
            ReadSession(
                session.id + suffix,
                session.entries,
                session.system,
                session.tools,
                session.metadata,
            )
        )
    return tuple(numbered)


def sniff(source: OpenedFile) -> bool:
    """Whether the file holds chat messages, at its top or under `messages`."""
    first = source.head[:1]
    if first and (_is_chat(first[0].get("messages")) or _is_chat(first)):
        return True
    return _is_chat(source.listed()) or _is_chat(source.keyed("messages").get("messages"))


def read(source: OpenedFile) -> ReadTranscript:
    """Reads messages, conversations, or request bodies with `messages` and `tools`."""
    document = source.document
    if isinstance(document, list):
        sessions = [_session(source, source.stem, {"messages": document})]
    elif isinstance(document, Mapping) and "messages" in document:
        sessions = [_session(source, str(document.get("id") or source.stem), document)]
    else:
        sessions = list(_by_line(source))
    return ReadTranscript(
        "openai_chat", source.path, _numbered(sessions), warnings=tuple(source.warnings)
    )


def _by_line(source: OpenedFile) -> Iterator[ReadSession]:
    """Lines are messages of one conversation, or conversations."""
    loose: list[Mapping[str, Any]] = []
    for number, line in source.lines():
        if _is_chat(line.get("messages")):
            yield _session(source, str(line.get("id") or f"{source.stem}-{number}"), line)
        elif _is_chat([line]):
            loose.append(line)
        else:
            source.warn(number, "no chat message, left out")
    if loose:
        yield _session(source, source.stem, {"messages": loose})


def _session(source: OpenedFile, name: str, body: Mapping[str, Any]) -> ReadSession:
    facts = {"model": body["model"]} if isinstance(body.get("model"), str) else {}
    tools = body.get("tools")
    definitions = tools if isinstance(tools, list) else None
    return _chat_session(
        name,
        body["messages"],
        tools=definitions,
        decorate=_decorate,
        metadata=facts,
        warn=source.warn,
    )


def _decorate(position: int, message: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Usage, model and time, where a program has stored them with the message."""
    del position
    usage = _chat_usage(stored.get("usage"))
    if usage and message["role"] == "assistant":
        message["usage"] = usage
    if isinstance(stored.get("model"), str) and message["role"] == "assistant":
        message["model"] = stored["model"]
    stamp = stored.get("timestamp")
    return {"timestamp": stamp} if isinstance(stamp, str) else {}

"""Chat Completions messages in a file: one conversation, or one a line, as JSON or JSON lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ullage.providers import openai_chat
from ullage.providers._common import FOREIGN, carrying
from ullage.transcript.formats import (
    OpenedFile,
    ReadSession,
    ReadTranscript,
    usage_of,
)
from ullage.transcript.records import as_mapping

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_MESSAGE_KEYS = ("role", "content", "tool_calls", "tool_call_id", "reasoning_content", "refusal")

Decorate = Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]
"""From a message and the stored one: flags for the envelope (`timestamp` among them); may add `usage` and the like to the message."""


# ---- for all formats that store such messages --------------------------------------------------


def measured(message: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Usage, model and time, where a program has stored them with the message."""
    if message["role"] == "assistant":
        measure(message, stored)
    stamp = stored.get("timestamp")
    return {"timestamp": stamp} if isinstance(stamp, str) else {}


def measure(message: dict[str, Any], response: Mapping[str, Any]) -> None:
    """Put into a message what a response says of usage and model."""
    if usage := _usage(response.get("usage")):
        message["usage"] = usage
    if isinstance(response.get("model"), str):
        message["model"] = response["model"]


def is_chat(messages: Any) -> bool:
    """Whether a value is a list of chat messages."""
    return (
        isinstance(messages, list)
        and bool(messages)
        and all(isinstance(one, Mapping) and one.get("role") in _ROLES for one in messages[:20])
    )


def chat_session(
    source: OpenedFile,
    name: str,
    chat: Iterable[Mapping[str, Any]],
    *,
    decorate: Decorate = measured,
    tools: Sequence[Mapping[str, Any]] | None = None,
    model: Any = None,
) -> ReadSession:
    """One conversation of chat messages, of which keys that belong to the agent and not to the API are left out.

    Args:
        source: Is warned, with the position of a message from 1, where something was repaired.
        name: The session's id.
        chat: Messages as stored.
        decorate: What else the messages carry.
        tools: Definitions as the API takes them; `None` if unknown.
        model: Which one answered; what is no text is not known.
    """
    session = ReadSession(name, source.warn)
    for position, stored in enumerate(chat):
        if position == 0 and stored.get("role") in ("system", "developer"):
            session.system = openai_chat.from_provider([_api_keys(stored)]).system
        else:
            _add(session, position, stored, decorate)
    session.tools = None if tools is None else openai_chat.from_provider({"tools": tools}).tools
    session.metadata = {"model": model} if isinstance(model, str) else {}
    return session


def _api_keys(message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: message[key] for key in _MESSAGE_KEYS if key in message}


def _add(
    session: ReadSession, position: int, stored: Mapping[str, Any], decorate: Decorate
) -> None:
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
        flags |= decorate(message, stored)
        stamp = flags.pop("timestamp", None)
        if stored.get("role") == "tool":
            session.add_result(message["content"][0], line=position + 1, timestamp=stamp)
        elif message["content"]:
            session.add(message, line=position + 1, timestamp=stamp, **flags)


def _usage(usage: Any) -> dict[str, int] | None:
    """A usage record of Chat Completions in Anthropic's words; `None` if it is none."""
    if not isinstance(usage, Mapping) or "prompt_tokens" not in usage:
        return None
    cached = as_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")
    figures = {**usage, "cached": cached}
    return usage_of(figures, "prompt_tokens", "completion_tokens", "cached", inclusive=True)


def numbered(sessions: Iterable[ReadSession]) -> list[ReadSession]:
    """Sessions with ids that differ, in the order of the file."""
    listed, seen = list(sessions), Counter[str]()
    for session in listed:
        seen[session.id] += 1
        count = seen[session.id]
        session.id += f"#{count}" if count > 1 else ""
    return listed


# ---- the format itself -------------------------------------------------------------------------


def sniff(source: OpenedFile) -> bool:
    """Whether the file holds chat messages, at its top or under `messages`."""
    first = source.head[:1]
    if first and (is_chat(first[0].get("messages")) or is_chat(first)):
        return True
    return is_chat(source.listed()) or is_chat(source.keyed("messages").get("messages"))


def read(source: OpenedFile) -> ReadTranscript:
    """Reads messages, conversations, or request bodies with `messages` and `tools`."""
    document = source.document
    if isinstance(document, list):
        sessions = [_session(source, source.stem, {"messages": document})]
    elif isinstance(document, Mapping) and "messages" in document:
        sessions = [_session(source, str(document.get("id") or source.stem), document)]
    else:
        sessions = list(_by_line(source))
    return ReadTranscript("openai_chat", numbered(sessions))


def _by_line(source: OpenedFile) -> Iterator[ReadSession]:
    """Lines are messages of one conversation, or conversations."""
    loose: list[Mapping[str, Any]] = []
    for number, line in source.lines():
        if is_chat(line.get("messages")):
            yield _session(source, str(line.get("id") or f"{source.stem}-{number}"), line)
        elif is_chat([line]):
            loose.append(line)
        else:
            source.warn(number, "no chat message, left out")
    if loose:
        yield _session(source, source.stem, {"messages": loose})


def _session(source: OpenedFile, name: str, body: Mapping[str, Any]) -> ReadSession:
    tools = body["tools"] if isinstance(body.get("tools"), list) else None
    chat, model = body["messages"], body.get("model")
    return chat_session(source, name, chat, tools=tools, model=model)

"""Chat Completions messages in a file: one conversation, or one a line, as JSON or JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ullage.transcript.formats._chat import chat_session, chat_usage, is_chat, numbered
from ullage.transcript.formats._model import ReadSession, ReadTranscript
from ullage.transcript.formats._source import OpenedFile

__all__ = ["read", "sniff"]


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
    return ReadTranscript(
        "openai_chat", source.path, numbered(sessions), warnings=tuple(source.warnings)
    )


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
    facts = {"model": body["model"]} if isinstance(body.get("model"), str) else {}
    tools = body.get("tools")
    known = tools if isinstance(tools, list) else None
    return chat_session(
        name, body["messages"], tools=known, decorate=_decorate, metadata=facts, warn=source.warn
    )


def _decorate(position: int, message: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Usage, model and time, where a program has stored them with the message."""
    del position
    usage = chat_usage(stored.get("usage"))
    if usage and message["role"] == "assistant":
        message["usage"] = usage
    if isinstance(stored.get("model"), str) and message["role"] == "assistant":
        message["model"] = stored["model"]
    stamp = stored.get("timestamp")
    return {"timestamp": stamp} if isinstance(stamp, str) else {}

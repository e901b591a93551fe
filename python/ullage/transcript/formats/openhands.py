"""Completions that OpenHands logs: a request, its response, and what it cost.

The last completion of an instance holds the whole conversation; its answer is added to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.transcript.formats._model import OpenedFile, ReadTranscript
from ullage.transcript.formats.openai_chat import chat_session, chat_usage, is_chat
from ullage.transcript.records import as_mapping


def sniff(source: OpenedFile) -> bool:
    """Whether a file is a logged completion."""
    document = source.keyed("messages", "response")
    return is_chat(document.get("messages")) and isinstance(document.get("response"), Mapping)


def read(source: OpenedFile) -> ReadTranscript:
    """Reads a completion: one session."""
    document = source.document
    response = document["response"]
    choices = response.get("choices")
    first = as_mapping(choices[0] if isinstance(choices, list) and choices else None)
    answer = first.get("message")
    chat = [*document["messages"], *([answer] if isinstance(answer, Mapping) else [])]

    def decorate(message: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
        usage = chat_usage(response.get("usage"))
        if stored is chat[-1] and message["role"] == "assistant" and usage:
            message["usage"] = usage
        return {}

    facts = {"model": response["model"]} if isinstance(response.get("model"), str) else {}
    if "cost" in document:
        facts["cost"] = document["cost"]
    tools = as_mapping(document.get("kwargs")).get("tools")
    session = chat_session(
        source, source.stem, chat, decorate=decorate, tools=tools, metadata=facts
    )
    return source.transcript("openhands", session)

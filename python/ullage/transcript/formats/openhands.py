"""Completions that OpenHands logs: a request, its response, and what it cost.

The last completion of an instance holds the whole conversation; its answer is added to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.transcript.formats._model import OpenedFile, ReadTranscript
from ullage.transcript.formats.openai_chat import (
    _chat_session as chat_session,
    _chat_usage as chat_usage,
    _is_chat as is_chat,
)


def sniff(source: OpenedFile) -> bool:
    """Whether a file is a logged completion."""
    document = source.keyed("messages", "response")
    return is_chat(document.get("messages")) and isinstance(document.get("response"), Mapping)


def read(source: OpenedFile) -> ReadTranscript:
    """Reads a completion: one session."""
    document = source.document
    response = document["response"]
    chat = [*document["messages"], *_answer(response)]
    kwargs = document.get("kwargs")
    tools = kwargs.get("tools") if isinstance(kwargs, Mapping) else None
    last = len(chat) - 1

    def decorate(
        position: int, message: dict[str, Any], stored: Mapping[str, Any]
    ) -> dict[str, Any]:
        del stored
        usage = chat_usage(response.get("usage"))
        if position == last and message["role"] == "assistant" and usage:
            message["usage"] = usage
        return {}

    facts = {"model": response["model"]} if isinstance(response.get("model"), str) else {}
    if "cost" in document:
        facts["cost"] = document["cost"]
    session = chat_session(
        source.stem, chat, tools=tools, decorate=decorate, metadata=facts, warn=source.warn
    )
    return ReadTranscript("openhands", source.path, (session,), warnings=tuple(source.warnings))


def _answer(response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    choices = response.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    message = first.get("message") if isinstance(first, Mapping) else None
    return [message] if isinstance(message, Mapping) else []

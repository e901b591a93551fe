"""Completions that OpenHands logs: a request, its response, and what it cost.

The last completion of an instance holds the whole conversation; its answer is added to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ullage.transcript.formats import OpenedFile, ReadTranscript
from ullage.transcript.formats.openai_chat import chat_session, is_chat
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
    chat, answer = list(document["messages"]), first.get("message")
    if isinstance(answer, Mapping):
        chat.append({**answer, "usage": response.get("usage")})
    tools, model = as_mapping(document.get("kwargs")).get("tools"), response.get("model")
    session = chat_session(source, source.stem, chat, tools=tools, model=model)
    return ReadTranscript("openhands", [session])

"""Anthropic messages in a file, bare: a list, a request body, or one message a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.messages import THINKING
from ullage.transcript.formats import OpenedFile, ReadSession, ReadTranscript

_BLOCKS = ("tool_use", "tool_result", *THINKING, "server_tool_use")


def sniff(source: OpenedFile) -> bool:
    """Whether messages hold blocks that only Anthropic has."""
    messages = source.listed() or source.keyed("messages").get("messages") or source.head
    return isinstance(messages, list) and any(_is_ours(one) for one in messages[:40])


def _is_ours(message: Any) -> bool:
    if not isinstance(message, Mapping) or message.get("role") not in ("user", "assistant"):
        return False
    content = message.get("content")
    blocks = content if isinstance(content, list) else ()
    return any(isinstance(block, Mapping) and block.get("type") in _BLOCKS for block in blocks)


def read(source: OpenedFile) -> ReadTranscript:
    """Reads the messages as they are: one session."""
    body = source.keyed("messages")
    document = source.document
    listed = document if isinstance(document, list) else body.get("messages")
    numbered = enumerate(listed, start=1) if isinstance(listed, list) else source.lines()
    session = ReadSession(source.stem, source.warn)
    for number, message in numbered:
        is_message = isinstance(message, Mapping) and "content" in message
        if is_message and isinstance(message.get("role"), str):
            session.add(dict(message), line=number)
        else:
            source.warn(number, "no message, left out")
    session.system, session.tools = body.get("system"), body.get("tools")
    return ReadTranscript("anthropic", [session])

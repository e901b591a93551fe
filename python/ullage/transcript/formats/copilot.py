"""Sessions of the Copilot CLI: events, of which messages and finished tool calls are context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.messages import Block
from ullage.providers._common import dumps
from ullage.transcript.formats import OpenedFile, ReadSession, ReadTranscript

_TYPES = ("session.start", "system.message", "user.message", "assistant.message")


def sniff(source: OpenedFile) -> bool:
    """Whether a file holds its events."""
    return any(
        line.get("type") in _TYPES and isinstance(line.get("data"), Mapping) for line in source.head
    )


def read(source: OpenedFile) -> ReadTranscript:
    """Reads a session."""
    session = ReadSession(source.stem, source.warn)
    for number, line in source.lines():
        data, kind, stamp = line.get("data"), line.get("type"), line.get("timestamp")
        if not isinstance(data, Mapping):
            continue
        if kind == "session.start":
            session.id = str(data.get("sessionId") or session.id)
            session.metadata["cwd"] = data.get("cwd", session.metadata.get("cwd"))
        elif kind == "system.message" and session.system is None:
            session.system = data.get("content")
        elif kind == "user.message":
            # What was sent is the transformed text: with context, dates and reminders.
            content = data.get("transformedContent") or data.get("content") or ""
            session.add({"role": "user", "content": content}, line=number, timestamp=stamp)
        elif kind == "assistant.message":
            if blocks := _blocks(data):
                name = str(line.get("id") or f"r{number}")
                message = {"role": "assistant", "content": blocks, "id": name}
                session.add(message, line=number, timestamp=stamp)
        elif kind == "tool.execution_complete":
            if not session.add_result(_result(data), line=number, timestamp=stamp):
                source.warn(number, "a result apart from its call, moved next to it")
    return ReadTranscript("copilot", [session])


def _blocks(data: Mapping[str, Any]) -> list[Block]:
    blocks: list[Block] = [{"type": "text", "text": data["content"]}] if data.get("content") else []
    for request in data.get("toolRequests") or ():
        value = request.get("arguments")
        arguments = value if isinstance(value, Mapping) else {"arguments": value}
        use = {"type": "tool_use", "id": request.get("toolCallId"), "name": request.get("name")}
        blocks.append({**use, "input": dict(arguments)})
    return blocks


def _result(data: Mapping[str, Any]) -> Block:
    result = data.get("result")
    content = result.get("content") if isinstance(result, Mapping) else result or data.get("error")
    text = content if isinstance(content, str) else dumps(content) if content is not None else ""
    block: Block = {"type": "tool_result", "tool_use_id": data.get("toolCallId"), "content": text}
    return block if data.get("success", True) else {**block, "is_error": True}

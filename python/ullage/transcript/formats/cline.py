"""Sessions of Cline (`session.messages.json`, `*.compaction.json`) and of Roo Code.

Their messages are Anthropic's, with additional metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.messages import Block
from ullage.providers._common import dumps
from ullage.transcript.formats import OpenedFile, ReadSession, ReadTranscript, usage_of
from ullage.transcript.records import as_mapping


def sniff(source: OpenedFile) -> bool:
    """Whether a file is a Cline session, or Roo's list of messages with `ts`."""
    if source.keyed("messages", "sessionId"):
        return True
    items = source.listed()
    return bool(items) and all("role" in item and "ts" in item for item in items[:5])


def read(source: OpenedFile) -> ReadTranscript:
    """Reads a session; what a compaction left stands after a boundary."""
    document = source.document
    name, about = ("roo", {}) if isinstance(document, list) else ("cline", document)
    session = ReadSession(str(about.get("sessionId") or source.stem), source.warn)
    stored = document if isinstance(document, list) else document["messages"]
    for position, message in enumerate(stored, start=1):
        if isinstance(message, Mapping) and message.get("role") in ("user", "assistant"):
            _add(session, message, position)
        else:
            source.warn(position, "no message, left out")
    models = [entry.get("message", {}).get("model") for entry in session.entries]
    session.metadata["model"] = next((model for model in reversed(models) if model), None)
    session.system = about.get("system_prompt")
    return ReadTranscript(name, [session])


def _add(session: ReadSession, stored: Mapping[str, Any], position: int) -> None:
    note, stamp = as_mapping(stored.get("metadata")), stored.get("ts")
    summary = bool(stored.get("isSummary"))
    if note.get("kind") == "compaction" or summary:
        trigger = "manual" if "manual" in str(note.get("reason") or "") else "auto"
        session.boundary(line=position, timestamp=stamp, trigger=trigger, replacementHistory=True)
    content = stored.get("content")
    blocks: Any = content if isinstance(content, str) else [*map(_block, content or ())]
    message: dict[str, Any] = {"role": stored["role"], "content": blocks}
    if stored["role"] == "assistant":
        message["id"] = str(stored.get("id") or f"{session.id}-r{position}")
        info, metrics = as_mapping(stored.get("modelInfo")), stored.get("metrics")
        if info.get("id"):
            message["model"] = info["id"]
        if isinstance(metrics, Mapping):  # Cline counts cached tokens among the input
            keys = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
            message["usage"] = usage_of(metrics, *keys, inclusive=True)
    if isinstance(blocks, list) and blocks and all(one["type"] == "tool_result" for one in blocks):
        for block in blocks:
            session.add_result(block, line=position, timestamp=stamp)
    else:
        session.add(message, line=position, timestamp=stamp, isCompactSummary=summary)


def _block(block: Mapping[str, Any]) -> Block:
    kind = block.get("type")
    if kind == "file":
        text = f'<file path="{block.get("path")}">\n{block.get("content")}\n</file>'
        return {"type": "text", "text": text}
    if kind != "tool_result":
        return dict(block)
    plain = {key: value for key, value in block.items() if key != "name"}
    content = plain.get("content")
    if isinstance(content, list):
        content = [
            one if isinstance(one, Mapping) and "type" in one else _as_text(one) for one in content
        ]
    elif not isinstance(content, str | None):
        content = dumps(content)
    return {**plain, "content": content}


def _as_text(value: Any) -> Block:
    """Cline stores `{query, result, success}`; the model is sent them as JSON."""
    return {"type": "text", "text": value if isinstance(value, str) else dumps(value)}

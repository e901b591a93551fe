"""Sessions of Cline (`session.messages.json`, `*.compaction.json`) and of Roo Code.

Their messages are Anthropic's, with additional metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.messages import Block
from ullage.providers._common import dumps
from ullage.transcript.formats._model import (
    EntryList,
    OpenedFile,
    ReadSession,
    ReadTranscript,
    usage_of,
)


def sniff(source: OpenedFile) -> bool:
    """Whether a file is a Cline session, or Roo's list of messages with `ts`."""
    if source.keyed("messages", "sessionId"):
        return True
    items = source.listed()
    return bool(items) and all("role" in item and "ts" in item for item in items[:5])


def read(source: OpenedFile) -> ReadTranscript:
    """Reads a session; what a compaction left stands after a boundary."""
    document = source.document
    if isinstance(document, list):
        return _read("roo", source, document, {})
    return _read("cline", source, document["messages"], document)


def _read(name: str, source: OpenedFile, stored: Any, about: Mapping[str, Any]) -> ReadTranscript:
    entries = EntryList(str(about.get("sessionId") or source.stem), source.warn)
    for position, message in enumerate(stored, start=1):
        if isinstance(message, Mapping) and message.get("role") in ("user", "assistant"):
            _add(entries, message, position)
        else:
            source.warn(position, "no message, left out")
    models = [entry.get("message", {}).get("model") for entry in entries.entries]
    facts = {"model": next((model for model in reversed(models) if model), None)}
    system = about.get("system_prompt")
    session = ReadSession(entries.session, entries.entries, system=system, metadata=facts)
    return ReadTranscript(name, source.path, (session,), warnings=tuple(source.warnings))


def _add(entries: EntryList, stored: Mapping[str, Any], position: int) -> None:
    note = stored.get("metadata")
    note = note if isinstance(note, Mapping) else {}
    stamp = stored.get("ts")
    compacted = note.get("kind") == "compaction" or bool(stored.get("isSummary"))
    if compacted:
        reason = str(note.get("reason") or "")
        entries.boundary(
            line=position,
            timestamp=stamp,
            trigger="manual" if "manual" in reason else "auto",
            replacementHistory=True,
        )
    message = _message(stored, position, entries.session)
    content = message["content"]
    if (
        isinstance(content, list)
        and content
        and all(one["type"] == "tool_result" for one in content)
    ):
        for block in content:
            entries.add_result(block, line=position, timestamp=stamp)
        return
    summary = bool(stored.get("isSummary"))
    entries.add(message, line=position, timestamp=stamp, isCompactSummary=summary)


def _message(stored: Mapping[str, Any], position: int, session: str) -> dict[str, Any]:
    content = stored.get("content")
    blocks: Any = (
        content if isinstance(content, str) else [_block(block) for block in content or ()]
    )
    message: dict[str, Any] = {"role": stored["role"], "content": blocks}
    if stored["role"] == "assistant":
        message["id"] = str(stored.get("id") or f"{session}-r{position}")
        info, metrics = stored.get("modelInfo"), stored.get("metrics")
        if isinstance(info, Mapping) and info.get("id"):
            message["model"] = info["id"]
        if isinstance(metrics, Mapping):
            message["usage"] = _usage(metrics)
    return message


def _usage(metrics: Mapping[str, Any]) -> dict[str, int]:
    """Cline counts cached tokens among the input."""
    return usage_of(
        prompt=metrics.get("inputTokens"),
        output=metrics.get("outputTokens"),
        cache_read=metrics.get("cacheReadTokens"),
        cache_write=metrics.get("cacheWriteTokens"),
        inclusive=True,
    )


def _block(block: Mapping[str, Any]) -> Block:
    kind = block.get("type")
    if kind == "file":
        return {
            "type": "text",
            "text": f'<file path="{block.get("path")}">\n{block.get("content")}\n</file>',
        }
    if kind != "tool_result":
        return dict(block)
    plain = {key: value for key, value in block.items() if key != "name"}
    return {**plain, "content": _result(plain.get("content"))}


def _result(content: Any) -> Any:
    """Cline stores lists of `{query, result, success}`; the model is sent them as JSON."""
    if not isinstance(content, list):
        return content if isinstance(content, str) or content is None else dumps(content)
    return [one if isinstance(one, Mapping) and "type" in one else _as_text(one) for one in content]


def _as_text(value: Any) -> Block:
    return {"type": "text", "text": value if isinstance(value, str) else dumps(value)}

"""Histories of the Gemini CLI: a list of contents, or the recording of a session in its folder.

After a compression the history opens with a `<state_snapshot>` and the model's thanks for it. A recording is one
document, or lines of which a later one with the same id replaces an earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.providers import gemini
from ullage.providers._common import dumps
from ullage.transcript.formats import OpenedFile, ReadSession, ReadTranscript, usage_of
from ullage.transcript.records import as_mapping

_SNAPSHOT = "<state_snapshot>"


def sniff(source: OpenedFile) -> bool:
    """Whether a file is a list of contents, at its top or under `history` or `contents`, or a recording."""
    return _is_recording(source) or bool(_contents(source))


def _is_recording(source: OpenedFile) -> bool:
    first = source.head[0] if source.head else source.keyed("sessionId", "projectHash")
    return {"sessionId", "projectHash"} <= first.keys() and "uuid" not in first


def _contents(source: OpenedFile) -> list[Any]:
    items: Any = source.listed()
    for key in ("history", "contents"):
        items = items or source.keyed(key).get(key)
    listed = items if isinstance(items, list) else []
    are_contents = all(isinstance(as_mapping(item).get("parts"), list) for item in listed)
    return listed if are_contents else []


def read(source: OpenedFile) -> ReadTranscript:
    """Reads a history: one session."""
    if _is_recording(source):
        return _recording(source)
    internal = gemini.from_provider({"contents": _contents(source)})
    session = ReadSession(source.stem, source.warn)
    session.system = internal.system
    for position, message in enumerate(internal.messages, start=1):
        content = message["content"]
        first = content[0].get("text", "") if isinstance(content, list) and content else content
        snapshot = isinstance(first, str) and first.lstrip().startswith(_SNAPSHOT)
        if position == 1 and snapshot:
            session.boundary(line=position)
            session.add(message, line=position, isCompactSummary=True)
        else:
            session.add(message, line=position)
    return ReadTranscript("gemini_cli", [session])


# ---- recordings --------------------------------------------------------------------------------


def _recording(source: OpenedFile) -> ReadTranscript:
    facts: dict[str, Any] = {}
    records = _records(source, facts)
    session = ReadSession(str(facts.get("sessionId") or source.stem), source.warn)
    for number, record in enumerate(records, start=1):
        kind, stamp = record.get("type"), record.get("timestamp")
        if kind == "user":
            for message in _messages("user", _parts(record.get("content"))):
                session.add(message, line=number, timestamp=stamp)
        elif kind == "gemini":
            facts["model"] = record.get("model") or facts.get("model")
            _response(session, number, stamp, record)
    about = {"title": facts.get("summary"), "model": facts.get("model")}
    session.metadata = {key: value for key, value in about.items() if isinstance(value, str)}
    return ReadTranscript("gemini_cli", [session])


def _records(source: OpenedFile, facts: dict[str, Any]) -> list[Mapping[str, Any]]:
    """Messages as they stand at the end: replaced by id, taken back by a rewind."""
    records: dict[str, Mapping[str, Any]] = {}
    document = source.keyed("sessionId", "projectHash", "messages")
    listed = document.get("messages")
    if isinstance(listed, list):
        facts.update(document)
        return [record for record in listed if isinstance(record, Mapping)]
    for _, line in source.lines():
        if isinstance(back := line.get("$rewindTo"), str):
            names = list(records)
            cut = names.index(back) if back in records else 0
            records = {name: records[name] for name in names[:cut]}
        elif isinstance(line.get("$set"), Mapping):
            facts.update(line["$set"])
        elif isinstance(line.get("id"), str):
            records[line["id"]] = line
        else:
            facts.update(line)
    return list(records.values())


def _response(session: ReadSession, number: int, stamp: Any, record: Mapping[str, Any]) -> None:
    calls = [call for call in record.get("toolCalls") or () if isinstance(call, Mapping)]
    keys = ("id", "name", "args")
    asked = [{"functionCall": {key: call.get(key) for key in keys}} for call in calls]
    for message in _messages("model", [*_parts(record.get("content")), *asked]):
        answer = {**message, "id": str(record.get("id")), "model": record.get("model")}
        tokens = record.get("tokens")
        if isinstance(tokens, Mapping):
            output = (tokens.get("output") or 0) + (tokens.get("thoughts") or 0)
            figures = {**tokens, "output": output}
            answer["usage"] = usage_of(figures, "input", "output", "cached", inclusive=True)
        session.add(answer, line=number, timestamp=stamp)
    for call in calls:
        session.add_result(_result(call), line=number, timestamp=stamp)


def _messages(role: str, parts: list[Any]) -> list[dict[str, Any]]:
    if not parts:
        return []
    return list(gemini.from_provider({"contents": [{"role": role, "parts": parts}]}).messages)


def _parts(content: Any) -> list[Any]:
    listed = content if isinstance(content, list) else [content]
    parts = [{"text": part} if isinstance(part, str) else part for part in listed if part]
    return [part for part in parts if isinstance(part, Mapping)]


def _result(call: Mapping[str, Any]) -> dict[str, Any]:
    texts = []
    for part in _parts(call.get("result")):
        response = part.get("functionResponse")
        output = response.get("response") if isinstance(response, Mapping) else part.get("text")
        if isinstance(output, Mapping):
            output = output.get("output", output.get("error", output))
        texts.append(output if isinstance(output, str) else dumps(output))
    block = {"type": "tool_result", "tool_use_id": call.get("id"), "content": "\n".join(texts)}
    return block if call.get("status") in (None, "success") else {**block, "is_error": True}

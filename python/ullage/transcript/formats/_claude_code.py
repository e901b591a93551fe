"""Claude Code's own transcripts, through the index that the rest of the library uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.transcript.formats._model import OpenedFile, ReadSession, ReadTranscript, ReadWarning
from ullage.transcript.records import as_mapping, as_string

_TALK = ("user", "assistant", "system", "attachment", "progress")
_NOTES = ("summary", "file-history-snapshot", "queue-operation", "custom-title", "last-prompt")


def sniff(source: OpenedFile) -> bool:
    """Whether lines are linked entries of a session, or its notes."""
    return any(_is_ours(line) for line in source.head)


def _is_ours(line: Mapping[str, Any]) -> bool:
    kind = line.get("type")
    if kind in _NOTES:
        return bool({"sessionId", "leafUuid", "messageId", "snapshot"} & set(line))
    return kind in _TALK and "uuid" in line and bool({"parentUuid", "sessionId"} & set(line))


def read(source: OpenedFile) -> ReadTranscript:
    """Reads all entries; what the model is shown is what a resume would show it.

    For large files `ullage.transcript.Transcript` is the better door: it builds no objects.
    """
    from ullage.transcript.index import Transcript

    transcript = Transcript.from_bytes(source.data)
    entries = [dict(entry) for entry in transcript.entries()]
    conversation = transcript.conversation
    messages = (as_mapping(entry.get("message")) for entry in reversed(entries))
    models = (as_string(message.get("model")) for message in messages)
    model = next((name for name in models if name not in ("", "<synthetic>")), None)
    facts = {"model": model} if model else {}
    name = next((entry["sessionId"] for entry in entries if entry.get("sessionId")), source.stem)
    session = ReadSession(name, entries, metadata=facts, context=conversation.messages)
    warnings = [ReadWarning(line, reason) for line, reason in conversation.report.bad]
    if conversation.report.unfinished:
        warnings.append(ReadWarning(len(transcript) + 1, "unfinished last line, left out"))
    return ReadTranscript("claude_code", source.path, (session,), warnings=tuple(warnings))

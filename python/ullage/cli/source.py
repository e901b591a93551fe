"""Opens whatever file a person names: any known transcript format, one conversation of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ullage.exceptions import InvalidPolicy, InvalidTranscript
from ullage.transcript import Conversation, Transcript
from ullage.transcript.formats import detect, read

__all__ = ["Opened", "open_source"]


@dataclass(frozen=True, slots=True)
class Opened:
    """A conversation and what is known of it.

    Attributes:
        items: Entries (Claude Code) or bare messages, in the order of the context.
        messages: What the model would be sent.
        model: The newest model named; empty if none is.
        transcript: The indexed file, for Claude Code only.
    """

    path: Path
    format: str
    items: list[Any]
    messages: list[dict[str, Any]]
    model: str
    size: int
    warnings: tuple[str, ...] = ()
    transcript: Transcript | None = None
    conversation: Conversation | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


def open_source(path: Path, *, number: int = 0) -> Opened:
    """Read a transcript.

    Args:
        path: A file.
        number: Which conversation, from 0, where a file holds several.

    Raises:
        InvalidTranscript: It is a directory, cannot be read, or has no known format.
        InvalidPolicy: There is no conversation with this number.
    """
    if path.is_dir():
        raise InvalidTranscript("is a directory", path=str(path), hint="name one file of it")
    try:
        size = path.stat().st_size
        kind = detect(path)
    except OSError as exc:
        raise InvalidTranscript(f"cannot be read: {exc.strerror}", path=str(path)) from exc
    if kind == "claude_code":
        return _claude_code(path, size)
    return _other(path, kind, size, number)


def _claude_code(path: Path, size: int) -> Opened:
    transcript = Transcript.open(path)
    conversation = transcript.conversation
    return Opened(
        path=path,
        format="claude_code",
        items=list(conversation.entries),
        messages=conversation.messages,
        model=transcript.model,
        size=size,
        warnings=_warnings(conversation),
        transcript=transcript,
        conversation=conversation,
    )


def _warnings(conversation: Conversation) -> tuple[str, ...]:
    report = conversation.report
    found = [f"line {line}: {reason}" for line, reason in report.bad]
    if report.torn is not None:
        found.append(f"the last line is unfinished ({report.torn[1]:,} bytes) and was set aside")
    if report.missing:
        found.append(f"{len(report.missing)} kept messages are not in the file")
    return tuple(found)


def _other(path: Path, kind: str, size: int, number: int) -> Opened:
    found = read(path, format=kind)
    if not 0 <= number < len(found.sessions):
        limit = f"must be at most {len(found.sessions) - 1}: the file holds that many conversations, from 0"
        raise InvalidPolicy("--conversation", number, limit)
    session = found.sessions[number]
    return Opened(
        path=path,
        format=kind,
        items=session.messages,
        messages=session.messages,
        model=session.metadata.get("model", ""),
        size=size,
        warnings=tuple(found.warnings),
    )

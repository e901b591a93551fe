"""Readers of transcripts: which format a file has, and its conversations in one form.

Each format is a module with `sniff(source)` and `read(source)`, imported when it is needed.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

from ullage.exceptions import InvalidTranscript, UllageError
from ullage.transcript.formats._model import OpenedFile, ReadTranscript, described

CLAUDE_CODE = "claude_code"
"""Read by `ullage.transcript.Transcript`, without a module here."""

_MODULES = (
    "codex",
    "copilot",
    "pi",
    "gemini_cli",
    "opencode",
    "cline",
    "tau_bench",
    "swe_agent",
    "openhands",
    "anthropic",
    "openai_chat",
)
"""In the order in which they are asked; plainer forms come last."""

_STRANGE = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""What code raises that meets a number where its format has a list."""

_RELATED = {"roo": "cline", "tau2": "tau_bench", "mini_swe_agent": "swe_agent"}
"""Formats that the reader of a related one tells apart."""

FORMATS: tuple[str, ...] = tuple(sorted([CLAUDE_CODE, *_MODULES, *_RELATED]))
"""Names of all formats that can be read."""

_FORMATS_LISTED = "formats that can be read: " + ", ".join(FORMATS)


def detect(path: str | os.PathLike[str]) -> str:
    """Says which format a file has, by what stands in it; its name does not count.

    Args:
        path: The file.

    Returns:
        One of `FORMATS`.

    Raises:
        InvalidTranscript: No format fits, or the path is a directory or an empty file.
        StoreError: The file is missing or cannot be read.
    """
    source, name = recognised(path)
    # Only a few modules read more than one format, and those name it when they have read it.
    siblings = {other for other, module in _RELATED.items() if module == name}
    return _read(source, name).format if siblings else name


def recognised(path: str | os.PathLike[str]) -> tuple[OpenedFile, str]:
    """The file, and the format by whose reader it is read: that of a related format may stand for it (see `FORMATS`).

    Raises:
        InvalidTranscript, StoreError: See `detect`.
    """
    source, head = OpenedFile(path), list[dict[str, Any]]()
    for line in source.starts():  # one of the first says it as a rule
        if _is_claudes(line):
            return source, CLAUDE_CODE
        head.append(line)
    source.head = head
    for name in _MODULES:
        if _fits(source, name):
            return source, name
    reason = f"is of no known format: {described(source)}"
    raise InvalidTranscript(reason, path=source.path, hint=_hint(source))


_TALK = ("user", "assistant", "system", "attachment", "progress")
_NOTES = ("summary", "file-history-snapshot", "queue-operation", "custom-title", "last-prompt")


def _is_claudes(line: Mapping[str, Any]) -> bool:
    """Whether a line is a linked entry of a session of Claude Code's, or one of its notes."""
    kind = line.get("type")
    if kind in _NOTES:
        return bool({"sessionId", "leafUuid", "messageId", "snapshot"} & set(line))
    return kind in _TALK and "uuid" in line and bool({"parentUuid", "sessionId"} & set(line))


def read_recognised(source: OpenedFile, name: str) -> ReadTranscript:
    """What stands in a file that `recognised` gave, of which no byte is read twice; one of Claude Code's is read by its index.

    Raises:
        InvalidTranscript: It holds no message, or a value that no file of this format has.
        StoreError: It cannot be read.
    """
    transcript = _read(source, name)
    if not any(session.entries for session in transcript.sessions):
        raise InvalidTranscript("holds no message", path=source.path, hint=_hint(source))
    return transcript


def _fits(source: OpenedFile, name: str) -> bool:
    try:
        fits: bool = _module(name).sniff(source)
    except UllageError:
        raise
    except _STRANGE:  # values that no file of this format has
        return False
    return fits


def _read(source: OpenedFile, name: str) -> ReadTranscript:
    """What a reader finds. It trusts the forms that its tool writes: another value ends here, as one error."""
    try:
        transcript: ReadTranscript = _module(name).read(source)
    except UllageError:
        raise
    except _STRANGE as exc:
        reason = f"holds a value that no {name} file has ({type(exc).__name__}: {str(exc)[:120]})"
        raise InvalidTranscript(reason, path=source.path) from exc
    return transcript


def _module(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}")


def _hint(source: OpenedFile) -> str:
    """What can be read, and what the first bad line said, if there was one."""
    if not source.warnings:
        return _FORMATS_LISTED
    line, reason = source.warnings[0]
    return f"{_FORMATS_LISTED}; line {line} is {reason}"

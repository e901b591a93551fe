"""The tasks of a batch for one file. They return plain data and raise the library's own errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ullage.batch.search import TranscriptFile
from ullage.compaction import CompactionResult
from ullage.counting.models import ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.exceptions import StoreError
from ullage.policy import Policy
from ullage.sessions import (
    InspectedSession,
    Session,
    compact_session,
    inspect_session,
    open_session,
)

__all__ = ["compact_file", "inspect_file"]


def inspect_file(
    found: TranscriptFile, *, model: str | None = None, policy: Policy | None = None
) -> dict[str, Any]:
    """Summarise a session in a few numbers.

    Args:
        found: The file.
        model: Model whose window and tokenizer apply; `None`: the one in the file.
        policy: Decides what each level would free; `None`: `Policy.buffered()`.

    Returns:
        Format, bytes, messages, tokens (calibrated, or by the provider's newest usage where there is
        one), window, state and how much each level would free.

    Raises:
        InvalidTranscript, InvalidMessage: The file is not a session.
    """
    session = inspect_session(found.path, model=model, policy=policy)
    held = session.inspection
    row = ModelTable.builtin().lookup(session.model)
    marks = window_for(row, settings=WindowSettings.from_env())
    return {
        **_facts(session),
        "model": session.model or None,
        "messages": session.messages,
        "rounds": held.rounds,
        "tokens": held.anchored_tokens,
        "from_usage": held.anchored,
        "window_tokens": marks.context,
        "above_autocompact": marks.state(held.anchored_tokens).above_autocompact,
        "categories": dict(held.categories),
        "freeable": {level.level: level.tokens for level in held.freeable},
    }


def compact_file(
    found: TranscriptFile,
    *,
    output: Path | None = None,
    overwrite: bool = False,
    options: Mapping[str, Any] | None = None,
    record: Callable[[Mapping[str, Any]], object] | None = None,
) -> dict[str, Any]:
    """Compacts a session into a folder.

    Args:
        found: The file.
        output: A folder; the file is written at its relative path below it. `None`: nothing is written.
        overwrite: Whether an existing file may be replaced.
        options: Arguments of `ullage.compact`, such as `keep`.
        record: Called with what is returned before a new file is put in place; see `run_batch`.

    Returns:
        Outcome, tokens before and after, and where it was written; the outcome `nothing_to_do` is not an error.

    Raises:
        StoreError: It cannot be written, or would overwrite the session itself.
        InvalidTranscript, InvalidMessage, CompactionError: See `open_session` and `compact`.
    """
    session = open_session(found.path)
    target = None if output is None else _target(found, output)
    extra = dict(options or {})
    # One that is replaced exists whether or not it was: it is recorded afterwards, and replaced again by a run that was killed between.
    if record is not None and target is not None and not target.exists():
        extra["before_write"] = lambda result: record(_compacted(session, result, target))
    done = compact_session(session, output=target, overwrite=overwrite, **extra)
    return _compacted(session, done.result, done.path)


def _compacted(session: Session, result: CompactionResult, path: Path | None) -> dict[str, Any]:
    return {
        **_facts(session),
        "outcome": result.outcome.value,
        "reason": result.reason,
        "notice": result.user_notice,
        "tokens_before": result.report.tokens_before,
        "tokens_after": result.report.tokens_after,
        "written": None if path is None else str(path),
    }


def _facts(session: Session | InspectedSession) -> dict[str, Any]:
    return {
        "format": session.format,
        "bytes": session.size,
        "boundaries": len(session.boundaries),
        "warnings": list(session.warnings),
    }


def _target(found: TranscriptFile, output: Path) -> Path:
    target = output / found.relative.with_suffix(".jsonl")
    if target.resolve() == found.path.resolve():
        raise StoreError("would be overwritten", path=str(found.path), hint="name another folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StoreError(f"cannot be created: {exc.strerror}", path=str(target.parent)) from exc
    return target

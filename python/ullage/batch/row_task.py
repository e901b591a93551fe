"""One transcript as one row: what is done to it, and what comes of it, whatever goes wrong. Plain data in and out, for any engine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson

from ullage.batch import run as more_work
from ullage.batch.places import TranscriptFile, fetched, is_remote, put_remote
from ullage.batch.run import Record, failure_of
from ullage.compaction import CompactionResult
from ullage.counting.models import ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.exceptions import InvalidPolicy, StoreError, UllageError
from ullage.policy import Policy
from ullage.sessions import (
    InspectedSession,
    Session,
    compact_session,
    inspect_session,
    open_session,
)

# The tasks of a batch for one file. They return plain data and raise the library's own errors.


def inspect_file(
    file: TranscriptFile, *, model: str | None = None, policy: Policy | None = None
) -> dict[str, Any]:
    """Summarise a session in a few numbers.

    Args:
        file: The file.
        model: Model whose window and tokenizer apply; `None`: the one in the file.
        policy: Decides what each level would free; `None`: `Policy.buffered()`.

    Returns:
        Format, bytes, messages, tokens (calibrated, or by the provider's newest usage where there is
        one), window, state and how much each level would free.

    Raises:
        InvalidTranscript, InvalidMessage: The file is not a session.
    """
    session = inspect_session(file.path, model=model, policy=policy)
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
    file: TranscriptFile,
    *,
    output: Path | None = None,
    overwrite: bool = False,
    options: Mapping[str, Any] | None = None,
    record: Callable[[Mapping[str, Any]], object] | None = None,
) -> dict[str, Any]:
    """Compacts a session into a folder.

    Args:
        file: The file.
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
    session = open_session(file.path)
    target = None if output is None else _target(file, output)
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


def _target(file: TranscriptFile, output: Path) -> Path:
    target = output / file.relative.with_suffix(".jsonl")
    if target.resolve() == file.path.resolve():
        raise StoreError("would be overwritten", path=str(file.path), hint="name another folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StoreError(f"cannot be created: {exc.strerror}", path=str(target.parent)) from exc
    return target


BatchAction: TypeAlias = Literal["inspect", "compact", "validate", "count", "replay"]

ACTIONS: tuple[BatchAction, ...] = ("inspect", "compact", "validate", "count", "replay")

_SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """What came of one transcript.

    Attributes:
        path: As it was given.
        outcome: `done`, `legal`, `refused`, the outcome of a compaction, or `failed`.
        format: Name of its format; empty if it could not be read.
        tokens_before: Of the context.
        tokens_after: After a compaction; otherwise as before.
        freed: The difference.
        written: Where the compacted transcript is; empty: nowhere.
        output: The compacted transcript itself, where no folder was named.
        report: Everything else, as JSON.
        code: Of the error; empty: there is none.
        error: What went wrong.
        hint: What to do about it.
    """

    path: str
    outcome: str = "failed"
    format: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    freed: int = 0
    written: str = ""
    output: bytes | None = field(default=None, repr=False)
    report: str = "{}"
    code: str = ""
    error: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTask:
    """What is done to each transcript; a value that can be sent to another process.

    Attributes:
        action: Which of `ACTIONS`.
        output: `compact`: a folder or the address of one (`s3://bucket/out`); empty: the transcript is in the row.
        dry: `compact`: nothing is written, and without an output the row has no transcript either.
        overwrite: `compact`: whether an existing output may be replaced. What a bucket holds is always replaced.
        keep: `compact`: tokens of the newest messages to keep; `None`: the policy's.
        model: `None`: the one in each transcript.
        provider: `validate`: whose rules apply.
        policy: `None`: `Policy.buffered()`.
    """

    action: BatchAction
    output: str = ""
    dry: bool = False
    overwrite: bool = False
    keep: int | None = None
    model: str | None = None
    provider: str = "anthropic"
    policy: Policy | None = None

    def row(self, path: str, relative: str = "", content: bytes | None = None) -> BatchRow:
        """Does it to one transcript; what goes wrong is in the row.

        Args:
            path: A file, an address (`s3://…`), or any name if `content` is given.
            relative: Its path below the output; empty: its last part.
            content: The transcript itself; `None`: it is read from `path`.
        """
        place = path
        try:
            with ExitStack() as open_until:
                file = self._file_of(open_until, path, relative, content)
                place = str(file.path)
                return self._done(path, file)
        except (UllageError, OSError) as exc:
            failure = failure_of(exc)
            return row_of(path, {**failure, "error": failure["error"].replace(place, path)})

    def report(self, file: TranscriptFile, record: Record | None = None) -> Mapping[str, Any]:
        """What is found out about a local file, for `run_batch`.

        Args:
            file: The file.
            record: `compact`: called with the report before a new file is put in place; `None`: nobody asks.

        Raises:
            StoreError, InvalidTranscript, InvalidMessage, CompactionError: See `open_session` and `compact`.
        """
        return self._reported(
            file, None if self.dry or not self.output else Path(self.output), None, record
        )

    # ---- one transcript ----------------------------------------------------------------------

    def _file_of(
        self, open_until: ExitStack, path: str, relative: str, content: bytes | None
    ) -> TranscriptFile:
        if content is None and not is_remote(path):
            root = Path(path[: -len(relative)]) if relative and path.endswith(relative) else None
            return TranscriptFile(Path(path), root or Path(path).parent)
        folder = Path(open_until.enter_context(tempfile.TemporaryDirectory(prefix="ullage-")))
        below = Path(relative or path.rpartition("/")[2] or "transcript")
        if below.is_absolute() or ".." in below.parts:
            raise StoreError("could lead out of its folder", path=str(below))
        target = folder / "in" / below
        target.parent.mkdir(parents=True)
        target.write_bytes(fetched(path) if content is None else content)
        return TranscriptFile(target, folder / "in")

    def _done(self, path: str, file: TranscriptFile) -> BatchRow:
        local = bool(self.output) and not is_remote(self.output)
        if self.action != "compact" or self.dry or local:
            return _row(path, file, self.report(file))
        below = file.relative.with_suffix(_SUFFIX).as_posix()
        place = f"{self.output.rstrip('/')}/{below}" if self.output else path
        with tempfile.TemporaryDirectory(prefix="ullage-") as folder:
            row = _row(path, file, self._reported(file, Path(folder), place))
            if not row.written:
                return row
            data = Path(row.written).read_bytes()
        if not self.output:
            return replace(row, written="", output=data)
        put_remote(place, data)
        return replace(row, written=place)

    def _reported(
        self,
        file: TranscriptFile,
        output: Path | None,
        place: str | None,
        record: Record | None = None,
    ) -> Mapping[str, Any]:
        try:
            return self._work(output, place, record)(file)
        except (UllageError, OSError):
            raise
        except Exception as exc:  # a poisoned file must not end a run over many
            hint = "that is a fault of Ullage: report it with the file's format"
            raise UllageError(f"{type(exc).__name__}: {exc}", hint=hint) from exc

    def _work(
        self, output: Path | None, place: str | None, record: Record | None
    ) -> Callable[[TranscriptFile], Mapping[str, Any]]:
        if self.action == "compact":
            options: dict[str, Any] = {"keep": self.keep, "policy": self.policy}
            options["transcript_path"] = place  # never that of a temporary file
            if self.model:
                options["model"] = self.model
            return partial(
                compact_file,
                output=output,
                overwrite=self.overwrite,
                options=options,
                record=record,
            )
        if self.action == "inspect":
            return partial(inspect_file, model=self.model, policy=self.policy)
        if self.action == "validate":
            return partial(more_work.validate_file, provider=self.provider, model=self.model)
        if self.action == "count":
            return partial(more_work.count_file, model=self.model)
        if self.action == "replay":
            return partial(more_work.replay_file, model=self.model, policy=self.policy)
        raise InvalidPolicy("action", self.action, f"must be one of {', '.join(ACTIONS)}")


def _row(path: str, file: TranscriptFile, report: Mapping[str, Any]) -> BatchRow:
    shown = {key: path if value == str(file.path) else value for key, value in report.items()}
    return row_of(path, shown)


def row_of(path: str, report: Mapping[str, Any]) -> BatchRow:
    """The row of a report, as `RowTask.report` gives it, or of a failure."""
    if "error" in report:
        code, error, hint = (str(report.get(name) or "") for name in ("code", "error", "hint"))
        return BatchRow(path=path, code=code, error=error, hint=hint)
    others = {name: value for name, value in report.items() if name != "written"}
    before = report.get("tokens_before", report.get("tokens", 0))
    after = report.get("tokens_after", before)
    return BatchRow(
        path=path,
        outcome=report.get("outcome", "done"),
        format=report.get("format", ""),
        tokens_before=before,
        tokens_after=after,
        freed=before - after,
        written=report.get("written") or "",
        report=orjson.dumps(others, option=orjson.OPT_NON_STR_KEYS).decode(),
    )

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

from ullage.batch import more_work
from ullage.batch.file_work import compact_file, inspect_file
from ullage.batch.places import fetched, is_remote, put_remote
from ullage.batch.run import Record, failure_of
from ullage.batch.search import TranscriptFile
from ullage.exceptions import InvalidPolicy, StoreError, UllageError
from ullage.policy import Policy

__all__ = ["ACTIONS", "BatchAction", "BatchRow", "RowTask", "row_of"]

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
                found = self._found(open_until, path, relative, content)
                place = str(found.path)
                return self._done(path, found)
        except (UllageError, OSError) as exc:
            failure = failure_of(exc)
            return row_of(path, {**failure, "error": failure["error"].replace(place, path)})

    def report(self, found: TranscriptFile, record: Record | None = None) -> Mapping[str, Any]:
        """What is found out about a local file, for `run_batch`.

        Args:
            found: The file.
            record: `compact`: called with the report before a new file is put in place; `None`: nobody asks.

        Raises:
            StoreError, InvalidTranscript, InvalidMessage, CompactionError: See `open_session` and `compact`.
        """
        return self._reported(
            found, None if self.dry or not self.output else Path(self.output), None, record
        )

    # ---- one transcript ----------------------------------------------------------------------

    def _found(
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

    def _done(self, path: str, found: TranscriptFile) -> BatchRow:
        local = bool(self.output) and not is_remote(self.output)
        if self.action != "compact" or self.dry or local:
            return _row(path, found, self.report(found))
        below = found.relative.with_suffix(_SUFFIX).as_posix()
        place = f"{self.output.rstrip('/')}/{below}" if self.output else path
        with tempfile.TemporaryDirectory(prefix="ullage-") as folder:
            row = _row(path, found, self._reported(found, Path(folder), place))
            if not row.written:
                return row
            data = Path(row.written).read_bytes()
        if not self.output:
            return replace(row, written="", output=data)
        put_remote(place, data)
        return replace(row, written=place)

    def _reported(
        self,
        found: TranscriptFile,
        output: Path | None,
        place: str | None,
        record: Record | None = None,
    ) -> Mapping[str, Any]:
        try:
            return self._work(output, place, record)(found)
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


def _row(path: str, found: TranscriptFile, report: Mapping[str, Any]) -> BatchRow:
    shown = {key: path if value == str(found.path) else value for key, value in report.items()}
    return row_of(path, shown)


def row_of(path: str, report: Mapping[str, Any]) -> BatchRow:
    """The row of a report, as `RowTask.report` gives it, or of a failure."""
    if "error" in report:
        code, error, hint = (str(report.get(name) or "") for name in ("code", "error", "hint"))
        return BatchRow(path=path, code=code, error=error, hint=hint)
    rest = {name: value for name, value in report.items() if name != "written"}
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
        report=orjson.dumps(rest, option=orjson.OPT_NON_STR_KEYS).decode(),
    )

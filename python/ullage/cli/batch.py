"""`ullage batch`: many transcripts at once."""

from __future__ import annotations

import hashlib
import io
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from csv import DictWriter
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import ullage
from ullage.batch import (
    BatchAction,
    Done,
    EngineName,
    Manifest,
    RowTask,
    Status,
    find_places,
    find_transcripts,
    row_of,
    run_batch,
    run_places,
    write_table,
)
from ullage.batch.places import check_place, is_remote
from ullage.batch.run import arrow_schema
from ullage.cli.output import Json, Output, PolicyOption, counted, share
from ullage.exceptions import InvalidPolicy
from ullage.policy import Policy
from ullage.recall.store import write_whole


def batch_command(
    action: BatchAction,
    /,
    *paths: str,
    output: Annotated[str | None, Parameter(alias=("-o", "--out"))] = None,
    manifest: Path | None = None,
    workers: Annotated[int | None, Parameter(alias="-w")] = None,
    engine: EngineName = "threads",
    table: str | None = None,
    csv: Path | None = None,
    provider: str = "anthropic",
    pattern: str = "",
    keep: int | None = None,
    model: str | None = None,
    policy: PolicyOption = None,
    force: bool = False,
    retry: bool = False,
    json: Json = False,
) -> int:
    """Inspect, compact, validate, count or replay many transcripts. Exit code 1: some files failed.

    Args:
        action: what to do with each file
        paths: folders, searched to any depth, files, or addresses: 's3://bucket/**/*.jsonl'
        output: compact: the folder or address to write to; without it, a dry run
        manifest: where finished files are recorded, so that the next run skips them; default: ullage-batch.jsonl.manifest
            in the output folder, none for inspect
        workers: threads; default: 2, and 1 to compact, replay or validate local files
        engine: where it runs; daft and ray need their extra
        table: a Parquet file or address, with a row per file
        csv: a CSV file, with a row per file
        provider: validate: whose rules apply
        pattern: only files that match, such as '*.jsonl'
        keep: compact: tokens of the newest messages to keep
        model: default: the one in each file
        force: replace existing output files
        retry: retry files that failed
    """
    if not paths:
        raise InvalidPolicy("paths", "nothing", "must name a folder or a file")
    out = Output(as_json=json)
    chosen = Policy.load(policy)
    if output is not None and not is_remote(output):
        output = str(Path(output))
    task = RowTask(
        action=action,
        output=output or "",
        dry=output is None,
        overwrite=force,
        keep=keep,
        model=model,
        provider=provider,
        policy=chosen,
    )
    if table is not None:
        arrow_schema()  # checked before hours of work
        check_place(table)
    if output is not None and is_remote(output):
        check_place(output)
    if manifest is None and action == "compact" and output is not None and not is_remote(output):
        folder = Path(output)
        folder.mkdir(parents=True, exist_ok=True)
        # Not a suffix of transcripts, so that a later batch over the folder skips it.
        manifest = folder / "ullage-batch.jsonl.manifest"
    book = Manifest() if manifest is None else Manifest.open(manifest)
    name = _name(action, chosen, keep=keep, model=model, output=output)
    if action == "validate":
        name += f" provider={provider}"
    remote = any(map(is_remote, [*paths, output or ""]))
    if workers is None:
        workers = 1 if action in ONE_AT_A_TIME and not remote else 2
    options: dict[str, Any] = {"workers": workers, "manifest": book, "retry_failed": retry}
    if engine == "threads" and not remote:
        files = find_transcripts(paths, pattern=pattern)
        files = [file for file in files if file.path != book.path]
        count = len(files)
        running = run_batch(task.report, files, name=name, records=True, **options)
    else:
        places = find_places(paths, pattern=pattern)
        places = [place for place in places if place.path != str(book.path)]
        count = len(places)
        running = run_places(task, places, name=name, engine=engine, **options)
    results: list[Done] = []
    try:
        title = f"{action} {counted(count, 'file')}"
        with _terminated_as_interrupted(), closing(running), out.progress(title, count) as step:
            for done in running:
                results.append(done)
                step(1)
    except KeyboardInterrupt:
        return _interrupted(out, len(results), count, book)
    results.sort(key=lambda done: str(done.path))
    if table is not None:
        write_table(table, (row_of(str(done.path), done.report) for done in results))
    if csv is not None:
        _write_csv(csv, results)
    if json:
        reports = list(map(_plain, results))
        out.json({"action": action, "totals": _totals(results), "files": reports})
    else:
        _show(out, results, _COLUMNS[action])
    return 1 if any(done.status == Status.FAILED for done in results) else 0


# Almost all Python, of which one thread runs at a time: of 40 to 200 local files of 0.9 MB two threads compact 0.8 to 1.0 times as many in
# a second as one, validate 0.8 to 0.9 and replay 0.6.
ONE_AT_A_TIME = ("compact", "replay", "validate")


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """On SIGTERM (a container that stops), finish and record the files in progress, as after Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _interrupted(out: Output, done: int, count: int, book: Manifest) -> int:
    goes_on = "with --manifest it could continue from there"
    if book.path:
        goes_on = "the same command continues from there"
    out.note(f"interrupted after {done:,} of {counted(count, 'file')}; {goes_on}")
    return 130  # what a shell reports after Ctrl-C


def _name(action: str, policy: Policy, **options: Any) -> str:
    """The key of the task in the manifest; it includes settings and version, since the result depends on them."""
    values = [(field.name, field.value) for field in policy.effective()]
    chosen = hashlib.sha256(repr(values).encode()).hexdigest()[:16]
    words = [f"{name}={value}" for name, value in options.items() if value is not None]
    return " ".join([action, *words, f"policy={chosen}", f"version={ullage.__version__}"])


def _write_csv(path: Path, results: list[Done]) -> None:
    """The reports without nested lists and tables."""
    rows = [
        {name: value for name, value in _plain(done).items() if not isinstance(value, dict | list)}
        for done in results
    ]
    text = io.StringIO(newline="")
    writer = DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def _plain(done: Done) -> dict[str, Any]:
    return {"file": str(done.path), "status": str(done.status), **done.report}


def _totals(results: list[Done]) -> dict[str, int]:
    totals = {str(status): 0 for status in Status}
    for done in results:
        totals[str(done.status)] += 1
    good = [done.report for done in results if done.status != Status.FAILED]
    for name in _SUMS:
        if any(name in report for report in good):
            totals[name] = sum(report.get(name, 0) for report in good)
    return totals


_SUMS = (
    "bytes", "messages", "tokens", "tokens_before", "tokens_after", "requests", "over_window", "prompt_nanousd",
)  # fmt: skip

Columns = dict[str, Callable[[Mapping[str, Any]], str]]

_COUNTED: Columns = {
    "messages": lambda report: f"{report['messages']:,}",
    "tokens": lambda report: f"{report['tokens']:,}",
}
_COLUMNS: dict[str, Columns] = {
    "inspect": {
        **_COUNTED,
        "of window": lambda report: share(report["tokens"], report["window_tokens"]),
    },
    "compact": {
        "outcome": lambda report: report["outcome"].replace("_", " "),
        "before": lambda report: f"{report['tokens_before']:,}",
        "after": lambda report: f"{report['tokens_after']:,}",
    },
    "count": _COUNTED,
    "validate": {
        "outcome": lambda report: report["outcome"],
        "broken rules": lambda report: ", ".join(report["rules"]),
    },
    "replay": {
        "requests": lambda report: f"{report['requests']:,}",
        "over window": lambda report: f"{report['over_window']:,}",
        "largest": lambda report: f"{report['tokens_after']:,}",
        "unmanaged": lambda report: f"{report['tokens_before']:,}",
    },
}
"""Between the format and the file."""
_WORDS = ("outcome", "broken rules")
"""Columns that are not figures."""


def _show(out: Output, results: list[Done], columns: Columns) -> None:
    good = [done for done in results if done.status != Status.FAILED]
    rows = []
    for done in good:
        cells = (draw(done.report) for draw in columns.values())
        path = str(done.path)
        # Engines name files by their whole path; inside the current folder the relative one is enough.
        if not is_remote(path) and Path(path).is_relative_to(Path.cwd()):
            path = str(Path(path).relative_to(Path.cwd()))
        rows.append((done.report["format"], *cells, path))
    figures = tuple(at for at, name in enumerate(columns, 1) if name not in _WORDS)
    if good:
        at = (len(columns) + 1,)
        out.table(["format", *columns, "file"], rows, right=figures, cut=at, paths=at)
    for done in results:
        if done.status == Status.FAILED:
            error = str(done.report["error"])
            place = "" if str(done.path) in error else f"{done.path}: "
            out.note(f"failed: {place}{error}")
    # The table covers compacted files, the totals those with nothing to gain.
    noticed = [done for done in good if done.report.get("outcome") not in ("compacted", "no_op")]
    for notice in dict.fromkeys(str(done.report.get("notice") or "") for done in noticed):
        if notice:
            out.note(f"note: {notice}")
    totals = _totals(results)
    how = [f"{totals[name]:,} {verb}" for name, verb in _STATUSES.items() if totals[name]]
    out.line(f"{counted(len(results), 'file')}: {', '.join(how) or 'nothing to do'}")
    outcomes = Counter(str(done.report.get("outcome") or "") for done in good)
    parts = [f"{count:,} {_OUTCOMES.get(name, name)}" for name, count in outcomes.items() if name]
    if "tokens_before" in totals and "requests" not in totals:
        before, after = totals["tokens_before"], totals["tokens_after"]
        freed = share(before - after, before)
        parts.append(f"{before:,} → {after:,} tokens ({freed} freed)")
    elif "tokens" in totals:
        parts.append(f"{totals['tokens']:,} tokens in {totals['messages']:,} messages")
    if "requests" in totals:
        over = f"{totals['over_window']:,}"
        parts.append(f"{totals['requests']:,} requests, {over} over the window")
        parts.append(f"${totals['prompt_nanousd'] / 1e9:,.2f} for prompts")
    if parts:
        out.line("total: " + "; ".join(parts))


_STATUSES = {"done": "done", "kept": "done by an earlier run", "failed": "failed"}
_OUTCOMES = {"no_op": "with nothing to gain"}

"""`ullage batch`: many transcripts at once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

import ullage
from ullage.batch import (
    Done,
    Manifest,
    Status,
    TranscriptFile,
    compact_file,
    find_transcripts,
    inspect_file,
    run_batch,
)
from ullage.cli.output import Output, share, tokens
from ullage.exceptions import InvalidPolicy
from ullage.policy import Policy

__all__ = ["batch_command"]

MANIFEST = "ullage-batch.jsonl.manifest"
"""In the output folder of `compact`; not a suffix of transcripts, so that a later batch over the folder skips it."""


def batch_command(
    action: Annotated[Literal["inspect", "compact"], Parameter(help="what is done to each file")],
    /,
    *paths: Annotated[Path, Parameter(help="folders, searched to any depth, or files")],
    output: Annotated[
        Path | None,
        Parameter(alias="-o", help="compact: the folder to write to; without it, a dry run"),
    ] = None,
    manifest: Annotated[
        Path | None,
        Parameter(
            help="where finished files are recorded, so that the next run skips them; default: "
            f"{MANIFEST} in the output folder, none for inspect"
        ),
    ] = None,
    workers: Annotated[int, Parameter(alias="-w", help="threads")] = 2,
    pattern: Annotated[str, Parameter(help="only files that match, such as '*.jsonl'")] = "",
    keep: Annotated[
        int | None, Parameter(help="compact: tokens of the newest messages to keep")
    ] = None,
    model: Annotated[str | None, Parameter(help="default: the one in each file")] = None,
    policy: Annotated[Path | None, Parameter(help="a TOML file with settings")] = None,
    force: Annotated[bool, Parameter(negative="", help="replace existing output files")] = False,
    retry: Annotated[bool, Parameter(negative="", help="retry files that failed")] = False,
    json: Annotated[bool, Parameter(negative="", help="print JSON")] = False,
) -> int:
    """Inspect or compact many transcripts. Exit code 1: some files failed."""
    if not paths:
        raise InvalidPolicy("paths", "nothing", "must name a folder or a file")
    out = Output(as_json=json)
    chosen = Policy.load(policy)
    if action == "inspect":
        task: Callable[[TranscriptFile], Mapping[str, Any]] = partial(
            inspect_file, model=model, policy=chosen
        )
        columns = _INSPECTED
    else:
        options = {"keep": keep, "policy": chosen, **({"model": model} if model else {})}
        task = partial(compact_file, output=output, overwrite=force, options=options)
        columns = _COMPACTED
    book = _manifest(action, manifest, output)
    files = [found for found in find_transcripts(paths, pattern=pattern) if found.path != book.path]
    name = _name(action, chosen, keep=keep, model=model, output=output)
    found = []
    with out.progress(f"{action} {len(files):,} files", len(files)) as step:
        for done in run_batch(
            task, files, name=name, workers=workers, manifest=book, retry_failed=retry
        ):
            found.append(done)
            step(1)
    found.sort(key=lambda done: done.path)
    if json:
        out.json({"action": action, "totals": _totals(found), "files": list(map(_plain, found))})
    else:
        _show(out, found, columns)
    return 1 if any(done.status == Status.FAILED for done in found) else 0


def _manifest(action: str, named: Path | None, output: Path | None) -> Manifest:
    if named is None and action == "compact" and output is not None:
        output.mkdir(parents=True, exist_ok=True)
        named = output / MANIFEST
    return Manifest() if named is None else Manifest.open(named)


def _name(action: str, policy: Policy, **options: Any) -> str:
    """The key of the task in the manifest; settings and version are part of it, since the result depends on them."""
    values = [(each.name, each.value) for each in policy.effective()]
    chosen = hashlib.sha256(repr(values).encode()).hexdigest()[:16]
    said = "".join(f" {name}={value}" for name, value in options.items() if value is not None)
    return f"{action}{said} policy={chosen} version={ullage.__version__}"


def _plain(done: Done) -> dict[str, Any]:
    return {"file": str(done.path), "status": str(done.status), **done.report}


def _totals(found: list[Done]) -> dict[str, int]:
    totals = {str(status): 0 for status in Status}
    for done in found:
        totals[str(done.status)] += 1
    good = [done.report for done in found if done.status != Status.FAILED]
    for name in ("bytes", "messages", "tokens", "tokens_before", "tokens_after"):
        if any(name in report for report in good):
            totals[name] = sum(report.get(name, 0) for report in good)
    return totals


# ---- drawing ---------------------------------------------------------------------------------

Columns = dict[str, Callable[[Mapping[str, Any]], str]]

_INSPECTED: Columns = {
    "format": lambda report: report["format"],
    "messages": lambda report: tokens(report["messages"]),
    "tokens": lambda report: tokens(report["tokens"]),
    "of window": lambda report: share(report["tokens"], report["window_tokens"]),
}
_COMPACTED: Columns = {
    "format": lambda report: report["format"],
    "outcome": lambda report: report["outcome"].replace("_", " "),
    "before": lambda report: tokens(report["tokens_before"]),
    "after": lambda report: tokens(report["tokens_after"]),
}


def _show(out: Output, found: list[Done], columns: Columns) -> None:
    good = [done for done in found if done.status != Status.FAILED]
    rows = ([*(draw(done.report) for draw in columns.values()), str(done.path)] for done in good)
    if good:
        out.table([*columns, "file"], rows, right=(1, 2, 3) if columns is _INSPECTED else (2, 3))
    for done in found:
        if done.status == Status.FAILED:
            error = str(done.report["error"])
            out.note(
                f"failed: {error}" if str(done.path) in error else f"failed: {done.path}: {error}"
            )
    for notice in dict.fromkeys(str(done.report.get("notice") or "") for done in good):
        if notice:
            out.note(f"note: {notice}")
    totals = _totals(found)
    said = [f"{totals[name]:,} {name}" for name in ("done", "kept", "failed") if totals[name]]
    out.line(f"{len(found):,} files: {', '.join(said) or 'nothing to do'}")

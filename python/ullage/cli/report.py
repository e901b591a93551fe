"""`ullage report`: one HTML file about one or several sessions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ullage.cli.output import (
    Force,
    Json,
    Output,
    PolicyOption,
    PricesOption,
    SessionArgument,
    WindowOption,
    read_window,
)
from ullage.cli.replay import show_sizes
from ullage.counting.models import ModelTable
from ullage.exceptions import InvalidPolicy, UllageError
from ullage.observe.hooks import Redactor
from ullage.policy import Policy
from ullage.replay import SizeCost, sum_of_costs
from ullage.report import SessionFigures, figures_of, write_report
from ullage.report.session_figures import PAGE_CHARS, STEPS, TextBudget
from ullage.sessions import open_session
from ullage.sessions.find import found_sessions, opened_path
from ullage.transcript.formats import detect
from ullage.tui import run_tui

DEFAULT = Path("ullage-report.html")


def report_command(
    *files: SessionArgument,
    all: bool = False,
    number: Annotated[int, Parameter(alias="-n")] = 20,
    output: Annotated[Path, Parameter(alias="-o")] = DEFAULT,
    force: Force = False,
    model: str | None = None,
    window: WindowOption = None,
    prices: PricesOption = None,
    policy: PolicyOption = None,
    redact: bool = False,
    json: Json = False,
) -> int:
    """Write a report about sessions as one HTML file: what filled the window, what left it and why, what it cost.

    The file loads nothing, is readable on a phone and on paper, and contains text of the sessions.

    Args:
        all: the newest sessions of this machine (--number)
        number: with --all: how many; 0: all of them
        output: the file to write
        model: model whose window and prices apply; default: the one in each file
        redact: remove keys, tokens and passwords from the texts
    """
    if all:
        files += tuple(opened_path(session) for session in found_sessions()[: number or None])
    if not files:
        hint = "--last: the newest session, --all: the newest twenty; `ullage list` shows them"
        raise InvalidPolicy("FILE", "none", "must be at least one transcript", hint=hint)
    out = Output(as_json=json)
    rules, settings = Policy.load(policy), read_window(window)
    table = ModelTable.load(*filter(None, [prices]))
    budget = TextBudget(PAGE_CHARS, redact=Redactor() if redact else None)
    figures = []
    with out.progress("replaying", len(files) * STEPS) as step:
        for file in files:
            try:
                figures.append(
                    figures_of(
                        open_session(file),
                        policy=rules,
                        model=model or "",
                        settings=settings,
                        table=table,
                        budget=budget,
                        step=lambda: step(1),
                    )
                )
            except UllageError as error:
                if not all:
                    raise
                out.note(f"{error}, left out")
    if not figures:
        raise InvalidPolicy("--all", f"{len(files)} sessions", "none can be replayed")
    written = write_report(figures, output, overwrite=force)
    report = {**_document(written, figures), "prices": table.version}
    if json:
        out.json(report)
    else:
        _show(out, report)
    return 0


def _document(written: Path, figures: list[SessionFigures]) -> dict[str, Any]:
    return {
        "output": str(written),
        "bytes": written.stat().st_size,
        "working_sizes": [
            size._asdict() for size in sum_of_costs(session.sizes for session in figures)
        ],
        "sessions": [
            {
                "file": session.name,
                "title": session.title,
                "model": session.model,
                "requests": len(session.managed.turns),
                "removals": len(session.removals),
                "nanousd_managed": session.managed.nanousd,
                "nanousd_unmanaged": session.unmanaged.nanousd,
                "working_sizes": [size._asdict() for size in session.sizes],
            }
            for session in figures
        ],
    }


def _show(out: Output, report: dict[str, Any]) -> None:
    rows = []
    for row in report["sessions"]:
        counts = (f"{row[name]:,}" for name in ("requests", "removals"))
        costs = (f"${row[f'nanousd_{run}'] / 1e9:,.2f}" for run in ("unmanaged", "managed"))
        rows.append((row["title"] or row["file"], row["model"], *counts, *costs))
    columns = ("session", "model", "requests", "removals", "unmanaged", "managed")
    out.table(columns, rows, right=(2, 3, 4, 5), cut=(0,))
    show_sizes(out, [SizeCost(**row) for row in report["working_sizes"]])
    out.line(f"prices of {report['prices']}", style="dim")
    out.line(f"written {report['output']}  ({report['bytes']:,} bytes)")


# `ullage tui`: sessions on the terminal.


def tui_command(file: SessionArgument | None = None) -> int:
    """Browse sessions on the terminal: what fills them, what the levels would do, a compaction with a preview."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        hint = "`ullage list` and `ullage inspect FILE` print"
        raise InvalidPolicy("ullage tui", "no terminal", "needs a terminal", hint=hint)
    if file is not None:
        detect(file)  # an unreadable file is an error line, not a screen
    run_tui(file)
    return 0

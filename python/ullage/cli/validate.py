"""`ullage validate`: what a provider would refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ullage.cli.output import Output
from ullage.sessions import open_session
from ullage.validate import Report, describe, validate

__all__ = ["validate_command"]


def validate_command(
    file: Annotated[Path, Parameter(help="a transcript of any known format")],
    *,
    model: Annotated[
        str | None, Parameter(help="whose rules; default: the model in the file")
    ] = None,
    conversation: Annotated[
        int, Parameter(help="which one, from 0, where a file holds several")
    ] = 0,
    warnings: Annotated[
        bool, Parameter(negative="", help="show what only costs or is refused elsewhere, too")
    ] = False,
    json: Annotated[bool, Parameter(negative="", help="print JSON")] = False,
) -> int:
    """Check what the model would be sent against the rules of the Anthropic API. Exit code 1: it would be refused."""
    out = Output(as_json=json)
    opened = open_session(file, number=conversation)
    name = model or opened.model
    report = validate(
        opened.messages, provider="anthropic", model=name if name.startswith("claude") else None
    )
    shown = report.violations if warnings else report.errors
    if json:
        out.json(
            {"file": str(file), "ok": report.ok, "violations": [_plain(found) for found in shown]}
        )
    else:
        _show(out, file, report, [describe(found) for found in shown])
    return 0 if report.ok else 1


def _plain(found: Any) -> dict[str, Any]:
    return {**found._asdict()}


def _show(out: Output, file: Path, report: Report, lines: list[str]) -> None:
    out.heading(str(file))
    for line in lines:
        out.text(line)
    verdict = (
        "legal"
        if report.ok
        else f"{len(report.errors)} errors: the provider would refuse this request"
    )
    out.line(f"{verdict}, {len(report.warnings)} warnings")

"""`ullage validate`: what a provider would refuse."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from ullage.cli.output import Output, SessionArgument
from ullage.cli.resume import notes_of
from ullage.legality import describe
from ullage.sessions import open_session


def validate_command(
    file: SessionArgument,
    *,
    provider: Annotated[
        str,
        Parameter(
            help="provider whose rules apply: anthropic, openai_chat, openai_responses, gemini, bedrock or mistral"
        ),
    ] = "anthropic",
    model: Annotated[
        str | None, Parameter(help="model whose rules apply; default: the one in the file")
    ] = None,
    conversation: Annotated[
        int, Parameter(help="which conversation, from 0, if the file holds several")
    ] = 0,
    warnings: Annotated[
        bool,
        Parameter(negative="", help="also show warnings: what only costs, or is refused elsewhere"),
    ] = False,
    json: Annotated[bool, Parameter(negative="", help="print JSON")] = False,
) -> int:
    """Check a log against the rules of a provider's API, and show what `ullage resume` would repair.

    Exit code 1: the provider would refuse it without repair.
    """
    out = Output(as_json=json)
    opened = open_session(file, number=conversation)
    found = opened.check(provider=provider, model=model)
    sent = opened.request(provider=provider, model=model)
    shown = found.violations if warnings else found.errors
    report = {
        "file": str(file),
        "provider": sent.provider,
        "ok": found.ok,
        "violations": [each._asdict() for each in shown],
        "repairs": [each._asdict() for each in sent.repairs],
        "left": [each._asdict() for each in sent.left],
        "warnings": len(found.warnings),
    }
    if json:
        out.json(report)
    else:
        _show(out, report, [describe(each) for each in shown], notes_of(sent))
    return 0 if found.ok else 1


def _show(out: Output, report: dict[str, Any], lines: list[str], notes: list[str]) -> None:
    out.heading(f"{report['file']}  (rules of {report['provider']})")
    for line in lines:
        out.text(line)
    out.line(f"{_verdict(report)}, {_count(report['warnings'], 'warning')}")
    for note in notes:
        out.line(f"- {note}")


def _verdict(report: dict[str, Any]) -> str:
    if report["ok"]:
        return "legal"
    errors = [each for each in report["violations"] if each["severity"] == "error"]
    told = f"{_count(len(errors), 'error')}: the provider would refuse this request"
    return f"{told} without repair; `ullage resume` prints it {'partly ' if report['left'] else ''}repaired"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"

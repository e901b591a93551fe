"""`ullage resume` and `ullage validate`: exactly what would be sent to the model, and what its provider would refuse of it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from ullage.cli.output import (
    Json,
    Output,
    SessionArgument,
    WhichConversation,
    as_json,
    counted,
    file_name,
    json_printable,
)
from ullage.exceptions import InvalidPolicy
from ullage.legality import describe
from ullage.requests.to_request import Outgoing
from ullage.sessions import open_session
from ullage.summarizers.budgeted_text import one_line

RulesModel = Annotated[
    str | None, Parameter(help="model whose rules apply; default: the one in the file")
]


def resume_command(
    file: SessionArgument,
    *,
    provider: str = "anthropic",
    model: RulesModel = None,
    conversation: WhichConversation = 0,
    tail: int | None = None,
    json: bool = False,
    lines: bool = False,
    body: bool = False,
) -> int:
    """Print exactly what would be sent to the model: a readable list; with --json, --lines or --body the messages themselves.

    What the provider would refuse is repaired in the output, not in the file, and reported on standard error.
    If the model spoke last, append your next message before sending.

    Args:
        provider: provider whose format is used: anthropic, openai_chat, openai_responses, gemini, bedrock or mistral
        tail: show only the newest N messages of the list; same as `--last N`
        json: print the messages and what was repaired as JSON
        lines: print the messages, one JSON object per line
        body: print the request (messages, system prompt, tools) as JSON
    """
    out = Output(as_json=json or lines or body)
    opened = open_session(file, number=conversation)
    sent = opened.request(provider=provider, model=model)
    if body:
        print(json_printable(as_json(dict(sent.parts))))
    elif json:
        out.json({"messages": sent.messages, "notes": notes_of(sent)})
    elif lines:
        for message in sent.messages:
            print(json_printable(as_json(message)))
    else:
        _show(out, sent, tail)
    sys.stdout.flush()
    for text in notes_of(sent):
        out.note(f"note: {text}")
    out.notes(opened.warnings)
    return 1 if sent.left else 0


def notes_of(sent: Outgoing) -> list[str]:
    """What was repaired, left out or is still invalid in the request, a line each."""
    notes = [
        f"repaired: {action} ({count:,}×)"
        for action, count in Counter(repair.action for repair in sent.repairs).items()
    ]
    notes += [
        f"not sent: {what} ({count:,}×): {why}"
        for (what, why), count in Counter((loss.what, loss.why) for loss in sent.losses).items()
    ]
    notes += [f"would be refused: {violation.rule}, {violation.detail}" for violation in sent.left]
    if sent.awaits_user:
        notes.append("the model spoke last: a user message has to follow")
    return notes


def _show(out: Output, sent: Outgoing, tail: int | None) -> None:
    if tail is not None and tail < 1:
        raise InvalidPolicy("--tail", tail, "must be at least 1")
    first = 0 if tail is None else max(0, len(sent.messages) - tail)
    if first:
        out.line(f"{first:,} earlier messages are not shown", style="dim")
    rows = (
        (f"{index:,}", *row)
        for index, message in enumerate(sent.messages)
        if index >= first
        for row in preview_rows(message)
    )
    out.table(("#", "role", "block", "begins"), rows, right=(0,), whole=(1, 2), cut=(3,))


def preview_rows(message: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Role, kind and beginning of each block of a message."""
    role = str(message.get("role") or "")
    content = message.get("content", message.get("parts"))
    rows = []
    if isinstance(content, str) and (content or not message.get("tool_calls")):
        rows.append((role, "text", _preview(content)))
    elif isinstance(content, list):
        # A block's type; for Gemini and Bedrock, its key.
        kinds = [str(block.get("type") or next(iter(block), "")) for block in content]
        texts = map(_preview, map(_text, content))
        rows += [(role, kind, text) for kind, text in zip(kinds, texts, strict=True)]
    elif content is None and not message.get("tool_calls"):
        rows.append((role, str(message.get("type")), _preview(as_json(message))))
    calls = message.get("tool_calls") or ()
    return rows + [(role, "tool_call", _preview(as_json(call.get("function")))) for call in calls]


def _text(block: dict[str, Any]) -> str:
    kind = block.get("type")
    if kind == "tool_use":
        return f"{block.get('name')} {as_json(block.get('input'))}"
    if kind == "tool_result":
        content = block.get("content")
        return content if isinstance(content, str) else " ".join(map(_text, content or ()))
    text = block.get("text") or block.get("thinking")
    if kind is None and not text:
        return as_json(block)
    return str(text or f"[{kind}]")


def _preview(text: str) -> str:
    return one_line(text, 160)


def validate_command(
    file: SessionArgument,
    *,
    provider: str = "anthropic",
    model: RulesModel = None,
    conversation: WhichConversation = 0,
    warnings: bool = False,
    json: Json = False,
) -> int:
    """Check a log against the rules of a provider's API, and show what `ullage resume` would repair.

    Exit code 1: the provider would refuse it without repair.

    Args:
        provider: provider whose rules apply: anthropic, openai_chat, openai_responses, gemini, bedrock or mistral
        warnings: also show warnings: what only costs money, or is refused elsewhere
    """
    out = Output(as_json=json)
    opened = open_session(file, number=conversation)
    checked = opened.check(provider=provider, model=model)
    sent = opened.request(provider=provider, model=model)
    shown = checked.violations if warnings else checked.errors
    report = {
        "file": file_name(file),
        "provider": sent.provider,
        "ok": checked.ok,
        "violations": [row._asdict() for row in shown],
        "repairs": [row._asdict() for row in sent.repairs],
        "left": [row._asdict() for row in sent.left],
        "warnings": len(checked.warnings),
    }
    if json:
        out.json(report)
    else:
        _show_check(out, report, [describe(row) for row in shown], notes_of(sent))
    return 0 if checked.ok else 1


def _show_check(out: Output, report: dict[str, Any], lines: list[str], notes: list[str]) -> None:
    out.file_heading(report["file"], f"  (rules of {report['provider']})")
    for line in lines:
        out.text(line)
    verdict = "legal"
    if not report["ok"]:
        errors = sum(row["severity"] == "error" for row in report["violations"])
        repaired = "partly repaired" if report["left"] else "repaired"
        verdict = (
            f"{counted(errors, 'error')}: the provider would refuse this request without repair; "
            f"`ullage resume` prints it {repaired}"
        )
    out.line(f"{verdict}, {counted(report['warnings'], 'warning')}")
    for note in notes:
        out.line(f"- {note}")

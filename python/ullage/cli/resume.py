"""`ullage resume`: exactly what the model would be sent."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

from ullage.cli.output import Output
from ullage.sessions import open_session

__all__ = ["resume_command"]

_PREVIEW_CHARS = 160


def resume_command(
    file: Annotated[Path, Parameter(help="a transcript of any known format")],
    *,
    conversation: Annotated[
        int, Parameter(help="which one, from 0, where a file holds several")
    ] = 0,
    json: Annotated[bool, Parameter(negative="", help="the messages, as one JSON array")] = False,
    lines: Annotated[
        bool, Parameter(negative="", help="the messages, one JSON object a line")
    ] = False,
) -> int:
    """Print exactly what the model would be sent: a list to read, or with --json the bytes themselves."""
    out = Output(as_json=json or lines)
    opened = open_session(file, number=conversation)
    for warning in opened.warnings:
        out.note(f"note: {warning}")
    if json:
        sys.stdout.write(dump(opened.messages) + "\n")
    elif lines:
        sys.stdout.writelines(dump(message) + "\n" for message in opened.messages)
    else:
        _show(out, opened.messages)
    return 0


def dump(value: Any) -> str:
    """Compact JSON; what orjson refuses (lone surrogates, large numbers) the standard library writes."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return json_module.dumps(value, separators=(",", ":"))


def _show(out: Output, messages: list[dict[str, Any]]) -> None:
    rows = (
        (f"{index:,}", message["role"], kind, text)
        for index, message in enumerate(messages)
        for kind, text in _blocks(message["content"])
    )
    out.table(("#", "role", "block", "begins"), rows, right=(0,))


def _blocks(content: Any) -> list[tuple[str, str]]:
    if isinstance(content, str):
        return [("text", _preview(content))]
    return [(str(block.get("type")), _preview(_text(block))) for block in content]


def _text(block: dict[str, Any]) -> str:
    kind = block.get("type")
    if kind == "tool_use":
        return f"{block.get('name')} {dump(block.get('input'))}"
    if kind == "tool_result":
        content = block.get("content")
        return (
            content if isinstance(content, str) else " ".join(_text(each) for each in content or ())
        )
    return str(block.get("text") or block.get("thinking") or f"[{kind}]")


def _preview(text: str) -> str:
    line = " ".join(text[: _PREVIEW_CHARS * 2].split())
    return line if len(line) <= _PREVIEW_CHARS else line[: _PREVIEW_CHARS - 1] + "…"

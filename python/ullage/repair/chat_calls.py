"""Repairs of the chat form: ids of calls, and answers behind them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from ullage.repair.lines import Line, Lines, as_text
from ullage.repair.pairs import synthetic_id
from ullage.repair.texts import INTERRUPTED, ORPHANS

__all__ = ["calls_of", "name_calls", "pair"]

USER, ASSISTANT, TOOL = "user", "assistant", "tool"
MAX_ID_CHARS = 40
MISTRAL_ID_CHARS = 9


def name_calls(work: Lines, dialect: str) -> None:
    """Gives every call an id of its own that the provider takes; its answer follows."""
    used: set[str] = set()
    waiting: dict[str, list[tuple[Line, str]]] = {}
    times: dict[str, int] = {}
    for line in work.lines:
        if line.get("role") == TOOL:
            name = _answered(waiting.get(str(line.get("tool_call_id"))))
            if name is not None and name != line.get("tool_call_id"):
                line.put(tool_call_id=name)
            continue
        calls = line.get("tool_calls")
        if line.get("role") == ASSISTANT and isinstance(calls, list | tuple):
            made = [_named(work, line, call, used, waiting, times, dialect) for call in calls]
            if any(a is not b for a, b in zip(made, calls, strict=True)):
                line.put(tool_calls=made)


def _answered(waiting: list[tuple[Line, str]] | None) -> str | None:
    """The newest message's first open call."""
    if not waiting:
        return None
    newest = waiting[-1][0]
    found = next(each for each in waiting if each[0] is newest)
    waiting.remove(found)
    return found[1]


def _named(
    work: Lines,
    line: Line,
    call: Any,
    used: set[str],
    waiting: dict[str, list[tuple[Line, str]]],
    times: dict[str, int],
    dialect: str,
) -> Any:
    given = call.get("id")
    name = given
    if not _valid(given, dialect) or given in used:
        key = str(given)
        while not _valid(name, dialect) or name in used:
            times[key] = times.get(key, 0) + 1
            name = _fresh(given, times[key], dialect)
        work.note(
            "M03" if dialect == "mistral" else "O05",
            line,
            "gave a tool call another id",
            ids=(given, name),
        )
    used.add(name)
    waiting.setdefault(str(given), []).append((line, name))
    return call if name == given else {**call, "id": name}


def _valid(name: Any, dialect: str) -> bool:
    if not isinstance(name, str) or not name:
        return False
    if dialect == "mistral":
        return len(name) == MISTRAL_ID_CHARS and name.isascii() and name.isalnum()
    return len(name) <= MAX_ID_CHARS


def _fresh(given: Any, time: int, dialect: str) -> str:
    if dialect != "mistral":
        return synthetic_id(given, time)[-MAX_ID_CHARS:]
    raw = f"{given}#{time}".encode(errors="surrogatepass")
    return hashlib.sha256(raw).hexdigest()[:MISTRAL_ID_CHARS]


def pair(work: Lines, orphans: str) -> None:
    """Puts every tool message behind its call, and answers calls that have none."""
    answers = _match(work)
    made: list[Line] = []
    position = {id(line): at for at, line in enumerate(work.lines)}
    placed = {id(line) for found in answers.values() for line in found.values()}
    for line in work.lines:
        role = line.get("role")
        if role == "function" and not _after_function_call(made):
            made += _orphan(work, line, orphans, made)
        elif role != TOOL:
            made.append(line)
            made += _group(work, line, answers.get(id(line), {}), position)
        elif id(line) not in placed:
            made += _orphan(work, line, orphans, made)
    work.lines = made


def calls_of(line: Line) -> list[Any]:
    """An assistant message's tool calls; none for other messages."""
    calls = line.get("tool_calls") if line.get("role") == ASSISTANT else None
    return (
        [call for call in calls if isinstance(call, Mapping)]
        if isinstance(calls, list | tuple)
        else []
    )


def _match(work: Lines) -> dict[int, dict[str, Line]]:
    """For each assistant message its answers by call id; an answer goes to the newest open call."""
    answers: dict[int, dict[str, Line]] = {}
    owner: dict[str, Line] = {}
    for line in work.lines:
        for call in calls_of(line):
            owner[str(call.get("id"))] = line
        if line.get("role") == TOOL:
            name = str(line.get("tool_call_id"))
            if name in owner:
                answers.setdefault(id(owner.pop(name)), {})[name] = line
    return answers


def _group(
    work: Lines, line: Line, found: dict[str, Line], position: Mapping[int, int]
) -> list[Line]:
    made = list(found.values())
    at = position[id(line)]
    if made and work.lines[at + 1 : at + 1 + len(made)] != made:
        work.note("O01", line, "moved tool messages behind their calls", ids=found)
    for call in calls_of(line):
        name = str(call.get("id"))
        if name not in found:
            work.note("O01", line, "answered an interrupted tool call", ids=(name,))
            value = {"role": TOOL, "tool_call_id": call.get("id"), "content": INTERRUPTED}
            made.append(Line(value, line.origin))
    return made


def _after_function_call(made: Sequence[Line]) -> bool:
    before = next((line for line in reversed(made) if line.get("role") == ASSISTANT), None)
    return before is not None and before.get("function_call") is not None


def _orphan(work: Lines, line: Line, policy: str, made: Sequence[Line]) -> list[Line]:
    ids = (line.get("tool_call_id"),)
    work.note("O02", line, f"tool message without its call: {policy}", ids=ids)
    if policy == "drop":
        return []
    text = as_text(line.get("content")).strip() if policy == "text" else ""
    value = {"role": USER, "content": f"{ORPHANS}\n{text}" if text else ORPHANS}
    if made and made[-1].value == value:  # one line says it for all
        return []
    return [Line(value, line.origin)]

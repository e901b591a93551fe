"""Repairs of the chat form: ids of calls, and the results after them."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from ullage.legality.repairs.chat_draft import ChatLine, Lines, as_text
from ullage.legality.repairs.pairs import synthetic_id
from ullage.legality.repairs.texts import DISPLACED, INTERRUPTED, ORPHANS
from ullage.providers.registry import ChatRules

__all__ = ["calls_of", "name_calls", "pair"]

USER, ASSISTANT, TOOL = "user", "assistant", "tool"


def name_calls(work: Lines, rules: ChatRules) -> None:
    """Gives every call an id of its own that the provider takes; its answer follows."""
    used: set[str] = set()
    waiting: dict[str, _Waiting] = {}
    times: dict[str, int] = {}
    for line in work.lines:
        if line.get("role") == TOOL:
            name = _answered(waiting.get(str(line.get("tool_call_id"))))
            if name is not None and name != line.get("tool_call_id"):
                line.put(tool_call_id=name)
            continue
        calls = line.get("tool_calls")
        if line.get("role") == ASSISTANT and isinstance(calls, list | tuple):
            made = [_named(work, line, call, used, waiting, times, rules) for call in calls]
            if any(a is not b for a, b in zip(made, calls, strict=True)):
                line.put(tool_calls=made)


# New ids of calls that had the same one, by message: the newest message's first is answered next.
_Waiting = list[tuple[ChatLine, deque[str]]]


def _answered(waiting: _Waiting | None) -> str | None:
    """The newest message's first open call."""
    if not waiting:
        return None
    names = waiting[-1][1]
    name = names.popleft()
    if not names:
        waiting.pop()
    return name


def _named(
    work: Lines,
    line: ChatLine,
    call: Any,
    used: set[str],
    waiting: dict[str, _Waiting],
    times: dict[str, int],
    rules: ChatRules,
) -> Any:
    given = call.get("id")
    name = given
    if not _valid(given, rules) or given in used:
        key = str(given)
        while not _valid(name, rules) or name in used:
            times[key] = times.get(key, 0) + 1
            name = _fresh(given, times[key], rules)
        work.note(
            rules.id_rule,
            line,
            "gave a tool call another id",
            ids=(given, name),
        )
    used.add(name)
    open_calls = waiting.setdefault(str(given), [])
    if not open_calls or open_calls[-1][0] is not line:
        open_calls.append((line, deque()))
    open_calls[-1][1].append(name)
    return call if name == given else {**call, "id": name}


def _valid(name: Any, rules: ChatRules) -> bool:
    if not isinstance(name, str) or not name:
        return False
    if rules.exact_ids:
        return len(name) == rules.max_id_chars and name.isascii() and name.isalnum()
    return len(name) <= rules.max_id_chars


def _fresh(given: Any, time: int, rules: ChatRules) -> str:
    if not rules.exact_ids:
        return synthetic_id(given, time)[-rules.max_id_chars :]
    raw = f"{given}#{time}".encode(errors="surrogatepass")
    return hashlib.sha256(raw).hexdigest()[: rules.max_id_chars]


def pair(work: Lines, orphans: str) -> None:
    """Put every tool message after its call, and answer calls that have none."""
    answers = _match(work)
    made: list[ChatLine] = []
    position = {id(line): at for at, line in enumerate(work.lines)}
    placed = {id(line): name for found in answers.values() for name, line in found.items()}
    said = {name: line for found in answers.values() for name, line in found.items()}
    legacy = waits = False
    for line in work.lines:
        role = line.get("role")
        if role == ASSISTANT:
            legacy = line.get("function_call") is not None
        if role == "function" and not legacy:
            made += _orphan(work, line, orphans, made)
        elif role != TOOL:
            made.append(line)
            found = answers.get(id(line), {})
            waits = any(str(call.get("id")) not in found for call in calls_of(line))
            made += _group(work, line, found, position)
        elif id(line) not in placed:
            made += _stray(work, line, orphans, made, said, waits=waits)
    work.lines = made


def _stray(
    work: Lines,
    line: ChatLine,
    policy: str,
    made: Sequence[ChatLine],
    said: Mapping[str, ChatLine],
    *,
    waits: bool,
) -> list[ChatLine]:
    """A tool message that answers no call; where one waits, or another stands in its place, its text stays."""
    first = said.get(str(line.get("tool_call_id")))
    if first is None:
        return _orphan(work, line, "text" if waits and policy == "note" else policy, made)
    work.note("O01", line, "further results of one call", ids=(line.get("tool_call_id"),))
    text = as_text(line.get("content")).strip()
    if policy == "drop" or not text or text == as_text(first.get("content")).strip():
        return []
    return [ChatLine({"role": USER, "content": f"{DISPLACED}\n{text}"}, line.origin)]


def calls_of(line: ChatLine) -> list[Any]:
    """An assistant message's tool calls; none for other messages."""
    calls = line.get("tool_calls") if line.get("role") == ASSISTANT else None
    return (
        [call for call in calls if isinstance(call, Mapping)]
        if isinstance(calls, list | tuple)
        else []
    )


def _match(work: Lines) -> dict[int, dict[str, ChatLine]]:
    """For each assistant message its answers by call id; an answer goes to the newest open call."""
    answers: dict[int, dict[str, ChatLine]] = {}
    owner: dict[str, ChatLine] = {}
    early: dict[str, ChatLine] = {}
    known: set[str] = set()
    for line in work.lines:
        for call in calls_of(line):
            owner[str(call.get("id"))] = line
            known.add(str(call.get("id")))
        if line.get("role") == TOOL:
            name = str(line.get("tool_call_id"))
            if name in owner:
                answers.setdefault(id(owner.pop(name)), {})[name] = line
            elif name not in known:
                early.setdefault(name, line)
    for name in [name for name in owner if name in early]:  # it stands before its call
        answers.setdefault(id(owner[name]), {})[name] = early[name]
    return answers


def _group(
    work: Lines, line: ChatLine, found: dict[str, ChatLine], position: Mapping[int, int]
) -> list[ChatLine]:
    made = list(found.values())
    at = position[id(line)]
    if made and work.lines[at + 1 : at + 1 + len(made)] != made:
        work.note("O01", line, "moved tool messages after their calls", ids=found)
    for call in calls_of(line):
        name = str(call.get("id"))
        if name not in found:
            work.note("O01", line, "answered an interrupted tool call", ids=(name,))
            value = {"role": TOOL, "tool_call_id": call.get("id"), "content": INTERRUPTED}
            made.append(ChatLine(value, line.origin))
    return made


def _orphan(work: Lines, line: ChatLine, policy: str, made: Sequence[ChatLine]) -> list[ChatLine]:
    ids = (line.get("tool_call_id"),)
    work.note("O02", line, f"tool message without its call: {policy}", ids=ids)
    if policy == "drop":
        return []
    text = as_text(line.get("content")).strip() if policy == "text" else ""
    value = {"role": USER, "content": f"{ORPHANS}\n{text}" if text else ORPHANS}
    if made and made[-1].value == value:  # one line says it for all
        return []
    return [ChatLine(value, line.origin)]

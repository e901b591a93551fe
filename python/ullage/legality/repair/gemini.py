"""Repairs for Gemini: over contents."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ullage.legality.gemini import (
    DUMMY_SIGNATURES,
    data_of,
    named,
    part_kind,
    parts_of,
    role_of,
    signatures_needed,
    turn_start,
)
from ullage.legality.repair.block_forms import dumps
from ullage.legality.repair.chat_draft import Line, Lines
from ullage.legality.repair.loop import mend, steps
from ullage.legality.repair.repair_request import RepairRequest
from ullage.legality.repair.result import Repaired
from ullage.legality.repair.texts import EARLIER, INTERRUPTED, NO_MESSAGES, ORPHANS

__all__ = ["repair"]

USER, MODEL = "user", "model"
_ROLES = {"assistant": MODEL, "ai": MODEL, "bot": MODEL}


def repair(contents: Sequence[Any], request: RepairRequest) -> Repaired:
    """Repairs contents."""
    report = request.report(contents)
    if report.ok:
        return Repaired(contents)
    known = _known(request.original)
    plan = steps(
        ("G01 G03 G05", _readable),
        ("G02 G03 G06", lambda w: _pair(w, request.orphans)),
        ("G01 G02 G03 G06", _alternate),
        ("G04 G07", lambda w: _sign(w, known, needed=signatures_needed(request.model))),
        ("G01", _no_contents),
    )
    return mend(contents, work=Lines(contents), plan=plan, check=request.report, report=report)


def _known(original: Any) -> list[Any] | None:
    if original is None:
        return None
    given = original.get("contents", ()) if isinstance(original, Mapping) else original
    return [part for content in given for part in parts_of(content)]


def _readable(work: Lines) -> None:
    kept = []
    for line in work.lines:
        if isinstance(line.value, str) and line.value.strip():
            work.note("G01", line, "made a string a user content")
            line.value = {"role": USER, "parts": [{"text": line.value}]}
        if not isinstance(line.value, Mapping):
            work.note("G01", line, "dropped what is no content")
            continue
        if role_of(line.value) not in (USER, MODEL):
            role = _ROLES.get(role_of(line.value), USER)
            work.note("G01", line, f"read the role as {role}")
            line.put(role=role)
        _parts(work, line)
        if parts_of(line.value):
            kept.append(line)
        else:
            work.note("G05", line, "dropped a content without parts")
    work.lines = kept
    work.make_plain("G01")


def _parts(work: Lines, line: Line) -> None:
    given = line.get("parts")
    listed = given if isinstance(given, list | tuple) else [given] if given else []
    parts = [made for part in listed if (made := _part(part, role_of(line.value))) is not None]
    if (
        not isinstance(given, list | tuple)
        or len(parts) != len(listed)
        or any(a is not b for a, b in zip(parts, listed, strict=True))
    ):
        work.note("G05", line, "put the parts in order")
        line.put(parts=parts)


def _part(part: Any, role: str) -> Any:
    """The part, or what may stand in its place; `None`: nothing."""
    several = data_of(part)
    if len(several) > 1:
        kept = next((name for name in several if name.startswith("function")), several[0])
        part = {key: part[key] for key in part if key == kept or key not in several}
    kind = part_kind(part)
    if kind == "functionCall" and (role == USER or not named(part[kind])):
        return {"text": f"[function call] {dumps(part[kind])}"}
    if kind == "functionResponse" and role == MODEL:
        return {"text": f"[function response] {dumps(part[kind])}"}
    if kind:
        return part
    return {"text": part} if isinstance(part, str) and part else None


def _calls(value: Any, kind: str) -> list[Any]:
    return [part for part in parts_of(value) if part_kind(part) == kind]


def _name(part: Any, kind: str) -> tuple[str, str]:
    body = part[kind]
    if not isinstance(body, Mapping):
        return "", ""
    return str(body.get("name", "")), str(body.get("id") or "")


def _pair(work: Lines, orphans: str) -> None:
    """Gives every model content with calls one user content that answers just these."""
    made: list[Line] = []
    waiting: list[Any] = []  # answers still to be found for the calls before
    _join(work, (MODEL,))  # answered together
    for line in work.lines:
        if role_of(line.value) == MODEL:
            waiting = _calls(line.value, "functionCall")
            made.append(line)
            continue
        if waiting or _calls(line.value, "functionResponse"):
            line = _settled(work, line, waiting, orphans)
            waiting = []
        made.append(line)
    if waiting:
        made.append(_answers(work, made[-1], waiting, []))
    work.lines = made


def _join(work: Lines, roles: Collection[str]) -> None:
    """Makes neighbours of one of these roles one content."""
    made: list[Line] = []
    parts: list[Any] = []  # of the newest of these, while others join it
    for line in work.lines:
        role = role_of(line.value)
        if made and role in roles and role_of(made[-1].value) == role:
            work.note("G01", line, "joined two contents of one role")
            parts = parts or list(parts_of(made[-1].value))
            parts += parts_of(line.value)
            continue
        if parts:
            made[-1].put(parts=parts)
            parts = []
        made.append(line)
    if parts:
        made[-1].put(parts=parts)
    work.lines = made


def _settled(work: Lines, line: Line, calls: list[Any], orphans: str) -> Line:
    """The user content with exactly the responses that its calls ask for, first and in order."""
    given: dict[tuple[str, str], deque[Any]] = {}
    for each in _calls(line.value, "functionResponse"):
        given.setdefault(_name(each, "functionResponse"), deque()).append(each)
    rest = [part for part in parts_of(line.value) if part_kind(part) != "functionResponse"]
    answers, waits = [], False
    for call in calls:
        name = _name(call, "functionCall")
        if given.get(name):
            answers.append(given[name].popleft())
            continue
        work.note("G03", line, "answered an interrupted function call", ids=(name[0],))
        answers.append(_interrupted(name))
        waits = True
    if stray := [each for found in given.values() for each in found]:
        # Where a call waits for its response, a stray one may be it: what it says stays.
        kept = "text" if waits and orphans == "note" else orphans
        work.note("G03", line, f"function responses without their calls: {kept}")
        rest = [*rest, *_told(stray, kept)]
    parts, old = [*answers, *rest], parts_of(line.value)
    if len(parts) != len(old) or any(a is not b for a, b in zip(parts, old, strict=True)):
        work.note("G03", line, "put function responses in the order of their calls")
        line.put(parts=parts, role=USER)
    return line


def _told(given: Sequence[Any], policy: str) -> list[Any]:
    if policy == "drop":
        return []
    texts = [dumps(part["functionResponse"]) for part in given] if policy == "text" else []
    return [{"text": "\n".join([ORPHANS, *texts])}]


def _answers(work: Lines, before: Line, calls: Sequence[Any], rest: list[Any]) -> Line:
    work.note("G03", before, "answered interrupted function calls")
    parts = [_interrupted(_name(call, "functionCall")) for call in calls]
    return Line({"role": USER, "parts": [*parts, *rest]}, before.origin)


def _interrupted(name: tuple[str, str]) -> dict[str, Any]:
    body: dict[str, Any] = {"name": name[0], "response": {"error": INTERRUPTED}}
    return {"functionResponse": {"id": name[1], **body} if name[1] else body}


def _alternate(work: Lines) -> None:
    work.lines = [line for line in work.lines if parts_of(line.value)]
    first = work.lines[0] if work.lines else None
    if first is not None and role_of(first.value) == MODEL:
        work.note("G01", first, "put a line before the first model content")
        work.lines.insert(0, Line({"role": USER, "parts": [{"text": EARLIER}]}, first.origin))
    _join(work, (USER, MODEL))


def _sign(work: Lines, known: list[Any] | None, *, needed: bool) -> None:
    """Puts signatures back as they came; where they are lost, the documented dummy or none."""
    start = turn_start(work.build())
    for index, line in enumerate(work.lines):
        model = role_of(line.value) == MODEL
        parts = [_signed(part, known) for part in parts_of(line.value)]
        if model and needed and index >= start:
            first = next(
                (at for at, part in enumerate(parts) if part_kind(part) == "functionCall"), None
            )
            if first is not None and not isinstance(parts[first].get("thoughtSignature"), str):
                parts[first] = {**parts[first], "thoughtSignature": DUMMY_SIGNATURES[0]}
        if any(a is not b for a, b in zip(parts, parts_of(line.value), strict=True)):
            work.note("G04", line, "mended thought signatures")
            line.put(parts=parts)


def _signed(part: Any, known: list[Any] | None) -> Any:
    if known is None or not isinstance(part, Mapping):
        return part
    signature = part.get("thoughtSignature")
    if signature in DUMMY_SIGNATURES or (signature is not None and part in known):
        return part
    bare = {key: value for key, value in part.items() if key != "thoughtSignature"}
    same = (each for each in known if isinstance(each, Mapping) and "thoughtSignature" in each)
    was = next(
        (e for e in same if {k: v for k, v in e.items() if k != "thoughtSignature"} == bare), None
    )
    if part_kind(part) == "functionCall" and was is not None:
        return was
    return part if signature is None else bare


def _no_contents(work: Lines) -> None:
    if not work.lines:
        work.note("G01", None, "added a content that says there is none")
        work.lines.append(Line({"role": USER, "parts": [{"text": NO_MESSAGES}]}, -1))

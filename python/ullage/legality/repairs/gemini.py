"""Repairs for Gemini: over contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from ullage.legality.repairs.block_forms import dumps
from ullage.legality.repairs.chat_draft import ChatLine, Lines
from ullage.legality.repairs.loop import mend, steps
from ullage.legality.repairs.repair_request import RepairRequest
from ullage.legality.repairs.result import Repaired
from ullage.legality.repairs.texts import NO_MESSAGES
from ullage.legality.repairs.through_internal import (
    Placed,
    in_call_order,
    in_turn,
    pair,
    pairs,
    with_given,
)
from ullage.providers.gemini import from_provider, to_provider

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
        ("G01 G02 G03 G06", lambda w: _paired(w, request)),
        ("G04 G07", lambda w: _sign(w, known, needed=signatures_needed(request.model))),
        ("G01", _no_contents),
    )
    done = mend(contents, work=Lines(contents), plan=plan, check=request.report, report=report)
    return with_given(done, contents)


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
            work.note("G01", line, "dropped an item that is not a content")
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


def _parts(work: Lines, line: ChatLine) -> None:
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
    if kind == "functionResponse" and (role == MODEL or not isinstance(part[kind], Mapping)):
        return {"text": f"[function response] {dumps(part[kind])}"}
    if kind:
        return part
    return {"text": part} if isinstance(part, str) and part else None


def _paired(work: Lines, request: RepairRequest) -> None:
    """Roles in turn, each call answered right after it and in order: on the internal view, like every form."""
    work.lines = [line for line in work.lines if parts_of(line.value)]
    _join(work)
    placed, repairs = pair(
        [Placed(line.value, line.origin) for line in work.lines],
        rules={"A29": "G01", "": "G03"},
        # As a whole: an answer without an id belongs to the calls just before it.
        read=lambda contents: from_provider(contents).messages,
        steps=(pairs(request.orphans), in_turn, in_call_order),
        write=lambda messages: to_provider(messages, signatures=False).parts["contents"],
    )
    work.repairs += repairs
    work.lines = [ChatLine(each.item, each.origin) for each in placed]


def _join(work: Lines) -> None:
    """Makes neighbours of one role one content."""
    made: list[ChatLine] = []
    parts: list[Any] = []  # of the newest of these, while others join it
    for line in work.lines:
        role = role_of(line.value)
        if made and role_of(made[-1].value) == role:
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
            work.note("G04", line, "repaired thought signatures")
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
        work.lines.append(ChatLine({"role": USER, "parts": [{"text": NO_MESSAGES}]}, -1))

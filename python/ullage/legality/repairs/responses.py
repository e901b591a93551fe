"""Repairs for OpenAI's Responses API: over input items."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ullage.legality.repairs.chat_draft import ChatLine, Lines, as_text
from ullage.legality.repairs.loop import mend, steps
from ullage.legality.repairs.pairs import synthetic_id
from ullage.legality.repairs.repair_request import RepairRequest
from ullage.legality.repairs.result import Repaired
from ullage.legality.repairs.texts import DISPLACED, INTERRUPTED, ORPHANS
from ullage.legality.responses import CALLS, kind_of, known_items, made_by_model, name_of, output_of

__all__ = ["repair"]

# Calls whose output is a plain string: only these can be answered in the tool's place.
ANSWERED = ("function_call", "custom_tool_call")


def repair(items: Sequence[Any], request: RepairRequest) -> Repaired:
    """Repairs input items."""
    original, params, orphans = request.original, request.params, request.orphans
    report = request.report(items)
    if report.ok:
        return Repaired(items)
    known = () if original is None else known_items(original)
    chained = bool(params.get("previous_response_id"))
    plan = steps(
        ("R01", _readable),
        ("R04", lambda w: _compaction(w, known if original is not None else None)),
        ("R06", _ids),
        ("R03", lambda w: _unsealed(w, params)),
        ("R01", lambda w: _pair(w, orphans, chained)),
        ("R02", lambda w: _reasoning(w, known)),
    )
    return mend(items, work=Lines(items), plan=plan, check=request.report, report=report)


def _kind(line: ChatLine) -> str:
    return kind_of(line.value)


def _readable(work: Lines) -> None:
    kept = []
    for line in work.lines:
        if isinstance(line.value, str) and line.value.strip():
            work.note("R01", line, "made a string a user message")
            line.value = {"role": "user", "content": line.value}
        elif not _kind(line) and as_text(line.get("content")).strip():
            work.note("R01", line, "made it a user message: it has no role")
            line.put(role="user")
        if _kind(line):
            kept.append(line)
        else:
            work.note("R01", line, "dropped a value that is not an input item")
    work.lines = kept
    work.make_plain("R01")


def _compaction(work: Lines, known: Sequence[Any] | None) -> None:
    exact = {name_of(item): item for item in known or () if _type(item) == "compaction"}
    kept = []
    for line in work.lines:
        good = _kind(line) != "compaction" or (
            isinstance(line.get("encrypted_content"), str)
            and (known is None or line.value in list(exact.values()))
        )
        if not good and name_of(line.value) in exact:
            work.note("R04", line, "put the compaction item back as it came")
            line.value, good = exact[name_of(line.value)], True
        if good:
            kept.append(line)
        else:
            work.note("R04", line, "dropped a compaction item that is not as it came")
    work.lines = kept


def _type(item: Any) -> Any:
    return item.get("type") if isinstance(item, Mapping) else None


def _ids(work: Lines) -> None:
    seen: dict[str, Any] = {}
    kept = []
    for line in work.lines:
        name = line.get("id")
        if isinstance(name, str) and name in seen:
            if seen[name] == line.value:
                work.note("R06", line, "dropped an item that is there twice", ids=(name,))
                continue
            work.note("R06", line, "removed an item id that is there twice", ids=(name,))
            line.drop("id")
        elif isinstance(name, str) and name:
            seen[name] = line.value
        kept.append(line)
    work.lines = kept


def _unsealed(work: Lines, params: Mapping[str, Any]) -> None:
    if params.get("store") is not False:
        return
    gone = [
        line
        for line in work.lines
        if _kind(line) == "reasoning" and not isinstance(line.get("encrypted_content"), str)
    ]
    _drop_reasoning(work, gone, "R03")


def _drop_reasoning(work: Lines, gone: Sequence[ChatLine], rule: str) -> None:
    """Drops reasoning items; what follows one loses its id, which is what the server links by."""
    if not gone:
        return
    out = {id(line) for line in gone}
    for before, after in zip(work.lines, work.lines[1:], strict=False):
        if id(before) in out and after.get("id") is not None and _model_item(after):
            after.drop("id")
    for line in gone:
        work.note(rule, line, "dropped a reasoning item", ids=(name_of(line.value),))
    work.lines = [line for line in work.lines if id(line) not in out]


def _model_item(line: ChatLine) -> bool:
    return made_by_model(_kind(line), line.value)


def _pair(work: Lines, orphans: str, chained: bool) -> None:
    outputs = _match(work)
    claimed = {id(line) for line in outputs.values()}
    said = {_key(output_of(_kind(line)), line): line for line in outputs.values()}
    made: list[ChatLine] = []
    later: set[int] = set()
    waits = False
    for line in work.lines:
        if output_of(_kind(line)):
            if id(line) not in claimed and not _foreign_output(line, chained):
                made += _stray(work, line, orphans, made, said, waits=waits)
            elif id(line) not in claimed or id(line) not in later:
                made.append(line)
            continue
        made.append(line)
        if _kind(line) in CALLS:
            waits = id(line) not in outputs
            made += _answer(work, line, outputs, later)
    work.lines = [line for line in made if line.value is not None]


def _stray(
    work: Lines,
    line: ChatLine,
    policy: str,
    made: Sequence[ChatLine],
    said: Mapping[tuple[str, str], ChatLine],
    *,
    waits: bool,
) -> list[ChatLine]:
    """An output that answers no call; where one waits, or another stands in its place, its text stays."""
    first = said.get(_key(output_of(_kind(line)), line))
    if first is None:
        return _orphan(work, line, "text" if waits and policy == "note" else policy, made)
    work.note("R01", line, "further outputs of one call", ids=(line.get("call_id"),))
    text = as_text(line.get("output")).strip()
    if policy == "drop" or not text or text == as_text(first.get("output")).strip():
        return []
    return [ChatLine({"role": "user", "content": f"{DISPLACED}\n{text}"}, line.origin)]


def _foreign_output(line: ChatLine, chained: bool) -> bool:
    """An output whose call lies on the server."""
    return chained and isinstance(line.get("call_id"), str)


def _key(kind: str, line: ChatLine) -> tuple[str, str]:
    return kind, str(line.get("call_id"))


def _match(work: Lines) -> dict[int, ChatLine]:
    """Each call, by object, with its output: one after it if there is one, else one before it; of calls with one id the newest turn's first is answered next."""
    calls: dict[tuple[str, str], list[tuple[int, ChatLine]]] = {}  # open ones, with their turn
    found: dict[int, ChatLine] = {}
    early: dict[tuple[str, str], ChatLine] = {}
    times: dict[tuple[str, str], int] = {}
    renamed: dict[int, str] = {}
    turn, answered = 0, False
    for line in work.lines:
        kind = _kind(line)
        if kind in CALLS:
            turn, answered = turn + answered, False
            key = _key(kind, line)
            times[key] = times.get(key, 0) + 1
            if times[key] > 1 or not isinstance(line.get("call_id"), str):
                name = synthetic_id(line.get("call_id"), times[key])
                work.note("R01", line, "gave a call another id", ids=(key[1], name))
                renamed[id(line)] = name
                line.put(call_id=name)
            calls.setdefault(key, []).append((turn, line))
        elif output_of(kind):
            key, answered = _key(output_of(kind), line), True
            if calls.get(key):
                call = _next_open(calls[key])
                found[id(call)] = line
                if id(call) in renamed:
                    line.put(call_id=renamed[id(call)])
            elif key not in times:
                early.setdefault(key, line)
    for key, waiting in calls.items():
        if waiting and key in early and times[key] == 1:
            found[id(waiting[0][1])] = early[key]
    return found


def _next_open(waiting: list[tuple[int, ChatLine]]) -> ChatLine:
    """The newest turn's first call, which waits no longer."""
    at = next(at for at, (turn, _) in enumerate(waiting) if turn == waiting[-1][0])
    return waiting.pop(at)[1]


def _answer(
    work: Lines, line: ChatLine, outputs: Mapping[int, ChatLine], later: set[int]
) -> list[ChatLine]:
    found = outputs.get(id(line))
    kind = _kind(line)
    if found is not None:
        if found.origin < line.origin:  # it stood before its call
            work.note("R01", line, "moved an output after its call", ids=(line.get("call_id"),))
            moved = ChatLine(found.value, found.origin)
            found.value = None
            later.add(id(found))
            return [moved]
        return []
    if kind not in ANSWERED:
        work.note("R01", line, "dropped a call without output", ids=(line.get("call_id"),))
        line.value = None
        return []
    work.note("R01", line, "answered an interrupted call", ids=(line.get("call_id"),))
    value = {"type": f"{kind}_output", "call_id": line.get("call_id"), "output": INTERRUPTED}
    return [ChatLine(value, line.origin)]


def _orphan(work: Lines, line: ChatLine, policy: str, made: Sequence[ChatLine]) -> list[ChatLine]:
    work.note("R01", line, f"output without its call: {policy}", ids=(line.get("call_id"),))
    if policy == "drop":
        return []
    text = as_text(line.get("output")).strip() if policy == "text" else ""
    value = {"role": "user", "content": f"{ORPHANS}\n{text}" if text else ORPHANS}
    if made and made[-1].value == value:
        return []
    return [ChatLine(value, line.origin)]


def _reasoning(work: Lines, known: Sequence[Any]) -> None:
    after = {name_of(a): name_of(b) for a, b in itertools.pairwise(known)}
    before = {name_of(b): a for a, b in itertools.pairwise(known) if name_of(b)}
    gone = []
    for line, following in zip(work.lines, [*work.lines[1:], None], strict=True):
        if _kind(line) != "reasoning":
            continue
        name = name_of(line.value)
        lost = following is None or not _model_item(following)
        other = following is not None and name in after and name_of(following.value) != after[name]
        if lost or other:
            gone.append(line)
    _drop_reasoning(work, gone, "R02")
    for previous, line in zip([None, *work.lines], work.lines, strict=False):
        was = before.get(name_of(line.value)) if line.get("id") is not None else None
        if _type(was) != "reasoning" or _kind(line) == "reasoning":
            continue
        if previous is None or name_of(previous.value) != name_of(was):
            work.note("R02", line, "removed the id of an item whose reasoning is missing")
            line.drop("id")

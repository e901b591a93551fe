"""OpenAI's Responses API: the rules R01 to R07, over its input items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ullage._engine.digests import Violation
from ullage.legality.blocks import INTERRUPTED
from ullage.legality.check import RuleRequest, check_unicode
from ullage.legality.draft import Repaired, error_at
from ullage.legality.internal import AnswerForm, ChatLine, Lines, as_text
from ullage.legality.pairs import OpenCalls, synthetic_id
from ullage.legality.repairs import Plan, run_steps

# An output is paired with the type of call that it belongs to: the same `call_id` may stand for one of each type.
CALLS = tuple(
    "function_call custom_tool_call computer_call local_shell_call shell_call apply_patch_call".split()
)
_OUTPUT = "_output"


def check(items: Sequence[Any], request: RuleRequest) -> Iterator[Violation]:
    """Checks input items."""
    params = request.params
    yield from _items(items, params)
    if params.get("previous_response_id") and params.get("conversation"):
        yield error_at("R05", -1, -1, "previous_response_id together with conversation")
    if request.original is not None:
        yield from _originals(items, request.items_before, params)
    yield from check_unicode(items, system=request.system, tools=request.tools)


def shared(messages: Sequence[Any], items: Sequence[Any]) -> Iterator[str | None]:
    """As that of the chat form: ids of items, and of the calls that are items of their own."""
    names: set[str] = set()
    for item in items:
        kind = kind_of(item)
        if isinstance(item.get("id"), str) and item["id"]:
            yield f"id {item['id']}"
        if kind in CALLS:
            names.add(f"{kind} {item.get('call_id')}")
        elif output_of(kind) and f"{output_of(kind)} {item.get('call_id')}" not in names:
            yield ""
    yield from names


def kind_of(item: Any) -> str:
    """An item's type; messages may leave it out."""
    if not isinstance(item, Mapping):
        return ""
    kind = item.get("type")
    if isinstance(kind, str) and kind:
        return kind
    return "message" if isinstance(item.get("role"), str) else ""


def output_of(kind: str) -> str:
    """The call type that an output item answers, or ""."""
    base = kind.removesuffix(_OUTPUT)
    return base if base != kind and base in CALLS else ""


def _items(items: Sequence[Any], params: Mapping[str, Any]) -> Iterator[Violation]:
    """Calls and outputs pair, nothing is there twice, nothing lacks what it needs (R01 to R04, R06)."""
    open_calls: dict[tuple[str, str], int] = {}
    seen: set[tuple[str, str]] = set()
    ids: set[str] = set()
    for index, item in enumerate(items):
        kind = kind_of(item)
        if not kind:
            yield error_at("R01", index, -1, "not an input item")
        elif kind in CALLS:
            key = (kind, str(item.get("call_id")))
            if key in seen:
                yield error_at("R01", index, -1, f"call_id {key[1]} is there twice")
            seen.add(key)
            open_calls[key] = index
        elif output_of(kind):
            key = (output_of(kind), str(item.get("call_id")))
            has_to_pair = key in seen or not params.get("previous_response_id")
            if open_calls.pop(key, None) is None and has_to_pair:
                yield error_at("R01", index, -1, f"{kind} {key[1]} answers no open call before it")
        elif kind == "reasoning":
            if not made_by_model(items[index + 1] if index + 1 < len(items) else None):
                yield error_at("R02", index, -1, "reasoning without the item that follows it")
            if params.get("store") is False and not isinstance(item.get("encrypted_content"), str):
                detail = "reasoning without encrypted_content and nothing stored"
                yield error_at("R03", index, -1, detail)
        elif kind == "compaction" and not isinstance(item.get("encrypted_content"), str):
            yield error_at("R04", index, -1, "compaction item without encrypted_content")
        name = item.get("id") if isinstance(item, Mapping) else None
        if isinstance(name, str) and name:
            if name in ids:
                yield error_at("R06", index, -1, f"item id {name} is there twice")
            ids.add(name)
    for (kind, call_id), index in open_calls.items():
        yield error_at("R01", index, -1, f"{kind} {call_id} has no output")


def made_by_model(item: Any) -> bool:
    """Whether an item comes from the model, so that it can follow reasoning."""
    kind = kind_of(item)
    if kind == "message":
        return bool(item.get("role") == "assistant")
    return kind == "reasoning" or kind.endswith("_call")


def name_of(item: Any) -> str:
    """What identifies an item of the model: its id, else its call_id; "" if it has neither."""
    if not isinstance(item, Mapping) or output_of(kind_of(item)):
        return ""
    return str(item.get("id") or item.get("call_id") or "")


def _neighbours(items: Sequence[Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """By an item's name: the name of the item after it, and the item before it."""
    after = {name_of(a): name_of(b) for a, b in pairwise(items)}
    return after, {name_of(b): a for a, b in pairwise(items) if name_of(b)}


def _originals(
    items: Sequence[Any], items_before: Sequence[Any], params: Mapping[str, Any]
) -> Iterator[Violation]:
    after, before = _neighbours(items_before)
    exact = {name_of(item): item for item in items_before if name_of(item)}
    compacted = [item for item in items_before if kind_of(item) == "compaction"]
    for index, item in enumerate(items):
        kind, name = kind_of(item), name_of(item)
        if kind == "compaction" and item not in compacted:
            yield error_at("R04", index, -1, "compaction item is not as it came")
        if kind == "reasoning" and name in after and index + 1 < len(items):
            if name_of(items[index + 1]) != after[name]:
                yield error_at(
                    "R02", index, -1, "reasoning is followed by another item than it was"
                )
        was = before.get(name) if isinstance(item, Mapping) and item.get("id") else None
        if kind_of(was) == "reasoning" and kind != "reasoning":
            if index == 0 or name_of(items[index - 1]) != name_of(was):
                detail = "item without the reasoning that came before it"
                yield error_at("R02", index, -1, detail)
        if kind == "message" and name in exact and item != exact[name]:
            yield Violation("R07", "warning", index, -1, "assistant message is not as it came")
        if params.get("previous_response_id") and name and item == exact.get(name):
            yield Violation("R05", "warning", index, -1, "item that the server already has")


# Repairs.


# Calls whose output is a plain string: only these can be answered in the tool's place.
ANSWERED = ("function_call", "custom_tool_call")


def repair(items: Sequence[Any], request: RuleRequest) -> Repaired:
    """Repairs input items."""
    items_before = request.items_before
    chained = bool(request.params.get("previous_response_id"))
    plan: Plan = (
        ("R01", _readable),
        ("R04", lambda w: _compaction(w, None if request.original is None else items_before)),
        ("R06", _twice),
        ("R03", _unsealed),
        ("R01", lambda w: _pair(w, request.orphans, chained)),
        ("R02", lambda w: _linked(w, items_before)),
    )
    return run_steps(items, request, Lines, plan)


def _kind(line: ChatLine) -> str:
    return kind_of(line.value)


def _readable(work: Lines) -> None:
    readable = []
    for line in work.lines:
        if isinstance(line.value, str) and line.value.strip():
            work.note("R01", line, "made a string a user message")
            line.value = {"role": "user", "content": line.value}
        elif not _kind(line) and as_text(line.get("content")).strip():
            work.note("R01", line, "made it a user message: it has no role")
            line.put(role="user")
        if _kind(line):
            readable.append(line)
        else:
            work.note("R01", line, "dropped a value that is not an input item")
    work.lines = readable
    work.make_plain("R01")


def _compaction(work: Lines, items_before: Sequence[Any] | None) -> None:
    exact = {name_of(item): item for item in items_before or () if kind_of(item) == "compaction"}
    lines = []
    for line in work.lines:
        good = _kind(line) != "compaction" or (
            isinstance(line.get("encrypted_content"), str)
            and (items_before is None or line.value in exact.values())
        )
        if not good and name_of(line.value) in exact:
            work.note("R04", line, "put the compaction item back as it came")
            line.value, good = exact[name_of(line.value)], True
        if good:
            lines.append(line)
        else:
            work.note("R04", line, "dropped a compaction item that is not as it came")
    work.lines = lines


def _twice(work: Lines) -> None:
    seen: dict[str, Any] = {}
    lines = []
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
        lines.append(line)
    work.lines = lines


def _unsealed(work: Lines) -> None:
    unsealed = [
        line
        for line in work.lines
        if _kind(line) == "reasoning" and not isinstance(line.get("encrypted_content"), str)
    ]
    _drop_reasoning(work, unsealed, "R03")


def _drop_reasoning(work: Lines, dropped: Sequence[ChatLine], rule: str) -> None:
    """Drops reasoning items; what follows one loses its id, which is what the server links by."""
    if not dropped:
        return
    out = {id(line) for line in dropped}
    for before, after in zip(work.lines, work.lines[1:], strict=False):
        if id(before) in out and after.get("id") is not None and made_by_model(after.value):
            after.drop("id")
    for line in dropped:
        work.note(rule, line, "dropped a reasoning item", ids=(name_of(line.value),))
    work.lines = [line for line in work.lines if id(line) not in out]


def _pair(work: Lines, orphans: str, chained: bool) -> None:
    outputs = _match(work)
    claimed = {id(line) for line in outputs.values()}
    by_key = {_key(output_of(_kind(line)), line): line for line in outputs.values()}
    placed: list[ChatLine] = []
    waits = False
    moved: set[int] = set()
    for line in work.lines:
        if kind := output_of(_kind(line)):
            # Of a chain the call may lie on the server.
            if id(line) in claimed or (chained and isinstance(line.get("call_id"), str)):
                if id(line) not in moved:
                    placed.append(line)
            else:
                first = by_key.get(_key(kind, line))
                placed += _ANSWER.stray(work, line, first, placed, orphans, waits=waits)
            continue
        placed.append(line)
        if _kind(line) in CALLS:
            waits = id(line) not in outputs
            placed += _answer(work, line, outputs, moved)
    work.lines = [line for line in placed if line.value is not None]


_ANSWER = AnswerForm(
    call="call_id",
    text="output",
    orphan_rule="R01",
    orphan="output without its call",
    repeated_rule="R01",
    repeated="further outputs of one call",
)


def _key(kind: str, line: ChatLine) -> tuple[str, str]:
    return kind, str(line.get("call_id"))


def _match(work: Lines) -> dict[int, ChatLine]:
    """Each call, by object, with its output: one after it if there is one, else one before it; of calls with one id the newest turn's first is answered next."""
    calls: dict[tuple[str, str], OpenCalls[ChatLine]] = {}
    outputs: dict[int, ChatLine] = {}
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
            calls.setdefault(key, OpenCalls()).add(turn, line)
        elif output_of(kind):
            key, answered = _key(output_of(kind), line), True
            call = calls[key].pop() if key in calls else None
            if call is not None:
                outputs[id(call)] = line
                if id(call) in renamed:
                    line.put(call_id=renamed[id(call)])
            elif key not in times:
                early.setdefault(key, line)
    for key, waiting in calls.items():
        if key in early and times[key] == 1 and (call := waiting.pop()):
            outputs[id(call)] = early[key]
    return outputs


def _answer(
    work: Lines, line: ChatLine, outputs: Mapping[int, ChatLine], later: set[int]
) -> list[ChatLine]:
    output = outputs.get(id(line))
    kind = _kind(line)
    if output is not None:
        if output.origin < line.origin:  # it stood before its call
            work.note("R01", line, "moved an output after its call", ids=(line.get("call_id"),))
            moved = ChatLine(output.value, output.origin)
            output.value = None
            later.add(id(output))
            return [moved]
        return []
    if kind not in ANSWERED:
        work.note("R01", line, "dropped a call without output", ids=(line.get("call_id"),))
        line.value = None
        return []
    work.note("R01", line, "answered an interrupted call", ids=(line.get("call_id"),))
    value = {"type": f"{kind}_output", "call_id": line.get("call_id"), "output": INTERRUPTED}
    return [ChatLine(value, line.origin)]


def _linked(work: Lines, items_before: Sequence[Any]) -> None:
    after, before = _neighbours(items_before)
    dropped = []
    for line, following in zip(work.lines, [*work.lines[1:], None], strict=True):
        if _kind(line) != "reasoning":
            continue
        name = name_of(line.value)
        lost = following is None or not made_by_model(following.value)
        other = following is not None and name in after and name_of(following.value) != after[name]
        if lost or other:
            dropped.append(line)
    _drop_reasoning(work, dropped, "R02")
    for previous, line in zip([None, *work.lines], work.lines, strict=False):
        was = before.get(name_of(line.value)) if line.get("id") is not None else None
        if kind_of(was) != "reasoning" or _kind(line) == "reasoning":
            continue
        if previous is None or name_of(previous.value) != name_of(was):
            work.note("R02", line, "removed the id of an item whose reasoning is missing")
            line.drop("id")

"""Gemini: the rules G01 to G07, over its contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from ullage._engine.digests import Violation
from ullage.legality.blocks import NO_MESSAGES, dumps
from ullage.legality.check import RuleRequest, check_unicode
from ullage.legality.draft import ASSISTANT_NAMES, Repaired, error_at, list_in
from ullage.legality.internal import (
    ChatLine,
    Lines,
    in_call_order,
    in_turn,
    member,
    members,
    pair,
    ranked,
    with_same_objects,
)
from ullage.legality.originals import without
from ullage.legality.pairs import repair_pairs
from ullage.legality.repairs import Plan, run_steps
from ullage.messages import same_items
from ullage.providers.gemini import from_provider, to_provider

# Both are documented for calls that no Gemini model made (docs thought-signatures).
DUMMY_SIGNATURES = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
_DATA = ranked(
    "text inlineData fileData functionCall functionResponse executableCode codeExecutionResult toolCall toolResponse"
)


def check(contents: Sequence[Any], request: RuleRequest) -> Iterator[Violation]:
    """Checks contents; signatures are demanded from Gemini 3 on, and where no model is named."""
    if not contents:
        yield error_at("G01", -1, -1, "there is no content")
    yield from _contents(contents)
    if signatures_needed(request.model):
        yield from _signatures(contents)
    before = _parts_before(request)
    if before is not None:
        yield from _originals(contents, before)
    yield from check_unicode(contents, system=request.system, tools=request.tools)


def shared(messages: Sequence[Any], items: Sequence[Any]) -> tuple[()]:
    """As that of the chat form: nothing but ids of the internal view."""
    return ()


def signatures_needed(model: str | None) -> bool:
    """Gemini 1 and 2 neither make nor demand thought signatures."""
    name = (model or "").lower()
    return not any(old in name for old in ("gemini-1", "gemini-2", "gemini-pro", "gemma"))


# Parts of a content; the data field of a part, "" if it has none; all that are set, where one may be.
parts_of = partial(list_in, key="parts")
part_kind = partial(member, names=_DATA)
data_of = partial(members, names=_DATA)


def named(call: Any) -> bool:
    """Whether a function call names its function."""
    name = call.get("name") if isinstance(call, Mapping) else None
    return isinstance(name, str) and bool(name)


def role_of(content: Any) -> str:
    """`user` or `model`; function turns are the user's."""
    is_mapping = type(content) is dict or isinstance(content, Mapping)
    role = content.get("role") if is_mapping else None
    return "user" if role in ("user", "function", None) else str(role)


def _of(content: Any, kind: str) -> list[Any]:
    return [
        part[kind]
        for part in parts_of(content)
        # Few parts have the key at all.
        if (type(part) is not dict or kind in part) and part_kind(part) == kind
    ]


def _contents(contents: Sequence[Any]) -> Iterator[Violation]:
    """Roles, parts, and calls with the responses to them (G01 to G03, G05, G06)."""
    previous, open_calls = "model", list[Any]()
    for index, content in enumerate(contents):
        role, parts = role_of(content), parts_of(content)
        if role not in ("user", "model"):
            yield error_at("G01", index, -1, "role is not user or model")
        if role == previous:
            detail = "two contents of one role" if index else "the first content is not the user's"
            yield error_at("G01", index, -1, detail)
        if not parts:
            yield error_at("G05", index, -1, "content without parts")
        for position, part in enumerate(parts):
            if not part_kind(part) or (len(part) > 1 and len(data_of(part)) > 1):
                many = " and ".join(data_of(part))
                detail = f"part that is {many}" if many else "part without data"
                yield error_at("G05", index, position, detail)
        calls = _of(content, "functionCall") if role == "model" else []
        if calls and previous != "user":
            detail = "function call does not follow a user or function turn"
            yield error_at("G02", index, -1, detail)
        if not all(named(call) for call in calls):
            yield error_at("G03", index, -1, "function call without a name")
        if calls and index + 1 == len(contents):
            yield error_at("G06", index, -1, "the last content is a function call")
        if problem := _unpaired(open_calls, _of(content, "functionResponse")):
            yield error_at("G03", index, -1, problem)
        previous, open_calls = role, calls


def _unpaired(calls: Sequence[Any], answers: Sequence[Any]) -> str:
    """What is wrong with the responses to the calls just before; "" if nothing is."""
    names = [_name(call) for call in calls]
    answered = [_name(answer) for answer in answers]
    if sorted(names) != sorted(answered):
        return f"{len(calls)} function calls, {len(answers)} responses to them"
    return "" if names == answered else "responses in another order than the calls"


def _name(call: Any) -> tuple[str, str]:
    if not isinstance(call, Mapping):
        return "", ""
    return str(call.get("name", "")), str(call.get("id") or "")


def turn_start(contents: Sequence[Any]) -> int:
    """First content of the current turn: the last user content without any response."""
    for index in range(len(contents) - 1, -1, -1):
        if role_of(contents[index]) == "user" and not _of(contents[index], "functionResponse"):
            return index
    return 0


def _signatures(contents: Sequence[Any]) -> Iterator[Violation]:
    for index in range(turn_start(contents), len(contents)):
        if role_of(contents[index]) != "model":
            continue
        first = _unsigned_call(parts_of(contents[index]))
        if first is not None:
            detail = "function call of the current turn without thoughtSignature"
            yield error_at("G04", index, first, detail)


def _unsigned_call(parts: Sequence[Any]) -> int | None:
    """The first function call, if it has no signature."""
    calls = (at for at, part in enumerate(parts) if part_kind(part) == "functionCall")
    first = next(calls, None)
    if first is None or isinstance(parts[first].get("thoughtSignature"), str):
        return None
    return first


def _parts_before(request: RuleRequest) -> list[Any] | None:
    """All parts of the conversation as the model saw it; `None`: nothing is compared with it."""
    if request.original is None:
        return None
    return [part for content in request.items_before for part in parts_of(content)]


def _originals(contents: Sequence[Any], parts_before: Sequence[Any]) -> Iterator[Violation]:
    start = turn_start(contents)
    for index, content in enumerate(contents):
        for position, part in enumerate(parts_of(content)):
            signature = part.get("thoughtSignature") if isinstance(part, Mapping) else None
            if signature is None or signature in DUMMY_SIGNATURES or part in parts_before:
                continue
            call = part_kind(part) == "functionCall" and index >= start
            rule = "G04" if call else "G07"
            yield error_at(rule, index, position, "signed part is not as it came")


# Repairs.


USER, MODEL = "user", "model"


def repair(contents: Sequence[Any], request: RuleRequest) -> Repaired:
    """Repairs contents."""
    plan: Plan = (
        ("G01 G03 G05", _readable),
        ("G01 G02 G03 G06", lambda w: _paired(w, request)),
        (
            "G04 G07",
            lambda w: _sign(w, _parts_before(request), needed=signatures_needed(request.model)),
        ),
        ("G01", _no_contents),
    )
    return with_same_objects(run_steps(contents, request, Lines, plan), contents)


def _readable(work: Lines) -> None:
    readable = []
    for line in work.lines:
        if isinstance(line.value, str) and line.value.strip():
            work.note("G01", line, "made a string a user content")
            line.value = {"role": USER, "parts": [{"text": line.value}]}
        if not isinstance(line.value, Mapping):
            work.note("G01", line, "dropped an item that is not a content")
            continue
        if role_of(line.value) not in (USER, MODEL):
            role = MODEL if role_of(line.value) in ASSISTANT_NAMES else USER
            work.note("G01", line, f"read the role as {role}")
            line.put(role=role)
        content = line.get("parts")
        values = content if isinstance(content, list | tuple) else [content] if content else []
        parts = [
            part for value in values if (part := _part(value, role_of(line.value))) is not None
        ]
        if not isinstance(content, list | tuple) or not same_items(parts, values):
            work.note("G05", line, "put the parts in order")
            line.put(parts=parts)
        if parts:
            readable.append(line)
        else:
            work.note("G05", line, "dropped a content without parts")
    work.lines = readable
    work.make_plain("G01")


def _part(part: Any, role: str) -> Any:
    """The part, or what may stand in its place; `None`: nothing."""
    several = data_of(part)
    if len(several) > 1:
        main = next((name for name in several if name.startswith("function")), several[0])
        part = {key: part[key] for key in part if key == main or key not in several}
    kind = part_kind(part)
    if kind == "functionCall" and (role == USER or not named(part[kind])):
        return {"text": f"[function call] {dumps(part[kind])}"}
    if kind == "functionResponse" and (role == MODEL or not isinstance(part[kind], Mapping)):
        return {"text": f"[function response] {dumps(part[kind])}"}
    if kind:
        return part
    return {"text": part} if isinstance(part, str) and part else None


def _paired(work: Lines, request: RuleRequest) -> None:
    """Roles in turn, each call answered right after it and in order: on the internal view, like every form."""
    work.lines = [line for line in work.lines if parts_of(line.value)]
    runs = [list(run) for _, run in groupby(work.lines, lambda line: role_of(line.value))]
    for first, *others in runs:
        for line in others:
            work.note("G01", line, "joined two contents of one role")
        if others:
            first.put(parts=[part for line in (first, *others) for part in parts_of(line.value)])
    work.lines = pair(
        work,
        [first for first, *_ in runs],
        ChatLine,
        rules={"A29": "G01", "": "G03"},
        # As a whole: an answer without an id belongs to the calls just before it.
        read=lambda contents: from_provider(contents).messages,
        steps=(
            lambda draft: repair_pairs(draft, orphans=request.orphans),
            in_turn,
            in_call_order,
        ),
        write=lambda messages: to_provider(messages, signatures=False).parts["contents"],
    )


def _sign(work: Lines, parts_before: list[Any] | None, *, needed: bool) -> None:
    """Puts signatures back as they came; where they are lost, the documented dummy or none."""
    start = turn_start(work.build())
    for index, line in enumerate(work.lines):
        model = role_of(line.value) == MODEL
        parts = [_signed(part, parts_before) for part in parts_of(line.value)]
        if model and needed and index >= start:
            first = _unsigned_call(parts)
            if first is not None:
                parts[first] = {**parts[first], "thoughtSignature": DUMMY_SIGNATURES[0]}
        if not same_items(parts, parts_of(line.value)):
            work.note("G04", line, "repaired thought signatures")
            line.put(parts=parts)


def _signed(part: Any, parts_before: list[Any] | None) -> Any:
    if parts_before is None or not isinstance(part, Mapping):
        return part
    signature = part.get("thoughtSignature")
    if signature in DUMMY_SIGNATURES or (signature is not None and part in parts_before):
        return part
    bare = without(part, "thoughtSignature")
    if part_kind(part) == "functionCall":
        for before in parts_before:
            signed = isinstance(before, Mapping) and "thoughtSignature" in before
            if signed and without(before, "thoughtSignature") == bare:
                return before
    return part if signature is None else bare


def _no_contents(work: Lines) -> None:
    if not work.lines:
        work.note("G01", None, "added a content that says there is none")
        work.lines.append(ChatLine({"role": USER, "parts": [{"text": NO_MESSAGES}]}, -1))

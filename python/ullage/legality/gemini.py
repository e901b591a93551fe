"""Gemini: the rules G01 to G07, over its contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ullage.legality.findings import Violation
from ullage.legality.rule_request import RuleRequest
from ullage.legality.unicode import check_unicode

__all__ = [
    "DUMMY_SIGNATURES",
    "check",
    "data_of",
    "named",
    "part_kind",
    "parts_of",
    "role_of",
    "shared",
    "signatures_needed",
    "turn_start",
]

DUMMY_SIGNATURES = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)

_NAMES = frozenset(_DATA)


def check(contents: Sequence[Any], request: RuleRequest) -> Iterator[Violation]:
    """Checks contents; signatures are demanded from Gemini 3 on, and where no model is named."""
    if not contents:
        yield _error("G01", -1, -1, "there is no content")
    for index, item in enumerate(contents):
        yield from _content(index, item)
    yield from _roles(contents)
    yield from _calls(contents)
    if signatures_needed(request.model):
        yield from _signatures(contents)
    if request.original is not None:
        yield from _originals(contents, request.original)
    yield from check_unicode(contents, system=request.system, tools=request.tools)


def shared(messages: Sequence[Any], items: Sequence[Any]) -> tuple[()]:
    """As that of the chat form: nothing but ids of the internal view."""
    return ()


def _error(rule: str, index: int, part: int, detail: str) -> Violation:
    return Violation(rule, "error", index, part, detail)


def signatures_needed(model: str | None) -> bool:
    """Gemini 1 and 2 neither make nor demand thought signatures."""
    name = (model or "").lower()
    return not any(old in name for old in ("gemini-1", "gemini-2", "gemini-pro", "gemma"))


def parts_of(content: Any) -> list[Any]:
    """Parts of a content; empty if it has none."""
    known = type(content) is dict or isinstance(content, Mapping)  # dicts are recognised at once
    parts = content.get("parts") if known else None
    return list(parts) if isinstance(parts, list | tuple) else []


def part_kind(part: Any) -> str:
    """The data field of a part, "" if it has none."""
    found = data_of(part)
    return found[0] if found else ""


def data_of(part: Any) -> list[str]:
    """All data fields that are set; a part may have one."""
    if type(part) is not dict and not isinstance(part, Mapping):
        return []
    found = [name for name in part if name in _NAMES and part[name] is not None]
    return found if len(found) < 2 else sorted(found, key=_DATA.index)


def named(call: Any) -> bool:
    """Whether a function call names its function."""
    name = call.get("name") if isinstance(call, Mapping) else None
    return isinstance(name, str) and bool(name)


def role_of(content: Any) -> str:
    """`user` or `model`; function turns are the user's."""
    role = content.get("role") if isinstance(content, Mapping) else None
    return "user" if role in ("user", "function", None) else str(role)


def _of(content: Any, kind: str) -> list[Any]:
    return [part[kind] for part in parts_of(content) if part_kind(part) == kind]


def _content(index: int, content: Any) -> Iterator[Violation]:
    if role_of(content) not in ("user", "model"):
        yield _error("G01", index, -1, "role is not user or model")
    if not parts_of(content):
        yield _error("G05", index, -1, "content without parts")
    for position, part in enumerate(parts_of(content)):
        if len(data_of(part)) != 1:
            many = " and ".join(data_of(part))
            yield _error(
                "G05", index, position, f"part that is {many}" if many else "part without data"
            )


def _roles(contents: Sequence[Any]) -> Iterator[Violation]:
    previous = "model"
    for index, content in enumerate(contents):
        role = role_of(content)
        if role == previous:
            detail = (
                "the first content is not the user's" if index == 0 else "two contents of one role"
            )
            yield _error("G01", index, -1, detail)
        previous = role


def _calls(contents: Sequence[Any]) -> Iterator[Violation]:
    for index, content in enumerate(contents):
        calls = _of(content, "functionCall") if role_of(content) == "model" else []
        if calls and (index == 0 or role_of(contents[index - 1]) != "user"):
            yield _error("G02", index, -1, "function call does not follow a user or function turn")
        if not all(named(call) for call in calls):
            yield _error("G03", index, -1, "function call without a name")
        if calls and index + 1 == len(contents):
            yield _error("G06", index, -1, "the last content is a function call")
        yield from _responses(index, contents)


def _responses(index: int, contents: Sequence[Any]) -> Iterator[Violation]:
    answers = _of(contents[index], "functionResponse")
    previous = contents[index - 1] if index else None
    calls = _of(previous, "functionCall") if role_of(previous) == "model" else []
    if not answers and not calls:
        return
    names = [_name(call) for call in calls]
    given = [_name(answer) for answer in answers]
    if sorted(names) != sorted(given):
        yield _error(
            "G03", index, -1, f"{len(calls)} function calls, {len(answers)} responses to them"
        )
    elif names != given:
        yield _error("G03", index, -1, "responses in another order than the calls")


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
        parts = parts_of(contents[index])
        first = next(
            (at for at, part in enumerate(parts) if part_kind(part) == "functionCall"), None
        )
        if first is not None and not isinstance(parts[first].get("thoughtSignature"), str):
            yield _error(
                "G04", index, first, "function call of the current turn without thoughtSignature"
            )


def _originals(contents: Sequence[Any], original: Any) -> Iterator[Violation]:
    given = original.get("contents", ()) if isinstance(original, Mapping) else original
    known = [part for content in given for part in parts_of(content)]
    start = turn_start(contents)
    for index, content in enumerate(contents):
        for position, part in enumerate(parts_of(content)):
            signature = part.get("thoughtSignature") if isinstance(part, Mapping) else None
            if signature is None or signature in DUMMY_SIGNATURES or part in known:
                continue
            call = part_kind(part) == "functionCall" and index >= start
            yield _error("G04" if call else "G07", index, position, "signed part is not as it came")

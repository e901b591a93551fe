"""Repairs for the chat form: OpenAI, Mistral, DeepSeek, local servers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ullage.repair.blocks import dumps
from ullage.repair.lines import Line, Lines, as_text
from ullage.repair.mend import Step, mend, steps
from ullage.repair.pairs import synthetic_id
from ullage.repair.result import Repaired
from ullage.repair.texts import (
    DOCUMENT,
    EARLIER,
    IMAGE,
    INTERRUPTED,
    NO_MESSAGES,
    NO_REPLY,
    ORPHANS,
    RECEIVED,
    SYSTEM_HEAD,
    left_out,
)
from ullage.validate import Report

__all__ = ["repair_chat"]

USER, ASSISTANT, TOOL = "user", "assistant", "tool"
SYSTEMS = ("system", "developer")
MAX_ID_CHARS = 40
MISTRAL_ID_CHARS = 9
_ROLES = {"human": USER, "model": ASSISTANT, "ai": ASSISTANT, "bot": ASSISTANT}
_KNOWN = (USER, ASSISTANT, TOOL, "function", *SYSTEMS)
_PARTS = ("text", "image_url", "input_audio", "file", "refusal", "image", "document")
_PLACEHOLDERS = {"image": IMAGE, "image_url": IMAGE, "document": DOCUMENT, "file": DOCUMENT}


def repair_chat(
    messages: Sequence[Any],
    *,
    dialect: str,
    facts: Mapping[str, Any],
    orphans: str,
    check: Callable[[Sequence[Any]], Report],
) -> Repaired:
    """Repairs messages of the chat form.

    Args:
        messages: As given.
        dialect: `openai_chat`, `mistral`, `deepseek` or `local`.
        facts: `thinking`, `reasoning_forbidden` and `strict` as the verifier has them.
        orphans: What becomes of tool messages without a call; see `repair`.
        check: The rules.
    """
    report = check(messages)
    if report.ok:
        return Repaired(messages)
    strict = dialect == "local" or bool(facts.get("strict"))
    plan: list[Step] = steps(
        ("O06 O04 O03 O05 O07 O08 D02 O10", lambda w: _normal(w, dialect, strict)),
        ("O05 M03", lambda w: _name_calls(w, dialect)),
        ("O01 O02 M01 D03 O06", lambda w: _pair(w, orphans)),
        ("D01", lambda w: _reasoning(w, bool(facts.get("thinking")))),
        ("M05 L01 O10", _systems),
        ("L02 O10", _alternate),
        ("M02", _answer_tools),
        ("M04 L03", _last_word),
        ("O06 O04", _no_messages),
    )
    return mend(messages, work=Lines(messages), plan=plan, check=check, report=report)


# ---- messages by themselves --------------------------------------------------------------------


def _normal(work: Lines, dialect: str, strict: bool) -> None:
    work.lines = [line for line in work.lines if _readable(work, line)]
    work.make_plain("O06")
    kept = []
    for line in work.lines:
        if line.get("role") is None:
            kept.append(line)
            continue
        _calls(work, line)
        _content(work, line)
        if strict and line.get("role") == ASSISTANT and line.get("content") is None:
            work.note("O10", line, "made null content an empty string")
            line.put(content="")
        if _says_something(line, dialect):
            kept.append(line)
        else:
            work.note("O04", line, "dropped a message without content")
    work.lines = kept


def _readable(work: Lines, line: Line) -> bool:
    if isinstance(line.value, str) and line.value.strip():
        work.note("O06", line, "made a string a user message")
        line.value = {"role": USER, "content": line.value}
    if line.get("role") is None and isinstance(line.value, Mapping) and "role" in line.value:
        line.drop("role")  # null is none: what is left may be metadata, or words without a role
        if isinstance(line.get("type"), str):
            work.note("O06", line, "removed a role that is null")
    envelope = isinstance(line.get("type"), str) and line.get("role") is None
    if not isinstance(line.value, Mapping) or (
        line.get("role") is None and not line.get("content")
    ):
        keep = envelope and line.get("type") not in (USER, ASSISTANT)
        if not keep:
            work.note("O06", line, "dropped what is no message")
        return keep
    role = line.get("role")
    if not isinstance(role, str) or role not in _KNOWN:
        if role is None and envelope:
            return True
        name = _ROLES.get(role, USER) if isinstance(role, str) else USER
        work.note("O06", line, f"read the role as {name}")
        line.put(role=name)
    if not isinstance(line.value, dict):
        line.value = dict(line.value)
    return True


def _calls(work: Lines, line: Line) -> None:
    calls = line.get("tool_calls")
    if calls is None:
        return
    if line.get("role") != ASSISTANT:
        work.note("O03", line, "removed tool calls that are not the assistant's")
        line.drop("tool_calls")
        return
    made = (
        [new for call in calls if (new := _call(call))] if isinstance(calls, list | tuple) else []
    )
    if not made:
        work.note("O03", line, "removed a list without tool calls")
        line.drop("tool_calls")
    elif len(made) != len(calls) or any(a is not b for a, b in zip(made, calls, strict=True)):
        work.note("O03", line, "put tool calls into their form")
        line.put(tool_calls=made)


def _call(call: Any) -> Any:
    if not isinstance(call, Mapping):
        return None
    key = next((key for key in ("function", "custom") if isinstance(call.get(key), Mapping)), "")
    if not key:
        body = {"name": str(call.get("name", "")), "arguments": _arguments(call)}
        return {"id": call.get("id"), "type": "function", "function": body}
    if key == "custom" or isinstance(call[key].get("arguments"), str):
        return call
    return {**call, key: {**call[key], "arguments": _arguments(call[key])}}


def _arguments(body: Mapping[str, Any]) -> str:
    given = body.get("arguments", body.get("input"))
    return given if isinstance(given, str) else dumps({} if given is None else given)


def _content(work: Lines, line: Line) -> None:
    content = line.get("content")
    if content is None or isinstance(content, str):
        if content is None and line.get("role") == TOOL:
            work.note("O07", line, "made missing content an empty string")
            line.put(content="")
        return
    if not isinstance(content, list | tuple):
        work.note("O04", line, "made the content text")
        line.put(content=dumps(content))
        return
    tool = line.get("role") == TOOL
    parts = [_part(part, tool) for part in content]
    if tool and not parts:
        work.note("O07", line, "made empty content an empty string")
        line.put(content="")
    elif any(a is not b for a, b in zip(parts, content, strict=True)):
        work.note("O07" if tool else "O04", line, "replaced parts that the message may not hold")
        line.put(content=parts)


def _part(part: Any, tool: bool) -> Any:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" or (isinstance(kind, str) and not tool and not _foreign(kind)):
        return part
    if isinstance(kind, str) and kind in _PLACEHOLDERS:
        return {"type": "text", "text": _PLACEHOLDERS[kind]}
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    text = (
        part if isinstance(part, str) else left_out(kind) if isinstance(kind, str) else dumps(part)
    )
    return {"type": "text", "text": text}


def _foreign(kind: str) -> bool:
    """A block of Anthropic's that the chat form says in another way."""
    known = ("tool_use", "tool_result", "thinking", "redacted_thinking", "search_result")
    more = ("container_upload", "compaction", "fallback", "tool_addition", "tool_removal")
    return kind in (*known, *more, "server_tool_use", "mcp_tool_use") or kind.endswith(
        "_tool_result"
    )


def _says_something(line: Line, dialect: str) -> bool:
    content, role = line.get("content"), line.get("role")
    if role == TOOL or line.get("tool_calls"):
        return True
    if any(line.get(key) is not None for key in ("refusal", "audio", "function_call")):
        return True
    if content == "" and role == ASSISTANT:
        return dialect != "deepseek"
    return content is not None and content != [] and content != ()


# ---- calls and their answers ---------------------------------------------------------------------


def _name_calls(work: Lines, dialect: str) -> None:
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


def _pair(work: Lines, orphans: str) -> None:
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


def _calls_of(line: Line) -> list[Any]:
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
        for call in _calls_of(line):
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
    for call in _calls_of(line):
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


# ---- dialects --------------------------------------------------------------------------------------


def _reasoning(work: Lines, thinking: bool) -> None:
    for line in work.lines:
        if thinking and _calls_of(line) and not isinstance(line.get("reasoning_content"), str):
            work.note("D01", line, "added empty reasoning_content")
            line.put(reasoning_content="")
        elif not thinking and line.get("reasoning_content") is not None:
            work.note("D01", line, "removed reasoning_content")
            line.drop("reasoning_content")


def _systems(work: Lines) -> None:
    """One system message, first; later ones become the user's, marked as what they are."""
    lines = work.lines
    head = 0
    while head < len(lines) and lines[head].get("role") in SYSTEMS:
        head += 1
    if head > 1:
        work.note("L01", lines[1], "merged the leading system messages")
        text = "\n\n".join(as_text(line.get("content")) for line in lines[:head])
        lines[0].put(content=text)
    work.lines = [*lines[: min(head, 1)], *lines[head:]]
    for line in work.lines[1 if head else 0 :]:
        if line.get("role") in SYSTEMS:
            work.note("L01", line, "made a user message of a later system message")
            line.put(role=USER, content=SYSTEM_HEAD + as_text(line.get("content")))


def _alternate(work: Lines) -> None:
    """User first; neighbours of one side become one message."""
    made: list[Line] = []
    for line in work.lines:
        role = line.get("role")
        before = next((each for each in reversed(made) if each.get("role") is not None), None)
        first = all(each.get("role") in (*SYSTEMS, None) for each in made)
        if role == ASSISTANT and first:
            work.note("L02", line, "put a line before the first assistant message")
            made.append(Line({"role": USER, "content": EARLIER}, line.origin))
        if before is not None and role in (USER, ASSISTANT) and before.get("role") == role:
            work.note("L02", line, "merged two messages of one side")
            _merge(before, line)
            continue
        made.append(line)
    work.lines = made


def _merge(into: Line, line: Line) -> None:
    a, b = into.get("content"), line.get("content")
    content: Any
    if isinstance(a, list | tuple) or isinstance(b, list | tuple):
        content = [*_as_parts(a), *_as_parts(b)]
    else:
        content = "\n\n".join(text for text in (a, b) if text)
    calls = [*(into.get("tool_calls") or ()), *(line.get("tool_calls") or ())]
    into.put(content=content, **({"tool_calls": calls} if calls else {}))


def _as_parts(content: Any) -> list[Any]:
    if isinstance(content, list | tuple):
        return list(content)
    return [{"type": "text", "text": content}] if content else []


def _answer_tools(work: Lines) -> None:
    made: list[Line] = []
    for line in work.lines:
        if made and made[-1].get("role") == TOOL and line.get("role") not in (TOOL, ASSISTANT):
            work.note("M02", line, "put an assistant line between tool and user")
            made.append(Line({"role": ASSISTANT, "content": RECEIVED}, line.origin))
        made.append(line)
    work.lines = made


def _last_word(work: Lines) -> None:
    last = work.lines[-1] if work.lines else None
    if last is not None and last.get("role") not in (USER, TOOL):
        work.note("L03", last, "added a line after the last assistant message")
        work.lines.append(Line({"role": USER, "content": NO_REPLY}, last.origin))


def _no_messages(work: Lines) -> None:
    if not any(line.get("role") for line in work.lines):
        work.note("O06", None, "added a message that says there is none")
        work.lines.append(Line({"role": USER, "content": NO_MESSAGES}, -1))

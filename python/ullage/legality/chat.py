"""OpenAI's chat form and those who speak it: the rules O, M, D and L."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from ullage._engine import core
from ullage._engine.digests import Violation
from ullage.legality.blocks import (
    DOCUMENT,
    EARLIER,
    IMAGE,
    INTERRUPTED,
    NO_MESSAGES,
    NO_REPLY,
    RECEIVED,
    SYSTEM_HEAD,
    dumps,
    left_out,
)
from ullage.legality.check import RuleRequest, check_unicode, read_ledger
from ullage.legality.draft import Repaired
from ullage.legality.internal import AnswerForm, ChatLine, Lines, as_text
from ullage.legality.pairs import OpenCalls, synthetic_id
from ullage.legality.params import known_model, size_of, whole
from ullage.legality.repairs import RepairRequest, RepairStep, run_steps, steps
from ullage.messages import THINKING, same_items
from ullage.providers.registry import ChatRules

# R1 answers 400 to `reasoning_content` in the input; later models require it with calls.
_FORBIDS = "deepseek-r1"


def facts_of(request: RuleRequest) -> Mapping[str, Any]:
    """Facts of a chat request for the engine; the window of a model that the table lacks comes by `facts=`."""
    row, rules = known_model(request.model), request.provider.chat
    params, tools = request.params, request.tools
    output = params.get("max_completion_tokens") or params.get("max_tokens")
    return {
        "tools": None if tools is None else tuple(_names(tools)),
        "window": row.context_window if row else 0,
        "max_tokens": whole(output),
        "fixed_tokens": size_of(tools) // 4,
        "thinking": rules.reasoning and _thinks(params),
        # The old R1 answers 400 to its own reasoning; its successors want it back.
        "reasoning_forbidden": rules.reasoning and (request.model or "").startswith(_FORBIDS),
        "strict": rules.strict,
        **request.facts,
    }


def check(messages: Sequence[Any], request: RuleRequest) -> Iterator[Violation]:
    """Checks messages of the chat form."""
    skip = (*request.facts.get("skip", ()), *request.skip)
    ledger, unreadable = read_ledger(messages, "O06")
    yield from unreadable
    yield from core.check(ledger, request.provider.rules, {**facts_of(request), "skip": skip})
    yield from _arguments(messages)
    yield from check_unicode(messages, system=request.system, tools=request.tools)


def shared(messages: Sequence[Any], items: Sequence[Any]) -> Iterator[str | None]:
    """Keys that no other part of a list may have, if each is to be judged by itself; empty: a part with the rest, `None`: every one.

    Args:
        messages: A part in the internal view.
        items: The same in this form.
    """
    for item in items:
        for call in item.get("tool_calls") or ():
            yield str(call.get("id"))


def _thinks(params: Mapping[str, Any]) -> bool:
    thinking = params.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") == "enabled"


def _names(tools: Sequence[Any]) -> Iterator[str]:
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if isinstance(function, Mapping):
            yield str(function.get("name", ""))


def _arguments(messages: Sequence[Any]) -> Iterator[Violation]:
    """O03's warning: arguments that are a string but not a JSON object."""
    for index, item in enumerate(messages):
        calls = item.get("tool_calls") if isinstance(item, Mapping) else None
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            function = call.get("function") if isinstance(call, Mapping) else None
            arguments = function.get("arguments") if isinstance(function, Mapping) else None
            if isinstance(arguments, str) and not _is_object(arguments):
                yield Violation(
                    "O03", "warning", index, position, "arguments are not a JSON object"
                )


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except (ValueError, RecursionError):
        return False


# Repairs of the chat form: ids of calls, and the results after them.


USER, ASSISTANT, TOOL = "user", "assistant", "tool"


def name_calls(work: Lines, rules: ChatRules) -> None:
    """Gives every call an id of its own that the provider takes; its answer follows."""
    used: set[str] = set()
    waiting: dict[str, OpenCalls[str]] = {}  # by old id, the new ones
    times: dict[str, int] = {}
    for line in work.lines:
        if line.get("role") == TOOL:
            open_calls = waiting.get(str(line.get("tool_call_id")))
            name = open_calls.pop() if open_calls else None
            if name is not None and name != line.get("tool_call_id"):
                line.put(tool_call_id=name)
            continue
        calls = line.get("tool_calls")
        if line.get("role") == ASSISTANT and isinstance(calls, list | tuple):
            named = [_named(work, line, call, used, waiting, times, rules) for call in calls]
            if not same_items(named, calls):
                line.put(tool_calls=named)


def _named(
    work: Lines,
    line: ChatLine,
    call: Any,
    used: set[str],
    waiting: dict[str, OpenCalls[str]],
    times: dict[str, int],
    rules: ChatRules,
) -> Any:
    call_id = call.get("id")
    name = call_id
    if not _valid(call_id, rules) or call_id in used:
        key = str(call_id)
        while not _valid(name, rules) or name in used:
            times[key] = times.get(key, 0) + 1
            name = _fresh(call_id, times[key], rules)
        work.note(
            rules.id_rule,
            line,
            "gave a tool call another id",
            ids=(call_id, name),
        )
    used.add(name)
    waiting.setdefault(str(call_id), OpenCalls()).add(line, name)
    return call if name == call_id else {**call, "id": name}


def _valid(name: Any, rules: ChatRules) -> bool:
    if not isinstance(name, str) or not name:
        return False
    if rules.exact_ids:
        return len(name) == rules.max_id_chars and name.isascii() and name.isalnum()
    return len(name) <= rules.max_id_chars


def _fresh(name: Any, time: int, rules: ChatRules) -> str:
    if not rules.exact_ids:
        return synthetic_id(name, time)[-rules.max_id_chars :]
    raw = f"{name}#{time}".encode(errors="surrogatepass")
    return hashlib.sha256(raw).hexdigest()[: rules.max_id_chars]


def pair(work: Lines, orphans: str) -> None:
    """Put every tool message after its call, and answer calls that have none."""
    answers = _match(work)
    placed_lines: list[ChatLine] = []
    position = {id(line): at for at, line in enumerate(work.lines)}
    placed = {id(line): name for by_name in answers.values() for name, line in by_name.items()}
    answers_by_name = {name: line for by_name in answers.values() for name, line in by_name.items()}
    legacy = waits = False
    for line in work.lines:
        role = line.get("role")
        if role == ASSISTANT:
            legacy = line.get("function_call") is not None
        if role == "function" and not legacy:
            placed_lines += _ANSWER.orphaned(work, line, placed_lines, orphans)
        elif role != TOOL:
            placed_lines.append(line)
            by_name = answers.get(id(line), {})
            waits = any(str(call.get("id")) not in by_name for call in calls_of(line))
            placed_lines += _group(work, line, by_name, position)
        elif id(line) not in placed:
            first = answers_by_name.get(str(line.get("tool_call_id")))
            placed_lines += _ANSWER.stray(work, line, first, placed_lines, orphans, waits=waits)
    work.lines = placed_lines


_ANSWER = AnswerForm(
    call="tool_call_id",
    text="content",
    orphan_rule="O02",
    orphan="tool message without its call",
    repeated_rule="O01",
    repeated="further results of one call",
)


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
    called: set[str] = set()
    for line in work.lines:
        for call in calls_of(line):
            owner[str(call.get("id"))] = line
            called.add(str(call.get("id")))
        if line.get("role") == TOOL:
            name = str(line.get("tool_call_id"))
            if name in owner:
                answers.setdefault(id(owner.pop(name)), {})[name] = line
            elif name not in called:
                early.setdefault(name, line)
    for name in [name for name in owner if name in early]:  # it stands before its call
        answers.setdefault(id(owner[name]), {})[name] = early[name]
    return answers


def _group(
    work: Lines, line: ChatLine, answers: dict[str, ChatLine], position: Mapping[int, int]
) -> list[ChatLine]:
    group = list(answers.values())
    at = position[id(line)]
    if group and work.lines[at + 1 : at + 1 + len(group)] != group:
        work.note("O01", line, "moved tool messages after their calls", ids=answers)
    for call in calls_of(line):
        name = str(call.get("id"))
        if name not in answers:
            work.note("O01", line, "answered an interrupted tool call", ids=(name,))
            value = {"role": TOOL, "tool_call_id": call.get("id"), "content": INTERRUPTED}
            group.append(ChatLine(value, line.origin))
    return group


# Repairs of the chat form that single providers ask for: reasoning, system messages, the order of roles.


SYSTEMS = ("system", "developer")


def reasoning(work: Lines, thinking: bool) -> None:
    """Thinking mode requires reasoning with each call; without it none may be sent."""
    for line in work.lines:
        if thinking and calls_of(line) and not isinstance(line.get("reasoning_content"), str):
            work.note("D01", line, "added empty reasoning_content")
            line.put(reasoning_content="")
        elif not thinking and line.get("reasoning_content") is not None:
            work.note("D01", line, "removed reasoning_content")
            line.drop("reasoning_content")


def systems(work: Lines) -> None:
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


def alternate(work: Lines) -> None:
    """User first; neighbours of one side become one message."""
    merged: list[ChatLine] = []
    joined: list[ChatLine] = []  # what the newest message takes in
    before: ChatLine | None = None
    first = True
    for line in work.lines:
        role = line.get("role")
        if role == ASSISTANT and first:
            work.note("L02", line, "put a line before the first assistant message")
            merged.append(ChatLine({"role": USER, "content": EARLIER}, line.origin))
        if before is not None and role in (USER, ASSISTANT) and before.get("role") == role:
            work.note("L02", line, "merged two messages of one side")
            joined.append(line)
            continue
        if role is not None:
            _merge(before, joined)
            before, joined = line, []
        first = first and role in (*SYSTEMS, None)
        merged.append(line)
    _merge(before, joined)
    work.lines = merged


def _merge(into: ChatLine | None, lines: Sequence[ChatLine]) -> None:
    if into is None or not lines:
        return
    parts_of_one = [into, *lines]
    contents = [line.get("content") for line in parts_of_one]
    content: Any
    if any(isinstance(one, list | tuple) for one in contents):
        content = [part for one in contents for part in _as_parts(one)]
    else:
        content = "\n\n".join(text for text in contents if text)
    calls = [call for line in parts_of_one for call in line.get("tool_calls") or ()]
    into.put(content=content, **({"tool_calls": calls} if calls else {}))


def _as_parts(content: Any) -> list[Any]:
    if isinstance(content, list | tuple):
        return list(content)
    return [{"type": "text", "text": content}] if content else []


def answer_tools(work: Lines) -> None:
    """Mistral accepts no user message directly after a tool's."""
    answered: list[ChatLine] = []
    for line in work.lines:
        if (
            answered
            and answered[-1].get("role") == TOOL
            and line.get("role") not in (TOOL, ASSISTANT)
        ):
            work.note("M02", line, "put an assistant line between tool and user")
            answered.append(ChatLine({"role": ASSISTANT, "content": RECEIVED}, line.origin))
        answered.append(line)
    work.lines = answered


def last_word(work: Lines) -> None:
    """The last message is the user's or a tool's."""
    last = work.lines[-1] if work.lines else None
    if last is not None and last.get("role") not in (USER, TOOL):
        work.note("L03", last, "added a line after the last assistant message")
        work.lines.append(ChatLine({"role": USER, "content": NO_REPLY}, last.origin))


def no_messages(work: Lines) -> None:
    """A request needs one message."""
    if not any(line.get("role") for line in work.lines):
        work.note("O06", None, "added a message that says there is none")
        work.lines.append(ChatLine({"role": USER, "content": NO_MESSAGES}, -1))


# Repairs of the chat form, each message by itself: roles, content, and the form of tool calls.


_ROLES = {"human": USER, "model": ASSISTANT, "ai": ASSISTANT, "bot": ASSISTANT}
_ROLE_NAMES = (USER, ASSISTANT, TOOL, "function", "system", "developer")
_PLACEHOLDERS = {"image": IMAGE, "image_url": IMAGE, "document": DOCUMENT, "file": DOCUMENT}


def normal(work: Lines, rules: ChatRules, strict: bool) -> None:
    """Makes every line a message of the form, with content that its role may have; what says nothing goes."""
    work.lines = [line for line in work.lines if _readable(work, line)]
    work.make_plain("O06")
    normal_lines = []
    for line in work.lines:
        if line.get("role") is None:
            normal_lines.append(line)
            continue
        _calls(work, line)
        _content(work, line)
        if strict and line.get("role") == ASSISTANT and line.get("content") is None:
            work.note("O10", line, "made null content an empty string")
            line.put(content="")
        if _says_something(line, rules):
            normal_lines.append(line)
        else:
            work.note("O04", line, "dropped a message without content")
    work.lines = normal_lines


def _readable(work: Lines, line: ChatLine) -> bool:
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
            work.note("O06", line, "dropped an item that is not a message")
        return keep
    role = line.get("role")
    if not isinstance(role, str) or role not in _ROLE_NAMES:
        if role is None and envelope:
            return True
        name = _ROLES.get(role, USER) if isinstance(role, str) else USER
        work.note("O06", line, f"read the role as {name}")
        line.put(role=name)
    if not isinstance(line.value, dict):
        line.value = dict(line.value)
    return True


def _calls(work: Lines, line: ChatLine) -> None:
    calls = line.get("tool_calls")
    if calls is None:
        return
    if line.get("role") != ASSISTANT:
        work.note("O03", line, "removed tool calls that are not the assistant's")
        line.drop("tool_calls")
        return
    repaired_calls = (
        [new for call in calls if (new := _call(call))] if isinstance(calls, list | tuple) else []
    )
    if not repaired_calls:
        work.note("O03", line, "removed a list without tool calls")
        line.drop("tool_calls")
    elif not same_items(repaired_calls, calls):
        work.note("O03", line, "put tool calls into their form")
        line.put(tool_calls=repaired_calls)


def _call(call: Any) -> Any:
    if not isinstance(call, Mapping):
        return None
    key = next((key for key in ("function", "custom") if isinstance(call.get(key), Mapping)), "")
    if not key:
        body = {"name": str(call.get("name", "")), "arguments": _chat_messages_arguments(call)}
        return {"id": call.get("id"), "type": "function", "function": body}
    if key == "custom" or isinstance(call[key].get("arguments"), str):
        return call
    return {**call, key: {**call[key], "arguments": _chat_messages_arguments(call[key])}}


def _chat_messages_arguments(body: Mapping[str, Any]) -> str:
    arguments = body.get("arguments", body.get("input"))
    return (
        arguments if isinstance(arguments, str) else dumps({} if arguments is None else arguments)
    )


def _content(work: Lines, line: ChatLine) -> None:
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
    elif not same_items(parts, content):
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
    kinds = ("tool_use", "tool_result", *THINKING, "search_result")
    more = ("container_upload", "compaction", "fallback", "tool_addition", "tool_removal")
    return kind in (*kinds, *more, "server_tool_use", "mcp_tool_use") or kind.endswith(
        "_tool_result"
    )


def _says_something(line: ChatLine, rules: ChatRules) -> bool:
    content, role = line.get("content"), line.get("role")
    if role == TOOL or line.get("tool_calls"):
        return True
    if any(line.get(key) is not None for key in ("refusal", "audio", "function_call")):
        return True
    if content == "" and role == ASSISTANT:
        return rules.blank_answers
    return content is not None and content != [] and content != ()


# Repairs for the chat form: OpenAI, Mistral, DeepSeek, local servers.


def repair(messages: Sequence[Any], request: RepairRequest) -> Repaired:
    """Repairs messages of the chat form."""
    report = request.report(messages)
    if report.ok:
        return Repaired(messages)
    rules, facts, orphans = request.provider.chat, facts_of(request), request.orphans
    strict = rules.strict or bool(facts.get("strict"))
    plan: list[RepairStep] = steps(
        ("O06 O04 O03 O05 O07 O08 D02 O10", lambda w: normal(w, rules, strict)),
        ("O05 M03", lambda w: name_calls(w, rules)),
        ("O01 O02 M01 D03 O06", lambda w: pair(w, orphans)),
        ("D01", lambda w: reasoning(w, bool(facts.get("thinking")))),
        ("M05 L01 O10", systems),
        ("L02 O10", alternate),
        ("M02", answer_tools),
        ("M04 L03", last_word),
        ("O06 O04", no_messages),
    )
    return run_steps(messages, work=Lines(messages), plan=plan, check=request.report, report=report)

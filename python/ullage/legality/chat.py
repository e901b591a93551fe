"""OpenAI's chat form and those who speak it: the rules O, M, D and L."""

from __future__ import annotations

import hashlib
from collections import Counter
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
    PLACEHOLDERS,
    RECEIVED,
    SYSTEM_HEAD,
    dumps,
    in_text,
    left_out,
)
from ullage.legality.check import RuleRequest, check_unicode, read_ledger
from ullage.legality.draft import ASSISTANT, ASSISTANT_NAMES, USER, Repaired, list_in, text_block
from ullage.legality.internal import AnswerForm, ChatLine, Lines, as_text
from ullage.legality.pairs import OpenCalls, synthetic_id
from ullage.legality.params import known_model, size_of
from ullage.legality.repairs import Plan, run_steps
from ullage.messages import THINKING, as_blocks, same_items, whole_count
from ullage.providers.registry import ChatRules


def facts_of(request: RuleRequest) -> Mapping[str, Any]:
    """Facts of a chat request for the engine; the window of a model that the table lacks comes by `facts=`."""
    row, rules = known_model(request.model), request.provider.chat
    params, tools = request.params, request.tools
    thinking = params.get("thinking")
    thinks = isinstance(thinking, Mapping) and thinking.get("type") == "enabled"
    return {
        "tools": None if tools is None else tuple(_names(tools)),
        "window": row.context_window if row else 0,
        "max_tokens": whole_count(params.get("max_completion_tokens") or params.get("max_tokens")),
        "fixed_tokens": size_of(tools) // 4,
        "thinking": rules.reasoning and thinks,
        # The old R1 answers 400 to `reasoning_content` in the input; later models require it with calls.
        "reasoning_forbidden": rules.reasoning and (request.model or "").startswith("deepseek-r1"),
        "strict": rules.strict,
        **request.facts,
    }


def _names(tools: Sequence[Any]) -> Iterator[str]:
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if isinstance(function, Mapping):
            yield str(function.get("name", ""))


def check(messages: Sequence[Any], request: RuleRequest) -> Iterator[Violation]:
    """Checks messages of the chat form."""
    ledger, unreadable = read_ledger(messages, "O06")
    yield from unreadable
    yield from core.check(ledger, request.provider.rules, facts_of(request))
    yield from _arguments(messages)
    yield from check_unicode(messages, system=request.system, tools=request.tools)


def shared(messages: Sequence[Any], items: Sequence[Any]) -> Iterator[str | None]:
    """Keys that no other part of a list may have, if each is to be judged by itself; empty: a part with the rest, `None`: every one.

    The part comes in the internal view and in this form.
    """
    for item in items:
        for call in _calls_in(item):
            yield str(call.get("id"))


def _arguments(messages: Sequence[Any]) -> Iterator[Violation]:
    """O03's warning: arguments that are a string but not a JSON object."""
    for index, item in enumerate(messages):
        calls = item.get("tool_calls") if isinstance(item, Mapping) else None
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            function = call.get("function") if isinstance(call, Mapping) else None
            arguments = function.get("arguments") if isinstance(function, Mapping) else None
            if isinstance(arguments, str) and not _is_object(arguments):
                detail = "arguments are not a JSON object"
                yield Violation("O03", "warning", index, position, detail)


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except (ValueError, RecursionError):
        return False


# Repairs of the chat form: ids of calls, and the results after them.


TOOL = "tool"


def name_calls(work: Lines, rules: ChatRules) -> None:
    """Gives every call an id of its own that the provider takes; its answer follows."""
    used: set[str] = set()
    waiting: dict[str, OpenCalls[str]] = {}  # by old id, the new ones
    times: Counter[str] = Counter()

    def named(line: ChatLine, call: Any) -> Any:
        name = old = call.get("id")
        if not _valid(name, rules) or name in used:
            while not _valid(name, rules) or name in used:
                times[str(old)] += 1
                name = _fresh(old, times[str(old)], rules)
            work.note(rules.id_rule, line, "gave a tool call another id", ids=(old, name))
        used.add(name)
        waiting.setdefault(str(old), OpenCalls()).add(line, name)
        return call if name == old else {**call, "id": name}

    for line in work.lines:
        if line.get("role") == TOOL:
            open_calls = waiting.get(str(line.get("tool_call_id")))
            name = open_calls.pop() if open_calls else None
            if name is not None and name != line.get("tool_call_id"):
                line.put(tool_call_id=name)
            continue
        calls = line.get("tool_calls")
        if line.get("role") == ASSISTANT and isinstance(calls, list | tuple):
            new = [named(line, call) for call in calls]
            if not same_items(new, calls):
                line.put(tool_calls=new)


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
    by_name = {name: line for of_one in answers.values() for name, line in of_one.items()}
    answering = {id(line) for line in by_name.values()}
    position = {id(line): at for at, line in enumerate(work.lines)}
    placed: list[ChatLine] = []
    legacy = waits = False
    for line in work.lines:
        role = line.get("role")
        if role == ASSISTANT:
            legacy = line.get("function_call") is not None
        if role == "function" and not legacy:
            placed += _ANSWER.orphaned(work, line, placed, orphans)
        elif role != TOOL:
            own = answers.get(id(line), {})
            waits = any(str(call.get("id")) not in own for call in calls_of(line))
            placed += [line, *_group(work, line, own, position)]
        elif id(line) not in answering:
            first = by_name.get(str(line.get("tool_call_id")))
            placed += _ANSWER.stray(work, line, first, placed, orphans, waits=waits)
    work.lines = placed


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
    return _calls_in(line.value) if line.get("role") == ASSISTANT else []


def _calls_in(item: Any) -> list[Any]:
    return [call for call in list_in(item, "tool_calls") if isinstance(call, Mapping)]


def _match(work: Lines) -> dict[int, dict[str, ChatLine]]:
    """For each assistant message its answers by call id; an answer goes to the newest open call."""
    answers: dict[int, dict[str, ChatLine]] = {}
    owner: dict[str, ChatLine] = {}
    early: dict[str, ChatLine] = {}
    called: set[str] = set()
    for line in work.lines:
        for call in calls_of(line):
            name = str(call.get("id"))
            owner[name] = line
            called.add(name)
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
    lines: list[ChatLine] = []
    runs: list[list[ChatLine]] = []  # what becomes one message
    first = True
    for line in work.lines:
        role = line.get("role")
        if role == ASSISTANT and first:
            work.note("L02", line, "put a line before the first assistant message")
            lines.append(ChatLine({"role": USER, "content": EARLIER}, line.origin))
        if runs and role in (USER, ASSISTANT) and runs[-1][0].get("role") == role:
            work.note("L02", line, "merged two messages of one side")
            runs[-1].append(line)
            continue
        if role is not None:
            runs.append([line])
        first = first and role in (*SYSTEMS, None)
        lines.append(line)
    for run in runs:
        if len(run) > 1:
            _merge(run)
    work.lines = lines


def _merge(run: Sequence[ChatLine]) -> None:
    contents = [line.get("content") for line in run]
    content: Any
    if any(isinstance(one, list | tuple) for one in contents):
        content = [part for one in contents for part in as_blocks(one or ())]
    else:
        content = "\n\n".join(text for text in contents if text)
    calls = [call for line in run for call in line.get("tool_calls") or ()]
    run[0].put(content=content, **({"tool_calls": calls} if calls else {}))


def answer_tools(work: Lines) -> None:
    """Mistral accepts no user message directly after a tool's."""
    answered: list[ChatLine] = []
    for line in work.lines:
        after_tool = answered and answered[-1].get("role") == TOOL
        if after_tool and line.get("role") not in (TOOL, ASSISTANT):
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


_ROLE_NAMES = (USER, ASSISTANT, TOOL, "function", "system", "developer")
_PLACEHOLDERS = {**PLACEHOLDERS, "image_url": IMAGE, "file": DOCUMENT}
# Blocks of Anthropic's that the chat form says in another way.
_FOREIGN = frozenset(
    (
        *THINKING,
        *"tool_use tool_result search_result container_upload compaction fallback".split(),
        *"tool_addition tool_removal server_tool_use mcp_tool_use".split(),
    )
)


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
    role = line.get("role")
    envelope = isinstance(line.get("type"), str) and role is None
    if not isinstance(line.value, Mapping) or (role is None and not line.get("content")):
        keep = envelope and line.get("type") not in (USER, ASSISTANT)
        if not keep:
            work.note("O06", line, "dropped an item that is not a message")
        return keep
    if envelope:
        return True
    if not isinstance(role, str) or role not in _ROLE_NAMES:
        name = ASSISTANT if isinstance(role, str) and role in ASSISTANT_NAMES else USER
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
    repaired_calls = [new for call in list_in(line.value, "tool_calls") if (new := _call(call))]
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
    body = call[key] if key else call
    if key == "custom" or (key and isinstance(body.get("arguments"), str)):
        return call
    arguments = body.get("arguments", body.get("input"))
    if not isinstance(arguments, str):
        arguments = dumps({} if arguments is None else arguments)
    if key:
        return {**call, key: {**body, "arguments": arguments}}
    function = {"name": str(call.get("name", "")), "arguments": arguments}
    return {"id": call.get("id"), "type": "function", "function": function}


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
    if not isinstance(kind, str):
        return in_text(part)
    foreign = kind in _FOREIGN or kind.endswith("_tool_result")
    if kind == "text" or not (tool or foreign):
        return part
    if kind in _PLACEHOLDERS:
        return text_block(_PLACEHOLDERS[kind])
    return text_block(part["text"] if isinstance(part.get("text"), str) else left_out(kind))


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


def repair(messages: Sequence[Any], request: RuleRequest) -> Repaired:
    """Repairs messages of the chat form."""
    rules, facts, orphans = request.provider.chat, facts_of(request), request.orphans
    strict = rules.strict or bool(facts.get("strict"))
    plan: Plan = (
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
    return run_steps(messages, request, Lines, plan)

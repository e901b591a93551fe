"""What a tool call does, from its name or, for unknown tools, from the shape of its input."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Any

from ullage._start import NamedTuple, orjson, pathlib, pattern
from ullage.facts.words import clean, flat_text

# The kind of tool that a name means, however an agent spells it: `Read`, `read_file`, `mcp__fs__read_file` are one family.
#
# Settings that name tools use this, so that no tool is special because of its spelling.


@cache
def _tools() -> tuple[dict[str, str], dict[str, Action]]:
    """Families and actions by the names in `tools.txt`."""
    families: dict[str, str] = {}
    actions: dict[str, Action] = {}
    text = pathlib.Path(__file__).with_name("tools.txt").read_text(encoding="utf-8")
    for line in text.split("\n"):
        kind, _, names = line.partition(": ")
        if kind.startswith("-> "):
            actions.update(dict.fromkeys(names.split(), Action(kind[3:])))
        elif not line.startswith("#"):
            families.update(dict.fromkeys(names.replace("_", "").split(), kind))
    return families, actions


_BY_WORD = {
    "todo": "todos", "todos": "todos", "memory": "memory", "memories": "memory", "skill": "skills",
    "skills": "skills", "subagent": "agents", "subagents": "agents",
}  # fmt: skip
_ASKS = frozenset({"user", "human", "question", "questions"})
_LAST_PART = pattern(r"^.*(?:__|[./:])(?=[^_./:])", re.DOTALL)
_WORD = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_]+")


@lru_cache(maxsize=4096)
def family_of(name: str) -> str:
    """The family of a tool's name, `shell` for `runShell`; empty if it belongs to none."""
    words = [word.lower() for word in _WORD.findall(_LAST_PART.sub("", name[:200]))]
    row = _tools()[0].get("".join(words))
    if row is not None or not words:
        return row or ""
    if "ask" in words and _ASKS.intersection(words):
        return "questions"
    return next((_BY_WORD[word] for word in (words[0], words[-1]) if word in _BY_WORD), "")


@lru_cache(maxsize=4096)
def _fits(name: str, wanted: str) -> bool:
    if any(sign in wanted for sign in "*?["):
        return fnmatchcase(name.lower(), wanted.lower())
    family = family_of(wanted)
    return name.lower() == wanted.lower() or (bool(family) and family_of(name) == family)


def matches(name: str, wanted: Iterable[str]) -> bool:
    """Whether a tool is one of those that a setting names: by name (`Read` means every tool that reads files) or pattern in any case, or by family."""
    return any(_fits(name, pattern) for pattern in wanted)


# Calls inside a script: some hosts let the model write a program that calls the tools.
#
# Only literal arguments are read; what a program computes is not guessed.


MAX_CALLS = 40
_STRING = r'"(?P<{0}>(?:[^"\\]|\\.){{0,100000}})"'
_PATCH = pattern(
    r'"(?P<patch>\*\*\* Begin Patch(?:[^"\\]|\\.){0,400000}+)(?:"|\\?\Z)|`(?P<raw>\*\*\* Begin Patch[^`]{0,400000}+)(?:`|\Z)'
)
_CALL = pattern(r"\btools\.(?P<tool>\w{1,80})\(")
_COMMAND = pattern(r"""["']?(?:cmd|command)["']?\s*:\s*""" + _STRING.format("text"))
_WORKDIR = pattern(r"""["']?workdir["']?\s*:\s*"((?:[^"\\]|\\.){1,500})\"""")
PLAN_CHARS = 20_000
_STEP = pattern(
    r"""["']?step["']?\s*:\s*"((?:[^"\\]|\\.){1,2000})"\s*,\s*["']?status["']?\s*:\s*["'](\w{1,40})["']"""
)
# The command that a call asks for more, which Codex names first.
_RUNNING = pattern(r"""\s*\{\s*["']?(?:session|cell|task)_id["']?\s*:\s*["']?(\w{1,80})""")


def calls_in_script(text: str) -> list[tuple[str, Any]]:
    """Name and input of each tool call in a program of JavaScript or Python, `tools.<name>({...})`; `[]` if the text is none."""
    heads = list(_CALL.finditer(text))[:MAX_CALLS]
    if not heads:
        return []
    patch = _PATCH.search(text)
    calls: list[tuple[str, Any]] = []
    for place, head in enumerate(heads):
        stop = heads[place + 1].start() if place + 1 < len(heads) else len(text)
        calls.append((head["tool"], _input_of(head["tool"], text[head.end() : stop], patch)))
    return calls


def _input_of(tool: str, arguments: str, patch: re.Match[str] | None) -> Any:
    if tool == "apply_patch" and patch is not None:
        return {"patch": patch["raw"] or _decoded(patch["patch"])}
    command = _COMMAND.search(arguments)
    if command is not None:
        folder = _WORKDIR.search(arguments)
        workdir = _decoded(folder[1]) if folder else ""
        return {"command": _decoded(command["text"]), "workdir": workdir}
    if polled := _RUNNING.match(arguments):
        return {"session_id": polled[1], "chars": "\x03" if r"\u0003" in arguments else ""}
    if plan := _STEP.findall(arguments[:PLAN_CHARS]) if tool == "update_plan" else []:
        return {"plan": [{"step": _decoded(step), "status": status} for step, status in plan]}
    return {"arguments": arguments[:300]}


def _decoded(escaped: str) -> str:
    try:
        value = orjson.loads(f'"{escaped}"')
    except ValueError:
        return escaped
    return value if isinstance(value, str) else escaped


class Action(StrEnum):
    """What a call does, as far as a summary needs it."""

    READ = "read"
    EDIT = "edit"
    WRITE = "write"
    DELETE = "delete"
    COMMAND = "command"
    SEARCH = "search"
    FETCH = "fetch"
    TODO = "todo"
    TASK_CREATE = "task_create"
    TASK_UPDATE = "task_update"
    ASK = "ask"
    PLAN = "plan"
    AGENT = "agent"
    SKILL = "skill"
    FIND_TOOL = "find_tool"
    POLL = "poll"  # asks a running command for more
    STOP = "stop"  # ends it
    OTHER = "other"


class CallEffect(NamedTuple):
    """One effect of a tool call; a patch has one for each of its files."""

    action: Action
    name: str
    target: str  # path, command, pattern, URL, question, prompt: the subject of the call
    code: str = ""  # the lines that an edit or write inserts
    removed: str = ""  # the lines that an edit takes out
    anchor: str = ""  # of an edit of one place: what it looks for
    start: int = 0  # first line that a read asks for, 0: from the top
    lines: int = 0  # number of lines that a read asks for, 0: to the end
    folder: str = ""  # in which a command runs, where the call says so
    purpose: str = ""  # what the call says that a command is for


_PATH_KEYS = ("file_path", "path", "notebook_path", "filename", "file", "filePath", "absolute_path")
_COMMAND_KEYS = ("command", "cmd", "script", "commands")
_RAW_KEYS = ("input", "patch", *_COMMAND_KEYS)
_PATTERN_KEYS = ("pattern", "query", "regex", "search_term", "search")
_OLD_KEYS, _NEW_KEYS = (
    tuple(names.split())
    for names in (
        "old_string oldText oldString old_str old_text old_source search original",
        "new_string newText newString new_str new_text new_source replace replacement",
    )
)
_BODY_KEYS = ("content", "file_text", "contents", "text", "code")
_FOLDER_KEYS = ("workdir", "cwd", "working_directory")
# Not Codex' `justification`, which asks the user for leave.
_PURPOSE_KEYS = ("description", "explanation")
_RUNNING_KEYS = ("session_id", "cell_id", "task_id", "bash_id", "shell_id")
_EDITOR_VERBS = {
    "view": Action.READ,
    "create": Action.WRITE,
    "str_replace": Action.EDIT,
    "insert": Action.EDIT,
    "undo_edit": Action.EDIT,
}
_PATCH_LINE = pattern(r"^\*\*\* (Update|Add|Delete) File: (.+)$", re.MULTILINE)
_PATCH_ACTIONS = {"Update": Action.EDIT, "Add": Action.WRITE, "Delete": Action.DELETE}


def read_call(name: Any, arguments: Any) -> tuple[CallEffect, ...]:
    """The effects of a call: one, or one for each file of a patch and each call of a script."""
    name = clean(name, 200) or "tool"
    script = _script(arguments)
    if script and (inner := calls_in_script(script)):
        return tuple(call for tool, body in inner for call in _read(tool, body))
    return _read(name, arguments)


def _script(arguments: Any) -> str:
    """The text of an input that is nothing else, if it calls tools."""
    if isinstance(arguments, (dict, Mapping)) and len(arguments) == 1:
        (arguments,) = arguments.values()
    return arguments if isinstance(arguments, str) and "tools." in arguments else ""


def listed_in(arguments: Any) -> Any:
    """The input of the newest call in a script that writes a list of tasks; `None`: none does."""
    script = _script(arguments)
    if "update_plan" not in script:
        return None
    lists = [body for tool, body in calls_in_script(script) if tool == "update_plan"]
    return lists[-1] if lists else None


def _read(name: str, arguments: Any) -> tuple[CallEffect, ...]:
    body = arguments if isinstance(arguments, (dict, Mapping)) else {}
    raw = flat_text(arguments if isinstance(arguments, str) else _first(body, _RAW_KEYS))
    if "*** Begin Patch" in raw:
        return _patch(name, raw)
    action = _action(name, body)
    if action is Action.POLL and "\x03" in clean(body.get("chars"), 100):
        action = Action.STOP
    return (_BUILDERS.get(action, _other)(action, name, body, raw),)


def _action(name: str, body: Mapping[str, Any]) -> Action:
    verb = body.get("command")
    if isinstance(verb, str) and verb in _EDITOR_VERBS and _path(body):
        return _EDITOR_VERBS[verb]
    action = _named_action(name)
    if action is Action.TODO:
        listed = _first(body, ("todos", "plan", "items", "tasks"))
        if isinstance(listed, str) or not (isinstance(listed, Sequence) and listed):
            action = None
    return action or _by_shape(body)


@lru_cache(maxsize=4096)
def _named_action(name: str) -> Action | None:
    short = name.lower().rsplit("__", 1)[-1].rsplit(".", 1)[-1].replace("-", "_")
    return _tools()[1].get(short)


def _by_shape(body: Mapping[str, Any]) -> Action:
    if _path(body):
        if _first(body, _NEW_KEYS) is not None or "edits" in body or "diff" in body:
            return Action.EDIT
        return Action.WRITE if _first(body, _BODY_KEYS) is not None else Action.READ
    if isinstance(_first(body, _COMMAND_KEYS), str):
        return Action.COMMAND
    if isinstance(_first(body, ("url", "uri")), str):
        return Action.FETCH
    if isinstance(body.get("todos"), Sequence) and not isinstance(body.get("todos"), str):
        return Action.TODO
    return Action.SEARCH if isinstance(_first(body, _PATTERN_KEYS), str) else Action.OTHER


def _first(body: Mapping[str, Any], keys: Sequence[str]) -> Any:
    for key in keys:
        if body.get(key) is not None:
            return body[key]
    return None


def _path(body: Mapping[str, Any]) -> str:
    value = _first(body, _PATH_KEYS)
    return clean(value, 1000).strip() if isinstance(value, str) else ""


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 < value < 1 << 40 else 0


def _file_read(action: Action, name: str, body: Mapping[str, Any], raw: str) -> CallEffect:
    target = _path(body) or raw
    span = body.get("view_range")
    # Of most it is missing, and to ask whether that is a sequence takes a while.
    if span and isinstance(span, Sequence) and len(span) == 2 and not isinstance(span, str):
        lines, start, end = 0, _number(span[0]), _number(span[1])
    else:
        lines = _number(body.get("limit"))
        start = _number(body.get("offset", body.get("start_line")))
        end = _number(body.get("end_line"))
    lines = lines or (max(0, end - start + 1) if end else 0)
    return CallEffect(action, name, target, start=start, lines=lines)


def _file_change(action: Action, name: str, body: Mapping[str, Any], raw: str) -> CallEffect:
    code = _first(body, _NEW_KEYS) or _first(body, _BODY_KEYS) or body.get("diff")
    edits = body.get("edits")
    if code is None and isinstance(edits, Sequence) and not isinstance(edits, str):
        parts = [_replaced(edit) for edit in edits if isinstance(edit, (dict, Mapping))]
        added, removed = ("\n…\n".join(filter(None, (part[at] for part in parts))) for at in (0, 1))
        return CallEffect(action, name, _path(body), added, removed)
    if action is Action.EDIT and isinstance(_first(body, _OLD_KEYS), str):
        added, removed = _replaced(body)
        anchor = "" if body.get("replace_all") else clean(_first(body, _OLD_KEYS)).strip("\n")
        return CallEffect(action, name, _path(body), added, removed, anchor)
    return CallEffect(action, name, _path(body), clean(code))


def _replaced(edit: Mapping[str, Any]) -> tuple[str, str]:
    """The lines that an edit adds, and those that it takes out: what stands in both only says where it was made."""
    old, new = (clean(_first(edit, keys)).split("\n") for keys in (_OLD_KEYS, _NEW_KEYS))
    before, after = ({row.strip() for row in rows} for rows in (old, new))
    added = "\n".join(row for row in new if row.strip() not in before)
    return added, "\n".join(row for row in old if row.strip() not in after)


PURPOSE_CHARS = 120  # of what a command is for; models write a few words


def _command(action: Action, name: str, body: Mapping[str, Any], raw: str) -> CallEffect:
    command = _first(body, _COMMAND_KEYS)
    if isinstance(command, Sequence) and not isinstance(command, str):
        words = [clean(word) for word in command if isinstance(word, str)]
        # `["bash", "-lc", script]`: the script is what was run.
        command = words[-1] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
    folder = clean(_first(body, _FOLDER_KEYS), 500)
    target = clean(command) if isinstance(command, str) else raw
    purpose = " ".join(clean(_first(body, _PURPOSE_KEYS), PURPOSE_CHARS).split())
    return CallEffect(action, name, target, folder=folder, purpose=purpose)


def _search(action: Action, name: str, body: Mapping[str, Any], raw: str) -> CallEffect:
    pattern = clean(_first(body, (*_PATTERN_KEYS, "operation")))
    where = _path(body) or clean(body.get("glob"), 200)
    joined = f"{pattern} in {where}" if pattern and where else pattern or where
    return CallEffect(action, name, joined or flat_text(body)[:300])


def _about(*keys: str) -> Any:
    def build(action: Action, name: str, body: Mapping[str, Any], raw: str) -> CallEffect:
        first = _first(body, keys)
        named = str(first) if _number(first) else clean(first)
        return CallEffect(action, name, named or flat_text(body)[:2000] or raw[:2000])

    return build


def _other(action: Action, name: str, body: Mapping[str, Any], raw: str) -> CallEffect:
    pairs = [
        f"{clean(key, 60)}={' '.join(flat_text(value)[:200].split())}"
        for key, value in list(body.items())[:8]
    ]
    return CallEffect(action, name, ", ".join(pairs) or raw[:300])


_BUILDERS: dict[Action, Any] = {
    Action.READ: _file_read,
    Action.EDIT: _file_change,
    Action.WRITE: _file_change,
    Action.DELETE: _file_change,
    Action.COMMAND: _command,
    Action.SEARCH: _search,
    Action.FETCH: _about("url", "uri", "query"),
    Action.PLAN: _about("plan"),
    Action.AGENT: _about("description", "message", "prompt"),
    Action.SKILL: _about("skill", "name", "command"),
    Action.FIND_TOOL: _about("query"),
    Action.TASK_CREATE: _about("subject", "description"),
    Action.TASK_UPDATE: _about("taskId"),
    Action.POLL: _about(*_RUNNING_KEYS),
    Action.STOP: _about(*_RUNNING_KEYS),
}


def _patch(name: str, text: str) -> tuple[CallEffect, ...]:
    heads = list(_PATCH_LINE.finditer(text))
    calls = []
    for place, head in enumerate(heads):
        stop = heads[place + 1].start() if place + 1 < len(heads) else len(text)
        rows = text[head.end() : stop].splitlines()
        added, removed = ("\n".join(row[1:] for row in rows if row.startswith(sign)) for sign in "+-")  # fmt: skip
        calls.append(CallEffect(_PATCH_ACTIONS[head[1]], name, head[2].strip(), added, removed))
    return tuple(calls) or (CallEffect(Action.OTHER, name, text[:300]),)


def _script_line(script: str) -> str:
    """The commands of a script in one line; a script with texts inside it as it is."""
    rows = [row for row in script.replace("\\\n", " ").split("\n") if row.strip()]
    if "<<" in script or any(row.count(mark) % 2 for row in rows for mark in "'\""):
        return script
    ends = ("&&", "||", "|", ";", "do", "then", "else", "{", "(")
    return "".join(
        row if row.rstrip().endswith(ends) else f"{row.rstrip()}; " for row in rows
    ).removesuffix("; ")


def describe(call: CallEffect, limit: int = 160) -> str:
    """One line for a user: the tool and its target, cut between words, a path between folders."""
    is_file = call.action in (Action.READ, Action.EDIT, Action.WRITE, Action.DELETE)
    target = call.target[-limit * 4 :] if is_file else call.target[: limit * 4]
    if call.action is Action.COMMAND and "\n" in target:
        target = _script_line(target)
    target = " ".join(target.split())
    if len(target) > limit:
        if is_file:
            end = target[1 - limit :]
            at = end.find("/")
            target = "…" + (end[at:] if 0 < at < limit // 2 else end)
        else:
            words = target[:limit].rpartition(" ")[0].rstrip()
            target = (words if len(words) > limit // 2 else target[: limit - 1]) + "…"
    return f"{call.name} {target}".strip()

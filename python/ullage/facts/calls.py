"""What a tool call does, from its name or, for unknown tools, from the shape of its input."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from ullage._late import pattern
from ullage.facts.reading import clean, flat_text
from ullage.facts.scripts import calls_in_script

__all__ = ["Action", "CallEffect", "describe", "read_call"]


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
    OTHER = "other"


class CallEffect(NamedTuple):
    """One effect of a tool call; a patch has one for each of its files."""

    action: Action
    name: str
    target: str  # path, command, pattern, URL, question, prompt: the subject of the call
    code: str = ""  # the text that an edit or write inserts
    start: int = 0  # first line that a read asks for, 0: from the top
    lines: int = 0  # number of lines that a read asks for, 0: to the end


_BY_NAME: dict[str, Action] = {
    name: action
    for action, names in {
        Action.READ: "read view read_file open_file cat_file notebookread view_image fs_read",
        Action.EDIT: "edit multiedit notebookedit str_replace replace_in_file apply_diff edit_file "
        "search_replace replace insert_edit_into_file",
        Action.WRITE: "write create create_file write_to_file write_file fs_write new_file",
        Action.DELETE: "delete_file remove_file",
        Action.COMMAND: "bash shell exec exec_command local_shell execute_command run_command "
        "run_terminal_cmd run_shell_command terminal powershell run_commands execute_bash",
        Action.SEARCH: "grep glob ls search search_files list_files list_dir find_file find "
        "search_dir search_file file_search grep_search codebase_search lsp ripgrep",
        Action.FETCH: "webfetch websearch web_search web_fetch fetch browser open_url",
        Action.TODO: "todowrite update_plan write_todos todo_write manage_todo_list",
        Action.TASK_CREATE: "taskcreate",
        Action.TASK_UPDATE: "taskupdate",
        Action.ASK: "askuserquestion request_user_input ask_followup_question ask_user",
        Action.PLAN: "exitplanmode exit_plan_mode",
        Action.AGENT: "task agent spawn_agent dispatch_agent new_task",
        Action.SKILL: "skill use_skill",
        Action.FIND_TOOL: "toolsearch tool_search",
        Action.POLL: "wait wait_agent write_stdin taskoutput bashoutput read_thread_terminal",
    }.items()
    for name in names.split()
}

_PATH_KEYS = ("file_path", "path", "notebook_path", "filename", "file", "filePath", "absolute_path")
_COMMAND_KEYS = ("command", "cmd", "script", "commands")
_PATTERN_KEYS = ("pattern", "query", "regex", "search_term", "search")
_NEW_KEYS = ("new_string", "new_str", "new_text", "new_source", "replace", "replacement")
_BODY_KEYS = ("content", "file_text", "contents", "text", "code")
_EDITOR_VERBS = {
    "view": Action.READ,
    "create": Action.WRITE,
    "str_replace": Action.EDIT,
    "insert": Action.EDIT,
    "undo_edit": Action.EDIT,
}
_PATCH_LINE = pattern(r"^\*\*\* (Update|Add|Delete) File: (.+)$", re.MULTILINE)
_PATCH_ACTIONS = {"Update": Action.EDIT, "Add": Action.WRITE, "Delete": Action.DELETE}


def read_call(name: Any, given: Any) -> tuple[CallEffect, ...]:
    """The effects of a call: one, or one for each file of a patch and each call of a script."""
    name = clean(name, 200) or "tool"
    script = given if isinstance(given, str) else _script(given)
    inner = calls_in_script(script) if script else []
    if inner:
        return tuple(call for tool, body in inner for call in _read(tool, body))
    return _read(name, given)


def _script(given: Any) -> str:
    """The one string of an input that holds nothing else, if it calls tools."""
    values = list(given.values()) if isinstance(given, (dict, Mapping)) and len(given) == 1 else []
    only = values[0] if values else ""
    return only if isinstance(only, str) and "tools." in only else ""


def _read(name: str, given: Any) -> tuple[CallEffect, ...]:
    body = given if isinstance(given, (dict, Mapping)) else {}
    raw = given if isinstance(given, str) else _first(body, ("input", "patch", *_COMMAND_KEYS))
    raw = raw if isinstance(raw, str) else flat_text(raw)
    if "*** Begin Patch" in raw:
        return _patch(name, clean(raw))
    action = _action(name, body, raw)
    return (_BUILDERS.get(action, _other)(action, name, body, raw),)


def _action(name: str, body: Mapping[str, Any], raw: str) -> Action:
    verb = body.get("command")
    if isinstance(verb, str) and verb in _EDITOR_VERBS and _path(body):
        return _EDITOR_VERBS[verb]
    short = name.lower().rsplit("__", 1)[-1].rsplit(".", 1)[-1].replace("-", "_")
    known = _BY_NAME.get(short)
    if known is not None and not (known is Action.TODO and not _list(body)):
        return known
    return _by_shape(body)


def _by_shape(body: Mapping[str, Any]) -> Action:
    if _path(body):
        if _first(body, _NEW_KEYS) is not None or "edits" in body or "diff" in body:
            return Action.EDIT
        return Action.WRITE if _first(body, _BODY_KEYS) is not None else Action.READ
    for keys, action in ((_COMMAND_KEYS, Action.COMMAND), (("url", "uri"), Action.FETCH)):
        if isinstance(_first(body, keys), str):
            return action
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


def _list(body: Mapping[str, Any]) -> Sequence[Any]:
    value = _first(body, ("todos", "plan", "items", "tasks"))
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 < value < 1 << 40 else 0


def _file_read(action: Action, name: str, body: Mapping[str, Any], raw: str) -> CallEffect:
    target = _path(body) or raw
    span = body.get("view_range")
    if isinstance(span, Sequence) and len(span) == 2 and not isinstance(span, str):
        first, last = _number(span[0]), _number(span[1])
        return CallEffect(
            action, name, target, start=first, lines=max(0, last - first + 1) if last else 0
        )
    start = _number(body.get("offset", body.get("start_line")))
    lines = _number(body.get("limit"))
    end = _number(body.get("end_line"))
    return CallEffect(
        action, name, target, start=start, lines=lines or max(0, end - start + 1) * bool(end)
    )


def _file_change(action: Action, name: str, body: Mapping[str, Any], raw: str) -> CallEffect:
    code = _first(body, _NEW_KEYS) or _first(body, _BODY_KEYS) or body.get("diff")
    edits = body.get("edits")
    if code is None and isinstance(edits, Sequence) and not isinstance(edits, str):
        parts = (_first(edit, _NEW_KEYS) for edit in edits if isinstance(edit, (dict, Mapping)))
        code = "\n…\n".join(clean(part) for part in parts if isinstance(part, str))
    return CallEffect(action, name, _path(body), code=clean(code))


def _command(action: Action, name: str, body: Mapping[str, Any], raw: str) -> CallEffect:
    command = _first(body, _COMMAND_KEYS)
    if isinstance(command, Sequence) and not isinstance(command, str):
        words = [clean(word) for word in command if isinstance(word, str)]
        # `["bash", "-lc", script]`: the script is what was run.
        command = words[-1] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
    return CallEffect(action, name, clean(command) if isinstance(command, str) else raw)


def _search(action: Action, name: str, body: Mapping[str, Any], raw: str) -> CallEffect:
    pattern = clean(_first(body, (*_PATTERN_KEYS, "operation")))
    where = _path(body) or clean(body.get("glob"), 200)
    joined = f"{pattern} in {where}" if pattern and where else pattern or where
    return CallEffect(action, name, joined or flat_text(body)[:300])


def _about(*keys: str) -> Any:
    def build(action: Action, name: str, body: Mapping[str, Any], raw: str) -> CallEffect:
        return CallEffect(
            action, name, clean(_first(body, keys)) or flat_text(body)[:2000] or raw[:2000]
        )

    return build


def _other(action: Action, name: str, body: Mapping[str, Any], raw: str) -> CallEffect:
    pairs = (f"{clean(k, 60)}={_short(v)}" for k, v in list(body.items())[:8])
    return CallEffect(action, name, ", ".join(pairs) or raw[:300])


def _short(value: Any) -> str:
    return " ".join(flat_text(value)[:200].split())


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
}


def _patch(name: str, text: str) -> tuple[CallEffect, ...]:
    heads = list(_PATCH_LINE.finditer(text))
    calls = []
    for place, head in enumerate(heads):
        stop = heads[place + 1].start() if place + 1 < len(heads) else len(text)
        added = (line[1:] for line in text[head.end() : stop].splitlines() if line.startswith("+"))
        calls.append(
            CallEffect(_PATCH_ACTIONS[head[1]], name, head[2].strip(), code="\n".join(added))
        )
    return tuple(calls) or (CallEffect(Action.OTHER, name, text[:300]),)


def describe(call: CallEffect, limit: int = 160) -> str:
    """One line for a user: the tool and its target."""
    target = " ".join(call.target[: limit * 4].split())
    if len(target) > limit:
        target = target[: limit - 1].rstrip() + "…"
    return f"{call.name} {target}".strip()

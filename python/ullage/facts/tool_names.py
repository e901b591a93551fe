"""The kind of tool that a name means, however an agent spells it: `Read`, `read_file`, `mcp__fs__read_file` are one family.

Settings that name tools use this, so that no tool is special because of its spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from ullage._late import pattern

__all__ = ["family_of", "matches"]

_FAMILIES: dict[str, str] = {
    "read": "read file_read view view_file open_file cat_file cat notebook_read read_notebook read_text_file read_many_files "
    "read_multiple_files get_file_contents get_file_content file_contents load_file show_file fs_read read_file_tool read_lines "
    "view_image read_file",
    "write": "write write_file create_file save_file write_to_file new_file file_write fs_write write_text_file overwrite_file",
    "edit": "edit multi_edit edit_file notebook_edit edit_notebook str_replace str_replace_editor str_replace_based_edit_tool "
    "replace_in_file apply_patch apply_diff patch update_file insert_content search_and_replace search_replace modify_file "
    "insert_edit_into_file replace file_edit",
    "shell": "bash shell sh run_shell run_command run_commands execute_command run_terminal_command run_terminal_cmd run_in_terminal "
    "terminal exec exec_command local_shell run_shell_command execute_bash execute_shell powershell cmd run_bash bash_tool "
    "shell_exec container_exec",
    "search": "grep grep_files grep_search search_files ripgrep rg code_search codebase_search find_in_files text_search search_code "
    "search_text search_dir search_in_files file_grep",
    "glob": "glob find_files list_files ls list list_dir list_directory dir file_glob glob_files find_file file_search "
    "search_file",
    "web search": "web_search search_web google_search google_web_search brave_search tavily_search internet_search",
    "web fetch": "web_fetch fetch fetch_url open_url read_url get_url visit scrape url_fetch http_get browser browse",
    "questions": "ask ask_user_question ask_user ask_followup_question ask_follow_up_question ask_human question questions "
    "ask_question ask_questions request_user_input human_input user_input prompt_user clarify get_user_input exit_plan_mode "
    "ask_clarification",
    "todos": "todo_write todo_read todo todos todo_list update_todos update_todo_list manage_todo_list write_todos read_todos "
    "update_plan task_list task_create task_update task_get",
    "agents": "task agent dispatch_agent spawn_agent sub_agent subagent delegate delegate_task new_task run_agent run_subagent "
    "agent_tool invoke_agent launch_agent call_agent task_output wait_agent handoff",
    "skills": "skill skills use_skill load_skill read_skill run_skill invoke_skill activate_skill",
    "memory": "memory memories memory_tool remember save_memory read_memory write_memory search_memory memory_search memory_read "
    "memory_write update_memory store_memory recall_memory",
    "recall": "recall",
    "snip": "snip",
}
_BY_NAME = {
    name.replace("_", ""): family for family, names in _FAMILIES.items() for name in names.split()
}
_BY_WORD = {
    "todo": "todos", "todos": "todos", "memory": "memory", "memories": "memory", "skill": "skills",
    "skills": "skills", "subagent": "agents", "subagents": "agents",
}  # fmt: skip
_ASKS = frozenset({"user", "human", "question", "questions"})

_LAST_PART = pattern(r"^.*(?:__|[./:])(?=[^_./:])", re.DOTALL)
_WORD = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_]+")


@lru_cache(maxsize=4096)
def family_of(name: str) -> str:
    """The family of a tool's name; empty if it belongs to none.

    Example:
        >>> [family_of(name) for name in ("Read", "mcp__fs__read_file", "runShell", "search_db")]
        ['read', 'read', 'shell', '']
    """
    words = [word.lower() for word in _WORD.findall(_LAST_PART.sub("", name[:200]))]
    known = _BY_NAME.get("".join(words))
    if known is not None or not words:
        return known or ""
    if "ask" in words and _ASKS.intersection(words):
        return "questions"
    return next((_BY_WORD[word] for word in (words[0], words[-1]) if word in _BY_WORD), "")


@lru_cache(maxsize=4096)
def _fits(name: str, wanted: str) -> bool:
    if fnmatchcase(name.lower(), wanted.lower()):
        return True
    if any(sign in wanted for sign in "*?["):
        return False
    family = family_of(wanted)
    return bool(family) and family_of(name) == family


def matches(name: str, wanted: Iterable[str]) -> bool:
    """Whether a tool is one of those that a setting names: by name or pattern in any case, or by family.

    Args:
        name: The tool's name.
        wanted: Names (`Read` means every tool that reads files) or patterns (`mcp__*` matches literally).

    Example:
        >>> matches("read_file", ["Read"]), matches("READ", ["read"]), matches("search_db", ["Read", "mcp__*"])
        (True, True, False)
    """
    return any(_fits(name, each) for each in wanted)

"""Definitions of the tools that a generated session uses, in Anthropic's form."""

from __future__ import annotations

from typing import Any

SYSTEM = (
    "You are a coding agent in a terminal. Work on the user's code with the tools you have. "
    "Read a file before you change it, run the tests after a change, and say plainly what you "
    "could not do."
)


def _tool(name: str, purpose: str, required: str, /, **optional: str) -> dict[str, Any]:
    properties: dict[str, Any] = {key: {"type": "string"} for key in required.split()}
    properties |= {key: {"type": kind} for key, kind in optional.items()}
    schema = {"type": "object", "properties": properties, "required": required.split()}
    return {"name": name, "description": purpose, "input_schema": schema}


TOOLS: tuple[dict[str, Any], ...] = (
    _tool("Read", "Read a file.", "file_path", offset="integer", limit="integer"),
    _tool("Grep", "Search file contents.", "pattern", path="string", output_mode="string"),
    _tool("Glob", "Find files by name.", "pattern", path="string"),
    _tool("Bash", "Run a shell command.", "command", description="string", timeout="integer"),
    _tool(
        "Edit", "Replace text in a file.", "file_path old_string new_string", replace_all="boolean"
    ),
    _tool("Write", "Write a file.", "file_path content"),
    _tool("TodoWrite", "Keep the list of steps.", "", todos="array"),
    _tool("Task", "Give a task to a sub-agent.", "description prompt", subagent_type="string"),
    _tool("WebFetch", "Fetch a page.", "url prompt"),
    _tool("AskUserQuestion", "Ask the user to choose.", "question", options="array"),
)

WEB_SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}

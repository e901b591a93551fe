"""`toolUseResult`: the copy of a result that a terminal shows and no model sees."""

from __future__ import annotations

from typing import Any

from ullage.messages import Block

__all__ = ["ui_copy"]


def ui_copy(call: Block, result: Block) -> Any:
    """What a client would store with this result; a string for an error."""
    content, given = result.get("content"), call.get("input") or {}
    if result.get("is_error"):
        return f"Error: {content}"
    if not isinstance(content, str):
        return _media(content)
    make = _BY_TOOL.get(str(call.get("name")))
    return make(given, content) if make else {"content": content}


def _media(content: Any) -> Any:
    first = content[0] if isinstance(content, list) and content else {}
    if first.get("type") != "image":
        return {"status": "completed", "content": content, "totalToolUseCount": 3}
    source = first["source"]
    file = {"base64": source["data"], "type": source["media_type"]}
    return {"type": "image", "file": {**file, "originalSize": len(source["data"]) * 3 // 4}}


def _read(given: dict[str, Any], content: str) -> dict[str, Any]:
    lines = content.count("\n") + 1
    text = "\n".join(line.partition("\t")[2] or line for line in content.split("\n"))
    file = {"filePath": given.get("file_path"), "content": text, "numLines": lines}
    start = given.get("offset", 1)
    return {"type": "text", "file": {**file, "startLine": start, "totalLines": start + lines - 1}}


def _bash(given: dict[str, Any], content: str) -> dict[str, Any]:
    return {"stdout": content, "stderr": "", "interrupted": False, "isImage": False}


def _edit(given: dict[str, Any], content: str) -> dict[str, Any]:
    patch = {"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 3, "lines": []}
    return {
        "filePath": given.get("file_path"),
        "oldString": given.get("old_string"),
        "newString": given.get("new_string"),
        "originalFile": f"{given.get('old_string')}\n",
        "structuredPatch": [patch],
        "userModified": False,
        "replaceAll": False,
    }


def _write(given: dict[str, Any], content: str) -> dict[str, Any]:
    path, text = given.get("file_path"), given.get("content")
    return {"type": "create", "filePath": path, "content": text, "structuredPatch": []}


def _grep(given: dict[str, Any], content: str) -> dict[str, Any]:
    lines = content.split("\n")
    return {
        "mode": "content",
        "numFiles": 0,
        "filenames": [],
        "content": content,
        "numLines": len(lines),
    }


def _glob(given: dict[str, Any], content: str) -> dict[str, Any]:
    names = content.split("\n")
    return {"filenames": names, "durationMs": 12, "numFiles": len(names), "truncated": False}


def _todos(given: dict[str, Any], content: str) -> dict[str, Any]:
    return {"oldTodos": [], "newTodos": given.get("todos", [])}


_BY_TOOL = {
    "Read": _read,
    "Bash": _bash,
    "Edit": _edit,
    "Write": _write,
    "Grep": _grep,
    "Glob": _glob,
    "TodoWrite": _todos,
}

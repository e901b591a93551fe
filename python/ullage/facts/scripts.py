"""Calls inside a script: some hosts let the model write a program that calls the tools.

Only literal arguments are read; what a program computes is not guessed.
"""

from __future__ import annotations

import re
from typing import Any

from ullage._late import orjson, pattern

__all__ = ["calls_in_script"]

MAX_CALLS = 40

_STRING = r'"(?P<{0}>(?:[^"\\]|\\.){{0,100000}})"'
_PATCH = pattern(
    r'"(?P<patch>\*\*\* Begin Patch(?:[^"\\]|\\.){0,400000})"|`(?P<raw>\*\*\* Begin Patch[^`]{0,400000})`'
)
_CALL = pattern(r"\btools\.(?P<tool>\w{1,80})\(")
_COMMAND = pattern(r"""["']?(?:cmd|command)["']?\s*:\s*""" + _STRING.format("text"))


def calls_in_script(text: str) -> list[tuple[str, Any]]:
    """Name and input of each tool call in a program; `[]` if the text is none.

    Args:
        text: JavaScript or Python that calls `tools.<name>({...})`.
    """
    heads = list(_CALL.finditer(text))[:MAX_CALLS]
    if not heads:
        return []
    patch = _PATCH.search(text)
    found: list[tuple[str, Any]] = []
    for place, head in enumerate(heads):
        stop = heads[place + 1].start() if place + 1 < len(heads) else len(text)
        found.append((head["tool"], _given(head["tool"], text[head.end() : stop], patch)))
    return found


def _given(tool: str, arguments: str, patch: re.Match[str] | None) -> Any:
    if tool == "apply_patch" and patch is not None:
        return {"patch": patch["raw"] or _decoded(patch["patch"])}
    command = _COMMAND.search(arguments)
    if command is not None:
        return {"command": _decoded(command["text"])}
    return {"arguments": arguments[:300]}


def _decoded(escaped: str) -> str:
    try:
        value = orjson.loads(f'"{escaped}"')
    except ValueError:
        return escaped
    return value if isinstance(value, str) else escaped

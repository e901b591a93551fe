"""G: Gemini's form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.oracle.checker.report import Finding, error

__all__ = ["check_gemini"]

_DATA = (
    "text inlineData fileData functionCall functionResponse executableCode codeExecutionResult"
).split()


def check_gemini(body: dict[str, Any]) -> Iterator[Finding]:
    """Roles, pairs, signatures of the current turn."""
    given = body.get("contents")
    # A content without a role is the user's.
    contents = [_content_of(item) for item in given] if isinstance(given, list) else []
    if not contents or contents[0].get("role") != "user":
        yield error("G01", (0 if contents else -1, -1), "contents must begin with a user turn")
    for index, content in enumerate(contents):
        yield from _content(index, content)
        before = contents[index - 1] if index else {}
        if index and content.get("role") == before.get("role"):
            yield error("G01", (index, -1), "roles must alternate between 'user' and 'model'")
        yield from _calls(index, contents)
    if contents and _named(contents[-1], "functionCall"):
        yield error("G06", (len(contents) - 1, -1), "the history must not end with a function call")
    yield from _signatures(body, contents)


def _content_of(item: Any) -> dict[str, Any]:
    return {"role": "user", **item} if isinstance(item, dict) else {}


def _parts(content: dict[str, Any]) -> list[Any]:
    parts = content.get("parts")
    return parts if isinstance(parts, list) else []


def _named(content: dict[str, Any], kind: str) -> list[Any]:
    found = [part.get(kind) for part in _parts(content) if isinstance(part, dict)]
    return [value for value in found if isinstance(value, dict)]


def _content(index: int, content: dict[str, Any]) -> Iterator[Finding]:
    parts = _parts(content)
    if not parts:
        yield error("G05", (index, -1), "contents.parts must not be empty")
    for at, part in enumerate(parts):
        if not isinstance(part, dict) or not any(key in part for key in _DATA):
            text = f"contents[{index}].parts[{at}].data: required oneof field 'data' must have one field"
            yield error("G05", (index, at), text)


def _calls(index: int, contents: list[dict[str, Any]]) -> Iterator[Finding]:
    """G02, G03: where calls may stand and what must come next."""
    calls = _named(contents[index], "functionCall")
    before = contents[index - 1] if index else {}
    after = contents[index + 1] if index + 1 < len(contents) else {}
    if calls and before.get("role") != "user":
        text = (
            "Please ensure that function call turn comes immediately after a user turn or after a "
            "function response turn."
        )
        yield error("G02", (index, -1), text)
    answers = _named(after, "functionResponse")
    names = [value.get("name") for value in calls]
    if calls and after and names != [value.get("name") for value in answers]:
        text = (
            "Please ensure that the number of function response parts is equal to the number of "
            "function call parts of the function call turn."
        )
        yield error("G03", (index + 1, -1), text)
    if _named(contents[index], "functionResponse") and not _named(before, "functionCall"):
        yield error("G03", (index, -1), "function response parts without function calls before")


def _signatures(body: dict[str, Any], contents: list[dict[str, Any]]) -> Iterator[Finding]:
    """G04: in the current turn the first call of each step is signed (Gemini 3 and later)."""
    if "gemini-3" not in str(body.get("model", "gemini-3")):
        return
    words = [
        index
        for index, content in enumerate(contents)
        if content.get("role") == "user" and not _named(content, "functionResponse")
    ]
    for index in range(words[-1] + 1 if words else 0, len(contents)):
        parts = [part for part in _parts(contents[index]) if isinstance(part, dict)]
        first = next((part for part in parts if "functionCall" in part), None)
        if first is not None and not first.get("thoughtSignature"):
            text = "Function call is missing a thought_signature in functionCall parts."
            yield error("G04", (index, parts.index(first)), text)

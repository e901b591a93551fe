"""A01 to A04 and A08: the envelope, the vocabulary of blocks and their keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.oracle.checker.report import Finding, error
from tests.oracle.checker.request import Place, Request, blocks_of, effort_only, is_blank, kind_of

__all__ = ["check_blocks", "check_envelope"]

MAX_MESSAGES = 100_000
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_PLAIN = "type cache_control"
KEYS: dict[str, frozenset[str]] = {
    kind: frozenset(f"{_PLAIN} {keys}".split())
    for kind, keys in {
        "text": "text citations",
        "image": "source transformations",
        "document": "source title context citations",
        "search_result": "source title content citations",
        "tool_result": "tool_use_id content is_error toolset_name",
        "container_upload": "file_id",
        "thinking": "thinking signature",
        "redacted_thinking": "data",
        "tool_use": "id name input caller toolset_name",
        "server_tool_use": "id name input caller",
        "mcp_tool_use": "id name input server_name",
        "mcp_tool_result": "tool_use_id content is_error",
        "web_search_tool_result": "tool_use_id content caller",
        "web_fetch_tool_result": "tool_use_id content caller",
        "code_execution_tool_result": "tool_use_id content",
        "bash_code_execution_tool_result": "tool_use_id content",
        "text_editor_code_execution_tool_result": "tool_use_id content",
        "tool_search_tool_result": "tool_use_id content",
        "advisor_tool_result": "tool_use_id content",
        "mcp_tool_listing": "mcp_server_name tools",
        "fallback": "from to trigger",
        "compaction": "content encrypted_content signature tool_changes",
        "tool_addition": "tool",
        "tool_removal": "tool",
        "tool_reference": "tool_name",
        "browser_state": "source url title tabs content",
    }.items()
}
_USER = frozenset("text image document search_result tool_result container_upload".split())
_NESTED = frozenset("text image document search_result tool_reference browser_state".split())
_SYSTEM = frozenset({"text", "tool_addition", "tool_removal"})
# A document directly in an assistant message has a rule of its own, A20.
_ASSISTANT = (frozenset(KEYS) - _USER - _NESTED - _SYSTEM) | {"text", "document"}
# A compaction block may be the first block of the first message, whoever's that is.
_ALLOWED = {"user": _USER | {"compaction"}, "assistant": _ASSISTANT, "system": _SYSTEM}
_MESSAGE_KEYS = {
    "user": frozenset({"role", "content"}),
    "assistant": frozenset({"role", "content"}),
    "system": frozenset({"role", "content", "output_config", "clear_at"}),
}


def check_envelope(request: Request) -> Iterator[Finding]:
    """A01: a list of messages, none too many, roles that exist."""
    found = request.body.get("messages")
    if not isinstance(found, list):
        yield error("A01", (-1, -1), "messages: Input should be a valid list")
    elif not found:
        yield error("A01", (-1, -1), "messages: at least one message is required")
    elif len(found) > MAX_MESSAGES:
        text = f"messages: List should have at most {MAX_MESSAGES} items"
        yield error("A01", (-1, -1), text)
    for index in range(len(request.messages)):
        if request.role(index) not in _ALLOWED:
            text = f"messages.{index}.role: Input should be 'user', 'assistant' or 'system'"
            yield error("A01", (index, -1), text)


def check_blocks(request: Request) -> Iterator[Finding]:
    """A02, A03, A04, A08: each message and block by itself, and ids used twice."""
    seen: set[str] = set()
    for index in range(len(request.messages)):
        yield from _content(request, index)
    for place in request.places():
        yield from _block(request, place)
        if kind_of(place.value) == "tool_use":
            yield from _call(place, seen)


def _content(request: Request, index: int) -> Iterator[Finding]:
    role, content, message = request.role(index), request.content(index), request.messages[index]
    if isinstance(message, dict):
        for key in sorted(map(str, message.keys() - _MESSAGE_KEYS.get(role, message.keys()))):
            path = f"messages.{index}.{key}"
            yield error("A04", (index, -1), f"{path}: Extra inputs are not permitted")
    last_words = (
        role == "assistant" and index == len(request.messages) - 1 and request.facts.prefill
    )
    if not isinstance(content, str | list):
        if not effort_only(message):
            yield error(
                "A02", (index, -1), f"messages.{index}.content: Input should be a valid list"
            )
    elif not content and not last_words and not effort_only(message):
        yield error("A02", (index, -1), f"messages.{index}: {_EMPTY}")
    elif is_blank(content) and content:
        yield error("A02", (index, -1), _BLANK)


_EMPTY = "all messages must have non-empty content except for the optional final assistant message"
_BLANK = "messages: text content blocks must contain non-whitespace text"


def _block(request: Request, place: Place) -> Iterator[Finding]:
    kind, role = kind_of(place.value), request.role(place.message)
    allowed = _ALLOWED.get(role, frozenset(KEYS))
    if kind not in allowed:
        tags = ", ".join(f"'{tag}'" for tag in sorted(allowed))
        text = f"{place.path}: Input tag '{kind}' found using 'type' does not match any of the "
        yield error("A03", place.at, f"{text}expected tags: {tags}")
        return
    yield from _keys(place, place.value, place.path)
    if kind == "text" and not isinstance(request.content(place.message), str):
        yield from _text(place)
    if kind == "tool_result":
        yield from _result(place)
    if kind == "search_result":
        for inner in blocks_of(place.value.get("content")):
            yield from _says_something(place, inner)


def _keys(place: Place, block: dict[str, Any], path: str) -> Iterator[Finding]:
    for key in sorted(map(str, block.keys() - KEYS[block["type"]])):
        text = f"{path}.{block['type']}.{key}: Extra inputs are not permitted"
        yield error("A04", place.at, text)


def _text(place: Place) -> Iterator[Finding]:
    text = place.value.get("text")
    if not isinstance(text, str):
        yield error("A02", place.at, f"{place.path}.text.text: Input should be a valid string")
    elif not text:
        yield error("A02", place.at, "messages: text content blocks must be non-empty")
    elif is_blank(text):
        yield error("A02", place.at, _BLANK)


def _result(place: Place) -> Iterator[Finding]:
    content = place.value.get("content")
    if content is not None and not isinstance(content, str | list):
        yield error(
            "A03", place.at, f"{place.path}.tool_result.content: Input should be a valid list"
        )
    for at, inner in enumerate(blocks_of(content)):
        path = f"{place.path}.tool_result.content.{at}"
        if kind_of(inner) not in _NESTED:
            text = f"{path}: Input tag '{kind_of(inner)}' found using 'type' does not match"
            yield error("A03", place.at, text)
        else:
            yield from _keys(place, inner, path)
            yield from _says_something(place, inner)
            for deeper in blocks_of(inner.get("content")) if isinstance(inner, dict) else ():
                yield from _says_something(place, deeper)


def _says_something(place: Place, inner: Any) -> Iterator[Finding]:
    if kind_of(inner) == "text" and not (
        isinstance(inner.get("text"), str) and inner["text"].strip()
    ):
        yield error("A02", place.at, _BLANK)


def _call(place: Place, seen: set[str]) -> Iterator[Finding]:
    name, path = place.value.get("id"), f"{place.path}.tool_use"
    if not isinstance(name, str) or not _ID.fullmatch(name):
        text = f"{path}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        yield error("A08", place.at, text)
    elif name in seen:
        yield error("A08", place.at, f"{place.path}: `tool_use` ids must be unique")
    else:
        seen.add(name)
    if not isinstance(place.value.get("input"), dict):
        yield error("A08", place.at, f"{path}.input: Input should be a valid dictionary")

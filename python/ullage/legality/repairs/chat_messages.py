"""Repairs of the chat form, each message by itself: roles, content, and the form of tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.legality.repairs.block_forms import dumps
from ullage.legality.repairs.chat_draft import ChatLine, Lines
from ullage.legality.repairs.texts import DOCUMENT, IMAGE, left_out
from ullage.messages import THINKING
from ullage.providers.registry import ChatRules

__all__ = ["normal"]

USER, ASSISTANT, TOOL = "user", "assistant", "tool"
_ROLES = {"human": USER, "model": ASSISTANT, "ai": ASSISTANT, "bot": ASSISTANT}
_KNOWN = (USER, ASSISTANT, TOOL, "function", "system", "developer")
_PLACEHOLDERS = {"image": IMAGE, "image_url": IMAGE, "document": DOCUMENT, "file": DOCUMENT}


def normal(work: Lines, rules: ChatRules, strict: bool) -> None:
    """Makes every line a message of the form, with content that its role may have; what says nothing goes."""
    work.lines = [line for line in work.lines if _readable(work, line)]
    work.make_plain("O06")
    kept = []
    for line in work.lines:
        if line.get("role") is None:
            kept.append(line)
            continue
        _calls(work, line)
        _content(work, line)
        if strict and line.get("role") == ASSISTANT and line.get("content") is None:
            work.note("O10", line, "made null content an empty string")
            line.put(content="")
        if _says_something(line, rules):
            kept.append(line)
        else:
            work.note("O04", line, "dropped a message without content")
    work.lines = kept


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
    if not isinstance(role, str) or role not in _KNOWN:
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
    made = (
        [new for call in calls if (new := _call(call))] if isinstance(calls, list | tuple) else []
    )
    if not made:
        work.note("O03", line, "removed a list without tool calls")
        line.drop("tool_calls")
    elif len(made) != len(calls) or any(a is not b for a, b in zip(made, calls, strict=True)):
        work.note("O03", line, "put tool calls into their form")
        line.put(tool_calls=made)


def _call(call: Any) -> Any:
    if not isinstance(call, Mapping):
        return None
    key = next((key for key in ("function", "custom") if isinstance(call.get(key), Mapping)), "")
    if not key:
        body = {"name": str(call.get("name", "")), "arguments": _arguments(call)}
        return {"id": call.get("id"), "type": "function", "function": body}
    if key == "custom" or isinstance(call[key].get("arguments"), str):
        return call
    return {**call, key: {**call[key], "arguments": _arguments(call[key])}}


def _arguments(body: Mapping[str, Any]) -> str:
    given = body.get("arguments", body.get("input"))
    return given if isinstance(given, str) else dumps({} if given is None else given)


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
    elif any(a is not b for a, b in zip(parts, content, strict=True)):
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
    known = ("tool_use", "tool_result", *THINKING, "search_result")
    more = ("container_upload", "compaction", "fallback", "tool_addition", "tool_removal")
    return kind in (*known, *more, "server_tool_use", "mcp_tool_use") or kind.endswith(
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

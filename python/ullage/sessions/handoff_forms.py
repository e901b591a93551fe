"""The files of other tools that a session is written as: Claude Code's, Codex', pi's, OpenCode's."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ullage.facts.reading import blocks_of
from ullage.messages import Item, role_of
from ullage.recall.searched_text import content_text
from ullage.sessions.handoff_job import FLAGS, Handoff
from ullage.sessions.handoff_opencode import (
    opencode_id,
    opencode_lines,
    opencode_path,
    opencode_resume,
)
from ullage.sessions.native_append import shown
from ullage.sessions.usual_folders import claude_folder, codex_folder, pi_folder
from ullage.transcript.log import line_of

__all__ = ["FORMS", "ToolForm"]

CODEX_NOTE = "internal_chat_message_metadata_passthrough"


@dataclass(frozen=True, slots=True)
class ToolForm:
    """One tool's.

    Attributes:
        provider: Whose rules its context follows.
        new_id: A new session's id.
        path: Where the session's file lies.
        lines: Its bytes.
        resume: The command that goes on; empty: the tool's usual one.
    """

    provider: str
    new_id: Callable[[datetime], str]
    path: Callable[[Handoff], Path]
    lines: Callable[[Handoff], bytes]
    resume: Callable[[Handoff, Path], str] = lambda job, path: ""


def _uuid(now: datetime) -> str:
    return str(uuid.uuid4())


def _joined(lines: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(line_of(line, at) for at, line in enumerate(lines))


# ---- Claude Code -----------------------------------------------------------------------------


def _claude_path(job: Handoff) -> Path:
    slug = "".join(char if char.isascii() and char.isalnum() else "-" for char in job.cwd)
    return claude_folder() / "projects" / slug / f"{job.name}.jsonl"


def _claude_lines(job: Handoff) -> bytes:
    head = {"isSidechain": False, "userType": "external", "cwd": job.cwd, "sessionId": job.name}
    made: list[dict[str, Any]] = []
    parent: str | None = None
    for item in job.items:
        role, own = str(role_of(item)), str(uuid.uuid4())
        message = {"role": role, "content": item["message"]["content"]}
        if role == "assistant":
            known = item["message"]
            answer = {
                "id": known.get("id") or f"msg_{own}",
                "type": "message",
                "model": known.get("model") or job.model,
            }
            message = {**answer, **message}
        flags = {flag: True for flag in FLAGS if item.get(flag) is True}
        line = {"parentUuid": parent, **head, "version": "2.1.232", "gitBranch": "", "type": role}
        made.append(
            {**line, "message": message, **flags, "uuid": own, "timestamp": job.stamp(item)}
        )
        parent = own
    if job.title:
        made.append({"type": "custom-title", "customTitle": job.title, "sessionId": job.name})
    return _joined(made)


# ---- Codex -----------------------------------------------------------------------------------


def _codex_path(job: Handoff) -> Path:
    folder = codex_folder() / "sessions" / f"{job.now:%Y}" / f"{job.now:%m}" / f"{job.now:%d}"
    return folder / f"rollout-{job.now:%Y-%m-%dT%H-%M-%S}-{job.name}.jsonl"


def _codex_lines(job: Handoff) -> bytes:
    meta = {
        "id": job.name,
        "timestamp": job.stamp(),
        "cwd": job.cwd,
        "originator": "ullage",
        "cli_version": "0.142.5",
    }
    meta |= {"source": "cli", "model_provider": "openai"}
    made: list[dict[str, Any]] = [
        {"timestamp": job.stamp(), "type": "session_meta", "payload": meta}
    ]
    for item, payload in _codex_items(job.items):
        stamp = job.stamp(item)
        note = _codex_note(item, payload)
        told = {**payload, CODEX_NOTE: note} if note else payload
        made.append({"timestamp": stamp, "type": "response_item", "payload": told})
        made += [
            {"timestamp": stamp, "type": "event_msg", "payload": event}
            for event in _codex_events(item, payload)
        ]
    return _joined(made)


def _codex_note(item: Item, payload: Mapping[str, Any]) -> dict[str, bool]:
    """What the API has no word for: the entry's flags, and that a call failed."""
    if payload.get("type") == "message":
        return {flag: True for flag in FLAGS if item.get(flag) is True}
    failed = {
        str(block.get("tool_use_id"))
        for block in blocks_of(item)
        if block.get("type") == "tool_result" and block.get("is_error") is True
    }
    call = payload.get("call_id")
    return {"isError": True} if "output" in payload and call in failed else {}


def _codex_items(items: Sequence[Item]) -> Iterator[tuple[Item, dict[str, Any]]]:
    """Items of the API, each with the entry that it was made of: written at once, so that ids agree."""
    everything = shown("codex", items)
    at = 0
    for item in items:
        own = len(shown("codex", [item]))
        for payload in everything[at : at + own]:
            yield item, payload
        at += own
    for payload in everything[at:]:
        yield items[-1], payload


def _codex_events(item: Item, payload: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What Codex shows of a message, and lists a session by."""
    if payload.get("type") != "message" or any(item.get(flag) is True for flag in FLAGS):
        return
    text = "\n".join(str(part.get("text", "")) for part in payload.get("content") or ())
    kind = {"user": "user_message", "assistant": "agent_message"}.get(str(payload.get("role")))
    if kind and text:
        yield {"type": kind, "message": text}


# ---- pi --------------------------------------------------------------------------------------


def _pi_path(job: Handoff) -> Path:
    folder = job.cwd.lstrip("/\\").translate(str.maketrans("/\\:", "---"))
    stamp = f"{job.now:%Y-%m-%dT%H-%M-%S}-{job.now.microsecond // 1_000:03}Z"
    return pi_folder() / "sessions" / f"--{folder}--" / f"{stamp}_{job.name}.jsonl"


def _pi_lines(job: Handoff) -> bytes:
    made: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": job.name, "timestamp": job.stamp(), "cwd": job.cwd}
    ]
    names = {
        str(block.get("id")): str(block.get("name"))
        for item in job.items
        for block in blocks_of(item)
        if block.get("type") == "tool_use"
    }
    parent = None
    for item in job.items:
        flags = {flag: True for flag in FLAGS if item.get(flag) is True}
        for message in _pi_messages(job, item, names):
            line = {"type": "message", "id": secrets.token_hex(4), "parentId": parent}
            said = {**message, "timestamp": job.milliseconds}
            made.append({**line, "timestamp": job.stamp(item), "message": said, **flags})
            parent = line["id"]
    return _joined(made)


def _pi_messages(job: Handoff, item: Item, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    blocks = list(blocks_of(item))
    if role_of(item) == "assistant":
        usage = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
        cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
        calls = any(block.get("type") == "tool_use" for block in blocks)
        answer = {
            "api": "anthropic-messages",
            "provider": "anthropic",
            "model": item["message"].get("model") or job.model,
        }
        answer |= {"usage": {**usage, "cost": cost}, "stopReason": "toolUse" if calls else "stop"}
        yield {
            "role": "assistant",
            "content": [found for block in blocks if (found := _pi_block(block))],
            **answer,
        }
        return
    for block in blocks:
        if block.get("type") == "tool_result":
            call = str(block.get("tool_use_id"))
            result = {
                "role": "toolResult",
                "toolCallId": call,
                "toolName": names.get(call, "unknown"),
            }
            content = _pi_content(block.get("content"))
            yield {**result, "content": content, "isError": block.get("is_error") is True}
    said = [
        found
        for block in blocks
        if block.get("type") != "tool_result" and (found := _pi_block(block))
    ]
    if said:
        yield {"role": "user", "content": said}


def _pi_content(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, list):
        found = [
            made for block in content if isinstance(block, Mapping) and (made := _pi_block(block))
        ]
        if found:
            return found
    text = content_text(content)
    return [{"type": "text", "text": text}] if text.strip() else []


def _pi_block(block: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = block.get("type")
    if kind == "text":
        return {"type": "text", "text": str(block.get("text", ""))}
    if kind == "tool_use":
        return {
            "type": "toolCall",
            "id": block.get("id"),
            "name": block.get("name"),
            "arguments": block.get("input"),
        }
    if kind == "thinking":
        thought = {"type": "thinking", "thinking": str(block.get("thinking", ""))}
        return (
            {**thought, "thinkingSignature": block["signature"]}
            if block.get("signature")
            else thought
        )
    source = block.get("source")
    if kind == "image" and isinstance(source, Mapping) and source.get("type") == "base64":
        return {"type": "image", "data": source.get("data"), "mimeType": source.get("media_type")}
    return None


FORMS: Mapping[str, ToolForm] = {
    "claude-code": ToolForm("anthropic", _uuid, _claude_path, _claude_lines),
    "codex": ToolForm("openai_responses", _uuid, _codex_path, _codex_lines),
    "pi": ToolForm("anthropic", _uuid, _pi_path, _pi_lines),
    "opencode": ToolForm("anthropic", opencode_id, opencode_path, opencode_lines, opencode_resume),
}
"""By the name of `ullage handoff --to`."""

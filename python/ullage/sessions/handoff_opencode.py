"""A session as OpenCode imports it: messages with parts, a call and its result in one part."""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from ullage.facts.reading import blocks_of
from ullage.messages import Item, is_summary, role_of
from ullage.recall.searched_text import content_text
from ullage.sessions.handoff_job import Handoff
from ullage.sessions.usual_folders import state_folder

__all__ = ["opencode_id", "opencode_lines", "opencode_path", "opencode_resume"]

_OPENCODE_VERSION = "1.18.0"


def opencode_id(now: datetime) -> str:
    """A new session's id."""
    return _ascending("ses", int(now.timestamp() * 1_000), 0)


def _ascending(prefix: str, milliseconds: int, count: int) -> str:
    """OpenCode's ids grow with time: 48 bits of it, then random characters."""
    moment = (milliseconds * 4_096 + count) & 0xFFFFFFFFFFFF
    return f"{prefix}_{moment:012x}{secrets.token_hex(7)}"


def opencode_path(job: Handoff) -> Path:
    """The file to import: OpenCode itself keeps sessions in a database."""
    return state_folder() / "handoff" / f"{job.name}.json"


def opencode_resume(job: Handoff, path: Path) -> str:
    """The commands that import it and go on."""
    return f"opencode import {shlex.quote(str(path))} && opencode --session {job.name}"


def opencode_lines(job: Handoff) -> bytes:
    """What `opencode export` would write."""
    time = {"created": job.milliseconds, "updated": job.milliseconds}
    info: dict[str, Any] = {
        "id": job.name,
        "slug": f"handed-over-{job.name[-6:]}",
        "projectID": "global",
        "directory": job.cwd,
    }
    info |= {"title": job.title or "Handed over", "version": _OPENCODE_VERSION, "time": time}
    try:
        return orjson.dumps({"info": info, "messages": _OpenCodeMessages(job).made})
    except orjson.JSONEncodeError:  # lone surrogates, large numbers
        return json.dumps({"info": info, "messages": _OpenCodeMessages(job).made}).encode()


class _OpenCodeMessages:
    """Messages with their parts: a call and its result are one part."""

    def __init__(self, job: Handoff) -> None:
        self._job = job
        self._count = 0
        self._results = {
            str(block.get("tool_use_id")): block
            for item in job.items
            for block in blocks_of(item)
            if block.get("type") == "tool_result"
        }
        self._parent = ""
        self.made: list[dict[str, Any]] = []
        for item in job.items:
            self._add(item)

    def _next(self, prefix: str) -> str:
        self._count += 1
        return _ascending(prefix, self._job.milliseconds, self._count)

    def _add(self, item: Item) -> None:
        assistant = role_of(item) == "assistant"
        parts = [part for block in blocks_of(item) if (part := self._part(item, block, assistant))]
        if not parts:
            return
        name = self._next("msg")
        head = {"id": name, "sessionID": self._job.name, "agent": "build"}
        info = self._answer(item, head) if assistant else self._asked(head)
        if not assistant:
            self._parent = name
        known = [
            {"id": self._next("prt"), "sessionID": self._job.name, "messageID": name, **part}
            for part in (
                [{"type": "step-start"}, *parts, _step_finish(parts)] if assistant else parts
            )
        ]
        self.made.append({"info": info, "parts": known})

    def _asked(self, head: dict[str, Any]) -> dict[str, Any]:
        model = {"providerID": "anthropic", "modelID": self._job.model or "unknown"}
        return {**head, "role": "user", "time": {"created": self._job.milliseconds}, "model": model}

    def _answer(self, item: Item, head: dict[str, Any]) -> dict[str, Any]:
        time = {"created": self._job.milliseconds, "completed": self._job.milliseconds}
        model = item["message"].get("model") or self._job.model or "unknown"
        told = {"role": "assistant", "time": time, "parentID": self._parent, "modelID": model}
        told |= {"providerID": "anthropic", "mode": "build", "cost": 0, "tokens": _no_tokens()}
        return {**head, **told, "path": {"cwd": self._job.cwd, "root": self._job.cwd}}

    def _part(self, item: Item, block: Mapping[str, Any], assistant: bool) -> dict[str, Any] | None:
        kind, moment = (
            block.get("type"),
            {"start": self._job.milliseconds, "end": self._job.milliseconds},
        )
        if kind == "text":
            part: dict[str, Any] = {"type": "text", "text": str(block.get("text", ""))}
            if not assistant and item.get("isMeta") is True:
                part["synthetic"] = True
            return {**part, "metadata": {"ullage": "summary"}} if is_summary(item) else part
        if kind == "thinking" and assistant:
            signature = block.get("signature")
            signed = {"metadata": {"anthropic": {"signature": signature}}} if signature else {}
            return {
                "type": "reasoning",
                "text": str(block.get("thinking", "")),
                "time": moment,
                **signed,
            }
        if kind == "tool_use":
            return self._call(block, moment)
        source = block.get("source")
        if kind == "image" and isinstance(source, Mapping) and source.get("type") == "base64":
            url = f"data:{source.get('media_type')};base64,{source.get('data')}"
            return {
                "type": "file",
                "mime": source.get("media_type"),
                "filename": "image",
                "url": url,
            }
        return None

    def _call(self, block: Mapping[str, Any], moment: Mapping[str, int]) -> dict[str, Any]:
        result = self._results.get(str(block.get("id")))
        part = {"type": "tool", "callID": block.get("id"), "tool": block.get("name")}
        state: dict[str, Any] = {"input": block.get("input") or {}, "time": moment}
        text = content_text(result.get("content")) if result else "The call was not answered."
        if result is None or result.get("is_error") is True:
            return {**part, "state": {**state, "status": "error", "error": text}}
        done = {
            "status": "completed",
            "output": text,
            "title": str(block.get("name")),
            "metadata": {},
        }
        return {**part, "state": {**state, **done}}


def _step_finish(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    calls = any(part.get("type") == "tool" for part in parts)
    return {
        "type": "step-finish",
        "reason": "tool-calls" if calls else "stop",
        "cost": 0,
        "tokens": _no_tokens(),
    }


def _no_tokens() -> dict[str, Any]:
    return {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}

"""A made machine: a home folder with sessions of every tool, and the variables that point to it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

__all__ = ["IDS", "Machine", "opencode_export", "rollout"]

IDS = {
    "claude-code": "11111111-aaaa-4bbb-8ccc-000000000001",
    "codex": "019f0000-1111-7222-8333-000000000002",
    "pi": "22222222-bbbb-4ccc-8ddd-000000000003",
    "gemini": "33333333-cccc-4ddd-8eee-000000000004",
    "copilot": "44444444-dddd-4eee-8fff-000000000005",
    "opencode": "ses_469cf929cffeBICghRNeI7BWy6",
}
WORDS = "The parser drops the last row when the file has no line end. "
STAMP = "2026-01-01T00:00:00.000Z"


def lines(path: Path, objects: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    return path


def claude_lines(name: str, cwd: str, *, turns: int = 3, title: str = "") -> list[dict[str, Any]]:
    """A linked session, one call a turn."""
    made: list[dict[str, Any]] = []
    parent: str | None = None

    def put(role: str, content: Any, **more: Any) -> None:
        nonlocal parent
        uuid = f"{len(made):08x}-0000-4000-8000-000000000000"
        line = {"type": role, "uuid": uuid, "parentUuid": parent, "sessionId": name, "cwd": cwd}
        message = {"role": role, "content": content, **more}
        made.append({**line, "timestamp": STAMP, "isSidechain": False, "message": message})
        parent = uuid

    for at in range(turns):
        put("user", f"{at}: {WORDS}")
        use = {"type": "tool_use", "id": f"toolu_{at}", "name": "Read"}
        use["input"] = {"file_path": f"/w/src/file_{at}.py"}
        usage = {"input_tokens": 4_000 + at, "output_tokens": 100}
        answer = {"id": f"msg_{at}", "model": "claude-opus-4-5", "usage": usage}
        put("assistant", [use], **answer)
        put("user", [{"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": WORDS * 9}])
        put(
            "assistant",
            [{"type": "text", "text": f"Done with {at}."}],
            **{**answer, "id": f"end_{at}"},
        )
    if title:
        made.append({"type": "custom-title", "customTitle": title, "sessionId": name})
    return made


def rollout(name: str, cwd: str, *, turns: int = 3) -> list[dict[str, Any]]:
    """A session as Codex writes it."""
    meta = {"id": name, "cwd": cwd, "cli_version": "0.142.5", "model_provider": "openai"}
    made: list[dict[str, Any]] = [{"type": "session_meta", "payload": meta}]
    made.append({"type": "turn_context", "payload": {"model": "gpt-5.1-codex", "cwd": cwd}})
    for at in range(turns):
        given = json.dumps({"command": ["cat", f"src/file_{at}.py"]})
        call = {
            "type": "function_call",
            "name": "shell",
            "call_id": f"call_{at}",
            "arguments": given,
        }
        items = [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": f"{at}: {WORDS}"}],
            },
            call,
            {"type": "function_call_output", "call_id": f"call_{at}", "output": WORDS * 9},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": f"Done with {at}."}],
            },
        ]
        made += [{"type": "response_item", "payload": item} for item in items]
        usage = {"input_tokens": 3_000, "cached_input_tokens": 1_000, "output_tokens": 50}
        info = {"last_token_usage": usage, "model_context_window": 272_000}
        made.append({"type": "event_msg", "payload": {"type": "token_count", "info": info}})
    return [{"timestamp": STAMP, **line} for line in made]


def pi_lines(name: str, cwd: str, *, turns: int = 3) -> list[dict[str, Any]]:
    """A session as pi writes it, with ids and links."""
    made: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": name, "timestamp": STAMP, "cwd": cwd}
    ]
    parent = None
    for at in range(turns):
        call = {
            "type": "toolCall",
            "id": f"call_{at}",
            "name": "read",
            "arguments": {"path": f"f{at}.py"},
        }
        model = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4-5"}
        usage = {"input": 900, "output": 20, "cacheRead": 100, "cacheWrite": 0}
        for said in (
            {"role": "user", "content": [{"type": "text", "text": f"{at}: {WORDS}"}]},
            {"role": "assistant", "content": [call], **model, "usage": usage, "stopReason": "toolUse"},
            {"role": "toolResult", "toolCallId": f"call_{at}", "toolName": "read", "isError": False,
             "content": [{"type": "text", "text": WORDS * 9}]},
            {"role": "assistant", "content": [{"type": "text", "text": f"Done with {at}."}], **model,
             "usage": usage, "stopReason": "stop"},
        ):  # fmt: skip
            line = {
                "type": "message",
                "id": f"{len(made):08x}",
                "parentId": parent,
                "timestamp": STAMP,
            }
            made.append({**line, "message": said})
            parent = line["id"]
    return made


def gemini_lines(name: str, *, turns: int = 3) -> list[dict[str, Any]]:
    """A recording of the Gemini CLI in lines."""
    made: list[dict[str, Any]] = [
        {"sessionId": name, "projectHash": "p", "startTime": STAMP, "lastUpdated": STAMP}
    ]
    for at in range(turns):
        done = {
            "functionResponse": {"id": f"g{at}", "name": "read_file", "response": {"output": WORDS}}
        }
        call = {
            "id": f"g{at}",
            "name": "read_file",
            "args": {"path": f"f{at}"},
            "status": "success",
        }
        tokens = {"input": 500, "output": 20, "cached": 100, "thoughts": 5, "tool": 0, "total": 525}
        said = {
            "id": f"m{at}",
            "type": "gemini",
            "content": "",
            "toolCalls": [{**call, "result": [done]}],
        }
        made += [
            {
                "id": f"u{at}",
                "timestamp": STAMP,
                "type": "user",
                "content": [{"text": f"{at}: {WORDS}"}],
            },
            {**said, "toolCalls": [call], "timestamp": STAMP, "model": "gemini-3-pro"},
            {**said, "timestamp": STAMP, "model": "gemini-3-pro", "tokens": tokens},
            {"id": f"e{at}", "timestamp": STAMP, "type": "gemini", "content": f"Done with {at}."},
        ]
    return [*made, {"$set": {"summary": "Rows at the end"}}]


def copilot_lines(name: str, cwd: str, *, turns: int = 3) -> list[dict[str, Any]]:
    """Events of the Copilot CLI."""
    made: list[dict[str, Any]] = [
        {"type": "session.start", "data": {"sessionId": name, "cwd": cwd}}
    ]
    for at in range(turns):
        call = {"toolCallId": f"p{at}", "name": "view", "arguments": {"path": f"f{at}"}}
        made += [
            {"type": "user.message", "data": {"content": f"{at}: {WORDS}"}},
            {"type": "assistant.message", "data": {"content": "", "toolRequests": [call]}},
            {"type": "tool.execution_complete",
             "data": {"toolCallId": f"p{at}", "success": True, "result": {"content": WORDS}}},
            {"type": "assistant.message", "data": {"content": f"Done with {at}."}},
        ]  # fmt: skip
    return [{"timestamp": STAMP, "id": str(at), **line} for at, line in enumerate(made)]


def opencode_export(name: str, cwd: str, *, turns: int = 3, summary: int = -1) -> dict[str, Any]:
    """What `opencode export` prints; `summary` is the turn that a compaction follows."""
    info = {"id": name, "projectID": "global", "directory": cwd, "title": "Rows at the end"}
    messages: list[dict[str, Any]] = []

    def put(role: str, parts: list[dict[str, Any]], **more: Any) -> None:
        own = f"msg_{len(messages):04}"
        head = {"id": own, "sessionID": name, "role": role, "time": {"created": 1_600_000_000_000}}
        known = [
            {"id": f"prt_{len(messages):04}{at}", "sessionID": name, "messageID": own, **part}
            for at, part in enumerate(parts)
        ]
        messages.append({"info": {**head, **more}, "parts": known})

    model = {"modelID": "claude-opus-4-5", "providerID": "anthropic"}
    for at in range(turns):
        put("user", [{"type": "text", "text": f"{at}: {WORDS}"}])
        state = {"status": "completed", "input": {"filePath": f"f{at}"}, "output": WORDS * 9}
        tokens = {"input": 900, "output": 20, "reasoning": 0, "cache": {"read": 100, "write": 0}}
        put(
            "assistant",
            [
                {"type": "step-start"},
                {
                    "type": "tool",
                    "callID": f"o{at}",
                    "tool": "read",
                    "state": {**state, "time": {}},
                },
                {"type": "step-finish"},
            ],
            **model,
            tokens=tokens,
        )
        put("assistant", [{"type": "text", "text": f"Done with {at}."}], **model, tokens=tokens)
        if at == summary:
            put("user", [{"type": "compaction", "auto": True}])
            put("assistant", [{"type": "text", "text": "So far: all read."}], **model, summary=True)
    info |= {
        "version": "1.18.0",
        "time": {"created": 1_600_000_000_000, "updated": 1_600_000_000_000},
    }
    return {"info": info, "messages": messages}


def store_opencode(folder: Path, session: dict[str, Any]) -> None:
    """A session as older versions of OpenCode keep it: one file for each part."""
    name = session["info"]["id"]
    files = {folder / "session" / "global" / f"{name}.json": session["info"]}
    for each in session["messages"]:
        own = each["info"]["id"]
        files[folder / "message" / name / f"{own}.json"] = each["info"]
        for part in each["parts"]:
            files[folder / "part" / own / f"{part['id']}.json"] = part
    for path, value in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))


def store_opencode_database(path: Path, session: dict[str, Any]) -> None:
    """A session as newer versions of OpenCode keep it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    info, name = session["info"], session["info"]["id"]
    store = sqlite3.connect(path)
    store.executescript(
        "CREATE TABLE session (id, project_id, parent_id, directory, title, version, time_created, time_updated);"
        "CREATE TABLE message (id, session_id, time_created, time_updated, data);"
        "CREATE TABLE part (id, message_id, session_id, time_created, time_updated, data);"
    )
    created = info["time"]["created"]
    row = (name, info["projectID"], None, info["directory"], info["title"], info["version"])
    store.execute("INSERT INTO session VALUES (?,?,?,?,?,?,?,?)", (*row, created, created))
    for at, each in enumerate(session["messages"]):
        data = {key: value for key, value in each["info"].items() if key not in ("id", "sessionID")}
        own = each["info"]["id"]
        values = (own, name, created + at, created + at, json.dumps(data))
        store.execute("INSERT INTO message VALUES (?,?,?,?,?)", values)
        for part in each["parts"]:
            data = {k: v for k, v in part.items() if k not in ("id", "sessionID", "messageID")}
            values = (part["id"], own, name, created + at, created + at, json.dumps(data))
            store.execute("INSERT INTO part VALUES (?,?,?,?,?,?)", values)
    store.commit()
    store.close()


class Machine:
    """A home folder; `files` has the file of each tool's session.

    Args:
        home: Where it is made.
        patch: Sets the variables, and the user's home.
    """

    def __init__(self, home: Path, patch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.cwd = str(home / "work")
        self.slug = "".join(char if char.isalnum() else "-" for char in self.cwd)
        self.files: dict[str, Path] = {}
        self.variables = {
            "CLAUDE_CONFIG_DIR": home / "claude",
            "CODEX_HOME": home / "codex",
            "PI_CODING_AGENT_DIR": home / "pi",
            "GEMINI_CLI_HOME": home / "gem",
            "COPILOT_HOME": home / "copilot",
            "XDG_DATA_HOME": home / "data",
            "ULLAGE_HOME": home / "state",
        }
        patch.setenv("HOME", str(home))
        for name, value in self.variables.items():
            patch.setenv(name, str(value))
        self._clock = 1_700_000_000.0

    def put(self, tool: str, made: Iterable[Any], *, at: str) -> Path:
        """A session of lines; each is newer than the one before."""
        path = lines(self.home / at, made)
        self._clock += 60
        os.utime(path, (self._clock, self._clock))
        self.files[tool] = path
        return path

    def fill(self, *, turns: int = 3) -> Machine:
        """One session of each tool, Claude Code's the oldest."""
        name = IDS["claude-code"]
        made: Any = claude_lines(name, self.cwd, turns=turns, title="Fix the parser")
        self.put("claude-code", made, at=f"claude/projects/{self.slug}/{name}.jsonl")
        name = IDS["codex"]
        self.put("codex", rollout(name, self.cwd, turns=turns),
                 at=f"codex/sessions/2026/01/01/rollout-2026-01-01T00-00-00-{name}.jsonl")  # fmt: skip
        name = IDS["pi"]
        self.put("pi", pi_lines(name, self.cwd, turns=turns),
                 at=f"pi/sessions/--home-work--/2026-01-01T00-00-00-000Z_{name}.jsonl")  # fmt: skip
        made = gemini_lines(IDS["gemini"], turns=turns)
        self.put(
            "gemini", made, at="gem/.gemini/tmp/p/chats/session-2026-01-01T00-00-33333333.jsonl"
        )
        name = IDS["copilot"]
        made = copilot_lines(name, self.cwd, turns=turns)
        self.put("copilot", made, at=f"copilot/session-state/{name}/events.jsonl")
        return self

    def stored(self, *, database: bool, turns: int = 3) -> Machine:
        """A session of OpenCode, in files or in its database."""
        made = opencode_export(IDS["opencode"], self.cwd, turns=turns)
        folder = self.home / "data" / "opencode"
        if database:
            store_opencode_database(folder / "opencode.db", made)
        else:
            store_opencode(folder / "storage", made)
        return self

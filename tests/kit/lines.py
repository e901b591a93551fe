"""Writes the lines of a transcript one by one, and keeps the parent chain."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from ullage.messages import Block, Message
from ullage.testing.generator import Rng, Scenario

if TYPE_CHECKING:
    from tests.kit.transcripts import Layout

__all__ = ["LineWriter", "is_input"]

_ERROR = (
    'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},'
    '"request_id":"req_011CX7scripted"}'
)


_USAGE_KEYS = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)


def is_input(message: Message) -> bool:
    """Whether a user wrote it: a user message without results."""
    content = message["content"]
    if message["role"] != "user":
        return False
    return isinstance(content, str) or all(block["type"] != "tool_result" for block in content)


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


class LineWriter:
    """The lines so far, and where the next one hangs."""

    def __init__(self, rng: Rng, made: Scenario, layout: Layout) -> None:
        self.rows: list[dict[str, Any]] = []
        self.rng, self.made, self.layout = rng, made, layout
        self.session_id = rng.uuid()
        self._parent: str | None = None
        self._clock = made.times[0] if made.times else 0
        self._calls: dict[str, tuple[Block, str]] = {}  # tool use id → block, uuid of its line
        self._lines_of: dict[int, list[str]] = {}  # id() of a message → uuids of its lines
        self._cached = 0
        self._done: set[str] = set()
        self._weights: dict[int, tuple[Message, int]] = {}

    # ---- single lines ----

    def _stamp(self) -> str:
        moment = datetime.fromtimestamp(self._clock // 1000, UTC)
        stamp = f"{moment:%Y-%m-%dT%H:%M:%S}.{self._clock % 1000:03}Z"
        self._clock += 7
        return stamp

    def _line(self, kind: str, *, parent: str | None = None, **fields: Any) -> str:
        """A line of the tree, hanging on `parent` or else on the last line; its uuid."""
        name = self.rng.uuid()
        row = {
            "parentUuid": parent or self._parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": self.made.cwd,
            "sessionId": self.session_id,
            "version": self.layout.version,
            "gitBranch": "main",
            "type": kind,
            **fields,
            "uuid": name,
            "timestamp": self._stamp(),
        }
        self.rows.append(row)
        self._parent = name
        return name

    def _meta(self, kind: str, **fields: Any) -> None:
        """A line outside the tree."""
        self.rows.append({"type": kind, **fields})

    # ---- messages ----

    def message(self, index: int, message: Message, context: Sequence[Message]) -> None:
        """One message of the session."""
        self._clock = max(self._clock, self.made.times[index])
        before = len(self.rows)
        if message["role"] == "assistant":
            self._response(index, message, context)
        elif is_input(message):
            self._prompt(message)
        else:
            self._results(message)
        # Results that stand between the pieces of a response count as its lines.
        self._lines_of[id(message)] = [
            row["uuid"]
            for row in self.rows[before:]
            if row["type"] in ("user", "assistant")
            and not row["isSidechain"]
            and not row.get("isApiErrorMessage")
        ]

    def _prompt(self, message: Message) -> None:
        noisy = self.rng.chance(self.layout.noise)
        if noisy:
            self._noise_before(message)
        name = self._line("user", message=message, permissionMode="default")
        if noisy:
            snapshot = {"messageId": name, "trackedFileBackups": {}, "timestamp": self._stamp()}
            self._meta(
                "file-history-snapshot", messageId=name, snapshot=snapshot, isSnapshotUpdate=False
            )
            self._meta("last-prompt", lastPrompt="...", leafUuid=name, sessionId=self.session_id)
        if self.rng.chance(self.layout.attachments):
            self._attachment()

    def _noise_before(self, message: Message) -> None:
        queue = {"timestamp": self._stamp(), "sessionId": self.session_id}
        if isinstance(message["content"], str):
            self._meta("queue-operation", operation="enqueue", content=message["content"], **queue)
            self._meta("queue-operation", operation="dequeue", **queue)
        self._meta("mode", mode="normal", sessionId=self.session_id)
        if self.rng.chance(30):
            self._line("system", subtype="turn_duration", durationMs=72_958, isMeta=False)

    def _attachment(self) -> None:
        path = f"{self.made.cwd}/NOTES.md"
        file = {"filePath": path, "content": "Use pnpm.", "numLines": 1}
        shown = {"type": "text", "file": {**file, "startLine": 1, "totalLines": 1}}
        kinds: tuple[dict[str, Any], ...] = (
            {"type": "hook_success", "hookName": "UserPromptSubmit", "content": "", "exitCode": 0},
            {"type": "date_change", "newDate": "2026-03-16"},
            {"type": "queued_command", "prompt": "also look at the logs", "commandMode": "prompt"},
            {"type": "task_reminder", "content": [], "itemCount": 0},
            {"type": "file", "filename": path, "content": shown, "displayPath": "NOTES.md"},
        )
        self._line("attachment", attachment=dict(self.rng.pick(kinds)))

    def _response(self, index: int, message: Message, context: Sequence[Message]) -> None:
        """A line per block; results of some stand between them."""
        if self.rng.chance(self.layout.errors):
            self._api_error()
        blocks = _blocks(message["content"])
        envelope = {
            "model": self.made.model,
            "id": f"msg_01{self.rng.token(22)}",
            "type": "message",
            "role": "assistant",
        }
        calls = sum(1 for block in blocks if block["type"] == "tool_use")
        reason = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        usage, request = self._usage(message, context), f"req_011{self.rng.token(21)}"
        answers = (
            self._answers(index) if calls > 1 and self.rng.chance(self.layout.interleave) else {}
        )
        for block in blocks:
            body = {**envelope, "content": [block], **reason, "usage": usage}
            name = self._line("assistant", message=body, requestId=request)
            if block["type"] == "tool_use":
                self._calls[block["id"]] = (block, name)
                if block["id"] in answers:
                    self._result(answers.pop(block["id"]))

    def _answers(self, index: int) -> dict[str, Block]:
        """The results of a response by their ids, but for the last one and those with text after."""
        following = self.made.messages[index + 1 : index + 2]
        blocks = _blocks(following[0]["content"]) if following else []
        if not blocks or blocks[-1]["type"] != "tool_result":
            return {}
        return {block["tool_use_id"]: block for block in blocks[:-1]}

    def _results(self, message: Message) -> None:
        """A line per result, each hanging on its call's line; typed words go with the last."""
        blocks = [b for b in _blocks(message["content"]) if b.get("tool_use_id") not in self._done]
        words = [block for block in blocks if block["type"] != "tool_result"]
        results = [block for block in blocks if block["type"] == "tool_result"]
        for block in results:
            self._result(block, words if block is results[-1] else ())

    def _result(self, block: Block, words: Sequence[Block] = ()) -> None:
        call, line = self._calls[block["tool_use_id"]]
        if self.layout.sidechains and call["name"] == "Task":
            self._sidechain(call)
        if self.layout.progress and call["name"] == "Bash":
            data = {"type": "bash_progress", "output": "", "fullOutput": "", "totalLines": 0}
            use = {"toolUseID": "bash-progress-0", "parentToolUseID": block["tool_use_id"]}
            self._line("progress", parent=line, data=data, **use)
        fields: dict[str, Any] = {"message": {"role": "user", "content": [block, *words]}}
        if self.layout.ui_copies:
            fields["toolUseResult"] = ui_copy(call, block)
        self._line("user", parent=line, **fields, sourceToolAssistantUUID=line)
        self._done.add(block["tool_use_id"])

    def _sidechain(self, call: Block) -> None:
        """A sub-agent's two lines: a root of its own, not part of the chain."""
        parent, self._parent = self._parent, None
        prompt: Message = {"role": "user", "content": str(call["input"].get("prompt"))}
        self._line("user", message=prompt)
        body = {"model": self.made.model, "id": f"msg_01{self.rng.token(22)}", "type": "message"}
        text = {"type": "text", "text": "I looked at every caller."}
        usage = {"input_tokens": 900, "output_tokens": 40}
        self._line(
            "assistant", message={**body, "role": "assistant", "content": [text], "usage": usage}
        )
        for row in self.rows[-2:]:
            row["isSidechain"] = True
        self._parent = parent

    def _api_error(self) -> None:
        usage = dict.fromkeys(_USAGE_KEYS, 0)
        body: dict[str, Any] = {"id": self.rng.uuid(), "model": "<synthetic>", "type": "message"}
        body["role"], body["content"] = "assistant", [{"type": "text", "text": _ERROR}]
        body["stop_reason"], body["stop_sequence"], body["usage"] = "stop_sequence", "", usage
        self._line("assistant", message=body, error="unknown", isApiErrorMessage=True)

    # ---- usage ----

    def _usage(self, message: Message, context: Sequence[Message]) -> dict[str, Any]:
        """Figures that fit the content: the prompt grows by what was added, the rest is cached."""
        prompt = self.tokens(context)
        cached, self._cached = min(self._cached, prompt), prompt
        fresh = prompt - cached
        output = sum(map(_chars, _blocks(message["content"]))) * self.layout.usage_percent // 400
        return {
            "input_tokens": min(3, fresh),
            "cache_creation_input_tokens": max(0, fresh - 3),
            "cache_read_input_tokens": cached,
            "cache_creation": {"ephemeral_5m_input_tokens": max(0, fresh - 3)},
            "output_tokens": max(1, output),
            "service_tier": "standard",
        }

    def tokens(self, context: Sequence[Message]) -> int:
        """What the provider would report for these messages, with system prompt and tools."""
        chars = sum(map(self._weigh, context))
        return self.layout.overhead_tokens + chars * self.layout.usage_percent // 400

    def _weigh(self, message: Message) -> int:
        # The message is kept with its figure, so that its id() is not reused for another one.
        known = self._weights.get(id(message))
        if known is None:
            known = (message, sum(map(_chars, _blocks(message["content"]))))
            self._weights[id(message)] = known
        return known[1]

    # ---- boundaries ----

    def boundary(
        self, summary: Message, kept: Sequence[Message], before: Sequence[Message]
    ) -> None:
        """A compact boundary with its summary; kept messages are named, not written again."""
        tokens, last = self.tokens(before), self._parent
        metadata: dict[str, Any] = {"trigger": "auto", "preTokens": tokens}
        self._parent = None
        row_at = len(self.rows)
        self._line(
            "system", logicalParentUuid=last, subtype="compact_boundary", isMeta=False, level="info",
            content="Conversation compacted", compactMetadata=metadata,
        )  # fmt: skip
        anchor = self._line(
            "user", message=summary, isVisibleInTranscriptOnly=True, isCompactSummary=True
        )
        names = [name for message in kept for name in self._lines_of.get(id(message), [])]
        if names:
            ends = {"headUuid": names[0], "anchorUuid": anchor, "tailUuid": names[-1]}
            metadata["preservedSegment"] = ends
            metadata["preservedMessages"] = {
                "anchorUuid": anchor,
                "uuids": names,
                "allUuids": names,
            }
            if self.layout.linking == "tail":
                self._parent = names[-1]
        metadata["postTokens"] = self.tokens([summary, *kept])
        self.rows[row_at]["compactMetadata"] = metadata
        self._lines_of[id(summary)] = [anchor]
        self._cached = 0

    def microcompact(self, names: Sequence[str], context: Sequence[Message]) -> None:
        """A microcompact boundary: these results were cleared from the context."""
        after = self.tokens(context)
        metadata = {"trigger": "auto", "preTokens": after + 40_000, "tokensSaved": 40_000}
        metadata |= {"compactedToolIds": list(names), "clearedAttachmentUUIDs": []}
        self._line(
            "system", subtype="microcompact_boundary", content="Context microcompacted", isMeta=False,
            level="info", microcompactMetadata=metadata,
        )  # fmt: skip
        self._cached = 0


def _chars(block: Any) -> int:
    """Characters of a block as the rough estimate counts them."""
    kind = block.get("type")
    if kind in ("text", "thinking"):
        return len(block[kind])
    if kind in ("image", "document"):
        return 8_000
    if kind == "tool_use":
        return len(block["name"]) + len(orjson.dumps(block["input"]).decode())
    if kind == "tool_result":
        return sum(map(_chars, _blocks(block["content"])))
    return len(orjson.dumps(block).decode())


# ---- `toolUseResult`: the copy of a result that a terminal shows and no model sees ----


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

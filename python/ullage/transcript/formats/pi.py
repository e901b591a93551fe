"""Sessions of pi: a header, then messages, changes of model, and compactions.

A compaction keeps the entries from an index on (or from an id) verbatim after its summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ullage.messages import Block, is_summary
from ullage.providers._common import carrying
from ullage.transcript.formats import OpenedFile, ReadSession, ReadTranscript, usage_of
from ullage.transcript.records import as_mapping

FLAGS = ("isMeta", "isCompactSummary")
"""Of a session that was handed over: what its host wrote in the user's role, and its summary; pi passes over such keys."""

_ROLES = ("user", "assistant", "toolResult", "bashExecution")


def sniff(source: OpenedFile) -> bool:
    """Whether a file starts with pi's header or holds its messages."""
    first = source.head[:1]
    if first and first[0].get("type") == "session" and "cwd" in first[0]:
        return True
    return any(
        line.get("type") == "message"
        and as_mapping(line.get("message")).get("role") in _ROLES
        and "uuid" not in line
        for line in source.head
    )


def read(source: OpenedFile) -> ReadTranscript:
    """Reads a session, with a boundary at each compaction."""
    lines = list(source.lines())
    messages = (as_mapping(line.get("message")) for _, line in lines)
    answered = {str(one.get("toolCallId")) for one in messages if one.get("role") == "toolResult"}
    reader = _Reader(source, answered)
    path = path_of(lines)
    shown = None if path is None else {entry["id"] for entry in path}
    for number, line in lines:
        aside = shown is not None and _is_linked(line) and line["id"] not in shown
        reader.add(number, line, aside=aside)
    source.warnings.sort(key=lambda warning: warning[0])
    return ReadTranscript("pi", [reader.session])


def path_of(
    lines: Iterable[tuple[int, Mapping[str, Any]]], tip: str = ""
) -> list[Mapping[str, Any]] | None:
    """The entries of a file's lines from the first to the tip (empty: the newest): what lies on other branches was left by going back.

    `None` for a version without ids, and where a link leads nowhere: then every line counts.
    """
    lines_by_id = {line["id"]: line for _, line in lines if _is_linked(line)}
    path: list[Mapping[str, Any]] = []
    at = tip or next(reversed(lines_by_id), None)
    while at is not None:
        if at not in lines_by_id or len(path) > len(lines_by_id):
            return None
        path.append(lines_by_id[at])
        at = lines_by_id[at]["parentId"]
    return path[::-1] or None


def _is_linked(line: Mapping[str, Any]) -> bool:
    return isinstance(line.get("id"), str) and "parentId" in line


class _Reader:
    def __init__(self, source: OpenedFile, answered: set[str]) -> None:
        self.source = source
        self.session = ReadSession(source.stem, source.warn)
        self._flags: dict[str, bool] = {}  # of the line that is being read
        self._by_line: list[int] = []  # for each line of the file, how many entries stood before it
        self._by_id: dict[str, int] = {}
        self._answered = answered  # ids of calls that have a result

    def add(self, number: int, line: Mapping[str, Any], *, aside: bool = False) -> None:
        """Reads a line; `aside`: it lies on another branch."""
        self._by_line.append(len(self.session.entries))
        if aside:
            return
        if isinstance(line.get("id"), str):
            self._by_id[line["id"]] = len(self.session.entries)
        kind = line.get("type")
        if kind == "session":
            self.session.id = str(line.get("id") or self.session.id)
            self.session.metadata["cwd"] = line.get("cwd") or self.session.metadata.get("cwd")
        if kind in ("session", "model_change"):
            self.session.metadata["model"] = line.get("modelId") or self.session.metadata.get(
                "model"
            )
        elif kind == "compaction":
            self.compaction(number, line)
        elif kind == "message" and isinstance(line.get("message"), Mapping):
            self._flags = {flag: True for flag in FLAGS if line.get(flag) is True}
            self.message(number, line["message"], line.get("timestamp"))

    def message(self, number: int, message: Mapping[str, Any], stamp: Any) -> None:
        role = message.get("role")
        if role == "toolResult":
            if not self.session.add_result(_result(message), line=number, timestamp=stamp):
                self.source.warn(number, "a result apart from its call, moved next to it")
        elif role == "assistant":
            self.assistant(number, message, stamp)
        elif role == "bashExecution":
            user_message = {"role": "user", "content": _execution(message)}
            self.session.add(user_message, line=number, timestamp=stamp, isMeta=True)
        elif role == "user":
            user_message = {"role": "user", "content": _blocks(message)}
            self.session.add(user_message, line=number, timestamp=stamp, **self._flags)
        else:
            self.source.warn(number, f"role {role!r} is unknown, left out")

    def assistant(self, number: int, message: Mapping[str, Any], stamp: Any) -> None:
        failed = message.get("stopReason") in ("aborted", "error")
        blocks = _blocks(message)
        if failed:
            # Calls of a response that broke off were never run; their arguments may be half written.
            whole = [
                one for one in blocks if one["type"] != "tool_use" or one["id"] in self._answered
            ]
            if missing := len(blocks) - len(whole):
                self.source.warn(number, f"{missing} calls of an aborted response, left out")
            blocks = whole
        answer: dict[str, Any] = {
            "role": "assistant",
            "content": blocks,
            "id": f"{self.session.id}-r{number}",
            "model": message.get("model") or self.session.metadata.get("model"),
        }
        if not blocks:
            text = str(message.get("errorMessage") or message.get("stopReason") or "")
            answer["content"] = [{"type": "text", "text": text or "no answer"}]
            self.session.add(answer, line=number, timestamp=stamp, isApiErrorMessage=True)
            return
        usage = message.get("usage")
        if isinstance(usage, Mapping) and not failed:
            figures = usage_of(usage, "input", "output", "cacheRead", "cacheWrite")
            if any(figures.values()):  # pi needs the key, also in a session that was handed over
                answer["usage"] = figures
        self.session.add(answer, line=number, timestamp=stamp)

    def compaction(self, number: int, line: Mapping[str, Any]) -> None:
        first = line.get("firstKeptEntryIndex")
        if isinstance(first, int) and 0 <= first < len(self._by_line):
            start = self._by_line[first]
        else:
            start = self._by_id.get(str(line.get("firstKeptEntryId")), len(self.session.entries))
        # Messages only: a summary that stands between them is replaced by this one.
        uuids = [
            entry["uuid"]
            for entry in self.session.entries[start:]
            if "message" in entry and not is_summary(entry)
        ]
        stamp, tokens = line.get("timestamp"), line.get("tokensBefore") or 0
        boundary = self.session.boundary(line=number, timestamp=stamp, preTokens=tokens)
        message = {"role": "user", "content": str(line.get("summary", ""))}
        summary = self.session.add(message, line=number, timestamp=stamp, isCompactSummary=True)
        if uuids:
            preserved = {"anchorUuid": summary["uuid"], "uuids": uuids}
            boundary["compactMetadata"]["preservedMessages"] = preserved


def _blocks(message: Mapping[str, Any]) -> Any:
    content = message.get("content")
    if not isinstance(content, list):
        return content or ""
    anthropic = message.get("api") in (None, "anthropic-messages")
    return [_block(block, anthropic) for block in content if isinstance(block, Mapping)]


def _block(block: Mapping[str, Any], anthropic: bool) -> Block:
    kind = block.get("type")
    if kind == "toolCall":
        use = {"type": "tool_use", "id": block.get("id"), "name": block.get("name")}
        return {**use, "input": block.get("arguments") or {}}
    if kind == "thinking":
        thought: Block = {"type": "thinking", "thinking": block.get("thinking", "")}
        signature = block.get("thinkingSignature")
        if anthropic and signature:
            return {**thought, "signature": signature}
        return carrying(thought, "pi", {"thinkingSignature": signature})
    if kind == "text":
        return {"type": "text", "text": str(block.get("text", ""))}
    if kind == "image":
        source = {"type": "base64", "media_type": block.get("mimeType"), "data": block.get("data")}
        return {"type": "image", "source": source}
    return dict(block)


def _result(message: Mapping[str, Any]) -> Block:
    block: Block = {
        "type": "tool_result",
        "tool_use_id": message.get("toolCallId"),
        "content": _blocks({"content": message.get("content")}),
    }
    if message.get("isError"):
        block["is_error"] = True
    return block


def _execution(message: Mapping[str, Any]) -> str:
    """A command that the user ran, as text for the model."""
    output = str(message.get("output", "")).rstrip("\n")
    lines = [f"Ran `{message.get('command', '')}`", "```", output, "```"]
    if message.get("cancelled"):
        lines.append("(cancelled)")
    elif message.get("exitCode"):
        lines.append(f"(exit status {message['exitCode']})")
    if message.get("fullOutputPath"):
        lines.append(f"(shortened; all of it is in {message['fullOutputPath']})")
    return "\n".join(lines)

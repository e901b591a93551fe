"""Prompt growth between two calls of one session: what was added, and what it truly cost.

A *step* is two consecutive calls A and B of one model in one session. What B's prompt has more than A's is
A's answer and what was added since: tool results, user text. The figures are the provider's own; usage that
stands on several lines of one response counts once. A step is left out where what was added is not in the
file: a compaction, a boundary, an interrupted or synthetic answer, another model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Call:
    """One response, all its pieces, and what was said after it and before the next."""

    id: str
    model: str
    prompt: int
    output: int
    version: str
    blocks: list[dict[str, Any]] = field(default_factory=list)
    after: list[dict[str, Any]] = field(default_factory=list)
    broken: str = ""  # why the step to the next call cannot be measured
    reasoning: int = 0  # tokens of an answer that the file holds in no form


@dataclass(slots=True)
class Step:
    """What was added between two calls, and by how many tokens the prompt grew."""

    repository: str
    session: str
    model: str
    version: str
    tokens: int
    output: int
    items: list[dict[str, Any]]  # the assistant message, then what was added
    attachments: int  # entries that reach the model in a form that the file does not show

    @property
    def hidden(self) -> bool:
        """Whether thinking was sent that the file does not show in clear."""
        blocks = (block for item in self.items for block in content(item))
        return any(
            block.get("type") == "thinking" and not block.get("thinking") for block in blocks
        )


def content(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Blocks of a message; a string is one text block."""
    given = item.get("message", item).get("content")
    return [{"type": "text", "text": given}] if isinstance(given, str) else list(given or [])


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                yield entry


def prompt_tokens(usage: dict[str, Any]) -> int:
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(usage.get(name) or 0 for name in names)


def chains(path: Path) -> Iterable[list[Call]]:
    """Calls of one file in order, by conversation."""
    first = next(lines(path), {})
    if first.get("type") == "session_meta":
        return [codex(path)]
    if first.get("type") == "session":
        return [pi(path)]
    return claude_code(path)


def claude_code(path: Path) -> Iterator[list[Call]]:
    """One chain for the main conversation, one for each side conversation."""
    by_root: dict[str, list[Call]] = {}
    root_of: dict[str, str] = {}
    for entry in lines(path):
        uuid, parent = entry.get("uuid"), entry.get("parentUuid")
        side = bool(entry.get("isSidechain"))
        root = root_of.get(parent or "", uuid or "") if side else "main"
        if uuid:
            root_of[uuid] = root
        take(by_root.setdefault(root, []), entry)
    yield from by_root.values()


def take(calls: list[Call], entry: dict[str, Any]) -> None:
    kind = entry.get("type")
    message = entry.get("message")
    if kind == "assistant" and isinstance(message, dict):
        take_answer(calls, entry, message)
    elif not calls:
        return
    elif kind == "user" and isinstance(message, dict):
        if entry.get("isCompactSummary"):
            calls[-1].broken = "compacted"
        calls[-1].after.append(entry)
    elif kind == "attachment":
        calls[-1].after.append(entry)
    elif kind == "system" and "boundary" in str(entry.get("subtype")):
        calls[-1].broken = str(entry["subtype"])


def take_answer(calls: list[Call], entry: dict[str, Any], message: dict[str, Any]) -> None:
    if message.get("model") == "<synthetic>" or entry.get("isApiErrorMessage"):
        if calls:
            calls[-1].broken = "synthetic"
        return
    usage = message.get("usage") or {}
    known = next((call for call in reversed(calls[-8:]) if call.id == message.get("id")), None)
    if known is None:
        known = Call(
            message.get("id", ""),
            message["model"],
            prompt_tokens(usage),
            0,
            entry.get("version", ""),
        )
        calls.append(known)
    elif known is not calls[-1]:
        known.broken = calls[-1].broken = "interleaved"
    known.output = max(known.output, usage.get("output_tokens") or 0)
    known.blocks += [block for block in message.get("content") or [] if isinstance(block, dict)]


def steps(path: Path, repository: str) -> Iterator[Step]:
    for chain in chains(path):
        for call, after in pairwise(chain):
            if call.broken or call.model != after.model or not call.prompt or not after.prompt:
                continue
            added = [entry for entry in call.after if entry.get("type") != "attachment"]
            yield Step(
                repository,
                path.stem,
                call.model,
                call.version,
                after.prompt - call.prompt - call.reasoning,
                call.output,
                [{"role": "assistant", "content": call.blocks}, *added],
                len(call.after) - len(added),
            )


def corpus(root: Path, half: int | None = None) -> Iterator[Step]:
    """All steps of all transcripts under a folder; a repository is a folder right in it.

    `half` 0 or 1 takes every other session only, so that one half can be fitted on and the other measured.
    """
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        for at, path in enumerate(sorted(folder.rglob("*.jsonl"))):
            if half is None or at % 2 == half:
                yield from steps(path, folder.name)


# ---- pi --------------------------------------------------------------------------------------


def pi(path: Path) -> list[Call]:
    calls: list[Call] = []
    for entry in lines(path):
        message = entry.get("message")
        if entry.get("type") == "message" and isinstance(message, dict):
            take_pi(calls, message)
        elif calls and entry.get("type") == "compaction":
            calls[-1].broken = "compacted"
    return calls


def take_pi(calls: list[Call], message: dict[str, Any]) -> None:
    role, parts = message.get("role"), message.get("content") or []
    if role == "assistant":
        usage = message.get("usage") or {}
        prompt = sum(usage.get(name) or 0 for name in ("input", "cacheRead", "cacheWrite"))
        call = Call(
            str(len(calls)), str(message.get("model")), prompt, usage.get("output") or 0, "pi"
        )
        call.blocks = [pi_block(part) for part in parts]
        call.broken = "" if message.get("stopReason") in ("stop", "toolUse") else "stopped"
        calls.append(call)
    elif calls and role == "toolResult":
        result = {"type": "tool_result", "tool_use_id": message.get("toolCallId"), "content": parts}
        calls[-1].after.append({"role": "user", "content": [result]})
    elif calls and role == "user":
        calls[-1].after.append({"role": "user", "content": parts})
    elif calls:
        calls[-1].broken = str(role)


def pi_block(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") == "toolCall":
        return {
            "type": "tool_use",
            "id": part["id"],
            "name": part["name"],
            "input": part["arguments"],
        }
    if part.get("type") == "thinking":
        return {
            "type": "thinking",
            "thinking": part["thinking"],
            "signature": part.get("thinkingSignature", ""),
        }
    return part


# ---- Codex -----------------------------------------------------------------------------------

ANSWERS = ("reasoning", "function_call", "custom_tool_call")
RESULTS = ("function_call_output", "custom_tool_call_output")


def codex(path: Path) -> list[Call]:
    """Calls in order. Usage follows a call's own items, before or after the results of its tools."""
    calls: list[Call] = []
    model, done = "", True
    for entry in lines(path):
        payload = entry.get("payload") or {}
        kind = payload.get("type")
        if entry.get("type") == "turn_context":
            model = payload.get("model") or model
        elif entry.get("type") == "compacted" and calls:
            calls[-1].broken = "compacted"
        elif kind == "token_count" and payload.get("info") and calls:
            usage = payload["info"]["last_token_usage"]
            if not done:
                calls[-1].prompt = usage["input_tokens"]
                calls[-1].output = usage["output_tokens"]
                calls[-1].reasoning = usage["reasoning_output_tokens"]
            done = True
        elif entry.get("type") == "response_item":
            done = take_codex(calls, payload, model, done)
    return calls


def take_codex(calls: list[Call], item: dict[str, Any], model: str, done: bool) -> bool:
    kind = item.get("type")
    own = kind in ANSWERS or (kind == "message" and item.get("role") == "assistant")
    if own and (done or not calls):
        calls.append(Call(str(len(calls)), model, 0, 0, "codex"))
        done = False
    if not calls:
        return done
    if own:
        calls[-1].blocks += codex_blocks(item)
    elif kind in RESULTS:
        output = item.get("output")
        parts = output if isinstance(output, str) else [codex_part(part) for part in output or []]
        result = {"type": "tool_result", "tool_use_id": item.get("call_id"), "content": parts}
        calls[-1].after.append({"role": "user", "content": [result]})
    elif kind == "message":
        calls[-1].after.append(
            {"role": "user", "content": [codex_part(part) for part in item["content"]]}
        )
    else:
        calls[-1].broken = str(kind)
    return done


def codex_part(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "text", "text": part.get("text", "")} if "text" in part else {"type": "image"}


def codex_blocks(item: dict[str, Any]) -> list[dict[str, Any]]:
    kind = item["type"]
    if kind == "reasoning":
        return []
    if kind == "message":
        return [codex_part(part) for part in item["content"]]
    # Arguments are a string of JSON, and sent as one.
    given = item.get("arguments") if kind == "function_call" else item.get("input")
    return [{"type": "tool_use", "id": item.get("call_id"), "name": item["name"], "input": given}]

"""Prompt growth between two calls of one session: what was added, and what it truly cost.

A *step* is two consecutive calls A and B of one model in one session. What B's prompt has more than A's is
A's answer and what was added since: tool results, user text. The figures are the provider's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARK = "/"


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


@dataclass(slots=True)
class Step:
    """What was added between two calls, and by how many tokens the prompt grew."""

    repository: str
    session: str
    model: str
    version: str
    tokens: int
    output: int
    blocks: list[dict[str, Any]]  # of the assistant message
    after: list[dict[str, Any]]  # user messages and attachments


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


def chains(path: Path) -> Iterator[list[Call]]:
    """Calls of one file in order; one chain for the main conversation, one for each side one."""
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
            message.get("id", ""), message["model"], prompt_tokens(usage), 0, entry.get("version", "")
        )
        calls.append(known)
    elif known is not calls[-1]:
        known.broken = calls[-1].broken = "interleaved"
    known.output = max(known.output, usage.get("output_tokens") or 0)
    known.blocks += [block for block in message.get("content") or [] if isinstance(block, dict)]


def steps(path: Path, repository: str) -> Iterator[Step]:
    for chain in chains(path):
        for call, after in zip(chain, chain[1:], strict=False):
            if call.broken or call.model != after.model or not call.prompt or not after.prompt:
                continue
            yield Step(
                repository,
                path.stem,
                call.model,
                call.version,
                after.prompt - call.prompt,
                call.output,
                call.blocks,
                call.after,
            )


def corpus(root: Path, *names: str) -> Iterator[Step]:
    for name in names:
        for path in sorted((root / name).rglob("*.jsonl")):
            yield from steps(path, name)

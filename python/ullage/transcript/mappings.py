"""Compactions in the words of others: ATIF 1.7 trajectories out and in, OpenTelemetry's messages, Anthropic's `applied_edits`.

Claude Code's boundary and Codex's `compacted` line are read and written by `ullage.sessions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ullage.messages import Item
from ullage.ullage_check import CheckedMessage, LogCheck, cached_message, canonical

ATIF = "ATIF-v1.7"
_SOURCES = {"user": "user", "assistant": "agent", "system": "system"}
_ROLES = {source: role for role, source in _SOURCES.items()}


class Boundary(NamedTuple):
    """A change of what the model is shown.

    Attributes:
        after: How many messages had been said.
        context: What it is shown from then on, before what follows.
        kind: `compaction`, `pruning`, `injection`, or another word of whoever wrote it.
    """

    after: int
    context: list[Item]
    kind: str = "compaction"


class _Followed(LogCheck):
    """Notes each request that is more than the one before and new messages."""

    def record(self, record: dict[str, Any]) -> None:
        self.boundaries: list[Boundary] = [] if record.get("base") else self.boundaries
        super().record(record)
        inserted = any("made" in op for op, _ in self.written)
        if self.written or self.new:
            context: list[Item] = [message.value for message, _ in self.shown]
            self.boundaries.append(
                Boundary(len(self.input), context, "compaction" if inserted else "pruning")
            )


def recorded(log: bytes, records: bytes | None = None) -> tuple[list[Item], list[Boundary]]:
    """The messages of a recorded log, and each change of the context.

    Args:
        log: With its records, or without.
        records: Those in a file of their own; `None`: they stand in the log.

    Raises:
        ValueError: `ullage-check` calls something broken, or a text is redacted.
    """
    followed = _Followed(log, records)
    sent: list[CheckedMessage] = followed.input
    shown = [message for message, _ in followed.shown]
    if followed.problems or any(message.text is None for message in (*sent, *shown)):
        why = followed.problems[0][2] if followed.problems else "a text is redacted"
        raise ValueError(f"the log cannot be read again: {why}")
    return [message.value for message in sent], getattr(followed, "boundaries", [])


# ---- ATIF ----------------------------------------------------------------------------------------


def to_atif(
    messages: Sequence[Item], boundaries: Iterable[Boundary] = (), *, session_id: str = "",
    agent: str = "ullage", version: str = "1", model: str = "",
) -> dict[str, Any]:  # fmt: skip
    """A conversation as a trajectory; what its fields cannot hold of a message is in `extra.message`.

    Args:
        messages: All that were said, in the internal view.
        boundaries: Changes of the context, in order: system steps with `extra.context_management`.
        session_id: Of the trajectory.
        agent: Name of the agent.
        version: Its version.
        model: The model's name; empty: not named.
    """
    steps: list[dict[str, Any]] = []
    waiting = list(boundaries)
    for at in range(len(messages) + 1):
        while waiting and waiting[0].after <= at:
            steps.append(_boundary_step(waiting.pop(0)))
        if at < len(messages) and not _joins(steps, messages[at]):
            steps.append(_step(messages[at]))
    numbered = [{"step_id": at, **step} for at, step in enumerate(steps, 1)]
    about = {"name": agent, "version": version, **({"model_name": model} if model else {})}
    return {"schema_version": ATIF, "session_id": session_id, "agent": about, "steps": numbered}


def from_atif(trajectory: Mapping[str, Any]) -> tuple[list[Item], list[Boundary]]:
    """The messages of a trajectory, and each change of the context, as `to_atif` takes them.

    A boundary that truncates and does not say what is left leaves the context as it is: no step says how much of it went.
    """
    messages: list[Item] = []
    boundaries: list[Boundary] = []
    start, context = 0, list[Item]()
    for step in trajectory.get("steps", ()):
        managed = (step.get("extra") or {}).get("context_management")
        if not isinstance(managed, Mapping):
            messages += _messages(step)
            continue
        context, start = [*context, *messages[start:]], len(messages)
        put = [_put(result) for result in (step.get("observation") or {}).get("results", ())]
        put = put or ([{"role": "user", "content": step["message"]}] if step.get("message") else [])
        if managed.get("boundary") == "append":
            context = [*context, *put]
        elif put or managed.get("boundary") == "replace":
            context = put
        kind = str(managed.get("type", "compaction"))
        boundaries.append(Boundary(len(messages), list(context), kind))
    return messages, boundaries


def _text(message: Item) -> str:
    return "\n".join(cached_message(canonical(message)).text_lines)


def _boundary_step(boundary: Boundary) -> dict[str, Any]:
    put = []
    for message in boundary.context:
        plain = message == {"role": "user", "content": message.get("content")}
        held = plain and isinstance(message["content"], str)
        put.append({"content": _text(message), **({} if held else {"extra": {"message": message}})})
    managed = {"type": boundary.kind, "boundary": "replace"}
    return {"source": "system", "message": "", "observation": {"results": put}, "extra": {"context_management": managed}}  # fmt: skip


def _put(result: Mapping[str, Any]) -> Item:
    message = (result.get("extra") or {}).get("message")
    return message or {"role": "user", "content": result.get("content") or ""}


def _step(message: Item) -> dict[str, Any]:
    parts = cached_message(canonical(message)).blocks
    step: dict[str, Any] = {"source": _SOURCES.get(str(message.get("role")), "user")}
    step["message"] = _text({"content": [part for part in parts if part.get("type") == "text"]})
    thought = [str(part["thinking"]) for part in parts if part.get("type") == "thinking"]
    calls = [
        {"tool_call_id": part["id"], "function_name": part["name"], "arguments": part["input"]}
        for part in parts
        if part.get("type") == "tool_use"
    ]
    step |= {"reasoning_content": "\n".join(thought)} if thought else {}
    step |= {"tool_calls": calls} if calls else {}
    return step if _messages(step) == [message] else {**step, "extra": {"message": message}}


def _joins(steps: list[dict[str, Any]], message: Item) -> bool:
    """Whether a message is the results of the step before, and is put there."""
    calls = {call["tool_call_id"] for call in steps[-1].get("tool_calls", ())} if steps else set()
    answers = cached_message(canonical(message)).results
    if not answers or "observation" in steps[-1] or not answers.keys() <= calls:
        return False
    answered = [{"source_call_id": name, "content": answer.get("content")} for name, answer in answers.items()]  # fmt: skip
    held = {**steps[-1], "observation": {"results": answered}}
    if _messages(held)[1:] != [message]:
        held["observation"]["extra"] = {"message": message}
    steps[-1] = held
    return True


def _messages(step: Mapping[str, Any]) -> list[Item]:
    """The message of a step, and the one with its results."""
    content: list[dict[str, Any]] = []
    if step.get("reasoning_content"):
        content.append({"type": "thinking", "thinking": step["reasoning_content"]})
    content += [{"type": "text", "text": step["message"]}] if step.get("message") else []
    content += [
        {"type": "tool_use", "id": call["tool_call_id"], "name": call["function_name"], "input": call["arguments"]}
        for call in step.get("tool_calls") or ()
    ]  # fmt: skip
    only = len(content) == 1 and content[0]["type"] == "text"
    own: Item = {"role": _ROLES.get(str(step.get("source")), "user")}
    own = {**own, "content": content[0]["text"] if only else content}
    own = (step.get("extra") or {}).get("message") or own
    observed = step.get("observation") or {}
    results = [
        {"type": "tool_result", "tool_use_id": result.get("source_call_id"), "content": result.get("content")}
        for result in observed.get("results", ())
    ]  # fmt: skip
    answer = (observed.get("extra") or {}).get("message") or {"role": "user", "content": results}
    return [own, answer] if results else [own]


# ---- OpenTelemetry and Anthropic -----------------------------------------------------------------


def to_otel(boundary: Boundary) -> dict[str, Any]:
    """Attributes of the first inference after a change of the context, by OpenTelemetry's gen-ai conventions.

    `gen_ai.input.messages` holds content of the conversation: record it only where that is allowed. A summary is a part of type
    `compaction`.
    """
    compacted = boundary.kind == "compaction"
    messages = []
    for at, message in enumerate(boundary.context):
        parts = [
            _part(block, compacted and at == 0)
            for block in cached_message(canonical(message)).blocks
        ]
        messages.append({"role": message.get("role"), "parts": parts})
    mark = {"gen_ai.conversation.compacted": True} if compacted else {}
    return {**mark, "gen_ai.input.messages": messages}


def _part(block: Mapping[str, Any], summary: bool) -> dict[str, Any]:
    kind = block.get("type")
    if kind == "text":
        return {"type": "compaction" if summary else "text", "content": block.get("text")}
    if kind == "tool_use":
        return {"type": "tool_call", "id": block.get("id"), "name": block.get("name"), "arguments": block.get("input")}  # fmt: skip
    if kind == "tool_result":
        return {"type": "tool_call_response", "id": block.get("tool_use_id"), "response": block.get("content")}  # fmt: skip
    if kind == "thinking":
        return {"type": "reasoning", "content": block.get("thinking")}
    return {"type": str(kind)}


def applied_edits(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a record says of shortened or cleared tool results, in the form of Anthropic's `context_management.applied_edits`."""
    cleared = len(record.get("results", ()))
    freed = sum(before - after for _, _, before, after in record.get("acts", ()))
    edit = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": cleared, "cleared_input_tokens": max(0, freed)}  # fmt: skip
    return [edit] if cleared else []

"""Results of tau-bench and tau2, and tau-bench's few-shot examples.

One file holds many trajectories. In tau2 the simulated user calls tools too; the agent does not see
those, so they are counted and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ullage.transcript.formats import OpenedFile, ReadSession, ReadTranscript
from ullage.transcript.formats.openai_chat import chat_session, is_chat, measured, numbered


def sniff(source: OpenedFile) -> bool:
    """Whether a file is a list of `traj`, an object with `simulations`, or few-shot examples."""
    listed = source.head[:1] if source.head else []
    if listed and "messages_display" in listed[0]:
        return True
    if "simulations" in source.keyed("simulations", "tasks"):
        return True
    items = source.listed()
    return bool(items) and is_chat(items[0].get("traj"))


def read(source: OpenedFile) -> ReadTranscript:
    """Reads all trajectories; each is a session."""
    document = source.document
    if isinstance(document, Mapping) and "simulations" in document:
        return ReadTranscript("tau2", numbered(_simulations(document, source)))
    if isinstance(document, list):
        sessions = []
        for index, item in enumerate(document):
            name = f"task-{item.get('task_id', index)}-trial-{item.get('trial', 0)}"
            sessions.append(chat_session(source, name, item.get("traj") or ()))
        return ReadTranscript("tau_bench", numbered(sessions))
    examples = [_few_shot(number, line) for number, line in source.lines()]
    return ReadTranscript("tau_bench", examples)


# ---- tau2 ----------------------------------------------------------------------------------------


def _simulations(document: Mapping[str, Any], source: OpenedFile) -> Iterator[ReadSession]:
    for index, simulation in enumerate(document["simulations"]):
        stored = simulation.get("messages") or []
        chat = [message for message in map(_as_chat, stored) if message is not None]
        left_out = len(stored) - len(chat)
        if left_out:
            what = "messages between the user and the user's tools"
            source.warn(index, f"{left_out} {what}, left out")
        name = str(simulation.get("id") or f"task-{simulation.get('task_id', index)}")
        yield chat_session(source, name, chat, decorate=_decorate)


def _as_chat(message: Mapping[str, Any]) -> dict[str, Any] | None:
    """tau2 stores arguments as objects and the call's id as `id`; `None` for the user's own calls."""
    if message.get("role") == "tool":
        if message.get("requestor") == "user":
            return None
        return {**message, "tool_call_id": message.get("id")}
    calls = message.get("tool_calls") or []
    if message.get("role") == "user":
        return {**message, "tool_calls": None} if message.get("content") or not calls else None
    written = []
    for call in calls:
        function = {"name": call.get("name"), "arguments": call.get("arguments") or {}}
        written.append({"id": call.get("id"), "type": "function", "function": function})
    return {**message, "tool_calls": written or None}


def _decorate(message: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    for block in message["content"] if isinstance(message["content"], list) else ():
        block.pop("foreign", None)  # that the arguments were an object is tau2's way, not OpenAI's
        if stored.get("error") and block.get("type") == "tool_result":
            block["is_error"] = True
    return measured(message, stored)


# ---- few-shot examples ---------------------------------------------------------------------------

_SPEAKER = re.compile(r"^(user|assistant|tool): ", re.MULTILINE)


def _few_shot(number: int, line: Mapping[str, Any]) -> ReadSession:
    """Text only: `assistant: None` was a call, of which nothing but its result was kept."""
    session = ReadSession(f"example-{number}")
    pieces = _SPEAKER.split(str(line.get("messages_display", "")))
    spoken = list(zip(pieces[1::2], (text.strip("\n") for text in pieces[2::2]), strict=True))
    for position, (role, text) in enumerate(spoken):
        following = spoken[position + 1][0] if position + 1 < len(spoken) else ""
        if role == "assistant" and following == "tool":
            name = f"call_{number}_{position}"
            call = {"type": "tool_use", "id": name, "name": "unknown", "input": {}}
            words = [] if text == "None" else [{"type": "text", "text": text}]
            session.add({"role": role, "content": [*words, call]}, line=position)
        elif role == "tool":
            name = f"call_{number}_{position - 1}"
            block = {"type": "tool_result", "tool_use_id": name, "content": text}
            session.add_result(block, line=position)
        elif text:
            session.add({"role": role, "content": text}, line=position)
    return session

"""Trajectories of SWE-agent (`.traj`) and mini-swe-agent (`.traj.json`).

SWE-agent writes tool calls, or commands as plain or XML text; what came back is then a user message
that no person wrote. mini-swe-agent writes chat messages and ends with one of role `exit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.transcript.formats import OpenedFile, ReadTranscript
from ullage.transcript.formats.openai_chat import chat_session, measure
from ullage.transcript.records import as_mapping


def sniff(source: OpenedFile) -> bool:
    """Whether a file is a trajectory of either."""
    return bool(source.keyed("history")) or _is_mini(source.document)


def _is_mini(document: Any) -> bool:
    if not isinstance(document, Mapping) or not isinstance(document.get("messages"), list):
        return False
    return "trajectory_format" in document or "model_stats" in (document.get("info") or {})


def read(source: OpenedFile) -> ReadTranscript:
    """Reads a trajectory: one session."""
    document = source.document
    mini = _is_mini(document)
    if mini:
        chat = [message for message in document["messages"] if message.get("role") != "exit"]
    else:
        chat = [_as_chat(message) for message in document["history"]]
    answered = False

    def decorate(message: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
        nonlocal answered
        if message["role"] != "assistant":
            # Observations are the user messages after the first answer.
            return {"isMeta": answered or bool(stored.get("is_demo"))}
        answered = True
        if mini:
            measure(message, as_mapping(as_mapping(stored.get("extra")).get("response")))
        return {}

    session = chat_session(source, source.stem, chat, decorate=decorate)
    return ReadTranscript("mini_swe_agent" if mini else "swe_agent", [session])


def _as_chat(message: Mapping[str, Any]) -> dict[str, Any]:
    """A result names its calls in a list of one."""
    ids = message.get("tool_call_ids")
    if message.get("role") == "tool" and isinstance(ids, list) and ids:
        return {**message, "tool_call_id": ids[0]}
    return dict(message)

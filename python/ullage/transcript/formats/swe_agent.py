"""Trajectories of SWE-agent (`.traj`) and mini-swe-agent (`.traj.json`).

SWE-agent writes tool calls, or commands as plain or XML text; what came back is then a user message
that no person wrote. mini-swe-agent writes chat messages and ends with one of role `exit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.transcript.formats._model import OpenedFile, ReadTranscript
from ullage.transcript.formats.openai_chat import (
    _chat_session as chat_session,
    _chat_usage as chat_usage,
)


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
    info = document.get("info") or {}
    facts = {key: info[key] for key in ("exit_status", "model_stats") if key in info}
    mini = _is_mini(document)
    if mini:
        chat = [message for message in document["messages"] if message.get("role") != "exit"]
    else:
        chat = [_as_chat(message) for message in document["history"]]
    watch = _Watch(mini)
    session = chat_session(
        source.stem, chat, decorate=watch.decorate, metadata=facts, warn=source.warn
    )
    name = "mini_swe_agent" if mini else "swe_agent"
    return ReadTranscript(name, source.path, (session,), warnings=tuple(source.warnings))


def _as_chat(message: Mapping[str, Any]) -> dict[str, Any]:
    """A result names its calls in a list of one."""
    ids = message.get("tool_call_ids")
    if message.get("role") == "tool" and isinstance(ids, list) and ids:
        return {**message, "tool_call_id": ids[0]}
    return dict(message)


class _Watch:
    """Tells observations from the task: they are the user messages after the first answer."""

    def __init__(self, mini: bool) -> None:
        self._mini = mini
        self._answered = False

    def decorate(
        self, position: int, message: dict[str, Any], stored: Mapping[str, Any]
    ) -> dict[str, Any]:
        del position
        if message["role"] == "assistant":
            self._answered = True
            extra = stored.get("extra")
            response = extra.get("response") if self._mini and isinstance(extra, Mapping) else None
            self._measure(message, response)
            return {}
        return {"isMeta": self._answered or bool(stored.get("is_demo"))}

    def _measure(self, message: dict[str, Any], response: Any) -> None:
        if isinstance(response, Mapping):
            usage = chat_usage(response.get("usage"))
            if usage:
                message["usage"] = usage
            if isinstance(response.get("model"), str):
                message["model"] = response["model"]

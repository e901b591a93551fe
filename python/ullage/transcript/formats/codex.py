"""Rollouts of the Codex CLI.

Only `response_item` lines are what the model saw; `event_msg` lines repeat them for the screen, except
`token_count`, which says what a response cost. A `compacted` line replaces all that came before by its
`replacement_history`; its `message`, where it has one, is the summary that also stands in there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.messages import SOURCE_ROLE, Block, as_blocks, is_summary
from ullage.providers._common import FOREIGN, Loss, foreign
from ullage.providers.openai_responses import (
    SHAPE,
    _blocks_in as blocks_in,
    _joined as joined,
    _message_in as message_in,
    _side_of as side_of,
)
from ullage.transcript.formats import OpenedFile, ReadSession, ReadTranscript, usage_of
from ullage.transcript.records import as_mapping

_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")

_INJECTED = ("<", "# AGENTS.md instructions")
"""How user messages start that Codex wrote itself: environment, instructions, notices."""

_AGENT_MESSAGE = "agent_message"

NOTE = "internal_chat_message_metadata_passthrough"
"""Codex's own note on an item, which is not sent to the API: for a session that was handed over, what that has no word for."""


def sniff(source: OpenedFile) -> bool:
    """Whether a file is a rollout."""
    return any(line.get("type") in _TYPES and "payload" in line for line in source.head)


def read(source: OpenedFile) -> ReadTranscript:
    """Reads a rollout: one session, with a boundary at each compaction."""
    rollout = _Rollout(source)
    for number, line in source.lines():
        rollout.add(number, line)
    rollout.close()
    return ReadTranscript("codex", [rollout.session])


def without_agent_messages(
    messages: Sequence[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[Loss]]:
    """Messages that others than Codex can be sent: what its agents wrote each other is the user's, or left out.

    Messages without such an item are the same objects; each item is given back with what became of it.
    """
    plain: list[dict[str, Any]] = []
    losses: list[Loss] = []
    agent_texts: list[Block] = []
    for at, message in enumerate(messages):
        content = message["content"]
        items = [_agent_message(block) for block in content] if isinstance(content, list) else []
        if agent_texts and message["role"] == "assistant":
            plain.append({"role": "user", "content": agent_texts})
            agent_texts = []
        for item in filter(None, items):
            texts = [text for part in item.get("content") or () if (text := part.get("text"))]
            agent_texts += [{"type": "text", "text": text} for text in texts]
            why = "sent as the user's" if texts else "left out: only Codex can read it"
            losses.append(Loss(_AGENT_MESSAGE, f"messages[{at}]", why))
        others = [block for block, item in zip(content, items, strict=False) if item is None]
        if message["role"] == "user" and agent_texts:
            plain.append({**message, "content": [*as_blocks(content), *agent_texts]})
            agent_texts = []
        elif not any(items):
            plain.append(message)
        elif others:
            plain.append({**message, "content": others})
    return [*plain, {"role": "user", "content": agent_texts}] if agent_texts else plain, losses


def _agent_message(block: Any) -> Mapping[str, Any] | None:
    item = foreign(block, SHAPE).get("item") if block.get("type") == FOREIGN else None
    return item if isinstance(item, Mapping) and item.get("type") == _AGENT_MESSAGE else None


class _Rollout:
    def __init__(self, source: OpenedFile) -> None:
        self.source = source
        self.session = ReadSession(source.stem, source.warn)
        self._blocks: list[Block] = []  # of the response that is being written
        self._began: tuple[int, Any] = (0, None)
        self._response: dict[str, Any] | None = None  # the newest one that has no usage yet
        self._summary: Any = None  # of the compaction that is being read

    def add(self, number: int, line: Mapping[str, Any]) -> None:
        payload = line.get("payload")
        if not isinstance(payload, Mapping):
            return
        kind, stamp = line.get("type"), line.get("timestamp")
        if kind == "response_item":
            self.item(payload, number, stamp)
        elif kind == "compacted":
            self.compacted(payload, number, stamp)
        elif kind == "session_meta":
            self.about(payload)
        elif kind == "turn_context":
            self.close()
            self._set(model=payload.get("model"), cwd=payload.get("cwd"))
        elif kind == "event_msg" and payload.get("type") == "token_count":
            self.counted(payload)

    def about(self, payload: Mapping[str, Any]) -> None:
        """The first one names the session; a resume repeats it, a fork repeats its parent's."""
        if "cli_version" in self.session.metadata:
            return
        self.session.id = str(payload.get("id") or self.session.id)
        self.session.system = as_mapping(payload.get("base_instructions")).get("text")
        self._set(cli_version=payload.get("cli_version"), cwd=payload.get("cwd"))

    def item(self, payload: Mapping[str, Any], number: int, stamp: Any) -> None:
        item = {key: value for key, value in payload.items() if key != NOTE}
        side = side_of(item)
        if side == "assistant":
            self._began = self._began if self._blocks else (number, stamp)
            self._blocks += blocks_in(item)
            return
        self.close()
        if side == "result":
            block = blocks_in(item)[0]
            if as_mapping(payload.get(NOTE)).get("isError") is True:
                block = {**block, "is_error": True}
            if not self.session.add_result(block, line=number, timestamp=stamp):
                self.source.warn(number, "a result apart from its call, moved next to it")
            return
        # No other provider takes a system message where Codex puts its developer messages.
        message = message_in(item, "user")
        note = as_mapping(payload.get(NOTE))
        # What the first part says; parts without text say nothing.
        content, role = message["content"], item.get("role")
        text = content[0].get("text", "") if isinstance(content, list) and content else content
        if is_summary(note) or (self._summary and text == self._summary):
            self.session.add(message, line=number, timestamp=stamp, isCompactSummary=True)
            return
        injected = isinstance(text, str) and text.startswith(_INJECTED)
        # Of another tool, in a session that was handed over: a command that the user typed.
        injected = injected and not text.startswith("<command-")
        meta = note.get("isMeta") is True or role != "user" or injected
        other = {SOURCE_ROLE: role} if isinstance(role, str) and role != "user" else {}
        self.session.add(message, line=number, timestamp=stamp, isMeta=meta, **other)

    def close(self) -> None:
        """Ends the response that is being written."""
        if not self._blocks:
            return
        number, stamp = self._began
        name = f"{self.session.id}-r{len(self.session.entries)}"
        message = {"role": "assistant", "content": joined(self._blocks), "id": name}
        if "model" in self.session.metadata:
            message["model"] = self.session.metadata["model"]
        self._blocks = []
        self._response = self.session.add(message, line=number, timestamp=stamp)["message"]

    def counted(self, payload: Mapping[str, Any]) -> None:
        """A count follows its response, before or after the results of its calls; repeats say nothing."""
        self.close()
        info = payload.get("info")
        if not isinstance(info, Mapping):
            return
        self._set(context_window_tokens=info.get("model_context_window"))
        usage = info.get("last_token_usage")
        if self._response is None or not isinstance(usage, Mapping):
            return
        self._response["usage"] = usage_of(
            usage, "input_tokens", "output_tokens", "cached_input_tokens", inclusive=True
        )
        self._response = None

    def compacted(self, payload: Mapping[str, Any], number: int, stamp: Any) -> None:
        self.close()
        self._response = None
        messages = (entry.get("message", {}) for entry in reversed(self.session.entries))
        usages = (message["usage"] for message in messages if message.get("usage"))
        undone = {"undoes": payload["undoes"]} if isinstance(payload.get("undoes"), str) else {}
        before = int(sum(next(usages, {}).values()))
        self.session.boundary(
            line=number, timestamp=stamp, preTokens=before, replacementHistory=True, **undone
        )
        self.session.forget_ids()
        history, self._summary = payload.get("replacement_history"), payload.get("message")
        if not isinstance(history, Sequence):
            # Older files hold no history: Codex put the summary after what it had kept of the user's words.
            history = [{"role": "user", "content": self._summary}] if self._summary else ()
        for item in history:
            if isinstance(item, Mapping):
                self.item(item, number, stamp)
        self.close()
        self._summary = None
        self._response = None

    def _set(self, **facts: Any) -> None:
        self.session.metadata.update(
            (key, value) for key, value in facts.items() if value is not None
        )

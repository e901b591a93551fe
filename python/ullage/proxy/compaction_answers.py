"""Whether and how the client's own compaction is answered here: `--compaction pass|extractive|repair`."""

from __future__ import annotations

import asyncio
import logging

from ullage.exceptions import UllageError
from ullage.proxy.answer_tap import message_in
from ullage.proxy.client_calls import ClientCall
from ullage.proxy.client_compaction import (
    AskedCompaction,
    asked_compaction,
    compacted_messages,
    completed_text,
    extractive_text,
)
from ullage.proxy.client_lines import claude_session
from ullage.proxy.content_codings import decoded
from ullage.proxy.handed_out import MARK, HandedOut
from ullage.proxy.local_answers import (
    LocalAnswer,
    message_answer,
    response_answer,
    summary_answer,
    text_item,
)
from ullage.proxy.proxy_settings import CompactionMode
from ullage.sessions.handed_summary import hand_over

__all__ = ["ClientCompactions", "completed"]

LOG = logging.getLogger("ullage.proxy")


class ClientCompactions:
    """Answers compactions that a client asks for.

    Args:
        mode: `pass`: the provider answers. `extractive`: code answers, without a model. `repair`: the provider answers, and code
            completes its summary; what it seals cannot be completed and passes.
        handed_out: Makes the items that Codex is given, and opens those that it sends.
        hand_over: Whether a summary for Claude Code is kept for its hook, which then restores only what the summary lacks.
    """

    def __init__(
        self, mode: CompactionMode, handed_out: HandedOut, *, hand_over: bool = False
    ) -> None:
        self._mode, self._handed_out, self._hand_over = mode, handed_out, hand_over

    async def with_opened_items(self, call: ClientCall) -> ClientCall:
        """The call with items that were given out earlier turned back into messages; the same call if it has none."""
        codex = call.endpoint.provider == "openai_responses"
        if not codex or MARK.encode() not in call.raw:
            return call
        return await asyncio.to_thread(self._opened, call)

    def _opened(self, call: ClientCall) -> ClientCall:
        items = None if call.items is None else self._handed_out.opened(call.items)
        if items is None:
            return call
        return ClientCall(call.endpoint, call.incoming, call.with_items(items))

    async def answer(self, call: ClientCall) -> LocalAnswer | None:
        """The whole answer; `None`: the provider is to be asked."""
        asked = asked_compaction(call) if self._mode == "extractive" else None
        if asked is None:
            return None
        try:
            return await asyncio.to_thread(self._answered, asked, call)
        except Exception:  # whatever a client sends, its provider can still answer
            LOG.exception("a compaction could not be written; the provider is asked")
            return None

    def to_complete(self, call: ClientCall) -> AskedCompaction | None:
        """What a summary that the provider writes will be completed from; `None`: its answer is passed on as it is."""
        asked = asked_compaction(call) if self._mode == "repair" else None
        return asked if asked is not None and asked.client == "claude_code" else None

    def _answered(self, asked: AskedCompaction, call: ClientCall) -> LocalAnswer | None:
        if asked.client in ("codex_compact", "codex_trigger"):
            return self._item_answer(asked, call)
        limit = (call.body or {}).get("max_tokens")
        text = extractive_text(asked, max_tokens=limit if type(limit) is int else None)
        if text is None:
            return None
        if asked.client == "codex_prompt":
            return response_answer([text_item(text)], call.model, stream=call.streams)
        if self._hand_over:
            _kept_for_the_hook(call, text)
        return summary_answer(text, call.model, stream=call.streams)

    def _item_answer(self, asked: AskedCompaction, call: ClientCall) -> LocalAnswer | None:
        messages = compacted_messages(asked, call.model)
        item = None if messages is None else self._handed_out.item_of(messages)
        if item is None:
            return None
        endpoint = asked.client == "codex_compact"
        return response_answer([item], call.model, compaction=endpoint, stream=call.streams)


def _kept_for_the_hook(call: ClientCall, text: str) -> None:
    session = claude_session(call)
    if not session:
        return
    try:
        hand_over(session, text)
    except UllageError as exc:  # then the hook restores what the summary says too
        LOG.warning("a summary was not kept for the hook: %s", exc)


def completed(
    asked: AskedCompaction, content_type: str, encoding: str, data: bytes, *, stream: bool
) -> LocalAnswer | None:
    """A provider's summary, completed; `None`: it is not one, or lacks nothing."""
    plain = decoded(encoding, data)
    message = None if plain is None else message_in(content_type, plain)
    if message is None or message.get("stop_reason") != "end_turn":
        return None
    content = message.get("content")
    blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    last = blocks[-1] if blocks else {}
    if last.get("type") != "text" or any(b.get("type") == "tool_use" for b in blocks):
        return None
    text = str(last.get("text") or "")
    whole = completed_text(asked, text)
    if whole == text:
        return None
    said = [b for b in blocks[:-1] if b.get("type") == "text"]
    made = {**message, "content": [*said, {**last, "text": whole}]}
    return message_answer(made, stream=stream)

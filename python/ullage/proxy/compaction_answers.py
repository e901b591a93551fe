"""Whether and how the client's own compaction is answered here: `--compaction pass|extractive|repair`."""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import secrets
import threading
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from starlette.responses import Response

from ullage.exceptions import LogConflict, StoreError, UllageError
from ullage.providers.answers import message_events, response_events
from ullage.proxy.client_calls import (
    AskedCompaction,
    ClientCall,
    claude_session,
    compacted_messages,
    completed_text,
    extractive_text,
)
from ullage.proxy.upstream import (
    GatewayError,
    Receive,
    Scope,
    Send,
    end_to_end,
    error_body,
    message_in,
)
from ullage.stores import DocumentStore

# Opaque compaction items that the gateway gave to a client, and their messages.
#
# An item holds its messages, packed. They are no secret, but a keyed hash shows that this gateway made the item: only
# such items are unpacked, and all those of a request share one budget.


LOG = logging.getLogger("ullage.proxy")

MARK = "ullage2."
"""Prefix of our items; any other item is the provider's own."""

_KEY_CONVERSATION, _KEY_DOCUMENT = "ullage-gateway", "item-key"
_KEY_BYTES = _CODE_BYTES = 32

_TYPES = ("compaction", "compaction_summary", "context_compaction")

MOST_BYTES = 4 * 1024 * 1024
"""Maximum unpacked size of a request's items: the text of a million tokens."""

MOST_VALUES = 500_000
"""Maximum commas and opening brackets in them, and so values, at up to 100 bytes each."""


@dataclass(slots=True, eq=False, repr=False)
class _Budget:
    """The budget left for unpacking a request's items."""

    size: int = MOST_BYTES
    values: int = MOST_VALUES


class HandedOut:
    """Makes and opens items.

    `store`: keeps the key, so that items can be read after a restart and by every gateway with this store; `None`: only by this
    process.
    """

    def __init__(self, store: DocumentStore | None = None) -> None:
        self._store = store
        self._key, self._lock = b"", threading.Lock()

    def item_of(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        """An item in the provider's form for these items of a conversation; `None` if they are too many to open again."""
        plain = orjson.dumps(list(messages))
        if not _allowed(plain, _Budget()):
            return None
        packed = zlib.compress(plain, 6)
        content = base64.urlsafe_b64encode(self._code(packed) + packed).decode("ascii")
        name = f"cmp_ullage{zlib.crc32(packed):08x}"
        return {"type": "compaction", "id": name, "encrypted_content": MARK + content}

    def opened(self, items: Sequence[Any]) -> list[Any] | None:
        """A conversation with our items turned back into messages; `None`: it has none.

        Codex repeats its instructions and the users' messages before an item, so their copies in it are left out. An item that was
        not made here, cannot be read or exceeds the budget stays, for the provider to refuse.
        """
        budget = _Budget()
        message_lists = [self._messages(item, budget) for item in items]
        if all(opened is None for opened in message_lists):
            return None
        conversation: list[Any] = []
        for item, messages in zip(items, message_lists, strict=True):
            if messages is None:
                conversation.append(item)
                continue
            repeated = list(map(_spoken, filter(_is_message, conversation)))
            conversation += [
                message
                for message in messages
                if not _is_message(message) or _spoken(message) not in repeated
            ]
        return conversation

    def _messages(self, item: object, budget: _Budget) -> list[Any] | None:
        if not isinstance(item, Mapping) or item.get("type") not in _TYPES:
            return None
        content = item.get("encrypted_content")
        if not isinstance(content, str) or not content.startswith(MARK):
            return None
        try:
            whole = base64.urlsafe_b64decode(content.removeprefix(MARK))
        except (binascii.Error, ValueError):
            return None
        code, packed = whole[:_CODE_BYTES], whole[_CODE_BYTES:]
        # In constant time, since a sender can measure it.
        if not hmac.compare_digest(code, self._code(packed)):
            LOG.warning(
                "a compaction item was not made by this gateway: it is left to the provider"
            )
            return None
        return _unpacked(packed, budget)

    def _code(self, packed: bytes) -> bytes:
        with self._lock:
            self._key = self._key or _kept_key(self._store)
        return hmac.digest(self._key, packed, "sha256")


def _is_message(item: object) -> bool:
    return isinstance(item, Mapping) and item.get("type", "message") == "message"


def _spoken(message: Mapping[str, Any]) -> tuple[object, object]:
    return message.get("role"), message.get("content")


def _unpacked(packed: bytes, budget: _Budget) -> list[Any] | None:
    try:
        # One byte over the budget shows that there is more, without unpacking it: 1 MB may become 1 GB.
        plain = zlib.decompressobj().decompress(packed, budget.size + 1)
        read = orjson.loads(plain) if _allowed(plain, budget) else None
    except (zlib.error, ValueError):
        return None
    is_list = isinstance(read, list) and all(isinstance(message, dict) for message in read)
    return read if is_list else None


def _allowed(plain: bytes, budget: _Budget) -> bool:
    """Charge a text to the budget by its maximum size, before unpacking; false if it does not fit."""
    budget.size -= len(plain)
    if budget.size >= 0:
        budget.values -= sum(plain.count(mark) for mark in (b",", b"{", b"["))
    fits = min(budget.size, budget.values) >= 0
    if not fits:
        text = "compaction items of more than %d bytes or %d values stay packed"
        LOG.warning(text, MOST_BYTES, MOST_VALUES)
        budget.size = budget.values = 0
    return fits


def _kept_key(store: DocumentStore | None) -> bytes:
    """The key in the store, created if missing; a key for this process only if the store fails."""
    key = secrets.token_bytes(_KEY_BYTES)
    if store is None:
        return key
    try:
        if (document := store.load(_KEY_CONVERSATION, _KEY_DOCUMENT)) is None:
            store.save(_KEY_CONVERSATION, _KEY_DOCUMENT, key, after=0)
            return key
        return document.data
    except LogConflict:  # another gateway made one meanwhile
        document = store.load(_KEY_CONVERSATION, _KEY_DOCUMENT)
        return key if document is None else document.data
    except (StoreError, OSError) as exc:
        LOG.warning("the key of compaction items was not kept: %s", type(exc).__name__)
        return key


# The gateway's own answers, in the form that the client expects: JSON or server-sent events.


_PIECE = 2_000
"""Characters of text in one event."""


_OWN = {"x-ullage": "answered"}


def _json(body: Mapping[str, Any]) -> Response:
    return Response(orjson.dumps(body), headers=_OWN, media_type="application/json")


def _stream(events: Iterable[Mapping[str, Any]]) -> Response:
    parts = (b"event: %b\ndata: %b\n\n" % (e["type"].encode(), orjson.dumps(e)) for e in events)
    return Response(b"".join(parts), headers=_OWN, media_type="text/event-stream")


def _name(text: str) -> str:
    return f"ullage{zlib.crc32(text.encode('utf-8', 'replace')):08x}{time.time_ns():x}"


# ---- Anthropic ---------------------------------------------------------------------------------


_COUNTS = "input_tokens cache_creation_input_tokens cache_read_input_tokens output_tokens".split()


def summary_answer(text: str, model: str, *, stream: bool) -> Response:
    """A summary as Claude Code reads it: a message with one text and no tokens."""
    message = {
        "id": f"msg_{_name(text)}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": dict.fromkeys(_COUNTS, 0),
    }
    return message_answer(message, stream=stream)


def message_answer(message: Mapping[str, Any], *, stream: bool) -> Response:
    """A message of Anthropic's API whose content is texts."""
    return _stream(message_events(message, _PIECE)) if stream else _json(message)


# ---- OpenAI Responses ----------------------------------------------------------------------------


def text_item(text: str) -> dict[str, Any]:
    """A message of the model that is one text."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    head = {"type": "message", "id": f"msg_{_name(text)}", "role": "assistant"}
    return {**head, "status": "completed", "content": [part]}


def response_answer(
    output: Sequence[Mapping[str, Any]], model: str, *, compaction: bool = False, stream: bool
) -> Response:
    """A response with these items, as Codex reads it.

    `compaction`: whether it answers `/responses/compact`. `stream`: whether to answer with events.
    """
    response = {
        "id": f"resp_{_name(model)}",
        "object": "response.compaction" if compaction else "response",
        "created_at": int(time.time()),
        "model": model,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": list(output),
        "usage": {
            "input_tokens": 0,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 0,
        },
    }
    return _stream(response_events(response, _PIECE)) if stream else _json(response)


def with_opened_items(call: ClientCall, handed_out: HandedOut) -> ClientCall:
    """The call with our earlier items turned back into messages; the same call if it has none."""
    items = None if call.items is None else handed_out.opened(call.items)
    if items is None:
        return call
    return ClientCall(call.endpoint, call.incoming, call.with_items(items))


def answer_by_code(
    asked: AskedCompaction, call: ClientCall, handed_out: HandedOut, *, keep_for_hook: bool
) -> Response | None:
    """The answer to a client's compaction, without a model; `None`: ask the provider.

    `keep_for_hook`: a summary for Claude Code is kept for its hook, which then restores only what the summary lacks.
    """
    if asked.client in ("codex_compact", "codex_trigger"):
        messages = compacted_messages(asked, call.model)
        item = None if messages is None else handed_out.item_of(messages)
        if item is None:
            return None
        endpoint = asked.client == "codex_compact"
        return response_answer([item], call.model, compaction=endpoint, stream=call.streams)
    limit = (call.body or {}).get("max_tokens")
    text = extractive_text(asked, max_tokens=limit if type(limit) is int else None)
    if text is None:
        return None
    if asked.client == "codex_prompt":
        return response_answer([text_item(text)], call.model, stream=call.streams)
    if keep_for_hook and (session := claude_session(call)):
        try:
            from ullage.sessions.find import hand_over

            hand_over(session, text)
        except UllageError as exc:  # the hook then also restores what the summary has
            LOG.warning("a summary was not kept for the hook: %s", exc)
    return summary_answer(text, call.model, stream=call.streams)


def completed(
    asked: AskedCompaction, headers: Mapping[str, str], data: bytes, *, stream: bool
) -> Response | None:
    """A provider's summary, completed; `None` if it is not one, or lacks nothing."""
    message = message_in(headers, data)
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
    texts = [b for b in blocks[:-1] if b.get("type") == "text"]
    completed_message = {**message, "content": [*texts, {**last, "text": whole}]}
    return message_answer(completed_message, stream=stream)


# What goes back to the client.


BROKEN = (aiohttp.ClientError, TimeoutError, OSError)
"""Errors of a response that ends too early."""

_MOST_NOTED, _LAST_NOTED = 2 * 1024 * 1024, 64 * 1024
"""Bytes of an answer that are kept for reading, and of a longer one its last."""


class ClientAnswer:
    """What goes back to the client."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._begun = False
        self._first, self._last = bytearray(), b""

    async def relay(self, response: aiohttp.ClientResponse, held: bytes = b"") -> None:
        """Pass a response on as it arrives; the sender waits for a slow reader.

        A response that breaks off is left incomplete, so that the client notices.

        `held`: the part already read.
        """
        self._begun = True
        headers = end_to_end(response.raw_headers)
        head = {"type": "http.response.start", "status": response.status, "headers": headers}
        await self._send(head)
        try:
            if held:
                await self._body(held, more=True)
                self._note(held)
            async for piece in response.content.iter_any():
                await self._body(piece, more=True)
                self._note(piece)
        except BROKEN as exc:
            LOG.warning("the upstream's response broke off: %s", type(exc).__name__)
            return
        await self._body(b"", more=False)

    def _note(self, piece: bytes) -> None:
        """Streams report usage at the beginning and the end; no megabytes are kept for it."""
        if not self._last and len(self._first) + len(piece) <= _MOST_NOTED:
            self._first += piece
        else:
            self._last = (self._last + piece)[-_LAST_NOTED:]

    def noted(self) -> bytes:
        """What was relayed, to read at the end: all of it, or of many megabytes the first and the last."""
        # The last ones begin inside of an event, which ends what the first ones broke off.
        return bytes(self._first) + b"\n\n" * bool(self._last) + self._last

    async def give(self, local: Response) -> None:
        """An answer written here."""
        self._begun = True
        await local(self._scope, self._receive, self._send)

    async def refuse(self, refused: GatewayError) -> None:
        """An error of the gateway itself; after the beginning of an answer it is too late for one."""
        if not self._begun:
            body = error_body(refused)
            await self.give(Response(body, refused.status, media_type="application/json"))

    async def _body(self, piece: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})

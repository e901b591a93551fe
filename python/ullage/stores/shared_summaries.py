"""Summaries that one worker writes and another installs: a call to a model is made once, whoever asks again for the same."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Any, Literal

import orjson

from ullage.exceptions import InvalidPolicy, LogConflict
from ullage.stores.store_protocols import DocumentStore, checked_name
from ullage.summarizers.named import writer_of
from ullage.summarizers.protocol import SummaryReply, SummaryRequest, WriterLike

__all__ = ["SharedSummaries"]


class SharedSummaries:
    """A summarizer whose replies are kept in a store, by the request that they answer.

    A worker that has time compacts a copy of a conversation (`Worker.copy`); the one that holds the conversation compacts with the same
    arguments and finds the reply. A worker that is killed after the call does not pay for it again.

    Args:
        summarizer: Writes what is not there yet; has a synchronous form.
        store: Where replies are kept, until the conversation is forgotten.
        conversation: Its name.

    Raises:
        InvalidPolicy: The summarizer has only an asynchronous form.
    """

    def __init__(self, summarizer: WriterLike, store: DocumentStore, conversation: str) -> None:
        self._inner: Any = writer_of(summarizer)
        if not hasattr(self._inner, "summarize"):
            limit = "must have a synchronous form"
            raise InvalidPolicy("summarizer", type(self._inner).__name__, limit)
        self._store, self._conversation = store, checked_name(conversation)
        self.calls = 0
        """Requests that were not answered from the store."""

    @property
    def name(self) -> str:
        """The summarizer's."""
        return str(self._inner.name)

    @property
    def modes(self) -> tuple[Literal["shared", "plain", "native"], ...]:
        """The summarizer's."""
        return tuple(getattr(self._inner, "modes", ("plain",)))

    @property
    def window_tokens(self) -> int | None:
        """The summarizer's."""
        found: int | None = getattr(self._inner, "window_tokens", None)
        return found

    @property
    def max_output_tokens(self) -> int | None:
        """The summarizer's."""
        found: int | None = getattr(self._inner, "max_output_tokens", None)
        return found

    def __repr__(self) -> str:
        return f"SharedSummaries({self._inner!r}, {self._conversation!r})"

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """The kept reply, or a new one.

        Raises:
            StoreError: The store fails.
            Exception: What the summarizer raises; nothing is kept then.
        """
        name = f"summary-{_digest(self.name, request)}"
        found = self._store.load(self._conversation, name)
        if found is not None:
            stored = orjson.loads(found.data)
            lists = {key: tuple(stored[key]) for key in ("tool_calls", "carried")}
            return SummaryReply(**{**stored, **lists})
        self.calls += 1
        given = self._inner.summarize(request)
        reply = given if isinstance(given, SummaryReply) else SummaryReply(text=given)
        if not reply.is_refusal:
            with suppress(LogConflict):  # another worker was as fast
                self._store.save(self._conversation, name, _dumped(reply), after=0)
        return reply


def _digest(name: str, request: SummaryRequest) -> str:
    """Of all that the reply depends on; a further attempt is another request."""
    asked = [
        name, list(request.messages), request.prompt, request.mode, request.system, request.max_output_tokens,
        request.instructions, request.attempt,
    ]  # fmt: skip
    data = orjson.dumps(asked, default=repr, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hashlib.sha256(data).hexdigest()


def _dumped(reply: SummaryReply) -> bytes:
    fields = {name: getattr(reply, name) for name in SummaryReply.__dataclass_fields__}
    return orjson.dumps(fields, default=dict)

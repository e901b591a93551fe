"""What a context manager takes in; all else is refused with what to give instead, never dropped or sent as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ullage.exceptions import InvalidMessage
from ullage.messages import METADATA_TYPES, Item
from ullage.providers.registry import Provider

__all__ = ["check_answer", "check_item"]


_ROLES: Final = ("user", "assistant", "system", "developer", "tool", "function", "model")
_SPEAKERS: Final = ("assistant", "model")
_LINES: Final = frozenset(
    (
        "user",
        "assistant",
        "system",
        "attachment",
        "progress",
        "summary",
        "queue-operation",
        *METADATA_TYPES,
    )
)
_ENVELOPE: Final = ("uuid", "sessionId", "parentUuid", "snapshot", "leafUuid")
_WHOLE: Final = "that is a whole response: give it to observe"
_PIECE: Final = (
    "that is a piece of a stream: give observe the whole response, as the SDK puts it together"
)
_CHAIN: Final = "that is another library's message: turn it into the provider's form, a mapping with role and content"
_OBJECT: Final = "give a mapping; observe takes an SDK's response object too"


def check_item(item: Any, provider: Provider) -> None:
    """Refuse what is no message, entry or item of the provider's form.

    Raises:
        InvalidMessage: Says what it looks like, and in its hint what to give.
    """
    if not isinstance(item, Mapping):
        raise InvalidMessage("must be a mapping", got=type(item).__name__, hint=_OBJECT)
    role = item.get("role")
    if isinstance(role, str):
        if role not in _ROLES:
            limit = ", ".join(_ROLES)
            raise InvalidMessage(
                f"must be one of {limit}", field="role", got=repr(role), hint=_hint(item)
            )
        return
    if not (_is_entry(item) or provider.owns(item)):
        got = ", ".join(sorted(map(str, item))[:6]) or "nothing"
        raise InvalidMessage(
            "is not a message: it has no role", got=f"keys {got}", hint=_hint(item)
        )


def check_answer(body: Any, items: Sequence[Any], provider: Provider) -> None:
    """Refuse what is no answer of a model.

    Args:
        body: The response as a mapping.
        items: The part of it that would be added.
        provider: Whose form it is of.

    Raises:
        InvalidMessage: As `check_item`.
    """
    if not items:
        raise InvalidMessage(
            "the response holds no message of the model", got=_told(body), hint=_hint(body)
        )
    for item in items:
        check_item(item, provider)
        inner = item.get("message")
        role = item.get("role") or (inner.get("role") if isinstance(inner, Mapping) else None)
        if role is not None and role not in _SPEAKERS:
            raise InvalidMessage(
                "is not a response of the model",
                field="role",
                got=repr(role),
                hint="what others say goes to add",
            )
        if role is None and provider.speakers_only:
            raise InvalidMessage(
                "is not a response of the model", got=_told(item), hint=_hint(item)
            )


def _is_entry(item: Item) -> bool:
    if isinstance(item.get("message"), Mapping):
        return True
    kind = item.get("type")
    return isinstance(kind, str) and (
        kind in _LINES or any(key in item for key in _ENVELOPE) or "-" in kind
    )


def _hint(item: Any) -> str:
    if not isinstance(item, Mapping):
        return _OBJECT
    choices = item.get("choices")
    if isinstance(choices, list):
        whole = any(isinstance(each, Mapping) and each.get("message") for each in choices)
        return _WHOLE if whole else _PIECE
    if item.get("output") or item.get("candidates"):
        return _WHOLE
    kind = item.get("type")
    if kind in ("ai", "human", "AIMessageChunk", "chat") or item.get("role") in ("ai", "human"):
        return _CHAIN
    if isinstance(kind, str) and (
        kind.startswith(("message_", "content_block_", "response.")) or "delta" in item
    ):
        return _PIECE
    return "give what the provider answered, or a mapping with role and content"


def _told(body: Any) -> str:
    if not isinstance(body, Mapping):
        return type(body).__name__
    reasons = [
        each.get("finishReason") or each.get("finish_reason")
        for name in ("candidates", "choices")
        for each in body.get(name) or ()
        if isinstance(each, Mapping)
    ]
    said = ", ".join(str(reason) for reason in reasons if reason)
    return said or f"keys {', '.join(sorted(map(str, body))[:6]) or 'none'}"

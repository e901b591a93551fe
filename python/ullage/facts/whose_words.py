"""Who wrote a message: the user, the host, or another agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.facts.reading import clean, text_of
from ullage.facts.words import words_of
from ullage.messages import is_summary, role_of

__all__ = ["author_of", "is_hidden", "is_user_input"]


def is_user_input(item: object) -> bool:
    """Whether the user wrote (part of) this message."""
    return bool(_user_words(item).text)


def _user_words(item: Any) -> Any:
    if role_of(item) != "user" or is_hidden(item) or author_of(item):
        return words_of("")
    return words_of(text_of(item))


def author_of(item: Mapping[str, Any]) -> str:
    """The author of a user entry other than the user, as the host recorded it; empty: the user, or unknown."""
    origin = item.get("origin")
    kind = origin.get("kind") if isinstance(origin, Mapping) else None
    return clean(kind, 80) if isinstance(kind, str) and kind not in ("", "human", "user") else ""


def is_hidden(item: Any) -> bool:
    """Whether the host wrote this entry for the model, or another part of it holds the conversation."""
    if type(item) is not dict and not isinstance(item, Mapping):
        return False
    return is_summary(item) or item.get("isMeta") is True or item.get("isSidechain") is True

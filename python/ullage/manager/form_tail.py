"""A conversation in another provider's form, which grows by what is new: whole rounds of plain messages after a clean request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ullage._late import pattern
from ullage.messages import Item
from ullage.providers.registry import Provider

__all__ = ["FormTail"]

_NAME: Final = pattern(r"[A-Za-z0-9_-]{1,64}")
_RESULTS_APART: Final = ("openai_chat", "openai_responses", "mistral")
"""Forms in which each result is an item of its own."""

_ANSWERS_APART: Final = ("openai_responses",)
"""Forms in which each piece of an answer is an item of its own."""

_BEFORE: Final = {"role": "user", "content": "."}
"""Stands for all that came before: what follows is never the beginning of a conversation."""


class FormTail:
    """The newest request in the provider's form, and what the next one adds to it.

    In a clean request nothing was repaired, lost or renamed. Rounds of plain messages after it leave it clean: each call is
    answered at once, by results of text.

    Attributes:
        items: Of all requests since the newest whole one; the list only grows.
        parts: Of the body, besides the items.
    """

    __slots__ = ("_provider", "_seen", "_view", "items", "parts")

    def __init__(
        self,
        provider: Provider,
        view: Sequence[Item],
        items: Sequence[Any],
        parts: Mapping[str, Any],
    ) -> None:
        self._provider, self._view, self._seen = provider, view, len(view)
        self.items, self.parts = list(items), parts

    def follows(self, view: Sequence[Item]) -> bool:
        """Whether the view is that of the newest request, with whole rounds added."""
        return view is self._view and self._is_rounds(view)

    def _is_rounds(self, view: Sequence[Item]) -> bool:
        at, form = self._seen, self._provider.name
        while at < len(view):
            stop = _round_end(view, at, form)
            if stop is None:
                return False
            at = stop
        return True

    def grow(self, given: Sequence[Any] | None = None) -> bool:
        """Add what is new; False: it takes a whole request, nothing has changed.

        Args:
            given: For each new message the item that it was read from and would be written as; `None`: it takes translating.
        """
        new = self._view[self._seen :]
        if not new:
            return True
        quick = given
        if given is None or len(given) < len(new):
            plain = self._provider.plain_form
            quick = None if plain is None else plain.write_plain(new)
        if quick is not None:
            self.items += quick
            self._seen += len(new)
            return True
        shape = self._provider.shape.to_provider([_BEFORE, *new])
        if shape.losses or shape.ids or shape.names or self._lacks(shape.parts):
            return False
        self.items += shape.parts[self._provider.list_key][1:]
        self._seen += len(new)
        return True

    def _lacks(self, parts: Mapping[str, Any]) -> bool:
        """Whether what is new needs a part of the body that the requests before it had not, as Converse does with the first call."""
        return any(key != self._provider.list_key and key not in self.parts for key in parts)


def _round_end(view: Sequence[Item], start: int, form: str) -> int | None:
    """Where a round ends that begins here: an answer, and the results of its calls in their order, or words of the user.

    Args:
        view: Plain messages.
        start: Of the answer.
        form: Name of the provider's form; in some an answer, or its results, may be several messages.
    """
    calls: list[str] = []
    at, apart = start, form in _ANSWERS_APART
    while at < len(view) and view[at]["role"] == "assistant" and (apart or at == start):
        found = _calls(view[at]["content"])
        if found is None:
            return None
        calls += found
        at += 1
    if at == start or at == len(view):
        return None
    if not calls:
        words = view[at]["content"]
        return at + 1 if type(words) is str and not words.isspace() else None
    first, apart = at, form in _RESULTS_APART
    while calls and at < len(view) and view[at]["role"] == "user" and (apart or at == first):
        names = _results(view[at]["content"])
        if not names or calls[: len(names)] != names:
            return None
        del calls[: len(names)]
        at += 1
    return None if calls else at


def _calls(content: Any) -> list[str] | None:
    """Ids of the calls of an answer; `None`: it may not go as it is."""
    if type(content) is str:
        return None if content.isspace() else []
    names: list[str] = []
    for block in content:
        if block["type"] == "tool_use":
            if not _NAME.fullmatch(block["name"]):
                return None
            names.append(block["id"])
        elif block["text"].isspace() or names:
            return None
    return names


def _results(content: Any) -> list[str]:
    """Ids of the calls that are answered; none where anything else stands with them."""
    if type(content) is str:
        return []
    names = [block.get("tool_use_id", "") for block in content]
    return names if all(names) else []

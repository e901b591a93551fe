"""State that only the host knows (tasks, tools, agents, MCP): checked, announced once, and within its budget (POST-3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from ullage.exceptions import InvalidPolicy
from ullage.facts.reading import text_of
from ullage.policy.arguments import nearest
from ullage.transcript.attachment_text import SHOWN_KINDS, render

__all__ = ["Seen", "announced", "size_of"]

Attachment: TypeAlias = dict[str, Any]
Measure: TypeAlias = Callable[[str], int]

_NAMES: Final[Mapping[str, str]] = {
    "deferred_tools_delta": "addedNames",
    "agent_listing_delta": "addedTypes",
    "mcp_instructions_delta": "addedNames",
}
"""Listings, by what names their rows."""

_ROWS: Final = ("addedNames", "addedTypes", "addedLines", "addedBlocks")
"""Lists of a listing that run side by side, where they have the same length."""

CUT: Final = "[… cut …]"


class Seen:
    """What the kept messages already announce.

    Args:
        kept: The messages and entries that stay, as they are stored.
    """

    def __init__(self, kept: Iterable[Mapping[str, Any]]) -> None:
        self._rows: dict[str, set[str]] = {}
        self._texts: list[str] = []
        for item in kept:
            attachment = item.get("attachment")
            if isinstance(attachment, Mapping):
                self.note(attachment)
            else:
                self._texts.append(text_of(item))

    def note(self, attachment: Mapping[str, Any]) -> None:
        """Record an attachment that is present, or will be."""
        rows = self._rows.setdefault(str(attachment.get("type")), set())
        rows.update(_strings(attachment.get(_NAMES.get(str(attachment.get("type")), ""))))
        rows.difference_update(_strings(attachment.get("removedNames")))
        rows.difference_update(_strings(attachment.get("removedTypes")))
        self._texts.append(_text(attachment))

    def rest(self, attachment: Attachment) -> Attachment | None:
        """The attachment without rows that were already announced; `None`: nothing in it is new."""
        text, names = _text(attachment), _NAMES.get(attachment["type"], "")
        if not text or any(text in said for said in self._texts):
            return None
        told, rows = self._rows.get(attachment["type"], set()), _strings(attachment.get(names))
        if not told.intersection(rows):
            return attachment
        news = [at for at, row in enumerate(rows) if row not in told]
        left = _with_rows(attachment, news, len(rows))
        return left if _text(left) else None


def announced(
    name: str, answer: Any, seen: Seen, tokens: int, measure: Measure
) -> tuple[list[Attachment], int]:
    """A provider's attachments that are news, and how many did not fit whole.

    Args:
        name: The provider's field, for errors.
        answer: What it returned; `None`: nothing.
        seen: What was already announced; restored rows are added.
        tokens: For all of them, rendered.
        measure: Tokens of a text.

    Raises:
        InvalidPolicy: Something in the answer is not an attachment, or of a type that is not shown to a model.
    """
    found, cut = list[Attachment](), 0
    for attachment in _newest(name, answer):
        news = seen.rest(attachment)
        if news is None:
            continue
        fitting = news if measure(_text(news)) <= tokens else _shortened(news, tokens, measure)
        cut += fitting is not news
        if fitting is None:
            continue
        tokens -= measure(_text(fitting))
        seen.note(fitting)
        found.append(fitting)
    return found, cut


def size_of(attachment: Mapping[str, Any], measure: Measure) -> int:
    """Tokens of an attachment as it is shown to the model."""
    return measure(_text(attachment))


def _newest(name: str, answer: Any) -> list[Attachment]:
    """The checked attachments; of several states of one task only the last."""
    if answer is None:
        return []
    if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Sequence):
        raise InvalidPolicy(
            f"providers.{name}", type(answer).__name__, "must return a list of attachments"
        )
    checked = [_checked(name, at, each) for at, each in enumerate(answer)]
    last = {each.get("taskId"): at for at, each in enumerate(checked) if _is_task(each)}
    return [
        each for at, each in enumerate(checked) if not _is_task(each) or last[each["taskId"]] == at
    ]


def _is_task(attachment: Attachment) -> bool:
    return attachment["type"] == "task_status" and isinstance(attachment.get("taskId"), str | int)


def _checked(name: str, at: int, given: Any) -> Attachment:
    place = f"providers.{name}[{at}]"
    if not isinstance(given, Mapping):
        raise InvalidPolicy(
            place, type(given).__name__, "must be an attachment: an object with a type"
        )
    kind = given.get("type")
    if kind not in SHOWN_KINDS:
        hint = nearest(kind, SHOWN_KINDS)
        raise InvalidPolicy(
            f"{place}.type", kind, "is not a type of attachment that a model is shown", hint=hint
        )
    return dict(given)


# ---- shorter -----------------------------------------------------------------------------------


def _shortened(attachment: Attachment, tokens: int, measure: Measure) -> Attachment | None:
    """As many first rows of a listing as fit, or the longest text cut; `None`: not even that fits."""
    rows = max((len(_list(attachment.get(key))) for key in _ROWS), default=0)
    if rows > 1:
        made = partial(_first_rows, attachment, rows)
        return _largest(made, rows, tokens, measure)
    texts = {
        key: text for key, text in attachment.items() if isinstance(text, str) and key != "type"
    }
    if not texts:
        return None
    longest = max(texts, key=lambda key: len(texts[key]))
    return _largest(partial(_cut_at, attachment, longest), len(texts[longest]) - 1, tokens, measure)


def _largest(
    made: Callable[[int], Attachment], most: int, tokens: int, measure: Measure
) -> Attachment | None:
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        fits = measure(_text(made(middle))) <= tokens
        low, high = (middle, high) if fits else (low, middle - 1)
    return made(low) if low else None


def _first_rows(attachment: Attachment, count: int, kept: int) -> Attachment:
    return _with_rows(attachment, range(kept), count)


def _cut_at(attachment: Attachment, key: str, chars: int) -> Attachment:
    return {**attachment, key: f"{attachment[key][:chars]}{CUT}"}


def _with_rows(attachment: Attachment, places: Iterable[int], count: int) -> Attachment:
    chosen = list(places)
    lists = {key: attachment[key] for key in _ROWS if len(_list(attachment.get(key))) == count}
    return {**attachment, **{key: [rows[at] for at in chosen] for key, rows in lists.items()}}


def _text(attachment: Mapping[str, Any]) -> str:
    return text_of({"role": "user", "content": render(attachment) or ""})


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _strings(value: Any) -> list[str]:
    return [each for each in _list(value) if isinstance(each, str)]

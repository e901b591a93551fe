"""The `recall` tool: whole texts, ranges of lines or characters, a search, or the list of what was removed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ullage.exceptions import InvalidPolicy, StoreError, UnknownHandle
from ullage.recall.store import Archive, Left, Recalled
from ullage.recall.text import RECALL_NAME, Tool, ToolAnswer


def _whole(about: str, least: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "description": about}


RECALL_TOOL = Tool(
    name=RECALL_NAME,
    description=(
        "Returns content that was removed from this conversation to save room: shortened or cleared tool results, removed or "
        "summarised messages. Without `handle` and `query` it lists what was removed, each with its handle. With `handle` it returns "
        "that text, whole or only the requested lines or characters. With `query` it finds lines that contain it, in one handle or all."
    ),
    schema={
        "type": "object",
        "properties": {
            "handle": {"type": "string", "description": "Handle of the content, as listed."},
            "query": {
                "type": "string",
                "description": "Find lines with this text; case does not matter.",
            },
            "first_line": _whole("First line to show, from 1.", 1),
            "last_line": _whole("Last line to show.", 1),
            "offset": _whole("First character to show, from 0.", 0),
            "length": _whole("How many characters to show.", 1),
            "skip": _whole("In a list or a search: how many entries to skip.", 0),
        },
        "additionalProperties": False,
    },
)
"""The definition for the model; add it to the request's tools to offer it."""

_LEAST: Final = {
    name: about["minimum"]
    for name, about in RECALL_TOOL.schema["properties"].items()
    if "minimum" in about
}
"""The numbers that a call may name, each with its smallest value."""

NOTHING_REMOVED = "Nothing was removed from this conversation."


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallLimits:
    """The limits of an answer.

    Attributes:
        max_chars: Characters of one answer, so that a recall does not fill the window again.
        max_hits: Lines of a search, or entries of a list, in one answer.
        line_chars: Characters of one line of a search.
    """

    max_chars: int = 20_000
    max_hits: int = 40
    line_chars: int = 300

    def __post_init__(self) -> None:
        for name in ("max_chars", "max_hits", "line_chars"):
            if getattr(self, name) < 1:
                raise InvalidPolicy(f"recall.{name}", getattr(self, name), "must be at least 1")


class Recall:
    """Executes the `recall` tool over an archive.

    Args:
        archive: Resolves the handles.
        listing: Returns what is currently removed from the context; `None`: nothing can be listed or searched without a handle.
        limits: Limits of one answer.

    Example:
        >>> archive = Archive([{"role": "user", "content": "The port is 8123"}])
        >>> print(Recall(archive).call({"handle": "m0", "query": "PORT"}).text)
        m0:3: The port is 8123
    """

    def __init__(
        self,
        archive: Archive,
        *,
        listing: Callable[[], Sequence[Left]] | None = None,
        limits: RecallLimits | None = None,
    ) -> None:
        self.archive = archive
        self._listing = listing or tuple
        self._limits = limits or RecallLimits()

    def get(self, handle: str) -> Recalled:
        """Everything under a handle: the stored objects and their text, without a limit.

        Raises:
            UnknownHandle: Nothing has it.
            StoreError: The transcript cannot be read.
        """
        return self.archive.resolve(handle)

    def call(self, given: object) -> ToolAnswer:
        """The answer to a call of the tool with this `input`; an invalid call is answered with an error, never raised."""
        try:
            return ToolAnswer(self._answer(given if isinstance(given, Mapping) else {}))
        except (UnknownHandle, InvalidPolicy, StoreError) as exc:
            return ToolAnswer(f"{exc}. {exc.hint}".rstrip(". ") + ".", is_error=True)

    # ---- answers

    def _answer(self, asked: Mapping[str, Any]) -> str:
        numbers = {
            name: number_in(asked, name, least)
            for name, least in _LEAST.items()
            if asked.get(name) is not None
        }
        handle, query = (string_in(asked, name) for name in ("handle", "query"))
        skip = numbers.get("skip", 0)
        if query:
            return self._search(handle, query, skip)
        if not handle:
            return self._list(skip)
        recalled = self.archive.resolve(handle)
        return self._cut(recalled, *_range(recalled.text, numbers))

    def _cut(self, recalled: Recalled, start: int, stop: int) -> str:
        """A part of a text with a header that names it, within the limit of an answer."""
        if not recalled.text:
            return f"[{recalled.handle}: {recalled.title}; it is empty]"
        end = min(stop, start + self._limits.max_chars)
        if end < stop and (line := recalled.text.rfind("\n", start + 1, end)) > start:
            end = line + 1
        size = len(recalled.text)
        head = f"[{recalled.handle}: {recalled.title}; characters {start}-{end} of {size}]"
        more = f"\n[more: offset {end}]" if end < stop else ""
        return f"{head}\n{recalled.text[start:end]}{more}"

    def _list(self, skip: int) -> str:
        everything = list(self._listing())
        if not everything:
            return NOTHING_REMOVED
        page = everything[skip : skip + self._limits.max_hits]
        lines = [f"{part.handle}: {part.title} ({part.chars:,} characters)" for part in page]
        return self._paged(lines, skip, len(everything), "removed items")

    def _search(self, handle: str, query: str, skip: int) -> str:
        handles = [handle] if handle else [part.handle for part in self._listing()]
        hits = [hit for handle in handles for hit in self._hits(handle, query)]
        if not handles:
            return NOTHING_REMOVED
        if not hits:
            items = f"{len(handles):,} removed {'item' if len(handles) == 1 else 'items'}"
            return f"No line of {items} contains {query[:80]!r}."
        page = hits[skip : skip + self._limits.max_hits]
        return self._paged(page, skip, len(hits), "lines")

    def _hits(self, handle: str, query: str) -> list[str]:
        """Lines that contain the query, ignoring case; if none does, lines that contain all of its words."""
        lines = self.archive.resolve(handle).text.split("\n")
        folded = [line.casefold() for line in lines]
        whole = query.casefold()
        hits = [at for at, line in enumerate(folded) if whole in line]
        words = whole.split()
        if not hits and len(words) > 1:
            hits = [at for at, line in enumerate(folded) if all(word in line for word in words)]
        return [f"{handle}:{at + 1}: {lines[at].strip()[: self._limits.line_chars]}" for at in hits]

    def _paged(self, lines: Sequence[str], skip: int, total: int, what: str) -> str:
        lines_out, room = list[str](), self._limits.max_chars
        for line in lines:
            room -= len(line) + 1
            if room < 0 and lines_out:
                break
            lines_out.append(line)
        end = skip + len(lines_out)
        if end >= total:
            return "\n".join(lines_out) or f"There are only {total} {what}."
        return "\n".join([*lines_out, f"[{end} of {total} {what}; more: skip {end}]"])


def string_in(asked: Mapping[str, Any], name: str) -> str:
    """An argument of a tool that is a text; empty if it is missing."""
    value = asked.get(name)
    if value is None or isinstance(value, str):
        return (value or "").strip()
    raise InvalidPolicy(name, value, "must be a string")


def number_in(asked: Mapping[str, Any], name: str, least: int, most: int | None = None) -> int:
    """An argument of a tool that is a number; `most` `None`: of any size."""
    value = asked[name]
    # Models send strings for numbers, and senseless numbers.
    if isinstance(value, str) and re.fullmatch(r"\d{1,12}", value.strip()):
        value = int(value)
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not fits or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InvalidPolicy(name, value, f"must be a whole number {limits}")
    return int(value)


def _range(text: str, numbers: Mapping[str, int]) -> tuple[int, int]:
    """The requested characters [start, stop) of a text."""
    first, last = numbers.get("first_line"), numbers.get("last_line")
    if first is None and last is None:
        start = numbers.get("offset", 0)
        if start and start >= len(text):
            raise InvalidPolicy("offset", start, f"the text has {len(text):,} characters")
        return start, min(start + numbers.get("length", len(text)), len(text))
    first = first or 1
    starts = [0, *(line_end.end() for line_end in re.finditer("\n", text))]
    if first > len(starts):
        raise InvalidPolicy("first_line", first, f"the text has {len(starts):,} lines")
    if last is not None and last < first:
        raise InvalidPolicy("last_line", last, f"must not be before line {first}")
    stop = starts[last] if last is not None and last < len(starts) else len(text)
    return starts[first - 1], stop

"""Tool results of a view with the calls that they answer, each read once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ullage._engine.digests import BlockFlag, BlockKind, Role
from ullage.messages import Item, message_of

__all__ = ["Result", "Results", "fresh_from", "is_marker"]


_PATH_KEYS = (
    "file_path", "path", "filename", "notebook_path", "file", "filePath", "absolute_path", "target_file",
)  # fmt: skip

# As plain numbers: operators of enumerations cost more than the rest of a look.
_RESULT = int(BlockKind.TOOL_RESULT)
_ASSISTANT = int(Role.ASSISTANT)
_ANSWERING = (int(Role.USER), int(Role.TOOL))
_IS_ERROR = int(BlockFlag.IS_ERROR)
_NESTED_MEDIA = int(BlockFlag.NESTED_MEDIA)
_SHORTENED = int(BlockFlag.CLEARED | BlockFlag.OFFLOADED)

LONGEST_MARKER = 4_000
"""Characters: a longer text that begins like one of our markers is none, whoever wrote it."""


def is_marker(block: Any) -> bool:
    """Whether a result's text may be a marker of ours; one that is as long as output is output.

    A tool can print what our markers begin with. Of so short a text nothing is won by it.
    """
    return bool(block.flags & _SHORTENED) and block.chars <= LONGEST_MARKER


def fresh_from(ledger: Any) -> int:
    """From this message on no answer of the model has followed: it sees these results whole (decided once they were seen)."""
    for index in range(len(ledger) - 1, -1, -1):
        if ledger.message(index).role == _ASSISTANT:
            return index + 1
    return 0


class Result(NamedTuple):
    """A tool result in the view, with the call that it answers.

    Attributes:
        message: Index of its message; `block` of its block.
        tool: Name of the tool; empty if its call is not in the context.
        given: The call's input.
        chars: Length of its text as it stands in the view.
        tokens: Calibrated estimate of it.
        replaced: Something stands in its place already.
    """

    id: str
    message: int
    block: int
    tool: str
    given: Mapping[str, Any]
    chars: int
    tokens: int
    is_error: bool
    has_media: bool
    replaced: bool

    @property
    def path(self) -> str:
        """The file that the call names, or an empty string."""
        return next(
            (value for key in _PATH_KEYS if isinstance(value := self.given.get(key), str)), ""
        )


class Results:
    """The results of a view, oldest first; what was read stays until the view changes there.

    Attributes:
        found: Those read so far; `read_all` reads the rest.
    """

    def __init__(self) -> None:
        self.found: list[Result] = []
        self._upto = 0

    def cut(self, index: int) -> None:
        """Messages from here on are not what they were."""
        if index < self._upto:
            self._upto = index
            del self.found[self._first(index) :]

    def _first(self, message: int) -> int:
        return bisect_left(self.found, message, key=lambda result: result.message)

    def read(
        self, ledger: Any, originals: Sequence[Item], replaced: Mapping[str, Any], start: int = 0
    ) -> Iterator[Result]:
        """Results from message `start` on.

        Args:
            ledger: Of the view.
            originals: Its messages as they were added.
            replaced: Results in whose place something stands, by tool use id.
            start: A position in the view.
        """
        calls = _Calls(ledger, originals)
        for index in range(self._upto, len(ledger)):
            if ledger.message(index).role in _ANSWERING:
                self._read(index, ledger, calls, replaced)
        self._upto = len(ledger)
        # A copy: a level may change the view while it looks.
        return iter(self.found[self._first(start) :])

    def _read(self, index: int, ledger: Any, calls: _Calls, replaced: Mapping[str, Any]) -> None:
        for number, block in enumerate(ledger.blocks(index)):
            if block.kind != _RESULT or not block.id:
                continue
            name = ledger.string(block.id)
            tool, given = calls.of(name)
            self.found.append(
                Result(
                    id=name,
                    message=index,
                    block=number,
                    tool=tool,
                    given=given,
                    chars=block.chars,
                    tokens=block.tokens,
                    is_error=bool(block.flags & _IS_ERROR),
                    has_media=bool(block.flags & _NESTED_MEDIA),
                    replaced=name in replaced or is_marker(block),
                )
            )


class _Calls:
    """Calls by the id of their results; the message that was looked into last stays at hand, since its calls come in a row."""

    def __init__(self, ledger: Any, originals: Sequence[Item]) -> None:
        self._ledger, self._originals = ledger, originals
        self._at = -1
        self._digests: Sequence[Any] = ()
        self._content: Any = None

    def of(self, tool_use_id: str) -> tuple[str, Mapping[str, Any]]:
        """Name of the tool and the call's input; nothing if the call is not in the context."""
        place = self._ledger.find_call(tool_use_id)
        if place is None:
            return "", {}
        if place[0] != self._at:
            self._at = place[0]
            self._digests = self._ledger.blocks(self._at)
            self._content = (message_of(self._originals[self._at]) or {}).get("content")
        content, number = self._content, place[1]
        block = content[number] if isinstance(content, list) and number < len(content) else {}
        given = block.get("input") if isinstance(block, Mapping) else None
        tool = self._ledger.string(self._digests[number].name)
        return tool, given if isinstance(given, Mapping) else {}

"""Tool results of a view with the calls that they answer, each read once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ullage._engine.digests import BlockFlag, Role
from ullage.messages import Item, message_of

__all__ = ["Result", "Results", "fresh_from", "is_marker", "is_replaced"]


_PATH_KEYS = (
    "file_path", "path", "filename", "notebook_path", "file", "filePath", "absolute_path", "target_file",
)  # fmt: skip

# As plain numbers: operators of enumerations cost more than the rest of a look.
_ASSISTANT = int(Role.ASSISTANT)
_IS_ERROR = int(BlockFlag.IS_ERROR)
_NESTED_MEDIA = int(BlockFlag.NESTED_MEDIA)
_SHORTENED = int(BlockFlag.CLEARED | BlockFlag.OFFLOADED)

LONGEST_MARKER = 4_000
"""Characters: a longer text that begins like one of our markers is none, whoever wrote it."""


def is_marker(block: Any) -> bool:
    """Whether a result's text may be a marker of ours; one that is as long as output is output.

    A tool can print what our markers begin with. Of so short a text nothing is won by it.
    """
    return is_replaced(block.chars, block.flags)


def is_replaced(chars: int, flags: int) -> bool:
    """The same by a result's length and flags."""
    return bool(flags & _SHORTENED) and chars <= LONGEST_MARKER


def fresh_from(ledger: Any) -> int:
    """From this message on no answer of the model has followed: it sees these results whole (decided once they were seen)."""
    found: int = ledger.roles().rfind(_ASSISTANT) + 1
    return found


class Result(NamedTuple):
    """A tool result in the view, with the call that it answers.

    Attributes:
        message: Index of its message; `block` of its block.
        tool: Name of the tool; empty if its call is not in the context.
        given: The call's input.
        chars: Length of its text as it stands in the view.
        tokens: Calibrated estimate of it.
        replaced: Something stands in its place already.
        path: The file that the call names, or an empty string.
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
    path: str


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
        for name, at, block, call, tool, chars, tokens, flags in ledger.results(self._upto):
            given = _NOTHING if call is None else _input_of(originals[call[0]], call[1])
            error, media = bool(flags & _IS_ERROR), bool(flags & _NESTED_MEDIA)
            stands = name in replaced or is_replaced(chars, flags)
            path = _path(given) if given else ""
            self.found.append(
                Result(name, at, block, tool, given, chars, tokens, error, media, stands, path)
            )
        self._upto = len(ledger)
        # A copy: a level may change the view while it looks.
        return iter(self.found[self._first(start) :])


_NOTHING: Mapping[str, Any] = {}


def _path(given: Mapping[str, Any]) -> str:
    for key in _PATH_KEYS:
        value = given.get(key)
        if isinstance(value, str):
            return value
    return ""


def _input_of(item: Item, number: int) -> Mapping[str, Any]:
    """The input of a call, by the place of its block."""
    content = (message_of(item) or {}).get("content")
    block = content[number] if type(content) is list and number < len(content) else None
    given = block.get("input") if type(block) is dict or isinstance(block, Mapping) else None
    return given if type(given) is dict or isinstance(given, Mapping) else _NOTHING

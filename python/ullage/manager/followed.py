"""What a manager knows of the list that a framework hands it at each call, and the way back to an earlier part of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ullage._late import hashlib, orjson
from ullage.exceptions import InvalidPolicy

__all__ = ["FORMAT", "PRINT", "Followed", "print_of"]

FORMAT = 1
"""Of the stored form; raised when an older reader could not read it any more."""

PRINT = 12
"""Hex digits of a message's fingerprint."""

POINTS = 16
"""States that are held to go back to: the newest, each a few bytes for a message."""


def print_of(item: object) -> str:
    """The fingerprint of a message's content; the order of its keys is no part of it."""
    options = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
    try:
        body = orjson.dumps(item, default=repr, option=options)
    except (orjson.JSONEncodeError, RecursionError):  # lone surrogates, integers over 64 bits
        body = repr(item).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(body, digest_size=PRINT // 2).hexdigest()


@dataclass(slots=True)
class Followed:
    """The list as it was last seen.

    Attributes:
        prints: Of each of its messages.
        ends: For each the length of the history after it; one message may be several there, or none.
        asked: How many of them the newest request showed; -1: there was none.
        mark: What the conversation was like after that request, to know whether anything was done since.
        points: States after requests in which a level acted, by the number of messages that had been taken; not stored.
    """

    prints: list[str] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    asked: int = -1
    mark: list[int] = field(default_factory=list)
    points: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)

    def start(self, index: int) -> int:
        """The position in the history at which message `index` begins."""
        return self.ends[index - 1] if index else 0

    def owner(self, place: int) -> int:
        """The message of the list that a message of the history came from."""
        return bisect_right(self.ends, place)

    def same(self, prints: Sequence[str]) -> int:
        """How many messages a list has at its beginning that are known."""
        most = min(len(prints), len(self.prints))
        if self.prints[:most] == prints[:most]:
            return most
        return next(at for at in range(most) if self.prints[at] != prints[at])

    def cut(self, count: int) -> None:
        """Know only the first `count` messages."""
        del self.prints[count:], self.ends[count:]
        self.points = [point for point in self.points if point[0] <= count]
        if self.asked > count:
            self.asked = -1

    def become(self, prints: Sequence[str], origin: Sequence[int | None], end: int) -> None:
        """From now on the list is what was made of it.

        Args:
            prints: Of its messages.
            origin: For each the message of the old list that it is made of; `None`: it stands for all before the next that has one.
            end: The length of the history.
        """
        ends: list[int] = []
        for at in range(len(prints)):
            following = next((each for each in origin[at + 1 :] if each is not None), None)
            own = origin[at]
            if own is None or own == following:
                ends.append(end if following is None else self.start(following))
            else:
                ends.append(self.ends[own])
        if ends:
            ends[-1] = end  # what came after it and was removed is in what was made of the list
        self.prints, self.ends, self.points = list(prints), ends, []
        self.asked = len(prints)

    def note(self, state: Mapping[str, Any]) -> None:
        """A point to go back to: the state as it is now."""
        self.points.append((len(self.prints), state))
        del self.points[:-POINTS]

    def dump(self) -> dict[str, Any]:
        """As plain JSON: twelve characters for a message."""
        uneven = [
            [at, end - self.start(at)]
            for at, end in enumerate(self.ends)
            if end != self.start(at) + 1
        ]
        return {
            "format": FORMAT,
            "prints": "".join(self.prints),
            "uneven": uneven,
            "asked": self.asked,
            "mark": self.mark,
        }

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Followed:
        """What `dump` gave.

        Raises:
            InvalidPolicy: Not such a form, or of a newer version; names the field.
        """
        if not stored:
            return cls()
        if stored.get("format") != FORMAT:
            raise InvalidPolicy("saved.followed.format", stored.get("format"), f"must be {FORMAT}")
        try:
            joined, uneven = str(stored["prints"]), dict(map(tuple, stored["uneven"]))
            prints = [joined[at : at + PRINT] for at in range(0, len(joined), PRINT)]
            ends, end = [], 0
            for at in range(len(prints)):
                end += uneven.get(at, 1)
                ends.append(end)
            return cls(prints, ends, int(stored["asked"]), [int(each) for each in stored["mark"]])
        except (KeyError, TypeError, ValueError) as exc:
            raise InvalidPolicy(
                "saved.followed", type(exc).__name__, f"cannot be read: {exc}"
            ) from exc

"""One line for each thing that is wrong."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """Place, value and next step."""

    place: str
    value: str
    hint: str

    def __str__(self) -> str:
        """The three, on one line."""
        return " ".join(f"{self.place}: {self.value}; {self.hint}".split())

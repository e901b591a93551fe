"""Pins: texts that every compaction carries verbatim, until they are unpinned by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ullage._late import pattern
from ullage.exceptions import InvalidPolicy
from ullage.facts.words import clean, text_of

_NAME = pattern(r"[^\s`~:][^`~\n]{0,79}")
_HEAD = pattern(r"^- ([^\s`~:][^`~\n]{0,79}):$")
_FENCE = pattern(r"^(`{3,})text$")


@dataclass(frozen=True, slots=True)
class Pin:
    """A text that is kept verbatim.

    Args:
        name: Unique in a conversation; one line, no backticks.
        text: What is kept.
        by: Who pinned it: `host`, `user` or `tool`.
    """

    name: str
    text: str
    by: str = "host"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name.endswith(":"):
            raise InvalidPolicy("pin.name", self.name, "must be one line of 1 to 80 characters")
        if not self.text.strip():
            raise InvalidPolicy("pin.text", self.text, "must say something")


def pin_of(name: str, given: str | Mapping[str, Any], *, by: str = "host") -> Pin:
    """A pin of a text, or of the text of a message or block.

    Args:
        name: To unpin it by.
        given: A string, a message or entry, or a text block.
        by: Who pins.
    """
    if isinstance(given, str):
        return Pin(name, clean(given), by)
    if isinstance(given.get("text"), str):
        return Pin(name, clean(given["text"]), by)
    return Pin(name, text_of(given), by)


def unpin(pins: Iterable[Pin], name: str) -> tuple[Pin, ...]:
    """The pins without the one of this name.

    Raises:
        InvalidPolicy: There is none.
    """
    listed = tuple(pins)
    rest = tuple(pin for pin in listed if pin.name != name)
    if len(rest) == len(listed):
        raise InvalidPolicy("pin.name", name, "must be the name of a pin")
    return rest


def write_pins(pins: Iterable[Pin]) -> str:
    """The pins as a summary message carries them."""
    from ullage.facts.sections import quoted

    return "\n".join(f"- {pin.name}:\n{quoted(pin.text)}" for pin in pins)


def read_pins(text: str) -> tuple[Pin, ...]:
    """The pins that a summary message carries; `()` if it has none."""
    from ullage.facts.sections import CLOSING, PINS_HEADING

    _, closed, after = text.rpartition(f"\n{CLOSING}\n")
    start = after.find(f"## {PINS_HEADING}\n") if closed else -1
    if start < 0:
        return ()
    pins: list[Pin] = []
    name, fence, block = "", "", []  # type: str, str, list[str]
    for line in after[start:].split("\n")[1:]:
        if fence:
            if line == fence:
                pins.append(Pin(name, "\n".join(block), "summary"))
                name, fence = "", ""
            else:
                block.append(line)
        elif name and (opened := _FENCE.match(line)):
            fence, block = opened[1], []
        elif head := _HEAD.match(line):
            name = head[1]
        else:
            break
    return tuple(pins)


def missing_pins(pins: Iterable[Pin], texts: Iterable[str]) -> tuple[Pin, ...]:
    """The pins whose text is in none of the texts: what a check after each level reports."""
    listed = list(texts)
    return tuple(pin for pin in pins if not any(pin.text in text for text in listed))

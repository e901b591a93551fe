"""Pins: texts that every compaction carries verbatim, until they are unpinned by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ullage._start import Frozen, pattern
from ullage.exceptions import InvalidPolicy
from ullage.facts.sections import CLOSING, PINS_HEADING, quoted
from ullage.facts.words import blocks_of, clean, text_of
from ullage.levels.level import NEVER, NOW, Context, Level, Rest
from ullage.levels.view import Made, StageReport, View

_NAME = pattern(r"[^\s`~:][^`~\n]{0,79}")
_HEAD = pattern(r"^- ([^\s`~:][^`~\n]{0,79}):$")
_FENCE = pattern(r"^(`{3,})text$")


class Pin(Frozen):
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


def pin_of(name: str, content: str | Mapping[str, Any], *, by: str = "host") -> Pin:
    """A pin of a string, or of the text of a message, entry or block."""
    text = content if isinstance(content, str) else content.get("text")
    return Pin(name, clean(text) if isinstance(text, str) else text_of(content), by)


def write_pins(pins: Iterable[Pin]) -> str:
    """The pins as a summary message carries them."""
    return "\n".join(f"- {pin.name}:\n{quoted(pin.text)}" for pin in pins)


def read_pins(text: str) -> tuple[Pin, ...]:
    """The pins that a summary message carries; `()` if it has none."""
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


# Pins through every level: what a level or a summary removed of a pinned text is restored, verbatim (CTX-3).


STAGE = "pins"


def run(context: Context) -> StageReport | None:
    """Put back what left the request of pinned texts and of the user's newest words; `None` if all is there, or nothing changed.

    Only what was changed for this request anyway is changed: the cached prefix does not end any earlier.
    """
    view = context.view
    if not (context.reports or view.changed_from is not None):
        return None
    lost = missing_pins(context.pins, _texts(view.messages)) if context.pins else ()
    newest = _newest_words(context.history, view)
    # They mostly stand near the end.
    if newest and any(newest in text for text in _texts(reversed(view.messages))):
        newest = ""
    if not lost and not newest:
        return None
    texts = [f"Pinned, to be kept verbatim:\n{write_pins(lost)}"] if lost else []
    texts += [f"The user's newest message, verbatim:\n{quoted(newest)}"] if newest else []
    text = "\n\n".join(texts)
    entry = {"type": "user", "isMeta": True, "message": {"role": "user", "content": text}}
    message = Made(f"{STAGE}:{context.request}", entry)
    # The first position, not before what was changed, where nothing is split.
    least = view.sent if view.changed_from is None else view.changed_from
    cuts = view.ledger.whole_cuts()
    at = next((cut for cut in cuts if cut > least), cuts[-1])
    parts = [*range(at), message, *range(at, len(view))]
    names = [*(pin.name for pin in lost), *(["the user's newest message"] if newest else [])]
    return view.rearranged(STAGE, f"{', '.join(names)}: not in the request any more", parts)


def rest(context: Context) -> Rest:
    """Until something is rewritten."""
    return NEVER if context.view.changed_from is None else NOW


def _newest_words(history: Sequence[Mapping[str, Any]], view: View) -> str:
    """The user's newest words; a summary holds them verbatim, a record of that summary may not. Empty: they are shown as they came."""
    from ullage.facts import collect, is_user_input

    searched, place = view.heard
    new = range(len(history) - 1, searched - 1, -1)
    # Of a long conversation most is no longer in memory.
    others = (at for at in new if not _holds_results_alone(history[at]))
    place = next((at for at in others if is_user_input(history[at])), place)
    view.heard = (len(history), place)
    if place < 0:
        return ""
    at = view.sources.index(place) if place in view.sources else None
    if at is not None and view.shown[at] is view.originals[at]:
        return ""
    inputs = collect([history[place]]).inputs
    newest = inputs[-1].text if inputs else ""
    # Its results may have been cut, and its words can be in several blocks.
    shown = collect([view.shown[at]]).inputs if newest and at is not None else ()
    return "" if shown and shown[-1].text == newest else newest


def _holds_results_alone(item: Mapping[str, Any]) -> bool:
    """Most messages of the user do, which are not read: the user did not write in them."""
    content = item.get("content")
    if item.get("role") != "user" or type(content) is not list:
        return False
    return all(type(block) is dict and block.get("type") == "tool_result" for block in content)


def _texts(messages: Iterable[Any]) -> Iterator[str]:
    for message in messages:
        for block in blocks_of(message):
            inner = block.get("content")
            for part in (block, *(inner if isinstance(inner, list) else ())):
                if isinstance(part, dict) and isinstance(part.get("text"), str):
                    yield part["text"]
            if isinstance(inner, str):
                yield inner


LEVEL = Level(STAGE, run, rest=rest)

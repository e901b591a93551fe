"""Pins through every level: what a level or a summary removed of a pinned text is restored, verbatim (CTX-3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ullage.facts.sections import quoted
from ullage.facts.words import blocks_of
from ullage.levels.level import NEVER, NOW, Context, Level, Rest, whole_cuts
from ullage.levels.pins import missing_pins, write_pins
from ullage.levels.view import Made, StageReport, View

STAGE = "pins"


def run(context: Context) -> StageReport | None:
    """Put back what left the request of pinned texts and of the user's newest words; `None` if all is there, or nothing changed.

    Only what was changed for this request anyway is changed: the cached prefix does not end any earlier.
    """
    view = context.view
    if not (context.reports or view.changed_from is not None):
        return None
    lost = missing_pins(context.pins, _texts(view.messages)) if context.pins else ()
    words = _newest_words(context.history)
    # They mostly stand near the end.
    gone = words and not any(words in text for text in _texts(reversed(view.messages)))
    said = words if gone else ""
    if not lost and not said:
        return None
    told = [f"Pinned, to be kept verbatim:\n{write_pins(lost)}"] if lost else []
    told += [f"The user's newest message, verbatim:\n{quoted(said)}"] if said else []
    text = "\n\n".join(told)
    entry = {"type": "user", "isMeta": True, "message": {"role": "user", "content": text}}
    made = Made(f"{STAGE}:{context.request}", entry)
    at = _place(view)
    parts = [*range(at), made, *range(at, len(view))]
    names = [*(pin.name for pin in lost), *(["the user's newest message"] if said else [])]
    return view.rearranged(STAGE, f"{', '.join(names)}: not in the request any more", parts)


def rest(context: Context) -> Rest:
    """Until something is rewritten."""
    return NEVER if context.view.changed_from is None else NOW


def _newest_words(history: Sequence[Mapping[str, Any]]) -> str:
    """The user's newest words; a summary holds them verbatim, a record of that summary may not."""
    from ullage.facts import collect, is_user_input

    newest = next((item for item in reversed(history) if is_user_input(item)), None)
    inputs = () if newest is None else collect([newest]).inputs
    return inputs[-1].text if inputs else ""


def _place(view: View) -> int:
    """The first position, not before what was changed, where nothing is split."""
    least = view.sent if view.changed_from is None else view.changed_from
    cuts = whole_cuts(view.ledger)
    return next((at for at in cuts if at > least), cuts[-1])


def _texts(messages: Iterable[Any]) -> Iterator[str]:
    for message in messages:
        for block in blocks_of(message):
            inner = block.get("content")
            for each in (block, *(inner if isinstance(inner, list) else ())):
                if isinstance(each, dict) and isinstance(each.get("text"), str):
                    yield each["text"]
            if isinstance(inner, str):
                yield inner


LEVEL = Level(STAGE, run, rest=rest)

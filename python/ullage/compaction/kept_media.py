"""Images and documents of the newest user message, where the message itself becomes part of a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ullage._engine import core
from ullage.compaction.prepared import State
from ullage.facts import is_user_input
from ullage.facts.whose_words import summary_text
from ullage.messages import BlockView, message_of, uuid_of

__all__ = ["KeptMedia", "kept_media", "with_media"]


MAX_TOKENS = 20_000
"""Of all media that are carried: some ten screenshots. A longer document is named, not carried."""

MOST = 20
"""Above 20 images in one request Anthropic takes smaller ones only."""

# Not a set: a type that is not a string may have no hash.
_KINDS = ("image", "image_url", "input_image", "document", "file", "input_file")


class KeptMedia(NamedTuple):
    """Blocks to carry, and how many there were no room for."""

    blocks: tuple[BlockView, ...] = ()
    left_out: int = 0
    where: str = ""  # the message that holds them


def kept_media(state: State) -> KeptMedia:
    """The media of the newest user input, unless that input is kept itself.

    Media of an earlier summary message are carried on while there is no newer user input.
    """
    place = _holder(state)
    first, last = state.kept()
    if place is None or first <= place < last:
        return KeptMedia()
    item = state.source.context[place]
    found = _media(item)
    room, carried = MAX_TOKENS, list[BlockView]()
    for block in found[:MOST]:
        size = int(core.Ledger(state.job.weights, [{"role": "user", "content": [block]}]).tokens())
        if size > room:
            continue
        carried.append(block)
        room -= size
    named = uuid_of(item) or f"message {state.source.ids[place]}"
    return KeptMedia(tuple(carried), len(found) - len(carried), named)


def _holder(state: State) -> int | None:
    """The position of the newest user input; else of the summary message that carries its media."""
    places = range(len(state.source.context) - 1, -1, -1)
    items = state.source.context
    newest = next((at for at in places if is_user_input(items[at])), None)
    if newest is not None:
        return newest
    return next((at for at in places if summary_text(items[at]) and _media(items[at])), None)


def _media(item: Any) -> list[BlockView]:
    message = message_of(item)
    content = message.get("content") if message is not None else None
    blocks: Sequence[Any] = content if isinstance(content, list) else ()
    return [b for b in blocks if isinstance(b, Mapping) and b.get("type") in _KINDS]


def with_media(text: str, media: KeptMedia, transcript: str) -> str | list[dict[str, Any]]:
    """The content of the summary message: its text alone, or followed by the media."""
    parts: list[dict[str, Any]] = []
    if media.blocks:
        said = "Images and documents of the user's newest message, as they were sent:"
        plain = [{k: v for k, v in block.items() if k != "cache_control"} for block in media.blocks]
        parts = [{"type": "text", "text": said}, *plain]
    if media.left_out:
        place = f" in {transcript}" if transcript else ""
        note = (
            f"{media.left_out} more of that message are too large to repeat: ask for them, or look up "
            f"{media.where}{place}."
        )
        parts.append({"type": "text", "text": note})
    return [{"type": "text", "text": text}, *parts] if parts else text

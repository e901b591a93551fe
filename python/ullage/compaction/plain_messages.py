"""Reduces a conversation to what every API accepts: text, calls, results.

Signed reasoning is bound to the system prompt and tools of the main loop, and server tools to its
headers: neither may be sent in a call that has others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from ullage.counting.media_stripping import strip_media
from ullage.facts.compaction_items import family_of, readable
from ullage.messages import THINKING, Item

__all__ = ["plain_messages"]


LONGEST_NOTE = 2_000
"""Characters of a block that is only described: a page that a server tool fetched may have 100 000."""

# Tuples: a type may be anything, and only strings are sure to have a hash.
_KEPT = ("text", "tool_use", "tool_result")
_DROPPED = (*THINKING, "fallback")
_SENT_ONLY = ("cache_control", "citations")


def plain_messages(messages: Sequence[Item]) -> list[Item]:
    """The messages of a plain summary call.

    Media become `[image]` and `[document]`; reasoning and cache markers are removed; blocks of server tools and
    unknown ones become a line of text. A message that needs none of this is the same object; one that
    is empty then is left out.
    """
    plain = (_message(message) for message in strip_media(messages, provider="anthropic"))
    return [message for message in plain if message is not None]


def _message(message: Item) -> Item | None:
    content = message.get("content")
    if not isinstance(content, list) or all(_fits(block) for block in content):
        return message
    kept = [made for block in content if (made := _block(block)) is not None]
    return {**message, "content": kept} if kept or message.get("tool_calls") else None


def _fits(block: Any) -> bool:
    if not isinstance(block, (dict, Mapping)):
        return True
    return block.get("type") in _KEPT and not any(key in block for key in _SENT_ONLY)


def _block(block: Any) -> Any:
    if not isinstance(block, (dict, Mapping)):
        return block
    kind = block.get("type")
    if kind in _DROPPED:
        return None
    if kind in _KEPT:
        return {key: value for key, value in block.items() if key not in _SENT_ONLY}
    if kind == "compaction" or family_of(block):
        text = readable(block)
        return {"type": "text", "text": text} if text else None
    return {"type": "text", "text": f"[{kind}: {_told(block)[:LONGEST_NOTE]}]"}


def _told(block: Any) -> str:
    try:
        return orjson.dumps(block, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # what strict JSON cannot hold: lone surrogates, large integers, depth
        return repr(block).encode(errors="replace").decode()

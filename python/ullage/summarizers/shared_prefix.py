"""The main loop's last request with one message more: the provider's prompt cache covers all but the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ullage.messages import Item
from ullage.summarizers.streams import PrefixLost

__all__ = ["begins_with", "extended"]

_MARKERS = ("cache_control", "prompt_cache_breakpoint")


def extended(
    sent: Sequence[Item],
    readings: Sequence[Callable[[], Sequence[Item]]],
    prompt: Item,
) -> list[Item]:
    """What was sent, what has come since, and the prompt.

    What was sent are the very objects of the last request, so that its bytes and its cache markers
    stay; the conversation only tells what has come since.

    Args:
        sent: Messages or items of the last request.
        readings: The conversation in the forms in which the host may have sent it.
        prompt: The message to append.

    Raises:
        PrefixLost: In no reading the conversation begins with what was sent.
    """
    head = _head(sent)
    known = [_plain(message) for message in sent[head:]]
    for read in readings:
        ours = list(read())
        ours = ours[_head(ours) :]
        if len(ours) >= len(known) and [_plain(m) for m in ours[: len(known)]] == known:
            return [*sent, *ours[len(known) :], prompt]
    raise PrefixLost("the last request is not how this conversation begins")


def begins_with(sent: Sequence[Item], ours: Sequence[Item]) -> bool:
    """Whether what was sent begins with these messages, cache markers and notation apart."""
    pairs = zip(sent, ours, strict=False)
    return len(sent) >= len(ours) > 0 and all(_plain(a) == _plain(b) for a, b in pairs)


def _head(messages: Sequence[Item]) -> int:
    """Number of system messages in front: the conversation has none of the main loop's."""
    at = 0
    while at < len(messages) and messages[at].get("role") in ("system", "developer"):
        at += 1
    return at


def _plain(value: Any) -> Any:
    """Without cache markers, and with text in one notation."""
    if isinstance(value, Mapping):
        plain = {key: _plain(part) for key, part in value.items() if key not in _MARKERS}
        content = plain.get("content")
        if isinstance(content, str):
            plain["content"] = [{"type": "text", "text": content}]
        return plain
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value

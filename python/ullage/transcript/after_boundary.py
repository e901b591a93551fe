"""Resume: what the model was shown last, from a file or from entries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from ullage.messages import Item, is_boundary, listed
from ullage.transcript.conversation import Conversation, Entries, converse
from ullage.transcript.index import Transcript

__all__ = ["context_entries", "messages_after_boundary", "resume"]


def resume(source: str | os.PathLike[str] | Transcript | Iterable[Item]) -> Conversation:
    """Rebuilds what the model was shown last (LOG-2).

    Lines count in file order from the newest complete boundary on, with kept messages in their place
    after the summary; sub-agents, errors and rewound branches are left out; snips, clearings,
    collapses and budget decisions are replayed.

    Args:
        source: A path, an opened transcript, or entries or bare messages in file order.

    Returns:
        Messages, where each came from, and a report of what was left out.

    Raises:
        InvalidMessage: An item of a list is not a mapping; names its position.
        InvalidTranscript: The path is not a regular file.
        StoreError: The file is missing or cannot be read.

    Example:
        >>> resume([{"role": "user", "content": "hi"}]).messages
        [{'role': 'user', 'content': 'hi'}]
    """
    if isinstance(source, str | os.PathLike):
        source = Transcript.open(source)
    return source.conversation if isinstance(source, Transcript) else converse(Entries(source))


def context_entries(items: Iterable[Item]) -> list[Item]:
    """The entries in context, not merged into messages: one per line, as stored where possible.

    Args:
        items: Entries or bare messages in file order.
    """
    return converse(Entries(items)).entries


def messages_after_boundary(items: Sequence[Item]) -> list[Item]:
    """The items after the newest boundary, as the same objects; all of them if there is none.

    Kept messages before the boundary, as in a file, are moved to their position after
    the summary. Nothing else is left out: this is for lists, `resume` is for transcripts.

    Args:
        items: Bare messages or entries.

    Raises:
        InvalidMessage: An item is not a mapping; names its position.

    Example:
        >>> boundary = {"type": "system", "subtype": "compact_boundary"}
        >>> old, new = {"role": "user", "content": "a"}, {"role": "user", "content": "b"}
        >>> messages_after_boundary([old, boundary, new])
        [{'role': 'user', 'content': 'b'}]
    """
    items = listed(items)
    at = next((at for at in reversed(range(len(items))) if is_boundary(items[at])), None)
    if at is None:
        return items
    after = list(items[at + 1 :])
    uuids, anchor = _kept(items[at])
    here = {item.get("uuid") for item in after}
    before = {item.get("uuid"): item for item in items[:at]}
    kept = [before[uuid] for uuid in uuids if uuid in before and uuid not in here]
    place = next((i + 1 for i, item in enumerate(after) if item.get("uuid") == anchor), 0)
    return after[:place] + kept + after[place:]


def _kept(boundary: Item) -> tuple[list[str], str]:
    metadata = boundary.get("compactMetadata")
    kept = metadata.get("preservedMessages") if isinstance(metadata, Mapping) else None
    if not isinstance(kept, Mapping):
        return [], ""
    uuids = kept.get("uuids")
    return list(uuids) if isinstance(uuids, list) else [], str(kept.get("anchorUuid", ""))

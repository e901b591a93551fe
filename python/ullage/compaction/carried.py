"""Carries the provider's own compaction item through a compaction: at the front, unchanged, or the compaction is refused (FULL-14)."""

from __future__ import annotations

from typing import Any

from ullage.compaction.cut import Cut, legal_cut, must_stay
from ullage.compaction.input import CompactionInput
from ullage.exceptions import CompactionError
from ullage.facts.compaction_items import CompactionItem, alone, family_of, newest_item, without
from ullage.messages import Item

__all__ = ["after_item", "item_tokens", "with_item"]


def after_item(source: CompactionInput, ledger: Any, cut: Cut) -> Cut:
    """The cut, after the item where that is legal: the provider does not read what comes before its item.

    Only for entries: they cannot be split, so that an item among the kept ones stays where it is.

    Raises:
        CompactionError: `provider_compaction`: the item is in what a partial compaction takes from the end.
    """
    found = source.item
    if found is not None and cut.start > 0 and found.at >= cut.start:
        raise _refused("it would come after the messages that are kept")
    if found is None or not source.entries or cut.start > 0 or found.at < cut.stop:
        return cut
    last = must_stay(source, ledger)
    return next(
        (Cut(0, at) for at in range(found.at + 1, last + 1) if legal_cut(ledger, at) == at), cut
    )


def item_tokens(source: CompactionInput, ledger: Any) -> int:
    """Tokens of the message with the newest item, which stays; 0: there is none."""
    return 0 if source.item is None else int(ledger.message(source.item.at).tokens)


def with_item(
    source: CompactionInput, cut: Cut, kept: tuple[Item, ...], made: tuple[Item, ...]
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """What comes before the summary, and the kept messages without what moved to the front and what that replaces.

    Args:
        source: The conversation.
        cut: Of the compaction.
        kept: Messages that stay, as they will be shown.
        made: What the provider made just now, instead of a summary.

    Raises:
        CompactionError: `provider_compaction`: it is newer than what the provider was asked to compact.
    """
    found = source.item
    if found is None or cut.start > 0:
        return made, kept
    if made:
        return _behind_newer(found, cut, made), kept
    if found.at < cut.stop:
        return (alone(found.block),), kept
    if source.entries:
        return (), kept
    rest = (without(item) for item in kept)
    return (alone(found.block),), tuple(item for item in rest if item is not None)


def _behind_newer(found: CompactionItem, cut: Cut, made: tuple[Item, ...]) -> tuple[Item, ...]:
    if found.at >= cut.stop:
        raise _refused("it is newer than what was to be summarised by the provider")
    newer = newest_item(made)
    same = newer is not None and family_of(newer.block) == family_of(found.block)
    # Another provider's item cannot have been absorbed.
    return made if same else (alone(found.block), *made)


def _refused(why: str) -> CompactionError:
    return CompactionError(
        "provider_compaction",
        f"the context holds the provider's own compaction item, which cannot be moved: {why}",
        hint="compact the whole conversation (direction full), with a summarizer that writes text",
    )

"""What an operation did to a conversation, whatever the provider (X01 to X09)."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from ullage._engine import core
from ullage._engine.digests import BlockKind, MessageFlag, Violation
from ullage.exceptions import InvalidMessage
from ullage.legality.check import Report, validate
from ullage.legality.originals import Original, blocks_of, hashed, message_in
from ullage.messages import Item
from ullage.providers.registry import AnyProvider, Provider, provider_of

__all__ = ["RULES", "check_operation", "check_rewrite"]

Items = Sequence[Any]


RULES = ("X01", "X02", "X03", "X04", "X05", "X06", "X07", "X08", "X09")


def check_rewrite(
    before: Sequence[Item],
    after: Sequence[Item],
    *,
    provider: AnyProvider = "anthropic",
    original: Original | None = None,
    skip: Collection[str] = (),
    **around: Any,
) -> Report:
    """Checks what became of a conversation: X01 to X04 and X07 to X09.

    `original` is the conversation as the model saw it; `None`: `before`, where that was legal. What else `validate`
    knows of the request is passed on.
    """
    row = provider_of(provider)
    was = validate(before, provider=row, original=original, **around)
    if was.ok and original is None:
        original = before
    now = validate(after, provider=row, original=original, **around)
    found = [*_legality(was, now), *_words(before, after), *_unknown(before, after)]
    if _tokens(after) > _tokens(before):
        found.append(_error("X02", -1, f"{_tokens(after)} tokens, {_tokens(before)} before"))
    if was.ok:
        found += [*_ids(before, after, row), *_cuts(before, after)]
    return Report(row.name, tuple(each for each in found if each.rule not in skip))


def check_operation(
    operation: Callable[[list[Item]], Sequence[Item]],
    messages: Sequence[Item],
    *,
    skip: Collection[str] = (),
    **around: Any,
) -> Report:
    """Runs an operation, once and again, and checks what it did: `check_rewrite`, X05 and X06."""
    given = list(messages)
    kept = copy.deepcopy(given)
    after = list(operation(given))
    report = check_rewrite(kept, after, skip=skip, **around)
    found = list(report.violations)
    if given != kept:
        found.append(_error("X06", -1, "the input is not as it was"))
    if list(operation(copy.deepcopy(after))) != after:
        found.append(_error("X05", -1, "doing it again changes more"))
    return Report(report.provider, tuple(each for each in found if each.rule not in skip))


def _error(rule: str, index: int, detail: str) -> Violation:
    return Violation(rule, "error", index, -1, detail)


def _legality(was: Report, now: Report) -> Iterator[Violation]:
    if was.ok:
        for each in now.errors:
            yield _error("X01", each.message, f"{each.rule}: {each.detail}")
        return
    had, have = (Counter(each.rule for each in report.errors) for report in (was, now))
    for rule in sorted(have - had):
        yield _error("X08", -1, f"{rule}: {have[rule]} times, {had[rule]} before")


def _ledger(items: Items) -> Any:
    try:
        return core.Ledger(None, list(items))
    except InvalidMessage:
        return core.Ledger(None)


def _tokens(items: Items) -> int:
    return int(_ledger(items).tokens())


def _words(before: Items, after: Items) -> Iterator[Violation]:
    """X03: the newest message that the user wrote."""
    ledger = _ledger(before)
    written = (
        at
        for at in range(len(ledger) - 1, -1, -1)
        if ledger.message(at).flags & MessageFlag.USER_INPUT
    )
    newest = next(written, None)
    if newest is None:
        return
    said = [text for item in after for text in _texts(item)]
    for text in _texts(before[newest]):
        if not any(text in each for each in said):
            yield _error("X03", newest, "words of the newest user message are missing")


def _texts(item: Any) -> list[str]:
    if message_in(item).get("role") != "user":
        return []
    texts = (block.get("text") for block in blocks_of(item) if isinstance(block, Mapping))
    return [text for text in texts if isinstance(text, str) and text.strip()]


def _unknown(before: Items, after: Items) -> Iterator[Violation]:
    known = {hashed(block) for _, block in _others(before)}
    for index, block in _others(after):
        if hashed(block) not in known:
            yield _error("X04", index, "a block of an unknown type is not as it was")


def _others(items: Items) -> Iterator[tuple[int, Any]]:
    ledger = _ledger(items)
    for index in range(len(ledger)):
        blocks = blocks_of(items[index])
        for block, digest in zip(blocks, ledger.blocks(index), strict=False):
            if digest.kind == BlockKind.UNKNOWN:
                yield index, block


def _ids(before: Items, after: Items, provider: Provider) -> Iterator[Violation]:
    if provider.own_ids:
        return
    known = {name for _, is_call, name in _named(before) if is_call}
    for index, is_call, name in _named(after):
        if is_call and name not in known:
            yield _error("X07", index, f"the call {name} had no such id")


_CALLS = (BlockKind.TOOL_USE, BlockKind.SERVER_TOOL_USE)


def _named(items: Items) -> Iterator[tuple[int, bool, str]]:
    """Calls and results: message, whether it is a call, id of the call."""
    ledger = _ledger(items)
    for index in range(len(ledger)):
        for block in ledger.blocks(index):
            if block.id:
                yield index, block.kind in _CALLS, ledger.string(block.id)


def _cuts(before: Items, after: Items) -> Iterator[Violation]:
    """X09: neither side of a pair is kept without the other."""
    kept = {(is_call, name) for _, is_call, name in _named(after)}
    calls: dict[str, int] = {}
    for index, is_call, name in _named(before):
        if is_call:
            calls[name] = index
        elif name in calls and ((True, name) in kept) != ((False, name) in kept):
            yield _error("X09", index, f"cut off from message {calls[name]}, which it belongs to")

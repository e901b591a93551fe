"""What one request does to the provider's cache of the one before (C01 to C10, L05, and A16's re-adding)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any

import orjson

from ullage._engine.digests import Violation
from ullage.legality.originals import Place, blocks_of, hashed, message_in, thought_key

__all__ = ["RULES", "Comparison", "compare_requests"]

RULES = ("C01", "C02", "C03", "C04", "C05", "C06", "C07", "C08", "C09", "C10", "L05")

# A breakpoint looks back over so many blocks, itself included, for an earlier write.
LOOKBACK_BLOCKS = 20
_CHARS_PER_TOKEN = 4
_MOVING = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
_MEDIA = ("image", "document")


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a request relates to the one before.

    Attributes:
        first_changed: First block of the previous request that is not the same; `None`: extended.
        kept_tokens: Rough tokens of the messages before that block: still in the cache.
        rewritten_tokens: Rough tokens of the new request's messages from there on.
        saved_tokens: How much smaller the messages became; negative when they grew.
        violations: Findings; all are warnings but A16.
    """

    first_changed: Place | None
    kept_tokens: int
    rewritten_tokens: int
    saved_tokens: int
    violations: tuple[Violation, ...]

    @property
    def rewritten(self) -> bool:
        """Whether the cached prefix is broken."""
        return self.first_changed is not None

    def __repr__(self) -> str:
        place = (
            "extends"
            if self.first_changed is None
            else f"rewrites from {tuple(self.first_changed)}"
        )
        return f"Comparison({place}, kept≈{self.kept_tokens:_}, findings={len(self.violations)})"


def compare_requests(
    previous: Mapping[str, Any],
    following: Mapping[str, Any],
    *,
    announced: bool = False,
    clear_at_least: int = 0,
    bound: bool = False,
    acted: bool | None = None,
    after_rewrite: bool = False,
    summary_call: bool = False,
    render: Callable[[Mapping[str, Any]], str] | None = None,
    skip: Collection[str] = (),
) -> Comparison:
    """Compares two requests of one conversation, for cost and for re-added thinking.

    Args:
        previous: A request with `messages`, and `system` and `tools` if it had any.
        following: The next one.
        announced: The rewrite is known and counted: C02 and C08 are not reported.
        clear_at_least: Tokens that a rewrite must save; 0: not checked.
        bound: The model's thinking is bound to its prefix: re-added thinking is an error.
        acted: Whether any stage reported that it did something; if none did, what was sent before must
            be the same bytes (C01). `None`: unknown.
        after_rewrite: The previous request was a rewrite itself: another one at once is C09.
        summary_call: The following request asks for a summary of the previous one (C07).
        render: A local server's template: the text of a request, without the turn that it opens. What
            was rendered before must stand at the beginning of what is rendered now (L05).
        skip: Rule ids that are not checked.
    """
    old, new = _blocks(previous), _blocks(following)
    first = _first_change(old, new)
    sizes_old, sizes_new = _sizes(old), _sizes(new)
    kept, saved = sum(sizes_old[:first]), sum(sizes_old) - sum(sizes_new)
    changed = first < len(old)
    found = list(_cache_rules(previous, following, old, new))
    if changed and not announced:
        found.append(_warn("C02", old[first][0], "what was sent before is changed from here on"))
        found += _piecemeal(old, new)
    if changed and clear_at_least and saved < clear_at_least:
        found.append(
            _warn("C03", old[first][0], f"the rewrite saves {saved} of {clear_at_least} tokens")
        )
    if bound:
        found += _readded(previous, following)
    found += _promises(previous, following, old, new, acted, after_rewrite and changed)
    if summary_call:
        found += _summary_call(previous, following, changed)
    if render is not None and not render(following).startswith(render(previous)):
        found.append(_warn("L05", _REQUEST, "the rendered text does not begin as it did"))
    found = [each for each in found if each.rule not in skip]
    place = old[first][0] if changed else None
    return Comparison(place, kept, sum(sizes_new[first:]), saved, tuple(found))


_Block = tuple[Place, str, Any]


def _blocks(request: Mapping[str, Any]) -> list[_Block]:
    return [
        (Place(index, position), str(message_in(item).get("role")), block)
        for index, item in enumerate(_items(request))
        for position, block in enumerate(_parts(item))
    ]


def _items(request: Mapping[str, Any]) -> Sequence[Any]:
    """Messages, the items of Responses, or Gemini's contents."""
    return next((request[key] for key in ("messages", "input", "contents") if key in request), ())


def _parts(item: Any) -> list[Any]:
    """Blocks of a message, plus the chat form's fields next to them; any other item is one block."""
    message = message_in(item)
    if "content" not in message:
        return [item]
    beside = {key: message[key] for key in _BESIDE if key in message}
    return [*blocks_of(item), *([beside] if beside else ())]


_BESIDE = ("tool_calls", "tool_call_id", "reasoning_content")


def _promises(
    previous: Mapping[str, Any],
    following: Mapping[str, Any],
    old: Sequence[_Block],
    new: Sequence[_Block],
    acted: bool | None,
    again: bool,
) -> Iterator[Violation]:
    if acted is False:
        pairs = zip_longest(old, new[: len(old)])
        other = next((a for a, b in pairs if b is None or _raw(a[2]) != _raw(b[2])), None)
        if other is not None:
            yield _warn("C01", other[0], "nothing was done, yet the bytes are not the same")
    if again:
        yield _warn("C09", _REQUEST, "a rewrite right after a rewrite")


def _raw(value: Any) -> bytes:
    """Its bytes without a cache mark: a mark may move (COST-2)."""
    if _marked(value):
        value = {key: part for key, part in value.items() if key != "cache_control"}
    return orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS)


_SAME_CALL = ("model", "system", "tools", "thinking", "tool_choice")


def _summary_call(
    previous: Mapping[str, Any], following: Mapping[str, Any], changed: bool
) -> Iterator[Violation]:
    for name in _SAME_CALL:
        if not _same(previous.get(name), following.get(name)):
            yield _warn("C07", _REQUEST, f"{name} is not that of the conversation")
    added = _items(following)[len(_items(previous)) :]
    if changed or [message_in(item).get("role") for item in added] != ["user"]:
        yield _warn("C07", _REQUEST, "it is not the conversation and one user message more")


def _first_change(old: Sequence[_Block], new: Sequence[_Block]) -> int:
    for index, (a, b) in enumerate(zip(old, new, strict=False)):
        if a[1] != b[1] or (a[2] is not b[2] and hashed(a[2]) != hashed(b[2])):
            return index
    return min(len(old), len(new))


def _sizes(blocks: Iterable[_Block]) -> list[int]:
    return [len(hashed(block)) // _CHARS_PER_TOKEN for _, _, block in blocks]


def _warn(rule: str, place: Place, detail: str) -> Violation:
    return Violation(rule, "warning", place.message, place.block, detail)


_REQUEST = Place(-1, -1)


def _cache_rules(
    previous: Mapping[str, Any],
    following: Mapping[str, Any],
    old: Sequence[_Block],
    new: Sequence[_Block],
) -> Iterator[Violation]:
    for name in ("system", "tools"):
        if not _same(previous.get(name), following.get(name)):
            yield _warn("C04", _REQUEST, f"{name} changed")
    if previous.get("prompt_cache_key") != following.get("prompt_cache_key"):
        yield _warn("C10", _REQUEST, "prompt_cache_key changed")
    yield from _placeholders(old, new)
    yield from _lookback(old, new)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return all(hashed(x) == hashed(y) for x, y in zip_longest(a, b))
    return hashed(a) == hashed(b)


def _results(blocks: Iterable[_Block]) -> Mapping[Any, tuple[Place, str]]:
    return {
        block.get("tool_use_id"): (place, hashed(block.get("content")).decode(errors="replace"))
        for place, _, block in blocks
        if isinstance(block, Mapping) and block.get("type") == "tool_result"
    }


def _placeholders(old: Sequence[_Block], new: Sequence[_Block]) -> Iterator[Violation]:
    before = _results(old)
    for tool_id, (place, text) in _results(new).items():
        was = before.get(tool_id, (place, text))[1]
        moving = _MOVING.search(text) if text != was else None
        if moving is not None and moving.group() not in was:
            yield _warn("C05", place, "a placeholder holds a time or a random id")


def _lookback(old: Sequence[_Block], new: Sequence[_Block]) -> Iterator[Violation]:
    written = [index for index, block in enumerate(old) if _marked(block[2])]
    marks = [index for index, block in enumerate(new) if _marked(block[2])]
    if not written or not marks or _first_change(old, new) <= written[-1]:
        return
    reach = [written[-1], *(index for index in marks if index > written[-1])]
    far = [later for earlier, later in pairwise(reach) if later - earlier >= LOOKBACK_BLOCKS]
    if far:
        yield _warn(
            "C06", new[far[0]][0], f"more than {LOOKBACK_BLOCKS} blocks since the marker before"
        )


def _marked(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("cache_control") is not None


def _media(blocks: Iterable[_Block]) -> list[bytes]:
    return [
        hashed(part)
        for _, _, block in blocks
        for part in _with_nested(block)
        if isinstance(part, Mapping) and part.get("type") in _MEDIA
    ]


def _with_nested(block: Any) -> tuple[Any, ...]:
    nested = block.get("content") if isinstance(block, Mapping) else None
    return (block, *(nested if isinstance(nested, list | tuple) else ()))


def _piecemeal(old: Sequence[_Block], new: Sequence[_Block]) -> Iterator[Violation]:
    before, after = _media(old), set(_media(new))
    gone = [index for index, key in enumerate(before) if key not in after]
    if gone and any(key in after for key in before[: gone[-1]]):
        yield _warn("C08", _REQUEST, "some old images are removed and others stay")


def _readded(previous: Mapping[str, Any], following: Mapping[str, Any]) -> Iterator[Violation]:
    """Thinking that comes back into a message which the previous request sent without it."""
    sent = {hashed(block) for _, _, block in _blocks(previous)}
    had = {key for _, _, block in _blocks(previous) if (key := thought_key(block)) is not None}
    for index, item in enumerate(following.get("messages", ())):
        blocks = blocks_of(item)
        if not any(thought_key(block) is None and hashed(block) in sent for block in blocks):
            continue
        for position, block in enumerate(blocks):
            key = thought_key(block)
            if key is not None and key not in had:
                yield Violation("A16", "error", index, position, "removed thinking is back")

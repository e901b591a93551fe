"""Blocks by themselves: which a message may hold, and what stands in place of others (A02 to A04, A08, A13, A19, A20, A32)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

import orjson

from ullage._engine import core
from ullage._engine.digests import MESSAGE_KEYS, known_keys
from ullage.exceptions import InvalidMessage
from ullage.legality.draft import (
    ASSISTANT,
    ASSISTANT_NAMES,
    SYSTEM,
    USER,
    Draft,
    Slot,
    kind_of,
    list_in,
    text_block,
)
from ullage.legality.originals import sealed, unmarked, without
from ullage.legality.params import MAX_MARKERS, pages_of
from ullage.messages import THINKING, same_items, with_parts

NESTED_KINDS: Final = frozenset(
    {"text", "image", "document", "search_result", "tool_reference", "browser_state"}
)
"""Block types that a tool result may hold."""


# Cache markers within number and order (A17, A18).


# A message, a block in it, and that or a part of it: what is marked.
_Marked = tuple[Slot, Any, Any]


def repair_markers(draft: Draft, *, markers: Sequence[str], auto_cache: str) -> None:
    """Drops the oldest markers of messages over the limit, and levels TTLs that come too late.

    `markers`: TTLs of those in tools and system, which stay. `auto_cache`: TTL of the automatic one, "" if there is none.
    """
    marked: list[_Marked] = [
        (slot, block, part)
        for slot in draft.speaking()
        for block in slot.blocks
        # What is inside a result comes before the result's own marker.
        for part in (*list_in(block, "content"), block)
        if isinstance(part, Mapping) and part.get("cache_control") is not None
    ]
    over = max(0, len(marked) + len(markers) + bool(auto_cache) - MAX_MARKERS)
    changes = [(one, None, "A17", "dropped a cache marker over the limit") for one in marked[:over]]
    changes += _too_late(marked[over:], auto_cache, late="5m" in markers)
    # By id() of a message and a block in it: what becomes of markers, by id() of what is marked.
    wanted: dict[tuple[int, int], dict[int, Any]] = {}
    for (slot, block, part), marker, rule, action in changes:
        draft.note(rule, slot, action)
        wanted.setdefault((id(slot), id(block)), {})[id(part)] = marker
    for slot in draft.speaking() if wanted else ():
        slot.blocks = [
            _with_markers(block, wanted.get((id(slot), id(block)), {})) for block in slot.blocks
        ]


def _too_late(
    marked: Sequence[_Marked], auto_cache: str, *, late: bool
) -> Iterator[tuple[_Marked, Any, str, str]]:
    """Markers whose TTL does not fit an earlier one, or the automatic one at the end: what becomes of each, the rule, what is said."""
    for index, one in enumerate(marked):
        marker = one[2]["cache_control"]
        short = not isinstance(marker, Mapping) or marker.get("ttl") != "1h"
        if auto_cache == "1h":
            if short:
                yield one, None, "A18", "dropped a 5m cache marker before the automatic 1h one"
            continue
        last = auto_cache == "5m" and index == len(marked) - 1
        if not short and (late or last):
            yield one, {"type": "ephemeral"}, "A18", "made a late 1h cache marker 5m"
        late = late or short or last


def _with_markers(block: Any, markers: Mapping[int, Any]) -> Any:
    fields, parts = block, list_in(block, "content")
    if not markers.keys().isdisjoint(map(id, parts)):
        fields = {**block, "content": [_with_markers(part, markers) for part in parts]}
    if id(block) not in markers:
        return fields
    marker = markers[id(block)]
    return {**without(fields, "cache_control"), **({"cache_control": marker} if marker else {})}


# Texts that repairs put into a request. None of them speaks for the user, agrees to anything or asks the model to go on.
#
# Square brackets mark what no user and no model wrote. The texts are constants: a request that is made again is the same, byte for byte,
# and its prefix stays in the cache.
INTERRUPTED: Final = "[No result: the tool call was interrupted before it returned.]"
ORPHANS: Final = "[Tool results whose calls are no longer in this conversation were left out.]"
DISPLACED: Final = "[A tool result that belongs to no open call of this conversation:]"
NO_REPLY: Final = "[The user has not replied yet.]"
NO_MESSAGES: Final = "[There are no messages yet.]"
TURN_CLOSED: Final = (
    "[Earlier reasoning was removed because earlier parts of this conversation changed.]"
)
EARLIER: Final = "[Earlier messages are not shown.]"
RECEIVED: Final = "[Tool results received.]"
SYSTEM_HEAD: Final = "[System message]\n"
EMPTY_ERROR: Final = "[The tool failed without a message.]"
IMAGE: Final = "[image]"
DOCUMENT: Final = "[document]"


def left_out(kind: str) -> str:
    """Stands where a block was that its message may not hold."""
    return f"[{kind}]"


# One block in the form that the API takes: its text, input, content, keys and cache marker (A02 to A04, A08, A19, A20, A32).


_Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def _changes(role: str, kind: str, strict_version: bool) -> Iterator[tuple[str, str, _Change]]:
    """What is put into form in a block of this kind: the rule, what is said of it, and how."""
    yield "A32", "removed a cache edit or an unknown cache_control", _cache_control
    yield "A04", f"removed keys that a {kind} block does not have", _known_keys
    if kind in THINKING:
        yield "A19", "took the cache marker off thinking", unmarked
    if kind == "text":
        yield "A02", "made the text a string", _text
    if kind == "tool_use":
        yield "A08", "made the input an object", _input
    if kind == "tool_result":
        yield "A03", "made the content of the result what it may be", _result
    if kind in ("tool_result", "search_result"):
        yield "A02", f"dropped or repaired blank text inside a {kind} block", _filled
    if role == USER and strict_version:
        yield "A20", "removed citations", _uncited


def _cache_control(block: Mapping[str, Any]) -> Mapping[str, Any]:
    block = without(block, "cache_reference")
    marker = block.get("cache_control")
    if marker is None:
        return block
    if not isinstance(marker, Mapping) or marker.get("type") != "ephemeral":
        return unmarked(block)
    if set(marker) <= {"type", "ttl"} and marker.get("ttl", "5m") in ("5m", "1h"):
        return block
    control = {"type": "ephemeral"} | ({"ttl": "1h"} if marker.get("ttl") == "1h" else {})
    return {**block, "cache_control": control}


def _known_keys(block: Mapping[str, Any]) -> Mapping[str, Any]:
    keys = known_keys(kind_of(block))
    return block if keys is None else without(block, *(key for key in block if key not in keys))


def _text(block: Mapping[str, Any]) -> Mapping[str, Any]:
    return block if isinstance(block.get("text"), str) else {**block, "text": text_of(block)}


def _input(block: Mapping[str, Any]) -> Mapping[str, Any]:
    value = block.get("input")
    if isinstance(value, Mapping):
        return block
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            pass
    if value is None or isinstance(value, Mapping):
        return {**block, "input": value or {}}
    return {**block, "input": {"value": value}}


def _result(block: Mapping[str, Any]) -> Mapping[str, Any]:
    content = block.get("content")
    if content is None or isinstance(content, str | list | tuple):
        return with_parts(block, _nested)
    return {**block, "content": dumps(content)}


def _nested(part: Any) -> Any:
    if kind_of(part) in NESTED_KINDS:
        return _known_keys(_cache_control(part))
    return in_text(part)


def in_text(value: Any) -> dict[str, Any]:
    """A text block of a string, of what holds one as its text, or of anything's JSON."""
    text = value.get("text") if isinstance(value, Mapping) else value
    return text_block(text if isinstance(text, str) else dumps(value))


def _filled(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without texts that say nothing; the result of a search keeps one line that says so."""
    content = block.get("content")
    if not isinstance(content, list | tuple):
        return block
    repairs = {"search_result": _filled, "text": _text}
    parts = [repairs[kind_of(part)](part) if kind_of(part) in repairs else part for part in content]
    spoken = [part for part in parts if kind_of(part) != "text" or text_of(part).strip()]
    if not spoken and content and kind_of(block) == "search_result":
        spoken = [text_block(left_out("no text"))]
    return block if same_items(spoken, content) else {**block, "content": spoken}


def _uncited(block: Any) -> Any:
    if kind_of(block) == "text" and block.get("citations"):
        return without(block, "citations")
    if kind_of(block) in ("search_result", "tool_result"):
        return with_parts(block, _uncited)
    return block


def text_of(block: Mapping[str, Any]) -> str:
    """What a text block says, whatever stands for its text."""
    text = block.get("text")
    return text if isinstance(text, str) else "" if text is None else dumps(text)


def dumps(value: Any) -> str:
    """Compact JSON of anything; what JSON cannot hold becomes text."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
    except (TypeError, RecursionError):  # keys that are no strings, too deep
        return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))


_KINDS_OF: Final = {
    USER: ("text", "image", "document", "search_result", "tool_result", "container_upload"),
    ASSISTANT: (
        "text",
        "tool_use",
        "tool_result",  # moved where it belongs by the repair of pairs
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "mcp_tool_use",
        "compaction",
        "fallback",
    ),
    SYSTEM: ("text", "tool_addition", "tool_removal"),
}
PLACEHOLDERS: Final = {"image": IMAGE, "document": DOCUMENT}
# Of no use to a model in another place, and refused there.
_DROPPED = (*THINKING, "fallback", "tool_addition", "tool_removal", "foreign")
# Kinds that no rule names but that the API has.
_PASSIVE = ("mcp_tool_listing", "connector_text")
# Types that other APIs have for what Anthropic has too: refused by name.
_FOREIGN = ("input_text", "output_text", "image_url", "input_image", "file", "input_file")


def repair_blocks(draft: Draft, *, strict_version: bool) -> None:
    """Makes every block one that its message may hold; a strict version refuses documents of the assistant, citations of the user."""
    for slot in draft.speaking():
        content = slot.message.get("content")
        if isinstance(content, Mapping):
            draft.note("A02", slot, "put the content block into a list")
            slot.edit({**slot.message, "content": None})  # a later round must not see it again
            slot.blocks = [content]
        elif not isinstance(content, str | list | tuple | None) and not slot.blocks:
            draft.note("A02", slot, "made the content text")
            slot.blocks = [text_block(dumps(content))]
        foreign = [key for key in slot.message if key not in MESSAGE_KEYS]
        # In an envelope the message is a response as it came; senders take what they need.
        if foreign and (slot.item is None or "message" not in slot.item or "role" in slot.item):
            draft.note("A04", slot, f"removed keys: {', '.join(map(str, foreign))}")
            slot.edit(without(slot.message, *foreign))
        blocks: list[Any] = []
        for index, block in enumerate(slot.blocks):
            note = partial(draft.note, part=slot, block=index)
            fixed = _fixed(block, slot.role, blocks, strict_version, note)
            if fixed is not None:
                blocks.append(fixed)
        slot.blocks = blocks
    draft.drop_empty("A02")


def _fixed(
    block: Any, role: str, before: list[Any], strict_version: bool, note: Callable[..., None]
) -> Mapping[str, Any] | None:
    """The block, or what may stand in its place, in the form that the API takes; `None`: nothing."""
    placed = _placed(_as_block(block, note), role, strict_version, note)
    if placed is None or not _says_something(placed, before, note):
        return None
    for rule, action, change in _changes(role, kind_of(placed), strict_version):
        changed = change(placed)
        if changed is not placed:
            note(rule, action=action)
            placed = changed
    return placed


def _as_block(block: Any, note: Callable[..., None]) -> Mapping[str, Any]:
    kind = kind_of(block)
    if not kind:
        note("A03", action="turned a value that is not a block into a text block")
        return in_text(block)
    if kind not in _FOREIGN:
        return block  # type: ignore[no-any-return]
    if isinstance(block.get("text"), str):
        note("A03", action="made a text block of another API's")
        return text_block(block["text"])
    note("A03", action="replaced a block of another API by text")
    return text_block(left_out(kind))


def _placed(
    block: Mapping[str, Any], role: str, strict_version: bool, note: Callable[..., None]
) -> Mapping[str, Any] | None:
    """The block, or what may stand in its place; `None`: nothing."""
    kind = kind_of(block)
    if kind == "cache_edits":
        note("A32", action="dropped a cache edit")
        return None
    if _allowed(role, kind, strict_version):
        return block
    rule = "A20" if role == ASSISTANT and kind == "document" else "A03"
    if kind in _DROPPED:
        note(rule, action=f"dropped a {kind} block of the {role}")
        return None
    note(rule, action=f"replaced a {kind} block of the {role} by text")
    return text_block(_in_words(block, kind))


def _allowed(role: str, kind: str, strict_version: bool) -> bool:
    if known_keys(kind) is None:  # what a model has said may be newer than we are: it passes
        return kind in _PASSIVE or (role == ASSISTANT and kind != "foreign")
    if role not in (USER, SYSTEM):
        if kind == "document":
            return not strict_version
        return kind in _KINDS_OF[ASSISTANT] or kind.endswith("_tool_result")
    return kind in _KINDS_OF[role]


def _in_words(block: Mapping[str, Any], kind: str) -> str:
    if kind in PLACEHOLDERS:
        return PLACEHOLDERS[kind]
    if kind == "compaction" and isinstance(block.get("content"), str):
        return str(block["content"]) or left_out(kind)
    if kind in ("tool_use", "tool_result", "search_result"):
        body = {key: block[key] for key in ("name", "input", "content", "title") if key in block}
        return f"[{kind}] {dumps(body)}"
    if known_keys(kind) is None:
        return f"[{kind}] {dumps(without(block, 'type'))}"
    return left_out(kind)


def _says_something(block: Mapping[str, Any], before: list[Any], note: Callable[..., None]) -> bool:
    """Whether a block has text, or thinking its seal; a blank text's cache marker goes to the block before it."""
    kind = kind_of(block)
    if kind == "text" and not text_of(block).strip():
        marker = block.get("cache_control")
        if marker and before and kind_of(before[-1]) not in THINKING:
            before[-1] = {"cache_control": marker, **before[-1]}
        note("A02", action="dropped a blank text block")
        return False
    if kind in THINKING and not sealed(block):
        note("A13", action=f"dropped a {kind} block without signature or data")
        return False
    return True


def split_results(draft: Draft) -> None:
    """Move tool results in an assistant message into a user message after it (A03)."""
    slots: list[Slot] = []
    for slot in draft.slots:
        if slot.role != ASSISTANT or "tool_result" not in map(kind_of, slot.blocks):
            slots.append(slot)
            continue
        draft.note("A03", slot, "moved tool results out of an assistant message")
        runs = groupby(slot.blocks, lambda block: kind_of(block) == "tool_result")
        for at, (results, run) in enumerate(runs):
            if results or at:
                slots.append(Slot.added(USER if results else ASSISTANT, list(run), slot.origin))
            else:
                slot.blocks = list(run)
                slots.append(slot)
    draft.slots = slots


# Items that must become messages before anything else is looked at (A01).


MAX_DEPTH = 100  # the engine walks 128 containers, those around a value included
TOOL = "tool"


def repair_items(draft: Draft) -> None:
    """Makes every item a message that can be read at all, or drops it (A01)."""
    draft.slots = [slot for old in draft.slots if (slot := _readable(draft, old)) is not None]


def no_messages(draft: Draft) -> None:
    """A request needs one message."""
    if not any(draft.speaking()):
        draft.slots.append(Slot.added(USER, [text_block(NO_MESSAGES)], -1))
        draft.note("A01", None, "added a message that says there is none")


def _readable(draft: Draft, slot: Slot) -> Slot | None:
    item = slot.build()
    if isinstance(item, str) and item.strip():
        draft.note("A01", slot, "made a string a user message")
        return Slot.added(USER, item, slot.origin)
    kind = item.get("type") if isinstance(item, Mapping) else None
    envelope = isinstance(kind, str) and kind not in (USER, ASSISTANT)
    if not isinstance(item, Mapping) or not (slot.role or envelope or item.get("content")):
        draft.note("A01", slot, "dropped an item that is not a message")
        return None
    if not slot.role and not envelope:
        draft.note("A01", slot, "made it a user message: it has no role")
        slot = Slot.added(USER, item.get("content"), slot.origin)
    if slot.role in (TOOL, ASSISTANT, USER) and (
        "tool_call_id" in slot.message or "tool_calls" in slot.message
    ):
        slot = _from_chat(draft, slot)
    if slot.role and slot.role not in (USER, ASSISTANT, SYSTEM):
        role = ASSISTANT if slot.role in ASSISTANT_NAMES else USER
        role = SYSTEM if slot.role == "developer" else role
        draft.note("A01", slot, f"read the role as {role}")
        slot.edit({**slot.message, "role": role})
    item = slot.build()
    if reason := unsendable(item):
        draft.note("A01", slot, f"replaced what cannot be sent: {reason}")
        slot = Slot(plain(item), slot.origin)
        slot.changed = True
    return slot


def _from_chat(draft: Draft, slot: Slot) -> Slot:
    """A message with the chat form's calls or results, in blocks."""
    draft.note("A01", slot, "put calls of the chat form into blocks")
    message = slot.message
    if slot.role == TOOL:
        result = {
            "type": "tool_result",
            "tool_use_id": message.get("tool_call_id"),
            "content": message.get("content"),
        }
        return Slot.added(USER, [result], slot.origin)
    blocks = list(slot.blocks)
    for call in list_in(message, "tool_calls") if slot.role == ASSISTANT else ():
        if isinstance(call, Mapping):
            function = call.get("function")
            body = function if isinstance(function, Mapping) else call
            arguments = body.get("arguments", body.get("input"))
            use = {"id": call.get("id"), "name": str(body.get("name")), "input": arguments}
            blocks.append({"type": "tool_use", **use})
    slot.edit(without(message, "tool_calls", "tool_call_id"))
    slot.blocks = blocks
    return slot


def unsendable(item: Any) -> str:
    """What JSON cannot hold in an item, "" if it can be written."""
    try:
        core.Ledger(None, [item])
    except InvalidMessage as exc:
        return exc.reason
    return ""


def plain(value: Any, depth: int = 0) -> Any:
    """A value without what JSON cannot hold."""
    if depth > MAX_DEPTH:
        return left_out("too deep")
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if value is None or isinstance(value, str | float | bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 64 else left_out("number")
    return left_out(type(value).__name__)


# Images and documents over the limits (A21, A22): a placeholder in the request, the log keeps them.


# docs vision: above 20 images no side may exceed 2000 px, and 8000 px otherwise (A21).
MANY_IMAGES = 20
MAX_PX, MAX_MANY_PX = 8000, 2000
_FORMATS = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MIB = 1 << 20


def repair_media(draft: Draft, *, facts: Mapping[str, Any]) -> None:
    """Replaces what the API would refuse by the verifier's limits, the oldest first where it is the number."""
    most_chars = int(facts.get("image_mb", 10)) * _MIB

    def refused(image: Mapping[str, Any]) -> bool:
        data, media_type = _data(image)
        if not data:
            return False
        return media_type not in _FORMATS or len(data) > most_chars or _longest(image) > MAX_PX

    _replace(draft, "image", refused, "an image of a form that is refused")
    over = len(_of_kind(draft, "image")) - int(facts.get("image_limit", 100))
    first = _oldest(over, lambda _: 1)
    _replace(draft, "image", first, "an image over the number that a request may hold")
    documents = _of_kind(draft, "document")
    media = len(_of_kind(draft, "image")) + (len(documents) if facts.get("pdfs_count") else 0)
    if media > MANY_IMAGES:
        _replace(draft, "image", lambda i: _longest(i) > MAX_MANY_PX, "a large image among many")
    if most_pages := int(facts.get("page_limit", 0)):
        pages = {id(document): pages_of(document) for document in documents}
        over = sum(pages[id(document)] for document in documents) - most_pages
        first = _oldest(over, lambda document: pages[id(document)])
        _replace(draft, "document", first, "a document over the pages", rule="A22")


def _oldest(over: int, size_of: Callable[[Any], int]) -> Callable[[Any], bool]:
    """Which media give way, asked the oldest first, until there is so much less."""

    def gives_way(block: Any) -> bool:
        nonlocal over
        size = size_of(block) if over > 0 else 0
        over -= size
        return size > 0

    return gives_way


def _data(image: Mapping[str, Any]) -> tuple[str, str]:
    source = image.get("source")
    if isinstance(source, Mapping) and source.get("type") == "base64":
        return str(source.get("data") or ""), str(source.get("media_type") or "")
    return "", ""


def _longest(image: Mapping[str, Any]) -> int:
    data, _ = _data(image)
    return max(core.image_size(data)) if data else 0


def _of_kind(draft: Draft, kind: str) -> list[Any]:
    """Blocks of a kind, those inside results included."""
    blocks = [block for slot in draft.speaking() for block in slot.blocks]
    results = (block for block in blocks if kind_of(block) == "tool_result")
    nested = [part for result in results for part in list_in(result, "content")]
    return [block for block in (*blocks, *nested) if kind_of(block) == kind]


def _replace(
    draft: Draft,
    kind: str,
    which: Callable[[Mapping[str, Any]], bool],
    what: str,
    *,
    rule: str = "A21",
) -> None:
    """Puts a placeholder where such media stand, the oldest first; the cache marker of what it stands for stays."""
    name = PLACEHOLDERS[kind]

    def swapped(block: Any) -> Any:
        if kind_of(block) == "tool_result":
            return with_parts(block, swapped_part)
        return swapped_part(block)

    def swapped_part(part: Any) -> Any:
        if kind_of(part) != kind or not which(part):
            return part
        marker = part.get("cache_control")
        text = text_block(name)
        return text if marker is None else {**text, "cache_control": marker}

    draft.change(rule, f"replaced {what} by {name}", swapped)


# System messages at their place, and the last word (A11, A12).


def repair_system(draft: Draft, *, mid_system_ok: bool) -> None:
    """Moves system messages after the next user turn; where the model takes none inside the conversation they become the user's."""
    for slot in list(draft.speaking()):
        if _is_system(slot) and not slot.blocks:
            draft.note("A12", slot, "dropped an empty system message")
            draft.slots.remove(slot)
    if mid_system_ok:
        _move(draft)
        return
    for slot in draft.speaking():
        if _is_system(slot):
            _to_user(draft, slot)


def _effort_only(slot: Slot) -> bool:
    return not slot.blocks and slot.message.get("output_config") is not None


def _is_system(slot: Slot) -> bool:
    return slot.role == SYSTEM and not _effort_only(slot)


def _to_user(draft: Draft, slot: Slot) -> None:
    texts = [str(block.get("text", "")) for block in slot.blocks if kind_of(block) == "text"]
    draft.note("A12", slot, "made a user message of a system message")
    slot.edit({**without(slot.message, "output_config", "clear_at"), "role": USER})
    slot.blocks = [text_block(SYSTEM_HEAD + "\n".join(texts))]


def _move(draft: Draft) -> None:
    """One pass: misplaced ones wait until a user turn has ended."""
    placed: list[Slot] = []
    waiting: list[Slot] = []

    def settle() -> None:
        for slot in waiting:
            draft.note("A12", slot, "moved a system message after the next user turn")
        placed.extend(waiting)
        waiting.clear()

    for at, slot in enumerate(draft.slots):
        if _is_system(slot):
            stands = _follows_well(placed) and _next_role(draft.slots, at) != USER
            (placed if stands else waiting).append(slot)
            continue
        if slot.role == ASSISTANT and waiting and _last_role(placed) == USER:
            settle()
        placed.append(slot)
    if _last_role(placed) == USER:
        settle()
    for slot in waiting:
        _to_user(draft, slot)
    draft.slots = [*placed, *waiting]


def _follows_well(placed: list[Slot]) -> bool:
    before = next((slot for slot in reversed(placed) if slot.role and not _effort_only(slot)), None)
    if before is None or before.role != ASSISTANT:
        return before is not None
    return bool(before.blocks) and kind_of(before.blocks[-1]).endswith("_tool_result")


def _last_role(placed: list[Slot]) -> str:
    spoken = (slot.role for slot in reversed(placed) if slot.role in (USER, ASSISTANT))
    return next(spoken, "")


def _next_role(slots: list[Slot], at: int) -> str:
    spoken = (slot.role for slot in slots[at + 1 :] if slot.role and slot.role != SYSTEM)
    return next(spoken, "")


def repair_last_word(draft: Draft, *, prefill_ok: bool, policy: str) -> None:
    """Ends the request with a user message; where the model continues a prefill, that ends without white space.

    `policy` `note`: a line that nobody has replied; `drop`: the assistant's last turn goes.
    """
    speaking = [slot for slot in draft.speaking() if not _effort_only(slot)]
    if not speaking or speaking[-1].role != ASSISTANT:
        return
    last = speaking[-1]
    if prefill_ok:
        block: Any = last.blocks[-1] if last.blocks else None
        if kind_of(block) == "text" and isinstance(block["text"], str):
            text = block["text"].rstrip()
            draft.note("A11", last, "took white space off the end of the prefill")
            last.blocks = [*last.blocks[:-1], *([{**block, "text": text}] if text else [])]
            draft.drop_empty("A11")
    elif policy == "drop" and any(slot.role == USER for slot in speaking):
        while speaking and speaking[-1].role == ASSISTANT:
            draft.note("A11", speaking[-1], "dropped an assistant message at the end")
            draft.slots.remove(speaking.pop())
    else:
        draft.note("A11", last, "added a line after the last assistant message")
        draft.slots.append(Slot.added(USER, [text_block(NO_REPLY)], last.origin))

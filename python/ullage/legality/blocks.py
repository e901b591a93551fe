"""Blocks by themselves: which a message may hold, and what stands in place of others (A02 to A04, A08, A13, A19, A20, A32)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from ullage._engine import core
from ullage.exceptions import InvalidMessage
from ullage.legality.draft import ASSISTANT, SYSTEM, USER, Draft, Slot, kind_of, text_block
from ullage.legality.originals import sealed, unmarked
from ullage.legality.params import MAX_MARKERS
from ullage.messages import THINKING, same_items

# Keys that Anthropic's request types have; the digest flags any other.
#
# From the official SDK's request types (2.11). A test compares them with what the digest knows.


_ROWS = """
text: type text cache_control citations prompt_cache_breakpoint annotations logprobs
tool_use: type id name input cache_control caller toolset_name
tool_result: type tool_use_id content is_error cache_control toolset_name
thinking: type thinking signature
redacted_thinking: type data
image: type source cache_control transformations image_url file_id detail prompt_cache_breakpoint
document: type source cache_control citations context title file file_data file_id file_url filename detail prompt_cache_breakpoint
server_tool_use: type id name input cache_control caller server_name
mcp_tool_use: type id name input cache_control caller server_name
search_result: type source title content citations cache_control
container_upload: type file_id cache_control
compaction: type content cache_control encrypted_content signature tool_changes
fallback: type from to trigger
tool_addition: type tool cache_control
tool_removal: type tool cache_control
"""

_SERVER_RESULT: Final = frozenset("type tool_use_id content cache_control caller is_error".split())

BLOCK_KEYS: Final = {
    row.split(":")[0]: frozenset(row.split(":")[1].split()) for row in _ROWS.strip().splitlines()
}
"""Known keys by block type."""


def known_keys(kind: str) -> frozenset[str] | None:
    """Keys of a block type; `None`: an unknown type, of which nothing can be said."""
    if kind not in BLOCK_KEYS and kind.endswith("_tool_result"):
        return _SERVER_RESULT
    return BLOCK_KEYS.get(kind)


MESSAGE_KEYS: Final = frozenset(
    "role content name tool_calls tool_call_id function_call refusal audio reasoning_content "
    "reasoning reasoning_details prefix id type model usage stop_reason stop_sequence stop_details "
    "container context_management diagnostics output_config clear_at phase uuid timestamp "
    "annotations".split()
)
"""Known keys of a bare message: of requests, of responses, and of the internal view."""

NESTED_KINDS: Final = frozenset(
    {"text", "image", "document", "search_result", "tool_reference", "browser_state"}
)
"""Block types that a tool result may hold."""


# Cache markers within number and order (A17, A18).


_Marked = tuple[Slot, Any, Any]  # slot, block, nested block or None


def repair_markers(draft: Draft, *, markers: Sequence[str], auto_cache: str) -> None:
    """Drops the oldest markers of messages over the limit, and levels TTLs that come too late.

    Args:
        draft: Changed.
        markers: TTLs of the markers in tools and system, which stay.
        auto_cache: TTL of the automatic marker, "" if there is none.
    """
    marked = _find(draft)
    over = max(0, len(marked) + len(markers) + bool(auto_cache) - MAX_MARKERS)
    changes = [(one, None, "A17", "dropped a cache marker over the limit") for one in marked[:over]]
    changes += _too_late(marked[over:], auto_cache, late="5m" in markers)
    _apply(draft, changes)


_Change = tuple[_Marked, Any, str, str]  # a marker, what becomes of it, the rule, what is said


def _too_late(markers: Sequence[_Marked], auto_cache: str, *, late: bool) -> Iterator[_Change]:
    """Markers whose TTL does not fit an earlier one, or the automatic one at the end."""
    for index, marker in enumerate(markers):
        short = _ttl(marker) == "5m"
        if auto_cache == "1h":
            if short:
                yield marker, None, "A18", "dropped a 5m cache marker before the automatic 1h one"
            continue
        last = auto_cache == "5m" and index == len(markers) - 1
        if not short and (late or last):
            yield marker, {"type": "ephemeral"}, "A18", "made a late 1h cache marker 5m"
        late = late or short or last


def _find(draft: Draft) -> list[_Marked]:
    markers: list[_Marked] = []
    for slot in draft.speaking():
        for block in slot.blocks:
            # What is inside a result comes before the result's own marker.
            markers.extend((slot, block, part) for part in _parts(block) if _cache_marked(part))
            if _cache_marked(block):
                markers.append((slot, block, None))
    return markers


def _parts(block: Any) -> Sequence[Any]:
    content = block.get("content") if isinstance(block, Mapping) else None
    return content if isinstance(content, list | tuple) else ()


def _cache_marked(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("cache_control") is not None


def _ttl(one: _Marked) -> str:
    _, block, part = one
    marker = (block if part is None else part)["cache_control"]
    return "1h" if isinstance(marker, Mapping) and marker.get("ttl") == "1h" else "5m"


def _apply(draft: Draft, changes: Sequence[_Change]) -> None:
    # By id() of a message and a block in it: what becomes of its own marker, and of its parts'.
    wanted: dict[tuple[int, int], dict[int | None, Any]] = {}
    for (slot, block, part), marker, rule, action in changes:
        draft.note(rule, slot, action)
        place = None if part is None else id(part)
        wanted.setdefault((id(slot), id(block)), {})[place] = marker
    for slot in draft.speaking() if wanted else ():
        slot.blocks = [_changed(block, wanted.get((id(slot), id(block)))) for block in slot.blocks]


def _changed(block: Any, wanted: Mapping[int | None, Any] | None) -> Any:
    if wanted is None:
        return block
    if any(place is not None for place in wanted):
        parts = [_with(p, wanted[id(p)]) if id(p) in wanted else p for p in _parts(block)]
        block = {**block, "content": parts}
    return _with(block, wanted[None]) if None in wanted else block


def _with(block: Mapping[str, Any], marker: Any) -> dict[str, Any]:
    fields = {key: value for key, value in block.items() if key != "cache_control"}
    return fields if marker is None else {**fields, "cache_control": marker}


# Texts that repairs put into a request, as constants, so that equal requests stay equal to the byte.
#
# None of them speaks for the user, agrees to anything or asks the model to go on.


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


Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def changes(role: str, kind: str, strict_version: bool) -> Iterator[tuple[str, str, Change]]:
    """What is put into form in a block of this kind: the rule, what is said of it, and how."""
    yield "A32", "removed a cache edit or an unknown cache_control", _cache_control
    if known_keys(kind) is not None:
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


def _without(block: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    if not any(key in block for key in keys):
        return block
    return {key: value for key, value in block.items() if key not in keys}


def _cache_control(block: Mapping[str, Any]) -> Mapping[str, Any]:
    block = _without(block, "cache_reference")
    marker = block.get("cache_control")
    if marker is None or _known_marker(marker):
        return block
    if isinstance(marker, Mapping) and marker.get("type") == "ephemeral":
        control = {"type": "ephemeral"} | ({"ttl": "1h"} if marker.get("ttl") == "1h" else {})
        return {**block, "cache_control": control}
    return _without(block, "cache_control")


def _known_marker(marker: Any) -> bool:
    if not isinstance(marker, Mapping) or marker.get("type") != "ephemeral":
        return False
    return set(marker) <= {"type", "ttl"} and marker.get("ttl", "5m") in ("5m", "1h")


def _known_keys(block: Mapping[str, Any]) -> Mapping[str, Any]:
    keys = known_keys(kind_of(block))
    return block if keys is None else _without(block, *(key for key in block if key not in keys))


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
    if content is None or isinstance(content, str):
        return block
    if not isinstance(content, list | tuple):
        return {**block, "content": dumps(content)}
    nested = [_nested(part) for part in content]
    return block if same_items(nested, content) else {**block, "content": nested}


def _nested(part: Any) -> Any:
    kind = kind_of(part)
    if kind in NESTED_KINDS:
        cleaned = _cache_control(part)
        return _known_keys(cleaned)
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return text_block(part["text"])
    return text_block(part if isinstance(part, str) else dumps(part))


def _filled(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without texts that say nothing; the result of a search keeps one line that says so."""
    content = block.get("content")
    if not isinstance(content, list | tuple):
        return block
    parts = [_part_text(part) for part in content]
    spoken = [part for part in parts if kind_of(part) != "text" or text_of(part).strip()]
    if not spoken and content and kind_of(block) == "search_result":
        spoken = [text_block(left_out("no text"))]
    return block if same_items(spoken, content) else {**block, "content": spoken}


def _part_text(part: Any) -> Any:
    kind = kind_of(part)
    return _filled(part) if kind == "search_result" else _text(part) if kind == "text" else part


def _uncited(block: Mapping[str, Any]) -> Mapping[str, Any]:
    if kind_of(block) == "text" and block.get("citations"):
        return _without(block, "citations")
    content = block.get("content")
    if not isinstance(content, list | tuple) or kind_of(block) not in (
        "search_result",
        "tool_result",
    ):
        return block
    nested = [_uncited(part) if isinstance(part, Mapping) else part for part in content]
    return block if same_items(nested, content) else {**block, "content": nested}


def text_of(block: Mapping[str, Any]) -> str:
    """What a text block says, whatever stands for its text."""
    text = block.get("text")
    return text if isinstance(text, str) else "" if text is None else dumps(text)


def dumps(value: Any) -> str:
    """Compact JSON of anything."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)


_USER_KINDS = ("text", "image", "document", "search_result", "tool_result", "container_upload")
_ASSISTANT_KINDS = (
    "text",
    "tool_use",
    "tool_result",  # moved where it belongs by the repair of pairs
    "thinking",
    "redacted_thinking",
    "server_tool_use",
    "mcp_tool_use",
    "compaction",
    "fallback",
)
_SYSTEM_KINDS = ("text", "tool_addition", "tool_removal")
_PLACEHOLDERS = {"image": IMAGE, "document": DOCUMENT}
# Of no use to a model in another place, and refused there.
_DROPPED = (*THINKING, "fallback", "tool_addition", "tool_removal", "foreign")
# Kinds that no rule names but that the API has.
_PASSIVE = ("mcp_tool_listing", "connector_text")
# Types that other APIs have for what Anthropic has too: refused by name.
_FOREIGN = ("input_text", "output_text", "image_url", "input_image", "file", "input_file")


def repair_blocks(draft: Draft, *, strict_version: bool) -> None:
    """Makes every block one that its message may hold, in a form that the API takes.

    Args:
        draft: Changed.
        strict_version: The API version refuses documents of the assistant and citations of the user.
    """
    for slot in draft.speaking():
        _content(draft, slot)
        _keys(draft, slot)
        blocks: list[Any] = []
        for index, block in enumerate(slot.blocks):
            blocks.extend(_fixed(draft, slot, index, block, blocks, strict_version))
        slot.blocks = blocks
    draft.drop_empty("A02")


def _content(draft: Draft, slot: Slot) -> None:
    content = slot.message.get("content")
    if isinstance(content, Mapping):
        draft.note("A02", slot, "put the content block into a list")
        slot.edit({**slot.message, "content": None})  # once: a later round must not see it again
        slot.blocks = [content]
    elif content is not None and not isinstance(content, str | list | tuple) and not slot.blocks:
        draft.note("A02", slot, "made the content text")
        slot.blocks = [text_block(dumps(content))]


def _keys(draft: Draft, slot: Slot) -> None:
    foreign = [key for key in slot.message if key not in MESSAGE_KEYS]
    # In an envelope the message is a response as it came; senders take what they need.
    if foreign and (slot.item is None or "message" not in slot.item or "role" in slot.item):
        draft.note("A04", slot, f"removed keys: {', '.join(map(str, foreign))}")
        slot.edit({key: slot.message[key] for key in slot.message if key in MESSAGE_KEYS})


def _fixed(
    draft: Draft, slot: Slot, index: int, block: Any, before: list[Any], strict_version: bool
) -> list[Any]:
    block = _as_block(draft, slot, index, block)
    if kind_of(block) == "cache_edits":
        draft.note("A32", slot, "dropped a cache edit", block=index)
        return []
    placed = _placed(draft, slot, index, block, strict_version)
    return [] if placed is None else _formed(draft, slot, index, placed, before, strict_version)


def _as_block(draft: Draft, slot: Slot, index: int, block: Any) -> Mapping[str, Any]:
    if kind_of(block) in _FOREIGN and isinstance(block.get("text"), str):
        draft.note("A03", slot, "made a text block of another API's", block=index)
        return text_block(block["text"])
    if kind_of(block) in _FOREIGN:
        draft.note("A03", slot, "replaced a block of another API by text", block=index)
        return text_block(left_out(kind_of(block)))
    if kind_of(block):
        return block  # type: ignore[no-any-return]
    draft.note("A03", slot, "turned a value that is not a block into a text block", block=index)
    if isinstance(block, Mapping) and isinstance(block.get("text"), str):
        return text_block(block["text"])
    return text_block(block if isinstance(block, str) else dumps(block))


def _placed(
    draft: Draft, slot: Slot, index: int, block: Mapping[str, Any], strict_version: bool
) -> Mapping[str, Any] | None:
    """The block, or what may stand in its place; `None`: nothing."""
    kind = kind_of(block)
    if _allowed(slot.role, kind, strict_version):
        return block
    rule = "A20" if slot.role == ASSISTANT and kind == "document" else "A03"
    if kind in _DROPPED:
        draft.note(rule, slot, f"dropped a {kind} block of the {slot.role}", block=index)
        return None
    draft.note(rule, slot, f"replaced a {kind} block of the {slot.role} by text", block=index)
    return text_block(_in_words(block, kind))


def _allowed(role: str, kind: str, strict_version: bool) -> bool:
    if known_keys(kind) is None:  # what a model has said may be newer than we are: it passes
        return kind in _PASSIVE or (role == ASSISTANT and kind != "foreign")
    if role == USER:
        return kind in _USER_KINDS
    if role == SYSTEM:
        return kind in _SYSTEM_KINDS
    if kind == "document":
        return not strict_version
    return kind in _ASSISTANT_KINDS or kind.endswith("_tool_result")


def _in_words(block: Mapping[str, Any], kind: str) -> str:
    if kind in _PLACEHOLDERS:
        return _PLACEHOLDERS[kind]
    if kind == "compaction" and isinstance(block.get("content"), str):
        return str(block["content"]) or left_out(kind)
    if kind in ("tool_use", "tool_result", "search_result"):
        body = {key: block[key] for key in ("name", "input", "content", "title") if key in block}
        return f"[{kind}] {dumps(body)}"
    if known_keys(kind) is None:
        return f"[{kind}] {dumps({key: block[key] for key in block if key != 'type'})}"
    return left_out(kind)


def _formed(
    draft: Draft,
    slot: Slot,
    index: int,
    block: Mapping[str, Any],
    before: list[Any],
    strict_version: bool,
) -> list[Any]:
    """The block with everything in the form that the API takes; no block if nothing is left."""
    kind = kind_of(block)
    if kind == "text" and not text_of(block).strip():
        _keep_marker(block, before)
        draft.note("A02", slot, "dropped a blank text block", block=index)
        return []
    if kind in THINKING and not sealed(block):
        draft.note("A13", slot, f"dropped a {kind} block without signature or data", block=index)
        return []
    for rule, action, change in changes(slot.role, kind, strict_version):
        changed = change(block)
        if changed is not block:
            draft.note(rule, slot, action, block=index)
            block = changed
    return [block]


def _keep_marker(block: Mapping[str, Any], before: list[Any]) -> None:
    """A marker on a dropped block goes to the block before it."""
    marker = block.get("cache_control")
    if marker and before and kind_of(before[-1]) not in THINKING:
        before[-1] = {"cache_control": marker, **before[-1]}


def split_results(draft: Draft) -> None:
    """Move tool results in an assistant message into a user message after it (A03)."""
    slots: list[Slot] = []
    for slot in draft.slots:
        kinds = [kind_of(block) for block in slot.blocks]
        if slot.role != ASSISTANT or "tool_result" not in kinds:
            slots.append(slot)
            continue
        draft.note("A03", slot, "moved tool results out of an assistant message")
        slots.extend(_split(slot))
    draft.slots = slots


def _split(slot: Slot) -> Iterator[Slot]:
    part: list[Any] = []
    first = True
    for block in [*slot.blocks, None]:
        result = kind_of(block) == "tool_result"
        if part and (block is None or (kind_of(part[-1]) == "tool_result") != result):
            role = USER if kind_of(part[-1]) == "tool_result" else ASSISTANT
            if first and role == ASSISTANT:
                slot.blocks = part
                yield slot
            else:
                yield Slot.added(role, part, slot.origin)
            first, part = False, []
        part.append(block)


# Items that must become messages before anything else is looked at (A01).


MAX_DEPTH = 100  # the engine walks 128 containers, those around a value included
TOOL = "tool"
_ROLES = {
    "human": USER,
    "tool": USER,
    "function": USER,
    "model": ASSISTANT,
    "ai": ASSISTANT,
    "bot": ASSISTANT,
    "developer": SYSTEM,
}


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
        return _new(USER, item, slot)
    if not isinstance(item, Mapping) or (not slot.role and _says_nothing(item)):
        draft.note("A01", slot, "dropped an item that is not a message")
        return None
    if not slot.role and not _is_envelope(item):
        draft.note("A01", slot, "made it a user message: it has no role")
        slot = _new(USER, item.get("content"), slot)
    if slot.role in (TOOL, ASSISTANT, USER) and (
        "tool_call_id" in slot.message or "tool_calls" in slot.message
    ):
        slot = _from_chat(draft, slot)
    if slot.role and slot.role not in (USER, ASSISTANT, SYSTEM):
        role = _ROLES.get(slot.role, USER)
        draft.note("A01", slot, f"read the role as {role}")
        slot.edit({**slot.message, "role": role})
    return _plain_slot(draft, slot)


def _from_chat(draft: Draft, slot: Slot) -> Slot:
    """A message with the chat form's calls or results, in blocks."""
    draft.note("A01", slot, "put calls of the chat form into blocks")
    keys = ("tool_calls", "tool_call_id")
    fields = {key: value for key, value in slot.message.items() if key not in keys}
    if slot.role == TOOL:
        name = slot.message.get("tool_call_id")
        content = slot.message.get("content")
        result = {"type": "tool_result", "tool_use_id": name, "content": content}
        return _new(USER, [result], slot)
    calls = slot.message.get("tool_calls")
    listed = calls if isinstance(calls, list | tuple) and slot.role == ASSISTANT else ()
    blocks = [*slot.blocks, *(_chat_call(call) for call in listed if isinstance(call, Mapping))]
    slot.edit(fields)
    slot.blocks = blocks
    return slot


def _chat_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    body = function if isinstance(function, Mapping) else call
    arguments = body.get("arguments", body.get("input"))
    return {
        "type": "tool_use",
        "id": call.get("id"),
        "name": str(body.get("name")),
        "input": arguments,
    }


def _new(role: str, content: Any, like: Slot) -> Slot:
    slot = Slot(None, like.origin, {"role": role, "content": content})
    slot.changed = True
    return slot


def _is_envelope(item: Mapping[str, Any]) -> bool:
    return isinstance(item.get("type"), str) and item["type"] not in (USER, ASSISTANT)


def _says_nothing(item: Mapping[str, Any]) -> bool:
    return not _is_envelope(item) and not item.get("content")


def _plain_slot(draft: Draft, slot: Slot) -> Slot:
    """Replaces what JSON cannot hold."""
    item = slot.build()
    try:
        core.Ledger(None, [item])
    except InvalidMessage as exc:
        draft.note("A01", slot, f"replaced what cannot be sent: {exc.reason}")
        fresh = Slot(plain(item), slot.origin)
        fresh.changed = True
        return fresh
    return slot


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
    """Replaces what the API would refuse, the oldest first where it is the number.

    Args:
        draft: Changed.
        facts: The limits, as the verifier has them.
    """
    mib = int(facts.get("image_mb", 10))
    _replace(
        draft, "image", lambda image: _refused(image, mib), "an image of a form that is refused"
    )
    _limit(draft, "image", int(facts.get("image_limit", 100)))
    media = _count(draft, "image") + (_count(draft, "document") if facts.get("pdfs_count") else 0)
    if media > MANY_IMAGES:
        _replace(
            draft, "image", lambda image: _longest(image) > MAX_MANY_PX, "a large image among many"
        )
    _limit_pages(draft, int(facts.get("page_limit", 100)))


def _data(image: Mapping[str, Any]) -> tuple[str, str]:
    source = image.get("source")
    if isinstance(source, Mapping) and source.get("type") == "base64":
        return str(source.get("data") or ""), str(source.get("media_type") or "")
    return "", ""


def _refused(image: Mapping[str, Any], mib: int) -> bool:
    data, media_type = _data(image)
    if not data:
        return False
    return media_type not in _FORMATS or len(data) > mib * _MIB or _longest(image) > MAX_PX


def _longest(image: Mapping[str, Any]) -> int:
    data, _ = _data(image)
    return max(core.image_size(data)) if data else 0


def _blocks_of_kind(draft: Draft, kind: str) -> Iterable[tuple[Slot, Any]]:
    for slot in draft.speaking():
        for block in slot.blocks:
            content = block.get("content") if kind_of(block) == "tool_result" else None
            parts = content if isinstance(content, list | tuple) else ()
            yield from ((slot, part) for part in (*parts, block) if kind_of(part) == kind)


def _count(draft: Draft, kind: str) -> int:
    return sum(1 for _ in _blocks_of_kind(draft, kind))


def _replace(
    draft: Draft,
    kind: str,
    which: Callable[[Mapping[str, Any]], bool],
    what: str,
    rule: str = "A21",
) -> None:
    placeholder = IMAGE if kind == "image" else DOCUMENT
    for slot in draft.speaking():
        blocks = [_swapped(block, kind, which, placeholder) for block in slot.blocks]
        if not same_items(blocks, slot.blocks):
            draft.note(rule, slot, f"replaced {what} by {placeholder}")
            slot.blocks = blocks


def _swapped(block: Any, kind: str, which: Callable[[Mapping[str, Any]], bool], text: str) -> Any:
    if kind_of(block) == kind:
        return _marked(text, block) if which(block) else block
    content = block.get("content") if kind_of(block) == "tool_result" else None
    if not isinstance(content, list | tuple):
        return block
    parts = [
        _marked(text, part) if kind_of(part) == kind and which(part) else part for part in content
    ]
    return block if same_items(parts, content) else {**block, "content": parts}


def _marked(text: str, old: Mapping[str, Any]) -> dict[str, Any]:
    """A placeholder; the cache marker of what it stands for stays."""
    marker = old.get("cache_control")
    return text_block(text) if marker is None else {**text_block(text), "cache_control": marker}


def _limit(draft: Draft, kind: str, limit: int) -> None:
    left = [_count(draft, kind) - limit]

    def oldest(_: Mapping[str, Any]) -> bool:
        left[0] -= 1
        return left[0] >= 0

    if left[0] > 0:
        _replace(draft, kind, oldest, "an image over the number that a request may hold")


def _limit_pages(draft: Draft, limit: int) -> None:
    sized = [(id(document), _pages(document)) for _, document in _blocks_of_kind(draft, "document")]
    total, dropped = sum(pages for _, pages in sized), set()
    for name, pages in sized:
        if total <= limit:
            break
        if pages:
            dropped.add(name)
            total -= pages
    if dropped:
        _replace(
            draft,
            "document",
            lambda block: id(block) in dropped,
            "a document over the pages",
            "A22",
        )


def _pages(document: Mapping[str, Any]) -> int:
    ledger = core.Ledger(None, [{"role": "user", "content": [document]}])
    return int(ledger.blocks(0)[0].aux)


# System messages at their place, and the last word (A11, A12).


def repair_system(draft: Draft, *, mid_system_ok: bool) -> None:
    """Move system messages after the next user turn, or turn them into user messages.

    Args:
        draft: Changed.
        mid_system_ok: The model takes system messages inside the conversation.
    """
    _drop_hollow(draft)
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


def _drop_hollow(draft: Draft) -> None:
    for slot in list(draft.speaking()):
        if _is_system(slot) and not slot.blocks:
            draft.note("A12", slot, "dropped an empty system message")
            draft.slots.remove(slot)


def _to_user(draft: Draft, slot: Slot) -> None:
    texts = [str(block.get("text", "")) for block in slot.blocks if kind_of(block) == "text"]
    draft.note("A12", slot, "made a user message of a system message")
    keys = ("output_config", "clear_at")
    fields = {key: value for key, value in slot.message.items() if key not in keys}
    slot.edit({**fields, "role": USER})
    slot.blocks = [text_block(SYSTEM_HEAD + "\n".join(texts))]


def _move(draft: Draft) -> None:
    """One pass: misplaced ones wait until a user turn has ended."""
    placed: list[Slot] = []
    waiting: list[Slot] = []
    slots = draft.slots
    for at, slot in enumerate(slots):
        if _is_system(slot):
            if _follows_well(placed) and _next_role(slots, at) != USER:
                placed.append(slot)
            else:
                waiting.append(slot)
            continue
        if slot.role == ASSISTANT and waiting and _last_role(placed) == USER:
            placed += _settled(draft, waiting)
            waiting = []
        placed.append(slot)
    if waiting:
        legal = _last_role(placed) == USER
        placed += (
            _settled(draft, waiting) if legal else [_user_now(draft, slot) for slot in waiting]
        )
    draft.slots = placed


def _settled(draft: Draft, waiting: list[Slot]) -> list[Slot]:
    for slot in waiting:
        draft.note("A12", slot, "moved a system message after the next user turn")
    return list(waiting)


def _user_now(draft: Draft, slot: Slot) -> Slot:
    _to_user(draft, slot)
    return slot


def _follows_well(placed: list[Slot]) -> bool:
    before = next((slot for slot in reversed(placed) if slot.role and not _effort_only(slot)), None)
    if before is None:
        return False
    if before.role == ASSISTANT:
        last: Any = before.blocks[-1] if before.blocks else None
        return kind_of(last).endswith("_tool_result")
    return True


def _last_role(placed: list[Slot]) -> str:
    spoken = (slot.role for slot in reversed(placed) if slot.role in (USER, ASSISTANT))
    return next(spoken, "")


def _next_role(slots: list[Slot], at: int) -> str:
    spoken = (slot.role for slot in slots[at + 1 :] if slot.role and not _is_system(slot))
    return next((role for role in spoken if role != SYSTEM), "")


def repair_last_word(draft: Draft, *, prefill_ok: bool, policy: str) -> None:
    """Ends the request with a user message, or the prefill without white space.

    Args:
        draft: Changed.
        prefill_ok: The model continues an assistant message.
        policy: `note`: a line that nobody has replied; `drop`: the assistant's last turn goes.
    """
    speaking = [slot for slot in draft.speaking() if not _effort_only(slot)]
    if not speaking or speaking[-1].role != ASSISTANT:
        return
    last = speaking[-1]
    if prefill_ok:
        _strip(draft, last)
    elif policy == "drop" and any(slot.role == USER for slot in speaking):
        while speaking and speaking[-1].role == ASSISTANT:
            draft.note("A11", speaking[-1], "dropped an assistant message at the end")
            draft.slots.remove(speaking.pop())
    else:
        draft.note("A11", last, "added a line after the last assistant message")
        draft.slots.append(Slot.added(USER, [text_block(NO_REPLY)], last.origin))


def _strip(draft: Draft, slot: Slot) -> None:
    last: Any = slot.blocks[-1] if slot.blocks else None
    if kind_of(last) != "text" or not isinstance(last["text"], str):
        return
    text = last["text"].rstrip()
    draft.note("A11", slot, "took white space off the end of the prefill")
    slot.blocks = [*slot.blocks[:-1], *([{**last, "text": text}] if text else [])]
    draft.drop_empty("A11")

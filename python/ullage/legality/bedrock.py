"""Bedrock's Converse API: the rules B01 to B08, over its messages."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from functools import partial
from itertools import groupby
from typing import Any

from ullage._engine import core
from ullage._engine.digests import Violation
from ullage.legality.blocks import (
    EMPTY_ERROR,
    IMAGE,
    PLACEHOLDERS,
    dumps,
    left_out,
    no_messages,
    plain,
    repair_last_word,
    unsendable,
)
from ullage.legality.check import RuleRequest, check_unicode
from ullage.legality.draft import (
    ASSISTANT,
    ASSISTANT_NAMES,
    USER,
    Draft,
    Repaired,
    Slot,
    error_at,
    list_in,
)
from ullage.legality.internal import (
    in_turn,
    member,
    members,
    pair,
    ranked,
    with_same_objects,
)
from ullage.legality.pairs import repair_pairs
from ullage.legality.repairs import Plan, run_steps
from ullage.messages import same_items
from ullage.providers.bedrock import (
    MAX_IMAGE_BYTES,
    MAX_IMAGES,
    MAX_MANY_PX,
    from_provider,
    to_provider,
)

_KINDS = ranked(
    "text image document video toolUse toolResult guardContent cachePoint reasoningContent citationsContent"
)
# The figures of the Converse reference. That of documents and images per message is from its table of limits,
# and is a defensive check: no refusal that names it is on record (B06, B07).
MAX_CACHE_POINTS = 4
MAX_DOCUMENTS = 5
TOOL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def check(messages: Sequence[Any], request: RuleRequest) -> Iterator[Violation]:
    """Checks messages in Converse form; tools come as `tools` or as the parameter `toolConfig`."""
    tools = tools_of(request)
    yield from _roles(messages)
    for index, message in enumerate(messages):
        yield from _content(index, message)
    kinds = {block_kind(block) for message in messages for block in content_of(message)}
    if kinds & {"toolUse", "toolResult"} and not tools:
        yield error_at("B03", -1, -1, "tool blocks without toolConfig")
    yield from _pairs(messages)
    yield from _reasoning(messages, request)
    points = points_in(request.system, tools, *map(content_of, messages))
    if points > MAX_CACHE_POINTS:
        yield error_at("B06", -1, -1, f"{points} cache points, the limit is {MAX_CACHE_POINTS}")
    images = [
        (index, position, image)
        for index, message in enumerate(messages)
        for position, image in _images(message)
    ]
    documents = sum(len(list(_of(message, "document"))) for message in messages)
    for index, position, image in images if len(images) + documents > MAX_IMAGES else ():
        if is_too_large(image, many=True):
            detail = f"image has a side over {MAX_MANY_PX} px among many"
            yield error_at("B08", index, position, detail)
    yield from check_unicode(messages, system=request.system, tools=request.tools)


def shared(messages: Sequence[Any], items: Sequence[Any]) -> Iterator[str | None]:
    """As that of the chat form: ids of calls. Cache points and documents are counted, large images are refused among many."""
    for item in items:
        for _, call in _of(item, "toolUse"):
            yield str(call.get("toolUseId"))
        nested = (part for _, result in _of(item, "toolResult") for part in content_of(result))
        if any(
            block_kind(inner) in ("cachePoint", "document")
            for inner in (*content_of(item), *nested)
        ):
            yield ""
        if any(is_too_large(image, many=True) for _, image in _images(item)):
            yield None


def tools_of(request: RuleRequest) -> Any:
    """The tools of the parameter `toolConfig`, or those of the request."""
    config = request.params.get("toolConfig")
    return config.get("tools") if isinstance(config, Mapping) else request.tools


# Content blocks of a message; what a block is, "" if none is known; all that it is, where it may be one.
content_of = partial(list_in, key="content")
block_kind = partial(member, names=_KINDS)
block_kinds = partial(members, names=_KINDS)


def role_of(message: Any) -> str:
    """The role, "" if the message has none."""
    is_mapping = type(message) is dict or isinstance(message, Mapping)
    return str(message.get("role", "")) if is_mapping else ""


def _of(message: Any, kind: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for position, block in enumerate(content_of(message)):
        # Few blocks have the key at all.
        if type(block) is dict and kind not in block:
            continue
        if block_kind(block) == kind and isinstance(block[kind], Mapping):
            yield position, block[kind]


def _roles(messages: Sequence[Any]) -> Iterator[Violation]:
    if not messages:
        yield error_at("B01", -1, -1, "there is no message")
    previous = "assistant"
    for index, message in enumerate(messages):
        role = role_of(message)
        if role not in ("user", "assistant"):
            yield error_at("B01", index, -1, "role is not user or assistant")
        elif role == previous:
            detail = "two messages of one role" if index else "the first message is not the user's"
            yield error_at("B01", index, -1, detail)
        previous = role
    if messages and role_of(messages[-1]) == "assistant":
        yield error_at("B01", len(messages) - 1, -1, "the last message is not the user's")


def _content(index: int, message: Any) -> Iterator[Violation]:
    if not content_of(message):
        yield error_at("B02", index, -1, "message without content")
    for position, block in enumerate(content_of(message)):
        kind = block_kind(block)
        if not kind and not (isinstance(block, Mapping) and block):
            yield error_at("B02", index, position, "not a content block")
        elif len(block) > 1 and len(block_kinds(block)) > 1:
            detail = f"one block that is {' and '.join(block_kinds(block))}"
            yield error_at("B02", index, position, detail)
        elif kind == "text" and not str(block["text"]).strip():
            yield error_at("B02", index, position, "text is blank")
    for position, result in _of(message, "toolResult"):
        for part in content_of(result):
            if isinstance(part, Mapping) and "text" in part and not str(part["text"]).strip():
                yield error_at("B02", index, position, "text inside a result is blank")
        if result.get("status") == "error" and not result.get("content"):
            yield error_at("B02", index, position, "error result without content")
    images, documents = list(_of(message, "image")), list(_of(message, "document"))
    if len(images) > MAX_IMAGES or len(documents) > MAX_DOCUMENTS:
        detail = f"{len(images)} images and {len(documents)} documents in one message"
        yield error_at("B07", index, -1, detail)
    for position, image in images:
        if is_too_large(image, many=False):
            yield error_at("B07", index, position, "image is over 5 MB")


def _pairs(messages: Sequence[Any]) -> Iterator[Violation]:
    seen: set[str] = set()
    awaiting: dict[str, tuple[int, int]] = {}
    for index, message in enumerate(messages):
        if role_of(message) == "assistant":
            yield from _unanswered(awaiting)
            awaiting = {}
        for position, call in _of(message, "toolUse"):
            name = str(call.get("toolUseId"))
            if role_of(message) != "assistant":
                yield error_at("B04", index, position, "toolUse in a user message")
                continue
            if name in seen or not TOOL_ID.match(name):
                detail = f"toolUseId {name[:64]} is repeated or malformed"
                yield error_at("B04", index, position, detail)
            if not isinstance(call.get("input"), Mapping):
                yield error_at("B04", index, position, "toolUse input is not an object")
            seen.add(name)
            awaiting[name] = (index, position)
        yield from _results(index, message, awaiting)
    yield from _unanswered(awaiting)


def _results(index: int, message: Any, awaiting: dict[str, tuple[int, int]]) -> Iterator[Violation]:
    other = False
    for position, block in enumerate(content_of(message)):
        if block_kind(block) != "toolResult":
            other = other or block_kind(block) != "cachePoint"
            continue
        result = block["toolResult"]
        name = str(result.get("toolUseId")) if isinstance(result, Mapping) else ""
        if role_of(message) != "user" or awaiting.pop(name, None) is None:
            detail = f"toolResult {name[:64]} answers no call just before"
            yield error_at("B04", index, position, detail)
        elif other:
            yield error_at("B04", index, position, "toolResult after other content")


def _unanswered(awaiting: Mapping[str, tuple[int, int]]) -> Iterator[Violation]:
    for name, (index, position) in awaiting.items():
        detail = f"toolUse {name[:64]} has no result in the next message"
        yield error_at("B04", index, position, detail)


def _reasoning(messages: Sequence[Any], request: RuleRequest) -> Iterator[Violation]:
    thoughts = [
        thought
        for message in request.items_before
        for _, thought in _of(message, "reasoningContent")
    ]
    for index, message in enumerate(messages):
        for position, thought in _of(message, "reasoningContent"):
            if not _signed(thought):
                yield error_at("B05", index, position, "reasoning without its signature")
            elif request.original is not None and thought not in thoughts:
                yield error_at("B05", index, position, "reasoning is not as it came")


def _signed(thought: Mapping[str, Any]) -> bool:
    """Whether reasoning can be sent back: signed, or hidden and sealed as a whole."""
    text = thought.get("reasoningText")
    signed = isinstance(text, Mapping) and isinstance(text.get("signature"), str)
    return signed or thought.get("redactedContent") is not None


def is_too_large(image: Any, *, many: bool) -> bool:
    """Over 5 MB; with `many`: over 2000 px per side."""
    source = image.get("source") if isinstance(image, Mapping) else None
    data = source.get("bytes") if isinstance(source, Mapping) else None
    if isinstance(data, str):  # as JSON carries it
        data = data.encode(errors="replace")
    else:
        data = base64.b64encode(data) if isinstance(data, bytes | bytearray) else b""
    if not many:
        return len(data) * 3 // 4 > MAX_IMAGE_BYTES
    return max(core.image_size(data.decode("ascii", "replace"))) > MAX_MANY_PX


def points_in(*lists: Any) -> int:
    """Cache points in lists of blocks, such as system and tools."""
    blocks = [block for part in lists if isinstance(part, list | tuple) for block in part]
    return sum(block_kind(block) == "cachePoint" for block in blocks)


def _images(message: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    yield from _of(message, "image")
    for position, result in _of(message, "toolResult"):
        for _, image in _of(result, "image"):
            yield position, image


# Repairs.


# A list, a message, its content, a result, its body, its content, an image, its body, its source, the bytes.
_MEDIA_DEPTH = 10


def repair(messages: Sequence[Any], request: RuleRequest) -> Repaired:
    """Repairs messages in Converse form."""
    plan: Plan = (
        ("B01 B02", _readable),
        ("B01 B02 B04", _blocks),
        ("B01 B04", lambda d: _paired(d, request)),
        ("B05", lambda d: _unsigned(d, request)),
        ("B07 B08", _media),
        ("B06", lambda d: _limit_points(d, points_in(request.system, tools_of(request)))),
        ("B01 B04", lambda d: _paired(d, request)),
    )
    return with_same_objects(run_steps(messages, request, Draft, plan), messages)


def _readable(draft: Draft) -> None:
    slots = []
    for slot in draft.slots:
        item = slot.build()
        if isinstance(item, str) and item.strip():
            draft.note("B01", slot, "made a string a user message")
            slot = Slot.added(USER, [{"text": item}], slot.origin)
        elif not isinstance(item, Mapping):
            draft.note("B01", slot, "dropped an item that is not a message")
            continue
        elif item.get("role") not in (USER, ASSISTANT):
            role = ASSISTANT if item.get("role") in ASSISTANT_NAMES else USER
            draft.note("B01", slot, f"read the role as {role}")
            slot = Slot.added(role, _listed(item.get("content")), slot.origin)
        elif not isinstance(item.get("content"), list | tuple):
            draft.note("B02", slot, "put the content into a list")
            slot = Slot.added(item["role"], _listed(item.get("content")), slot.origin)
        # Bytes are at home here: only images and documents hold them.
        if reason := unsendable({"role": USER, "content": [_without_bytes(slot.blocks)]}):
            draft.note("B02", slot, f"replaced what cannot be sent: {reason}")
            slot = Slot.added(slot.role, [plain(block) for block in slot.blocks], slot.origin)
        slots.append(slot)
    draft.slots = slots


def _listed(content: Any) -> list[Any]:
    if isinstance(content, list | tuple):
        return list(content)
    if content is None:
        return []
    return [content if isinstance(content, Mapping) else {"text": _as_text(content)}]


def _without_bytes(value: Any, depth: int = 0) -> Any:
    if isinstance(value, bytes | bytearray):
        return ""
    if depth > 8:
        return value
    if isinstance(value, Mapping):
        return {key: _without_bytes(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_bytes(item, depth + 1) for item in value]
    return value


def _blocks(draft: Draft) -> None:
    """Makes every block one that its message may hold; results of an assistant message go into a user message after it."""
    for slot in draft.speaking():
        blocks = [
            _block(partial(draft.note, part=slot, block=at), slot.role, block)
            for at, block in enumerate(slot.blocks)
        ]
        slot.blocks = [block for block in blocks if block is not None]
    draft.drop_empty("B02")
    slots: list[Slot] = []
    for slot in draft.slots:
        slots.append(slot)
        results = [block for block in slot.blocks if block_kind(block) == "toolResult"]
        if slot.role == ASSISTANT and results:
            draft.note("B04", slot, "moved tool results out of an assistant message")
            slot.blocks = [block for block in slot.blocks if block_kind(block) != "toolResult"]
            slots.append(Slot.added(USER, results, slot.origin))
    draft.slots = slots
    draft.drop_empty("B02")


def _block(note: Callable[..., None], role: str, block: Any) -> Any:
    """The block, or what may stand in its place; `None`: nothing."""
    several = block_kinds(block)
    if len(several) > 1:
        note("B02", action="kept one of several members of a block")
        tool = next((name for name in several if name.startswith("tool")), several[0])
        block = {tool: block[tool]}
    kind = block_kind(block)
    if not kind and isinstance(block, Mapping) and block:
        # Unknown members pass through; Anthropic's own form of a text is one that is known.
        text = block.get("text")
        return block if text is None or "type" not in block else {"text": text}
    if not kind:
        note("B02", action="turned a value that is not a block into a text block")
        return None if block in (None, "", {}, []) else {"text": _as_text(block)}
    if kind == "text" and not str(block["text"]).strip():
        note("B02", action="dropped a blank text block")
        return None
    if kind not in ("toolUse", "toolResult"):
        return block
    if not isinstance(block[kind], Mapping):
        note("B04", action="replaced a malformed tool block by text")
        return {"text": left_out(kind)}
    return _result(note, block) if kind == "toolResult" else _call(note, role, block)


def _call(note: Callable[..., None], role: str, block: Any) -> Any:
    call = block["toolUse"]
    if role != ASSISTANT:
        note("B04", action="replaced a call of the user by text")
        return {"text": f"[toolUse] {dumps(call)}"}
    value = call.get("input")
    if isinstance(value, Mapping):
        return block
    note("B04", action="made the input an object")
    return {**block, "toolUse": {**call, "input": {} if value is None else {"value": value}}}


def _result(note: Callable[..., None], block: Any) -> Any:
    result = block["toolResult"]
    parts = result.get("content")
    if not isinstance(parts, list | tuple | None) or not all(map(_is_mapping, parts or ())):
        note("B02", action="made text of what is no content of a result")
        values = parts if isinstance(parts, list | tuple) else [parts]
        parts = [part if _is_mapping(part) else {"text": _as_text(part)} for part in values]
        result = {**result, "content": parts}
    spoken = [p for p in parts or () if "text" not in p or str(p["text"]).strip()]
    if len(spoken) < len(parts or ()):
        note("B02", action="dropped blank text inside a result")
        result = {**result, "content": spoken}
    if result.get("status") == "error" and not result.get("content"):
        note("B02", action="filled an empty error result")
        result = {**result, "content": [{"text": EMPTY_ERROR}]}
    return block if result is block["toolResult"] else {**block, "toolResult": result}


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else dumps(value)


def _paired(draft: Draft, request: RuleRequest) -> None:
    """Roles in turn, the user's first and last, each call answered right after it: on the internal view."""
    # What has no role is no message, and joins none.
    runs = [list(run) for _, run in groupby(draft.slots, lambda slot: slot.role or id(slot))]
    for first, *others in runs:
        for slot in others:
            draft.note("B01", slot, "merged two messages of one role")
        if others:
            first.blocks = [block for slot in (first, *others) for block in slot.blocks]
    slots = [first for first, *_ in runs]
    as_bytes = _holds_bytes([slot.build() for slot in slots])
    draft.slots = pair(
        draft,
        slots,
        Slot,
        rules={"A01": "B01", "A11": "B01", "A29": "B01", "": "B04"},
        read=lambda messages: from_provider(messages).messages,
        steps=(
            lambda d: repair_pairs(d, orphans=request.orphans),
            lambda d: repair_last_word(d, prefill_ok=False, policy="note"),
            no_messages,
            in_turn,
        ),
        write=lambda messages: to_provider(messages, as_bytes=as_bytes).parts["messages"],
    )


def _holds_bytes(value: object, depth: int = 0) -> bool:
    """Whether media come as bytes, as boto3 takes them; they stand no deeper than in a result's image."""
    if depth > _MEDIA_DEPTH:
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    if isinstance(inner, list | tuple | ValuesView):
        return any(_holds_bytes(item, depth + 1) for item in inner)
    return isinstance(value, bytes | bytearray)


def _unsigned(draft: Draft, request: RuleRequest) -> None:
    before = [block for message in request.items_before for block in content_of(message)]

    def stays(block: Any) -> bool:
        if block_kind(block) != "reasoningContent":
            return True
        thought = block["reasoningContent"]
        signed = isinstance(thought, Mapping) and _signed(thought)
        return signed and (request.original is None or block in before)

    draft.keep("B05", "dropped reasoning that is not as it came", stays)
    draft.drop_empty("B05")


def _media(draft: Draft) -> None:
    """Replaces the oldest over the number in a message, images over the size, and large ones among many."""
    for slot in draft.speaking():
        left = {"image": MAX_IMAGES, "document": MAX_DOCUMENTS}
        counts = {kind: sum(block_kind(b) == kind for b in slot.blocks) for kind in left}
        slot.blocks = [_limited(draft, slot, block, counts, left) for block in slot.blocks]
    blocks = [block for slot in draft.speaking() for block in slot.blocks]
    media = sum(block_kind(block) in ("image", "document") for block in blocks)
    results = (block["toolResult"] for block in blocks if block_kind(block) == "toolResult")
    media += sum(block_kind(part) == "image" for result in results for part in content_of(result))
    if media > MAX_IMAGES:
        for slot in draft.speaking():
            slot.blocks = [_smaller(draft, slot, block) for block in slot.blocks]


def _limited(
    draft: Draft, slot: Slot, block: Any, counts: dict[str, int], left: Mapping[str, int]
) -> Any:
    kind = block_kind(block)
    if kind not in left:
        return block
    over = counts[kind] > left[kind]
    counts[kind] -= over
    if not over and not (kind == "image" and is_too_large(block["image"], many=False)):
        return block
    draft.note("B07", slot, f"replaced one {kind} over the limits by text")
    return {"text": PLACEHOLDERS[kind]}


def _smaller(draft: Draft, slot: Slot, block: Any) -> Any:
    kind = block_kind(block)
    if kind == "image" and is_too_large(block["image"], many=True):
        draft.note("B08", slot, "replaced a large image among many by text")
        return {"text": IMAGE}
    if kind != "toolResult":
        return block
    parts = content_of(block["toolResult"])
    smaller = [_smaller(draft, slot, part) for part in parts]
    if same_items(smaller, parts):
        return block
    return {**block, "toolResult": {**block["toolResult"], "content": smaller}}


def _limit_points(draft: Draft, fixed: int) -> None:
    """Drops the oldest cache points over the limit; `fixed`: those in system and tools, which stay."""
    points = [
        (slot, b) for slot in draft.speaking() for b in slot.blocks if block_kind(b) == "cachePoint"
    ]
    over = points[: max(0, len(points) + fixed - MAX_CACHE_POINTS)]
    for slot, _ in over:
        draft.note("B06", slot, "dropped a cache point over the limit")
    dropped = {(id(slot), id(point)) for slot, point in over}
    for slot in draft.speaking() if dropped else ():
        slot.blocks = [block for block in slot.blocks if (id(slot), id(block)) not in dropped]
    draft.drop_empty("B06")

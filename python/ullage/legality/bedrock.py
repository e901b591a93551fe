"""Bedrock's Converse API: the rules B01 to B08, over its messages."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence, ValuesView
from functools import partial
from itertools import groupby
from typing import Any

from ullage._engine import core
from ullage._engine.digests import Violation
from ullage.exceptions import InvalidMessage
from ullage.legality.blocks import (
    DOCUMENT,
    EMPTY_ERROR,
    IMAGE,
    dumps,
    left_out,
    no_messages,
    plain,
    repair_last_word,
)
from ullage.legality.check import RuleRequest, check_unicode, error_at
from ullage.legality.draft import ASSISTANT, USER, Draft, Repaired, Slot
from ullage.legality.internal import (
    Placed,
    in_turn,
    listed,
    member,
    members,
    pair,
    pairs,
    ranked,
    with_same_objects,
)
from ullage.legality.repairs import RepairRequest, run_steps, steps
from ullage.messages import same_items
from ullage.providers.bedrock import (
    MAX_IMAGE_BYTES,
    MAX_IMAGES,
    MAX_MANY_PX,
    from_provider,
    to_provider,
)

_KINDS = ranked(
    "text",
    "image",
    "document",
    "video",
    "toolUse",
    "toolResult",
    "guardContent",
    "cachePoint",
    "reasoningContent",
    "citationsContent",
)
# The figures of the Converse reference. That of documents and images per message is from its table of limits,
# and is a defensive check: no refusal that names it is on record (B06, B07).
MAX_CACHE_POINTS = 4
MAX_DOCUMENTS = 5
TOOL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def check(messages: Sequence[Any], request: RuleRequest) -> Iterator[Violation]:
    """Checks messages in Converse form; tools come as `tools` or as the parameter `toolConfig`."""
    tools = tools_of(request)
    system = request.system
    yield from _roles(messages)
    for index, message in enumerate(messages):
        yield from _blanks(index, message)
        yield from _limits(index, message)
    yield from _tools(messages, tools)
    yield from _pairs(messages)
    yield from _reasoning(messages, request)
    yield from _cache_points(messages, system, tools)
    yield from _many_media(messages)
    yield from check_unicode(messages, system=system, tools=request.tools)


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
content_of = partial(listed, key="content")
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
            detail = (
                "the first message is not the user's" if index == 0 else "two messages of one role"
            )
            yield error_at("B01", index, -1, detail)
        previous = role
    if messages and role_of(messages[-1]) == "assistant":
        yield error_at("B01", len(messages) - 1, -1, "the last message is not the user's")


def _blanks(index: int, message: Any) -> Iterator[Violation]:
    if not content_of(message):
        yield error_at("B02", index, -1, "message without content")
    for position, block in enumerate(content_of(message)):
        kind = block_kind(block)
        if not kind and not (isinstance(block, Mapping) and block):
            yield error_at("B02", index, position, "not a content block")
        elif len(block) > 1 and len(block_kinds(block)) > 1:
            yield error_at(
                "B02", index, position, f"one block that is {' and '.join(block_kinds(block))}"
            )
        elif kind == "text" and not str(block["text"]).strip():
            yield error_at("B02", index, position, "text is blank")
    for position, result in _of(message, "toolResult"):
        parts = result.get("content")
        for part in parts if isinstance(parts, list | tuple) else ():
            if isinstance(part, Mapping) and "text" in part and not str(part["text"]).strip():
                yield error_at("B02", index, position, "text inside a result is blank")
        if result.get("status") == "error" and not result.get("content"):
            yield error_at("B02", index, position, "error result without content")


def _tools(messages: Sequence[Any], tools: Any) -> Iterator[Violation]:
    kinds = {block_kind(block) for message in messages for block in content_of(message)}
    if kinds & {"toolUse", "toolResult"} and not tools:
        yield error_at("B03", -1, -1, "tool blocks without toolConfig")


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
                yield error_at(
                    "B04", index, position, f"toolUseId {name[:64]} is repeated or malformed"
                )
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
            yield error_at(
                "B04", index, position, f"toolResult {name[:64]} answers no call just before"
            )
        elif other:
            yield error_at("B04", index, position, "toolResult after other content")


def _unanswered(awaiting: Mapping[str, tuple[int, int]]) -> Iterator[Violation]:
    for name, (index, position) in awaiting.items():
        yield error_at(
            "B04", index, position, f"toolUse {name[:64]} has no result in the next message"
        )


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


def _cache_points(messages: Sequence[Any], system: Any, tools: Any) -> Iterator[Violation]:
    count = points_in(system, tools, *(content_of(message) for message in messages))
    if count > MAX_CACHE_POINTS:
        yield error_at("B06", -1, -1, f"{count} cache points, the limit is {MAX_CACHE_POINTS}")


def _limits(index: int, message: Any) -> Iterator[Violation]:
    images, documents = list(_of(message, "image")), list(_of(message, "document"))
    if len(images) > MAX_IMAGES or len(documents) > MAX_DOCUMENTS:
        detail = f"{len(images)} images and {len(documents)} documents in one message"
        yield error_at("B07", index, -1, detail)
    for position, image in images:
        if is_too_large(image, many=False):
            yield error_at("B07", index, position, "image is over 5 MB")


def image_of(block: Any) -> Mapping[str, Any] | None:
    """The image that a block is."""
    image = block["image"] if block_kind(block) == "image" else None
    return image if isinstance(image, Mapping) else None


def is_too_large(image: Any, *, many: bool) -> bool:
    """Over 5 MB; with `many`: over 2000 px per side."""
    data = _data(image) if isinstance(image, Mapping) else b""
    if not many:
        return len(data) * 3 // 4 > MAX_IMAGE_BYTES
    return max(core.image_size(data.decode("ascii", "replace"))) > MAX_MANY_PX


def points_in(*lists: Any) -> int:
    """Cache points in lists of blocks, such as system and tools."""
    blocks = [block for part in lists if isinstance(part, list | tuple) for block in part]
    return sum(block_kind(block) == "cachePoint" for block in blocks)


def _data(media: Mapping[str, Any]) -> bytes:
    """Base64 of an image."""
    source = media.get("source")
    data = source.get("bytes") if isinstance(source, Mapping) else None
    if isinstance(data, str):  # as JSON carries it
        return data.encode(errors="replace")
    return base64.b64encode(data) if isinstance(data, bytes | bytearray) else b""


def _many_media(messages: Sequence[Any]) -> Iterator[Violation]:
    images = [
        (i, at, image) for i, message in enumerate(messages) for at, image in _images(message)
    ]
    documents = sum(len(list(_of(message, "document"))) for message in messages)
    if len(images) + documents <= MAX_IMAGES:
        return
    for index, position, image in images:
        if is_too_large(image, many=True):
            yield error_at(
                "B08", index, position, f"image has a side over {MAX_MANY_PX} px among many"
            )


def _images(message: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    yield from _of(message, "image")
    for position, result in _of(message, "toolResult"):
        for _, image in _of(result, "image"):
            yield position, image


# Repairs for Bedrock's Converse API: over messages.


# A list, a message, its content, a result, its body, its content, an image, its body, its source, the bytes.
_MEDIA_DEPTH = 10
# Roles that other libraries use for the assistant; any other is read as the user's, which loses no words.
_ROLES = {"model": ASSISTANT, "ai": ASSISTANT, "bot": ASSISTANT}


def repair(messages: Sequence[Any], request: RepairRequest) -> Repaired:
    """Repairs messages in Converse form."""
    report = request.report(messages)
    if report.ok:
        return Repaired(messages)
    plan = steps(
        ("B01 B02", _readable),
        ("B01 B02 B04", _blocks),
        ("B01 B04", lambda d: _paired(d, request)),
        ("B05", lambda d: _bedrock_reasoning(d, request)),
        ("B07 B08", _media),
        ("B06", lambda d: _bedrock_cache_points(d, _fixed_points(request))),
        ("B01 B04", lambda d: _paired(d, request)),
    )
    done = run_steps(messages, work=Draft(messages), plan=plan, check=request.report, report=report)
    return with_same_objects(done, messages)


def _fixed_points(request: RepairRequest) -> int:
    """Cache points in system and tools, which stay."""
    return points_in(request.system, tools_of(request))


def _readable(draft: Draft) -> None:
    slots = []
    for slot in draft.slots:
        item = slot.build()
        if isinstance(item, str) and item.strip():
            draft.note("B01", slot, "made a string a user message")
            slot = _new(USER, [{"text": item}], slot)
        elif not isinstance(item, Mapping):
            draft.note("B01", slot, "dropped an item that is not a message")
            continue
        elif item.get("role") not in (USER, ASSISTANT):
            role = _ROLES.get(str(item.get("role")), USER)
            draft.note("B01", slot, f"read the role as {role}")
            slot = _new(role, _listed(item.get("content")), slot)
        elif not isinstance(item.get("content"), list | tuple):
            draft.note("B02", slot, "put the content into a list")
            slot = _new(item["role"], _listed(item.get("content")), slot)
        slots.append(_plain(draft, slot))
    draft.slots = slots


def _new(role: str, blocks: Sequence[Any], like: Slot) -> Slot:
    return Slot.added(role, blocks, like.origin)


def _listed(content: Any) -> list[Any]:
    if isinstance(content, list | tuple):
        return list(content)
    if isinstance(content, str):
        return [{"text": content}]
    return (
        []
        if content is None
        else [content if isinstance(content, Mapping) else {"text": dumps(content)}]
    )


def _plain(draft: Draft, slot: Slot) -> Slot:
    # Bytes are at home here: only images and documents hold them.
    try:
        core.Ledger(None, [{"role": USER, "content": [_without_bytes(slot.blocks)]}])
    except InvalidMessage as exc:
        draft.note("B02", slot, f"replaced what cannot be sent: {exc.reason}")
        return _new(slot.role, [plain(block) for block in slot.blocks], slot)
    return slot


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
    for slot in draft.speaking():
        slot.blocks = [
            repaired_block
            for at, block in enumerate(slot.blocks)
            if (repaired_block := _block(draft, slot, at, block)) is not None
        ]
    draft.drop_empty("B02")
    _split(draft)


def _block(draft: Draft, slot: Slot, at: int, block: Any) -> Any:
    several = block_kinds(block)
    if len(several) > 1:
        draft.note("B02", slot, "kept one of several members of a block", block=at)
        tool = next((name for name in several if name.startswith("tool")), several[0])
        block = {tool: block[tool]}
    kind = block_kind(block)
    if not kind and isinstance(block, Mapping) and block:
        # Unknown members pass through; Anthropic's own form of a text is one that is known.
        text = block.get("text")
        return block if text is None or "type" not in block else {"text": text}
    if not kind:
        draft.note("B02", slot, "turned a value that is not a block into a text block", block=at)
        return None if block in (None, "", {}, []) else {"text": _as_text(block)}
    if kind == "text" and not str(block["text"]).strip():
        draft.note("B02", slot, "dropped a blank text block", block=at)
        return None
    if kind in ("toolUse", "toolResult") and not isinstance(block[kind], Mapping):
        draft.note("B04", slot, "replaced a malformed tool block by text", block=at)
        return {"text": left_out(kind)}
    if kind == "toolUse":
        return _call(draft, slot, at, block)
    if kind == "toolResult":
        return _result(draft, slot, at, block)
    return block


def _call(draft: Draft, slot: Slot, at: int, block: Any) -> Any:
    call = block["toolUse"]
    if slot.role != ASSISTANT:
        draft.note("B04", slot, "replaced a call of the user by text", block=at)
        return {"text": f"[toolUse] {dumps(call)}"}
    if isinstance(call.get("input"), Mapping):
        return block
    draft.note("B04", slot, "made the input an object", block=at)
    value = call.get("input")
    return {**block, "toolUse": {**call, "input": {} if value is None else {"value": value}}}


def _result(draft: Draft, slot: Slot, at: int, block: Any) -> Any:
    result = block["toolResult"]
    parts = result.get("content")
    if not isinstance(parts, list | tuple | None) or not all(map(_is_mapping, parts or ())):
        draft.note("B02", slot, "made text of what is no content of a result", block=at)
        values = parts if isinstance(parts, list | tuple) else [parts]
        parts = [part if _is_mapping(part) else {"text": _as_text(part)} for part in values]
        result = {**result, "content": parts}
        block = {**block, "toolResult": result}
    spoken = [part for part in parts or () if not _says_nothing(part)]
    if len(spoken) < len(parts or ()):
        draft.note("B02", slot, "dropped blank text inside a result", block=at)
        result = {**result, "content": spoken}
        block = {**block, "toolResult": result}
    if result.get("status") == "error" and not result.get("content"):
        draft.note("B02", slot, "filled an empty error result", block=at)
        return {**block, "toolResult": {**result, "content": [{"text": EMPTY_ERROR}]}}
    return block


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else dumps(value)


def _says_nothing(part: Any) -> bool:
    return isinstance(part, Mapping) and "text" in part and not str(part["text"]).strip()


def _split(draft: Draft) -> None:
    """Move results in an assistant message into a user message after it."""
    slots: list[Slot] = []
    for slot in draft.slots:
        results = [b for b in slot.blocks if block_kind(b) == "toolResult"]
        slots.append(slot)
        if slot.role == ASSISTANT and results:
            draft.note("B04", slot, "moved tool results out of an assistant message")
            slot.blocks = [b for b in slot.blocks if block_kind(b) != "toolResult"]
            slots.append(Slot.added(USER, results, slot.origin))
    draft.slots = slots
    draft.drop_empty("B02")


def _paired(draft: Draft, request: RepairRequest) -> None:
    """Roles in turn, the user's first and last, each call answered right after it: on the internal view."""
    _join(draft)
    items = [Placed(slot.build(), slot.origin) for slot in draft.slots]
    as_bytes = _holds_bytes([placed_item.item for placed_item in items])
    placed, repairs = pair(
        items,
        rules={"A01": "B01", "A11": "B01", "A29": "B01", "": "B04"},
        read=lambda messages: from_provider(messages).messages,
        steps=(pairs(request.orphans), _last_word, no_messages, in_turn),
        write=lambda messages: to_provider(messages, as_bytes=as_bytes).parts["messages"],
    )
    if repairs:
        draft.repairs += repairs
        draft.slots = [Slot(placed_item.item, placed_item.origin) for placed_item in placed]


def _last_word(draft: Draft) -> None:
    repair_last_word(draft, prefill_ok=False, policy="note")


def _join(draft: Draft) -> None:
    """Makes neighbours of one role one message."""
    # What has no role is no message, and joins none.
    runs = [list(run) for _, run in groupby(draft.slots, lambda slot: slot.role or id(slot))]
    for first, *others in runs:
        for slot in others:
            draft.note("B01", slot, "merged two messages of one role")
        if others:
            first.blocks = [block for slot in (first, *others) for block in slot.blocks]
    draft.slots = [run[0] for run in runs]


def _holds_bytes(value: object, depth: int = 0) -> bool:
    """Whether media come as bytes, as boto3 takes them; they stand no deeper than in a result's image."""
    if depth > _MEDIA_DEPTH:
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    if isinstance(inner, list | tuple | ValuesView):
        return any(_holds_bytes(item, depth + 1) for item in inner)
    return isinstance(value, bytes | bytearray)


def _bedrock_reasoning(draft: Draft, request: RepairRequest) -> None:
    before = [block for message in request.items_before for block in content_of(message)]

    def stays(block: Any) -> bool:
        if block_kind(block) != "reasoningContent":
            return True
        thought = block["reasoningContent"]
        signed = isinstance(thought, Mapping) and _signed(thought)
        return signed and (request.original is None or block in before)

    for slot in draft.speaking():
        blocks = [block for block in slot.blocks if stays(block)]
        if len(blocks) != len(slot.blocks):
            draft.note("B05", slot, "dropped reasoning that is not as it came")
            slot.blocks = blocks
    draft.drop_empty("B05")


def _media(draft: Draft) -> None:
    for slot in draft.speaking():
        left = {"image": MAX_IMAGES, "document": MAX_DOCUMENTS}
        counts = {kind: sum(block_kind(b) == kind for b in slot.blocks) for kind in left}
        slot.blocks = [_limited(draft, slot, block, counts, left) for block in slot.blocks]
    media = sum(block_kind(b) in ("image", "document") for s in draft.speaking() for b in s.blocks)
    nested = [b for s in draft.speaking() for b in s.blocks if block_kind(b) == "toolResult"]
    media += sum(
        block_kind(part) == "image" for b in nested for part in content_of(b["toolResult"])
    )
    if media > MAX_IMAGES:
        for slot in draft.speaking():
            slot.blocks = [_smaller(draft, slot, block) for block in slot.blocks]


def _limited(
    draft: Draft, slot: Slot, block: Any, counts: dict[str, int], left: Mapping[str, int]
) -> Any:
    """Replaces the oldest over the number, and images over the size."""
    kind = block_kind(block)
    if kind not in left:
        return block
    over = counts[kind] > left[kind]
    counts[kind] -= over
    if not over and not (kind == "image" and is_too_large(block["image"], many=False)):
        return block
    draft.note("B07", slot, f"replaced one {kind} over the limits by text")
    return {"text": IMAGE if kind == "image" else DOCUMENT}


def _smaller(draft: Draft, slot: Slot, block: Any) -> Any:
    if image_of(block) is not None and is_too_large(block["image"], many=True):
        draft.note("B08", slot, "replaced a large image among many by text")
        return {"text": IMAGE}
    if block_kind(block) != "toolResult":
        return block
    parts = content_of(block["toolResult"])
    smaller = [_smaller(draft, slot, part) for part in parts]
    if same_items(smaller, parts):
        return block
    return {**block, "toolResult": {**block["toolResult"], "content": smaller}}


def _bedrock_cache_points(draft: Draft, fixed: int) -> None:
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

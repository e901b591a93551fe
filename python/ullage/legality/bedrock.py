"""Bedrock's Converse API: the rules B01 to B08, over its messages."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ullage._engine import core
from ullage.legality.findings import Violation
from ullage.legality.rule_request import RuleRequest
from ullage.legality.unicode import check_unicode

__all__ = [
    "MAX_CACHE_POINTS",
    "MAX_DOCUMENTS",
    "MAX_IMAGES",
    "block_kind",
    "check",
    "content_of",
    "image_of",
    "is_too_large",
    "members",
    "points_in",
    "shared",
    "tools_of",
]

KINDS = (
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
_KINDS = frozenset(KINDS)
MAX_CACHE_POINTS = 4
MAX_IMAGES = 20
MAX_DOCUMENTS = 5
MAX_IMAGE_BYTES = 5 * 2**20
MAX_MANY_PX = 2000
TOOL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def check(messages: Sequence[Any], request: RuleRequest) -> Iterator[Violation]:
    """Checks messages in Converse form; tools come as `tools` or as the parameter `toolConfig`."""
    listed = tools_of(request)
    system, original = request.system, request.original
    yield from _roles(messages)
    for index, message in enumerate(messages):
        yield from _blanks(index, message)
        yield from _limits(index, message)
    yield from _tools(messages, listed)
    yield from _pairs(messages)
    yield from _reasoning(messages, original)
    yield from _cache_points(messages, system, listed)
    yield from _many_media(messages)
    yield from check_unicode(messages, system=system, tools=request.tools)


def shared(messages: Sequence[Any], items: Sequence[Any]) -> Iterator[str | None]:
    """As that of the chat form: ids of calls. Cache points and documents are counted, large images are refused among many."""
    for item in items:
        for _, call in _of(item, "toolUse"):
            yield str(call.get("toolUseId"))
        nested = (part for _, result in _of(item, "toolResult") for part in content_of(result))
        if any(
            block_kind(each) in ("cachePoint", "document") for each in (*content_of(item), *nested)
        ):
            yield ""
        if any(is_too_large(image, many=True) for _, image in _images(item)):
            yield None


def tools_of(request: RuleRequest) -> Any:
    """The tools of the parameter `toolConfig`, or those of the request."""
    config = request.params.get("toolConfig")
    return config.get("tools") if isinstance(config, Mapping) else request.tools


def _error(rule: str, index: int, block: int, detail: str) -> Violation:
    return Violation(rule, "error", index, block, detail)


def content_of(message: Any) -> list[Any]:
    """Content blocks of a message; empty if it has none."""
    known = type(message) is dict or isinstance(message, Mapping)  # dicts are recognised at once
    content = message.get("content") if known else None
    return list(content) if isinstance(content, list | tuple) else []


def block_kind(block: Any) -> str:
    """The member of the union that a block is, "" if none is known."""
    found = members(block)
    return found[0] if found else ""


def members(block: Any) -> list[str]:
    """All members of the union that are set; a block may have one."""
    if type(block) is not dict and not isinstance(block, Mapping):
        return []
    found = [name for name in block if name in _KINDS and block[name] is not None]
    return found if len(found) < 2 else sorted(found, key=KINDS.index)


def role_of(message: Any) -> str:
    """The role, "" if the message has none."""
    return str(message.get("role", "")) if isinstance(message, Mapping) else ""


def _of(message: Any, kind: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for position, block in enumerate(content_of(message)):
        # Few blocks have the key at all.
        if type(block) is dict and kind not in block:
            continue
        if block_kind(block) == kind and isinstance(block[kind], Mapping):
            yield position, block[kind]


def _roles(messages: Sequence[Any]) -> Iterator[Violation]:
    if not messages:
        yield _error("B01", -1, -1, "there is no message")
    previous = "assistant"
    for index, message in enumerate(messages):
        role = role_of(message)
        if role not in ("user", "assistant"):
            yield _error("B01", index, -1, "role is not user or assistant")
        elif role == previous:
            detail = (
                "the first message is not the user's" if index == 0 else "two messages of one role"
            )
            yield _error("B01", index, -1, detail)
        previous = role
    if messages and role_of(messages[-1]) == "assistant":
        yield _error("B01", len(messages) - 1, -1, "the last message is not the user's")


def _blanks(index: int, message: Any) -> Iterator[Violation]:
    if not content_of(message):
        yield _error("B02", index, -1, "message without content")
    for position, block in enumerate(content_of(message)):
        kind = block_kind(block)
        if not kind and not (isinstance(block, Mapping) and block):
            yield _error("B02", index, position, "not a content block")
        elif len(members(block)) > 1:
            yield _error(
                "B02", index, position, f"one block that is {' and '.join(members(block))}"
            )
        elif kind == "text" and not str(block["text"]).strip():
            yield _error("B02", index, position, "text is blank")
    for position, result in _of(message, "toolResult"):
        parts = result.get("content")
        for part in parts if isinstance(parts, list | tuple) else ():
            if isinstance(part, Mapping) and "text" in part and not str(part["text"]).strip():
                yield _error("B02", index, position, "text inside a result is blank")
        if result.get("status") == "error" and not result.get("content"):
            yield _error("B02", index, position, "error result without content")


def _tools(messages: Sequence[Any], tools: Any) -> Iterator[Violation]:
    kinds = {block_kind(block) for message in messages for block in content_of(message)}
    if kinds & {"toolUse", "toolResult"} and not tools:
        yield _error("B03", -1, -1, "tool blocks without toolConfig")


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
                yield _error("B04", index, position, "toolUse in a user message")
                continue
            if name in seen or not TOOL_ID.match(name):
                yield _error(
                    "B04", index, position, f"toolUseId {name[:64]} is repeated or malformed"
                )
            if not isinstance(call.get("input"), Mapping):
                yield _error("B04", index, position, "toolUse input is not an object")
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
            yield _error(
                "B04", index, position, f"toolResult {name[:64]} answers no call just before"
            )
        elif other:
            yield _error("B04", index, position, "toolResult after other content")


def _unanswered(awaiting: Mapping[str, tuple[int, int]]) -> Iterator[Violation]:
    for name, (index, position) in awaiting.items():
        yield _error(
            "B04", index, position, f"toolUse {name[:64]} has no result in the next message"
        )


def _reasoning(messages: Sequence[Any], original: Any) -> Iterator[Violation]:
    given = original.get("messages", ()) if isinstance(original, Mapping) else original
    known = [thought for message in given or () for _, thought in _of(message, "reasoningContent")]
    for index, message in enumerate(messages):
        for position, thought in _of(message, "reasoningContent"):
            text = thought.get("reasoningText")
            signed = isinstance(text, Mapping) and isinstance(text.get("signature"), str)
            if not signed and thought.get("redactedContent") is None:
                yield _error("B05", index, position, "reasoning without its signature")
            elif original is not None and thought not in known:
                yield _error("B05", index, position, "reasoning is not as it came")


def _cache_points(messages: Sequence[Any], system: Any, tools: Any) -> Iterator[Violation]:
    count = points_in(system, tools, *(content_of(message) for message in messages))
    if count > MAX_CACHE_POINTS:
        yield _error("B06", -1, -1, f"{count} cache points, the limit is {MAX_CACHE_POINTS}")


def _limits(index: int, message: Any) -> Iterator[Violation]:
    images, documents = list(_of(message, "image")), list(_of(message, "document"))
    if len(images) > MAX_IMAGES or len(documents) > MAX_DOCUMENTS:
        detail = f"{len(images)} images and {len(documents)} documents in one message"
        yield _error("B07", index, -1, detail)
    for position, image in images:
        if is_too_large(image, many=False):
            yield _error("B07", index, position, "image is over 5 MB")


def image_of(block: Any) -> Mapping[str, Any] | None:
    """The image that a block is."""
    found = block["image"] if block_kind(block) == "image" else None
    return found if isinstance(found, Mapping) else None


def is_too_large(image: Any, *, many: bool) -> bool:
    """Over 5 MB; with `many`: over 2000 px per side."""
    data = _data(image) if isinstance(image, Mapping) else b""
    if not many:
        return len(data) * 3 // 4 > MAX_IMAGE_BYTES
    return max(core.image_size(data.decode("ascii", "replace"))) > MAX_MANY_PX


def points_in(*lists: Any) -> int:
    """Cache points in lists of blocks, such as system and tools."""
    blocks = [block for listed in lists if isinstance(listed, list | tuple) for block in listed]
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
            yield _error(
                "B08", index, position, f"image has a side over {MAX_MANY_PX} px among many"
            )


def _images(message: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    yield from _of(message, "image")
    for position, result in _of(message, "toolResult"):
        for _, image in _of(result, "image"):
            yield position, image

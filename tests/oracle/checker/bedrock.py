"""B: Bedrock's Converse form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.oracle.checker.media import image_size
from tests.oracle.checker.report import Finding, error, ident

__all__ = ["check_bedrock"]

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_IMAGES, _MAX_DOCUMENTS, _MAX_MARKERS, _MANY_PX = 20, 5, 4, 2000


def check_bedrock(body: dict[str, Any]) -> Iterator[Finding]:
    """Order, blanks, tools, pairs, markers, media."""
    given = body.get("messages")
    messages = [m if isinstance(m, dict) else {} for m in given] if isinstance(given, list) else []
    yield from _roles(messages)
    for index, message in enumerate(messages):
        for at, block in enumerate(_blocks(message)):
            yield from _block(index, at, block)
        yield from _media(index, message)
        yield from _pairs(index, messages)
    yield from _ids(messages)
    used = any(_of(m, "toolUse") or _of(m, "toolResult") for m in messages)
    config = body.get("toolConfig")
    if used and not (isinstance(config, dict) and config.get("tools")):
        text = (
            "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        )
        yield error("B03", (-1, -1), text)
    yield from _markers(body, messages)
    yield from _many_images(messages)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    listed = content if isinstance(content, list) else []
    return [block if isinstance(block, dict) else {} for block in listed]


def _of(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [b[kind] for b in _blocks(message) if isinstance(b.get(kind), dict)]


def _roles(messages: list[dict[str, Any]]) -> Iterator[Finding]:
    start = (
        "A conversation must start with a user message. Try again with a conversation that starts "
        "with a user message."
    )
    if not messages or messages[0].get("role") != "user":
        yield error("B01", (0 if messages else -1, -1), start)
    if messages and messages[-1].get("role") != "user":
        text = "A conversation must end with a user message."
        yield error("B01", (len(messages) - 1, -1), text)
    for index, message in enumerate(messages):
        if message.get("role") not in ("user", "assistant"):
            yield error("B01", (index, -1), "role must satisfy enum value set: [assistant, user]")
        if not _blocks(message):
            text = f"The content field in the Message object at messages.{index} is empty."
            yield error("B02", (index, -1), text)
    for index in range(1, len(messages)):
        if messages[index].get("role") == messages[index - 1].get("role"):
            text = "A conversation must alternate between user and assistant roles."
            yield error("B01", (index, -1), text)


def _block(index: int, at: int, block: dict[str, Any]) -> Iterator[Finding]:
    place = f"messages.{index}.content.{at}"
    text = block.get("text")
    if isinstance(text, str) and not text.strip():
        words = (
            f"The text field in the ContentBlock object at {place} is blank. Add text to the text "
            "field, and try again."
        )
        yield error("B02", (index, at), words)
    result = block.get("toolResult")
    inside = result.get("content") if isinstance(result, dict) else None
    for part in inside if isinstance(inside, list) else ():
        if (
            isinstance(part, dict)
            and isinstance(part.get("text"), str)
            and not part["text"].strip()
        ):
            yield error("B02", (index, at), f"The text field at {place}.toolResult is blank.")
    if isinstance(result, dict) and result.get("status") == "error" and not result.get("content"):
        words = f"The content field at {place}.toolResult is required when status is error."
        yield error("B02", (index, at), words)
    reasoning = block.get("reasoningContent")
    words_of = reasoning.get("reasoningText") if isinstance(reasoning, dict) else None
    if isinstance(words_of, dict) and not isinstance(words_of.get("signature"), str):
        yield error(
            "B05", (index, at), f"{place}.reasoningContent.reasoningText.signature is required"
        )


def _pairs(index: int, messages: list[dict[str, Any]]) -> Iterator[Finding]:
    calls = [ident(use.get("toolUseId")) for use in _of(messages[index], "toolUse")]
    after = messages[index + 1] if index + 1 < len(messages) else {}
    before = messages[index - 1] if index else {}
    answers = [ident(result.get("toolUseId")) for result in _of(after, "toolResult")]
    missing = [name for name in calls if name not in answers]
    if missing:
        names = ", ".join(map(str, missing))
        text = f"Expected toolResult blocks at messages.{index + 1}.content for the following Ids: {names}"
        yield error("B04", (index, -1), text)
    known = [ident(use.get("toolUseId")) for use in _of(before, "toolUse")]
    seen: set[Any] = set()
    for result in _of(messages[index], "toolResult"):
        name = ident(result.get("toolUseId"))
        if name not in known or name in seen:
            text = f"The toolResult at messages.{index} has no toolUse of its own: {name}"
            yield error("B04", (index, -1), text)
        seen.add(name)
    yield from _order(index, messages[index])


def _order(index: int, message: dict[str, Any]) -> Iterator[Finding]:
    kinds = ["toolResult" in block for block in _blocks(message) if "cachePoint" not in block]
    if True in kinds and kinds != sorted(kinds, reverse=True):
        yield error("B04", (index, -1), "toolResult blocks must come first in the message")


def _ids(messages: list[dict[str, Any]]) -> Iterator[Finding]:
    seen: set[Any] = set()
    for index, message in enumerate(messages):
        for use in _of(message, "toolUse"):
            name = use.get("toolUseId")
            if not isinstance(name, str) or not _ID.fullmatch(name):
                text = f"toolUseId must satisfy regular expression pattern: [a-zA-Z0-9_-]+ ({name})"
                yield error("B04", (index, -1), text)
            elif name in seen:
                yield error("B04", (index, -1), f"toolUse ids must be unique: {name}")
            if not isinstance(use.get("input"), dict):
                yield error("B04", (index, -1), "toolUse.input must be an object")
            seen.add(ident(name))


def _markers(body: dict[str, Any], messages: list[dict[str, Any]]) -> Iterator[Finding]:
    config = body.get("toolConfig")
    tools = config.get("tools") if isinstance(config, dict) else None
    system = body.get("system")
    parts = [
        *(tools if isinstance(tools, list) else []),
        *(system if isinstance(system, list) else []),
    ]
    parts += [block for message in messages for block in _blocks(message)]
    count = sum(1 for part in parts if isinstance(part, dict) and "cachePoint" in part)
    if count > _MAX_MARKERS:
        yield error(
            "B06", (-1, -1), f"A maximum of 4 cachePoint blocks may be provided. Found {count}."
        )


def _media(index: int, message: dict[str, Any]) -> Iterator[Finding]:
    images, documents = len(_of(message, "image")), len(_of(message, "document"))
    if images > _MAX_IMAGES or documents > _MAX_DOCUMENTS:
        text = f"messages.{index}: {images} images and {documents} documents; at most 20 and 5"
        yield error("B07", (index, -1), text)


def _many_images(messages: list[dict[str, Any]]) -> Iterator[Finding]:
    """B08: more than 20 images and PDFs together, and each image must be small."""
    images = [(n, image) for n, m in enumerate(messages) for image in _of(m, "image")]
    documents = sum(len(_of(message, "document")) for message in messages)
    for index, image in images if len(images) + documents > _MAX_IMAGES else ():
        source = image.get("source")
        data = source.get("bytes") if isinstance(source, dict) else None
        if max(image_size(data)) > _MANY_PX:
            text = f"messages.{index}: image dimensions exceed max allowed size for many-image requests"
            yield error("B08", (index, -1), text)

"""Mistral's chat, both ways: Chat Completions with rules of its own.

Ids of calls are exactly nine letters and digits; a user message may not follow tool results, so an
assistant line stands between; the system message comes first only; documents go by URL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ullage.messages import Block, Item
from ullage.providers import openai_chat
from ullage.providers._common import (
    TOOL_FILLER,
    Internal,
    Losses,
    Shaped,
    bare,
    call_ids,
    map_ids,
    placed,
    reverse,
)
from ullage.providers.openai_chat import _one_system as one_system

_ID = re.compile(r"[a-zA-Z0-9]{9}")
_ID_KEYS = {"tool_use": "id", "tool_result": "tool_use_id"}
# A user message right after a tool's is refused: "Unexpected role 'user' after role 'tool'" (M02).
_FILLER = {"role": "assistant", "content": TOOL_FILLER}


@placed
def to_provider(
    messages: Sequence[Item],
    *,
    system: str | Sequence[Block] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> Shaped:
    """Translates a conversation to Mistral's chat.

    Args:
        messages: Anthropic-shaped messages or entries; not changed.
        system: The system prompt; `None` sends none.
        tools: Anthropic-shaped definitions; `None` sends none.

    Returns:
        `messages` and, if given, `tools`; losses; all ids that are not of Mistral's form, each mapped
        to nine letters and digits by a hash, the same in every request.
    """
    ids = map_ids(call_ids(messages), lambda one: bool(_ID.fullmatch(one)), length=9)
    renamed = [_renamed(message, ids) for _, message in bare(messages)]
    shaped = openai_chat.to_provider(renamed, system=system, tools=tools)
    losses = Losses()
    chat = [_documents_out(message) for message in one_system(shaped.parts["messages"], losses)]
    parts = {**shaped.parts, "messages": _filled(chat)}
    return Shaped(parts, shaped.losses + losses.all(), reverse(ids), shaped.names)


def from_provider(
    request: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    ids: Mapping[str, str] | None = None,
) -> Internal:
    """Translates a request to Mistral, or its messages, to the internal view.

    Args:
        request: A body (`messages`, `tools`) or a list of messages; not changed.
        ids: `Shaped.ids` of the call that made it, to get the old ids back.
    """
    body: Mapping[str, Any] = request if isinstance(request, Mapping) else {"messages": request}
    chat = [_documents_in(message) for message in _unfilled(list(body.get("messages") or ()))]
    return openai_chat.from_provider({**body, "messages": chat}, ids=ids)


# ---- ids and fillers -----------------------------------------------------------------------------


def _renamed(message: Mapping[str, Any], ids: Mapping[str, str]) -> Mapping[str, Any]:
    content = message.get("content")
    if not isinstance(content, list) or not ids:
        return message
    return {**message, "content": [_with_id(block, ids) for block in content]}


def _with_id(block: Any, ids: Mapping[str, str]) -> Any:
    key = _ID_KEYS.get(str(block.get("type"))) if isinstance(block, Mapping) else None
    new = ids.get(str(block.get(key))) if key else None
    return block if new is None or key is None else {**block, key: new}


def _filled(chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
    filled: list[dict[str, Any]] = []
    for message in chat:
        if filled and filled[-1]["role"] == "tool" and message["role"] == "user":
            filled.append(dict(_FILLER))
        filled.append(message)
    return filled


def _unfilled(chat: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [
        message
        for index, message in enumerate(chat)
        if not (message == _FILLER and index and chat[index - 1].get("role") == "tool")
    ]


# ---- documents -----------------------------------------------------------------------------------


def _documents_out(message: dict[str, Any]) -> dict[str, Any]:
    """Mistral takes documents by URL; `data:` is one."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [_document_out(part) for part in content]}


def _document_out(part: Any) -> Any:
    file = part.get("file") if isinstance(part, Mapping) and part.get("type") == "file" else None
    if not isinstance(file, Mapping) or not set(file) <= {"file_data", "filename"}:
        return part
    name = {"document_name": file["filename"]} if "filename" in file else {}
    return {"type": "document_url", "document_url": file.get("file_data"), **name}


def _documents_in(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [_document_in(part) for part in content]}


def _document_in(part: Any) -> Any:
    is_document = isinstance(part, Mapping) and set(part) <= {
        "type",
        "document_url",
        "document_name",
    }
    if not is_document or not str(part.get("document_url", "")).startswith("data:"):
        return part
    name = {"filename": part["document_name"]} if "document_name" in part else {}
    return {"type": "file", "file": {**name, "file_data": part["document_url"]}}

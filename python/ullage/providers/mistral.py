"""Mistral's chat, both ways: Chat Completions with rules of its own.

Ids of calls are exactly nine letters and digits; a user message may not follow tool results, so an
assistant line stands between; the system message comes first only; documents go by URL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ullage.messages import Block, Item, with_parts
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
    with_id,
)

_ID = re.compile(r"[a-zA-Z0-9]{9}")
# A user message right after a tool's is refused: "Unexpected role 'user' after role 'tool'" (M02).
_FILLER = {"role": "assistant", "content": TOOL_FILLER}


@placed
def to_provider(
    messages: Sequence[Item],
    *,
    system: str | Sequence[Block] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> Shaped:
    """Translates a conversation to Mistral's chat; an id of another form is mapped to a hash, the same in every request."""
    ids = map_ids(call_ids(messages), _ID.fullmatch, length=9)
    renamed = [message for _, message in bare(messages)]
    if ids:
        renamed = [with_parts(message, lambda block: with_id(block, ids)) for message in renamed]
    shaped = openai_chat.to_provider(renamed, system=system, tools=tools)
    losses = Losses()
    chat: list[Item] = []
    for message in openai_chat.one_system(shaped.parts["messages"], losses):
        if chat and chat[-1]["role"] == "tool" and message["role"] == "user":
            chat.append(dict(_FILLER))
        chat.append(with_parts(message, _document_out))
    parts = {**shaped.parts, "messages": chat}
    return Shaped(parts, (*shaped.losses, *losses), reverse(ids), shaped.names)


def from_provider(request: Item | Sequence[Item]) -> Internal:
    """Translates a request to Mistral, or its messages, to the internal view."""
    body: Mapping[str, Any] = request if isinstance(request, Mapping) else {"messages": request}
    listed = list(body.get("messages") or ())
    chat = [
        with_parts(message, _document_in)
        for index, message in enumerate(listed)
        if not (message == _FILLER and index and listed[index - 1].get("role") == "tool")
    ]
    return openai_chat.from_provider({**body, "messages": chat})


def _document_out(part: Any) -> Any:
    """Mistral takes documents by URL; `data:` is one."""
    file = part.get("file") if isinstance(part, Mapping) and part.get("type") == "file" else None
    if not isinstance(file, Mapping) or not set(file) <= {"file_data", "filename"}:
        return part
    name = {"document_name": file["filename"]} if "filename" in file else {}
    return {"type": "document_url", "document_url": file.get("file_data"), **name}


def _document_in(part: Any) -> Any:
    own = {"type", "document_url", "document_name"}
    url = part.get("document_url", "") if isinstance(part, Mapping) and set(part) <= own else ""
    if not str(url).startswith("data:"):
        return part
    name = {"filename": part["document_name"]} if "document_name" in part else {}
    return {"type": "file", "file": {**name, "file_data": url}}

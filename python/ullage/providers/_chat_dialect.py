"""How servers that speak Chat Completions differ from OpenAI, and what each difference does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ullage.providers._common import USER_FILLER, Losses, is_text

__all__ = ["DIALECTS", "Dialect", "DialectName", "adapt"]

DialectName: TypeAlias = Literal["openai", "compatible", "deepseek", "local"]


class Dialect(NamedTuple):
    """How a server's idea of chat differs from OpenAI's."""

    system_role: str = "system"
    flat: bool = False  # texts as strings: many servers know no parts for assistant and tool
    one_system: bool = False  # templates of local servers take one system message, at the start
    alternate: bool = False
    reasoning: str = ""  # name of the field for thinking; empty: there is none
    max_id_chars: int = 40  # RULES give 40 for OpenAI; longer ids are mapped


DIALECTS: Mapping[str, Dialect] = {
    "openai": Dialect(),
    "compatible": Dialect(flat=True),
    # DeepSeek refuses tool calls whose reasoning is missing; an empty field counts as present.
    "deepseek": Dialect(flat=True, reasoning="reasoning_content"),
    "local": Dialect(flat=True, one_system=True, alternate=True),
}


def adapt(chat: list[dict[str, Any]], dialect: Dialect, losses: Losses) -> list[dict[str, Any]]:
    """Brings finished messages into a stricter server's form."""
    if dialect.one_system:
        chat = one_system(chat, losses)
    if dialect.alternate:
        chat = _user_first(_alternate(chat))
    return [_flat(message) for message in chat] if dialect.flat else chat


def _flat(message: dict[str, Any]) -> dict[str, Any]:
    """Texts as one string; `null` as an empty one."""
    content = message.get("content")
    if content is None:
        return {**message, "content": ""}
    if isinstance(content, list) and all(
        isinstance(part, dict) and is_text(part) for part in content
    ):
        return {**message, "content": "\n\n".join(part["text"] for part in content)}
    return message


def one_system(chat: list[dict[str, Any]], losses: Losses) -> list[dict[str, Any]]:
    """Leading system messages as one; later ones as marked user text at their place.

    Moving them to the front would change the prefix that such servers cache.
    """
    head = 0
    while head < len(chat) and chat[head]["role"] in ("system", "developer"):
        head += 1
    texts = [_flat(message)["content"] for message in chat[:head]]
    first = [{"role": "system", "content": "\n\n".join(texts)}] if head else []
    rest = [_as_user(message, head + index, losses) for index, message in enumerate(chat[head:])]
    return first + rest


def _as_user(message: dict[str, Any], index: int, losses: Losses) -> dict[str, Any]:
    if message["role"] not in ("system", "developer"):
        return message
    losses.add("system message", f"chat[{index}]", "sent as marked user text")
    return {"role": "user", "content": f"<system>\n{_flat(message)['content']}\n</system>"}


def _alternate(chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours of one role become one message; `tool` messages stay apart."""
    merged: list[dict[str, Any]] = []
    for message in chat:
        last = merged[-1] if merged else None
        if last is None or last["role"] != message["role"] or message["role"] == "tool":
            merged.append(message)
        elif "tool_calls" in last:
            merged.append(message)
        else:
            joined = parts_of(last["content"]) + parts_of(message.get("content"))
            merged[-1] = {**last, **message, "content": joined or None}
    return merged


def _user_first(chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
    head = 1 if chat and chat[0]["role"] == "system" else 0
    if len(chat) == head or chat[head]["role"] == "user":
        return chat
    return [*chat[:head], {"role": "user", "content": USER_FILLER}, *chat[head:]]


def parts_of(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())

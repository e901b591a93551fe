"""What a message or a response shows of the form it is in; the form that a model's name suggests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ullage.messages import Item

__all__ = ["form_by_name", "forms_of"]

_CHAT: Final = ("openai_chat", "mistral")
_RESPONSES: Final = ("openai_responses",)
_ANTHROPIC: Final = ("anthropic",)
_OPENAI: Final = (*_CHAT, *_RESPONSES)

_BLOCKS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("tool_use", "tool_result", "server_tool_use", "redacted_thinking"), _ANTHROPIC
    ),
    **dict.fromkeys(("image_url",), _CHAT),
    **dict.fromkeys(("input_text", "output_text", "input_image", "input_file"), _RESPONSES),
}
"""Types of blocks that one form alone has."""

_UNTYPED: Final = frozenset(
    (
        "text",
        "toolUse",
        "toolResult",
        "reasoningContent",
        "cachePoint",
        "image",
        "document",
        "video",
    )
)
"""Keys of Converse's blocks, which have no type."""

_BODIES: Final[Mapping[str, tuple[str, ...]]] = {
    "choices": _CHAT,
    "candidates": ("gemini",),
}


def forms_of(item: Any) -> tuple[str, ...]:
    """Names of the forms that a message, an item or a whole response can be in; empty: it does not show.

    Args:
        item: JSON; an entry of a transcript shows what its message shows.
    """
    if not isinstance(item, Mapping):
        return ()
    if "role" not in item:
        return _of_body(item)
    role, content = item["role"], item.get("content")
    if role in ("tool", "function") or item.get("tool_calls") or item.get("function_call"):
        return _CHAT
    if content is None and isinstance(item.get("parts"), list):
        return ("gemini",)
    if role == "developer":
        return _OPENAI
    return _of_blocks(content) if isinstance(content, list) else ()


def _of_body(item: Item) -> tuple[str, ...]:
    """Of something without a role."""
    inner = item.get("message")
    if isinstance(inner, Mapping):
        return forms_of(inner)
    if isinstance(item.get("parts"), list):
        return ("gemini",)
    output = item.get("output")
    if isinstance(output, Mapping):
        return ("bedrock",) if "message" in output else ()
    if isinstance(output, list) and "call_id" not in item:
        return _RESPONSES
    for key, forms in _BODIES.items():
        if isinstance(item.get(key), list):
            return forms
    return _RESPONSES if _is_response_item(item.get("type")) else ()


def _is_response_item(kind: Any) -> bool:
    ends = ("_call", "_call_output", "_approval_request", "_approval_response")
    own = ("reasoning", "item_reference", "mcp_list_tools")
    return isinstance(kind, str) and (kind in own or kind.endswith(ends))


def _of_blocks(content: list[Any]) -> tuple[str, ...]:
    for block in content:
        if not isinstance(block, Mapping):
            return ()  # no provider's list holds anything else
        kind = block.get("type")
        if kind is None and not _UNTYPED.isdisjoint(block):
            return ("bedrock",)
        if isinstance(kind, str) and kind in _BLOCKS:
            return _BLOCKS[kind]
        if kind in ("image", "document") and isinstance(block.get("source"), Mapping):
            return _ANTHROPIC
    return ()


# ---- names -----------------------------------------------------------------------------------

_VENDORS: Final = {"openai": "openai_chat", "google": "gemini", "mistral": "mistral"}


def form_by_name(name: str, vendor: str) -> str:
    """The form in which a model is most often asked, as long as no message has shown another.

    Args:
        name: The model's name: one with a path, `anthropic/claude-opus-4-5`, is that of litellm or of a router,
            which all speak Chat Completions. Only Google's own names begin with a folder: `models/gemini-2.5-pro`.
        vendor: Whose model it is, by the model table; empty: unknown.
    """
    folder, slash, _ = name.partition("/")
    if slash and folder not in ("models", "publishers", "projects"):
        return "openai_chat"
    return _VENDORS.get(vendor, "anthropic")

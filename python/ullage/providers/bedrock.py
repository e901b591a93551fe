"""Bedrock Converse, both ways.

| internal | Converse |
|---|---|
| `tool_use`, `tool_result` | `toolUse`, `toolResult` with `status` |
| `thinking`, `redacted_thinking` | `reasoningContent`, verbatim |
| `cache_control` on a block | a `cachePoint` after it |
| `image`, `document` | the same, by format, as base64 or as bytes |
| `tools` | `toolConfig`; where the history has calls and no tools are given, stand-ins |

A conversation starts with a user and takes turns strictly; neighbours of one role become one message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.messages import Block, Item
from ullage.providers._bedrock_in import BedrockReader, blocks_in, tools_in
from ullage.providers._bedrock_out import BedrockWriter, tool_config
from ullage.providers._common import Internal, Shaped, blocks_of, is_text
from ullage.providers._ids import reverse
from ullage.providers._placed import placed

__all__ = ["from_provider", "to_provider"]


@placed
def to_provider(
    messages: Sequence[Item],
    *,
    system: str | Sequence[Block] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    as_bytes: bool = False,
) -> Shaped:
    """Translates a conversation to Converse.

    Args:
        messages: Anthropic-shaped messages or entries; not changed.
        system: The system prompt; `None` sends none.
        tools: Anthropic-shaped definitions. `None` sends none, unless the history has calls: Converse
            refuses those without a tool, so their names are declared.
        as_bytes: Media as `bytes`, as boto3 takes them, instead of base64, as the HTTP API does.

    Returns:
        `messages` and, if needed, `system` and `toolConfig`; losses; ids that had to change.
    """
    writer = BedrockWriter(messages, as_bytes=as_bytes)
    parts: dict[str, Any] = {"messages": writer.messages(messages)}
    if system:
        parts["system"] = writer.blocks(blocks_of(system), "system")
    config = tool_config(tools, writer.called, writer.losses)
    if config:
        parts["toolConfig"] = config
    return Shaped(parts, writer.losses.all(), reverse(writer.ids))


def from_provider(
    request: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    ids: Mapping[str, str] | None = None,
) -> Internal:
    """Translates a Converse request, or its messages, to the internal view.

    Args:
        request: A body (`messages`, `system`, `toolConfig`) or a list of messages; not changed.
        ids: `Shaped.ids` of the call that made it, to get the old ids back.
    """
    body: Mapping[str, Any] = request if isinstance(request, Mapping) else {"messages": request}
    reader = BedrockReader(ids or {})
    reader.take_all(body.get("messages") or ())
    return Internal(
        reader.messages,
        system=_system_in(body.get("system")),
        tools=tools_in(body.get("toolConfig")),
    )


def _system_in(told: Any) -> str | list[Block] | None:
    if not told:
        return None
    blocks = blocks_in(told, {})
    plain = len(blocks) == 1 and is_text(blocks[0]) and len(blocks[0]) == 2
    return str(blocks[0]["text"]) if plain else blocks

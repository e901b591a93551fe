"""OpenAI Responses, both ways: a list of items instead of messages.

| internal | items |
|---|---|
| `text` of the assistant | `message` with a string; with `output_text` if it came with an id |
| `tool_use` | `function_call`, or `custom_tool_call` and others where it came from one |
| `tool_result` | the `…_output` of the same kind |
| `thinking` that came from a `reasoning` item | that item, verbatim |
| `system` | `instructions` |
| `foreign` blocks | the item as it came: compaction, web search, whatever is new |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.messages import Block, Item
from ullage.providers._common import Internal, Shaped, blocks_of
from ullage.providers._ids import reverse
from ullage.providers._placed import placed
from ullage.providers._responses_in import ResponsesReader, tool_in
from ullage.providers._responses_out import ResponsesWriter, tools_out, whole_units

__all__ = ["from_provider", "to_provider"]


@placed
def to_provider(
    messages: Sequence[Item],
    *,
    system: str | Sequence[Block] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    store: bool = False,
) -> Shaped:
    """Translates a conversation to the input of the Responses API.

    Args:
        messages: Anthropic-shaped messages or entries; not changed.
        system: The system prompt; its blocks are joined, as `instructions` is one string.
        tools: Anthropic-shaped definitions; `None` sends none.
        store: Whether the server keeps items. If not, reasoning without its encrypted content is left
            out together with the ids that refer to it, as the server could not find it.

    Returns:
        `input` and, if given, `instructions` and `tools`; losses; ids that had to change.
    """
    writer = ResponsesWriter(messages, tools)
    items = whole_units(writer.items(messages), store=store, losses=writer.losses)
    parts: dict[str, Any] = {"input": items}
    if system:
        parts["instructions"] = "\n\n".join(
            writer.told(block, "system") for block in blocks_of(system)
        )
    if tools is not None:
        parts["tools"] = tools_out(tools, writer.losses, writer.names)
    return Shaped(parts, writer.losses.all(), reverse(writer.ids), reverse(writer.names))


def from_provider(
    request: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    ids: Mapping[str, str] | None = None,
) -> Internal:
    """Translates a Responses request, or its items, to the internal view.

    Args:
        request: A request body (`input`, `instructions`, `tools`) or a list of items; not changed.
        ids: `Shaped.ids` of the call that made it, to get the old ids back.
    """
    body: Mapping[str, Any] = request if isinstance(request, Mapping) else {"input": request}
    given = body.get("input") or ()
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    reader = ResponsesReader(ids or {})
    reader.take_all(items)
    tools = body.get("tools")
    return Internal(
        reader.messages,
        system=body.get("instructions"),
        tools=None if tools is None else [tool_in(tool) for tool in tools],
        losses=reader.losses.all(),
    )

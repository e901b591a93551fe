"""Gemini `generateContent`, both ways.

| internal | contents |
|---|---|
| roles `user`, `assistant` | `user`, `model`, strictly in turn |
| `tool_use` | `functionCall`; its `thoughtSignature` stays on the very part that had it |
| `tool_result` | `functionResponse` with the name of its call, in the order of the calls |
| a result's media | `functionResponse.parts`, each named where it stood |
| thought parts | `thinking` that remembers where it came from |
| `system` | `systemInstruction` |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.messages import Block, Item
from ullage.providers._common import Internal, Shaped
from ullage.providers._gemini_in import GeminiReader, system_in, tools_in
from ullage.providers._gemini_out import GeminiWriter, tools_out
from ullage.providers._ids import reverse
from ullage.providers._placed import placed

__all__ = ["from_provider", "to_provider"]


@placed
def to_provider(
    messages: Sequence[Item],
    *,
    system: str | Sequence[Block] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    signatures: bool = True,
) -> Shaped:
    """Translates a conversation to contents.

    Args:
        messages: Anthropic-shaped messages or entries; not changed.
        system: The system prompt; `None` sends none.
        tools: Anthropic-shaped definitions; `None` sends none.
        signatures: Whether the first call of a step without a signature, one that another model made,
            gets the documented word that skips the check. Models before Gemini 3 need none.

    Returns:
        `contents` and, if given, `systemInstruction` and `tools`; losses; ids that had to change.
    """
    writer = GeminiWriter(messages, signatures=signatures)
    parts: dict[str, Any] = {"contents": writer.contents(messages)}
    if system:
        parts["systemInstruction"] = {"parts": writer.system(system)}
    if tools is not None:
        parts["tools"] = tools_out(tools, writer.losses)
    return Shaped(parts, writer.losses.all(), reverse(writer.ids))


def from_provider(
    request: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    ids: Mapping[str, str] | None = None,
) -> Internal:
    """Translates a request, or its contents, to the internal view.

    Args:
        request: A body (`contents`, `systemInstruction`, `tools`) or a list of contents; not changed.
        ids: `Shaped.ids` of the call that made it, to get the old ids back.
    """
    body: Mapping[str, Any] = request if isinstance(request, Mapping) else {"contents": request}
    reader = GeminiReader(ids or {})
    reader.take_all(body.get("contents") or ())
    tools = body.get("tools")
    return Internal(
        reader.messages,
        system=system_in(body.get("systemInstruction") or body.get("system_instruction")),
        tools=None if tools is None else tools_in(tools),
        losses=reader.losses.all(),
    )

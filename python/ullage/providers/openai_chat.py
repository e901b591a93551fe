"""OpenAI Chat Completions, both ways, and the servers that speak it with an accent.

| internal | chat |
|---|---|
| `tool_use` blocks | `tool_calls` of the same assistant message, arguments as a JSON string |
| `tool_result` blocks | `tool` messages directly after it |
| media in a result | a user message after the results, labelled; read back into the result |
| text after results | a user message with a list of parts |
| `system` | the first message, role `system` or `developer` |
| `thinking` | `reasoning_content` where the dialect has it; else left out |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.messages import Block, Item
from ullage.providers._chat_dialect import DIALECTS, DialectName, adapt
from ullage.providers._chat_in import ChatItemReader, leading_system, tool_in
from ullage.providers._chat_out import ChatWriter, tools_out
from ullage.providers._common import USER_FILLER, Internal, Shaped
from ullage.providers._ids import reverse
from ullage.providers._placed import placed

__all__ = ["DialectName", "from_provider", "to_provider"]


@placed
def to_provider(
    messages: Sequence[Item],
    *,
    system: str | Sequence[Block] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    dialect: DialectName = "openai",
    system_role: str | None = None,
) -> Shaped:
    """Translates a conversation to Chat Completions.

    Args:
        messages: Anthropic-shaped messages or entries; not changed.
        system: The system prompt; `None` sends none.
        tools: Anthropic-shaped definitions; `None` sends none.
        dialect: `openai`; `compatible`: contents as strings; `deepseek`: with `reasoning_content`;
            `local`: one leading system message and strict alternation too.
        system_role: `system` or `developer`; `None`: what the dialect uses.

    Returns:
        `messages` and, if given, `tools`; losses; ids that had to change.
    """
    wanted = DIALECTS[dialect]
    wanted = wanted._replace(system_role=system_role) if system_role else wanted
    writer = ChatWriter(wanted, messages, tools)
    chat = [*writer.system(system), *writer.turns(messages)]
    parts: dict[str, Any] = {"messages": adapt(chat, wanted, writer.losses)}
    if tools is not None:
        parts["tools"] = tools_out(tools, writer.losses, writer.names)
    return Shaped(parts, writer.losses.all(), reverse(writer.ids), reverse(writer.names))


def from_provider(
    request: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    ids: Mapping[str, str] | None = None,
) -> Internal:
    """Translates a Chat Completions request, or its messages, to the internal view.

    Args:
        request: A request body (`messages`, `tools`) or a list of messages; not changed.
        ids: `Shaped.ids` of the call that made it, to get the old ids back.

    Returns:
        Messages, system prompt (the first message, if it is one), tools.
    """
    body: Mapping[str, Any] = request if isinstance(request, Mapping) else {"messages": request}
    reader = ChatItemReader(ids or {})
    chat = list(body.get("messages") or ())
    system = None
    if chat and (system := leading_system(chat[0])) is not None:
        chat = chat[1:]
    if chat[:1] == [{"role": "user", "content": USER_FILLER}]:
        chat = chat[1:]
    for message in chat:
        reader.take(message)
    tools = body.get("tools")
    return Internal(
        reader.messages,
        system=system,
        tools=None if tools is None else [tool_in(tool) for tool in tools],
        losses=reader.losses.all(),
    )

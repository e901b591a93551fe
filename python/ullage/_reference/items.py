"""One message or entry → its digest. The twin of `rust/core/src/digest/items.rs`."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ullage._reference.blocks import Draft, read_block, read_result_content
from ullage._reference.digest import (
    BlockDigest,
    BlockFlag,
    BlockKind,
    MessageDigest,
    MessageFlag,
    Role,
    plain,
)
from ullage._reference.meter import Meter, Weights
from ullage._reference.view import Strings, is_list, saturate, shown, timestamp_ms
from ullage.exceptions import InvalidMessage

__all__ = ["read_item"]

F = plain(MessageFlag)
B = plain(BlockFlag)
_ROLES: Final = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}

# What requests of any provider carry, what responses carry, and what a view of ours adds.
_KNOWN_KEYS: Final = frozenset(
    "role content name tool_calls tool_call_id function_call refusal audio reasoning_content "
    "reasoning reasoning_details prefix id type model usage stop_reason stop_sequence stop_details "
    "container context_management diagnostics output_config clear_at phase uuid timestamp "
    "annotations".split()
)
_SPEAKERS: Final = frozenset({"user", "assistant"})
_USAGE_KEYS: Final = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)


class _Parts(NamedTuple):
    """A message's blocks and flags while its digest is being put together."""

    blocks: list[BlockDigest]
    flags: int


def read_item(
    item: Any, weights: Weights | None, strings: Strings
) -> tuple[MessageDigest, list[BlockDigest]]:
    """Digests a bare message or an entry; `first_block` is left 0.

    Raises:
        InvalidMessage: It is not a mapping, has no known role, or holds what JSON does not have.
    """
    if not isinstance(item, dict):
        raise InvalidMessage("must be an object", got=shown(item))
    if "role" in item:
        return _read_message(item, item, "", weights, strings)
    message = item.get("message")
    if isinstance(message, dict):
        return _read_message(item, message, "message.", weights, strings)
    return _read_metadata(item, strings), []


def _read_metadata(entry: dict[str, Any], strings: Strings) -> MessageDigest:
    """An entry without a message: it costs nothing, and may be a boundary."""
    entry_type = entry.get("type")
    if not isinstance(entry_type, str):
        raise InvalidMessage("has neither a role nor a message", field="role")
    if entry_type in _SPEAKERS:
        got = shown(entry["message"]) if "message" in entry else "nothing"
        raise InvalidMessage("must be an object", field="message", got=got)
    flags = F.ENTRY | _envelope_flags(entry)
    if entry_type == "system" and entry.get("subtype") == "compact_boundary":
        flags |= F.BOUNDARY
    uuid, time = _intern(entry.get("uuid"), strings), timestamp_ms(entry.get("timestamp"))
    return MessageDigest(int(Role.NONE), int(flags), 0, 0, 0, 0, 0, uuid, 0, time)


def _read_message(
    item: dict[str, Any],
    message: dict[str, Any],
    prefix: str,
    weights: Weights | None,
    strings: Strings,
) -> tuple[MessageDigest, list[BlockDigest]]:
    role = _role(message, prefix)
    uuid = _intern(item.get("uuid"), strings)
    response_id = _intern(message.get("id"), strings) if role is Role.ASSISTANT else 0
    flags = _envelope_flags(item) | _message_flags(message, role)
    if prefix:
        flags |= F.ENTRY
    elif not item.keys() <= _KNOWN_KEYS:
        flags |= F.UNKNOWN_KEYS
    if item.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>":
        flags |= F.SYNTHETIC
    blocks, more = _read_content(message, role, prefix, weights, strings)
    flags |= more | _block_facts(blocks)
    flags |= _user_input(role, flags, blocks)
    usage = 0 if role is not Role.ASSISTANT or flags & F.SYNTHETIC else usage_total(message)
    if usage:
        flags |= F.HAS_USAGE
    tokens, rough = _own_tokens(message, role, prefix, weights)
    tokens += sum(block.tokens for block in blocks)
    rough += sum(block.rough for block in blocks)
    time = timestamp_ms(item.get("timestamp"))
    digest = MessageDigest(
        int(role), int(flags), saturate(tokens), saturate(rough), 0, len(blocks),
        response_id, uuid, usage, time,
    )  # fmt: skip
    return digest, blocks


def _role(message: dict[str, Any], prefix: str) -> Role:
    field = f"{prefix}role"
    if "role" not in message:
        raise InvalidMessage("is missing", field=field)
    name = message["role"]
    role = _ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        reason = "must be user, assistant, system, developer or tool"
        raise InvalidMessage(reason, field=field, got=shown(name))
    return role


def _intern(value: Any, strings: Strings) -> int:
    return strings.intern(value) if isinstance(value, str) else 0


def _envelope_flags(item: dict[str, Any]) -> int:
    flags = F.META if item.get("isMeta") is True else 0
    flags |= F.SUMMARY if item.get("isCompactSummary") is True else 0
    return flags | (F.SIDECHAIN if item.get("isSidechain") is True else 0)


def _message_flags(message: dict[str, Any], role: Role) -> int:
    flags = 0
    if role is Role.SYSTEM:
        flags |= F.OUTPUT_CONFIG if message.get("output_config") is not None else 0
        flags |= F.CLEAR_AT if message.get("clear_at") is not None else 0
    calls = message.get("tool_calls")
    if calls is not None or role is Role.TOOL or message["role"] == "developer":
        flags |= F.OPENAI_CHAT
    if calls is not None and (not is_list(calls) or not calls):
        flags |= F.EMPTY_CALLS
    if any(message.get(key) is not None for key in ("refusal", "audio", "function_call")):
        flags |= F.OTHER_CONTENT
    flags |= F.REASONING if isinstance(message.get("reasoning_content"), str) else 0
    flags |= F.FUNCTION_ROLE if message["role"] == "function" else 0
    return flags | (F.PREFIX if message.get("prefix") is True else 0)


def _read_content(
    message: dict[str, Any], role: Role, prefix: str, weights: Weights | None, strings: Strings
) -> _Parts:
    content = message.get("content")
    flags = _content_flags(content)
    if role is Role.TOOL:
        return _Parts([_read_tool_message(message, prefix, weights, strings)], flags)
    blocks: list[BlockDigest] = []
    if isinstance(content, str):
        parts = [{"type": "text", "text": content}] if content else []
        blocks.extend(read_block(part, f"{prefix}content", weights, strings) for part in parts)
    elif is_list(content):
        for index, item in enumerate(content):
            blocks.append(read_block(item, f"{prefix}content[{index}]", weights, strings))
    calls = message.get("tool_calls")
    for index, call in enumerate(calls if is_list(calls) else []):
        blocks.append(_read_call(call, f"{prefix}tool_calls[{index}]", weights, strings))
    return _Parts(blocks, flags)


def _content_flags(content: Any) -> int:
    if content is None:
        return F.EMPTY_CONTENT
    if isinstance(content, str):
        if not content:
            return F.STRING_CONTENT | F.EMPTY_CONTENT
        return F.STRING_CONTENT | (F.BLANK_CONTENT if content.isspace() else 0)
    if is_list(content):
        return 0 if content else F.EMPTY_CONTENT
    return F.BAD_CONTENT


def _read_tool_message(
    message: dict[str, Any], prefix: str, weights: Weights | None, strings: Strings
) -> BlockDigest:
    draft = Draft(BlockKind.TOOL_RESULT, f"{prefix}content", weights, strings)
    draft.set_id(message.get("tool_call_id"))
    draft.set_name(message.get("name"))
    read_result_content(draft, message.get("content"), f"{prefix}content")
    return draft.finish(weights)


def _read_call(call: Any, field: str, weights: Weights | None, strings: Strings) -> BlockDigest:
    """One of OpenAI's `tool_calls`, of type function or custom, or flat as other tools store it."""
    draft = Draft(BlockKind.TOOL_USE, field, weights, strings)
    if not isinstance(call, dict):
        draft.flags |= B.NOT_A_BLOCK | B.MISSING_ID
        draft.meter.json(call, field)
        return draft.finish(weights)
    draft.set_id(call.get("id"))
    nested = next((key for key in ("function", "custom") if isinstance(call.get(key), dict)), "")
    body = call[nested] if nested else call
    path = f"{field}.{nested}" if nested else field
    draft.set_name(body.get("name"))
    draft.meter.either(body.get("name"), f"{path}.name")
    key = "arguments" if "arguments" in body else "input"
    arguments = body.get(key)
    if not isinstance(arguments, str):
        draft.flags |= B.BAD_ARGUMENTS
    draft.meter.either(arguments, f"{path}.{key}")
    return draft.finish(weights)


_BLANK: Final = B.EMPTY_TEXT | B.BLANK_TEXT
_MEDIA: Final = frozenset({int(BlockKind.IMAGE), int(BlockKind.DOCUMENT)})


def _block_facts(blocks: list[BlockDigest]) -> int:
    flags = 0
    for block in blocks:
        if block.kind == BlockKind.TEXT and not block.flags & _BLANK:
            flags |= F.HAS_TEXT
        if block.kind in _MEDIA or block.flags & B.NESTED_MEDIA:
            flags |= F.HAS_MEDIA
    return flags


def _user_input(role: Role, flags: int, blocks: list[BlockDigest]) -> int:
    if role is not Role.USER or flags & (F.META | F.SUMMARY):
        return 0
    theirs = any(block.kind != BlockKind.TOOL_RESULT for block in blocks)
    return F.USER_INPUT if theirs else 0


def _own_tokens(
    message: dict[str, Any], role: Role, prefix: str, weights: Weights | None
) -> tuple[int, int]:
    """What the message costs in addition to its blocks: its role, and fields that hold text."""
    meter = Meter(weights)
    for key in ("reasoning_content", "refusal"):
        if isinstance(message.get(key), str):
            meter.text(message[key])
    if message.get("function_call") is not None:
        meter.json(message["function_call"], f"{prefix}function_call")
    tokens, rough, _ = meter.close(0 if weights is None else weights.messages[role])
    return tokens, rough


def usage_total(message: dict[str, Any]) -> int:
    """Tokens in the context after a response, by its usage; 0 if it says nothing.

    Anthropic's four figures, of the last iteration of type `message` where there are several;
    else OpenAI's total, or prompt and completion.
    """
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return 0
    source = _last_iteration(usage.get("iterations")) or usage
    total = sum(_count(source.get(key)) for key in _USAGE_KEYS)
    if total == 0:
        total = _count(usage.get("total_tokens"))
    if total == 0:
        total = _count(usage.get("prompt_tokens")) + _count(usage.get("completion_tokens"))
    return saturate(total)


def _last_iteration(iterations: Any) -> dict[str, Any] | None:
    found = None
    for item in iterations if is_list(iterations) else []:
        if isinstance(item, dict) and item.get("type") == "message":
            found = item
    return found


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return saturate(max(0, value))

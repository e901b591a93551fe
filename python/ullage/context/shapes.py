"""What comes in from other providers, as the internal view: messages of their form, and whole responses.

Items are translated one by one as they come, so that taking one in costs the item only. What the
internal view has no word for travels along in the message and is put back where it came from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from ullage.exceptions import InvalidMessage, InvalidPolicy
from ullage.outgoing import SHAPES
from ullage.providers import bedrock, gemini, mistral, openai_chat, openai_responses
from ullage.providers._common import FOREIGN, is_anthropic_only
from ullage.validate import canonical

__all__ = ["read_item", "read_response", "shape_of"]

Item = Mapping[str, Any]

_MODULES: Final[Mapping[str, ModuleType]] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
    "bedrock": bedrock,
    "mistral": mistral,
}
_INTERNAL: Final = ("tool_use", "tool_result", FOREIGN)
# Their content has other names, and blocks without a type.
_UNTYPED: Final = ("gemini", "bedrock")
_SYSTEM_HINT: Final = "give it as ContextManager(system=...): it is never changed"
_FILLER: Final[Mapping[str, Any]] = {"role": "user", "content": "."}


def shape_of(provider: str) -> str:
    """The provider's name as the shapes know it.

    Raises:
        InvalidPolicy: There is no such shape.
    """
    name = canonical(provider)
    if name not in SHAPES:
        raise InvalidPolicy("provider", provider, f"must be one of {', '.join(SHAPES)}")
    return name


def read_item(
    item: Any, provider: str, *, position: int, open_calls: Callable[[], Sequence[tuple[str, str]]]
) -> list[Item]:
    """One message or item of the provider's form as internal messages.

    Args:
        item: Of the provider's form; one that is in the internal view already stays as it is.
        provider: A name of `SHAPES`.
        position: Where it will stand in the history; makes ids where the provider has none.
        open_calls: Id and name of calls that wait for a result, oldest first.

    Raises:
        InvalidMessage: The first item is a system prompt: that is an argument of the manager.
    """
    if provider == "anthropic" or not isinstance(item, Mapping) or _is_internal(item, provider):
        return [item]
    system = item.get("role") in ("system", "developer")
    if system and position == 0:
        raise InvalidMessage("is the system prompt", index=0, field="role", hint=_SYSTEM_HINT)
    given = [_FILLER, item] if system else [item]
    messages = _MODULES[provider].from_provider(given).messages[len(given) - 1 :]
    return [_named(message, position, open_calls) for message in messages]


def _is_internal(item: Item, provider: str) -> bool:
    if FOREIGN in item or ("role" not in item and isinstance(item.get("message"), Mapping)):
        return True
    content = item.get("content")
    blocks = content if isinstance(content, list) else ()
    if provider in _UNTYPED and (isinstance(content, str) or _is_typed(blocks)):
        return True
    return any(
        isinstance(block, Mapping) and (_is_ours(block.get("type")) or FOREIGN in block)
        for block in blocks
    )


def _is_ours(kind: Any) -> bool:
    """Whether only the internal view has blocks of this type."""
    return kind in _INTERNAL or (isinstance(kind, str) and is_anthropic_only(kind))


def _is_typed(blocks: Sequence[Any]) -> bool:
    return any(isinstance(block, Mapping) and "type" in block for block in blocks)


def _named(
    message: Mapping[str, Any],
    position: int,
    open_calls: Callable[[], Sequence[tuple[str, str]]],
) -> Item:
    """Where the provider gives no ids, calls get one and results that of the first open call of their name."""
    content = message.get("content")
    if not isinstance(content, list) or not any(_nameless(block) for block in content):
        return message
    waiting = list(open_calls())
    blocks = []
    for at, block in enumerate(content):
        if not _nameless(block):
            blocks.append(block)
        elif block["type"] == "tool_use":
            seed = f"{position}:{at}:{block.get('name')}".encode("utf-8", "surrogatepass")
            blocks.append({**block, "id": f"call_{hashlib.sha256(seed).hexdigest()[:20]}"})
        else:
            name = str(block["tool_use_id"]).removeprefix(_UNKNOWN)
            found = next((pair for pair in waiting if pair[1] == name), None)
            if found is not None:
                waiting.remove(found)
            blocks.append(block if found is None else {**block, "tool_use_id": found[0]})
    return {**message, "content": blocks}


_UNKNOWN: Final = "unknown_"


def _nameless(block: Any) -> bool:
    if not isinstance(block, Mapping):
        return False
    if block.get("type") == "tool_result":
        return str(block.get("tool_use_id", "")).startswith(_UNKNOWN)
    foreign = block.get("foreign")
    told = foreign.get("gemini") if isinstance(foreign, Mapping) else None
    return block.get("type") == "tool_use" and isinstance(told, Mapping) and "no_id" in told


# ---- responses -------------------------------------------------------------------------------


def read_response(response: Any, provider: str) -> tuple[Item, list[Any], dict[str, Any]]:
    """A response: its body, its items, and what it says of itself (`id`, `usage`) in the internal view's words.

    Args:
        response: The body as a mapping, an SDK's object, or just the message in it.
        provider: A name of `SHAPES`.
    """
    body = _plain(response)
    if provider == "anthropic" or not isinstance(body, Mapping):
        return body, [body], {}
    items = list(_items(body, provider))
    usage, name = _usage(body), body.get("id") or body.get("responseId")
    about: dict[str, Any] = {"usage": usage} if usage else {}
    if isinstance(name, str) and name and not (len(items) == 1 and items[0] is body):
        about["id"] = name
    return body, items, about


def _plain(response: Any) -> Any:
    for name in ("model_dump", "to_dict", "to_json_dict"):
        make = getattr(response, name, None)
        if callable(make):
            return make(exclude_none=True) if name != "to_dict" else make()
    return response


def _items(body: Item, provider: str) -> Iterator[Any]:
    if provider == "openai_responses" and isinstance(body.get("output"), list):
        yield from body["output"]
    elif provider == "bedrock" and isinstance(body.get("output"), Mapping):
        yield body["output"].get("message")
    elif provider == "gemini" and isinstance(body.get("candidates"), list):
        yield from (each["content"] for each in body["candidates"][:1] if each.get("content"))
    elif isinstance(body.get("choices"), list):
        yield from (each["message"] for each in body["choices"][:1] if each.get("message"))
    else:
        yield body


_PROMPTS: Final = (
    "prompt_tokens",
    "promptTokenCount",
    "input_tokens",
    "inputTokens",
    "cacheReadInputTokens",
    "cacheWriteInputTokens",
)
_ANSWERS: Final = (
    "completion_tokens",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "output_tokens",
    "outputTokens",
)


def _usage(body: Item) -> dict[str, int]:
    """Prompt (cached tokens are in it, but for Bedrock, which names them apart) and answer."""
    told = body.get("usage") or body.get("usageMetadata")
    if not isinstance(told, Mapping):
        return {}
    prompt = sum(_count(told.get(name)) for name in _PROMPTS)
    answer = sum(_count(told.get(name)) for name in _ANSWERS)
    return {"input_tokens": prompt, "output_tokens": answer} if prompt else {}


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0

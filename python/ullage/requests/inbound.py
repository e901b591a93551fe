"""What comes in from other providers, as the internal view: messages of their form, and whole responses.

Items are translated one by one as they come, so that taking one in costs the item only. What the
internal view has no word for travels along in the message and is put back where it came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ullage.exceptions import InvalidPolicy
from ullage.legality import canonical
from ullage.messages import Item
from ullage.providers.items import read_item
from ullage.requests.to_request import SHAPES

__all__ = ["read_item", "read_response", "shape_of"]


def shape_of(provider: str) -> str:
    """The provider's name as the shapes know it.

    Raises:
        InvalidPolicy: There is no such shape.
    """
    name = canonical(provider)
    if name not in SHAPES:
        raise InvalidPolicy("provider", provider, f"must be one of {', '.join(SHAPES)}")
    return name


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

"""What comes in from other providers, as the internal view: messages of their form, and whole responses.

Items are translated one by one as they come, so that taking one in costs the item only. What the
internal view has no word for travels along in the message and is put back where it came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import is_
from typing import Any, Final

from ullage.messages import Item
from ullage.providers.registry import Provider
from ullage.providers.sdk_objects import as_json, camel_cased, without_nulls


def given_as_json(given: Any, provider: Provider) -> Any:
    """A message or a response as the API spells it, whichever of the SDK's forms it comes in; the same object where it is that."""
    plain = as_json(given)
    if not isinstance(plain, Mapping):
        return plain
    if provider.camel_case:
        # What has content, or is an entry around a message, is in the internal view, which spells names otherwise.
        return plain if "content" in plain or "message" in plain else camel_cased(plain)
    plain, content = without_nulls(plain), plain.get("content")
    if not isinstance(content, list):
        return plain
    blocks = [without_nulls(block) for block in content]
    same = all(map(is_, blocks, content))
    return plain if same else {**plain, "content": blocks}


# ---- responses -------------------------------------------------------------------------------


def read_response(response: Any, provider: Provider) -> tuple[Item, list[Any], dict[str, Any]]:
    """A response: its body, its items, and what it says of itself (`id`, `usage`) in the internal view's words.

    Args:
        response: The body as a mapping, an SDK's object, or just the message in it.
        provider: Whose form.
    """
    body = given_as_json(response, provider)
    if provider.internal or not isinstance(body, Mapping):
        return body, [body], {}
    items = list(_items(body, provider))
    usage, name = _usage(body), body.get("id") or body.get("responseId")
    about: dict[str, Any] = {"usage": usage} if usage else {}
    if isinstance(name, str) and name and not (len(items) == 1 and items[0] is body):
        about["id"] = name
    return body, items, about


_CHOICE: Final = ("choices", 0, "message")


def _items(body: Item, provider: Provider) -> Iterator[Any]:
    """The messages in a body, by the form's own way or that of Chat Completions, which others' servers speak too."""
    for first, *rest in filter(None, (provider.answer, _CHOICE)):
        found = body.get(str(first))
        if isinstance(found, Mapping if rest and isinstance(rest[0], str) else list):
            for step in rest:
                found = _step(found, step)
            yield from found if isinstance(found, list) else [found] if found else []
            return
    yield body


def _step(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return value[step] if isinstance(value, list) and step < len(value) else None
    return value.get(step) if isinstance(value, Mapping) else None


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

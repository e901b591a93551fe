"""What comes in: objects of the providers' SDKs, their dumps in the SDK's own spelling, whole responses, as the JSON that the API speaks; tools.

Items are read one by one as they come, so that taking one in costs the item only.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from ullage._start import pattern
from ullage.exceptions import InvalidMessage, InvalidPolicy
from ullage.messages import Item, same_items
from ullage.providers._common import ATOMS, FOREIGN, is_json, without_nulls
from ullage.providers.registry import CHAT_FORMS, SHAPES, Provider

_ARGUMENTS: Final = ("input", "args", "arguments")
"""What a model calls a tool with: JSON already, and nobody's to change."""

_PARSED: Final = ("parsed", "parsed_arguments")
"""OpenAI's SDK puts what it parsed next to what it was parsed from; the API does not know these keys."""


def as_json(value: Any) -> Any:
    """An SDK's object, or JSON that such objects stand in, as plain JSON; the value itself where there is none.

    Fields that are `None` are left out, as the SDKs do it; those of a call's arguments stay.
    """
    kind = type(value)
    if kind in ATOMS or is_json(value):
        return value
    if kind is list or kind is tuple:
        items = [as_json(item) for item in value]
        return value if same_items(items, value) else items
    if kind is dict or isinstance(value, Mapping):
        changed = {
            name: new
            for name, item in value.items()
            if name not in _ARGUMENTS and (new := as_json(item)) is not item
        }
        return {**value, **changed} if changed else value
    return _dumped(value)


def _dumped(value: Any) -> Any:
    """The fields of an SDK's object; anything else as it is, for whoever refuses it."""
    for name in ("model_dump", "to_dict", "to_json_dict"):
        make = getattr(value, name, None)
        if callable(make):
            fields = {"exclude_none": True, "by_alias": True} if name == "model_dump" else {}
            return _spelled_out(make(**fields))
    return value


def _spelled_out(value: Any, *, in_arguments: bool = False) -> Any:
    """A dump with bytes as base64 and members of enumerations as their values."""
    if isinstance(value, Mapping):
        return {
            name: _spelled_out(item, in_arguments=in_arguments or name in _ARGUMENTS)
            for name, item in value.items()
            if in_arguments or name not in _PARSED
        }
    if isinstance(value, list | tuple):
        return [_spelled_out(item, in_arguments=in_arguments) for item in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bytes | bytearray):
        import base64  # few objects hold bytes

        return base64.b64encode(value).decode("ascii")
    when = getattr(value, "isoformat", None)
    return when() if callable(when) else value


# ---- Google's SDK writes names in snake_case, and its dumps hold every field -----------------------

_VERBATIM: Final = frozenset(
    "args response parametersJsonSchema responseJsonSchema default example enum".split()
)
_BY_NAME: Final = frozenset(("properties", "defs", "$defs", "labels"))
"""Their keys are the user's names."""


def camel_cased(value: Any, key: str = "") -> Any:
    """A value of Google's SDK in the API's spelling: keys in camelCase, absent fields left out, bytes in base64.

    What a call or a result holds, and names in a schema, stay as they are; so does an object in which nothing changes.
    `key`: under which it stands; empty: it is the whole.
    """
    if type(value) in ATOMS:
        return value
    if isinstance(value, Mapping):
        named, fields = key in _BY_NAME, dict[Any, Any]()
        for name, item in value.items():
            spelled = name if named else _camel(name)
            if item is None:
                continue
            if named or spelled not in _VERBATIM:
                item = camel_cased(item, "" if named else spelled)
            fields[spelled] = item
        same = type(value) is dict and same_items([*fields], [*value])
        return value if same and same_items([*fields.values()], [*value.values()]) else fields
    if isinstance(value, list | tuple):
        items = [camel_cased(item, key) for item in value]
        return value if type(value) is list and same_items(items, value) else items
    return _scalar(value)


def _camel(name: Any) -> Any:
    if not isinstance(name, str) or "_" not in name.strip("_"):
        return name
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


# Messages of another form and whole responses, item by item.


def given_as_json(received: Any, provider: Provider) -> Any:
    """A message or a response as the API spells it, whichever of the SDK's forms it comes in; the same object where it is that."""
    try:
        plain = as_json(received)
    except RecursionError as exc:  # or it holds itself
        raise InvalidMessage("is nested too deeply") from exc
    if type(plain) is not dict and not isinstance(plain, Mapping):
        return plain
    if provider.camel_case:
        # What has content, or is an entry around a message, is in the internal view, which spells names otherwise.
        return plain if "content" in plain or "message" in plain else camel_cased(plain)
    return without_null_fields(plain)


def without_null_fields(message: Any, *, of_blocks: bool = False) -> Any:
    """A message without its null keys, and those of its blocks; the same object where there are none.

    `of_blocks`: the same object too where only keys of the message itself are null.
    """
    content = message.get("content")
    blocks: list[Any] = []
    changed = False
    for block in content if isinstance(content, list) else ():
        blocks.append(without_nulls(block))
        changed = changed or blocks[-1] is not block
    if changed:
        return {
            key: blocks if key == "content" else item
            for key, item in message.items()
            if item is not None
        }
    return message if of_blocks else without_nulls(message)


def read_response(response: Any, provider: Provider) -> tuple[Item, list[Any], dict[str, Any]]:
    """A response (a body, an SDK's object, or just the message in it): its body, its items, and its `id` and `usage` in our words.

    The items of a plain body are as they stand in it, for `given_as_json` one by one.
    """
    if provider.internal:
        body = response if type(response) is dict else given_as_json(response, provider)
        return body, [body], {}
    body = response
    items = _plain_items(body, provider) if type(body) is dict else None
    if items is None:
        body = given_as_json(response, provider)
        if not isinstance(body, Mapping):
            return body, [body], {}
        items = list(_items(body, provider))
    usage, name = _usage(body), body.get("id") or body.get("responseId")
    about: dict[str, Any] = {"usage": usage} if usage else {}
    if isinstance(name, str) and name and not (len(items) == 1 and items[0] is body):
        about["id"] = name
    return body, items, about


_CHOICE: Final = ("choices", 0, "message")


def _plain_items(body: dict[str, Any], provider: Provider) -> list[Any] | None:
    """As `_items`, where nothing on the way to them and to the usage has to be read as JSON first; so is a bare message; else `None`."""
    way: tuple[str | int, ...] = provider.answer
    if way[0] not in body:
        if "role" in body and "choices" not in body:
            return None if provider.camel_case or "usage" in body else [body]
        way = _CHOICE
    value: Any = body
    for step in way:
        if value.__class__ is not (list if step.__class__ is int else dict) or not value:
            return None
        held: Any = value
        value = held[0] if step == 0 else held.get(step)
    usage = body.get("usageMetadata" if provider.camel_case else "usage")
    if usage.__class__ is not dict:
        return None
    if provider.camel_case and "_" in "".join((*body, *usage)):  # as Google's SDK spells keys
        return None
    if value.__class__ is list:
        return list(value)
    return ([value] if value else []) if value.__class__ is dict else None


def _items(body: Item, provider: Provider) -> Iterator[Any]:
    """The messages in a body, by the form's own way or that of Chat Completions, which others' servers speak too."""
    for first, *steps in filter(None, (provider.answer, _CHOICE)):
        value = body.get(str(first))
        if isinstance(value, Mapping if steps and isinstance(steps[0], str) else list):
            for step in steps:
                if isinstance(step, int):
                    held = value if isinstance(value, list) else []
                    value = held[step] if step < len(held) else None
                else:
                    value = value.get(step) if isinstance(value, Mapping) else None
            yield from value if isinstance(value, list) else [value] if value else []
            return
    yield body


_PROMPTS: Final = frozenset(
    "prompt_tokens promptTokenCount input_tokens inputTokens cacheReadInputTokens "
    "cacheWriteInputTokens".split()
)
_ANSWERS: Final = frozenset(
    "completion_tokens candidatesTokenCount thoughtsTokenCount output_tokens outputTokens".split()
)
_READ, _WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"
_CACHED: Final = {
    "cached_tokens": _READ,
    "cache_write_tokens": _WRITTEN,
    "prompt_cache_hit_tokens": _READ,
    "cachedContentTokenCount": _READ,
    "cacheReadInputTokens": _READ,
    "cacheWriteInputTokens": _WRITTEN,
}
_DETAILS: Final = frozenset(("prompt_tokens_details", "input_tokens_details"))


def _usage(body: Item) -> dict[str, int]:
    """Prompt, the parts of it that the provider read from its cache or wrote to it where it states them, and answer, in Anthropic's words."""
    usage = body.get("usage") or body.get("usageMetadata")
    if type(usage) is not dict and not isinstance(usage, Mapping):
        return {}
    prompt = answer = 0
    cached: dict[str, int] = {}
    for name, count in usage.items():
        if type(count) is int:
            if name in _CACHED:
                cached[_CACHED[name]] = count if count > 0 else 0
            if count > 0 and name in _PROMPTS:
                prompt += count
            elif count > 0 and name in _ANSWERS:
                answer += count
        elif name in _DETAILS and (type(count) is dict or isinstance(count, Mapping)):
            for part in count:
                if part in _CACHED and type(count[part]) is int:
                    cached[_CACHED[part]] = max(0, count[part])
    if not prompt:
        return {}
    fresh = max(0, prompt - sum(cached.values()))
    return {"input_tokens": fresh, **cached, "output_tokens": answer}


# Tool definitions as the host has them: its provider's form, Anthropic's, or an SDK's object. What cannot be sent is refused.


class CountedTools(list[Any]):
    """Definitions that somebody else sends: they are counted, whatever they are, and none is refused."""


_DATED: Final = pattern(r"_20\d{6}$|_toolset$|^tool_search_tool")
"""Types of Anthropic's own tools. OpenAI dates some of its own too, with underscores: `web_search_2025_08_26`."""

_GOOGLE: Final = frozenset(
    "functionDeclarations googleSearch googleSearchRetrieval googleMaps codeExecution urlContext "
    "computerUse fileSearch retrieval enterpriseWebSearch mcpServers parallelAiSearch "
    "exaAiSearch".split()
)
_CONVERSE: Final = frozenset(("toolSpec", "systemTool", "cachePoint"))
_ANTHROPIC: Final = ("anthropic",)
_RESPONSES: Final = ("openai_responses",)
_LISTED: Final = "give a list of definitions, each in the provider's form or in Anthropic's"


def read_tools(tools: Any, provider: Provider) -> list[dict[str, Any]]:
    """Definitions in the internal view, which writes those of the provider's own form as they were.

    `tools`: in the provider's form, in Anthropic's, which is translated, or objects of the provider's SDK.

    Raises:
        InvalidPolicy: One cannot be sent to this provider; names its place.
    """
    if isinstance(tools, CountedTools):
        return list(tools)
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):
        raise InvalidPolicy("tools", type(tools).__name__, "must be a list", hint=_LISTED)
    plain = [_checked(at, tool, provider) for at, tool in enumerate(tools)]
    read: list[dict[str, Any]] = []
    for internal, group in groupby(plain, lambda tool: _is_internal(tool, provider)):
        body: Any = list(group)
        if not internal:
            for key in reversed(provider.tools_at):
                body = {key: body}
            body = provider.shape.from_provider(body).tools or ()
        read += body
    return read


def tools_show(tools: Any) -> str:
    """The form of definitions that only another provider than Anthropic has; empty: none shows one."""
    for tool in tools if isinstance(tools, Sequence) and not isinstance(tools, str) else ():
        plain = camel_cased(as_json(tool))
        forms = _forms(plain) if isinstance(plain, Mapping) else ()
        if forms and forms != _ANTHROPIC:
            return forms[0]
    return ""


def _checked(at: int, tool: Any, provider: Provider) -> dict[str, Any]:
    plain = as_json(tool)
    if not isinstance(plain, Mapping):
        limit = "must be a definition: a mapping, or an object of the provider's SDK"
        raise InvalidPolicy(f"tools[{at}]", type(tool).__name__, limit, hint=_LISTED)
    if provider.camel_case and "input_schema" not in plain:
        plain = camel_cased(plain)
    forms = _forms(plain)
    read = "input_schema" in plain or FOREIGN in plain
    # One that says what it is in a way that no provider reads is refused too.
    named = "name" in plain or "type" in plain
    fits = read or provider.name in forms or not (forms or named)
    if provider.name in SHAPES and not fits:
        description = f"is in the form of {forms[0]}" if forms else "is in no provider's form"
        limit = f"{description}, and cannot be sent to {provider.name}"
        got = plain.get("name") or plain.get("type") or next(iter(plain), "")
        hint = f"a definition with name, description and input_schema goes to {provider.name} translated"
        if forms:
            hint = f"ContextManager(provider={forms[0]!r}); {hint}"
        raise InvalidPolicy(f"tools[{at}]", got, limit, hint=hint)
    return plain if isinstance(plain, dict) else dict(plain)


def _is_internal(tool: Item, provider: Provider) -> bool:
    return "input_schema" in tool or FOREIGN in tool or provider.internal


def _forms(tool: Item) -> tuple[str, ...]:
    """Names of the forms that a definition can be in; empty: it does not show."""
    if not _GOOGLE.isdisjoint(tool):
        return ("gemini",)
    if not _CONVERSE.isdisjoint(tool):
        return ("bedrock",)
    if "input_schema" in tool:
        return _ANTHROPIC
    kind = tool.get("type")
    if not isinstance(kind, str):
        return ()
    if isinstance(tool.get(kind), Mapping):
        return CHAT_FORMS
    if kind == "function" or (kind == "custom" and "name" in tool):
        return _RESPONSES
    # Servers that speak Chat Completions have tools of their own, with types of their own.
    return _ANTHROPIC if _DATED.search(kind) else (*_RESPONSES, *CHAT_FORMS)

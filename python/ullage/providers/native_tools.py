"""Tool definitions as the host has them: its provider's form, Anthropic's, or an SDK's object. What cannot be sent is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from ullage._start import pattern
from ullage.exceptions import InvalidPolicy
from ullage.messages import Item
from ullage.providers._common import FOREIGN
from ullage.providers.registry import CHAT_FORMS, SHAPES, Provider
from ullage.providers.sdk_objects import as_json, camel_cased


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

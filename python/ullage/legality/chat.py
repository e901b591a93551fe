"""OpenAI's chat form and those who speak it: the rules O, M, D and L."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from ullage._engine import core
from ullage.legality.capabilities import known_model, size_of, whole
from ullage.legality.findings import Violation
from ullage.legality.ledgers import read_ledger
from ullage.legality.rule_request import RuleRequest
from ullage.legality.unicode import check_unicode

__all__ = ["check", "facts_of", "shared"]

_FORBIDS = "deepseek-r1"


def facts_of(request: RuleRequest) -> Mapping[str, Any]:
    """Facts of a chat request for the engine; the window of a model that the table lacks comes by `facts=`."""
    row, rules = known_model(request.model), request.provider.chat
    params, tools = request.params, request.tools
    output = params.get("max_completion_tokens") or params.get("max_tokens")
    return {
        "tools": None if tools is None else tuple(_names(tools)),
        "window": row.context_window if row else 0,
        "max_tokens": whole(output),
        "fixed_tokens": size_of(tools) // 4,
        "thinking": rules.reasoning and _thinks(params),
        # The old R1 answers 400 to its own reasoning; its successors want it back.
        "reasoning_forbidden": rules.reasoning and (request.model or "").startswith(_FORBIDS),
        "strict": rules.strict,
        **request.facts,
    }


def check(messages: Sequence[Any], request: RuleRequest) -> Iterator[Violation]:
    """Checks messages of the chat form."""
    skip = (*request.facts.get("skip", ()), *request.skip)
    ledger, unreadable = read_ledger(messages, "O06")
    yield from unreadable
    yield from core.check(ledger, request.provider.rules, {**facts_of(request), "skip": skip})
    yield from _arguments(messages)
    yield from check_unicode(messages, system=request.system, tools=request.tools)


def shared(messages: Sequence[Any], items: Sequence[Any]) -> Iterator[str | None]:
    """Keys that no other part of a list may have, if each is to be judged by itself; empty: a part with the rest, `None`: every one.

    Args:
        messages: A part in the internal view.
        items: The same in this form.
    """
    for item in items:
        for call in item.get("tool_calls") or ():
            yield str(call.get("id"))


def _thinks(params: Mapping[str, Any]) -> bool:
    thinking = params.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") == "enabled"


def _names(tools: Sequence[Any]) -> Iterator[str]:
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if isinstance(function, Mapping):
            yield str(function.get("name", ""))


def _arguments(messages: Sequence[Any]) -> Iterator[Violation]:
    """O03's warning: arguments that are a string but not a JSON object."""
    for index, item in enumerate(messages):
        calls = item.get("tool_calls") if isinstance(item, Mapping) else None
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            function = call.get("function") if isinstance(call, Mapping) else None
            arguments = function.get("arguments") if isinstance(function, Mapping) else None
            if isinstance(arguments, str) and not _is_object(arguments):
                yield Violation(
                    "O03", "warning", index, position, "arguments are not a JSON object"
                )


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except (ValueError, RecursionError):
        return False

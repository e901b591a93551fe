"""Facts and extra checks for OpenAI's chat form and those who speak it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from ullage.legality.capabilities import RequestFacts, known_model, size_of, whole
from ullage.legality.report import Violation

__all__ = ["chat_facts", "check_chat"]

_STRICT = ("local",)


def chat_facts(
    provider: str, *, model: str | None, tools: Sequence[Any] | None, params: Mapping[str, Any]
) -> RequestFacts:
    """Facts of a chat request; the window of a model that the table lacks comes by `facts=`."""
    row = known_model(model)
    output = params.get("max_completion_tokens") or params.get("max_tokens")
    core = {
        "tools": None if tools is None else tuple(_names(tools)),
        "window": row.context_window if row else 0,
        "max_tokens": whole(output),
        "fixed_tokens": size_of(tools) // 4,
        "thinking": provider == "deepseek" and _thinks(params),
        # The old R1 answers 400 to its own reasoning; its successors want it back.
        "reasoning_forbidden": provider == "deepseek" and (model or "").startswith("deepseek-r1"),
        "strict": provider in _STRICT,
    }
    return RequestFacts(core, bound=False, drop_block=False, betas=None)


def _thinks(params: Mapping[str, Any]) -> bool:
    thinking = params.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") == "enabled"


def _names(tools: Sequence[Any]) -> Iterator[str]:
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if isinstance(function, Mapping):
            yield str(function.get("name", ""))


def check_chat(messages: Sequence[Any]) -> Iterator[Violation]:
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

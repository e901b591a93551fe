"""O, M, D, L: OpenAI's chat form, and who is stricter about it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.oracle.checker.report import Finding, error, ident, warning
from tests.oracle.checker.size import count_tokens

__all__ = ["check_chat", "check_window"]

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_MAX_STRING = 10_485_760
_MAX_ID = 40
_MAX_TOOLS = 128
_MISTRAL_ID = re.compile(r"[A-Za-z0-9]{9}")
_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: "
)
_STRAY = (
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
    "'tool_calls'."
)


def check_chat(
    provider: str, body: dict[str, Any], *, window: int = 0, strict: bool = False
) -> Iterator[Finding]:
    """The rules of OpenAI itself, then those of the provider.

    Args:
        provider: `openai_chat`, `mistral`, `deepseek` or `local`.
        body: The request.
        window: Context window in tokens; 0: not checked.
        strict: A compatible server that asks for more than OpenAI does (O10).
    """
    found = body.get("messages")
    messages = found if isinstance(found, list) else []
    if not messages:
        yield error("O06", (-1, -1), "[] is too short - 'messages'")
    yield from _tools(body)
    for index, message in enumerate(messages):
        yield from _message(index, message if isinstance(message, dict) else {})
    yield from _pairs(provider, [m if isinstance(m, dict) else {} for m in messages])
    readable = [m if isinstance(m, dict) else {} for m in messages]
    if provider == "mistral":
        yield from _mistral(readable)
    elif provider == "deepseek":
        yield from _deepseek(body, readable)
    elif provider == "local":
        yield from _local(readable)
    if strict:
        yield from _strict(readable)
    if window:
        yield from check_window("L04" if provider == "local" else "O09", body, window)


def _tools(body: dict[str, Any]) -> Iterator[Finding]:
    """O11: none at all or at most 128, in the words of continuedev/continue#3403 and julep-ai/julep#330."""
    tools = body.get("tools")
    if not isinstance(tools, list):
        return
    if not tools:
        text = (
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty "
            "array instead."
        )
        yield error("O11", (-1, -1), text, code="empty_array")
    elif len(tools) > _MAX_TOOLS:
        text = (
            f"Invalid 'tools': array too long. Expected an array with maximum length {_MAX_TOOLS}, but got "
            f"an array with length {len(tools)} instead."
        )
        yield error("O11", (-1, -1), text, code="array_above_max_length")


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _message(index: int, message: dict[str, Any]) -> Iterator[Finding]:
    at, role, content = (index, -1), message.get("role"), message.get("content")
    if role not in _ROLES:
        yield error("O06", at, f"Invalid value: '{role}'. Supported values are: {_ROLES}.")
    if role == "tool":
        yield from _tool_content(at, content)
    elif role == "assistant":
        yield from _assistant(at, message)
    elif (content is None or content == []) and role in _ROLES:
        text = f"Invalid value for 'content': expected a string, got null. (messages[{index}])"
        yield error("O04", at, text)
    for text in _strings(content):
        if len(text) > _MAX_STRING:
            words = f"Invalid 'messages[{index}].content': string too long."
            yield error("O08", at, words, code="string_above_max_length")


def _strings(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]


def _tool_content(at: tuple[int, int], content: Any) -> Iterator[Finding]:
    parts = content if isinstance(content, list) else []
    textual = all(isinstance(part, dict) and part.get("type") == "text" for part in parts)
    if not isinstance(content, str | list) or not textual or content == []:
        yield error("O07", at, "Invalid value: tool messages may hold text only")


def _assistant(at: tuple[int, int], message: dict[str, Any]) -> Iterator[Finding]:
    calls, content = message.get("tool_calls"), message.get("content")
    if calls is not None and (not isinstance(calls, list) or not calls):
        yield error("O03", at, f"[] is too short - 'messages.{at[0]}.tool_calls'")
    for call in _calls(message):
        function = call.get("function")
        arguments = function.get("arguments") if isinstance(function, dict) else None
        custom = call.get("type") == "custom"
        if not custom and not isinstance(arguments, str):
            yield error("O03", at, "Invalid type for 'arguments': expected a string")
        elif not custom and not _is_json(arguments):
            yield warning("O03", at, "arguments are not JSON")
        if not isinstance(call.get("id"), str):
            yield error("O05", at, "Missing required parameter: 'tool_calls[].id'")
        elif len(call["id"]) > _MAX_ID:
            yield error("O05", at, f"Invalid 'tool_calls[].id': maximum length {_MAX_ID}")
    other = any(message.get(key) for key in ("refusal", "audio", "function_call"))
    if (content is None or content == []) and not calls and not other:
        yield error("O04", at, "Invalid assistant message: content or tool_calls must be set")


def _is_json(text: Any) -> bool:
    try:
        json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def _pairs(provider: str, messages: list[dict[str, Any]]) -> Iterator[Finding]:
    """O01, O02, O05: tool messages directly after their calls, one for each; ids used once."""
    waiting: dict[Any, int] = {}
    seen: set[Any] = set()
    for index, message in enumerate(messages):
        if message.get("role") == "tool":
            yield from _answer(provider, index, message, waiting)
            continue
        yield from _left_over(provider, waiting)
        waiting = {"": index} if _calls(message) else {}
        for call in _calls(message):
            name = ident(call.get("id"))
            if name in seen:
                yield error("O05", (index, -1), f"Duplicate value for 'tool_call_id': {name}")
            seen.add(name)
            waiting[name] = index
        before = messages[index - 1] if index else {}
        if message.get("role") == "function" and not before.get("function_call"):
            yield error("O06", (index, -1), _STRAY.replace("tool_calls", "function_call"))
    yield from _left_over(provider, waiting)


def _answer(
    provider: str, index: int, message: dict[str, Any], waiting: dict[Any, int]
) -> Iterator[Finding]:
    name = ident(message.get("tool_call_id"))
    if name and name in waiting and waiting[name] >= 0:
        waiting[name] = -1 - waiting[name]
        return
    rule = "O01" if name in waiting and name else "O02"
    yield error(rule, (index, -1), _STRAY)
    if provider == "mistral":
        yield error("M01", (index, -1), "Not the same number of function calls and responses")


def _left_over(provider: str, waiting: dict[Any, int]) -> Iterator[Finding]:
    names = [name for name, index in waiting.items() if name and index >= 0]
    if names:
        at = (waiting[names[0]], -1)
        yield error("O01", at, _UNANSWERED + ", ".join(map(str, names)))
        if provider == "mistral":
            yield error("M01", at, "Not the same number of function calls and responses")


def _mistral(messages: list[dict[str, Any]]) -> Iterator[Finding]:
    previous = ""
    for index, message in enumerate(messages):
        role = str(message.get("role"))
        if previous == "tool" and role not in ("tool", "assistant"):
            yield error(
                "M02", (index, -1), f"Unexpected role '{role}' after role 'tool'", code="3230"
            )
        if role == "system" and index:
            yield error("M05", (index, -1), "Unexpected role 'system' after the first message")
        names = [call.get("id") for call in _calls(message)]
        names += [message.get("tool_call_id")] if role == "tool" else []
        for name in names:
            if not isinstance(name, str) or not _MISTRAL_ID.fullmatch(name):
                text = f"Tool call id was {name} but must be a-z, A-Z, 0-9, with a length of 9."
                yield error("M03", (index, -1), text, code="3280")
        previous = role
    last = messages[-1] if messages else {}
    if previous not in ("user", "tool", "") and not last.get("prefix"):
        text = f"Expected last role User or Tool (or Assistant with prefix True) but got {previous}"
        yield error("M04", (len(messages) - 1, -1), text)


def _deepseek(body: dict[str, Any], messages: list[dict[str, Any]]) -> Iterator[Finding]:
    for index, message in enumerate(messages):
        said = message.get("content") or _calls(message)
        if message.get("role") == "assistant" and not said:
            text = "Invalid assistant message: content or tool_calls must be set"
            yield error("D02", (index, -1), text)
    thinking = body.get("thinking")
    on = isinstance(thinking, dict) and thinking.get("type") == "enabled"
    if not on and "reasoner" not in str(body.get("model")):
        return
    for index, message in enumerate(messages):
        if _calls(message) and not isinstance(message.get("reasoning_content"), str):
            text = "The `reasoning_content` in the thinking mode must be passed back to the API."
            yield error("D01", (index, -1), text)


def _local(messages: list[dict[str, Any]]) -> Iterator[Finding]:
    previous = ""
    for index, message in enumerate(messages):
        role = str(message.get("role"))
        if role in ("system", "developer") and index:
            yield error("L01", (index, -1), "System message must be at the beginning")
        first = role == "assistant" and previous in ("", "system", "developer")
        if first or (role == previous and role in ("user", "assistant")):
            text = "Conversation roles must alternate user/assistant/user/assistant/..."
            yield error("L02", (index, -1), text)
        previous = role
    if previous not in ("user", "tool", ""):
        text = "Cannot continue from an assistant message"
        yield error("L03", (len(messages) - 1, -1), text)


def _strict(messages: list[dict[str, Any]]) -> Iterator[Finding]:
    for finding in _local(messages):
        if finding.rule in ("L01", "L02"):
            yield finding._replace(rule="O10")
    for index, message in enumerate(messages):
        if message.get("role") == "assistant" and message.get("content") is None:
            text = f"messages[{index}].content: Input should be a valid string"
            yield error("O10", (index, -1), text)


def check_window(rule: str, body: dict[str, Any], window: int) -> Iterator[Finding]:
    """Input and wanted output within the window, in OpenAI's words."""
    wanted = body.get("max_completion_tokens") or body.get("max_tokens") or 0
    wanted = wanted if isinstance(wanted, int) else 0
    tokens = count_tokens(body)
    if tokens + wanted > window:
        text = (
            f"This model's maximum context length is {window} tokens. However, your messages resulted "
            f"in {tokens} tokens. Please reduce the length of the messages."
        )
        yield error(rule, (-1, -1), text, code="context_length_exceeded")

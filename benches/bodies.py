"""Turns of an agent as each provider's server answers them, in the plainest legal shape and in the ugliest.

The ugly ones have what servers and SDKs really send: thinking, two calls at once, null and empty fields, keys that no
request needs, contents as strings and as lists, an image now and then.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ullage.providers.registry import provider_of

__all__ = ["FORMS", "Turn", "opening", "turn"]

_PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_IMAGE_EVERY: Final = 10
_NAMES: Final = ("Bash", "Read")


class Turn(NamedTuple):
    """An answer of the model, and the results of its calls.

    Attributes:
        answer: Items to add one by one, or a response's whole body to observe.
        results: Items to add.
        whole: Whether `answer` is a body.
    """

    answer: Any
    results: list[Any]
    whole: bool


def _text(number: int) -> str:
    return f"part {number}: 12 files, all fine\n" * 3


def _inputs(number: int) -> tuple[dict[str, str], dict[str, str]]:
    return {"command": f"make part-{number}"}, {"path": f"/src/{number}.py"}


def _figures(number: int) -> tuple[int, int]:
    """Tokens that were read and written, as true as the estimate needs them."""
    return 300 + 130 * number, 60


def _anthropic(number: int, ugly: bool) -> Turn:
    names = [f"toolu_{number}{each}" for each in "ab"]
    calls = [
        {"type": "tool_use", "id": name, "name": tool, "input": given}
        for name, tool, given in zip(names, _NAMES, _inputs(number), strict=True)
    ]
    said = {"type": "text", "text": "Next."}
    results = [
        {"type": "tool_result", "tool_use_id": each, "content": _text(number)} for each in names
    ]
    if not ugly:
        answer = {"role": "assistant", "content": [said, calls[0]]}
        return Turn([answer], [{"role": "user", "content": results[:1]}], False)
    thought = {
        "type": "thinking",
        "thinking": "Let me see.",
        "signature": f"c2lnbmF0dXJl{number:012}",
    }
    results[0]["content"] = [{"type": "text", "text": _text(number)}]
    results[1]["is_error"] = False
    if number % _IMAGE_EVERY == 0:
        source = {"type": "base64", "media_type": "image/png", "data": _PNG}
        results[0]["content"].append({"type": "image", "source": source})
    read, written = _figures(number)
    usage = {
        "input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": read - 10,
        "output_tokens": written, "service_tier": "standard", "server_tool_use": None,
    }  # fmt: skip
    body = {
        "id": f"msg_{number:024}", "type": "message", "role": "assistant", "model": "claude-opus-4-5",
        "content": [thought, {**said, "citations": None}, *calls],
        "stop_reason": "tool_use", "stop_sequence": None, "container": None, "usage": usage,
    }  # fmt: skip
    return Turn(body, [{"role": "user", "content": results}], True)


def _chat(number: int, ugly: bool, *, mistral: bool = False) -> Turn:
    names = [f"{number:08}{each}" if mistral else f"call_{number}{each}" for each in "ab"]
    calls = [
        {"id": name, "type": "function", "function": {"name": tool, "arguments": json.dumps(given)}}
        for name, tool, given in zip(names, _NAMES, _inputs(number), strict=True)
    ]
    results: list[Any] = [
        {"role": "tool", "tool_call_id": each, "content": _text(number)} for each in names
    ]
    if not ugly:
        answer = {"role": "assistant", "content": "Next.", "tool_calls": calls[:1]}
        return Turn([answer], results[:1], False)
    if mistral:
        message = {"role": "assistant", "content": "", "tool_calls": calls, "prefix": False}
        results = [{**each, "name": tool} for each, tool in zip(results, _NAMES, strict=True)]
    else:
        message = {
            "role": "assistant", "content": None, "refusal": None, "annotations": [], "audio": None,
            "function_call": None, "reasoning_content": "Let me see.", "tool_calls": calls,
        }  # fmt: skip
        results[0]["content"] = [{"type": "text", "text": _text(number)}]
    if number % _IMAGE_EVERY == 0 and not mistral:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PNG}"}}
        results.append({"role": "user", "content": [{"type": "text", "text": "See."}, image]})
    read, written = _figures(number)
    usage = {
        "prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    }  # fmt: skip
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
    body = {
        "id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": "gpt-5.4",
        "choices": [choice], "usage": usage, "service_tier": "default", "system_fingerprint": None,
    }  # fmt: skip
    return Turn(body, results, True)


def _mistral(number: int, ugly: bool) -> Turn:
    return _chat(number, ugly, mistral=True)


def _responses(number: int, ugly: bool) -> Turn:
    names = [f"call_{number}{each}" for each in "ab"]
    calls = [
        {"type": "function_call", "call_id": name, "name": tool, "arguments": json.dumps(given)}
        for name, tool, given in zip(names, _NAMES, _inputs(number), strict=True)
    ]
    results: list[Any] = [
        {"type": "function_call_output", "call_id": each, "output": _text(number)} for each in names
    ]
    if not ugly:
        said: Any = {"role": "assistant", "content": "Next."}
        return Turn([said, calls[0]], results[:1], False)
    part = {"type": "output_text", "text": "Next.", "annotations": [], "logprobs": []}
    output = [
        {
            "id": f"rs_{number}", "type": "reasoning", "summary": [], "encrypted_content": "gAAA" * 20,
            "status": None, "content": None,
        },
        {
            "id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed",
            "content": [part],
        },
        *({**each, "id": f"fc_{number}{at}", "status": "completed"} for at, each in enumerate(calls)),
    ]  # fmt: skip
    results[1]["output"] = [{"type": "input_text", "text": _text(number)}]
    if number % _IMAGE_EVERY == 0:
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{_PNG}"}
        results.append({"role": "user", "content": [{"type": "input_text", "text": "See."}, image]})
    read, written = _figures(number)
    usage = {
        "input_tokens": read, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 10}, "total_tokens": read + written,
    }  # fmt: skip
    body = {
        "id": f"resp_{number}", "object": "response", "created_at": 1, "status": "completed", "error": None,
        "incomplete_details": None, "instructions": None, "model": "gpt-5.4", "output": output,
        "parallel_tool_calls": True, "usage": usage, "metadata": {},
    }  # fmt: skip
    return Turn(body, results, True)


def _gemini(number: int, ugly: bool) -> Turn:
    calls: list[Any] = [
        {"name": tool, "args": given} for tool, given in zip(_NAMES, _inputs(number), strict=True)
    ]
    answers: list[Any] = [{"name": each, "response": {"output": _text(number)}} for each in _NAMES]
    if not ugly:
        parts: list[Any] = [{"text": "Next."}, {"functionCall": {"id": f"c{number}", **calls[0]}}]
        result = {"functionResponse": {"id": f"c{number}", **answers[0]}}
        answer = {"role": "model", "parts": parts}
        return Turn([answer], [{"role": "user", "parts": [result]}], False)
    parts = [
        {"text": "Let me see.", "thought": True},
        {"text": "Next."},
        {"functionCall": calls[0], "thoughtSignature": "c2ln" * 8},
        {"functionCall": calls[1]},
    ]
    answers[1]["response"] = {"result": _text(number), "code": 0}
    results: list[Any] = [{"functionResponse": each} for each in answers]
    if number % _IMAGE_EVERY == 0:
        results.append({"inlineData": {"mimeType": "image/png", "data": _PNG}})
    read, written = _figures(number)
    usage = {
        "promptTokenCount": read, "candidatesTokenCount": written, "totalTokenCount": read + written,
        "thoughtsTokenCount": 5,
    }  # fmt: skip
    content = {"role": "model", "parts": parts}
    candidate = {"content": content, "finishReason": "STOP", "index": 0, "safetyRatings": []}
    body = {
        "candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-3-pro",
        "responseId": f"r{number}",
    }  # fmt: skip
    return Turn(body, [{"role": "user", "parts": results}], True)


def _bedrock(number: int, ugly: bool) -> Turn:
    names = [f"tooluse_{number}{each}" for each in "ab"]
    calls = [
        {"toolUse": {"toolUseId": name, "name": tool, "input": given}}
        for name, tool, given in zip(names, _NAMES, _inputs(number), strict=True)
    ]
    results: list[Any] = [
        {"toolResult": {"toolUseId": each, "content": [{"text": _text(number)}]}} for each in names
    ]
    said = {"text": "Next."}
    if not ugly:
        answer = {"role": "assistant", "content": [said, calls[0]]}
        return Turn([answer], [{"role": "user", "content": results[:1]}], False)
    thought = {"reasoningText": {"text": "Let me see.", "signature": "c2ln" * 8}}
    content = [{"reasoningContent": thought}, said, *calls]
    results[0]["toolResult"]["status"] = "success"
    results[1]["toolResult"]["content"] = [{"json": {"ok": number}}]
    if number % _IMAGE_EVERY == 0:
        results.append({"image": {"format": "png", "source": {"bytes": _PNG}}})
    read, written = _figures(number)
    usage = {
        "inputTokens": read, "outputTokens": written, "totalTokens": read + written,
        "cacheReadInputTokens": 0, "cacheWriteInputTokens": 0,
    }  # fmt: skip
    body = {
        "ResponseMetadata": {"RequestId": "x", "HTTPStatusCode": 200, "RetryAttempts": 0},
        "output": {"message": {"role": "assistant", "content": content}}, "stopReason": "tool_use",
        "usage": usage, "metrics": {"latencyMs": 1},
    }  # fmt: skip
    return Turn(body, [{"role": "user", "content": results}], True)


_Make = Callable[[int, bool], Turn]

FORMS: Final[dict[str, tuple[str, _Make]]] = {
    "anthropic": ("claude-opus-4-5", _anthropic),
    "openai_chat": ("gpt-5.4", _chat),
    "openai_responses": ("gpt-5.4", _responses),
    "gemini": ("gemini-3-pro-preview", _gemini),
    "bedrock": ("claude-opus-4-5", _bedrock),
    "mistral": ("mistral-large-latest", _mistral),
}
"""The model that is asked in each form, and what makes its turns."""


def opening(form: str) -> dict[str, Any]:
    """The user's first words."""
    words = "build all parts"
    if form == "gemini":
        return {"role": "user", "parts": [{"text": words}]}
    return {"role": "user", "content": [{"text": words}] if form == "bedrock" else words}


def lengthen(
    held: list[dict[str, Any]], number: int, *, ugly: bool, form: str = "anthropic"
) -> None:
    """Adds a turn to a list that somebody holds, as frameworks do."""
    said, results, is_response = turn(form, number, ugly=ugly)
    if is_response:
        for step in provider_of(form).answer:
            said = said[step]
        if form == "anthropic":
            said = {"role": "assistant", "content": said["content"]}
    held.extend([*(said if isinstance(said, list) else [said]), *results])


def turn(form: str, number: int, *, ugly: bool) -> Turn:
    """The turn of this number; its calls have ids of their own."""
    return FORMS[form][1](number, ugly)

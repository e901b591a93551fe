"""The peers' ways to bring a context down to a size, as `reducers.py` has ours: each gives the text that would be left.

None of them was made for an exact size: of each its own setting is searched for the largest text that fits.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from cuts import Message, blocks, said, text_of
from reducers import REDUCERS, Reducer, count, tail

SUMMARY = "The user works on a service; see the newest messages."
"""What the scripted model answers."""


def langchain(before: Sequence[Message], size: int) -> str:
    """`trim_messages(strategy="last")`, whole messages, as its documentation counts them."""
    from langchain_core.messages import trim_messages

    made, counted = _langchain(before)
    kept = trim_messages(made, max_tokens=size, strategy="last", token_counter=counted)
    return "\n".join(message.text for message in kept)


def _langchain(before: Sequence[Message]) -> tuple[list[Any], Callable[[Sequence[Any]], int]]:
    """The messages, and a counter that knows their sizes."""
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

    made: list[BaseMessage] = [
        (HumanMessage if (said(item) or {})["role"] == "user" else AIMessage)(text_of(item) or " ")
        for item in before
    ]
    sizes = {message.text: count(message.text) for message in made}

    def counted(messages: Sequence[Any]) -> int:
        return sum(sizes.get(one.text) or count(one.text) for one in messages)

    return made, counted


def _largest(size: int, kept: Callable[[int], str]) -> str:
    """The largest text of a setting that fits; if even the least is too large, its newest text is cut to the size."""
    low, high, best = 1, size, ""
    while low <= high:
        middle = (low + high) // 2
        text = kept(middle)
        if count(text) <= size:
            low, best = middle + 1, text
        else:
            high = middle - 1
    return best or tail([{"role": "user", "content": kept(1)}], size)


def harness(before: Sequence[Message], size: int) -> str:
    """pydantic-ai-harness' `SlidingWindowCompaction`, which keeps whole messages and the first one of the user."""
    return _by_harness(before, size, _window)


def harness_tiered(before: Sequence[Message], size: int) -> str:
    """Its `TieredCompaction`: all results but the newest three cleared, then the sliding window."""
    return _by_harness(before, size, _tiers)


def _by_harness(before: Sequence[Message], size: int, make: Callable[..., Any]) -> str:
    from pydantic_ai_harness.compaction import compact_now

    made, known = _pydantic(before), dict[str, int]()

    def counted(text: str) -> int:
        if text not in known:
            known[text] = count(text)
        return known[text]

    def kept(tokens: int) -> str:
        left = asyncio.run(compact_now(make(tokens, counted), made, model="test"))
        return "\n".join(_part_text(part) for message in left for part in message.parts)

    return _largest(size, kept)


def _window(keep: int, counted: Callable[[str], int]) -> Any:
    from pydantic_ai_harness.compaction import SlidingWindowCompaction

    return SlidingWindowCompaction(max_tokens=1, keep_tokens=keep, tokenizer=counted)


def _tiers(keep: int, counted: Callable[[str], int]) -> Any:
    from pydantic_ai_harness.compaction import ClearToolResults, TieredCompaction

    clear = ClearToolResults(max_tokens=1, keep_pairs=3, tokenizer=counted)
    window = _window(keep, counted)
    return TieredCompaction(tiers=[clear, window], target_tokens=keep, tokenizer=counted)


def _part_text(part: Any) -> str:
    name, given = getattr(part, "tool_name", ""), getattr(part, "args", None)
    content = getattr(part, "content", "")
    return f"{name} {given}" if given is not None else str(content)


def _pydantic(before: Sequence[Message]) -> list[Any]:
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    made: list[Any] = []
    names: dict[str, str] = {}
    for item in before:
        parts: list[Any] = []
        user = (said(item) or {})["role"] == "user"
        for block in blocks(item):
            kind = block.get("type")
            if kind == "tool_use":
                names[block["id"]] = block["name"]
                given = json.dumps(block["input"], ensure_ascii=False)
                parts.append(ToolCallPart(block["name"], given, tool_call_id=block["id"]))
            elif kind == "tool_result":
                call = block["tool_use_id"]
                told = text_of({"role": "user", "content": [block]})
                parts.append(ToolReturnPart(names.get(call, "tool"), told, tool_call_id=call))
            elif kind == "text":
                parts.append((UserPromptPart if user else TextPart)(block["text"]))
        if parts:
            made.append((ModelRequest if user else ModelResponse)(parts=parts))
    return made


def deepagents(before: Sequence[Message], size: int) -> str:
    """deepagents' summarization by a scripted model: its summary, and the newest messages that fit next to it."""
    made, counted = _langchain(before)
    with tempfile.TemporaryDirectory() as folder:
        return _largest(size, lambda keep: _summarized(made, keep, counted, folder))


def _summarized(made: list[Any], keep: int, counted: Callable[..., int], folder: str) -> str:
    fake = importlib.import_module("langchain_core.language_models.fake_chat_models")
    module = importlib.import_module("deepagents.middleware.summarization")
    backends = importlib.import_module("deepagents.backends")
    types = importlib.import_module("langchain.agents.middleware.types")
    model = fake.FakeListChatModel(responses=[SUMMARY])
    middleware = module.SummarizationMiddleware(
        model=model,
        backend=backends.FilesystemBackend(folder, virtual_mode=True),
        trigger=("tokens", 1),
        keep=("tokens", keep),
        token_counter=counted,
    )
    seen: list[Any] = []

    def handler(request: Any) -> Any:
        seen[:] = request.messages
        return types.ModelResponse(result=[])

    state = {"messages": made}
    request = types.ModelRequest(model=model, messages=made, state=state, system_message=None)
    middleware.wrap_model_call(request, handler)
    return "\n".join(message.text for message in seen)


PEERS: dict[str, Reducer] = {
    "langchain trim_messages": langchain,
    "pydantic-ai-harness sliding window": harness,
    "pydantic-ai-harness tiered": harness_tiered,
    "deepagents, scripted summary": deepagents,
}
ALL: dict[str, Reducer] = {**REDUCERS, **PEERS}

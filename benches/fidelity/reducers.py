"""Ways to bring a context down to a size, ours and the peers': each gives the text that would be left.

Sizes are exact counts of one public vocabulary (o200k_base), the same for all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from cuts import Message, blocks, said, text_of

from ullage.compaction.summary_repair import repair
from ullage.counting.exact import count_tokens_exact
from ullage.facts import Facts, collect
from ullage.memory.session.extractive_notes import merged
from ullage.memory.session.limits import cut_notes
from ullage.memory.session.template import DEFAULT_TEMPLATE
from ullage.memory.session.update import measure_of
from ullage.summarizers.extractive import MIN_TOKENS, render

Reducer = Callable[[Sequence[Message], int], str]


def count(text: str) -> int:
    return count_tokens_exact(text)


def extractive(before: Sequence[Message], size: int) -> str:
    """Our summarizer, its budget scaled until the text has the size."""
    facts = collect(before)
    low, high, best = MIN_TOKENS, size * 3, ""
    for _ in range(10):
        middle = (low + high) // 2
        text = render(facts, tokens=middle)
        if count(text) <= size:
            low, best = middle + 1, text
        else:
            high = middle - 1
    return best


def session_notes(before: Sequence[Message], size: int) -> str:
    """What a compaction by session notes sends: the notes made of copies, and the facts that they lack."""
    facts = collect(before)
    low, high, best = 300, size * 3, ""
    for _ in range(10):
        middle = (low + high) // 2
        text = _noted(facts, middle)
        if count(text) <= size:
            low, best = middle + 1, text
        else:
            high = middle - 1
    return best


def _noted(facts: Facts, tokens: int) -> str:
    # One section may have 2 000 tokens (`session_memory.section_max_tokens`): two thirds of the usual size here.
    limits = {
        "section_tokens": tokens * 2 // 3,
        "total_tokens": tokens,
        "measure": measure_of(None),
    }
    made = merged(DEFAULT_TEMPLATE, facts, generated={}, removed=(), **limits)
    text = cut_notes(made.text, **limits).text
    return text + "\n\n" + repair(facts, text, tokens=tokens // 4).text


def tail(before: Sequence[Message], size: int) -> str:
    """The newest text, cut to the size."""
    whole = "\n".join(map(text_of, before))
    low, high = 0, min(len(whole), size * 12)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(whole[-middle:]) <= size else (low, middle - 1)
    return whole[-low:] if low else ""


def langchain(before: Sequence[Message], size: int) -> str:
    """`trim_messages(strategy="last")`, whole messages, as its documentation counts them."""
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, trim_messages

    made: list[BaseMessage] = [
        (HumanMessage if (said(item) or {})["role"] == "user" else AIMessage)(text_of(item) or " ")
        for item in before
    ]
    sizes = {id(message): count(message.text) for message in made}
    kept = trim_messages(
        made,
        max_tokens=size,
        strategy="last",
        token_counter=lambda messages: sum(
            sizes.get(id(one)) or count(one.text) for one in messages
        ),
    )
    return "\n".join(message.text for message in kept)


def harness(before: Sequence[Message], size: int) -> str:
    """pydantic-ai-harness' `SlidingWindowCompaction`: the largest window whose text fits the size.

    It keeps whole messages and the first user message; if even the least is too large, its newest text is cut to the size.
    """
    made = _pydantic(before)
    low, high, best = 1, size, ""
    least = _window(made, 1)
    while low <= high:
        middle = (low + high) // 2
        text = _window(made, middle)
        if count(text) <= size:
            low, best = middle + 1, text
        else:
            high = middle - 1
    return best or tail([{"role": "user", "content": least}], size)


def _window(made: list[Any], keep: int) -> str:
    from pydantic_ai_harness.compaction import SlidingWindowCompaction, compact_now

    strategy = SlidingWindowCompaction(max_tokens=1, keep_tokens=keep, tokenizer=count)
    kept = asyncio.run(compact_now(strategy, made, model="test"))
    return "\n".join(_part_text(part) for message in kept for part in message.parts)


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


REDUCERS: dict[str, Reducer] = {
    "ullage, extractive": extractive,
    "ullage, session notes": session_notes,
    "plain tail": tail,
    "langchain trim_messages": langchain,
    "pydantic-ai-harness sliding window": harness,
}

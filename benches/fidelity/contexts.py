"""Ways to bring a context down to a size: ours, the trivial rules that nobody may lose to, and the peers.

Each gives the messages that are left. Sizes are exact counts of one public vocabulary (o200k_base) over what the messages say, the
same for all. No peer was made for an exact size: of each its own setting is searched for the largest context that fits.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benches.fidelity.cuts import Message, block_text, blocks, calls, said, text_of

from ullage import compact
from ullage.counting.exact import count_tokens_exact
from ullage.exceptions import ContextTooLarge
from ullage.facts import is_user_input

Shrink = Callable[[Sequence[Message], int], list[Message]]

MODEL = "claude-opus-4-5"
OURS = "ullage"
TRIES, FULL = 8, 0.97
"""Targets that are tried, and the share of the size from which on none is."""

SUMMARY = "The user works on a service; see the newest messages."
"""What the scripted model answers."""


def count(text: str) -> int:
    return count_tokens_exact(text)


def text_in(items: Iterable[Message]) -> str:
    """What a context shows the model."""
    return "\n".join(filter(None, map(text_of, items)))


def size_of(items: Iterable[Message]) -> int:
    return count(text_in(items))


def ours(before: Sequence[Message], size: int) -> list[Message]:
    """`compact` without a model; its target is in its own estimate of tokens and is searched for the size."""
    best: list[Message] = []
    target, most, low, high = size, 0, 0, 2 * size + 1
    for _ in range(TRIES):
        try:
            left = _compacted(before, target)
        except ContextTooLarge as error:
            if most or error.floor_tokens <= target:
                break
            target = error.floor_tokens  # in its own tokens, which for some scripts are more
            continue
        got = size_of(left)
        if most < got <= size:
            best, most = left, got
        low, high = (max(low, target), high) if got <= size else (low, min(high, target))
        if size * FULL <= got <= size or high - low <= 1:
            break
        target = target * size * 99 // (100 * max(got, 1))
        if not low < target < high:
            target = (low + high) // 2
    return best


def _compacted(before: Sequence[Message], target: int) -> list[Message]:
    # An agent at work is compacted by itself, a talk when somebody asks for it.
    trigger: Any = "auto" if calls(before, 1) else "manual"
    done = compact(
        list(before), model=MODEL, keep=0, overhead_tokens=0, target_tokens=target, trigger=trigger
    )
    return [item for item in done.messages if said(item)]


# ---- trivial rules -----------------------------------------------------------------------------


def newest(before: Sequence[Message], size: int) -> list[Message]:
    return _whole(before, _taken(before, _newest(before), text_of, size))


def newest_users(before: Sequence[Message], size: int) -> list[Message]:
    return _whole(before, _taken(before, reversed(_users(before)), text_of, size))


def longest_users(before: Sequence[Message], size: int) -> list[Message]:
    order = sorted(_users(before), key=lambda at: -len(text_of(before[at])))
    return _whole(before, _taken(before, order, text_of, size))


def first_and_last_users(before: Sequence[Message], size: int) -> list[Message]:
    """The first ones in 60 % of the room, the newest in what is left."""
    first = _taken(before, _users(before), text_of, size * 6 // 10)
    rest = [at for at in reversed(_users(before)) if at not in first]
    room = size - sum(count(text) + 1 for text in first.values())
    return _whole(before, first | _taken(before, rest, text_of, room))


def newest_prose(before: Sequence[Message], size: int) -> list[Message]:
    """What user and assistant say, without calls, results and what hosts add."""
    return _whole(before, _taken(before, _newest(before), _prose, size))


def newest_thoughts(before: Sequence[Message], size: int) -> list[Message]:
    """The same with what the assistant thought."""
    return _whole(before, _taken(before, _newest(before), _spoken_and_thought, size))


def _newest(before: Sequence[Message]) -> Sequence[int]:
    return range(len(before) - 1, -1, -1)


def _users(before: Sequence[Message]) -> list[int]:
    return [at for at, item in enumerate(before) if is_user_input(item)]


def _prose(item: Message) -> str:
    if (said(item) or {}).get("role") != "assistant" and not is_user_input(item):
        return ""
    return "\n".join(block_text(each) for each in blocks(item) if each.get("type") == "text")


def _spoken_and_thought(item: Message) -> str:
    thoughts = [block_text(each) for each in blocks(item) if each.get("type") == "thinking"]
    return "\n".join(filter(None, [*thoughts, _prose(item)]))


def _taken(
    before: Sequence[Message], order: Iterable[int], words: Callable[[Message], str], size: int
) -> dict[int, str]:
    """Texts in an order while they fit; of the first that does not its end."""
    kept: dict[int, str] = {}
    room = size
    for at in order:
        text = words(before[at])
        price = count(text) + 1  # a line break between it and the next
        if price > room:
            text, price = end_of(text, room - 1), room
        if text:
            kept[at] = text
            room -= price
        if room <= 1:
            break
    return kept


def _whole(before: Sequence[Message], kept: dict[int, str]) -> list[Message]:
    return [{"role": (said(before[at]) or {})["role"], "content": kept[at]} for at in sorted(kept)]


def end_of(text: str, size: int) -> str:
    """The longest end of a text that has the size."""
    low, high = 0, min(len(text), max(0, size) * 12)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[-middle:]) <= size else (low, middle - 1)
    return text[-low:] if low else ""


# ---- peers -------------------------------------------------------------------------------------


def langchain(before: Sequence[Message], size: int) -> list[Message]:
    """`trim_messages(strategy="last")`, whole messages, as its documentation counts them."""
    core: Any = importlib.import_module("langchain_core.messages")
    made, counted = _langchain(before)
    return _from_langchain(
        core.trim_messages(made, max_tokens=size, strategy="last", token_counter=counted), size
    )


def _langchain(before: Sequence[Message]) -> tuple[list[Any], Callable[[Sequence[Any]], int]]:
    """The messages, and a counter that knows their sizes."""
    core: Any = importlib.import_module("langchain_core.messages")
    made = [
        (core.HumanMessage if (said(item) or {})["role"] == "user" else core.AIMessage)(
            text_of(item) or " "
        )
        for item in before
    ]
    sizes = {message.text: count(message.text) + 1 for message in made}
    return made, lambda messages: sum(sizes.get(m.text) or count(m.text) + 1 for m in messages)


def _from_langchain(messages: Sequence[Any], size: int) -> list[Message]:
    roles = {"ai": "assistant"}
    left = [{"role": roles.get(m.type, "user"), "content": m.text} for m in messages]
    return left if size_of(left) <= size else newest(left, size)


def _largest(size: int, kept: Callable[[int], list[Message]]) -> list[Message]:
    """The largest context of a setting that fits; if even the least is too large, its newest text."""
    low, high, best = 1, size, []
    while low <= high:
        middle = (low + high) // 2
        left = kept(middle)
        if size_of(left) <= size:
            low, best = middle + 1, left
        else:
            high = middle - 1
    return best or newest(kept(1), size)


def harness(before: Sequence[Message], size: int) -> list[Message]:
    """pydantic-ai-harness' `SlidingWindowCompaction`, which keeps whole messages and the first one of the user."""
    return _by_harness(before, size, _window)


def harness_tiered(before: Sequence[Message], size: int) -> list[Message]:
    """Its `TieredCompaction`: all results but the newest three cleared, then the sliding window."""
    return _by_harness(before, size, _tiers)


def _by_harness(before: Sequence[Message], size: int, make: Callable[..., Any]) -> list[Message]:
    compaction: Any = importlib.import_module("pydantic_ai_harness.compaction")
    made, known = _pydantic(before), dict[str, int]()

    def counted(text: str) -> int:
        if text not in known:
            known[text] = count(text)
        return known[text]

    def kept(tokens: int) -> list[Message]:
        left = asyncio.run(compaction.compact_now(make(tokens, counted), made, model="test"))
        return [
            {
                "role": "assistant" if message.kind == "response" else "user",
                "content": "\n".join(map(_part_text, message.parts)),
            }
            for message in left
        ]

    return _largest(size, kept)


def _window(keep: int, counted: Callable[[str], int]) -> Any:
    compaction: Any = importlib.import_module("pydantic_ai_harness.compaction")
    return compaction.SlidingWindowCompaction(max_tokens=1, keep_tokens=keep, tokenizer=counted)


def _tiers(keep: int, counted: Callable[[str], int]) -> Any:
    compaction: Any = importlib.import_module("pydantic_ai_harness.compaction")
    clear = compaction.ClearToolResults(max_tokens=1, keep_pairs=3, tokenizer=counted)
    return compaction.TieredCompaction(
        tiers=[clear, _window(keep, counted)], target_tokens=keep, tokenizer=counted
    )


def _part_text(part: Any) -> str:
    given = getattr(part, "args", None)
    content = getattr(part, "content", "")
    return f"{part.tool_name} {given}" if given is not None else str(content)


def _pydantic(before: Sequence[Message]) -> list[Any]:
    ai: Any = importlib.import_module("pydantic_ai.messages")
    made: list[Any] = []
    names: dict[str, str] = {}
    for item in before:
        user = (said(item) or {})["role"] == "user"
        parts = [part for block in blocks(item) for part in _parts(ai, block, names, user)]
        if parts:
            made.append((ai.ModelRequest if user else ai.ModelResponse)(parts=parts))
    return made


def _parts(ai: Any, block: Message, names: dict[str, str], user: bool) -> list[Any]:
    kind = block.get("type")
    if kind == "tool_use":
        names[block["id"]] = block["name"]
        given = json.dumps(block["input"], ensure_ascii=False)
        return [ai.ToolCallPart(block["name"], given, tool_call_id=block["id"])]
    if kind == "tool_result":
        call = block["tool_use_id"]
        return [ai.ToolReturnPart(names.get(call, "tool"), block_text(block), tool_call_id=call)]
    return [(ai.UserPromptPart if user else ai.TextPart)(block["text"])] if kind == "text" else []


def deepagents(before: Sequence[Message], size: int) -> list[Message]:
    """deepagents' summarization by a scripted model: its summary, and the newest messages that fit next to it."""
    made, counted = _langchain(before)
    with tempfile.TemporaryDirectory() as folder:
        return _largest(
            size, lambda keep: _from_langchain(_summarized(made, keep, counted, folder), size * 99)
        )


def _summarized(made: list[Any], keep: int, counted: Callable[..., int], folder: str) -> list[Any]:
    fake: Any = importlib.import_module("langchain_core.language_models.fake_chat_models")
    module: Any = importlib.import_module("deepagents.middleware.summarization")
    backends: Any = importlib.import_module("deepagents.backends")
    types: Any = importlib.import_module("langchain.agents.middleware.types")
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
    return seen


TRIVIAL: dict[str, Shrink] = {
    "newest messages": newest,
    "newest user messages": newest_users,
    "longest user messages first": longest_users,
    "first 60 % and last 40 % of user messages": first_and_last_users,
    "all prose, newest first": newest_prose,
    "all prose and thoughts, newest first": newest_thoughts,
}
PEERS: dict[str, tuple[str, Shrink]] = {
    "langchain trim_messages": ("langchain_core", langchain),
    "pydantic-ai-harness, sliding window": ("pydantic_ai_harness", harness),
    "pydantic-ai-harness, tiered": ("pydantic_ai_harness", harness_tiered),
    "deepagents, scripted summary": ("deepagents", deepagents),
}
"""With the module that each needs."""


def contenders() -> dict[str, Shrink]:
    """All that can be run here."""
    here = {
        name: run
        for name, (needs, run) in PEERS.items()
        if importlib.util.find_spec(needs) is not None
    }
    return {OURS: ours, **TRIVIAL, **here}

"""Further libraries' ways to make a list of messages smaller, each at the settings that its documentation shows."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable
from typing import Any

from benches.peers.context import BUDGET, Contender, Messages, same, text_of

# ---- litellm ---------------------------------------------------------------------------------


def litellm_compress() -> Contender:
    """By relevance for the newest question (BM25), to its own share of the trigger (0.7); its tool reads back what a stub replaced."""
    litellm: Any = importlib.import_module("litellm")

    def run(messages: Messages) -> Messages:
        return list(
            litellm.compress(
                messages,
                model="gpt-4o",
                call_type="anthropic_messages",
                compression_trigger=BUDGET,
            )["messages"]
        )

    return Contender("litellm compress", "anthropic", same, run, same)


def litellm_clear() -> Contender:
    """What its gateway does for models without Anthropic's context editing."""
    module: Any = importlib.import_module(
        "litellm.llms.anthropic.pass_through.context_management.editors"
    )
    edit = {"trigger": {"type": "input_tokens", "value": BUDGET}}

    def run(messages: Messages) -> Messages:
        edited, _ = module.apply_clear_tool_uses_20250919(
            model="gpt-4o", messages=messages, tools=None, system=None, edit_spec=edit
        )
        return list(edited)

    return Contender("litellm clear_tool_uses", "anthropic", same, run, same)


# ---- Inspect ---------------------------------------------------------------------------------


def inspect(kind: str) -> Callable[[], Contender]:
    """A strategy, applied by Inspect's own handler: again and again until it is below the threshold."""

    def contender() -> Contender:
        models: Any = importlib.import_module("inspect_ai.model")
        model = models.get_model("mockllm/model", memoize=False)

        async def count(text: str) -> int:
            # As Inspect estimates where a model has no counter; the mock's own would fetch a vocabulary.
            return max(1, len(text) // 4)

        model.api.count_text_tokens = count

        def run(messages: Any) -> Any:
            strategy = getattr(models, kind)(threshold=BUDGET)
            handler = models.compaction(strategy, prefix=[], tools=[], model=model)
            return asyncio.run(handler.compact_input(messages))[0]

        return Contender(f"inspect {kind}", "openai_chat", _to_inspect, run, _from_inspect)

    return contender


def _to_inspect(chat: Messages) -> Any:
    models: Any = importlib.import_module("inspect_ai.model")
    call: Any = importlib.import_module("inspect_ai.tool").ToolCall
    made: list[Any] = []
    for message in chat:
        text = text_of(message.get("content"))
        if message["role"] == "tool":
            made.append(models.ChatMessageTool(content=text, tool_call_id=message["tool_call_id"]))
        elif message["role"] == "user":
            made.append(models.ChatMessageUser(content=text))
        else:
            calls = [
                call(id=each["id"], function=f["name"], arguments=json.loads(f["arguments"]))
                for each in message.get("tool_calls") or ()
                for f in [each["function"]]
            ]
            made.append(models.ChatMessageAssistant(content=text, tool_calls=calls or None))
    return made


def _from_inspect(messages: Any) -> Messages:
    found: Messages = []
    for message in messages:
        if message.role == "tool":
            found.append(
                {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
            )
            continue
        calls = [
            _call(each.id, each.function, each.arguments)
            for each in getattr(message, "tool_calls", None) or ()
        ]
        made: dict[str, Any] = {"role": message.role, "content": message.text or None}
        found.append({**made, "tool_calls": calls} if calls else made)
    return found


def _call(identity: str, name: str, given: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(given, ensure_ascii=False)}
    return {"id": identity, "type": "function", "function": function}


# ---- LlamaIndex, convopack -------------------------------------------------------------------


def llama_memory() -> Contender:
    """Its memory without blocks: of the limit, 70 % is for messages."""
    types: Any = importlib.import_module("llama_index.core.llms")
    memories: Any = importlib.import_module("llama_index.core.memory")

    def native(chat: Messages) -> Any:
        return [
            types.ChatMessage(
                role=message["role"],
                content=text_of(message.get("content")),
                additional_kwargs={
                    key: message[key] for key in ("tool_calls", "tool_call_id") if key in message
                },
            )
            for message in chat
        ]

    def run(messages: Any) -> Any:
        memory = memories.Memory.from_defaults(session_id="bench", token_limit=BUDGET)
        memory.put_messages(messages)
        return memory.get()

    def back(messages: Any) -> Messages:
        return [
            {"role": str(each.role.value), "content": each.content, **each.additional_kwargs}
            for each in messages
        ]

    return Contender("llama-index Memory", "openai_chat", native, run, back)


def convopack() -> Contender:
    """As in its first example, which pins the user's first message."""
    module: Any = importlib.import_module("convopack")
    public: Any = importlib.import_module("tiktoken_ext.openai_public")
    bench: Any = importlib.import_module("benches.python.bench_bpe")
    # The vocabulary of gpt-4o from a package, so that nothing is fetched.
    public.load_tiktoken_bpe = lambda *_, **__: bench.ranks("o200k_base")

    def run(messages: Messages) -> Messages:
        packer = module.Packer(
            budget=BUDGET,
            tokenizer="tiktoken:gpt-4o",
            strategy=module.Recency(),
            pin=["system", "first_user"],
        )
        return list(packer.pack_openai(messages))

    return Contender("convopack Recency", "openai_chat", same, run, same)


LIBRARIES: dict[str, Callable[[], Contender]] = {
    "inspect CompactionEdit": inspect("CompactionEdit"),
    "inspect CompactionTrim": inspect("CompactionTrim"),
    "llama-index Memory": llama_memory,
    "convopack Recency": convopack,
    "litellm clear_tool_uses": litellm_clear,
    "litellm compress": litellm_compress,
}
"""Next to `benches.peers.context.MAKERS` and `frameworks.MORE`."""

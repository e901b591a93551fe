"""A loop over tools as a user of litellm writes it, on a provider of its own; a list that is stored over restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import litellm

from tests.frameworks.hard_cases import Brain, Call, Heard, Reply, looked, question
from ullage.integrations.litellm import UllageLogger

LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


class Provider(litellm.CustomLLM):
    def __init__(self, brain: Brain) -> None:
        super().__init__()
        self.brain = brain

    def completion(self, *args: Any, **more: Any) -> Any:
        reply = self.brain.asked(heard(more["messages"]))
        choice = {"index": 0, "message": said(reply), "finish_reason": "stop"}
        usage = {"prompt_tokens": reply.usage, "completion_tokens": 5, "total_tokens": 5}
        return litellm.ModelResponse(choices=[choice], model="one", usage=usage)

    async def acompletion(self, *args: Any, **more: Any) -> Any:
        return self.completion(*args, **more)


def said(reply: Reply) -> dict[str, Any]:
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": "look", "arguments": json.dumps({"place": call.place})},
        }
        for call in reply.calls
    ]
    more = {"tool_calls": calls} if calls else {}
    return {"role": "assistant", "content": reply.text or None, **more}


def heard(messages: Any) -> Iterator[Heard]:
    for each in messages:
        message = each if isinstance(each, dict) else each.model_dump(exclude_none=True)
        text = str(message.get("content") or "")
        if message["role"] == "tool":
            yield Heard("user", text, results=((message["tool_call_id"], text),))
            continue
        calls = (
            Call(call["id"], json.loads(call["function"]["arguments"])["place"])
            for call in message.get("tool_calls") or ()
        )
        yield Heard(message["role"], text, tuple(calls))


async def play(brain: Brain, turns: int, limits: Any, path: Any) -> None:
    case, messages = brain.case, []
    before = litellm.callbacks, litellm.custom_provider_map
    litellm.custom_provider_map = [{"provider": "thinking", "custom_handler": Provider(brain)}]
    try:
        for turn in range(turns):
            if turn == 0 or (case.restarts and turn % 10 == 0):
                loggers = [] if limits is None else [UllageLogger(**limits)]
                litellm.callbacks = [] if case.approvals else loggers
                call = litellm.completion
                around = loggers[0].around(call) if loggers else call
                messages = json.loads(json.dumps(messages))
            messages.append({"role": "user", "content": question(turn)})
            while True:
                given = {"model": "thinking/one", "messages": messages, "tools": [LOOK]}
                answer = around(**given) if case.approvals else await litellm.acompletion(**given)
                message = answer.choices[0].message.model_dump(exclude_none=True)
                messages.append(message)
                if not message.get("tool_calls"):
                    break
                for each in message["tool_calls"]:
                    place = json.loads(each["function"]["arguments"])["place"]
                    result = {"role": "tool", "tool_call_id": each["id"], "content": looked(place)}
                    messages.append(result)
    finally:
        litellm.callbacks, litellm.custom_provider_map = before

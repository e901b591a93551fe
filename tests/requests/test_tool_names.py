"""Names of tools that OpenAI's forms refuse: mapped alike in calls and definitions, and back; unknown blocks as text."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ullage import outgoing
from ullage.providers import mistral, openai_chat, openai_responses

SHAPES = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "mistral": mistral,
}
ODD = st.sampled_from(
    ['Task" >\n<parameter name="x', "", "a" * 65, "näme", "a.b", "a b", "a_b", "ls", "x\ud83d"]
)


def talk(names: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"role": "user", "content": "q"}]
    for at, name in enumerate(names):
        call = {"type": "tool_use", "id": f"call_{at:04}", "name": name, "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"call_{at:04}", "content": "r"}
        found += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return found


def called(parts: Any) -> list[str]:
    chat = [
        c["function"]["name"] for m in parts.get("messages", ()) for c in m.get("tool_calls", ())
    ]
    items = [i["name"] for i in parts.get("input", ()) if i.get("type") == "function_call"]
    return [*chat, *items]


def defined(parts: Any) -> list[str]:
    return [tool.get("function", tool)["name"] for tool in parts["tools"]]


@settings(max_examples=60, deadline=None)
@given(st.lists(ODD, min_size=1, max_size=5), st.sampled_from(sorted(SHAPES)))
def test_names_are_mapped_alike_everywhere_and_back(names: list[str], provider: str) -> None:
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in dict.fromkeys(names)]
    shaped = SHAPES[provider].to_provider(talk(names), tools=tools)
    sent = called(shaped.parts)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in sent)
    assert [shaped.names.get(name, name) for name in sent] == names
    assert dict(zip(dict.fromkeys(names), defined(shaped.parts), strict=True)) == dict(
        zip(names, sent, strict=True)
    )
    assert len(set(sent)) == len(set(names))
    good = {name for name in names if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)}
    assert good <= set(sent)
    alone = SHAPES[provider].to_provider(talk(names[:1]), tools=tools[:1])
    assert called(alone.parts) == sent[:1]


@pytest.mark.parametrize("provider", [*SHAPES, "gemini", "bedrock"])
def test_an_unknown_block_is_sent_as_text(provider: str) -> None:
    block = {"type": "banana", "x": 1}
    done = outgoing([{"role": "user", "content": [block]}], provider=provider)
    told = json.dumps(done.messages)
    assert '"banana"' not in told
    assert '[banana] {\\"x\\":1}' in told
    assert [loss.what for loss in done.losses] == ["banana"]

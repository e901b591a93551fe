"""Results in the wrong place: matched by id from both sides; what none can take still says what it said."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ullage import outgoing
from ullage.legality.blocks import INTERRUPTED, ORPHANS
from ullage.legality.repairs import repair
from ullage.providers import bedrock, gemini, openai_chat, openai_responses

KEYS = {"openai_responses": "input", "gemini": "contents"}
WRITERS = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
    "bedrock": bedrock,
}


def call(*ids: str) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": one, "name": one, "input": {}} for one in ids]
    return {"role": "assistant", "content": blocks}


def result(name: str, text: str) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": name, "content": text}
    return {"role": "user", "content": [block]}


def mended(talk: list[dict[str, Any]], provider: str, **how: Any) -> str:
    if provider != "anthropic":
        shape = WRITERS[provider].to_provider(talk, tools=[])
        talk = shape.parts[KEYS.get(provider, "messages")]
        config = {"tools": [{"toolSpec": {"name": "a"}}]}
        how |= {"toolConfig": config} if provider == "bedrock" else {}
    done = repair(talk, provider=provider, **how)
    assert done.ok, done.left
    again = repair(done.messages, provider=provider, **how)
    assert again.messages is done.messages
    return json.dumps(done.messages)


Q = {"role": "user", "content": "q"}
EARLY = [Q, result("sf", "65 degrees"), result("tk", "72 degrees"), call("sf", "tk")]
TWICE = [Q, call("A"), result("A", "file one"), call("B"), result("A", "/home/user/x")]
STRAY = [Q, call("A"), result("Z", "what A said")]


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses", "bedrock"])
def test_results_before_their_calls_are_moved_after_them(provider: str) -> None:
    sent = mended(EARLY, provider)
    assert INTERRUPTED not in sent
    assert ORPHANS not in sent
    assert sent.index('"sf"') < sent.index("65 degrees") < sent.index("72 degrees")
    assert sent.index('"tk"') < sent.index("72 degrees")


@pytest.mark.parametrize("provider", ["anthropic", *WRITERS])
@pytest.mark.parametrize("talk", [TWICE, STRAY], ids=["twice", "stray"])
def test_the_text_of_a_displaced_result_stays_where_a_call_waits(
    talk: list[Any], provider: str
) -> None:
    sent = mended(talk, provider)
    assert talk[-1]["content"][0]["content"] in sent
    assert "/home/user/x" not in mended(TWICE, provider, orphans="drop")


def test_a_copy_of_a_result_is_dropped_without_a_word() -> None:
    talk = [Q, call("A"), result("A", "one"), result("A", "one"), {"role": "user", "content": "n"}]
    assert mended(talk, "anthropic").count("one") == 1


def test_results_whose_calls_were_cut_away_are_reported_in_one_line() -> None:
    sent = mended([result("Z", "old words"), result("Y", "more"), Q], "anthropic")
    assert sent.count(ORPHANS) == 1
    assert "old words" not in sent


@settings(max_examples=120, deadline=None)
@given(st.permutations(range(6)), st.booleans())
def test_no_result_of_a_known_call_is_lost_in_any_order(order: list[int], apart: bool) -> None:
    calls = [call("a"), call("b"), call("c")] if apart else [call("a", "b", "c")]
    results = [result(name, f"result of {name}") for name in "abc"]
    parts = [*calls, *([Q] * (3 - len(calls))), *results]
    talk = [Q, *(parts[at] for at in order)]
    done = repair(talk, model="claude-opus-4-6")
    assert done.ok
    sent = json.dumps(done.messages)
    assert INTERRUPTED not in sent
    assert all(sent.count(f"result of {name}") == 1 for name in "abc")
    assert not outgoing(talk, provider="openai_chat").left

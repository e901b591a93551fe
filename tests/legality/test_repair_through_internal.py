"""Forms that are repaired on the internal view keep what only they have: signatures, ids, bytes, cache points, unknown fields."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ullage.legality import validate
from ullage.legality.repairs import repair

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


def bedrock_talk() -> list[dict[str, Any]]:
    call = {"toolUse": {"toolUseId": "t1", "name": "look", "input": {}, "new": 1}, "beside": True}
    found = {
        "toolResult": {"toolUseId": "t1", "content": [{"json": {"a": [1]}}], "status": "success"}
    }
    image = {"image": {"format": "png", "source": {"bytes": PNG}}}
    sealed = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
    return [
        {"role": "user", "content": [{"text": "look"}, {"cachePoint": {"type": "default"}}, image]},
        {"role": "assistant", "content": [sealed, {"hologram": {"x": 1}}, call], "trace": "z"},
        {
            "role": "user",
            "content": [found, image, {"cachePoint": {"type": "default", "ttl": "1h"}}],
        },
        {"role": "assistant", "content": [{"text": "fine"}]},
        {"role": "user", "content": [{"text": "go on"}]},
    ]


def gemini_talk() -> list[dict[str, Any]]:
    call = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"}
    media = {
        "inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="},
        "videoMetadata": {"fps": 1},
    }
    return [
        {"parts": [{"text": "look"}, media]},
        {
            "role": "model",
            "parts": [{"text": "hm", "thought": True}, {"hologram": 1, "text": "x"}, call],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "look", "response": {"rows": [1]}}}],
        },
        {"role": "model", "parts": [{"text": "fine", "thoughtSignature": "Zm9v"}]},
        {"role": "user", "parts": [{"text": "go on"}]},
    ]


TALKS = {"bedrock": bedrock_talk, "gemini": gemini_talk}
AROUND = {"bedrock": {"tools": [{"toolSpec": {"name": "look"}}]}, "gemini": {}}


@pytest.mark.parametrize("provider", TALKS)
@pytest.mark.parametrize("without", range(5))
def test_what_is_not_broken_stays_the_same_object(provider: str, without: int) -> None:
    talk = TALKS[provider]()
    assert repair(talk, provider=provider, **AROUND[provider]).messages is talk
    broken = [item for at, item in enumerate(talk) if at != without]
    before = copy.deepcopy(broken)
    done = repair(broken, provider=provider, **AROUND[provider])
    assert done.ok
    assert broken == before
    assert validate(done.messages, provider=provider, **AROUND[provider]).ok
    assert repair(done.messages, provider=provider, **AROUND[provider]).messages is done.messages
    kept = sum(any(item is each for each in broken) for item in done.messages)
    # Two that become neighbours are joined, and the next one answers.
    assert kept >= len(broken) - 3


def test_a_touched_message_of_bedrock_keeps_its_bytes_and_what_is_new() -> None:
    first, call, found, *rest = bedrock_talk()
    found["content"].insert(1, {"text": "see"})
    moved = [first, call, {"role": "user", "content": found["content"][1:]}, *rest]
    moved.append({"role": "user", "content": [found["content"][0]]})
    done = repair(moved, provider="bedrock", **AROUND["bedrock"])
    assert done.ok
    assert done.messages[1] is call
    assert done.messages[2]["content"] == [*found["content"]]


def test_an_answer_without_an_id_stays_with_the_calls_just_before_it() -> None:
    ask = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"}
    said = {"functionResponse": {"name": "look", "response": {"output": "second"}}}
    talk = [
        {"role": "user", "parts": [{"text": "look twice"}]},
        {"role": "model", "parts": [ask]},
        {"role": "user", "parts": [{"text": "stop"}]},
        {"role": "model", "parts": [ask]},
        {"role": "user", "parts": [said]},
    ]
    done = repair(talk, provider="gemini")
    assert done.ok
    assert done.messages[3] is talk[3]
    assert done.messages[4] is talk[4]
    assert "interrupted" in str(done.messages[2])

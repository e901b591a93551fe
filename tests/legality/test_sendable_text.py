"""Text that cannot be sent, wherever it stands: lone surrogates, and blank text inside results."""

from __future__ import annotations

import copy
import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from ullage import ContextManager, outgoing, validate
from ullage.legality.check import is_valid, valid
from ullage.legality.incremental import Repairer
from ullage.legality.repairs import repair
from ullage.providers import SHAPES

pytestmark = pytest.mark.both_engines

ODD = st.sampled_from(["\ud83d", "a\udc00b", "\udfff\ud800", "x \ud83d\ud83d\ude00 y"])
TEXTS = st.one_of(ODD, st.sampled_from(["plain", "é \U0001f600"]))


@st.composite
def talks(draw: Any) -> list[dict[str, Any]]:
    """A legal talk with odd text in any place that holds text."""
    text = lambda: draw(TEXTS)  # noqa: E731
    return [
        {"role": "user", "content": text()},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": text()},
                {"type": "tool_use", "id": "t1", "name": "ls", "input": {"a": [{text(): text()}]}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": draw(st.one_of(TEXTS, TEXTS.map(lambda t: [as_text(t)]))),
                },
                as_text(text()),
            ],
        },
    ]


def as_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@settings(max_examples=80, deadline=None)
@given(talks(), st.sampled_from(SHAPES))
def test_what_goes_out_is_utf8_whatever_came_in(talk: list[Any], provider: str) -> None:
    before = copy.deepcopy(talk)
    sendable = is_valid(talk)
    report = validate(talk, model="claude-opus-4-6")
    assert report.ok == sendable
    assert {found.rule for found in report.errors} <= {"T01"}
    done = outgoing(talk, provider=provider)
    orjson.dumps(done.parts)  # raises for what an SDK cannot send
    assert done.left == ()
    assert ("T01" in {each.rule for each in done.repairs}) == (not sendable)
    assert talk == before


@settings(max_examples=40, deadline=None)
@given(talks())
def test_a_manager_and_a_repairer_repair_it_too(talk: list[Any]) -> None:
    manager, repairer = ContextManager(model="claude-opus-4-6"), Repairer(model="claude-opus-4-6")
    for message in talk:
        manager.add(message)
    sent = manager.prepare().messages
    assert sent == list(repair(talk, model="claude-opus-4-6").messages)
    assert sent == list(repairer.repair(talk).messages)
    assert is_valid(sent)
    if is_valid(talk):
        assert all(new is old for new, old in zip(sent, talk, strict=True))


@given(st.recursive(TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_only_what_cannot_be_sent_is_replaced(value: Any) -> None:
    made = valid(value)
    assert is_valid(made)
    assert (made is value) == is_valid(value)
    json.dumps(made, ensure_ascii=False).encode()


def test_two_halves_side_by_side_are_one_character() -> None:
    assert valid("a\ud83d\ude00b\ud83d") == "a\U0001f600b\ufffd"


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "gemini", "bedrock", "local"])
def test_system_and_tools_are_named_but_never_changed(provider: str) -> None:
    body = {"parts": [{"text": "q"}]} if provider == "gemini" else {"content": "q"}
    if provider == "bedrock":
        body = {"content": [{"text": "q"}]}
    talk = [{"role": "user", **body}]
    found = validate(talk, provider=provider, system="be \ud800")
    assert [(each.rule, each.message) for each in found.errors] == [("T01", -1)]
    assert repair(talk, provider=provider, system="be \ud800").messages is talk


BLANKS = st.sampled_from(["", " ", "\n\t", "\u00a0"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(BLANKS, st.just("said")), max_size=4), st.booleans(), st.booleans())
def test_blank_text_inside_a_result_is_refused_and_dropped(
    texts: list[str], search: bool, failed: bool
) -> None:
    content: list[Any] = [as_text(text) for text in texts]
    if search:
        source = {"type": "search_result", "source": "s", "title": "t", "content": content}
        content = [source]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": content, "is_error": failed}
    call = {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}
    talk: list[Any] = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    blank = any(not text.strip() for text in texts)
    report = validate(talk, model="claude-opus-4-6")
    assert [(found.rule, found.message, found.block) for found in report.errors] == (
        [("A02", 2, 0)] if blank else []
    )
    done = repair(talk, model="claude-opus-4-6")
    assert done.ok
    if not blank:
        assert done.messages is talk
        return
    kept = done.messages[2]["content"][0]["content"]
    kept = kept[0]["content"] if search else kept
    words = [block["text"] for block in kept]
    assert [text for text in texts if text.strip()] == [one for one in words if one == "said"]
    assert all(word.strip() for word in words)
    bedrock = outgoing(talk, provider="bedrock")
    assert not bedrock.left

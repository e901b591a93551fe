"""Functions on lists read every provider's format: named by `provider=`, or recognised; never a silent 0."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import ullage
from ullage import ContextManager, compact, estimate_tokens, keep_window, truncate_head
from ullage.counting import strip_media
from ullage.exceptions import InvalidMessage, InvalidPolicy
from ullage.legality import validate
from ullage.providers import provider_of
from ullage.requests import count_request, estimate_each, group_rounds

pytestmark = pytest.mark.both_engines

WORDS = "line of some text\n" * 200
PICTURE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
MODELS = {"openai_responses": "gpt-4o", "gemini": "gemini-2.5-pro", "bedrock": "claude-opus-4-5"}


def talk(turns: int = 12) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for at in range(turns):
        call = {"type": "tool_use", "id": f"call_{at}", "name": "ls", "input": {"at": at}}
        result = {"type": "tool_result", "tool_use_id": f"call_{at}", "content": WORDS}
        image = [{"type": "image", "source": PICTURE}] if at == 2 else []
        found += [
            {"role": "user", "content": [{"type": "text", "text": f"question {at}"}, *image]},
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [{"type": "text", "text": f"answer {at}"}]},
        ]
    return [*found, {"role": "user", "content": [{"type": "text", "text": "and now?"}]}]


def items_of(provider: str, turns: int = 12) -> list[Any]:
    parts = provider_of(provider).shape.to_provider(talk(turns)).parts
    found: list[Any] = parts[provider_of(provider).list_key]
    return found


FORMS = sorted(MODELS)
TOLD = [(name, {"provider": name}) for name in FORMS]
RECOGNISED = [("openai_responses", {}), ("gemini", {})]


@pytest.mark.parametrize(("provider", "how"), TOLD + RECOGNISED)
def test_an_estimate_is_near_that_of_the_same_talk_in_the_internal_view(
    provider: str, how: dict[str, str]
) -> None:
    items, model = items_of(provider), MODELS[provider]
    before = copy.deepcopy(items)
    expected = estimate_tokens(talk(), model=model)
    found = estimate_tokens(items, model=model, **how)
    assert abs(found - expected) < expected * 0.1
    each = estimate_each(items, model=model, **how)
    assert len(each) == len(items)
    assert sum(each) == found
    assert all(each)
    assert items == before


@pytest.mark.parametrize(("provider", "how"), TOLD + RECOGNISED)
def test_windows_rounds_and_heads_are_cut_between_items(provider: str, how: dict[str, str]) -> None:
    items, model = items_of(provider), MODELS[provider]
    kept = keep_window(items, min_tokens=2000, max_tokens=6000, model=model, **how)
    assert 0 < kept.start < len(items)
    assert kept.orphans == []
    assert all(a is b for a, b in zip(kept.messages, items[kept.start :], strict=True))
    assert kept.tokens == estimate_tokens(kept.messages, model=model, provider=provider)
    rounds = group_rounds(items, **how)
    assert [item for each in rounds for item in each] == items
    assert len(rounds) > 10
    cut = truncate_head(items, model=model, **how)
    assert cut.messages == items[cut.dropped :]
    assert 0 < cut.freed_tokens < estimate_tokens(items, model=model, provider=provider)
    stripped = strip_media(items, **how)
    assert "iVBORw0KGgo" not in json.dumps(stripped, default=repr)
    assert sum(a is b for a, b in zip(stripped, items, strict=True)) == len(items) - 1


@pytest.mark.parametrize(("provider", "how"), TOLD + RECOGNISED)
def test_a_compaction_gives_the_form_back_that_it_was_given(
    provider: str, how: dict[str, str]
) -> None:
    items, model = items_of(provider, 40), MODELS[provider]
    before = copy.deepcopy(items)
    result = compact(items, model=model, keep=4000, **how)
    assert result.compacted
    given = {id(item) for item in items}
    assert result.kept
    assert all(id(item) in given for item in result.kept)
    extra = {"toolConfig": {"tools": [{"toolSpec": {"name": "ls"}}]}}
    report = validate(
        list(result.messages),
        provider=provider,
        model=model,
        **(extra if provider == "bedrock" else {}),
    )
    assert report.ok, report.errors
    ids = [*result.report.kept, *result.report.removed]
    assert sorted(set(ids)) == list(range(len(items)))
    assert len(ids) == len(items)
    assert items == before


def test_what_the_engine_reads_is_not_translated() -> None:
    for provider in (None, "anthropic", "openai_chat", "mistral", "deepseek", "local"):
        assert estimate_tokens(talk(), provider=provider) == estimate_tokens(talk())


def test_a_list_of_nothing_but_outputs_counts_as_a_manager_counts_it() -> None:
    outputs = [
        {"type": "function_call_output", "call_id": f"c{at}", "output": WORDS} for at in range(40)
    ]
    calls = [
        {"type": "function_call", "call_id": f"c{at}", "name": "sh", "arguments": "{}"}
        for at in range(40)
    ]
    manager = ContextManager(model="gpt-4o", provider="openai_responses")
    pairs = [item for pair in zip(calls, outputs, strict=True) for item in pair]
    for item in pairs:
        manager.add(item)
    assert estimate_tokens(outputs, model="gpt-4o") > 20_000
    assert estimate_tokens(pairs, model="gpt-4o") == manager.usage().tokens


def test_an_unknown_provider_is_named() -> None:
    for function in (estimate_tokens, estimate_each, group_rounds, keep_window, truncate_head):
        with pytest.raises(InvalidPolicy, match="provider"):
            function([], provider="nobody")
    with pytest.raises(InvalidPolicy, match="provider"):
        strip_media([], provider="nobody")
    with pytest.raises(InvalidPolicy, match="provider"):
        ullage.compact([], provider="nobody")


@pytest.mark.parametrize("provider", [None, "gemini", "openai_responses"])
def test_no_messages_are_no_rounds(provider):
    assert group_rounds([], provider=provider) == []


def test_a_line_that_only_fills_a_request_is_a_round():
    items = [{"role": "user", "parts": [{"text": "[The conversation continues here.]"}]}]
    assert group_rounds(items) == [items]


def test_what_nobody_can_send_is_not_counted():
    message = {"role": "user", "content": "hi", "extra": {("a", 1): 2}}
    with pytest.raises(InvalidMessage, match="JSON"):
        count_request([message])

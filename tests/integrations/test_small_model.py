"""A real model on loopback: true answers, true counts, true overflows."""

from __future__ import annotations

import importlib.util

import pytest

from tests.small_model import SmallModel
from ullage.exceptions import InvalidPolicy, MissingExtra
from ullage.providers.errors import classify


def test_a_missing_package_is_named(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "xllamacpp" else real(name)
    )
    with pytest.raises(MissingExtra) as caught:
        SmallModel()
    assert caught.value.package == "xllamacpp"
    assert caught.value.hint.startswith("pip install xllamacpp")
    with pytest.raises(InvalidPolicy, match="window_tokens"):
        SmallModel(window_tokens=100_000)


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("xllamacpp")
    pytest.importorskip("anthropic")
    try:
        made = SmallModel(window_tokens=1024, max_output_tokens=16)
    except MissingExtra as error:
        pytest.skip(str(error))
    with made as running:
        yield running


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_it_answers_counts_and_overflows(model):
    import anthropic

    with anthropic.Anthropic(base_url=model.url, api_key="none", max_retries=0) as client:
        ask = {
            "model": "small",
            "max_tokens": 8,
            "messages": [{"role": "user", "content": "Say hello."}],
        }
        answer = client.messages.create(**ask)
        assert answer.content[0].text
        assert 0 < answer.usage.output_tokens <= 8
        counted = client.messages.count_tokens(model="small", messages=ask["messages"])
        assert counted.input_tokens == answer.usage.input_tokens
        with pytest.raises(anthropic.BadRequestError) as caught:
            client.messages.create(
                **{**ask, "messages": [{"role": "user", "content": "word " * 3000}]}
            )
    told = classify(caught.value)
    assert told.kind == "overflow_tokens"
    assert told.gap_tokens > 1500
    assert "127.0.0.1" in repr(model)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_it_takes_what_we_emit_and_raises_what_we_classify_through_both_sdks(model):
    """Compacted, repaired and translated: a true template, a true tokenizer, a true refusal."""
    openai = pytest.importorskip("openai")
    import anthropic

    from ullage.compaction import compact
    from ullage.legality.repairs import repair
    from ullage.providers import openai_chat

    call = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}}
    talk = [
        {"role": "user", "content": "Read the report. " + "It says a lot. " * 150},
        {"role": "assistant", "content": [{"type": "text", "text": "I have read it."}, call]},
        {"role": "user", "content": "and then?"},
    ]
    short = compact(talk, keep=0, window_tokens=4096)
    assert short.compacted
    legal = repair(list(short.messages)).messages
    chat = openai_chat.to_provider(legal, dialect="local").parts["messages"]
    assert repair(chat, provider="local").ok
    with (
        anthropic.Anthropic(base_url=model.url, api_key="none", max_retries=0) as claude,
        openai.OpenAI(base_url=model.openai_url, api_key="none", max_retries=0) as gpt,
    ):
        answer = claude.messages.create(model="small", max_tokens=4, messages=legal)
        assert answer.usage.output_tokens > 0
        made = gpt.chat.completions.create(model="small", max_tokens=4, messages=chat)
        assert made.choices[0].finish_reason in ("stop", "length")
        long = [{"role": "user", "content": "word " * 3000}]
        with pytest.raises(openai.BadRequestError) as caught:
            gpt.chat.completions.create(model="small", max_tokens=4, messages=long)
    told = classify(caught.value)
    assert told.kind == "overflow_tokens"
    assert told.limit_tokens == 1024

"""The scripted summarizer: each misbehaviour is what it says, in order, and requests are kept."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from ullage.exceptions import InvalidPolicy
from ullage.providers.errors import classify
from ullage.summarizers import Summarizer, SummaryRequest
from ullage.testing import ScriptedSummarizer, Step, conversation, scenario
from ullage.testing.script import (
    ANSWERS,
    HEADINGS,
    KINDS,
    OVERFLOW_TEXTS,
    TRANSPORT,
    Failure,
    Script,
    ScriptedAPIError,
    failure,
    overflow,
)

TALK = conversation(5, tokens=12_000)


def ask(*steps, **options):
    return ScriptedSummarizer(*steps, **options).summarize(TALK)


def test_a_good_answer_has_nine_sections_and_the_users_words():
    made = scenario(5, tokens=12_000)
    text = ask("good").text
    assert [heading for heading in HEADINGS if heading in text] == list(HEADINGS)
    assert text.index("<analysis>") < text.index("<summary>") < text.index("</summary>")
    for words in made.truth.user_messages:
        assert words[:200].replace("\n", " ") in text
    assert sum(path in text for path in made.truth.files_read) > 0
    assert len(text) < 20_000


def test_it_is_a_summarizer_and_a_function():
    writer = ScriptedSummarizer()
    assert isinstance(writer, Summarizer)
    request = SummaryRequest(messages=TALK, prompt="summarise")
    assert writer(request).text == writer.summarize(request).text
    assert asyncio.run(writer.asummarize(request)).text == writer(request).text
    assert writer.requests == [request] * 4
    assert writer.calls == 4
    assert "4 calls" in repr(writer)


def test_steps_are_used_in_order_then_it_is_good():
    writer = ScriptedSummarizer("empty", Step("overflow", times=2), Step("text", text="mine"))
    assert writer(TALK).text == ""
    for _ in range(2):
        with pytest.raises(ScriptedAPIError):
            writer(TALK)
    assert writer(TALK).text == "mine"
    assert "## 9. Optional Next Step" in writer(TALK).text


def test_zero_times_means_for_ever():
    writer = ScriptedSummarizer(Step("empty", times=0), "good")
    assert [writer(TALK).text for _ in range(5)] == [""] * 5
    assert ScriptedSummarizer(after="refusal")(TALK).refused


EXPECTED = {
    "empty": lambda reply: reply.text == "",
    "whitespace": lambda reply: reply.text and not reply.text.strip(),
    "cut_off": lambda reply: reply.finish_reason == "max_tokens" and "## 9." not in reply.text,
    "tool_call": lambda reply: reply.tool_calls == ("Read",) and reply.finish_reason == "tool_use",
    "refusal": lambda reply: reply.refused and "sorry" in reply.text,
    "refusal_text": lambda reply: not reply.refused and "sorry" in reply.text,
    "huge": lambda reply: len(reply.text) > sum(len(str(m["content"])) for m in TALK) * 0.8,
    "reasoning_only": lambda reply: reply.text == "" and reply.finish_reason == "end_turn",
    "wrong_language": lambda reply: "Użytkownik" in reply.text,
    "echo": lambda reply: "curl evil.example" in reply.text,
    "template_only": lambda reply: reply.text.count("[none]") == 9,
    "missing_sections": lambda reply: "## 3." in reply.text and "## 4." not in reply.text,
    "protocol_tokens": lambda reply: "<|im_start|>" in reply.text,
    "duplicates": lambda reply: reply.text.count("once more.") == 60,
    "window_stop": lambda reply: reply.finish_reason == "model_context_window_exceeded",
    "text": lambda reply: reply.text == "",
    "good": lambda reply: "## 9." in reply.text,
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers(kind):
    assert EXPECTED[kind](ask(kind))


@pytest.mark.parametrize(
    ("kind", "status", "found"),
    [
        ("overloaded", 529, "overloaded"),
        ("server_error", 500, None),
        ("rate_limit", 429, "rate_limit"),
        ("auth", 401, "auth"),
        ("binding", 400, "thinking_binding"),
    ],
)
def test_errors_look_like_the_sdks_and_are_classified(kind, status, found):
    with pytest.raises(ScriptedAPIError) as caught:
        ask(Step(kind, retry_after=7))
    assert caught.value.status_code == status
    assert caught.value.response.headers == {"retry-after": "7"}
    told = classify(caught.value)
    if found:
        assert told.kind == found
    if kind == "rate_limit":
        assert told.retry_after_seconds == 7


@pytest.mark.parametrize("provider", OVERFLOW_TEXTS)
def test_overflow_in_the_words_of_each_provider(provider):
    with pytest.raises(ScriptedAPIError) as caught:
        ask(Step("overflow", provider=provider, used=150_001, limit=131_072))
    told = classify(caught.value)
    assert told.kind == ("overflow_bytes" if provider == "anthropic_bytes" else "overflow_tokens")
    if provider == "anthropic":
        assert told.gap_tokens == 150_001 - 131_072


def test_the_wire_raises_or_waits():
    for kind in ("cut_stream", "drop", "html_413", "truncated_json", "wrong_type", "network_error"):
        with pytest.raises(ConnectionError, match=kind.split("_")[0]):
            ask(kind)
    for kind in ("hang", "stall"):
        with pytest.raises(TimeoutError):
            ask(Step(kind, seconds=0.01))
        with pytest.raises(TimeoutError):
            asyncio.run(ScriptedSummarizer(Step(kind, seconds=0.01)).asummarize(TALK))
    assert "## 9." in ask(Step("slow", seconds=0.01)).text


def test_a_hanging_call_can_be_released():
    writer = ScriptedSummarizer(Step("hang", seconds=60))
    threading.Timer(0.05, writer.release).start()
    began = time.monotonic()
    assert "## 9." in writer(TALK).text
    assert time.monotonic() - began < 30


def test_a_hanging_call_can_be_cancelled():
    async def cancel():
        writer = ScriptedSummarizer(Step("hang", seconds=60))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(writer.asummarize(TALK), 0.05)
        return writer.calls

    assert asyncio.run(cancel()) == 1


def test_scripts_are_data():
    script = Script([Step("hang", times=3), "good"])
    assert [step.kind for step in (script.next(), script.next())] == ["hang", "hang"]
    assert [(step.kind, step.times) for step in script.left] == [("hang", 1), ("good", 1)]
    script.push("refusal")
    assert repr(script) == "Script([hang, good, refusal], after=good)"
    assert set(TRANSPORT) < set(KINDS)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Step("nonsense"), "kind"),
        (lambda: Step(times=-1), "times"),
        (lambda: Step("overflow", provider="oracle"), "provider"),
        (lambda: overflow("oracle"), "provider"),
        (lambda: failure("nonsense"), "kind"),
    ],
    ids=range(5),
)
def test_wrong_scripts_are_named(make, field):
    with pytest.raises(InvalidPolicy) as caught:
        make()
    assert caught.value.field == field


def test_bodies_of_both_forms():
    made = Failure(400, "invalid_request_error", "no", code="x")
    assert made.body()["error"] == {
        "type": "invalid_request_error",
        "message": "no",
        "details": {"error_code": "x"},
    }
    assert made.body("openai") == {
        "error": {"type": "invalid_request_error", "message": "no", "param": None, "code": "x"}
    }
    assert overflow("llama_cpp", used=9, limit=4).body("openai")["error"]["n_ctx"] == 4

"""Every misbehaviour of the test kit through the official SDKs: a named outcome, nothing changed, work goes on."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from tests.kit.flows import Unhurried, UnhurriedAsync
from tests.oracle.legality import assert_legal
from tests.oracle.server import OracleServer
from ullage.compaction import Outcome
from ullage.compaction.api import job_of
from ullage.compaction.flow import compaction_flow
from ullage.effects import adrive, drive
from ullage.exceptions import CompactionError
from ullage.policy import Policy
from ullage.providers import openai_chat, openai_responses
from ullage.summarizers.anthropic import AnthropicSummarizer
from ullage.summarizers.openai import OpenAISummarizer
from ullage.testing import Step, scenario
from ullage.testing.script import KINDS

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

MADE = scenario(1, tokens=6_000)

GOOD = {"good", "slow"}
HARMLESS = {
    "wrong_language",  # Latin letters in another language: no check can tell, code adds the user's words
    "echo",  # the words of a tool's output in the summary, as text
    "duplicates",  # comes after the closing tag, and is cut off with it
}
NO_SUMMARY = {
    "text",
    "empty",
    "whitespace",
    "tool_call",
    "refusal",
    "refusal_text",
    "reasoning_only",
    "wrong_type",
}
INCOMPLETE = {
    "cut_off",
    "huge",
    "template_only",
    "missing_sections",
    "protocol_tokens",
    "truncated_json",
}
TOO_LONG = {"overflow", "html_413", "window_stop"}
API_ERROR = {
    "overloaded",
    "server_error",
    "rate_limit",
    "auth",
    "binding",
    "hang",
    "stall",
    "cut_stream",
    "drop",
    "network_error",
    "stream_error",
}

EXPECTED = {
    **dict.fromkeys(GOOD | HARMLESS, "compacted"),
    **dict.fromkeys(NO_SUMMARY, "no_summary"),
    **dict.fromkeys(INCOMPLETE, "incomplete_summary"),
    **dict.fromkeys(TOO_LONG, "prompt_too_long"),
    **dict.fromkeys(API_ERROR, "api_error"),
}
APIS = ("anthropic", "chat", "responses")

# Chat and Responses have no stop reason for a full window: it arrives as an answer without text. The Responses server
# measures a history by its messages alone, so that its huge answer is smaller than the calls and results that it replaces.
OTHERWISE = {
    ("window_stop", "chat"): "no_summary",
    ("window_stop", "responses"): "no_summary",
    ("huge", "responses"): "compacted",
}


def test_every_kind_of_the_test_kit_has_its_outcome():
    assert set(EXPECTED) == set(KINDS)


class Rig:
    """One server, one client of each SDK, and summarizers on them."""

    def __init__(self) -> None:
        self.server = OracleServer().start()
        where, key = self.server.url, {"api_key": "test", "max_retries": 2}
        self.claude = anthropic.Anthropic(base_url=where, **key)
        self.gpt = openai.OpenAI(base_url=self.server.openai_url, **key)

    def close(self) -> None:
        self.claude.close()
        self.gpt.close()
        self.server.stop()
        assert self.server.errors == []

    def writer(self, api: str, **clients: Any) -> Any:
        if api == "anthropic":
            return AnthropicSummarizer(MADE.model, **({"client": self.claude} | clients))
        own = {"client": self.gpt} | clients
        return OpenAISummarizer("gpt-5.2", api="responses" if api == "responses" else "chat", **own)

    def answered(self, api: str, messages: Any) -> None:
        """The conversation as it is now gets an answer from the API that enforces its rules."""
        self.server.script.push("good")
        if api == "anthropic":
            frame = {"system": MADE.system, "tools": list(MADE.tools)}
            self.claude.messages.create(
                model=MADE.model, max_tokens=9000, messages=list(messages), **frame
            )
        elif api == "chat":
            parts = openai_chat.to_provider(list(messages)).parts
            self.gpt.chat.completions.create(model="gpt-5.2", **parts)
        else:
            parts = openai_responses.to_provider(list(messages)).parts
            self.gpt.responses.create(model="gpt-5.2", store=False, **parts)


@pytest.fixture(scope="module")
def rig():
    made = Rig()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_steps_left(rig):
    rig.server.script = type(rig.server.script)()
    rig.server.requests.clear()


def patience(kind: str) -> int:
    """Seconds without a token: short only where one waits for it, as a busy machine is slow by itself."""
    return 1 if kind in ("hang", "stall") else 60


def job(
    writer: Any, *, retries: int, trigger: str = "manual", stall: int = 60, **options: Any
) -> Any:
    policy = Policy().change({"summary.stall_seconds": stall, "summary.retries": retries})
    given = {"summarizer": writer, "keep": 0, "policy": policy, "trigger": trigger}
    return job_of(copy.deepcopy(MADE.messages), **{**given, **options})


def step(kind: str, api: str, times: int = 0) -> Step:
    seconds = 0.1 if kind == "slow" else 1.5
    said = "anthropic" if api == "anthropic" else "openai"
    return Step(kind, times=times, seconds=seconds, provider=said)


def run(given: Any, seen: list[Any]) -> Any:
    return drive(compaction_flow(given), Unhurried([seen.append]))


async def arun(given: Any, seen: list[Any]) -> Any:
    return await adrive(compaction_flow(given), UnhurriedAsync([seen.append]))


def outcome(compact: Any) -> str:
    try:
        return compact().outcome.value
    except CompactionError as error:
        return error.code


def before_and_after(rig: Rig, api: str, given: Any, compact: Any, expected: str) -> None:
    before = copy.deepcopy(list(given.items))
    results = []
    assert outcome(lambda: results.append(compact()) or results[0]) == expected
    assert list(given.items) == before
    now = results[0].messages if results else given.items
    frame = {"system": MADE.system, "tools": list(MADE.tools)}
    assert_legal("anthropic", list(now), model=MADE.model, **frame)
    rig.server.script = type(rig.server.script)()
    rig.answered(api, now)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kind", KINDS)
def test_sync(rig, kind, api):
    rig.server.script.push(step(kind, api))
    given, seen = job(rig.writer(api), retries=0, stall=patience(kind)), []
    expected = OTHERWISE.get((kind, api), EXPECTED[kind])
    before_and_after(rig, api, given, lambda: run(given, seen), expected)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kind", KINDS)
def test_async(rig, kind, api):
    rig.server.script.push(step(kind, api))

    async def whole(given: Any) -> Any:
        options = {"api_key": "test"}
        if api == "anthropic":
            client = anthropic.AsyncAnthropic(base_url=rig.server.url, **options)
        else:
            client = openai.AsyncOpenAI(base_url=rig.server.openai_url, **options)
        async with client:
            object.__setattr__(
                given, "summarizer", rig.writer(api, client=None, async_client=client)
            )
            return await arun(given, [])

    given = job(None, retries=0, stall=patience(kind))
    expected = OTHERWISE.get((kind, api), EXPECTED[kind])
    before_and_after(rig, api, given, lambda: asyncio.run(whole(given)), expected)


RECOVERS = sorted(set(KINDS) - GOOD - HARMLESS - {"auth", "binding"})


@pytest.mark.parametrize("kind", RECOVERS)
def test_once_bad_then_good(rig, kind):
    rig.server.script.push(step(kind, "anthropic", times=1))
    given, seen = job(rig.writer("anthropic"), retries=1, stall=patience(kind)), []
    result = run(given, seen)
    assert result.report.attempts == 2
    assert [e.attempt for e in seen if type(e).__name__ == "CompactionRetried"] == [2]
    rig.answered("anthropic", result.messages)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kind", sorted(NO_SUMMARY | INCOMPLETE | TOO_LONG | API_ERROR))
def test_an_automatic_compaction_falls_back_to_the_one_without_a_model(rig, kind, api):
    if kind in ("hang", "stall") and api != "anthropic":
        pytest.skip("the same waiting for all")
    rig.server.script.push(step(kind, api))
    given = job(rig.writer(api), retries=0, trigger="auto", stall=patience(kind))
    seen: list[Any] = []
    result = run(given, seen)
    assert result.outcome is Outcome.COMPACTED
    if EXPECTED[kind] == OTHERWISE.get((kind, api), EXPECTED[kind]):
        assert result.report.summarizer == "extractive"
    rig.server.script = type(rig.server.script)()
    rig.answered(api, result.messages)


# ---- time ------------------------------------------------------------------------------------


def test_retry_after_is_respected(rig):
    rig.server.script.push(Step("rate_limit", retry_after=7))
    given, perform = job(rig.writer("anthropic"), retries=1), Unhurried()
    drive(compaction_flow(given), perform)
    assert perform.waits == [7.0]


def test_without_retry_after_the_pauses_grow(rig):
    rig.server.script.push(Step("overloaded", times=3))
    given, perform = job(rig.writer("chat"), retries=3), Unhurried()
    drive(compaction_flow(given), perform)
    assert perform.waits == [2.0, 8.0, 30.0]


def test_the_sdk_does_not_retry_on_its_own(rig):
    rig.server.script.push(Step("overloaded", times=0))
    for api in APIS:
        rig.server.requests.clear()
        assert outcome(lambda api=api: run(job(rig.writer(api), retries=1), [])) == "api_error"
        assert len(rig.server.requests) == 2


def test_a_stall_is_named(rig):
    rig.server.script.push(Step("stall", times=0, seconds=1.5))
    with pytest.raises(CompactionError, match=r"no token for 1 s"):
        run(job(rig.writer("anthropic"), retries=0, stall=1), [])


def test_a_deadline_is_named(rig):
    rig.server.script.push(Step("hang", times=0, seconds=1.5))
    policy = Policy().change({"summary.deadline_seconds": 1, "summary.retries": 0})
    with pytest.raises(CompactionError, match=r"no answer within 1 s"):
        run(job(rig.writer("anthropic"), retries=0, policy=policy), [])


@pytest.mark.parametrize("api", APIS)
def test_progress_is_reported_while_it_streams(rig, api):
    seen: list[Any] = []
    run(job(rig.writer(api), retries=0), seen)
    told = [event for event in seen if type(event).__name__ == "CompactionProgress"]
    assert len(told) >= 2
    assert [event.chars for event in told] == sorted({event.chars for event in told})
    kinds = [type(event).__name__ for event in seen]
    assert kinds.index("CompactionProgress") > kinds.index("CompactionStarted")
    assert kinds[-1] == "CompactionFinished"

"""A session too long for a real model's window, compacted end to end through that model's own refusals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.flows import Unhurried
from tests.oracle.legality import assert_legal
from tests.small_model import SmallModel
from ullage.compaction import compact
from ullage.compaction.api import job_of
from ullage.compaction.flow import compaction_flow
from ullage.effects import drive
from ullage.exceptions import CompactionError, MissingExtra
from ullage.policy import Policy
from ullage.summarizers.anthropic import AnthropicSummarizer
from ullage.summarizers.openai import OpenAISummarizer

WINDOW = 1_536
COMMIT = "4f9c2d1"
SAID = [
    "Make the importer in /srv/shop/importer.py read semicolons too.",
    "Keep the old behaviour behind --legacy-csv, and note ticket SHOP-4711.",
    "Run the tests with pytest -q tests/test_importer.py before you commit.",
    "Why does parse_row() drop the last column?",
    "Then update docs/importing.md as well.",
    "Good. What is left to do?",
]


def session() -> list[dict[str, Any]]:
    """Six requests with their work: about 2 500 tokens, more than the model's window."""
    messages: list[dict[str, Any]] = []
    for n, text in enumerate(SAID):
        given = {"file_path": f"/srv/shop/part{n}.py"}
        call = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": given}
        lines = "".join(f"{at}: total_{n} = price_{at} * rate\n" for at in range(24))
        done = {"type": "tool_result", "tool_use_id": f"t{n}", "content": lines}
        messages += [
            {"role": "user", "content": text},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [done]},
            {"role": "assistant", "content": [{"type": "text", "text": f"I read part {n}."}]},
        ]
    command = {"command": "git commit -m 'Read semicolons'"}
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": command}
    made = {
        "type": "tool_result",
        "tool_use_id": "c",
        "content": f"[main {COMMIT}] Read semicolons",
    }
    return [
        *messages,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [made]},
        {"role": "assistant", "content": [{"type": "text", "text": "Committed."}]},
        {"role": "user", "content": "Now bump the version."},
    ]


@pytest.fixture(scope="module")
def model():
    for package in ("xllamacpp", "anthropic", "openai"):
        pytest.importorskip(package)
    try:
        made = SmallModel(window_tokens=WINDOW)
    except MissingExtra as error:
        pytest.skip(str(error))
    with made as running:
        yield running


def writer(model: SmallModel, api: str, **limits: Any) -> Any:
    limits = {"max_output_tokens": 160, **limits}
    if api == "anthropic":
        return AnthropicSummarizer("small", base_url=model.url, **limits)
    return OpenAISummarizer("small", base_url=model.openai_url, **limits)


TEMPLATE = "Summarise what was done, in a few sentences."
POLICY = Policy().change(
    {
        "summary.retries": 0,
        "summary.stall_seconds": 500,  # a shared processor reads a prompt in seconds or in minutes
        "summary.deadline_seconds": 550,
    }
)


def told(model: SmallModel, api: str, **options: Any) -> tuple[Any, list[Any]]:
    events: list[Any] = []
    given = job_of(
        session(),
        **{"summarizer": writer(model, api), "keep": 0, "policy": POLICY, **options},
    )
    result = drive(compaction_flow(given), Unhurried([events.append]))
    return result, events


def assert_nothing_promised_is_lost(result: Any) -> None:
    text = "\n".join(str(message["content"]) for message in result.messages)
    for said in [*SAID, "Now bump the version."]:
        assert said in text
    for name in ("/srv/shop/part3.py", "SHOP-4711", COMMIT, "parse_row()", "docs/importing.md"):
        assert name in text
    assert result.report.tokens_after < result.report.tokens_before
    assert_legal("anthropic", list(result.messages))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("api", ["anthropic", "chat"])
def test_its_true_400s_shorten_the_history_until_it_fits(model, api):
    """With words of our own in place of the nine sections: the model's answer stands, whatever it is worth."""
    result, events = told(model, api, template=TEMPLATE)
    reasons = [event.reason for event in events if type(event).__name__ == "CompactionRetried"]
    assert reasons.count("overflow") >= 1
    assert result.report.dropped_messages > 0
    assert result.report.summarizer.endswith(":small")
    assert result.report.facts_appended["user_messages"] >= 5
    assert_nothing_promised_is_lost(result)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_its_bad_summaries_are_caught_and_code_writes_instead(model):
    result, events = told(model, "anthropic", trigger="auto")
    rejected = [event for event in events if type(event).__name__ == "CompactionSummaryRejected"]
    assert rejected
    assert set(rejected[0].problems) & {"cut", "no_text", "too_few_sections", "repetition"}
    assert result.report.summarizer == "extractive"
    assert_nothing_promised_is_lost(result)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_asked_for_by_hand_its_failure_is_named_and_changes_nothing(model):
    items = session()
    with pytest.raises(CompactionError) as caught:
        compact(items, summarizer=writer(model, "anthropic"), keep=0, policy=POLICY)
    assert caught.value.code in ("no_summary", "incomplete_summary", "prompt_too_long")
    assert items == session()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_known_window_is_never_refused(model):
    """In parts, each of which fits; where the model then rambles on to its limit, code writes."""
    known = writer(model, "anthropic", window_tokens=WINDOW)
    result, events = told(model, "anthropic", template=TEMPLATE, summarizer=known, trigger="auto")
    reasons = [event.reason for event in events if type(event).__name__ == "CompactionRetried"]
    assert "overflow" not in reasons
    assert {"part", "fallback"} & set(reasons)
    assert result.report.dropped_messages == 0
    assert_nothing_promised_is_lost(result)

"""Compaction of any conversation: legal stays legal, nothing is lost unsaid, hostile input never breaks it."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from tests.attack.hostile import hostile_conversations, hostile_entries
from tests.kit.strategies import entries, legal_conversations
from tests.oracle.legality import assert_legal
from ullage.compaction import compact
from ullage.exceptions import CompactionError, InvalidMessage
from ullage.facts import collect
from ullage.facts.sections import CLOSING, parse_sections
from ullage.facts.words import text_of
from ullage.legality.repairs import repair
from ullage.messages import message_of
from ullage.policy import Policy
from ullage.summarizers.budgeted_text import cost
from ullage.summarizers.extractive import render
from ullage.summarizers.users_words import is_low_content
from ullage.testing.generator import sign_thinking
from ullage.transcript.index import resume

few = settings(
    max_examples=int(os.environ.get("ULLAGE_EXAMPLES", "10")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

PADDING = [
    {"role": "user", "content": "Please read the long report first. " + "It says a lot. " * 400},
    {"role": "assistant", "content": [{"type": "text", "text": "I have read it all."}]},
]
"""Enough to be worth a summary; the conversations of the strategies are short."""

EVERY_SHARE = Policy().change({"summary.min_freed_percent": 0})
"""Compacts even where documents, which stay, are nearly all there is."""

keeps = st.sampled_from([0, 50, 300, 2_000])


def summary_of(result: Any) -> str:
    return text_of(result.summary_messages[0])


def assert_account(items: list[Any], result: Any) -> None:
    """Kept and removed are the whole context, each once; what is kept are the same objects."""
    report = result.report
    everything = [*report.removed, *report.kept]
    assert len(set(everything)) == len(everything)
    assert all(any(kept is item for item in items) for kept in result.kept)


def assert_newest_words(items: list[Any], result: Any) -> None:
    """The newest user input is verbatim after the summary, or among the kept messages."""
    inputs = collect(items).inputs
    if inputs:
        after = summary_of(result).rpartition(CLOSING)[2]
        kept = "\n".join(text_of(item) for item in result.kept)
        assert inputs[-1].text in after or inputs[-1].text in kept


def assert_sendable(provider: str, messages: list[Any], original: list[Any]) -> None:
    """Legal once the request is made: thinking that is bound to the old prefix and system messages go there."""
    done = repair(messages, provider=provider, original=original)
    assert_legal(provider, list(done.messages))


@few
@given(legal_conversations(), keeps)
def test_a_legal_conversation_stays_legal(messages, keep):
    items = [*PADDING, *messages]
    before = copy.deepcopy(items)
    result = compact(items, keep=keep)
    assert items == before
    assert_account(items, result)
    if result.compacted:
        assert_sendable("anthropic", list(result.messages), items)
        assert_newest_words(items, result)
        assert sorted(parse_sections(summary_of(result))) == list(range(1, 10))


SECOND_ROUND = [
    {"role": "user", "content": "x"},
    *(
        message
        for number in (1, 2)
        for message in (
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": f"c2ln{number}"},
                    {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "y"}
                ],
            },
        )
    ),
]


@pytest.mark.parametrize("keep", [0, 1, 60, 120])
@pytest.mark.parametrize("words", [[], [{"type": "text", "text": "x"}]])
def test_a_cut_inside_an_open_turn_leaves_a_turn_that_begins_after_the_summary(keep, words):
    """A model that does not bind its thinking to the prefix takes the rest of a turn as the turn."""
    messages = sign_thinking(
        [
            *SECOND_ROUND[:-1],
            {**SECOND_ROUND[-1], "content": [*SECOND_ROUND[-1]["content"], *words]},
        ],
        model="claude-sonnet-4-5",
    )
    items = [*PADDING, *messages]
    result = compact(items, keep=keep)
    assert result.compacted
    assert_sendable("anthropic", list(result.messages), items)


@few
@given(legal_conversations("openai_chat"), keeps)
def test_openai_messages_stay_legal(messages, keep):
    head = [m for m in messages if m["role"] in ("system", "developer")]
    items = [*head, *PADDING, *[m for m in messages if m not in head]]
    items[len(head) + 1] = {"role": "assistant", "content": "I have read it all."}
    result = compact(items, keep=keep)
    if result.compacted:
        assert_legal("openai_chat", list(result.messages))
        assert_newest_words(items, result)


@few
@given(legal_conversations(max_turns=3), st.integers(0, 30), st.sampled_from(["from", "up_to"]))
def test_partial_compactions_stay_legal(messages, at, direction):
    items = [*PADDING, *messages]
    result = compact(items, direction=direction, at=at % len(items))
    assert_account(items, result)
    if result.compacted:
        assert_sendable("anthropic", list(result.messages), items)


@few
@given(entries(max_turns=3), keeps)
def test_entries_resume_as_the_result_says(lines, keep):
    result = compact(lines, keep=keep)
    if result.compacted:
        again = resume([*lines, *result.new_entries])
        assert again.messages == resume(list(result.messages)).messages


@settings(few, max_examples=max(3, few.max_examples // 3))  # two long compactions each
@given(legal_conversations(max_turns=3), legal_conversations(max_turns=2))
@example([{"role": "user", "content": "ok"}], [{"role": "user", "content": "Never push to main."}])
def test_a_compaction_of_a_compaction_keeps_every_user_message(first, second):
    """Messages such as "ok" may give way to the long ones of `PADDING`; they are counted then."""
    items = [*PADDING, *first]
    once = compact(items, keep=0)
    if not once.compacted:
        return
    more = [*once.messages, *PADDING, *second]
    twice = compact(more, keep=0, policy=EVERY_SHARE)
    assert twice.compacted
    text = "\n".join([summary_of(twice), *(text_of(item) for item in twice.kept)])
    for entry in (*collect(items).inputs, *collect(second).inputs):
        if len(entry.text) < 100 and "\n" not in entry.text and entry.text not in text:
            assert is_low_content(entry.text)
            assert "left out for room" in text


class NothingToCompact(Exception):
    """The one failure by name that a list can cause."""


def compact_or_name(items, keep):
    try:
        return compact(items, keep=keep)
    except CompactionError as exc:
        if exc.code != "not_enough_messages":
            raise
        raise NothingToCompact from exc


@few
@given(hostile_conversations() | hostile_entries(), keeps)
def test_hostile_input_gives_a_result_or_a_named_error(items, keep):
    with suppress(NothingToCompact, InvalidMessage):
        assert compact_or_name(items, keep).outcome.value in ("compacted", "no_op")


@few
@given(legal_conversations(max_turns=4), st.sampled_from([200, 500, 1_500, 8_000]))
def test_the_summary_keeps_its_budget(messages, tokens):
    text = render(collect([*PADDING, *messages]), tokens=tokens)
    assert cost(text) <= tokens


@few
@given(legal_conversations(max_turns=3))
def test_no_line_is_invented(messages):
    """Every name in the summary stands in the conversation."""
    source = json.dumps([message_of(m) for m in messages], ensure_ascii=False)
    facts = collect(messages)
    for name in facts.names:
        assert name.text in source or name.text.replace("/", "\\/") in source
    for entry in facts.inputs:
        assert json.dumps(entry.text, ensure_ascii=False)[1:-1] in source


PROBE = """
import json, sys
from ullage.compaction import compact
from ullage.testing import conversation
result = compact(conversation(7), keep=300)
print(json.dumps([list(result.messages), result.boundary], sort_keys=True))
"""


@pytest.mark.slow
def test_every_process_gives_the_same_bytes():
    """Sets and hashes differ from process to process; the result may not."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROBE],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1

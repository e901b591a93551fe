"""Events of a compaction tell the truth, however it ends: one end for each beginning, sizes, tries, usage (HOOK-2)."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ullage import ContextManager
from ullage.compaction import acompact, compact
from ullage.compaction.cut import usage_of
from ullage.compaction.prefetch import Prewritten
from ullage.effects import Call, Emit, drive
from ullage.exceptions import CompactionError, LogConflict
from ullage.facts.sections import HEADINGS
from ullage.observe.events import (
    CompactionFinished,
    CompactionStarted,
    CompactionSummaryWritten,
    HookFinished,
    HookStarted,
    SummaryUsage,
)
from ullage.observe.hooks import Hooks
from ullage.policy import Policy
from ullage.summarizers import CallableSummarizer, ExtractiveSummarizer, SummaryReply
from ullage.testing import conversation

NINE_SECTIONS = "\n\n".join(
    f"## {n}. {title}\nSomething of {title.lower()}." for n, title in enumerate(HEADINGS, 1)
)
TALK = conversation(seed=3, tokens=12_000)
ONCE = Policy().change({"summary.retries": 0})
SPENT = {
    "input_tokens": 10,
    "cache_read_input_tokens": 900,
    "cache_creation_input_tokens": 80,
    "output_tokens": 7,
}


def answers(*given: Any) -> CallableSummarizer:
    left = list(given)

    def write(request):
        answer = left.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return SummaryReply(text=answer, finish_reason="stop", usage=SPENT)

    return CallableSummarizer(write, name="mine")


def only(events: list[Any], kind: type) -> Any:
    (found,) = [event for event in events if isinstance(event, kind)]
    return found


def ended(events: list[Any], **options: Any) -> CompactionFinished:
    compact(TALK, keep=0, listeners=[events.append], **options)
    return only(events, CompactionFinished)


def check_sizes(events: list[Any], *, changed: bool) -> None:
    begun, end = only(events, CompactionStarted), only(events, CompactionFinished)
    assert begun.tokens_before == end.tokens_before > 10_000
    assert (end.tokens_after < end.tokens_before) is changed
    assert changed or end.tokens_after == end.tokens_before


@pytest.mark.parametrize("trigger", ["manual", "auto"])
def test_a_failure_tells_size_tries_summarizer_and_usage(trigger):
    events: list[Any] = []
    writer = answers("too short", RuntimeError("503"), "again")
    policy = Policy().change({"summary.retries": 2})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ullage.compaction.summary_call.BACK_OFF_SECONDS", (0.0,))
        try:
            result = compact(
                TALK, keep=0, trigger=trigger, summarizer=writer, fallback=answers(ValueError("no")),
                policy=policy, listeners=[events.append],
            )  # fmt: skip
            assert result.report.attempts == 6
        except CompactionError:
            assert trigger == "manual"
    end = only(events, CompactionFinished)
    check_sizes(events, changed=False)
    assert (end.outcome, end.reason, end.trigger) == ("failed", "api_error", trigger)
    assert (end.summarizer, end.attempts) == ("mine", 6)
    assert end.usage == usage_of(SPENT) + usage_of(SPENT)
    assert end.usage.cache_read_tokens == 1800


def test_a_success_tells_all_tries_and_what_they_cost():
    events: list[Any] = []
    end = ended(events, summarizer=answers("short", NINE_SECTIONS))
    check_sizes(events, changed=True)
    assert (end.outcome, end.attempts, end.usage.calls) == ("compacted", 2, 2)
    written = only(events, CompactionSummaryWritten)
    assert (written.attempts, written.usage) == (2, end.usage)


def test_a_fallback_counts_too():
    events: list[Any] = []
    end = ended(
        events, summarizer=answers("short"), fallback=ExtractiveSummarizer(), policy=ONCE
    )  # fmt: skip
    assert (end.summarizer, end.attempts, end.usage.calls) == ("extractive", 2, 1)


def test_a_blocked_one_and_one_without_gain_have_their_size():
    events: list[Any] = []
    end = ended(events, hooks=Hooks(pre_compact=[lambda payload: False]))
    check_sizes(events, changed=False)
    assert (end.outcome, end.attempts) == ("blocked", 0)
    result = compact(TALK, keep=10**6, listeners=[events.append])
    assert (events[-1].outcome, events[-1].tokens_before) == ("no_op", result.report.tokens_before)


def test_an_abort_by_token_has_an_end():
    events: list[Any] = []
    cancel = threading.Event()

    def slow(request):
        cancel.set()
        threading.Event().wait(1)
        return NINE_SECTIONS

    with pytest.raises(CompactionError) as caught:
        compact(TALK, keep=0, summarizer=slow, cancel=cancel, listeners=[events.append])
    assert caught.value.code == "aborted"
    check_sizes(events, changed=False)
    end = only(events, CompactionFinished)
    assert (end.outcome, end.reason, end.summarizer, end.attempts) == ("aborted", "aborted", "slow", 1)  # fmt: skip


def test_an_abort_before_anything_began_has_both():
    events: list[Any] = []
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(CompactionError, match="cancelled"):
        compact(TALK, keep=0, cancel=cancel, listeners=[events.append])
    assert [type(event).__name__ for event in events] == ["CompactionStarted", "CompactionFinished"]


@pytest.mark.parametrize("where", ["summarizer", "hook"])
def test_an_abort_of_the_task_has_an_end(where):
    events: list[Any] = []

    async def late(_):
        await asyncio.sleep(30)

    given = {"hooks": Hooks(pre_compact=[late])} if where == "hook" else {"summarizer": late}

    async def main():
        task = asyncio.create_task(acompact(TALK, keep=0, listeners=[events.append], **given))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    check_sizes(events, changed=False)
    assert events[-1].outcome == "aborted"
    kinds = [type(event) for event in events]
    assert kinds.count(HookStarted) == kinds.count(HookFinished) == (where == "hook")


def test_an_interrupt_of_the_program_has_an_end():
    events: list[Any] = []

    class Interrupted(ExtractiveSummarizer):
        def summarize(self, request):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compact(TALK, keep=0, summarizer=Interrupted(), listeners=[events.append])
    assert only(events, CompactionFinished).outcome == "aborted"


@pytest.mark.parametrize("error", [LogConflict("changed"), OSError("disk"), ZeroDivisionError()])
def test_a_store_that_fails_has_an_end(error):
    events: list[Any] = []

    def store(draft, ids):
        raise error

    with pytest.raises(type(error)):
        compact(TALK, keep=0, store=store, listeners=[events.append])
    check_sizes(events, changed=False)
    assert only(events, CompactionFinished).outcome == "failed"


def test_only_telling_is_done_after_a_cancel():
    cancel, done = threading.Event(), []

    def flow():
        try:
            yield Emit("first")
        finally:
            yield Emit("last")
            done.append((yield Call(lambda: None)))

    cancel.set()
    told: list[Any] = []
    with pytest.raises(Exception, match="cancelled"):
        drive(flow(), told.append, cancel=cancel)
    assert told == [Emit("first"), Emit("last")]
    assert done == []


# ---- usage -------------------------------------------------------------------------------------


def told_again(usage: SummaryUsage) -> Any:
    return Prewritten("writer", "All done.", (), usage=usage).summarize(None).usage


@pytest.mark.parametrize(
    ("told", "figures"),
    [
        (SPENT, (10, 900, 80, 7)),
        ({"prompt_tokens": 990, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 900}}, (90, 900, 0, 7)),
        ({"input_tokens": 990, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 900}}, (90, 900, 0, 7)),
        ({"input_tokens": 12, "cache_read_input_tokens": 40, "prompt_tokens_details": {"cached_tokens": 40}}, (12, 40, 0, 0)),
        ({"prompt_tokens": 50, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 15}, (5, 30, 15, 0)),
        ({"prompt_tokens": 50, "input_tokens": 2, "prompt_tokens_details": None}, (50, 0, 0, 0)),
        ({"input_tokens": -1, "output_tokens": None, "cache_read_input_tokens": True}, (0, 0, 0, 0)),
    ],
)  # fmt: skip
def test_usage_in_anyones_words(told, figures):
    found = usage_of(told)
    assert (found.input_tokens, found.cache_read_tokens, found.cache_write_tokens, found.output_tokens) == figures  # fmt: skip
    assert usage_of(told_again(found)) == found


# ---- recompaction ------------------------------------------------------------------------------


def test_a_first_compaction_is_reported_as_one():
    events: list[Any] = []
    compact(TALK, keep=0, model="claude-opus-4-5", listeners=[events.append])
    begun = only(events, CompactionStarted)
    assert (begun.recompaction, begun.turns_since, begun.previous_turn_id) == (False, None, "")
    assert begun.threshold_tokens > 100_000
    assert begun.source == "main"


def test_a_manager_tells_turns_since_and_where_that_was():
    events: list[Any] = []
    one = ContextManager(model="claude-opus-4-5", listeners=[events.append], source="sdk")
    for message in TALK:
        one.add(message)
    one.compact()
    for n in range(3):
        one.add({"role": "user", "content": f"And {n}? " + "word " * 1500})
        one.observe({"role": "assistant", "content": f"Yes {n}. " + "word " * 1500})
    one.add({"role": "user", "content": "Go on"})
    one.compact()
    first, second = [event for event in events if isinstance(event, CompactionStarted)]
    turns = int(second.previous_turn_id)
    assert (first.recompaction, first.turns_since) == (False, None)
    assert (second.recompaction, second.turns_since) == (True, 3)
    assert turns == one.machine.tracking.turns - 3
    assert first.source == second.source == "sdk"
    assert first.threshold_tokens == one.machine.window.threshold


def test_a_log_tells_them_too(tmp_path):
    from ullage import TranscriptLog

    events: list[Any] = []
    with TranscriptLog.open(tmp_path / "s.jsonl") as log:
        log.extend(TALK)
        compact(items_of(log), keep=0, log=log)
        boundary = len(items_of(log))
        for n in range(2):
            log.extend([{"role": "user", "content": f"{n} " + "word " * 2000}, {"role": "assistant", "content": "Yes " + "word " * 2000}])  # fmt: skip
        log.extend([{"role": "user", "content": "Go on"}])
        items = items_of(log)
        compact(items, keep=0, log=log, listeners=[events.append])
    begun = only(events, CompactionStarted)
    assert (begun.recompaction, begun.turns_since) == (True, 2)
    assert begun.previous_turn_id in {item.get("uuid") for item in items[:boundary]}


def test_nothing_spent_is_nothing_reported():
    assert told_again(SummaryUsage()) is None
    assert not any(vars_of(SummaryUsage()))


def vars_of(usage: SummaryUsage) -> list[int]:
    return [getattr(usage, name) for name in SummaryUsage.__dataclass_fields__]


def items_of(log: Any) -> list[Any]:
    return [json.loads(line) for line in Path(log.path).read_text().splitlines()]

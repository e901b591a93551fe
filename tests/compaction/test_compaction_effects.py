"""The flow by hand: the order of its effects, and that stopping it anywhere leaves everything as it was (POST-4)."""

from __future__ import annotations

import asyncio
import copy
import threading
from typing import Any

import pytest

from ullage.compaction import Job, Outcome, Providers, acompact, compact, compaction_flow
from ullage.compaction.effects_runner import Performer
from ullage.effects import Call, Cancelled, Emit, RunHook, Summarize, drive
from ullage.exceptions import CompactionError, LogConflict
from ullage.facts.sections import HEADINGS
from ullage.observe.hooks import CallableHook, Hooks, ShellHook
from ullage.summarizers import CallableSummarizer

NINE = "\n\n".join(
    f"## {n}. {title}\nSomething of {title.lower()}." for n, title in enumerate(HEADINGS, 1)
)


def conversation(turns: int = 8) -> list[dict]:
    messages: list[dict] = []
    for n in range(turns):
        call = {
            "type": "tool_use",
            "id": f"t{n}",
            "name": "Read",
            "input": {"file_path": f"/w/f{n}.py"},
        }
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"line {n}\n" * 400}
        messages += [
            {"role": "user", "content": f"Look at file {n}"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [{"type": "text", "text": f"File {n} is fine."}]},
        ]
    return messages


def job(log: list[str], items: list[dict] | None = None, **options: Any) -> Job:
    def note(name: str, answer: Any = None):
        return lambda *args: log.append(name) or answer

    hooks = Hooks(
        pre_compact=CallableHook(note("pre")),
        session_start=CallableHook(note("start", "welcome back")),
        post_compact=CallableHook(note("post")),
    )
    providers = Providers(
        read_file=lambda path: log.append(f"read {path}") or f"text of {path}",
        plan=note("plan", ("/w/plan.md", "first, then")),
        clean_up=(note("clean up"),),
    )
    given: dict[str, Any] = {
        "items": conversation() if items is None else items,
        "keep": 0,
        "hooks": hooks,
        "providers": providers,
        "summarizer": CallableSummarizer(lambda request: log.append("summary") or NINE),
        "store": lambda draft, ids: log.append("store") or draft,
    }
    return Job(**{**given, **options})


def run(log: list[str], **options: Any):
    given = job(log, **options)
    return drive(compaction_flow(given), Performer())


def test_the_order_of_what_happens():
    log: list[str] = []
    result = run(log)
    reads = [f"read /w/f{n}.py" for n in (7, 6, 5, 4, 3)]
    assert log == ["pre", "summary", *reads, "plan", "start", "store", "clean up", "post"]
    assert result.outcome is Outcome.COMPACTED


def test_the_order_of_the_new_context():
    result = run([])
    assert result.messages == (
        *result.summary_messages,
        *result.kept,
        *result.attachments,
        *result.hook_results,
    )
    assert "text of /w/f7.py" in result.attachments[0]["content"]
    assert "first, then" in result.attachments[5]["content"]
    assert "welcome back" in result.hook_results[0]["content"]


def effects(given: Job) -> list[Any]:
    """All effects of a flow, performed."""
    seen = []
    perform = Performer()

    def remember(effect: Any) -> Any:
        seen.append(effect)
        return perform(effect)

    drive(compaction_flow(given), remember)
    return seen


def stop_at(given: Job, place: int, error: BaseException) -> Any:
    """The flow's end when the effect at a place raises instead of happening."""
    perform, at = Performer(), -1

    def stopping(effect: Any) -> Any:
        nonlocal at
        at += 1
        if at == place:
            raise error
        return perform(effect)

    return drive(compaction_flow(given), stopping)


def test_cancelled_at_every_effect_nothing_has_changed_or_all_is_done():
    log: list[str] = []
    items = conversation()
    before = copy.deepcopy(items)
    given = job(log, items)
    performed = effects(given)
    assert {Emit, RunHook, Summarize, Call} == set(map(type, performed))
    stored = [getattr(effect, "function", None) for effect in performed].index(given.store)
    for place in range(len(performed)):
        log.clear()
        if place <= stored:
            with pytest.raises(CompactionError) as caught:
                stop_at(given, place, Cancelled("stop"))
            assert caught.value.code == "aborted"
            assert "store" not in log
        else:
            assert stop_at(given, place, Cancelled("stop")).outcome is Outcome.COMPACTED
            assert "store" in log
    assert items == before


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_closes_the_flow(kind):
    log: list[str] = []
    with pytest.raises(kind):
        stop_at(job(log), 3, kind())
    assert "store" not in log


def test_a_failing_hook_performer_is_a_failed_hook():
    given = job([])
    place = [type(effect) for effect in effects(given)].index(RunHook)
    assert stop_at(given, place, RuntimeError("x")).outcome is Outcome.COMPACTED


def test_a_conflict_is_raised_and_nothing_follows():
    log: list[str] = []

    def conflict(draft, ids):
        raise LogConflict("the log moved on")

    with pytest.raises(LogConflict):
        run(log, store=conflict)
    assert "post" not in log
    assert "clean up" not in log


def test_a_provider_that_fails_is_a_warning():
    def broken():
        raise OSError("gone")

    providers = Providers(plan=broken, read_file=lambda path: 1 / 0, clean_up=(broken,))
    result = run([], providers=providers)
    assert result.outcome is Outcome.COMPACTED
    assert "provider_failed:plan" in result.report.warnings
    assert "clean_up_failed:OSError" in result.report.warnings
    assert result.attachments == ()


# ---- hooks in the flow -----------------------------------------------------------------------


def test_a_hook_can_block():
    log: list[str] = []
    hook = CallableHook(lambda payload: {"decision": "block", "reason": "not now"})
    items = conversation()
    result = run(log, items=items, hooks=Hooks(pre_compact=hook))
    assert (result.outcome, result.reason) == (Outcome.BLOCKED, "hook")
    assert "not now" in result.user_notice
    assert result.messages == tuple(items)
    assert log == []


@pytest.mark.parametrize(
    "hook",
    [
        CallableHook(lambda payload: 1 / 0),
        CallableHook(lambda payload: threading.Event().wait(1), timeout_seconds=0.05),
        CallableHook(lambda payload: object()),
        ShellHook("exit 9"),
        ShellHook("head -c 3000 /dev/urandom; exit 1"),
        ShellHook("sleep 20", timeout_seconds=0.2),
    ],
    ids=["raises", "hangs", "garbage", "exit", "noise", "sleeps"],
)
def test_a_broken_hook_stops_nothing(hook):
    hooks = Hooks(pre_compact=hook, session_start=hook, post_compact=hook)
    result = run([], hooks=hooks)
    assert result.outcome is Outcome.COMPACTED
    assert result.hook_results == ()
    assert any(warning.startswith("hook_") for warning in result.report.warnings)


def test_hooks_get_what_the_protocol_says():
    told: list[dict] = []
    hook = CallableHook(told.append)
    hooks = Hooks(pre_compact=hook, session_start=hook, post_compact=hook)
    compact(
        conversation(),
        keep=0,
        hooks=hooks,
        instructions="mind it",
        session_id="s",
        cwd="/w",
        transcript_path="/t.jsonl",
    )
    common = {"session_id": "s", "transcript_path": "/t.jsonl", "cwd": "/w"}
    pre, start, post = told
    assert pre == {
        **common,
        "hook_event_name": "PreCompact",
        "trigger": "manual",
        "custom_instructions": "mind it",
    }
    assert start == {**common, "hook_event_name": "SessionStart", "source": "compact"}
    assert post["hook_event_name"] == "PostCompact"
    assert "Look at file 3" in post["compact_summary"]


def test_a_matcher_chooses():
    told: list[dict] = []
    hooks = {
        "pre_compact": [
            CallableHook(told.append, matcher="auto"),
            CallableHook(told.append, matcher="manual"),
        ],
        "session_start": [CallableHook(told.append, matcher="startup")],
    }
    compact(conversation(), keep=0, hooks=hooks)
    assert [payload["hook_event_name"] for payload in told] == ["PreCompact"]


# ---- cancel from outside, listeners ----------------------------------------------------------


def test_a_cancel_token_stops_before_the_next_effect():
    stop = threading.Event()

    def writer(request):
        stop.set()
        return NINE

    with pytest.raises(CompactionError) as caught:
        compact(conversation(), keep=0, summarizer=writer, cancel=stop, trigger="auto")
    assert caught.value.code == "aborted"


def test_a_cancelled_task_changes_nothing():
    stored: list[Any] = []

    async def writer(request):
        await asyncio.sleep(30)
        return NINE

    async def main():
        store = lambda draft, ids: stored.append(draft)  # noqa: E731
        task = asyncio.create_task(acompact(conversation(), keep=0, summarizer=writer, store=store))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert stored == []


def test_a_listener_that_raises_is_not_heard():
    events: list[Any] = []

    def broken(event):
        raise RuntimeError("no")

    result = compact(conversation(), keep=0, listeners=[broken, events.append])
    assert result.compacted
    names = [type(event).__name__ for event in events]
    assert names == [
        "CompactionStarted",
        "CompactionSummaryWritten",
        "CacheReset",
        "CompactionFinished",
    ]
    assert events[-1].tokens_after == result.report.tokens_after


def test_a_deadline_is_kept():
    from ullage.policy import Policy

    policy = Policy().change({"summary.deadline_seconds": 1, "summary.retries": 0})
    with pytest.raises(CompactionError) as caught:
        compact(
            conversation(), keep=0, policy=policy, summarizer=lambda r: threading.Event().wait(5)
        )
    assert caught.value.code == "api_error"
    assert "no answer within 1" in str(caught.value)

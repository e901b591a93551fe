"""All or nothing (P-6): messages that come meanwhile, two compactions at once, cancels, broken hooks, a real log."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest

from tests.kit.flows import Unhurried, UnhurriedAsync
from tests.oracle.legality import assert_legal
from ullage.compaction import Outcome, Providers, acompact, compact
from ullage.compaction.api import job_of
from ullage.compaction.flow import compaction_flow
from ullage.effects import Call, Cancelled, Emit, Wait, adrive, drive
from ullage.exceptions import CompactionError, LogConflict
from ullage.facts.sections import HEADINGS
from ullage.manager import ContextManager
from ullage.observe.hooks import CallableHook, Hooks, ShellHook
from ullage.policy import Policy
from ullage.testing import ScriptedSummarizer, Step
from ullage.transcript import TranscriptLog, resume

NINE = "\n\n".join(
    f"## {n}. {title}\nSomething of {title.lower()}." for n, title in enumerate(HEADINGS, 1)
)
LATER = {"role": "user", "content": "One more thing."}
BOTH = pytest.mark.parametrize("form", ["sync", "async"])


def turns(count: int = 6) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for n in range(count):
        given = {"file_path": f"/w/f{n}.py"}
        call = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": given}
        done = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"line {n}\n" * 300}
        said = {"type": "text", "text": f"File {n} is fine."}
        messages += [
            {"role": "user", "content": f"Look at file {n}"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [done]},
            {"role": "assistant", "content": [said]},
        ]
    return messages


@pytest.fixture
def log(tmp_path):
    with TranscriptLog.open(tmp_path / "s.jsonl", envelope={"sessionId": "s"}) as log:
        log.extend(turns())
        yield log


def seen_by(log: TranscriptLog) -> list[Any]:
    return log.resume().messages


def legal(messages: Any) -> None:
    """Legal once the next user message is there: a conversation may end with the assistant's answer."""
    assert_legal("anthropic", [*messages, {"role": "user", "content": "go on"}])


def words(messages: Any) -> str:
    return str([message["content"] for message in messages])


def run(form: str, items: Any, *, cancel: Any = None, **options: Any) -> Any:
    """One compaction, by either driver."""
    if form == "sync":
        return compact(items, keep=0, cancel=cancel, **options)
    return asyncio.run(acompact(items, keep=0, cancel=cancel, **options))


def test_a_standing_text_of_the_host_outlives_two_compactions_of_an_open_log(tmp_path):
    host = "<system-reminder>\n# claudeMd\nContents of /x/CLAUDE.md (project instructions):\n\nAlways use tabs.\n</system-reminder>"
    with TranscriptLog.open(tmp_path / "s.jsonl", envelope={"sessionId": "s"}) as log:
        log.extend([{"role": "user", "content": host}, *turns()])
        for _ in range(2):
            compact(log.resume().entries, keep=0, log=log)
            standing, summary = log.resume().entries
            assert standing["message"]["content"] == host
            assert (standing.get("isCompactSummary"), summary["isCompactSummary"]) == (None, True)
            assert "Always use tabs." in words(seen_by(log))
            log.extend(turns(8)[-4:])


# ---- appended meanwhile ----------------------------------------------------------------------


@BOTH
def test_what_is_appended_while_a_summary_is_written_follows_it(form, log):
    def writer(request: Any) -> str:
        log.append(LATER)
        return NINE

    result = run(form, log.resume().entries, summarizer=writer, log=log)
    assert result.compacted
    assert seen_by(log)[-1]["content"][-1]["text"] == "One more thing."
    assert resume(result.messages).messages == seen_by(log)
    assert "Look at file 3" in words(seen_by(log))
    legal(seen_by(log))
    kept, removed = set(result.report.kept), set(result.report.removed)
    assert not kept & removed
    assert len(kept) + len(removed) == len(turns()) + 1


@BOTH
@pytest.mark.parametrize("place", ["hook", "file", "start"])
def test_wherever_it_is_appended(form, place, log):
    def append(answer: Any = None) -> Any:
        return lambda *args: log.append(LATER) and answer

    hooks = Hooks(
        pre_compact=CallableHook(append()) if place == "hook" else (),
        session_start=CallableHook(append("hello")) if place == "start" else (),
    )
    providers = Providers(plan=append(("/w/plan.md", "first")) if place == "file" else None)
    result = run(form, log.resume().entries, log=log, hooks=hooks, providers=providers)
    assert result.compacted
    assert words(seen_by(log)).count("One more thing.") == 1
    legal(seen_by(log))


def test_a_kept_beginning_cannot_take_what_came_later(log):
    def writer(request: Any) -> str:
        log.append(LATER)
        return NINE

    entries, before = log.resume().entries, seen_by(log)
    with pytest.raises(LogConflict):
        compact(entries, summarizer=writer, log=log, direction="from", at=entries[4]["uuid"])
    assert seen_by(log) == [*before, LATER]


def test_an_automatic_one_tells_the_conflict_and_raises_nothing(log):
    def writer(request: Any) -> str:
        log.append(LATER)
        return NINE

    entries = log.resume().entries
    given = {"direction": "from", "at": entries[4]["uuid"], "trigger": "auto"}
    result = compact(entries, summarizer=writer, log=log, **given)
    assert (result.outcome, result.reason) == (Outcome.FAILED, "log_conflict")
    assert isinstance(result.error, LogConflict)


# ---- two at once -----------------------------------------------------------------------------


def outcomes(results: list[Any]) -> list[str]:
    return sorted(
        type(r).__name__ if isinstance(r, BaseException) else r.outcome.value for r in results
    )


def two(form: str, log: TranscriptLog) -> list[Any]:
    """Both begin with the same context, and write only when both have begun."""
    entries = log.resume().entries
    if form == "sync":
        together, results = threading.Barrier(2, timeout=10), []

        def one() -> None:
            try:
                writer = lambda request: together.wait() >= 0 and NINE  # noqa: E731
                results.append(compact(entries, keep=0, summarizer=writer, log=log))
            except LogConflict as error:
                results.append(error)

        threads = [threading.Thread(target=one) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        return results

    async def both() -> list[Any]:
        begun: list[int] = []

        async def writer(request: Any) -> str:
            begun.append(1)
            while len(begun) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            return NINE

        calls = (acompact(entries, keep=0, summarizer=writer, log=log) for _ in range(2))
        return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(both())


@BOTH
def test_of_two_at_once_one_wins(form, log, monkeypatch):
    look = log.resume

    def slow_look() -> Any:
        found = look()
        # So that both have looked before one writes, unless something holds them apart.
        time.sleep(0.05)
        return found

    monkeypatch.setattr(log, "resume", slow_look)
    results = two(form, log)
    assert outcomes(results) == ["LogConflict", "compacted"]
    won = next(r for r in results if not isinstance(r, BaseException))
    assert seen_by(log) == resume(won.messages).messages
    legal(seen_by(log))
    boundaries = [line for line in _bytes(log).splitlines() if b"compact_boundary" in line]
    assert len(boundaries) == 1


@BOTH
def test_two_managers_do_not_touch(form):
    managers = [
        ContextManager(model="claude-opus-4-5", summarizer=lambda r: NINE, keep=0) for _ in "ab"
    ]
    for manager, mark in zip(managers, "ab", strict=True):
        for message in turns(4):
            manager.add(message)
        manager.add({"role": "user", "content": f"only {mark}"})
    if form == "sync":
        results = [manager.compact() for manager in managers]
    else:

        async def both() -> list[Any]:
            return await asyncio.gather(*(manager.acompact() for manager in managers))

        results = asyncio.run(both())
    assert outcomes(results) == ["compacted", "compacted"]
    for manager, mark, other in zip(managers, "ab", "ba", strict=True):
        assert f"only {mark}" in words(manager.prepare().messages)
        assert f"only {other}" not in words(manager.messages)


def test_two_compactions_of_one_manager_at_once():
    async def both() -> tuple[list[Any], ContextManager]:
        begun: list[int] = []

        async def writer(request: Any) -> str:
            begun.append(1)
            while len(begun) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            return NINE

        manager = ContextManager(model="claude-opus-4-5", summarizer=writer, keep=0)
        for message in turns():
            manager.add(message)
        calls = (manager.acompact() for _ in range(2))
        return await asyncio.gather(*calls, return_exceptions=True), manager

    results, manager = asyncio.run(both())
    assert outcomes(results) == ["LogConflict", "compacted"]
    won = next(r for r in results if not isinstance(r, BaseException))
    assert words(manager.messages) == words(won.messages)
    assert manager.history == turns()


def test_a_message_that_a_manager_gets_meanwhile_stays():
    async def main() -> ContextManager:
        begun = asyncio.Event()

        async def writer(request: Any) -> str:
            begun.set()
            await asyncio.sleep(0.05)
            return NINE

        manager = ContextManager(model="claude-opus-4-5", summarizer=writer, keep=0)
        for message in turns():
            manager.add(message)
        task = asyncio.create_task(manager.acompact())
        await begun.wait()
        manager.add(LATER)
        assert (await task).compacted
        return manager

    manager = asyncio.run(main())
    assert manager.messages[-1] is LATER
    assert manager.history == [*turns(), LATER]


# ---- cancelled -------------------------------------------------------------------------------


def full_job(log: TranscriptLog) -> Any:
    """With every kind of effect: a retry, hooks, files, state, clean-up, the log."""
    hook = CallableHook(lambda payload: None)
    return job_of(
        log.resume().entries,
        summarizer=ScriptedSummarizer("overloaded", "empty"),
        log=log,
        keep=0,
        hooks=Hooks(pre_compact=hook, session_start=hook, post_compact=hook),
        providers=Providers(
            read_file=lambda path: f"text of {path}",
            plan=lambda: ("/w/plan.md", "first"),
            clean_up=(lambda: None,),
        ),
    )


def stopped(form: str, log: TranscriptLog, place: int) -> tuple[list[Any], Any]:
    """The kinds of effects up to a place where the flow is cancelled, and how it ended."""
    given, kinds = full_job(log), list[Any]()
    own, asynchronous = Unhurried(), UnhurriedAsync()

    def perform(effect: Any) -> Any:
        kinds.append(type(effect))
        if len(kinds) - 1 == place:
            raise Cancelled("stop")
        return own(effect) if form == "sync" else asynchronous(effect)

    try:
        if form == "sync":
            return kinds, drive(compaction_flow(given), perform)
        return kinds, asyncio.run(adrive(compaction_flow(given), perform))
    except CompactionError as error:
        return kinds, error


@BOTH
def test_cancelled_at_every_effect_the_log_is_as_before_or_as_after(form, tmp_path):
    place = installed = 0
    while True:
        with TranscriptLog.open(tmp_path / f"{place}.jsonl", envelope={"sessionId": "s"}) as log:
            log.extend(turns())
            before = _bytes(log)
            kinds, end = stopped(form, log, place)
            changed = _bytes(log) != before
            messages = seen_by(log)
        legal(messages)
        if isinstance(end, CompactionError):
            assert end.code == "aborted"
            assert not changed
            assert messages == turns()
        else:
            installed += 1
            assert changed
            assert resume(end.messages).messages == messages
        if len(kinds) <= place:
            break  # the flow ended before this place: it ran to its end
        place += 1
    assert {Emit, Wait, Call} <= set(kinds)
    assert 1 < installed < place


def _bytes(log: TranscriptLog) -> bytes:
    with open(log.path, "rb") as file:  # noqa: PTH123 - the path is a string
        return file.read()


class After:
    """A cancel token that is set once it was looked at so often."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


@BOTH
def test_a_token_stops_a_summary_that_is_being_written(form):
    stop = threading.Event()
    writer = ScriptedSummarizer(Step("hang", seconds=20))
    threading.Timer(0.15, stop.set).start()
    items = turns()
    with pytest.raises(CompactionError) as caught:
        run(form, items, summarizer=writer, cancel=stop, trigger="auto")
    assert caught.value.code == "aborted"
    assert items == turns()
    writer.release()


@BOTH
def test_a_token_stops_a_pause(form):
    stop = threading.Event()
    threading.Timer(0.15, stop.set).start()
    with pytest.raises(CompactionError) as caught:
        run(form, turns(), summarizer=ScriptedSummarizer(after="overloaded"), cancel=stop)
    assert caught.value.code == "aborted"


@BOTH
@pytest.mark.parametrize("looks", range(0, 12, 3))
def test_a_token_that_is_set_at_any_look(form, looks, log):
    before = _bytes(log)
    result: Any = None
    with contextlib.suppress(CompactionError):
        result = run(form, log.resume().entries, log=log, cancel=After(looks))
    assert (_bytes(log) == before) == (result is None)
    if result is not None:
        assert resume(result.messages).messages == seen_by(log)


# ---- hooks -----------------------------------------------------------------------------------

BROKEN = {
    "raises": CallableHook(lambda payload: 1 / 0),
    "hangs": CallableHook(lambda payload: threading.Event().wait(2), timeout_seconds=0.05),
    "garbage": CallableHook(lambda payload: object()),
    "exit 9": ShellHook("exit 9"),
    "half JSON": ShellHook("printf '{\"decision\": '; exit 1"),
    "noise": ShellHook("head -c 3000 /dev/urandom"),
    "a torn surrogate": ShellHook("printf '\\355\\240\\200'"),
    "sleeps": ShellHook("sleep 20", timeout_seconds=0.2),
    "killed": ShellHook("kill -9 $$"),
}


@BOTH
@pytest.mark.parametrize("name", BROKEN)
def test_no_broken_hook_stops_a_compaction(form, name, log):
    hook = BROKEN[name]
    hooks = Hooks(pre_compact=hook, session_start=hook, post_compact=hook)
    result = run(form, log.resume().entries, log=log, hooks=hooks)
    assert result.compacted
    assert resume(result.messages).messages == seen_by(log)
    legal(seen_by(log))


@BOTH
def test_a_coroutine_hook_that_hangs(form, log):
    async def hang(payload: Any) -> None:
        await asyncio.sleep(20)

    hook = CallableHook(hang, timeout_seconds=0.05)
    result = run(form, log.resume().entries, log=log, hooks=Hooks(pre_compact=hook))
    assert result.compacted


@BOTH
def test_a_failure_leaves_the_log_as_it_was(form, log):
    before = _bytes(log)
    policy = Policy().change({"summary.retries": 0})
    with pytest.raises(CompactionError):
        run(form, log.resume().entries, log=log, summarizer=lambda r: "", policy=policy)
    assert _bytes(log) == before

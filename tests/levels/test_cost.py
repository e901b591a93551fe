"""What a rewrite costs and saves: by hand for one case, then its rules, and the policy that waits for it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from tests.kit import result, said, text, use, user
from ullage.counting.models import lookup
from ullage.counting.window import WindowSettings
from ullage.legality import validate
from ullage.levels import Decision, View
from ullage.levels.cost import FLOOR_TOKENS, cost_of, expected_cost, is_cold, working_size
from ullage.levels.view import StageReport
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.replay import SessionScript, replay_session
from ullage.sessions import open_session
from ullage.testing import ScriptedSummarizer

OPUS = lookup("claude-opus-4-5")
TEN = "0123456789" * 4  # ten tokens by the rough estimate


def view_of(*sizes: int) -> View:
    """Messages of so many tokens each, by turns of user and assistant; all sent."""
    view = View()
    for at, size in enumerate(sizes):
        view.add({"role": ("user", "assistant")[at % 2], "content": TEN * (size // 10)})
    view.mark_sent()
    return view


def freed(view: View, tokens: int, first: int | None) -> StageReport:
    now = view.ledger.tokens()
    return StageReport(
        stage="x", why="", tokens_before=now + tokens, tokens_after=now, first_changed=first
    )


def test_one_case_by_hand():
    view = view_of(10_000, 2_000, 30_000, 8_000)
    found = cost_of(freed(view, 20_000, 1), view, OPUS, overhead_tokens=5_000)
    assert OPUS.prices.cache_write_5m == Decimal("6.25")
    assert OPUS.prices.cache_read == Decimal("0.5")
    assert (found.first_changed, found.cached_tokens) == (1, 15_000)
    assert found.rewritten_tokens == 40_000
    assert found.rewrite_nanousd == 40_000 * 5_750
    assert found.saving_nanousd == 20_000 * 500
    # (1.25 - 0.1) x 40 000 against 0.1 x 20 000 a request.
    assert found.break_even_turns == 23
    assert found.priced


def test_what_was_never_sent_costs_nothing():
    view = view_of(10_000, 2_000)
    assert cost_of(freed(view, 20_000, None), view, OPUS) is None
    view.add({"role": "user", "content": TEN * 500})
    assert cost_of(freed(view, 20_000, 1), view, OPUS).rewritten_tokens == 2_000


def test_nothing_freed_is_no_rewrite_to_be_weighed():
    view = view_of(10_000, 2_000)
    assert cost_of(freed(view, 0, 0), view, OPUS) is None


def test_what_another_level_broke_is_not_counted_twice():
    view = view_of(10_000, 2_000, 30_000, 8_000)
    assert cost_of(freed(view, 500, 1), view, OPUS, broken_from=2).rewritten_tokens == 2_000
    assert cost_of(freed(view, 500, 2), view, OPUS, broken_from=1).break_even_turns == 0


def test_a_cold_cache_and_a_prefix_that_is_too_short_cost_nothing():
    view = view_of(10_000, 2_000, 30_000, 8_000)
    found = cost_of(freed(view, 500, 1), view, OPUS, cold=True)
    assert (found.rewritten_tokens, found.cached_tokens, found.break_even_turns) == (0, 0, 0)
    short = view_of(1_000, 2_000)
    assert OPUS.cache.min_tokens == 4_096
    assert cost_of(freed(short, 500, 0), short, OPUS).break_even_turns == 0


def test_a_model_without_prices_is_weighed_by_the_usual_ratios():
    view = view_of(10_000, 2_000, 30_000, 8_000)
    found = cost_of(freed(view, 20_000, 1), view, replace(OPUS, prices=None))
    assert not found.priced
    assert found.break_even_turns == 23


def test_the_first_changed_block_is_named():
    view = View()
    uses = [{"type": "tool_use", "id": n, "name": "Bash", "input": {}} for n in ("a", "b")]
    results = [{"type": "tool_result", "tool_use_id": n, "content": TEN * 900} for n in ("a", "b")]
    view.add({"role": "user", "content": "go"})
    view.add({"role": "assistant", "content": uses})
    view.add({"role": "user", "content": results})
    view.mark_sent()
    chosen = [(r, Decision(r.id, "x", "gone")) for r in view.results() if r.id == "b"]
    found = cost_of(view.report("x", "", chosen), view, OPUS)
    assert (found.first_changed, found.first_block) == (2, 1)


def test_the_cache_is_cold_after_its_shortest_life():
    view = View()
    view.add({"role": "user", "content": "go"})
    view.add({"role": "assistant", "content": "x", "timestamp": "2026-01-01T00:00:00Z"})
    then = 1_767_225_600_000
    assert not is_cold(view, OPUS, then + 300_000)
    assert is_cold(view, OPUS, then + 300_001)
    assert not is_cold(view, OPUS, None)


@given(st.lists(st.integers(1, 900), min_size=2, max_size=8), st.data())
def test_what_is_expected_is_what_is_found(sizes, data):
    view = view_of(*(10 * size for size in sizes))
    first = data.draw(st.integers(0, len(sizes) - 1))
    gone = view.ledger.message(first).tokens
    expected = expected_cost(view, OPUS, first, gone)
    report = view.rearranged("x", "", [at for at in range(len(view)) if at != first])
    found = cost_of(report, view, OPUS) if report.freed > 0 else None
    if first == len(sizes) - 1:
        assert expected.rewritten_tokens == 0
    elif found is not None:
        assert found == expected


# ---- through the manager


def steps(count: int, size: int) -> list[dict]:
    said: list[dict] = [{"role": "user", "content": "go"}]
    for number in range(count):
        name, given_ = f"t{number}", {"file_path": f"/f{number}"}
        said += [
            {"role": "assistant", "content": [{"type": "tool_use", "id": name, "name": "Read", "input": given_}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": "word " * size}]},
        ]  # fmt: skip
    return said


def played(policy: Policy) -> ContextManager:
    manager = ContextManager(model="claude-opus-4-5", policy=policy)
    for message in steps(40, 1_500):
        manager.add(message)
        if message["role"] == "user":
            manager.prepare()
    return manager


LADDER = Policy.ladder().change({"micro.line_start_percent": 10, "micro.keep_recent": 20})


def test_each_rewrite_in_the_account_says_what_it_costs():
    manager = played(LADDER)
    reports = [r for r in manager.explain().left if r.stage == "microcompact"]
    assert reports
    assert all(report.cost.break_even_turns > 0 for report in reports)
    assert all(report.cost.first_changed == report.first_changed for report in reports)
    saved = json.loads(json.dumps(manager.save(history=True)))
    restored = ContextManager.restore(saved).explain().left
    assert [report.cost for report in restored] == [r.cost for r in manager.explain().left]


def cleared(policy: Policy) -> list[StageReport]:
    return [each for each in played(policy).explain().left if each.stage == "microcompact"]


def test_a_change_waits_until_it_pays_within_half_of_the_requests_so_far():
    assert not cleared(LADDER.change({"cost.wait_requests": 1}))
    acted, usual = cleared(LADDER.change({"cost.wait_requests": 10_000})), cleared(LADDER)
    assert 0 < len(acted) < len(usual)
    assert all(each.cost.break_even_turns <= each.request // 2 + 1 for each in acted)
    assert any(each.cost.break_even_turns > each.request // 2 + 1 for each in usual)


def test_snipping_waits_too_and_takes_the_results_that_pay():
    """A long result early in a long talk waits; one near its end breaks little, and is snipped."""
    early = Policy.ladder().change({"snip.start_percent": 12, "cost.wait_requests": 3})

    def snipped(policy):
        manager = ContextManager(model="claude-opus-4-5", policy=policy)
        manager.add(user("look"))
        for at in range(40):
            size = 12_000 if at in (1, 38) else 2_500
            manager.add(said([use(f"t{at}")]))
            manager.add(user([result(f"t{at}", f"line {at}\n" * (size // 8))]))
            manager.observe(said([text(f"Seen {at}. " + "Words about it. " * 60)]))
            manager.add(user(f"next {at}"))
            manager.prepare()
        snips = (report for report in manager.explain().left if report.stage == "snip")
        return [name for report in snips for name in report.tool_use_ids]

    assert snipped(early.change({"cost.wait_requests": 0})) == ["t1", "t38"]
    assert snipped(early) == ["t38"]


# ---- how much of a large window the levels work in


LARGE = lookup("claude-opus-5-5")


def worked_in(**stated) -> tuple[int, int, int]:
    """The window that the levels work in, the one that a request must fit, and the trigger."""
    window = ContextManager(**{"model": LARGE.name, **stated}).machine.window
    return window.context, window.prompt, window.threshold


def test_a_large_window_is_worked_in_as_one_of_200_000_tokens():
    assert LARGE.context_window == 1_000_000
    assert worked_in() == (200_000, 1_000_000, 167_000)
    assert worked_in(model="claude-opus-4-5") == (200_000, 200_000, 167_000)


@pytest.mark.parametrize(
    ("stated", "tokens"),
    [
        ({"policy": Policy.buffered().change({"cost.work": "fidelity"})}, 1_000_000),
        ({"policy": Policy.buffered().change({"cost.work_tokens": 400_000})}, 400_000),
        ({"policy": Policy.buffered().change({"auto.start_percent": 80})}, 1_000_000),
        ({"policy": Policy.buffered().change({"auto.reactive_only": True})}, 1_000_000),
        ({"policy": Policy.buffered().change({"auto.enabled": False})}, 1_000_000),
        ({"settings": WindowSettings(auto_compact_window=300_000)}, 300_000),
    ],
)
def test_who_says_how_much_of_the_window_to_use_is_obeyed(stated, tokens):
    assert worked_in(**stated)[0] == tokens


def test_a_large_system_prompt_and_costly_writing_make_the_size_larger():
    policy = Policy.buffered()
    small, large = (working_size(LARGE, policy, overhead_tokens=each) for each in (0, 150_000))
    assert small.tokens == FLOOR_TOKENS > small.cheapest_tokens
    # System prompt and tools take nothing of the conversation's room.
    assert large.tokens == FLOOR_TOKENS + 150_000 > large.cheapest_tokens
    read = LARGE.prices.cache_write_5m / 50
    costly = replace(LARGE, prices=replace(LARGE.prices, cache_read=read))
    found = working_size(costly, policy, overhead_tokens=150_000)
    assert large.tokens < found.tokens == found.cheapest_tokens < 1_000_000
    cheap = replace(LARGE, prices=replace(LARGE.prices, cache_write_5m=LARGE.prices.cache_read))
    assert working_size(cheap, policy).cheapest_tokens < small.cheapest_tokens
    least = working_size(LARGE, policy.change({"cost.work": "price"}))
    assert least.tokens == least.cheapest_tokens < FLOOR_TOKENS


def test_what_must_stay_may_pass_the_size_that_was_found():
    """The size is a wish: nothing is refused that the window holds."""
    manager = ContextManager(model=LARGE.name)
    manager.add({"role": "user", "content": "word " * 260_000})
    request = manager.prepare()
    assert request.tokens > 200_000
    assert request.messages == manager.history


def test_costs_say_what_was_saved_and_by_which_level():
    manager = played(LADDER)
    found = manager.costs()
    assert found.requests == manager.machine.requests
    assert found.size.tokens == 200_000
    assert found.priced
    assert set(found.by_level) == {report.stage for report in manager.explain().left}
    assert sum(found.by_level.values()) == pytest.approx(found.saved_dollars, rel=0.02)


def test_what_no_level_touched_has_cost_what_it_would_have_without():
    manager = played(Policy.buffered())
    assert not manager.explain().left
    found = manager.costs()
    assert found.dollars == found.unmanaged_dollars > 0
    run = replay_session(SessionScript(steps(40, 1_500)), None, model="claude-opus-4-5")
    assert found.dollars == pytest.approx(run.nanousd / 1e9, rel=0.001)


# Compaction while nobody works on a conversation.


def paused(policy: Policy = LADDER, **given) -> tuple[ContextManager, list[int]]:
    """A conversation above half of its trigger, whose newest request was made at the clock's time."""
    now = [1_700_000_000_000]
    policy = policy.change({"micro.by_line": False, "micro.by_supersession": False})
    manager = ContextManager(model=OPUS.name, policy=policy, clock=lambda: now[0], **given)
    for message in [*steps(60, 1_500), said(text("done"))]:
        manager.add(message)
        if message["role"] == "user":
            manager.prepare()
    return manager, now


def test_a_host_knows_from_when_on_a_compaction_pays_while_nobody_works():
    manager, now = paused()
    began, tokens = now[0], manager.usage().tokens
    assert tokens < manager.window.threshold
    assert manager.idle_at() == began + 300_000
    assert manager.compact_idle() is None
    now[0] = began + 300_000
    report = manager.compact_idle()
    assert report.stage == "autocompact"
    assert manager.usage().tokens == tokens - report.freed < tokens // 2
    assert manager.idle_at() is None
    assert manager.compact_idle() is None
    manager.add(user("go on"))
    assert validate(manager.prepare().messages).ok


@pytest.mark.parametrize(
    ("rules", "later"),
    [
        ({"cost.cache_seconds": 3_600}, 3_600_000),
        ({"auto.idle_percent": 100}, None),
        ({"auto.enabled": False}, None),
        ({"keep.min_tokens": 200_000, "keep.max_tokens": 200_000}, None),
    ],
)
def test_when_a_compaction_while_idle_pays(rules, later):
    manager, now = paused(LADDER.change(rules))
    assert manager.idle_at() == (None if later is None else now[0] + later)


def test_a_summary_by_a_model_is_asked_for_while_the_cache_holds_the_conversation():
    writer = ScriptedSummarizer()
    manager, now = paused(summarizer=writer)
    assert now[0] < manager.idle_at() < now[0] + 300_000
    now[0] = manager.idle_at()
    assert manager.compact_idle().stage == "autocompact"
    assert len(writer.requests) == 1


def test_a_background_task_waits_and_gives_way_to_a_request():
    async def played(busy: bool) -> tuple[StageReport | None, float]:
        manager, now = paused()
        waited = 0.0

        async def sleep(seconds: float) -> None:
            nonlocal waited
            waited = seconds
            now[0] += int(seconds * 1_000)
            if busy:
                manager.add(user("go on"))
                await manager.aprepare()

        return await manager.acompact_idle(sleep=sleep), waited

    report, waited = asyncio.run(played(busy=False))
    assert (report.stage, waited) == ("autocompact", 300.0)
    assert asyncio.run(played(busy=True))[0] is None


@pytest.mark.parametrize(("percent", "pause", "compacts"), [(50, 301, True), (50, 299, False), (0, 900, False), (99, 900, False)])  # fmt: skip
def test_the_next_request_is_compacted_after_a_pause_where_the_policy_says_so(
    percent, pause, compacts
):
    manager, now = paused(LADDER.change({"auto.idle_percent": percent}))
    manager.add(user("go on"))
    now[0] += pause * 1_000
    acted = [each for each in manager.prepare().reports if each.stage == "autocompact"]
    assert [each.why for each in acted] == ["the provider's cache has run out"] * compacts


def test_a_list_that_comes_whole_is_compacted_after_a_pause_too():
    """As in the gateway: an answer is seen only with the request after it, so that its time says nothing."""
    now = [1_700_000_000_000]
    policy = Policy.buffered().change({"auto.idle_percent": 50})
    manager = ContextManager(model=OPUS.name, policy=policy, clock=lambda: now[0])
    items = [user("read"), *steps(60, 1_500)]
    assert manager.changed_view(items, unchanged=0) is None
    items = [*items, said(text("done")), user("go on")]
    now[0] += 301_000
    (report,) = manager.changed_view(items, unchanged=len(items) - 2).reports
    assert report.why == "the provider's cache has run out"


# ---- what was reported, against what was to be expected


def audited(turns, **given) -> list[tuple]:
    """`costs().audit` after requests whose answers report (read, written), some of them changed first."""
    now = [1_700_000_000_000]
    manager = ContextManager(model=OPUS.name, clock=lambda: now[0], **given)
    for read, written, act in turns:
        act(manager, now)
        manager.add(user("word " * 2_000))
        manager.prepare()
        usage = {
            "input_tokens": 10,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "output_tokens": 3,
        }
        model = manager.model.name
        manager.observe(
            {"type": "message", "role": "assistant", "model": model, "content": [text("yes")], "usage": usage}
        )  # fmt: skip
    return list(manager.costs().audit)


def as_before(manager, now):
    now[0] += 1_000


def later(manager, now):
    now[0] += 301_000


def compacted(manager, now):
    manager.compact(keep=0)


def another_model(manager, now):
    manager.machine.change_model(lookup("claude-opus-4-6"))


def other_tools(manager, now):
    tools = [{"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}]
    manager.machine.change_overhead("", tools, tools)


@pytest.mark.parametrize(
    ("act", "read", "cause"),
    [
        (as_before, 12_000, ""),
        (as_before, 0, "unknown"),
        (later, 0, "expired"),
        (another_model, 0, "model"),
        (other_tools, 0, "tools"),
        (compacted, 0, "compact"),
    ],
)
def test_an_audit_compares_each_request_with_its_forecast_and_names_the_cause(act, read, cause):
    first, second, third = audited([
        (0, 9_000, as_before),
        (9_000, 3_000, as_before),
        (read, 15_000 - read, act),
    ])  # fmt: skip
    assert (first.expected_read, first.cause) == (0, "")
    assert (second.expected_read, second.read, second.cause) == (9_000, 9_000, "")
    assert second.expected_written == pytest.approx(3_000, rel=0.2)
    assert (third.read, third.written, third.cause) == (read, 15_000 - read, cause)
    assert third.expected_read == (0 if act in (later, compacted) else 12_000)


def test_answers_that_report_nothing_of_the_cache_are_not_audited():
    manager = ContextManager(model="gpt-5.5", provider="openai")
    manager.add({"role": "user", "content": "hello"})
    manager.prepare()
    manager.observe({"role": "assistant", "content": "yes", "usage": {"input_tokens": 9}})
    assert manager.costs().audit == ()


def test_a_prompt_that_is_long_no_more_saves_at_every_token():
    model = lookup("gpt-5.6-sol")
    above = model.long_context.above_tokens
    view = view_of(above - 10_000, 20_000, 10)
    first, freed = 1, 15_000
    found = expected_cost(view, model, first, freed)
    read = [int(1000 * each.cache_read) for each in (model.prices, model.long_context)]
    left = found.cached_tokens + found.rewritten_tokens
    assert left < above < left + freed
    assert found.saving_nanousd == (left + freed) * read[1] - left * read[0] > freed * read[1]


@pytest.mark.parametrize(
    ("provider", "model", "body"),
    [
        ("openai", "gpt-5.5", lambda prompt, read: {
            "choices": [{"message": {"role": "assistant", "content": "yes"}}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": read}},
        }),
        ("openai_responses", "gpt-5.5", lambda prompt, read: {
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]}],
            "usage": {"input_tokens": prompt, "output_tokens": 3, "input_tokens_details": {"cached_tokens": read}},
        }),
        ("gemini", "gemini-3-pro", lambda prompt, read: {
            "candidates": [{"content": {"role": "model", "parts": [{"text": "yes"}]}}],
            "usageMetadata": {"promptTokenCount": prompt, "candidatesTokenCount": 3, "cachedContentTokenCount": read},
        }),
        ("bedrock", "claude-opus-4-5", lambda prompt, read: {
            "output": {"message": {"role": "assistant", "content": [{"text": "yes"}]}},
            "usage": {"inputTokens": 10, "outputTokens": 3, "cacheReadInputTokens": read, "cacheWriteInputTokens": prompt - 10 - read},
        }),
    ],
)  # fmt: skip
def test_what_each_provider_reports_of_its_cache_is_stored_and_audited(
    provider, model, body, tmp_path
):
    log = tmp_path / "session.jsonl"
    manager = ContextManager(model=model, provider=provider, log=log)
    for prompt, read in ((12_800, 0), (15_360, 12_672)):
        manager.add(said_by_user(provider, "word " * 2_000))
        manager.prepare()
        manager.observe(body(prompt, read))
    first, second = manager.costs().audit
    manager.close()
    assert (first.read, second.read, second.cause) == (0, 12_672, "")
    assert 12_672 <= second.expected_read <= 12_800
    assert first.written == pytest.approx(12_800, abs=128)
    stored = [entry for entry in open_session(log).items if "usage" in entry.get("message", {})]
    usage = stored[-1]["message"]["usage"]
    assert usage["cache_read_input_tokens"] == 12_672
    assert sum(usage.values()) == 15_360 + 3


def said_by_user(provider, words):
    if provider in ("gemini", "bedrock"):
        return {"role": "user", "parts" if provider == "gemini" else "content": [{"text": words}]}
    return {"role": "user", "content": words}

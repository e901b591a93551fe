"""Each level before the summary: when it acts, when it must not, and what it leaves alone (AUTO-9, BUD-1, SNIP-1)."""

from __future__ import annotations

import copy

import pytest

from tests.level_kit import act, context_of
from ullage.exceptions import ContextTooLarge, StoreError
from ullage.levels import (
    StageReport,
    View,
    microcompact,
    snip,
    tool_budget,
)
from ullage.levels.snip import head, snipped, tail
from ullage.levels.truncate import truncated
from ullage.policy import Policy
from ullage.recall.store import FileStore, MemoryStore

POLICY = Policy.buffered()
HOUR = 3_600_000


def call(number: int, name: str = "Bash", **given: object) -> dict:
    block = {
        "type": "tool_use",
        "id": f"t{number}",
        "name": name,
        "input": given or {"command": f"run {number}"},
    }
    return {"role": "assistant", "content": [block]}


def result(number: int, text: object, **more: object) -> dict:
    block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text, **more}
    return {"role": "user", "content": [block]}


def view_of(*pairs: tuple[dict, dict]) -> View:
    view = View()
    view.add({"role": "user", "content": "please"})
    for asked, answered in pairs:
        view.add(asked)
        view.add(answered)
    return view


def shown(view: View, number: int) -> object:
    return view.messages[2 * number]["content"][0]["content"]


def micro(
    view: View, policy: Policy, percent: int, now_ms: int | None = None
) -> StageReport | None:
    return act(microcompact.LEVEL, context_of(view, policy, percent=percent, now_ms=now_ms))


def truncate(view: View, limit: int, overhead: int, margin: int) -> StageReport | None:
    policy = POLICY.change({"truncate.margin_tokens": margin})
    return truncated(context_of(view, policy, overhead_tokens=overhead), limit)


def lines(count: int) -> str:
    return "".join(f"line {at} of the output\n" for at in range(count))


# ---- tool-result budget


def test_a_large_result_goes_to_the_store_and_comes_back_equal():
    text, store = lines(4_000), MemoryStore()
    view = view_of((call(1), result(1, text)), (call(2), result(2, "short")))
    report = act(tool_budget.LEVEL, context_of(view, POLICY, store=store))
    assert report.tool_use_ids == ("t1",)
    assert shown(view, 1).startswith("<persisted-output>")
    assert f"{len(text):,} characters" in shown(view, 1)
    assert store.get("t1") == text
    assert shown(view, 2) == "short"
    assert report.freed > 0


def test_results_of_one_message_are_budgeted_together_largest_first():
    store = MemoryStore()
    policy = POLICY.change(
        {"tool_budget.max_result_chars": 50_000, "tool_budget.max_message_chars": 60_000}
    )
    view = View()
    sizes = {1: 30_000, 2: 45_000, 3: 20_000}
    view.add({"role": "assistant", "content": [call(n)["content"][0] for n in sizes]})
    for number, size in sizes.items():
        view.add(result(number, "x" * size))
    report = act(tool_budget.LEVEL, context_of(view, policy, store=store))
    assert report.tool_use_ids == ("t2",)


def test_a_decision_is_made_once():
    store = MemoryStore()
    view = view_of((call(1), result(1, "x" * 1_000)))
    assert act(tool_budget.LEVEL, context_of(view, POLICY, store=store)) is None
    view.sent = len(view)
    strict = POLICY.change(
        {"tool_budget.max_result_chars": 100, "tool_budget.max_message_chars": 100}
    )
    assert act(tool_budget.LEVEL, context_of(view, strict, store=store)) is None


def test_tools_without_a_limit_images_and_empty_results():
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="},
    }
    view = view_of(
        (call(1, "Read", file_path="/a"), result(1, "x" * 90_000)),
        (call(2), result(2, [{"type": "text", "text": "y" * 90_000}, image])),
        (call(3), result(3, "")),
    )
    report = act(tool_budget.LEVEL, context_of(view, POLICY, store=MemoryStore()))
    assert report.tool_use_ids == ("t3",)
    assert "no output" in shown(view, 3)


def test_a_failing_store_means_a_snip_and_is_reported():
    class Full:
        def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
            raise StoreError("no space left", path="/full")

        def get(self, name: str) -> None:
            return None

    view = view_of((call(1), result(1, lines(4_000))))
    report = act(tool_budget.LEVEL, context_of(view, POLICY, store=Full()))
    assert "no space left" in report.failures[0]
    assert "characters taken out here" in shown(view, 1)


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/passwd", "a/b", "..", "", "x" * 500, "nul\0", "\ud800"]
)
def test_no_id_escapes_the_store(tmp_path, name):
    store = FileStore(tmp_path / "store")
    store.put(name, "text \ud800")
    assert store.get(name) == "text \ud800"
    assert [path.parent for path in tmp_path.rglob("*.txt")] == [tmp_path / "store"]


def test_putting_twice_is_harmless(tmp_path):
    store = FileStore(tmp_path)
    assert store.put("a", "one") == store.put("a", "one")
    assert store.get("a") == "one"
    assert store.put("a", "one") != store.put("a", "two")


def test_a_store_that_cannot_be_written_is_a_typed_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        FileStore(tmp_path / "file" / "below").put("a", "x")


# ---- snip


def test_a_long_result_loses_its_middle():
    text = lines(1_000)
    view = view_of((call(1), result(1, text)), (call(2), result(2, "short")))
    assert act(snip.LEVEL, context_of(view, POLICY, percent=49)) is None
    report = act(snip.LEVEL, context_of(view, POLICY, percent=50))
    short = shown(view, 1)
    assert report.tool_use_ids == ("t1",)
    assert short.startswith("line 0 of")
    assert short.endswith("line 999 of the output\n")
    assert 'recall handle "t1"' in short
    assert act(snip.LEVEL, context_of(view, POLICY, percent=99)) is None


@pytest.mark.parametrize("size", [10_001, 17_000, 200_000, 3_000_000])
@pytest.mark.parametrize("text", ["a", "line of code\n", "語 "])
def test_a_snipped_result_is_bounded_however_long_it_was(size, text):
    view = view_of((call(1), result(1, text * (size // len(text) + 1))), (call(2), result(2, "")))
    assert act(snip.LEVEL, context_of(view, POLICY, percent=50)) is not None
    assert 5_000 < len(shown(view, 1)) < 6_000 + 150


def test_the_ladder_snips_results_only_under_pressure_and_after_an_answer():
    ladder = Policy.ladder()
    view = view_of((call(1), result(1, lines(1_000))))
    # The model has not seen it.
    assert act(snip.LEVEL, context_of(view, ladder, percent=99)) is None
    view.add({"role": "assistant", "content": "I see."})
    assert act(snip.LEVEL, context_of(view, ladder, percent=39)) is None
    assert act(snip.LEVEL, context_of(view, ladder, percent=40)) is not None


def test_what_no_answer_has_followed_is_shortened_only_where_the_request_does_not_fit():
    view = view_of((call(1), result(1, lines(1_000))))
    assert act(snip.LEVEL, context_of(view, POLICY, percent=99)) is None
    assert act(snip.LEVEL, context_of(view, POLICY, percent=101)) is not None
    view = view_of((call(1), result(1, lines(1_000))))
    assert (
        act(snip.LEVEL, context_of(view, POLICY.change({"snip.on_arrival": True}), percent=0))
        is not None
    )


@pytest.mark.parametrize(
    "text", ["👨‍👩‍👧" * 500, "e\u0301" * 800, "\r\n" * 900, "語" * 1_500, "a" * 1_501]
)
def test_cuts_do_not_split_characters(text):
    short = snipped(text, 30, 30)
    first, last = head(text, len(text) * 3 // 10), tail(text, len(text) * 3 // 10)
    assert text.startswith(first)
    assert text.endswith(last)
    for part in (first[-1:], last[:1]):
        assert part not in ("\u200d", "\u0301") or part == first[-1:]
    assert not last.startswith(("\u0301", "\u200d", "\n"))
    assert str(len(text) - len(first) - len(last))[:1] in short


# ---- microcompact


def reads(count: int, size: int = 4_000) -> list[tuple[dict, dict]]:
    return [
        (call(n, "Read", file_path=f"/f{n}"), result(n, f"{n}\n" + "word " * (size // 5)))
        for n in range(1, count + 1)
    ]


def test_supersession_clears_the_older_read_only():
    pairs = reads(12)
    pairs[8] = (call(9, "Read", file_path="/f1"), pairs[8][1])
    view = view_of(*pairs)
    policy = POLICY.change({"micro.min_freed_tokens": 0})
    report = micro(view, policy, 50)
    assert report.tool_use_ids == ("t1",)
    assert report.paths == ("/f1",)
    assert shown(view, 1) == microcompact.CLEARED
    assert micro(view_of(*pairs), policy, 39) is None


def test_lines_for_the_older_half_keep_the_newest_and_errors():
    pairs = reads(20)
    pairs[1] = (pairs[1][0], result(2, "boom " * 800, is_error=True))
    view = view_of(*pairs)
    report = micro(view, Policy.ladder(), 60)
    assert "t2" not in report.tool_use_ids
    assert report.tool_use_ids == tuple(f"t{n}" for n in range(1, 10) if n != 2)
    assert shown(view, 1).startswith("[Compacted: Read /f1; ")
    assert micro(view, Policy.ladder(), 60) is None


def test_by_time_only_after_the_pause_and_only_where_it_is_on():
    on = POLICY.change({"micro.by_time": True, "micro.by_supersession": False})
    pairs = reads(8)
    for asked, _ in pairs:
        asked["timestamp"] = "2026-01-01T00:00:00Z"
    now = 1_767_225_600_000
    view = view_of(*pairs)
    assert micro(view, on, 0, now + HOUR - 1) is None
    assert micro(view, POLICY.change({"micro.by_supersession": False}), 99, now + HOUR) is None
    report = micro(view, on, 0, now + HOUR)
    assert report.tool_use_ids == ("t1", "t2", "t3")


def test_a_pass_that_frees_too_little_is_not_done():
    view = view_of(*reads(8, size=50))
    assert micro(view, Policy.ladder(), 90) is None


def test_other_tools_are_left_alone():
    view = view_of(
        *[(call(n, "AskUser", q=str(n)), result(n, "word " * 900)) for n in range(1, 12)]
    )
    assert micro(view, Policy.ladder(), 90) is None


# ---- truncation


def test_oldest_rounds_go_and_the_newest_input_stays():
    view = view_of(*reads(10))
    view.add({"role": "assistant", "content": "done"})
    view.add({"role": "user", "content": "and now?"})
    report = truncate(view, 5_000, 500, 100)
    assert view.ledger.tokens() <= 4_400
    assert view.messages[-1]["content"] == "and now?"
    assert f"{report.removed_messages} earlier messages" in view.messages[0]["content"]
    assert not view.ledger.keep_window(0).orphans
    assert truncate(view, 5_000, 500, 100) is None


def test_a_floor_that_does_not_fit_is_named():
    view = View()
    view.add({"role": "user", "content": "word " * 9_000})
    with pytest.raises(ContextTooLarge) as caught:
        truncate(view, 2_000, 700, 100)
    assert caught.value.limit_tokens == 2_000
    assert caught.value.parts["system and tools"] == 700
    assert len(view) == 1


# ---- all


def test_inputs_are_not_touched_and_other_messages_stay_the_same_objects():
    pairs = reads(20, size=30_000)
    before = copy.deepcopy(pairs)
    view = view_of(*pairs)
    act(snip.LEVEL, context_of(view, POLICY, percent=0))
    micro(view, Policy.ladder(), 70)
    assert pairs == before
    assert all(view.messages[2 * n - 1] is pairs[n - 1][0] for n in range(1, 21))


def test_truncation_keeps_the_call_of_a_result_that_words_came_with():
    """A user may type while a tool runs: their words stand in the message that answers it."""
    view = View()
    view.add({"role": "user", "content": "please"})
    for number in range(6):
        view.add(call(number))
        view.add(result(number, lines(200)))
    view.add(call(6))
    answer = result(6, "done")["content"]
    view.add({"role": "user", "content": [*answer, {"type": "text", "text": "and the docs"}]})
    report = truncate(view, 900, 0, 0)
    assert report is not None
    assert [message["role"] for message in view.messages] == ["user", "assistant", "user"]
    assert view.messages[1] == call(6)

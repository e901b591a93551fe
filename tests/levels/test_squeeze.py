"""A newest part that is larger than the window by itself: results give way, the user's words do not."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings, strategies as st

from tests.kit import view_of
from tests.level_kit import act, context_of
from tests.oracle.legality import assert_legal
from ullage.counting.models import ModelTable
from ullage.exceptions import ContextTooLarge
from ullage.levels import StageReport, View, squeeze
from ullage.levels.level import Goal
from ullage.manager import ContextManager
from ullage.policy import Policy

MODEL = "claude-opus-4-5"
# Nothing else may help: what is tested is the last way out.
BARE = Policy.buffered().change(
    {"auto.enabled": False, "snip.enabled": False, "micro.tools": ["None"], "tool_budget.enabled": False}
)  # fmt: skip
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}


def burst(*sizes: int, media: bool = False) -> list[dict]:
    """One response with a call for each size, and their results of so many words."""
    calls = [
        {"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {}} for n in range(len(sizes))
    ]
    results = [
        {
            "type": "tool_result",
            "tool_use_id": f"t{n}",
            "content": [{"type": "text", "text": "word " * size}, PNG] if media else "word " * size,
        }
        for n, size in enumerate(sizes)
    ]
    said = [{"role": "user", "content": "please look"}, {"role": "assistant", "content": calls}]
    return [*said, {"role": "user", "content": results}]


def shrunk(view: View, room: int) -> StageReport | None:
    return act(squeeze.LEVEL, context_of(view, BARE, goal=Goal(room, refused=True)))


def test_the_largest_give_way_and_small_ones_stay():
    view = view_of(burst(20_000, 90, 9_000))
    report = shrunk(view, 15_000)
    assert report.tool_use_ids == ("t0", "t2")
    assert view.ledger.tokens() <= 15_000
    shown = [block["content"] for block in view.messages[2]["content"]]
    assert shown[1] == "word " * 90
    assert shown[0].startswith("word word")
    assert "characters taken out here" in shown[0]


def test_what_fits_stays():
    view = view_of(burst(900))
    assert shrunk(view, view.ledger.tokens()) is None
    assert shrunk(view, view.ledger.tokens() - 1) is not None


def test_words_of_the_user_do_not_give_way():
    view = view_of([{"role": "user", "content": "word " * 9_000}])
    assert shrunk(view, 5_000) is None
    manager = ContextManager(
        model=MODEL, policy=BARE, table=ModelTable.builtin().learned(MODEL, 8_000)
    )
    manager.add({"role": "user", "content": "word " * 9_000})
    with pytest.raises(ContextTooLarge) as caught:
        manager.prepare()
    assert caught.value.parts


def test_results_with_images_say_that_they_held_some():
    view = view_of(burst(5_000, media=True))
    shrunk(view, 1_000)
    assert "characters and media left out" in view.messages[2]["content"][0]["content"]


def test_a_figure_of_the_provider_above_our_estimate_is_minded():
    manager = ContextManager(
        model=MODEL, policy=BARE, table=ModelTable.builtin().learned(MODEL, 20_000)
    )
    messages = [m for turn in range(12) for m in chat(turn)]
    for message in messages[:-1]:
        manager.add(message)
    assert manager.machine.view.ledger.tokens() < 16_000
    usage = {
        "input_tokens": 20_100,
        "output_tokens": 40,
    }  # automatic compaction is off: above the window
    manager.observe({"role": "assistant", "content": "done", "usage": usage})
    manager.add({"role": "user", "content": "and now?"})
    request = manager.prepare()
    assert [report.stage for report in request.reports] == ["fold"]
    assert request.tokens < 20_000


def chat(turn: int) -> list[dict]:
    part = burst(900)
    for message in part[1:]:
        for block in message["content"]:
            block.update({key: f"c{turn}" for key in ("id", "tool_use_id") if key in block})
    return [*part, {"role": "assistant", "content": "done"}]


def test_older_words_give_way_only_where_nothing_else_can():
    manager = ContextManager(
        model=MODEL, policy=BARE, table=ModelTable.builtin().learned(MODEL, 12_000)
    )
    manager.add({"role": "user", "content": "first " * 12_000})
    manager.add({"role": "assistant", "content": "fine"})
    manager.add({"role": "user", "content": "The newest words."})
    for turn in range(12):
        for message in chat(turn)[1:3]:
            manager.add(message)
    request = manager.prepare()
    assert [report.stage for report in request.reports] == ["fold"]
    assert request.messages[1]["content"] == "The newest words."
    record = request.messages[0]["content"]
    assert "first first" in record
    assert len(record) < 40_000 < len(manager.history[0]["content"])


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 30_000), min_size=1, max_size=12),
    st.lists(st.integers(0, 4_000), max_size=6),
    st.integers(6_000, 30_000),
    st.booleans(),
)
def test_with_a_small_floor_there_is_always_a_way(newest, older, window, media):
    messages: list[dict] = []
    for number, size in enumerate(older):
        part = burst(size)
        for message in part[1:]:
            for block in message["content"]:
                for key in ("id", "tool_use_id"):
                    if key in block:
                        block[key] = f"old{number}"
        messages += [*part, {"role": "assistant", "content": "done"}]
    messages += burst(*newest, media=media)
    before = copy.deepcopy(messages)
    manager = ContextManager(
        model=MODEL, policy=BARE, table=ModelTable.builtin().learned(MODEL, window)
    )
    for message in messages:
        manager.add(message)
    request = manager.prepare()
    assert request.tokens <= window
    assert messages == before
    assert any("please look" in str(m["content"]) for m in request.messages)
    assert_legal("anthropic", request.messages, model=MODEL)
    for result in manager.machine.view.decisions:
        assert manager.recall.get(result).items[0] in [b for m in before for b in m["content"]]

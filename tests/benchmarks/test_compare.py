"""The comparison with peers: fair figures, whatever is installed, and a chart for each measure."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET

import pytest
from benches.peers import compare, comparison_page, talks
from benches.peers.context import MAKERS, Contender, same
from benches.peers.more_libraries import LIBRARIES

from tests.kit import said, user
from ullage.testing import scenario


def test_a_contender_that_changes_nothing_keeps_everything_and_is_over_the_budget(monkeypatch):
    monkeypatch.setattr(compare, "BUDGET", 4_000)
    found = scenario(1, tokens=12_000)
    talk = talks._talk("made", found.messages, dict.fromkeys(found.truth.user_messages))
    nothing = compare.score_of(Contender("nothing", "anthropic", same, same, same), [talk])
    assert nothing.kept == nothing.prefix == nothing.facts == [1.0]
    assert nothing.legal == [True]
    assert nothing.within == [False]

    empty = Contender("newest", "anthropic", same, lambda messages: messages[-1:], same)
    cut = compare.score_of(empty, [talk])
    assert cut.prefix == [0.0]
    assert cut.facts[0] < 1
    assert cut.dollars[0] < nothing.dollars[0]


def test_facts_are_found_in_the_arguments_of_a_call():
    after = [
        {"role": "assistant", "tool_calls": [{"function": {"arguments": '{"text": "a\\nb"}'}}]}
    ]
    assert compare.held(["a\nb"], after) == 1.0
    assert compare.held(["a\nc"], after) == 0.0
    assert compare.held([], after) is None


def test_what_is_missing_or_fails_is_left_out_and_named(monkeypatch, capsys):
    def broken() -> Contender:
        raise ModuleNotFoundError("no such peer")

    talk = talks._talk("t", [user("a"), said("b"), user("c")], ["a"], ["a"])
    chosen = {"broken": broken, "ullage: all levels": MAKERS["ullage: all levels"]}
    monkeypatch.setattr(compare, "CONTENDERS", chosen)
    found = compare.scores({"made": [talk]}, list(chosen))["made"]
    assert [score.name for score in found] == ["ullage: all levels"]
    assert "not here: broken: no such peer" in capsys.readouterr().err
    group = comparison_page.Group("made", 1, found)
    page = comparison_page.table(group, compare.BUDGET, compare.MODEL, compare.LATER)
    assert "| | legal, % | within budget, % |" in page
    assert "| ullage: all levels | 100.0 | 100.0 |" in page
    assert "100.0 %" in comparison_page.chart([group], "legal")
    for measure in comparison_page.CHARTS:
        drawing = comparison_page.chart([group], measure)
        assert ET.fromstring(drawing).tag.endswith("svg")


@pytest.mark.parametrize("name", ["ullage: compact, extractive", "ullage: clear tool uses, keep 3"])
def test_our_own_contenders_are_measured(name):
    talk = talks._talk("t", scenario(2, tokens=60_000).messages, ["nothing of the kind"])
    found = compare.score_of(MAKERS[name](), [talk])
    assert found.legal == [True]
    assert found.facts == [0.0]
    assert found.dollars[0] > 0


def test_a_contender_that_takes_too_long_is_stopped_and_named(monkeypatch):
    monkeypatch.setattr(compare, "LONGEST", 1)
    found = scenario(1, tokens=4_000)
    talk = talks._talk("made", found.messages, ["x"])

    def slow(messages):
        while True:
            try:
                time.sleep(0.01)
            except Exception:  # as a library that answers any error with what it was given
                return messages

    score = compare.score_of(Contender("slow", "anthropic", same, slow, same), [talk, talk])
    assert (score.late, score.legal, score.megabytes) == (1, [], [])
    group = comparison_page.Group("made", 2, [score])
    assert compare.stopped(group) == ["slow was stopped after 1 s at session 1 of 2."]


def test_only_what_stands_between_the_marks_is_replaced(monkeypatch, tmp_path):
    page, tables = tmp_path / "comparison.md", tmp_path / "TABLES.md"
    for path in (page, tables):
        path.write_text(f"a\n{compare.BEGIN}\nold\n{compare.END}\nb\n", encoding="utf-8")
    (tmp_path / "assets" / "comparison").mkdir(parents=True)
    monkeypatch.setattr(compare, "PAGE", page)
    monkeypatch.setattr(compare, "TABLES", tables)
    compare.published("new\n", "all\n", {"legal": "<svg/>"})
    assert page.read_text("utf-8") == f"a\n{compare.BEGIN}\nnew\n{compare.END}\nb\n"
    assert tables.read_text("utf-8") == f"a\n{compare.BEGIN}\nall\n{compare.END}\nb\n"
    assert (tmp_path / "assets" / "comparison" / "legal.svg").read_text("utf-8") == "<svg/>"


@pytest.mark.parametrize("name", list(LIBRARIES))
def test_further_libraries_are_called_as_they_are(monkeypatch, name):
    """Where they are installed: what was given is legal after each, in its own form."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        contender = LIBRARIES[name]()
    except ModuleNotFoundError as error:
        pytest.skip(f"not installed: {error.name}")
    talk = talks._talk("t", scenario(2, tokens=60_000).messages, ["x"])
    found = compare.score_of(contender, [talk])
    assert found.legal == [True]
    assert found.kept[0] < 1


def test_a_contender_that_gives_up_at_a_session_is_measured_on_the_others():
    talks_ = [talks._talk(str(at), scenario(at, tokens=4_000).messages, ["x"]) for at in (1, 2)]
    left = iter([True, False, False])

    def picky(messages):
        if next(left):
            raise RuntimeError("still too long")
        return messages

    score = compare.score_of(Contender("picky", "anthropic", same, picky, same), talks_)
    assert (score.failed, len(score.legal)) == (["RuntimeError"], 1)
    said = compare.stopped(comparison_page.Group("made", 2, [score]))
    assert said == ["picky raised RuntimeError at 1 of 2 sessions; its figures are of the others."]

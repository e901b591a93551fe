"""The board measures what it says: the oracle is ahead, a writer that loses everything holds nothing, every rule stands everywhere."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

if not (Path(__file__).parents[2] / "benches" / "fidelity" / "board.py").exists():
    pytest.skip("the benchmarks are not here", allow_module_level=True)

from benches.fidelity import board, chats, contexts, measures
from benches.fidelity.cuts import Cut

from ullage.testing import scenario


def call(name, **given):
    block = {"type": "tool_use", "id": "t1", "name": name, "input": given}
    return {"role": "assistant", "content": [block]}


def said(text, role="user"):
    return {"role": role, "content": text}


@pytest.fixture(scope="module")
def cells():
    cuts = list(board.made(1, 20_000))
    sessions = [
        board.at_cuts(cuts, cuts, 1_000),
        board._sessions(10, 1, 12_000),
        (board._facts(*chats.chat(1, "planning", 3_000, repeated=False), 25, "talks") for _ in "1"),
        (board._correction(at, 30) for at in range(2)),
    ]
    return [cell for each in sessions for cell in each]


@pytest.fixture(scope="module")
def played(cells):
    return board.play(cells, {contexts.OURS: contexts.ours, **contexts.TRIVIAL}, None, 0)


def test_every_rule_stands_in_every_table_and_none_is_ahead_of_the_oracle(played):
    assert {key[0] for key in played.figures} == {"hold", "next", "story", "goes on"}
    for key, row in played.figures.items():
        assert {board.ORACLE, contexts.OURS, *contexts.TRIVIAL} <= row.keys(), key
        best = fmean(row[board.ORACLE])
        assert best > 0.5, key
        if key[2] != "own summary":  # its oracle takes whole sentences
            assert all(fmean(found) <= best for name, found in row.items() if name != board.OWN), key  # fmt: skip


def test_a_writer_that_loses_everything_holds_nothing_and_is_outdone(cells):
    found = board.play(cells, {contexts.OURS: lambda *_: [], **contexts.TRIVIAL}, None, 0)
    assert all(value == 0 for row in found.figures.values() for value in row[contexts.OURS])
    behind = {key for key, *_ in found.behind()}
    assert {key[0] for key in behind} == {"hold", "next", "story", "goes on"}


def test_the_page_and_the_record_hold_each_figure(played):
    text = board.page(played, 5, ["a peer"], "generated sessions")
    assert "## story: generated" in text
    assert "Not here: a peer." in text
    for key, name, *_ in played.behind():
        assert f"- {' / '.join(key)}: {name}" in text
    assert board.as_json(played).count('"context": "ullage"') == len(played.figures)


def test_nobody_may_have_more_room(cells):
    with pytest.raises(AssertionError):
        cells[0].text(lambda before, _: list(before))


@pytest.mark.parametrize("name", contexts.contenders())
def test_a_context_has_the_size_and_uses_it(name):
    talk = list(scenario(5, tokens=30_000).messages)
    for size in (400, 3_000):
        made = contexts.size_of(contexts.contenders()[name](talk, size))
        assert 0 < made <= size
        assert made >= size * 0.8 or name not in (contexts.OURS, "newest messages")


def test_rules_take_what_they_name():
    talk = [said("one"), said("yes", "assistant"), call("Read", path="a"), said("a longer word")]
    assert contexts.newest(talk, 100)[-1]["content"] == "a longer word"
    assert [m["content"] for m in contexts.newest_users(talk, 4)] == ["a longer word"]
    assert "Read" not in contexts.text_in(contexts.newest_prose(talk, 100))
    assert [m["content"] for m in contexts.first_and_last_users(talk, 100)] == ["one", "a longer word"]  # fmt: skip


def test_identifiers_are_paths_symbols_ids_commands_and_options():
    given = {"command": "go test ./cmd/app && git push --force-with-lease", "path": "/home/me/src/app.py"}  # fmt: skip
    assert {"go test", "git push", "--force-with-lease", "src/app.py"} <= measures.names_of_call(given)  # fmt: skip
    assert measures.names_of_call({"pattern": "parse_header|TypeError and the rest"}) == {"parse_header", "TypeError"}  # fmt: skip


def test_what_stood_before_is_needed_and_is_the_story():
    after = [call("Read", path="src/one.py"), said("the slow query index", "assistant"), call("Read", path="src/new.py")]  # fmt: skip
    cut = Cut("s", "boundary", [said("see src/one.py: slow query")], after, "slow query, new plan")
    assert measures.needs(cut) == {"src/one.py"}
    source = contexts.text_in(cut.before)
    story = measures.story_of(cut, source, measures.Rarity({"s": source, "t": "query"}))
    assert story.pairs_held("a slow query") == 1
    assert story.pairs_held("query slow") == 0
    assert story.words == {"slow", "query"}


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("The port is 1. Now it is 2.\nport 2", True),
        ("port 2\nport 1", False),
        ("port 1 (replaced by 2)\nport 2", True),
        ("port 1", False),
        ("port 2\n(replaced by message 3) port 1", True),
    ],
)
def test_a_corrected_value_stands_last_or_the_old_one_is_marked(text, right):
    assert chats.is_corrected(text, "port 1", "port 2") is right

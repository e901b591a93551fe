"""What a ledger answers, and that every change keeps its answers right."""

from __future__ import annotations

import copy
import random
import sys
from typing import Any

import pytest

from tests.kit import said, user
from ullage.exceptions import InvalidMessage, InvalidPolicy

pytestmark = pytest.mark.usefixtures("_ledger")


@pytest.fixture
def _ledger(engine: Any) -> None:
    if not hasattr(engine, "Ledger"):
        pytest.skip("this engine has no ledger")


def call(name: str, kind: str = "tool_use") -> dict[str, Any]:
    return {"type": kind, "id": name, "name": "Read", "input": {}}


def result(name: str, content: Any = "done", kind: str = "tool_result") -> dict[str, Any]:
    return {"type": kind, "tool_use_id": name, "content": content}


def words(tokens: int) -> str:
    return "word" * tokens


def usage(tokens: int) -> dict[str, int]:
    return {"input_tokens": tokens}


def entry(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": message["role"], "message": message, **more}


BOUNDARY = {"type": "system", "subtype": "compact_boundary", "uuid": "b"}
TITLE = {"type": "custom-title", "customTitle": "x"}


# ---- sums and finding ------------------------------------------------------------------------


def test_ranges_are_slices(engine: Any) -> None:
    ledger = engine.Ledger(None, [user(words(n)) for n in (1, 20, 300, 4000)])
    assert len(ledger) == 4
    assert [ledger.tokens(), ledger.tokens(1), ledger.tokens(1, 3)] == [4321, 4320, 320]
    assert [ledger.tokens(-1), ledger.tokens(0, -1), ledger.tokens(2, 1)] == [4000, 321, 0]
    assert [ledger.tokens(0, 99), ledger.tokens(99), ledger.tokens(-99)] == [4321, 0, 4321]


@pytest.mark.parametrize("index", [3, -4, 10**6])
def test_index_errors(engine: Any, index: int) -> None:
    ledger = engine.Ledger(None, [user()] * 3)
    for ask in (ledger.message, ledger.blocks):
        with pytest.raises(IndexError, match=f"index {index} is outside of 3 messages"):
            ask(index)
    with pytest.raises(IndexError):
        ledger.replace(index, user())
    with pytest.raises(IndexError):
        ledger.string(index + 10)


def test_negative_indices_count_from_the_end(engine: Any) -> None:
    ledger = engine.Ledger(None, [user("a"), said([call("t")])])
    assert ledger.message(-1) == ledger.message(1)
    assert ledger.blocks(-1) == ledger.blocks(1)


def test_finding(engine: Any) -> None:
    items = [
        entry(said([call("a"), call("b")]), uuid="u1"),
        entry(user([result("a"), result("b")]), uuid="u2"),
        entry(said([call("a")]), uuid="u1"),
    ]
    ledger = engine.Ledger(None, items)
    assert (ledger.find_call("a"), ledger.find_call("b"), ledger.find_call("c")) == (
        (2, 0),
        (0, 1),
        None,
    )
    assert (ledger.find_result("a"), ledger.find_result("b")) == ((1, 0), (1, 1))
    assert ledger.find_result("u1") is None
    assert ledger.find_call("") is None


def test_open_calls(engine: Any) -> None:
    items = [
        user([result("late")]),
        said([call("a"), call("late")]),
        user([result("a")]),
        said([call("s", "server_tool_use"), {"type": "tool_use", "name": "x", "input": {}}]),
    ]
    assert engine.Ledger(None, items).open_calls() == [(1, 1), (3, 1)]


def test_boundaries(engine: Any) -> None:
    ledger = engine.Ledger(None, [user(words(9))])
    assert ledger.anchored().total == 9, "no boundary: all counts"
    ledger.extend([BOUNDARY, user(words(20)), BOUNDARY, user(words(300))])
    assert ledger.anchored().total == 300
    ledger.replace(3, user(words(1)))
    assert ledger.anchored().total == 321
    ledger.truncate(1)
    assert ledger.anchored().total == 9


# ---- changes ---------------------------------------------------------------------------------


def test_extend_is_all_or_nothing(engine: Any) -> None:
    ledger = engine.Ledger(None, [user("a")])
    with pytest.raises(InvalidMessage) as caught:
        ledger.extend([said([call("new")], id="m"), {"role": "robot"}])
    assert caught.value.index == 1
    assert (len(ledger), ledger.version, ledger.find_call("new")) == (1, 0, None)
    ledger.append(said([call("other")]))
    assert ledger.string(ledger.blocks(1)[0].id) == "other"


def test_an_empty_id_is_not_that_of_a_call_that_was_taken_back(engine: Any) -> None:
    ledger = engine.Ledger()
    with pytest.raises(InvalidMessage):
        ledger.extend([said([call("new")]), {"role": "robot"}])
    ledger.extend([said([call("")]), said([call("other")])])
    assert [ledger.string(block.id) for at in (0, 1) for block in ledger.blocks(at)] == [
        "",
        "other",
    ]
    ledger.replace(0, said([call("")]))


def test_extend_takes_any_iterable(engine: Any) -> None:
    ledger = engine.Ledger(None, iter([user("a")]))
    assert ledger.extend(user(str(n)) for n in range(3)) == 4
    assert ledger.extend(()) == 4


def test_a_failing_iterable_changes_nothing(engine: Any) -> None:
    def items() -> Any:
        yield user("a")
        raise KeyError("gone")

    ledger = engine.Ledger()
    with pytest.raises(KeyError):
        ledger.extend(items())
    assert len(ledger) == 0


def test_version_grows_with_changes_that_are_no_appends(engine: Any) -> None:
    ledger = engine.Ledger(None, [user("a")])
    ledger.append(said())
    ledger.extend([user("b"), said()])
    assert ledger.version == 0
    ledger.replace(1, said("other"))
    ledger.truncate(3)
    ledger.truncate(3)
    assert ledger.version == 2


def test_changed_since(engine: Any) -> None:
    ledger = engine.Ledger(None, [user(str(n)) for n in range(10)])
    assert ledger.changed_since(0) == 10
    ledger.replace(7, user("x"))
    ledger.replace(3, user("x"))
    ledger.replace(5, user("x"))
    assert [ledger.changed_since(version) for version in range(4)] == [3, 3, 5, 10]
    ledger.truncate(2)
    assert [ledger.changed_since(version) for version in range(5)] == [2, 2, 2, 2, 2]
    ledger.append(user())
    assert ledger.changed_since(3) == 2
    assert ledger.changed_since(4) == 3


def test_replace_with_another_number_of_blocks(engine: Any) -> None:
    items = [said([call("a"), call("b")], id="m"), user([result("a"), result("b")]), user("end")]
    ledger = engine.Ledger(None, items)
    ledger.replace(0, said([call("c")], id="n"))
    fresh = engine.Ledger(None, [said([call("c")], id="n"), *items[1:]])
    assert answers(ledger) == answers(fresh)
    assert ledger.find_call("a") is None


def test_a_failing_replace_changes_nothing(engine: Any) -> None:
    ledger = engine.Ledger(None, [user("a")])
    with pytest.raises(InvalidMessage):
        ledger.replace(0, {"role": "robot"})
    assert (ledger.version, ledger.tokens(), ledger.changed_since(0)) == (0, 0, 1)


@pytest.mark.parametrize("length", [-1, 3, 10**30])
def test_truncate_out_of_range(engine: Any, length: int) -> None:
    with pytest.raises(InvalidPolicy, match="length: must be between 0 and 2"):
        engine.Ledger(None, [user()] * 2).truncate(length)


def strings_of(ledger: Any, digest: Any) -> Any:
    """A block digest with its strings spelled out: their numbers depend on history."""
    return digest._replace(id=ledger.string(digest.id), name=ledger.string(digest.name))


def answers(ledger: Any) -> list[Any]:
    """All that a ledger says of its messages."""
    found: list[Any] = [len(ledger), ledger.tokens(), ledger.anchored()]
    for index in range(len(ledger)):
        message = ledger.message(index)
        response, uuid = ledger.string(message.response_id), ledger.string(message.uuid)
        found.append(message._replace(response_id=response, uuid=uuid))
        found.extend(strings_of(ledger, block) for block in ledger.blocks(index))
        found += [ledger.tokens(index)]
        found += [ledger.keep_window(index, min_tokens=5, max_tokens=9, min_text_messages=2)]
    ids = ("a", "b", "c")
    found += [ledger.find_call(name) for name in ids] + [ledger.find_result(name) for name in ids]
    found += [ledger.rounds(), ledger.open_calls(), ledger.truncate_head(3)]
    return found


def some_item(rng: random.Random) -> dict[str, Any]:
    ids = ("a", "b", "c")
    blocks = [{"type": "text", "text": words(rng.randrange(3))} for _ in range(rng.randrange(2))]
    message = rng.choice(
        [
            user(words(rng.randrange(4))),
            said(
                [*blocks, call(rng.choice(ids))],
                id=rng.choice("mno"),
                usage=usage(rng.randrange(3)),
            ),
            user([*blocks, result(rng.choice(ids))]),
            said(blocks),
        ]
    )
    more = {"uuid": f"u{rng.randrange(9)}", "isSidechain": rng.random() < 0.2}
    return rng.choice([message, message, entry(message, **more), BOUNDARY, TITLE])


@pytest.mark.parametrize("seed", range(12))
def test_any_sequence_of_changes_equals_a_fresh_ledger(engine: Any, seed: int) -> None:
    rng = random.Random(seed)
    ledger, model = engine.Ledger(), []
    for _ in range(40):
        step = rng.randrange(6)
        item = dict(some_item(rng))
        if step == 0 and model:
            at = rng.randrange(len(model))
            ledger.replace(at, item)
            model[at] = item
        elif step == 1:
            at = rng.randint(len(model) // 2, len(model))
            ledger.truncate(at)
            del model[at:]
        elif step == 2:
            model = edited(rng, model)
            ledger.sync(model)
        elif step == 3:
            more = [dict(some_item(rng)) for _ in range(3)]
            model += more
            assert ledger.extend(more) == len(model)
        else:
            model.append(item)
            assert ledger.append(item) == len(model)
        assert answers(ledger) == answers(engine.Ledger(None, model))


def edited(rng: random.Random, model: list[Any]) -> list[Any]:
    """A copy with some items removed, moved, repeated, replaced or added."""
    copy = list(model)
    for _ in range(rng.randrange(4)):
        at = rng.randint(0, len(copy))
        if rng.random() < 0.5 and at < len(copy):
            del copy[at]
        elif rng.random() < 0.3 and copy:
            copy.insert(at, rng.choice(copy))
        else:
            copy.insert(at, dict(some_item(rng)))
    return copy


# ---- sync ------------------------------------------------------------------------------------


def test_sync_reads_only_what_is_new(engine: Any) -> None:
    items = [user(str(n)) for n in range(50)]
    ledger = engine.Ledger()
    assert ledger.sync(items) == 50
    assert ledger.sync(items) == 0
    assert ledger.sync([*items, user("a"), user("b")]) == 2
    assert ledger.version == 0


def test_sync_follows_every_kind_of_edit(engine: Any) -> None:
    items: list[Any] = [user(str(n)) for n in range(20)]
    ledger = engine.Ledger(None, items)
    for index in (3, 7, 15):
        items[index] = user("new")
    assert ledger.sync(items) == 3
    assert ledger.changed_since(0) == 3
    assert ledger.sync(items[:12]) == 0
    assert (len(ledger), ledger.changed_since(1)) == (12, 12)
    assert ledger.sync([user("summary"), *items[8:12]]) == 1
    assert (len(ledger), ledger.changed_since(2)) == (5, 0)
    assert ledger.sync([]) == 0
    assert (len(ledger), ledger.tokens()) == (0, 0)


def test_sync_knows_appended_items(engine: Any) -> None:
    first, second = user("a"), said("b")
    ledger = engine.Ledger()
    ledger.append(first)
    ledger.extend([second])
    ledger.replace(0, third := user("c"))
    assert ledger.sync([third, second]) == 0


def test_an_edit_in_place_needs_replace(engine: Any) -> None:
    items = [user(words(1)), user(words(2)), user(words(3))]
    ledger = engine.Ledger(None, items)
    items[1]["content"] = words(50)
    assert (ledger.sync(items), ledger.tokens()) == (0, 6)
    ledger.replace(1, items[1])
    assert (ledger.tokens(), ledger.version) == (54, 1)
    assert ledger.changed_since(0) == 1
    assert ledger.sync(items) == 0


def test_equal_items_are_not_the_same(engine: Any) -> None:
    ledger = engine.Ledger(None, [user("a")])
    assert ledger.sync([user("a")]) == 1


def test_items_are_held(engine: Any) -> None:
    ledger = engine.Ledger()
    ledger.sync([user(words(1))])
    # Had the first item been freed, this one would likely lie at its address.
    assert ledger.sync([user(words(2))]) == 1
    assert ledger.tokens() == 2


def test_a_failing_sync_changes_nothing(engine: Any) -> None:
    items: list[Any] = [user("a"), user("b")]
    ledger = engine.Ledger(None, items)
    with pytest.raises(InvalidMessage) as caught:
        ledger.sync([items[0], user("c"), items[1], 5])
    assert caught.value.index == 3
    assert (len(ledger), ledger.version, ledger.sync(items)) == (2, 0, 0)


@pytest.mark.parametrize("items", [(), iter([]), None])
def test_sync_takes_lists_only(engine: Any, items: Any) -> None:
    with pytest.raises(TypeError):
        engine.Ledger().sync(items)


# ---- anchored count (TOK-4) ------------------------------------------------------------------


def test_no_usage_estimates_all(engine: Any) -> None:
    ledger = engine.Ledger(None, [user(words(5)), said(words(6))])
    assert ledger.anchor() is None
    assert ledger.anchored() == (11, 11, None)
    assert ledger.anchored(4) == (7, 11, None)


def test_the_newest_usage_stands_for_all_before(engine: Any) -> None:
    items = [
        user(words(9)),
        said(words(9), id="a", usage=usage(1000)),
        user(words(9)),
        said(words(9), id="b", usage=usage(2000)),
        user(words(5)),
        said(words(6)),
    ]
    ledger = engine.Ledger(None, items)
    assert ledger.anchor() == (3, 3, 4, 2000)
    assert ledger.anchored() == (2011, 11, (3, 3, 4, 2000))
    assert ledger.anchored(freed=500).total == 1511
    assert ledger.anchored(freed=10**9).total == 0


def test_results_between_the_pieces_of_a_response_are_counted(engine: Any) -> None:
    items = [
        user(words(9)),
        said([{"type": "thinking", "thinking": words(3)}], id="r", usage=usage(1000)),
        said([call("a")], id="r", usage=usage(1001)),
        user([result("a", words(40))]),
        said([call("b")], id="r", usage=usage(1002)),
        user([result("b", words(60))]),
    ]
    ledger = engine.Ledger(None, items)
    assert ledger.anchor() == (1, 4, 2, 1002)
    assert ledger.anchored().total == 1002 + 40 + 60


def test_a_piece_without_usage_is_inside_the_figure(engine: Any) -> None:
    items = [
        said(words(3), id="r", usage=usage(1000)),
        user(words(7)),
        said(words(5), id="r"),
    ]
    assert engine.Ledger(None, items).anchored() == (1007, 7, (0, 0, 1, 1000))


def test_synthetic_usage_is_ignored(engine: Any) -> None:
    items = [
        said(words(1), usage=usage(1000)),
        user(words(2)),
        entry(said(words(3), usage=usage(7)), isApiErrorMessage=True),
        said(words(4), model="<synthetic>", usage=usage(8)),
    ]
    assert engine.Ledger(None, items).anchored() == (1009, 9, (0, 0, 1, 1000))


def test_usage_before_a_boundary_is_not_used(engine: Any) -> None:
    items = [said(words(900), usage=usage(1000)), BOUNDARY, user(words(5))]
    ledger = engine.Ledger(None, items)
    assert ledger.anchored() == (5, 5, None)
    ledger.append(said(words(1), usage=usage(50)))
    assert ledger.anchored() == (50, 0, (3, 3, 4, 50))


def test_usage_of_a_message_kept_by_a_compaction_is_not_used(engine: Any) -> None:
    times = ["2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", "2026-01-01T12:00:00Z"]
    kept = entry(said(words(4), usage=usage(1000)), timestamp=times[0])
    items = [{**BOUNDARY, "timestamp": times[1]}, user(words(5)), kept]
    ledger = engine.Ledger(None, items)
    assert ledger.anchored() == (9, 9, None)
    ledger.append(entry(said(words(1), usage=usage(70)), timestamp=times[2]))
    assert ledger.anchored().total == 70


def test_usage_of_another_thread_is_not_used(engine: Any) -> None:
    side = {"isSidechain": True}
    items = [
        entry(user(words(1))),
        entry(said(words(1), usage=usage(1000))),
        entry(said(words(1), usage=usage(5)), **side),
    ]
    assert engine.Ledger(None, items).anchor() == (1, 1, 2, 1000)
    own = [TITLE, *({**item, **side} for item in items)]
    assert engine.Ledger(None, own).anchor() == (3, 3, 4, 5)


@pytest.mark.parametrize(("tokens", "holds"), [(499, False), (500, True), (5_000, True)])
def test_a_figure_below_half_of_the_estimate_anchors_nothing(
    engine: Any, tokens: int, holds: bool
) -> None:
    first = {**said(words(100)), "usage": usage(700)}
    answer = {**said(words(100)), "usage": usage(tokens)}
    ledger = engine.Ledger(None, [user(words(100)), first, user(words(700)), answer])
    assert ledger.tokens() == 1000
    expected = (3, 3, 4, tokens) if holds else None
    assert ledger.anchor() == expected
    assert ledger.anchored().anchor == expected
    assert ledger.anchored().total == (tokens if holds else 1_000)
    # What the provider itself left out is not missing from its figure.
    assert ledger.anchor(500) == (3, 3, 4, tokens)
    assert ledger.anchored(0, 500).total == tokens
    with pytest.raises(InvalidPolicy, match="cleared"):
        ledger.anchor(-1)


def test_what_comes_before_the_providers_own_compaction_is_not_in_its_figure(engine: Any) -> None:
    made = {"role": "assistant", "content": [{"type": "compaction", "content": "short"}]}
    answer = {**said("ok"), "usage": usage(60)}
    ledger = engine.Ledger(None, [user(words(9_000)), made, user(words(40)), answer])
    assert ledger.anchor() == (3, 3, 4, 60)


@pytest.mark.parametrize(
    ("figures", "overhead"),
    [
        ([1_100, 2_300, 3_900], 1_000),  # later ones hold thinking
        ([4_000, 2_200, 3_100], 2_800),  # the first is of another context
        ([300, 280, 250], 200),  # the newest is below the estimate
        (
            [1_100, 400, 300],
            0,
        ),  # all of the newest is less than the excess of the first: of another model
        ([20, 2_200, 3_100], 2_000),  # the first cannot be true
    ],
)
def test_overhead_is_what_the_first_figure_exceeds_the_estimate_by(
    engine: Any, figures: list[int], overhead: int
) -> None:
    items = []
    for figure in figures:
        items += [user(words(90)), {**said(words(10)), "usage": usage(figure)}]
    assert engine.Ledger(None, items).overhead == overhead
    assert engine.Survey(None, items).overhead == overhead
    assert engine.Ledger(None, [user("word")]).overhead is None


# ---- rounds ----------------------------------------------------------------------------------

ROUNDS = {
    "empty": ([], []),
    "no response": ([user(), user()], [0]),
    "before the first response": ([user(), user(), said(id="a"), user()], [0]),
    "each response": ([user(), said(id="a"), user(), said(id="b"), said(id="c")], [0, 3, 4]),
    "starts with a response": ([said(id="a"), user(), said(id="b")], [0, 2]),
    "pieces": ([user(), said(id="a"), user(), said(id="a"), user(), said(id="b")], [0, 5]),
    "without ids": ([user(), said(), said(), user(), said(), user(), said()], [0, 4, 6]),
    "an id after none": ([user(), said(), said(id="a")], [0, 2]),
    "metadata does not part": ([user(), said(), TITLE, said(), BOUNDARY, user(), said()], [0, 6]),
    "sidechain": (
        [entry(user()), entry(said(id="a")), entry(said(id="s"), isSidechain=True), said(id="b")],
        [0, 3],
    ),
    "a sidechain's own": (
        [
            entry(user(), isSidechain=True),
            entry(said(id="a"), isSidechain=True),
            entry(said(id="b"), isSidechain=True),
        ],
        [0, 2],
    ),
}


@pytest.mark.parametrize(("items", "firsts"), ROUNDS.values(), ids=ROUNDS)
def test_rounds(engine: Any, items: list[Any], firsts: list[int]) -> None:
    assert engine.Ledger(None, items).rounds() == firsts


def test_rounds_of_a_range(engine: Any) -> None:
    items = [user(), said(id="a"), user(), said(id="b"), user(), said(id="c"), user()]
    ledger = engine.Ledger(None, items)
    assert ledger.rounds(2) == [2, 5]
    assert ledger.rounds(3, 5) == [3]
    assert ledger.rounds(5, 3) == []
    assert ledger.rounds(-2) == [5]


# ---- keep window (KEEP-1 to KEEP-4) ----------------------------------------------------------


def keep(engine: Any, items: list[Any], start: int, floor: int = 0, **enough: int) -> Any:
    limits = {"min_tokens": 100, "max_tokens": 400, "min_text_messages": 3, **enough}
    return engine.Ledger(None, items).keep_window(start, floor=floor, **limits)


def test_enough_by_tokens_alone(engine: Any) -> None:
    items = [user(words(10))] * 5 + [user(words(400))]
    assert keep(engine, items, 5) == (5, 400, 1, [])


def test_enough_by_tokens_and_messages(engine: Any) -> None:
    items = [user(words(50))] * 10
    assert keep(engine, items, 10) == (7, 150, 3, [])
    assert keep(engine, items, 7) == (7, 150, 3, [])
    assert keep(engine, items, 2) == (2, 400, 8, [])


def test_tokens_without_text_reach_the_maximum(engine: Any) -> None:
    items = [user([result(f"t{n}", words(90))]) for n in range(9)]
    items = [said([call(f"t{n}") for n in range(9)]), *items]
    kept = keep(engine, items, 10)
    assert (kept.start, kept.text_messages, kept.orphans) == (0, 0, [])


def test_everything_if_there_is_not_enough(engine: Any) -> None:
    assert keep(engine, [user("a"), user("b")], 2) == (0, 0, 2, [])


def test_defaults(engine: Any) -> None:
    items = [user(words(2500))] * 30
    assert engine.Ledger(None, items).keep_window(30) == (25, 12_500, 5, [])
    items = [user([result("x", words(2500))])] * 30
    assert engine.Ledger(None, items).keep_window(30).start == 14


def test_a_result_brings_its_call(engine: Any) -> None:
    items = [
        user("go"),
        said([call("a"), call("b")]),
        user([result("a")]),
        user([result("b")]),
        user(),
    ]
    kept = keep(engine, items, 3, min_tokens=0, max_tokens=0)
    assert (kept.start, kept.orphans) == (1, [])


def test_server_tools_pair_too(engine: Any) -> None:
    search = call("s", "server_tool_use")
    items = [user("go"), said([search]), user("x"), said([result("s", [], "web_tool_result")])]
    assert keep(engine, items, 3, min_tokens=0, max_tokens=0).start == 1


def test_a_response_is_kept_whole(engine: Any) -> None:
    items = [user("go"), said("think", id="r"), said([call("a")], id="r"), user([result("a")])]
    assert keep(engine, items, 2, min_tokens=0, max_tokens=0).start == 1


def test_pairs_and_pieces_to_the_fixpoint(engine: Any) -> None:
    items = [
        user("go"),
        said([call("a")], id="r"),
        user([result("a")]),
        said([call("b")], id="r"),
        user([result("b")]),
        said([call("c")], id="r"),
        user([result("c")]),
    ]
    assert keep(engine, items, 6, min_tokens=0, max_tokens=0).start == 1


def test_never_past_the_floor(engine: Any) -> None:
    items = [said([call("a"), call("b")]), user([result("a")]), user([result("b")]), user()]
    kept = keep(engine, items, 4, floor=1)
    assert kept == (1, kept.tokens, 1, [(1, 0), (2, 0)])


def test_never_past_the_newest_boundary(engine: Any) -> None:
    items = [user(words(500)), BOUNDARY, user("a"), BOUNDARY, user(words(9)), user([result("x")])]
    assert keep(engine, items, 6) == (4, 10, 1, [(5, 0)])


def test_a_start_before_the_boundary_stays(engine: Any) -> None:
    items = [user("a"), said([call("a")]), BOUNDARY, user([result("a")])]
    assert keep(engine, items, 1).start == 1
    assert keep(engine, items, 1).orphans == []


def test_pieces_before_the_floor_are_left(engine: Any) -> None:
    items = [said("a", id="r"), said("b", id="r"), said("c", id="r"), user()]
    assert keep(engine, items, 3, floor=1).start == 1


def test_a_result_without_an_id_is_no_orphan(engine: Any) -> None:
    items = [user([{"type": "tool_result", "content": "a"}]), user([result("gone")])]
    assert keep(engine, items, 0).orphans == [(1, 0)]


def test_the_newest_call_before_a_result_is_its_own(engine: Any) -> None:
    items = [
        said([call("a")]),
        user([result("a")]),
        said([call("a")]),
        user([result("a")]),
        said([call("a")]),
    ]
    assert keep(engine, items, 3, min_tokens=0, max_tokens=0).start == 2


BAD_ARGUMENTS = [
    ({"start": 3}, "start", "must be between 0 and 2"),
    ({"start": -1}, "start", "must be between 0 and 2"),
    ({"start": 0, "floor": 3}, "floor", "must be between 0 and 2"),
    ({"start": 0, "min_tokens": -1}, "min_tokens", "must not be negative"),
    ({"start": 0, "max_tokens": -1}, "max_tokens", "must not be negative"),
    ({"start": 0, "min_text_messages": -1}, "min_text_messages", "must not be negative"),
]


@pytest.mark.parametrize(("arguments", "field", "limit"), BAD_ARGUMENTS)
def test_keep_window_out_of_range(engine: Any, arguments: Any, field: str, limit: str) -> None:
    with pytest.raises(InvalidPolicy, match=limit) as caught:
        engine.Ledger(None, [user()] * 2).keep_window(**arguments)
    assert caught.value.field == field


# ---- head truncation (FULL-3) ----------------------------------------------------------------


def turns(count: int) -> list[dict[str, Any]]:
    """Rounds of 10 tokens each; the first has two messages more."""
    opening = [user(words(5)), user(words(5))]
    rounds = [[said(words(4), id=str(n)), user(words(6))] for n in range(count)]
    return [*opening, *(message for each in rounds for message in each)]


HEADS = [
    # rounds, arguments, first message to keep
    (10, {"gap_tokens": None}, 6),
    (10, {"gap_tokens": None, "share_percent": 50}, 12),
    (4, {"gap_tokens": None}, 4),
    (4, {"gap_tokens": None, "share_percent": 100}, 8),
    (1, {"gap_tokens": None}, 0),
    (0, {"gap_tokens": 5}, 0),
    (10, {"gap_tokens": 0}, 4),
    (10, {"gap_tokens": 20}, 4),
    (10, {"gap_tokens": 21}, 6),
    (10, {"gap_tokens": 55}, 12),
    (10, {"gap_tokens": 10**9}, 20),
    (10, {"gap_tokens": 11, "start": 4}, 8),
    (10, {"gap_tokens": None, "start": 20}, 20),
    (10, {"gap_tokens": None, "start": 22}, 22),
]


@pytest.mark.parametrize(("rounds", "arguments", "first"), HEADS)
def test_truncate_head(engine: Any, rounds: int, arguments: Any, first: int) -> None:
    assert engine.Ledger(None, turns(rounds)).truncate_head(**arguments) == first


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"gap_tokens": -1}, "gap_tokens"),
        ({"gap_tokens": None, "start": 99}, "start"),
        ({"gap_tokens": None, "share_percent": 0}, "share_percent"),
        ({"gap_tokens": None, "share_percent": 101}, "share_percent"),
    ],
)
def test_truncate_head_out_of_range(engine: Any, arguments: Any, field: str) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        engine.Ledger(None, turns(3)).truncate_head(**arguments)
    assert caught.value.field == field


# ---- cost ------------------------------------------------------------------------------------


def touched(work: Any) -> int:
    """Python lines and calls that some work runs: a cost that no other process disturbs."""
    count = 0

    def count_event(*_: Any) -> Any:
        nonlocal count
        count += 1
        return count_event

    sys.settrace(count_event)
    try:
        work()
    finally:
        sys.settrace(None)
    return count


def test_a_turn_costs_the_same_at_any_length(engine: Any) -> None:
    """On the twin, whose steps can be counted; the Rust engine's are in `benches/python`."""

    def turn(ledger: Any) -> None:
        ledger.append(said([call("new")], id="n", usage=usage(9)))
        ledger.append(user([result("new")]))
        ledger.anchored()
        ledger.tokens(3)
        ledger.find_result("new")

    short, long = (engine.Ledger(None, turns(count)) for count in (50, 5000))
    assert touched(lambda: turn(long)) == touched(lambda: turn(short))


def test_the_input_is_not_changed(engine: Any) -> None:
    items = [user([result("a", [{"type": "text", "text": "x"}])]), entry(said([call("a")]))]
    before = copy.deepcopy(items)
    engine.Ledger(None, items).keep_window(1)
    assert items == before

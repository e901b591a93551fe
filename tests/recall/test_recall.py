"""Recall: what left is found again, equal; answers are bounded; calls that make no sense are answered (BEY-1)."""

from __future__ import annotations

import copy

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from tests.level_kit import act, context_of
from ullage.exceptions import InvalidPolicy, UnknownHandle
from ullage.levels import Made, View, microcompact, snip, tool_budget, truncate
from ullage.policy import Policy
from ullage.providers import SHAPES
from ullage.recall import RECALL_TOOL, Archive, NamedSpan, Recall, RecallLimits, left
from ullage.recall.store import FileStore, MemoryStore
from ullage.testing import conversation

LOG = "\n".join(f"{number}: request took {number * 7} ms" for number in range(1, 501))


def history() -> list[dict]:
    return [
        {"role": "user", "content": "why is it slow?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look at the log."},
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "cat log"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": LOG}],
        },
        {"role": "assistant", "content": "Request 500 is slow."},
        {"role": "user", "content": "and now?"},
    ]


def recall(**limits: int) -> Recall:
    return Recall(Archive(history()), limits=RecallLimits(**limits))


# ---- handles


def test_a_result_comes_back_as_the_block_that_was_added():
    items = history()
    found = Archive(items).resolve("t1")
    assert found.items == (items[2]["content"][0],)
    assert found.items[0] is items[2]["content"][0]
    assert found.text == LOG
    assert found.title == "Bash cat log"


def test_messages_by_position_by_range_and_by_uuid():
    items = [
        {"type": "user", "uuid": f"u{at}", "message": each} for at, each in enumerate(history())
    ]
    archive = Archive(items)
    assert archive.resolve("m0").items == (items[0],)
    assert archive.resolve("m1-3").items == tuple(items[1:4])
    assert archive.resolve("m1-m3").items == tuple(items[1:4])
    assert archive.resolve("u4").items == (items[4],)


def test_a_span_has_the_name_that_a_level_gave_it():
    items = history()
    archive = Archive(items)
    archive.spans["abc123"] = NamedSpan(0, 3, "the slow log")
    found = archive.resolve("abc123")
    assert found.items == tuple(items[:4])
    assert found.title == "the slow log"


@pytest.mark.parametrize(
    "handle", ["", "t2", "m9", "m3-1", "m-1", "../t1", "@0", "m0-99", "\0", "x" * 999]
)
def test_an_unknown_handle_is_a_typed_error_and_a_polite_answer(handle):
    with pytest.raises(UnknownHandle) as caught:
        Archive(history()).resolve(handle)
    assert caught.value.handle == handle
    answer = recall().call({"handle": handle or "?"})
    assert answer.is_error
    assert len(answer.text) < 300


def test_what_is_only_in_the_store_comes_from_there(tmp_path):
    store = FileStore(tmp_path)
    place = store.put("t9", LOG)
    found = Archive([], store=store).resolve(place)
    assert (found.kind, found.text, found.items) == ("stored", LOG, ())


def test_a_transcript_is_asked_by_uuid_by_offset_and_by_tool_use_id(tmp_path):
    path = tmp_path / "session.jsonl"
    entries = [
        {"type": "user", "uuid": f"u{at}", "message": each} for at, each in enumerate(history())
    ]
    path.write_bytes(b"".join(orjson.dumps(entry) + b"\n" for entry in entries))
    archive = Archive([], transcript=path)
    assert archive.resolve("u3").items == (entries[3],)
    offset = sum(len(orjson.dumps(entry)) + 1 for entry in entries[:3])
    assert archive.resolve(f"@{offset}").items == (entries[3],)
    assert archive.resolve("t1").text == LOG
    for unknown in ("u9", f"@{offset + 1}", "t"):
        with pytest.raises(UnknownHandle):
            archive.resolve(unknown)


def test_lines_that_come_later_are_found():
    items = history()[:2]
    archive = Archive(items)
    with pytest.raises(UnknownHandle):
        archive.resolve("t1")
    items += history()[2:]
    assert archive.resolve("t1").text == LOG


# ---- the tool


def test_lines_and_characters():
    answer = recall().call({"handle": "t1", "first_line": 3, "last_line": 4})
    assert answer.text.splitlines()[1:] == LOG.splitlines()[2:4]
    assert (
        recall().call({"handle": "t1", "offset": 5, "length": 10}).text.endswith("\n" + LOG[5:15])
    )
    assert recall().call({"handle": "t1", "first_line": "500"}).text.endswith(LOG.splitlines()[-1])


def test_a_long_answer_is_cut_at_a_line_and_says_where_to_go_on():
    tool, seen, offset = recall(max_chars=1_000), "", 0
    for _ in range(100):
        head, _, body = tool.call({"handle": "t1", "offset": offset}).text.partition("\n")
        assert f"of {len(LOG)}" in head
        text, more, rest = body.partition("\n[more: offset ")
        seen += text
        if not more:
            break
        assert text.endswith("ms\n")
        offset = int(rest.rstrip("]"))
    assert seen == LOG


def test_search_in_one_handle_and_in_everything():
    answer = recall().call({"handle": "t1", "query": "Took 700 MS"})
    assert answer.text == "t1:100: 100: request took 700 ms"
    # No line holds the phrase; one holds all of its words.
    assert recall().call({"handle": "t1", "query": "3500 took"}).text.startswith("t1:500: ")
    assert "No line" in recall().call({"handle": "t1", "query": "nowhere"}).text


def test_hits_and_lists_are_paged():
    tool = recall(max_hits=3)
    first = tool.call({"handle": "t1", "query": "request took 1"}).text
    assert first.count("\n") == 3
    skip = int(first.rpartition("skip ")[2].rstrip("]"))
    assert tool.call({"handle": "t1", "query": "request took 1", "skip": skip}).text != first


@pytest.mark.parametrize(
    "asked",
    [
        {"handle": 7},
        {"handle": "t1", "first_line": 0},
        {"handle": "t1", "first_line": 5, "last_line": 4},
        {"handle": "t1", "first_line": 501},
        {"handle": "t1", "offset": 10**9},
        {"handle": "t1", "length": True},
        {"query": ["x"]},
    ],
)
def test_calls_that_make_no_sense_are_answered(asked):
    assert recall().call(asked).is_error


@pytest.mark.parametrize("asked", [None, [], "t1", {}, {"unknown": 1}])
def test_a_call_without_anything_lists(asked):
    assert recall().call(asked).text == "Nothing was removed from this conversation."


def test_limits_are_validated():
    with pytest.raises(InvalidPolicy, match=r"recall\.max_chars"):
        RecallLimits(max_chars=0)


@pytest.mark.parametrize("provider", SHAPES)
def test_the_definition_in_every_format(provider):
    assert "recall" in str(RECALL_TOOL.definition(provider))


def test_the_definition_says_the_same_in_each():
    anthropic = RECALL_TOOL.definition()
    chat, responses = (
        RECALL_TOOL.definition("openai_chat"),
        RECALL_TOOL.definition("openai_responses"),
    )
    assert anthropic["input_schema"] == chat["function"]["parameters"] == responses["parameters"]
    assert {anthropic["name"], chat["function"]["name"], responses["name"]} == {"recall"}
    with pytest.raises(InvalidPolicy):
        RECALL_TOOL.definition("other")


# ---- what left


def test_the_list_names_results_and_messages_once():
    items = history()
    view = View()
    for item in items:
        view.add(item)
    short = Policy.buffered().change({"snip.max_chars": 1_000})
    act(snip.LEVEL, context_of(view, short, percent=50))
    archive = Archive(items)
    tool = Recall(archive, listing=lambda: left(archive, view.sources, view.messages))
    assert tool.call({}).text == f"t1: Bash cat log ({len(LOG):,} characters)"
    view.rearranged("test", "", [Made("m", {"role": "user", "content": "[4 earlier messages]"}), 4])
    assert [each.handle for each in left(archive, view.sources, view.messages)] == ["m0-3"]
    assert tool.call({"query": "7 ms"}).text.startswith("m0-3:")


def play(messages: list[dict], policy: Policy) -> tuple[View, MemoryStore]:
    """All levels that there are, one after the other, over a whole conversation."""
    view, store = View(), MemoryStore()
    for message in messages:
        view.add(message)
    for level in (tool_budget.LEVEL, snip.LEVEL, microcompact.LEVEL):
        act(level, context_of(view, policy, percent=100, store=store))
    room = view.ledger.tokens() // 2
    if view.ledger.tokens(len(view) - 3) < room:
        bare = policy.change({"truncate.margin_tokens": 0})
        truncate.truncated(context_of(view, bare), room)
    return view, store


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["coding", "operations", "media", "research"]))
def test_every_removed_id_is_recallable_and_equal(seed, style):
    messages = conversation(seed, tokens=25_000, style=style, ending="user")
    before = copy.deepcopy(messages)
    policy = Policy.ladder().change(
        {
            "tool_budget.max_result_chars": 9_000,
            "snip.max_chars": 3_000,
            "micro.min_freed_tokens": 0,
            "micro.keep_recent": 1,
            "protect.tool_results": 1,
        }
    )
    view, store = play(messages, policy)
    archive = Archive(messages, store=store)
    found = left(archive, view.sources, view.messages)
    assert len({each.handle for each in found}) == len(found)
    whole = {
        at for each in found if each.kind == "messages" for at in range(each.first, each.last + 1)
    }
    kept = {
        at for at, item in enumerate(messages) if any(item is other for other in view.originals)
    }
    assert whole | kept == set(range(len(messages)))
    assert not whole & kept
    for each in found:
        recalled = archive.resolve(each.handle)
        if each.kind == "messages":
            assert recalled.items == tuple(before[each.first : each.last + 1])
        else:
            assert recalled.items[0] in before[each.first]["content"]
            kept_text = store.get(each.handle)
            assert kept_text in (None, recalled.text)
    # Every result that was shortened and still stands there is listed, and something left.
    standing = {result.id for result in view.results()} & set(view.decisions)
    assert standing == {each.handle for each in found if each.kind == "result"}
    assert found
    for result in view.results():
        if result.id in view.decisions:
            assert result.id in {each.handle for each in found}


def test_named_spans_and_what_stands_between_them_are_listed_once():
    items = [{"role": "user", "content": f"message {at}"} for at in range(9)]
    archive = Archive(items)
    archive.spans["first"] = NamedSpan(1, 2, "one thing")
    archive.spans["second"] = NamedSpan(4, 6, "another")
    archive.spans["overlaps"] = NamedSpan(5, 7)
    archive.spans["visible"] = NamedSpan(7, 8)
    found = left(archive, [8], items[8:])
    assert [(each.handle, each.first, each.last) for each in found] == [
        ("m0", 0, 0),
        ("first", 1, 2),
        ("m3", 3, 3),
        ("second", 4, 6),
        ("m7", 7, 7),
    ]
    assert [each.title for each in found][1::2] == ["one thing", "another"]


def test_what_json_writers_refuse_is_rendered_all_the_same():
    from ullage.recall.text import render

    given = {"half": "\ud83d", "large": 10**25, "object": object(), 3: "key"}
    block = {"type": "tool_use", "id": "t", "name": "q", "input": given}
    text = render({"role": "assistant", "content": [block]})
    assert "10000000000000000000000000" in text
    assert "<object>" in text
    text.encode()

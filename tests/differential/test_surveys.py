"""What fills a conversation: both engines say the same of messages of any form, and Rust of the lines of a transcript what they say of the messages in them."""

from __future__ import annotations

import json
from functools import cache

import pytest
from hypothesis import given, settings, strategies as st

from tests.kit.transcripts import Layout, session_file
from ullage import _reference as twin
from ullage.exceptions import InvalidMessage
from ullage.testing import scenario
from ullage.transcript.records import mark_of

rust = pytest.importorskip("ullage._core")

WEIGHTS = {"features": [7] * len(twin.features("")), "blocks": [3] * 15, "messages": [5] * 5}
LIMITS = {
    "max_result": 40, "preview": 90, "snip_max": 10, "snip_kept": 4, "keep_recent": 2, "longest_marker": 50,
    "min_tokens": 30, "max_tokens": 90, "min_text_messages": 2,
}  # fmt: skip

TEXTS = st.sampled_from(
    ["", "a", "/tmp/ä.py", "x" * 60, "[Old tool result content cleared]", "é\ud800"]
)
IDS = st.sampled_from(["", "one", "two", "three"])
INPUTS = st.dictionaries(
    st.sampled_from(["path", "file_path", "notebook_path", "x"]), st.one_of(TEXTS, st.none())
)
BLOCKS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.builds(lambda id_, name, given: {"type": "tool_use", "id": id_, "name": name, "input": given}, IDS, TEXTS, INPUTS),
    st.builds(lambda id_, text, bad: {"type": "tool_result", "tool_use_id": id_, "content": text, "is_error": bad}, IDS, TEXTS, st.booleans()),
    st.builds(lambda data: {"type": "thinking", "thinking": data, "signature": "s"}, TEXTS),
    st.just({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}),
    st.just({"type": "server_tool_use", "id": "s", "name": "web", "input": {"path": "p"}}),
    st.just("no block"),
)  # fmt: skip
MESSAGES = st.builds(
    lambda role, content, id_, usage: {"role": role, "content": content, "id": id_, "usage": {"input_tokens": usage}},
    st.sampled_from(["user", "assistant", "system", "tool"]),
    st.one_of(TEXTS, st.none(), st.lists(BLOCKS, max_size=4)),
    IDS,
    st.integers(0, 3_000),
)  # fmt: skip
CALLS = st.just({"role": "assistant", "content": "", "tool_calls": [{"id": "one", "function": {"name": "f", "arguments": "{}"}}]})  # fmt: skip


def facts(survey):
    tools = survey.result_tools()
    flags = [at % 2 == 0 for at in range(len(tools))], [at % 3 != 0 for at in range(len(tools))]
    return (
        len(survey),
        survey.tokens,
        survey.anchored(),
        survey.overhead,
        survey.facts(),
        tools,
        survey.freeable(LIMITS, *flags),
        repr(survey),
    )


@given(st.lists(st.one_of(MESSAGES, MESSAGES, CALLS), max_size=9))
@settings(max_examples=120, deadline=None)
def test_of_messages(items):
    made = [engine.Survey(engine.Weights(**WEIGHTS), items) for engine in (rust, twin)]
    assert facts(made[0]) == facts(made[1])


def test_a_message_that_nobody_could_take_is_refused_with_its_place():
    for engine in (rust, twin):
        with pytest.raises(InvalidMessage) as caught:
            engine.Survey(None, [{"role": "user", "content": "x"}, {"role": "nobody"}])
        assert caught.value.index == 1


@cache
def made(compactions, sidechains):
    layout = Layout(compactions=compactions, preserve=3, sidechains=sidechains, errors=20)
    return session_file(scenario(1, turns=3), layout=layout, seed=1).to_bytes()


def unmeasured(item):
    message = {key: value for key, value in item["message"].items() if key != "usage"}
    return {**item, "message": message}


@given(st.integers(0, 2), st.booleans(), st.data())
@settings(max_examples=30, deadline=None)
def test_of_lines(compactions, sidechains, draw):
    data = made(compactions, sidechains) + b'{"type": 1}\nnot JSON\n{"type":"user","message":{}}\n'
    ours, theirs = (
        engine.TranscriptIndex.from_bytes(data, engine.Weights(**WEIGHTS))
        for engine in (rust, twin)
    )
    bounds = ours.outline("compact_boundary")
    assert bounds == theirs.outline("compact_boundary")
    marks = [mark_of(at, ours.load(at)) for at in bounds[0]]
    context = ours.context(draw.draw(st.integers(0, len(ours) + 2)), marks)
    if context is None:
        return
    some = [at for at in range(len(ours)) if ours.line(at).message is not None]
    lines = [*context.lines, draw.draw(st.sampled_from(some))]
    others = [(0, [{"role": "user", "content": "instead"}]), (2, [])][: len(lines)]
    stale = [at for at in lines if "message" in ours.load(at)][::2]
    items = [
        item
        for place, at in enumerate(lines)
        for item in dict(others).get(
            place, [unmeasured(ours.load(at)) if at in stale else ours.load(at)]
        )
    ]
    survey = ours.survey(lines, others, stale)
    assert facts(survey) == facts(twin.Survey(twin.Weights(**WEIGHTS), items))


def test_lines_that_are_not_there_are_refused():
    index = rust.TranscriptIndex.from_bytes(
        b'{"type":"user","message":{"role":"user","content":""}}\n'
    )
    with pytest.raises(IndexError):
        index.survey([1], [], [])
    assert index.outline("") == ([], None)
    assert index.context(0, []).lines == []


def test_surrogates_in_a_path(tmp_path):
    call = {"type": "tool_use", "id": "a", "name": "R", "input": {"path": "\ud800é"}}
    entry = {"type": "assistant", "message": {"role": "assistant", "content": [call]}}
    answer = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
    heard = {"type": "user", "message": {"role": "user", "content": [answer]}}
    data = "".join(json.dumps(line) + "\n" for line in (entry, heard)).encode()
    of_lines = rust.TranscriptIndex.from_bytes(data, None).survey([0, 1], [], [])
    for found in (of_lines.facts(), twin.Survey(None, [entry, heard]).facts()):
        assert [row[:3] for row in found.files] == [("\ud800é", 1, 0)]

"""Made sessions as transcript lines: a resume rebuilds what the model was shown (LOG-2, P-2, P-4)."""

from __future__ import annotations

import copy
import itertools
import json

import pytest
from hypothesis import given, settings, strategies as st

from tests.kit.transcripts import Layout, session_file
from ullage.testing import scenario
from ullage.transcript import Transcript, resume

LAYOUTS = [
    Layout(),
    Layout(version="2.1.22", progress=True, interleave=60, microcompact=True),
    Layout(version="1.0.98", sidechains=True, errors=20),
    Layout(compactions=1, errors=0),
    Layout(compactions=2, preserve=4),
    Layout(compactions=3, preserve=9, linking="tail", interleave=50),
    Layout(compactions=1, preserve=3, microcompact=True, noise=90),
]


def blocks(content):
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def merged(messages):
    """User messages in a row as one: results first, as the API demands."""
    found = []
    for message in messages:
        if found and found[-1]["role"] == message["role"] == "user":
            both = blocks(found[-1]["content"]) + blocks(message["content"])
            both.sort(key=lambda block: block["type"] != "tool_result")
            found[-1] = {"role": "user", "content": both}
        else:
            found.append({"role": message["role"], "content": message["content"]})
    return found


@pytest.mark.parametrize("layout", LAYOUTS, ids=range(len(LAYOUTS)))
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_made_sessions_are_rebuilt(layout, seed, tmp_path):
    file = session_file(scenario(seed, turns=14), layout=layout, seed=seed)
    expected = merged(file.context)
    before = copy.deepcopy(file.entries)
    from_list = resume(file.entries)
    assert from_list.messages == expected
    assert file.entries == before
    path = file.write(tmp_path, torn=True)
    from_file = resume(path)
    assert json.dumps(from_file.messages) == json.dumps(expected)
    assert from_file.report.unfinished is not None
    assert from_file.report.bad == ()
    assert from_file.sources == from_list.sources


@pytest.mark.parametrize("layout", LAYOUTS, ids=range(len(LAYOUTS)))
def test_every_entry_is_in_the_context_or_in_the_report_once(layout):
    file = session_file(scenario(5, turns=12), layout=layout)
    found = resume(file.entries)
    shown = {uuid for source in found.sources for uuid in source}
    known = {
        entry["uuid"]
        for entry in file.entries
        if entry["type"] in ("user", "assistant", "attachment")
    }
    assert shown | set(found.report.removed) == known
    assert not shown & set(found.report.removed)


@given(st.integers(0, 10_000), st.integers(1, 9), st.data())
@settings(max_examples=25, deadline=None)
def test_cut_anywhere_the_rest_is_legal_and_nothing_is_invented(seed, turns, draw):
    layout = draw.draw(st.sampled_from(LAYOUTS))
    file = session_file(scenario(seed, turns=turns), layout=layout, seed=seed)
    cut = draw.draw(st.integers(0, len(file.entries)))
    found = resume(file.entries[:cut])
    roles = [message["role"] for message in found.messages]
    assert all(pair != ("user", "user") for pair in itertools.pairwise(roles))
    calls = set()
    for message in found.messages:
        for block in blocks(message["content"]):
            if block["type"] == "tool_result":
                assert block["tool_use_id"] in calls
        calls = {b["id"] for b in blocks(message["content"]) if b["type"] == "tool_use"}
    again = resume(found.entries)
    assert again.messages == found.messages


@given(st.integers(0, 10_000), st.data())
@settings(max_examples=15, deadline=None)
def test_cut_at_any_byte_every_whole_line_counts(seed, draw):
    file = session_file(scenario(seed, turns=3), layout=draw.draw(st.sampled_from(LAYOUTS)))
    data = file.to_bytes()
    cut = draw.draw(st.integers(0, len(data)))
    transcript = Transcript.from_bytes(data[:cut])
    whole = data[:cut].count(b"\n")
    complete = data[cut : cut + 1] == b"\n"
    assert len(transcript) == whole + complete
    assert transcript.messages() == resume(file.entries[: whole + complete]).messages

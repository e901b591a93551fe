"""A file inspected from its index says the same as its session, opened and read whole; both on both engines."""

from __future__ import annotations

import json
from functools import cache

import pytest
from hypothesis import given, settings, strategies as st

from tests.kit.transcripts import Layout, session_file
from ullage._engine import NAME
from ullage.exceptions import UllageError
from ullage.sessions import (
    inspect_session,
    inspected as module,
    open_session,
    remove_parts,
    session_parts,
)
from ullage.testing import scenario

pytestmark = pytest.mark.both_engines

LAYOUTS = [
    Layout(),
    Layout(version="2.1.22", progress=True, interleave=60),
    Layout(version="1.0.98", sidechains=True, errors=20),
    Layout(compactions=1, errors=0),
    Layout(compactions=2, preserve=4),
    Layout(compactions=3, preserve=9, linking="tail", interleave=50),
    Layout(compactions=1, preserve=3, microcompact=True, noise=90),
]


@cache
def made(seed, at, turns):
    return session_file(scenario(seed, turns=turns), layout=LAYOUTS[at], seed=seed).entries


def lines(seed, at, turns=3):
    return list(made(seed, at, turns))


def both_ways(folder, entries):
    path = folder / "session.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))

    def said(look):
        try:
            return look()
        except UllageError as error:
            return type(error), str(error)

    found = said(lambda: inspect_session(path))
    whole = said(lambda: module.inspect_opened(open_session(path)))
    assert found == whole
    return path


@pytest.mark.parametrize("at", range(len(LAYOUTS)))
def test_a_made_session(tmp_path, at):
    path = both_ways(tmp_path, lines(1, at, turns=8))
    fast = module._of_index(path, None, None)
    replayed = LAYOUTS[at].microcompact or NAME == "python"
    assert (fast is None) == replayed, "more than compactions, or no fold: the replay decides"


@given(st.integers(0, 2), st.integers(0, len(LAYOUTS) - 2), st.data())
@settings(max_examples=40, deadline=None)
def test_a_damaged_session(tmp_path_factory, seed, at, draw):
    entries = lines(seed, at)[:40]
    uuids = [entry["uuid"] for entry in entries if "uuid" in entry]
    for _ in range(draw.draw(st.integers(1, 6))):
        at = draw.draw(st.integers(0, len(entries) - 1))
        damage(entries, at, draw.draw(st.integers(0, 9)), draw.draw(st.sampled_from(uuids)))
    both_ways(tmp_path_factory.getbasetemp(), entries)


def damage(entries, at, kind, uuid):
    """One thing that files of crashed, older or rewound sessions have."""
    entry = entries[at]
    message = {"role": "user", "content": "And now?"}
    if kind == 0 and len(entries) > 1:
        del entries[at]
    elif kind == 1:
        entries[at] = {**entry, "parentUuid": uuid}
    elif kind == 2:
        entries[at] = {**entry, "uuid": uuid}
    elif kind == 3:
        entries.insert(at, {"type": "user", "uuid": "new", "parentUuid": uuid, "message": message})
    elif kind == 4:
        metadata = {"preservedMessages": {"uuids": [uuid, "lost"], "anchorUuid": uuid}}
        mark = {"type": "system", "subtype": "compact_boundary", "uuid": "mark"}
        entries.insert(at, {**mark, "logicalParentUuid": uuid, "compactMetadata": metadata})
    elif kind == 5:
        metadata = {"groupUuids": [uuid], "replacementHistory": True}
        segment = {"headUuid": uuid, "tailUuid": entry.get("uuid"), "anchorUuid": uuid}
        metadata["preservedSegment"] = segment
        mark = {"type": "system", "subtype": "compact_boundary", "uuid": uuid}
        entries.insert(at, {**mark, "compactMetadata": metadata})
    elif kind == 6:
        attachment = {"type": "queued_command", "prompt": "and this"}
        entries.insert(at, {"type": "attachment", "uuid": "att", "attachment": attachment})
    elif kind == 7:
        content = "" if at % 2 else []
        entries[at] = {**entry, "message": {**entry.get("message", message), "content": content}}
    elif kind == 8:
        entries[at] = {**entry, "isCompactSummary": True}
    else:
        entries[at] = {
            **entry,
            "isSidechain": True,
            "type": "compact_boundary" if at % 9 == 0 else entry.get("type"),
        }


def test_the_end_of_a_compacted_file_without_a_figure_is_measured_by_what_was_before(tmp_path):
    entries = lines(2, 3)
    cut = next(at for at, entry in enumerate(entries) if entry.get("subtype") == "compact_boundary")
    path = both_ways(tmp_path, entries[: cut + 2])
    found = inspect_session(path)
    assert found.inspection.categories["system prompt and tools"] > 0


def test_the_model_that_the_file_names_last_is_only_a_guess(tmp_path):
    entries = [json.loads(json.dumps(entry)) for entry in lines(0, 0)]
    named = [entry for entry in entries if "model" in entry.get("message", {})]
    assert named
    for entry in named:
        entry["message"]["model"] = "claude-opus-4-7"
    quoted = {"type": "user", "uuid": "last", "message": {"role": "user", "content": "x"}}
    path = tmp_path / "session.jsonl"
    tail = json.dumps({**quoted, "model": "gpt-4o"}, separators=(",", ":"))
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries) + tail + "\n")
    assert inspect_session(path) == module.inspect_opened(open_session(path))
    assert inspect_session(path).model == "claude-opus-4-7"
    assert inspect_session(path, model="gpt-4o").model == "gpt-4o"


def test_an_attachment_without_text_is_left_out(tmp_path):
    nothing = {"type": "attachment", "uuid": "a", "attachment": {"type": "unheard-of"}}
    both_ways(tmp_path, [*lines(0, 0), nothing])


def test_a_session_leaves_copies_of_results_in_its_file_and_an_edit_writes_them_again(tmp_path):
    call = {"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "p"}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "y" * 3_000}
    talk = [("user", "Do"), ("assistant", [call]), ("user", [result]), ("assistant", "Done")]
    entries, parent = [], None
    for at, (role, content) in enumerate([*talk, ("user", "More"), ("assistant", "Yes")]):
        entry = {"type": role, "uuid": f"u{at}", "parentUuid": parent, "sessionId": "s"}
        entries.append({**entry, "message": {"role": role, "content": content}})
        parent = f"u{at}"
    entries[2]["toolUseResult"] = {"stdout": "y" * 3_000}
    path = both_ways(tmp_path, entries)
    opened = open_session(path)
    assert opened.items[2] == {**entries[2], "toolUseResult": None}
    assert opened.transcript is not None
    assert opened.transcript.load(2) == entries[2]
    newest = [part.name for part in session_parts(opened) if part.kind == "turn"][-1]
    edited = remove_parts(opened, [newest])
    assert edited.transcript is not None
    copies = [line for line in edited.transcript.entries() if line.get("copyOfUuid") == "u2"]
    assert [line["toolUseResult"] for line in copies] == [entries[2]["toolUseResult"]]

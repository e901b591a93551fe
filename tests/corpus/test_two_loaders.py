"""Real sessions of Claude Code, compacted, undone and edited: a loader that honours `preservedMessages` and one that walks parents find the same."""

from __future__ import annotations

import shutil

import pytest

from tests.sessions.test_session_chain import along_parents, by_the_boundary, lines_of
from tests.sessions.test_undo_and_edit import (
    along_parents as contents_along_parents,
    by_the_boundary as contents_by_the_boundary,
)
from ullage.exceptions import InvalidPolicy
from ullage.sessions import compact_session, open_session, remove_parts, session_parts
from ullage.sessions.edit import undo_compaction
from ullage.transcript.render import rendered

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.slow,
    # One session was led by a model that no table lists.
    pytest.mark.filterwarnings("ignore::ullage.counting.models.UnknownModelWarning"),
]


def shown(lines, uuids):
    """Those of which a model is shown anything: errors of the client and granted permissions lie on the chain too."""
    known = {line["uuid"]: line for line in lines if line.get("uuid") in uuids}
    return {
        uuid
        for uuid, line in known.items()
        if not line.get("isApiErrorMessage") and rendered(line) is not None
    }


def test_both_find_the_same_after_each_change(claude_code_file, tmp_path):
    path = tmp_path / "s.jsonl"
    shutil.copyfile(claude_code_file, path)
    before = open_session(path)
    done = compact_session(before, output=path, keep=4_000)
    if not done.result.compacted:
        pytest.skip("too short to be compacted")
    lines = lines_of(path)
    assert shown(lines, along_parents(lines)) == shown(lines, by_the_boundary(lines))
    undo_compaction(open_session(path))
    assert open_session(path).messages == before.messages
    assert contents_along_parents(path) == contents_by_the_boundary(path)
    turns = [part.name for part in session_parts(open_session(path)) if part.kind == "turn"]
    try:
        remove_parts(open_session(path), turns[:1])
    except InvalidPolicy:  # the only turn, or one that others stand on
        return
    assert contents_along_parents(path) == contents_by_the_boundary(path)

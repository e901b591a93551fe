"""Entries that are known to be the context are split as if a replay had been asked again."""

from __future__ import annotations

import pytest

from tests.kit import text, user
from tests.kit.transcripts import Layout, session_file
from ullage._engine import core
from ullage.compaction.cut import ReadItems
from ullage.facts.sections import newest_item
from ullage.testing import scenario
from ullage.transcript import resume

LAYOUTS = (Layout(), Layout(compactions=2, preserve=4), Layout(compactions=1, microcompact=True))


@pytest.mark.parametrize("at", range(len(LAYOUTS)))
def test_of_a_session(at):
    items = resume(session_file(scenario(1, turns=4), layout=LAYOUTS[at]).entries).entries
    assert ReadItems.in_context(items).parts == ReadItems.of(items).parts


def test_of_entries_without_ids_and_with_a_provider_s_own_compaction():
    block = {"type": "compaction", "content": "before", "encrypted_content": "x"}
    said = {"type": "assistant", "message": {"role": "assistant", "content": [block]}}
    items = [{"type": "user", "message": user(text("go on"))}, {**said, "uuid": "u"}]
    parts = ReadItems.in_context(items).parts
    assert parts == ReadItems.of(items).parts
    assert parts.ids == (0, "u")
    assert newest_item(parts.context, core.Ledger(None, parts.context)) is not None


def test_of_bare_messages():
    items = [user(text("go on"))]
    assert ReadItems.in_context(items).parts == ReadItems.of(items).parts
